"""What every store does. A test class inherits the suite and says how its store is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeAlias

import pytest

from headgate.core.message import NO_PROPERTIES, Message, Properties, Stored
from headgate.core.names import WHOLE, AppId, MessageId, QueueId, Seq, ServiceId
from headgate.core.outbox import OutboxRow
from headgate.core.steps import Batch, Head, Load, Page, QueueRecord, SinkRecord, Usage
from headgate.core.tally import Tally
from headgate.errors import StoreError
from headgate.store.base import Store

OpenStore: TypeAlias = Callable[[], Awaitable[Store]]
"""Opens the store of this test; again, after it was closed, the same one."""

Q1, Q2, Q3 = QueueId(b"q1"), QueueId(b"q2"), QueueId(b"q3")
S1, S2 = ServiceId(b"s1"), ServiceId(b"s2")
ODD_IDS = [b"", b"\0", b"\0\0", b"a\0b", "größe".encode(), b"\xff" * 255]


def record(queue: QueueId, domain: str = "d", service: ServiceId | None = None) -> QueueRecord:
    return QueueRecord(queue, domain, service)


def stored(
    seq: int,
    queue: QueueId,
    body: bytes = b"body",
    properties: Properties = NO_PROPERTIES,
    apps: tuple[AppId, ...] = (WHOLE,),
) -> Stored:
    message = Message(MessageId(b"id %d" % seq), body, 1000.5 + seq % 1000, properties)
    return Stored(Seq(seq), queue, message, apps)


def creating(*records: QueueRecord) -> Batch:
    return Batch(create={r.queue: r for r in records})


def appending(*messages: Stored) -> Batch:
    return Batch(append={m.seq: m for m in messages})


async def head(store: Store, queue: QueueId, n: int = 100) -> Head | None:
    return (await store.load(Load(heads={queue: n}))).heads.get(queue)


async def seqs(store: Store, queue: QueueId) -> list[int]:
    found = await head(store, queue)
    assert found is not None
    return [s.seq for s in found.first]


async def page(store: Store, service: ServiceId, after: bytes, limit: int) -> list[Head]:
    wanted = Page(service, QueueId(after), limit)
    return (await store.load(Load(pages={wanted}))).pages[wanted]


def ids(heads: Iterable[Head]) -> list[bytes]:
    return [h.record.queue for h in heads]


class StoreConformance:
    """S004-45: one suite proves that all stores give the same answers."""

    @pytest.fixture
    async def store(self, open_store: OpenStore) -> AsyncIterator[Store]:
        store = await open_store()
        yield store
        await store.close()

    async def test_an_empty_store_answers_with_nothing(self, store: Store) -> None:
        asked = Page(S1, QueueId(b""), 10)
        loaded = await store.load(
            Load(
                heads={Q1: 1},
                backlogs={Q1},
                bodies={Seq(1)},
                services={S1},
                pages={asked},
                usage={"d"},
                sinks=True,
            )
        )
        assert not loaded.heads
        assert not loaded.sinks
        assert not loaded.backlogs
        assert not loaded.bodies
        assert not loaded.services
        assert loaded.pages == {asked: []}
        assert loaded.usage == {"d": Usage()}

    async def test_nothing_asked_and_nothing_changed_is_fine(self, store: Store) -> None:
        await store.apply(Batch())
        loaded = await store.load(Load())
        assert not loaded.heads

    async def test_a_head_is_the_oldest_message_of_each_queue(self, store: Store) -> None:
        """S004-34"""
        await store.apply(creating(record(Q1), record(Q2), record(Q3)))
        await store.apply(appending(stored(5, Q2), stored(3, Q1), stored(4, Q1), stored(9, Q3)))
        loaded = await store.load(Load(heads={Q1: 1, Q2: 1}))
        assert loaded.heads == {
            Q1: Head(record(Q1), 2, (stored(3, Q1),)),
            Q2: Head(record(Q2), 1, (stored(5, Q2),)),
        }

    async def test_an_empty_queue_has_an_empty_head_and_an_unknown_one_none(
        self, store: Store
    ) -> None:
        """S004-35: no message for a queue without messages, and no need to ask again."""
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(appending(stored(1, Q2)))
        loaded = await store.load(Load(heads={Q1: 1, Q2: 1, Q3: 1}))
        assert loaded.heads == {
            Q1: Head(record(Q1), 0, ()),
            Q2: Head(record(Q2), 1, (stored(1, Q2),)),
        }

    async def test_each_queue_gets_as_many_first_messages_as_were_asked_of_it(
        self, store: Store
    ) -> None:
        await store.apply(creating(record(Q1), record(Q2), record(Q3)))
        await store.apply(
            appending(
                *(stored(10 * n + k, q) for n in range(5) for k, q in enumerate((Q1, Q2, Q3)))
            )
        )
        loaded = await store.load(Load(heads={Q1: 0, Q2: 2, Q3: 9}))
        assert {q: [s.seq for s in h.first] for q, h in loaded.heads.items()} == {
            Q1: [],
            Q2: [1, 11],
            Q3: [2, 12, 22, 32, 42],
        }
        assert {h.messages for h in loaded.heads.values()} == {5}

    async def test_messages_are_in_the_order_of_their_numbers(self, store: Store) -> None:
        await store.apply(creating(record(Q1)))
        await store.apply(appending(stored(7, Q1), stored(2, Q1)))
        await store.apply(appending(stored(5, Q1), stored(9, Q1), stored(1, Q1)))
        assert await seqs(store, Q1) == [1, 2, 5, 7, 9]
        loaded = await store.load(Load(backlogs={Q1}))
        assert [entry.seq for entry in loaded.backlogs[Q1][1]] == [1, 2, 5, 7, 9]

    async def test_a_batch_creates_a_queue_and_appends_to_it(self, store: Store) -> None:
        await store.apply(Batch(create={Q1: record(Q1)}, append={Seq(1): stored(1, Q1)}))
        assert await seqs(store, Q1) == [1]

    async def test_a_message_comes_back_as_it_was(self, store: Store) -> None:
        message = stored(
            2**63 - 1,
            Q1,
            bytes(range(256)),
            {
                "yes": True,
                "no": False,
                "one": 1,
                "zero": 0,
                "least": -(2**63),
                "most": 2**63 - 1,
                "text": "a\0ö€😀",
                "empty": "",
                "bytes": b"\0\xff",
                "nö\0": "",
            },
            ("", "app\0", 'quoted"', "größe"),
        )
        await store.apply(creating(record(Q1)))
        await store.apply(appending(message))
        found = await head(store, Q1)
        assert found is not None
        assert found.first == (message,)
        kinds = {name: type(item) for name, item in message.message.properties.items()}
        back = found.first[0].message
        assert {name: type(item) for name, item in back.properties.items()} == kinds
        assert back.size == message.message.size

    async def test_an_entry_has_all_but_the_body(self, store: Store) -> None:
        message = stored(4, Q1, b"12345", {"p": True}, ("a", "b"))
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(appending(message, stored(5, Q1)))
        loaded = await store.load(Load(backlogs={Q1, Q2, Q3}))
        assert loaded.backlogs.keys() == {Q1, Q2}
        assert loaded.backlogs[Q2] == (record(Q2), [])
        found, (first, second) = loaded.backlogs[Q1]
        assert found == record(Q1)
        assert (first.seq, first.id, first.arrived) == (4, b"id 4", 1004.5)
        assert (first.size, first.properties, first.apps) == (5 + 1 + 8, {"p": True}, ("a", "b"))
        assert (second.properties, second.apps) == ({}, (WHOLE,))

    async def test_bodies_are_found_by_number(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(appending(stored(1, Q1, b""), stored(2, Q2, b"two"), stored(3, Q1)))
        loaded = await store.load(Load(bodies={Seq(1), Seq(2), Seq(99)}))
        assert loaded.bodies == {1: b"", 2: b"two"}

    async def test_a_body_of_16_mib_comes_back(self, store: Store) -> None:
        body = bytes(range(256)) * (16 * 4096)
        await store.apply(creating(record(Q1)))
        await store.apply(appending(stored(1, Q1, body)))
        loaded = await store.load(Load(bodies={Seq(1)}))
        assert loaded.bodies[Seq(1)] == body

    @pytest.mark.parametrize("odd", ODD_IDS)
    async def test_an_id_may_be_any_bytes(self, store: Store, odd: bytes) -> None:
        queue, service = QueueId(odd), ServiceId(odd)
        message = Message(MessageId(odd), odd, 0.0)
        at = Stored(Seq(1), queue, message, (WHOLE,))
        await store.apply(creating(record(queue, "d\0", service), record(Q1)))
        await store.apply(appending(at))
        await store.apply(Batch(tallies={service: Tally.of([queue])}))
        loaded = await store.load(Load(heads={queue: 1}, services={service}, usage={"d\0", "d"}))
        assert loaded.heads == {queue: Head(record(queue, "d\0", service), 1, (at,))}
        assert loaded.services == {service: Tally.of([queue])}
        assert loaded.usage["d\0"] == Usage(1, 1, len(odd))

    async def test_ids_that_differ_in_a_final_nul_are_two(self, store: Store) -> None:
        a, b = QueueId(b"x"), QueueId(b"x\0")
        await store.apply(creating(record(a), record(b)))
        await store.apply(appending(stored(1, b)))
        assert await seqs(store, a) == []
        assert await seqs(store, b) == [1]

    async def test_deleted_messages_are_gone_and_the_next_is_the_head(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(appending(*(stored(n, Q1) for n in (1, 2, 3)), stored(4, Q2)))
        await store.apply(Batch(delete={Seq(1), Seq(4)}))
        loaded = await store.load(Load(heads={Q1: 1, Q2: 1}, bodies={Seq(1), Seq(2)}))
        assert loaded.heads[Q1] == Head(record(Q1), 2, (stored(2, Q1),))
        assert loaded.heads[Q2] == Head(record(Q2), 0, ())
        assert loaded.bodies.keys() == {2}

    async def test_a_message_may_come_and_go_in_one_batch(self, store: Store) -> None:
        await store.apply(
            Batch(
                create={Q1: record(Q1)},
                append={Seq(1): stored(1, Q1), Seq(2): stored(2, Q1)},
                delete={Seq(1)},
            )
        )
        assert await seqs(store, Q1) == [2]

    async def test_hold_replaces_the_apps_that_are_left(self, store: Store) -> None:
        await store.apply(creating(record(Q1)))
        await store.apply(appending(stored(1, Q1, apps=("a", "b", "c")), stored(2, Q1)))
        await store.apply(Batch(hold={Seq(1): ("b", "c"), Seq(2): ("x",)}))
        await store.apply(Batch(hold={Seq(1): ("c",)}))
        found = await head(store, Q1)
        assert found is not None
        assert [s.apps for s in found.first] == [("c",), ("x",)]

    async def test_hold_of_a_message_of_the_same_batch_wins(self, store: Store) -> None:
        await store.apply(
            Batch(
                create={Q1: record(Q1)},
                append={Seq(1): stored(1, Q1, apps=("a", "b"))},
                hold={Seq(1): (WHOLE,)},
            )
        )
        found = await head(store, Q1)
        assert found is not None
        assert found.first[0].apps == (WHOLE,)

    async def test_what_is_not_there_may_be_held_deleted_and_removed(self, store: Store) -> None:
        await store.apply(creating(record(Q1)))
        await store.apply(Batch(hold={Seq(8): ("a",)}, delete={Seq(9)}, remove={Q3}))
        await store.apply(appending(stored(8, Q1)))
        found = await head(store, Q1)
        assert found is not None
        assert found.first == (stored(8, Q1),)

    async def test_a_number_used_again_does_not_inherit_a_hold(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(appending(stored(1, Q1, apps=("a",)), stored(2, Q2, apps=("a",))))
        await store.apply(Batch(delete={Seq(1)}, remove={Q2}))
        await store.apply(appending(stored(1, Q1), stored(2, Q1)))
        found = await head(store, Q1)
        assert found is not None
        assert [s.apps for s in found.first] == [(WHOLE,), (WHOLE,)]

    async def test_a_removed_queue_takes_its_messages_with_it(self, store: Store) -> None:
        await store.apply(creating(record(Q1, service=S1), record(Q2, service=S1)))
        await store.apply(appending(stored(1, Q1), stored(2, Q2), stored(3, Q1)))
        await store.apply(Batch(remove={Q1}))
        loaded = await store.load(
            Load(heads={Q1: 1, Q2: 1}, bodies={Seq(1), Seq(2), Seq(3)}, usage={"d"})
        )
        assert loaded.heads.keys() == {Q2}
        assert loaded.bodies.keys() == {2}
        assert loaded.usage == {"d": Usage(1, 1, 4)}
        assert ids(await page(store, S1, b"", 10)) == [Q2]

    async def test_a_queue_created_again_is_empty(self, store: Store) -> None:
        await store.apply(creating(record(Q1)))
        await store.apply(appending(stored(1, Q1)))
        await store.apply(Batch(remove={Q1}))
        await store.apply(creating(record(Q1, "other")))
        assert await head(store, Q1) == Head(record(Q1, "other"), 0, ())

    async def test_a_queue_may_go_and_come_back_in_one_batch(self, store: Store) -> None:
        """Removing comes first, so what is named twice was removed and made anew."""
        await store.apply(creating(record(Q1)))
        await store.apply(appending(stored(1, Q1)))
        await store.apply(
            Batch(create={Q1: record(Q1, "new")}, append={Seq(2): stored(2, Q1)}, remove={Q1})
        )
        assert (await store.load(Load(heads={Q1: 9}))).heads[Q1].record == record(Q1, "new")
        assert await seqs(store, Q1) == [2]

    async def test_an_association_and_its_tally_change_together(self, store: Store) -> None:
        """S001-35"""
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(Batch(associate={Q1: S1}, tallies={S1: Tally.of([Q1])}))
        loaded = await store.load(Load(heads={Q1: 0, Q2: 0}, services={S1, S2}))
        assert loaded.heads[Q1].record == record(Q1, service=S1)
        assert loaded.heads[Q2].record == record(Q2)
        assert loaded.services == {S1: Tally.of([Q1])}

        await store.apply(
            Batch(
                associate={Q1: S2, Q2: S2},
                tallies={S1: Tally().minus(Q1), S2: Tally.of([Q1, Q2])},
            )
        )
        loaded = await store.load(Load(services={S1, S2}))
        assert loaded.services == {S1: Tally(), S2: Tally.of([Q1, Q2])}
        assert ids(await page(store, S1, b"", 10)) == []
        assert ids(await page(store, S2, b"", 10)) == [Q1, Q2]

        await store.apply(Batch(associate={Q1: None}, tallies={S2: Tally().minus(Q1)}))
        assert (await store.load(Load(services={S2}))).services == {S2: Tally.of([Q2])}
        assert ids(await page(store, S2, b"", 10)) == [Q2]

    async def test_an_association_that_fails_leaves_the_tally_alone(self, store: Store) -> None:
        """S001-35"""
        await store.apply(creating(record(Q1)))
        await store.apply(Batch(associate={Q1: S1}, tallies={S1: Tally.of([Q1])}))
        with pytest.raises(StoreError):
            await store.apply(
                Batch(associate={Q1: S2, Q3: S2}, tallies={S1: Tally(), S2: Tally.of([Q1, Q3])})
            )
        loaded = await store.load(Load(heads={Q1: 0}, services={S1, S2}))
        assert loaded.heads[Q1].record.service == S1
        assert loaded.services == {S1: Tally.of([Q1])}

    async def test_the_last_batch_of_each_sink_is_remembered(self, store: Store) -> None:
        last = 2**63 - 1
        await store.apply(Batch(sinks={"a": SinkRecord(0, 1.5), "b": SinkRecord(7, 2.0)}))
        await store.apply(Batch(sinks={"a": SinkRecord(last, 3.0), "gone": None}))
        loaded = await store.load(Load(sinks=True))
        assert loaded.sinks == {"a": SinkRecord(last, 3.0), "b": SinkRecord(7, 2.0)}
        await store.apply(Batch(sinks={"a": None, "c": SinkRecord(1, 4.0)}))
        assert (await store.load(Load(sinks=True))).sinks.keys() == {"b", "c"}
        assert not (await store.load(Load(usage={"d"}))).sinks

    async def test_a_batch_of_a_sink_is_remembered_with_its_messages_or_not_at_all(
        self, store: Store
    ) -> None:
        await store.apply(creating(record(Q1)))
        landing = Batch(append={Seq(1): stored(1, Q1)}, sinks={"s": SinkRecord(3, 1.0)})
        await store.apply(landing)
        again = Batch(append={Seq(1): stored(1, Q1)}, sinks={"s": SinkRecord(4, 2.0)})
        with pytest.raises(StoreError):
            await store.apply(again)
        assert (await store.load(Load(sinks=True))).sinks == {"s": SinkRecord(3, 1.0)}

    async def test_facts_stay_until_they_are_sealed(self, store: Store) -> None:
        assert await store.unsealed() == (0, 0)
        told = [("SessionOpened", 1.0, 7, "wire", "name")]
        await store.apply(Batch(outbox=OutboxRow(1, told * 3, 30)))
        await store.apply(Batch(outbox=OutboxRow(6, told, 10)))
        last, size = await store.unsealed()
        assert last == 6
        assert size > 0
        await store.apply(Batch(sealed=3))
        assert 0 < (await store.unsealed())[1] < size
        await store.apply(Batch(sealed=6))
        assert await store.unsealed() == (0, 0)

    async def test_facts_of_a_batch_that_fails_are_not_kept(self, store: Store) -> None:
        await store.apply(creating(record(Q1)))
        told = [("QueueCreated", 1.0, b"q", "d")]
        with pytest.raises(StoreError):
            await store.apply(Batch(create={Q1: record(Q1)}, outbox=OutboxRow(1, told, 10)))
        assert await store.unsealed() == (0, 0)

    async def test_pages_go_through_a_service_in_the_order_of_ids(self, store: Store) -> None:
        queues = [QueueId(bytes([n, 255 - n])) for n in range(1, 24)]
        await store.apply(creating(*(record(q, service=S1) for q in reversed(queues))))
        await store.apply(creating(record(Q1, service=S2), record(Q2)))
        await store.apply(appending(*(stored(n, queues[n % 5]) for n in range(1, 13))))
        seen: list[Head] = []
        after = b""
        while found := await page(store, S1, after, 5):
            assert len(found) <= 5
            seen += found
            after = found[-1].record.queue
        assert ids(seen) == queues
        assert [h.messages for h in seen[:6]] == [2, 3, 3, 2, 2, 0]
        assert [h.first for h in seen[:6]] == [
            (stored(5, queues[0]),),
            (stored(1, queues[1]),),
            (stored(2, queues[2]),),
            (stored(3, queues[3]),),
            (stored(4, queues[4]),),
            (),
        ]

    async def test_pages_of_different_sizes_are_answered_together(self, store: Store) -> None:
        queues = [QueueId(b"%d" % n) for n in range(6)]
        await store.apply(
            creating(*(record(q, service=(S1, S2)[n % 2]) for n, q in enumerate(queues)))
        )
        small, large = Page(S1, QueueId(b""), 1), Page(S2, QueueId(b"1"), 9)
        none = Page(S1, QueueId(b""), 0)
        loaded = await store.load(Load(pages={small, large, none}))
        assert {p: ids(heads) for p, heads in loaded.pages.items()} == {
            small: [b"0"],
            large: [b"3", b"5"],
            none: [],
        }

    async def test_usage_counts_queues_messages_and_bytes_of_a_domain(self, store: Store) -> None:
        await store.apply(creating(record(Q1, "a"), record(Q2, "a"), record(Q3, "b")))
        await store.apply(
            appending(stored(1, Q1, b"12"), stored(2, Q1, b"3", {"p": "xy"}), stored(3, Q3))
        )
        loaded = await store.load(Load(usage={"a", "c"}))
        assert loaded.usage == {"a": Usage(2, 2, 2 + 1 + 3), "c": Usage()}

    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(creating(record(Q1, "other")), id="a queue that exists"),
            pytest.param(appending(stored(1, Q1, b"other")), id="a number that is taken"),
            pytest.param(appending(stored(50, Q3)), id="a queue that does not exist"),
            pytest.param(Batch(associate={Q3: S1}), id="an association of nothing"),
        ],
    )
    async def test_a_batch_that_fails_changes_nothing(self, store: Store, wrong: Batch) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(appending(stored(1, Q1), stored(2, Q2, apps=("a", "b"))))
        before = await everything(store)
        new = QueueId(b"new")
        wrong = Batch(
            create={new: record(new), **wrong.create},
            append={Seq(60): stored(60, Q1), **wrong.append},
            hold={Seq(2): ("b",)},
            delete={Seq(1)},
            associate={Q2: S1, **wrong.associate},
            tallies={S1: Tally.of([Q2])},
            remove={Q2},
        )
        with pytest.raises(StoreError):
            await store.apply(wrong)
        assert await everything(store) == before
        await store.apply(appending(stored(60, Q1)))
        assert await seqs(store, Q1) == [1, 60]

    async def test_what_a_batch_deletes_is_still_there_when_it_appends(self, store: Store) -> None:
        """The order of a batch is fixed: a number is not free before its message is deleted."""
        await store.apply(creating(record(Q1)))
        await store.apply(appending(stored(1, Q1)))
        with pytest.raises(StoreError):
            await store.apply(Batch(append={Seq(1): stored(1, Q1)}, delete={Seq(1)}))
        assert await seqs(store, Q1) == [1]

    async def test_many_queues_are_one_question(self, store: Store) -> None:
        """Beyond any length of list that a store may have."""
        queues = [QueueId(b"%d" % n) for n in range(5000)]
        await store.apply(creating(*(record(q, service=S1) for q in queues)))
        await store.apply(appending(*(stored(n + 1, q) for n, q in enumerate(queues))))
        loaded = await store.load(
            Load(
                heads=dict.fromkeys(queues, 1),
                backlogs=set(queues),
                bodies={Seq(n + 1) for n in range(5000)},
            )
        )
        assert [h.first[0].seq for h in loaded.heads.values()] == list(range(1, 5001))
        assert len(loaded.backlogs) == len(loaded.bodies) == 5000
        assert len(await page(store, S1, b"", 6000)) == 5000

    async def test_closing_twice_is_fine(self, open_store: OpenStore) -> None:
        store = await open_store()
        await store.close()
        await store.close()


async def everything(store: Store) -> object:
    queues = [Q1, Q2, Q3, QueueId(b"new")]
    return await store.load(
        Load(
            heads=dict.fromkeys(queues, 100),
            backlogs=set(queues),
            services={S1, S2},
            pages={Page(S1, QueueId(b""), 10)},
            usage={"d", "other"},
        )
    )


class DurableStoreConformance(StoreConformance):
    """What a store does besides if it promises to outlive the process."""

    async def test_all_is_there_after_closing_and_opening(self, open_store: OpenStore) -> None:
        store = await open_store()
        await store.apply(creating(record(Q1, service=S1), record(Q2)))
        await store.apply(appending(stored(7, Q1, properties={"p": 1}, apps=("a",)), stored(8, Q2)))
        await store.apply(Batch(tallies={S1: Tally.of([Q1])}))
        before = await everything(store)
        await store.close()
        store = await open_store()
        assert await everything(store) == before
        await store.close()

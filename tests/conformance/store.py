"""What every store does. A test class inherits the suite and says how its store is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest

from headgate.core.model.ids import WHOLE, AppId, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import MARKER, NO_PROPERTIES, Arrival, Message, Properties, Stored
from headgate.core.model.parties import (
    Address,
    Link,
    Notifier,
    Parties,
    Party,
    Purpose,
    QueueRecord,
)
from headgate.core.model.tally import Tally
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import (
    Aged,
    Batch,
    Dated,
    GroupRecord,
    Head,
    Listed,
    Listing,
    Load,
    Overdue,
    Page,
    Past,
    ServiceRecord,
    SinkRecord,
    Swept,
    Usage,
)
from headgate.errors import StoreError
from headgate.store.base import Store

OpenStore: TypeAlias = Callable[[], Awaitable[Store]]
"""Opens the store of this test; again, after it was closed, the same one."""

Q1, Q2, Q3, Q4 = QueueId(b"q1"), QueueId(b"q2"), QueueId(b"q3"), QueueId(b"q4")
NEW, GONE = QueueId(b"new"), QueueId(b"gone")
S1, S2 = ServiceId(b"s1"), ServiceId(b"s2")
F1, F2 = b"fingerprint 1", b"fingerprint 2"
FOREVER = 1e9
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


def parties(
    sender: bytes,
    *,
    notifier: bytes | None = None,
    link: bytes | None = None,
    notifier_service: ServiceId | None = None,
) -> Parties:
    return Parties(
        (b"key",),
        b"secret",
        sender,
        notifier=Notifier(notifier, b"key", b"secret", notifier_service)
        if notifier is not None
        else None,
        link=Link(link, b"fixed", b"user") if link is not None else None,
    )


def shared(queue: QueueId, its: Parties, service: ServiceId | None = None) -> QueueRecord:
    return QueueRecord(queue, "d", service, its)


def of_sender(id: bytes) -> Address:
    return Address(Party.SENDER, id)


def of_notifier(id: bytes) -> Address:
    return Address(Party.NOTIFIER, id)


def of_link(id: bytes) -> Address:
    return Address(Party.LINK, id)


def creating(*records: QueueRecord) -> Batch:
    return Batch(create={r.queue: r for r in records})


def amending(*records: QueueRecord) -> Batch:
    return Batch(amend={r.queue: r for r in records})


def appending(*messages: Stored) -> Batch:
    return Batch(append={m.seq: m for m in messages})


async def head(store: Store, queue: QueueId, n: int = 100) -> Head | None:
    return (await store.load(Load(heads={queue: n}))).heads.get(queue)


async def seqs(store: Store, queue: QueueId) -> list[int]:
    found = await head(store, queue)
    assert found is not None
    return [s.seq for s in found.first]


async def page(store: Store, service: ServiceId, after: bytes, limit: int) -> Swept:
    wanted = Page(service, QueueId(after), limit)
    return (await store.load(Load(pages={wanted}))).pages[wanted]


async def owners(store: Store, *addresses: Address) -> dict[Address, QueueId]:
    return (await store.load(Load(addresses=dict.fromkeys(addresses, 0)))).addresses


async def aged(store: Store, after: int, before: float, limit: int = 100) -> list[int]:
    wanted = Aged(Seq(after), before, limit)
    return [past.seq for past in (await store.load(Load(aged=wanted))).aged]


async def overdue(
    store: Store, after: int, *domains: tuple[str, float], limit: int = 100
) -> list[int]:
    wanted = Overdue(domains, Seq(after), limit)
    return [dated.seq for dated in (await store.load(Load(overdue=wanted))).overdue]


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
                addresses={Address(party, b"id"): 1 for party in Party},
                backlogs={Q1},
                bodies={Seq(1)},
                services={S1},
                pages={asked},
                usage={"d"},
                identities={F1},
                aged=Aged(Seq(0), FOREVER, 10),
                overdue=Overdue((("d", FOREVER),), Seq(0), 10),
                listings={Listing("d", QueueId(b""), 10)},
                sinks=True,
            )
        )
        assert not loaded.overdue
        assert loaded.listings == {Listing("d", QueueId(b""), 10): []}
        assert not loaded.heads
        assert not loaded.addresses
        assert not loaded.identities
        assert not loaded.aged
        assert not loaded.sinks
        assert not loaded.backlogs
        assert not loaded.bodies
        assert not loaded.services
        assert loaded.pages == {asked: Swept([], [])}
        assert loaded.usage == {"d": Usage()}

    async def test_nothing_asked_and_nothing_changed_is_fine(self, store: Store) -> None:
        await store.apply(Batch())
        loaded = await store.load(Load())
        assert not loaded.heads

    async def test_a_probe_changes_nothing_and_counts_as_nothing(self, store: Store) -> None:
        before = store.statements
        await store.probe()
        await store.probe()
        assert store.statements == before

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
        assert (await page(store, S1, b"", 10)).queues == [Q2]

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
        assert (await page(store, S1, b"", 10)).queues == []
        assert (await page(store, S2, b"", 10)).queues == [Q1, Q2]

        await store.apply(Batch(associate={Q1: None}, tallies={S2: Tally().minus(Q1)}))
        assert (await store.load(Load(services={S2}))).services == {S2: Tally.of([Q2])}
        assert (await page(store, S2, b"", 10)).queues == [Q2]

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

    async def test_ids_of_messages_that_are_gone_are_remembered(self, store: Store) -> None:
        """BMQ-59"""
        await store.apply(creating(record(Q1), record(Q2), record(Q3)))
        await store.apply(appending(stored(1, Q1), stored(2, Q1)))
        both = {MessageId(b"id 1"): Arrival(1.5, Seq(2**62)), MessageId(b""): Arrival(2.5, Seq(2))}
        await store.apply(
            Batch(delete={Seq(1)}, remember={Q1: both, Q2: {MessageId(b"x"): Arrival(3.0, Seq(7))}})
        )
        await store.apply(Batch(remember={Q1: {MessageId(b"\0\xff"): Arrival(2.0, Seq(7))}}))
        loaded = await store.load(Load(backlogs={Q1, Q2, Q3, Q4}))
        assert loaded.remembered == {
            Q1: both | {MessageId(b"\0\xff"): Arrival(2.0, Seq(7))},
            Q2: {MessageId(b"x"): Arrival(3.0, Seq(7))},
        }
        assert [entry.seq for entry in loaded.backlogs[Q1][1]] == [2]
        assert not (await store.load(Load(heads={Q1: 1}))).remembered

    async def test_ids_are_forgotten_with_the_newest_of_their_batch(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        for id, at in ((b"a", 1.0), (b"c", 3.0)):
            await store.apply(
                Batch(remember={q: {MessageId(id): Arrival(at, Seq(7))} for q in (Q1, Q2)})
            )
        pair = {MessageId(b"b"): Arrival(1.5, Seq(7)), MessageId(b"d"): Arrival(4.0, Seq(7))}
        await store.apply(Batch(remember={Q1: pair}))
        await store.apply(Batch(forget={Q1: 3.0, Q3: 9.0}))
        loaded = await store.load(Load(backlogs={Q1, Q2}))
        assert loaded.remembered[Q1] == pair | {MessageId(b"c"): Arrival(3.0, Seq(7))}
        assert loaded.remembered[Q2].keys() == {b"a", b"c"}
        await store.apply(
            Batch(forget={Q1: 5.0}, remember={Q1: {MessageId(b"e"): Arrival(1.0, Seq(7))}})
        )
        assert (await store.load(Load(backlogs={Q1}))).remembered == {
            Q1: {MessageId(b"e"): Arrival(1.0, Seq(7))}
        }

    async def test_an_id_that_came_again_is_remembered_with_the_later_time(
        self, store: Store
    ) -> None:
        id = MessageId(b"id")
        await store.apply(creating(record(Q1)))
        for at in (2.0, 3.0, 1.0, 3.0):
            await store.apply(Batch(remember={Q1: {id: Arrival(at, Seq(7))}}))
        assert (await store.load(Load(backlogs={Q1}))).remembered == {
            Q1: {id: Arrival(3.0, Seq(7))}
        }
        await store.apply(Batch(forget={Q1: 4.0}))
        assert not (await store.load(Load(backlogs={Q1}))).remembered

    async def test_a_queue_that_is_removed_remembers_nothing(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        await store.apply(
            Batch(remember={q: {MessageId(b"id"): Arrival(1.0, Seq(7))} for q in (Q1, Q2)})
        )
        await store.apply(Batch(remove={Q1}))
        await store.apply(creating(record(Q1)))
        assert (await store.load(Load(backlogs={Q1, Q2}))).remembered.keys() == {Q2}

    async def test_a_queue_that_is_not_there_has_nothing_to_remember(self, store: Store) -> None:
        await store.apply(creating(record(Q1)))
        with pytest.raises(StoreError):
            await store.apply(
                Batch(
                    append={Seq(1): stored(1, Q1)},
                    remember={Q2: {MessageId(b"id"): Arrival(1.0, Seq(7))}},
                )
            )
        assert await seqs(store, Q1) == []

    async def test_many_ids_are_remembered(self, store: Store) -> None:
        """As many as a turn confirms, and more than fit into a page of a file."""
        ids = {MessageId(b"%016d" % n): Arrival(float(n), Seq(n)) for n in range(5000)}
        await store.apply(creating(record(Q1)))
        await store.apply(Batch(remember={Q1: ids}))
        assert (await store.load(Load(backlogs={Q1}))).remembered == {Q1: ids}

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
        seen: list[QueueId] = []
        heads: list[Head] = []
        after = b""
        while (found := await page(store, S1, after, 5)).queues:
            assert len(found.queues) <= 5
            seen += found.queues
            heads += found.heads
            after = found.queues[-1]
        assert seen == queues
        assert heads == [
            Head(record(queues[0], service=S1), 2, (stored(5, queues[0]),)),
            Head(record(queues[1], service=S1), 3, (stored(1, queues[1]),)),
            Head(record(queues[2], service=S1), 3, (stored(2, queues[2]),)),
            Head(record(queues[3], service=S1), 2, (stored(3, queues[3]),)),
            Head(record(queues[4], service=S1), 2, (stored(4, queues[4]),)),
        ]

    async def test_pages_of_different_sizes_are_answered_together(self, store: Store) -> None:
        queues = [QueueId(b"%d" % n) for n in range(6)]
        await store.apply(
            creating(*(record(q, service=(S1, S2)[n % 2]) for n, q in enumerate(queues)))
        )
        small, large = Page(S1, QueueId(b""), 1), Page(S2, QueueId(b"1"), 9)
        none = Page(S1, QueueId(b""), 0)
        loaded = await store.load(Load(pages={small, large, none}))
        assert {p: swept.queues for p, swept in loaded.pages.items()} == {
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
        "its",
        [
            pytest.param(None, id="nobody"),
            pytest.param(Parties((), b"", b""), id="as little as there may be"),
            pytest.param(
                Parties(
                    keys=(b"key", b"", b"\0\xff"),
                    secret=bytes(32),
                    sender=b"sender",
                    sender_key=b"",
                    purpose=Purpose.CONTACT,
                    link=Link(b"link", b"fixed\0", bytes(range(256)) * 64),
                    notifier=Notifier(b"notifier", b"key", b"secret\0", ServiceId(b"")),
                    is_off=True,
                ),
                id="everything",
            ),
            pytest.param(
                Parties(
                    (b"key",),
                    b"secret",
                    b"sender",
                    b"sender's key",
                    Purpose.MESSAGING,
                    Link(b"", b"", b""),
                    Notifier(b"", b"", b""),
                ),
                id="empty, but not nothing",
            ),
        ],
    )
    async def test_a_record_comes_back_as_it_was(self, store: Store, its: Parties | None) -> None:
        full, free = QueueRecord(Q1, "d", S1, its, is_full=True), record(Q2)
        await store.apply(creating(full, free))
        asked = Page(S1, QueueId(b""), 10)
        loaded = await store.load(
            Load(heads={Q1: 1, Q2: 1}, backlogs={Q1, Q2}, pages={asked}, usage={"d"})
        )
        assert loaded.heads == {Q1: Head(full, 0, ()), Q2: Head(free, 0, ())}
        assert loaded.backlogs == {Q1: (full, []), Q2: (free, [])}
        assert loaded.pages == {asked: Swept([Q1], [])}
        assert loaded.usage == {"d": Usage(2, 0, 0)}
        assert loaded.heads[Q1].record.is_full is True

    async def test_a_queue_is_found_by_each_of_its_ids(self, store: Store) -> None:
        one = shared(Q1, parties(b"a", notifier=b"b", link=b"c"))
        two = shared(Q2, parties(b"b"))
        await store.apply(creating(one, two, record(Q3)))
        await store.apply(appending(stored(1, Q1), stored(2, Q2), stored(3, Q1), stored(4, Q3)))
        loaded = await store.load(
            Load(
                addresses={
                    of_sender(b"a"): 1,
                    of_notifier(b"b"): 1,
                    of_link(b"c"): 1,
                    of_sender(b"b"): 1,
                    Address(Party.RECIPIENT, Q3): 1,
                }
            )
        )
        assert loaded.addresses == {
            of_sender(b"a"): Q1,
            of_notifier(b"b"): Q1,
            of_link(b"c"): Q1,
            of_sender(b"b"): Q2,
            Address(Party.RECIPIENT, Q3): Q3,
        }
        assert loaded.heads == {
            Q1: Head(one, 2, (stored(1, Q1),)),
            Q2: Head(two, 1, (stored(2, Q2),)),
            Q3: Head(record(Q3), 1, (stored(4, Q3),)),
        }

    async def test_an_id_is_the_id_of_one_party_only(self, store: Store) -> None:
        """Nobody may act as the recipient because they know the id of the sender."""
        its = parties(b"sender", notifier=b"notifier", link=b"link")
        await store.apply(creating(shared(Q1, its)))
        own = {of_sender(b"sender"), of_notifier(b"notifier"), of_link(b"link")}
        all_ids = [Q1, b"sender", b"notifier", b"link", b"", b"else"]
        asked = [Address(party, id) for party in Party for id in all_ids]
        assert (await owners(store, *asked)).keys() == own | {Address(Party.RECIPIENT, Q1)}
        loaded = await store.load(Load(heads={QueueId(id): 1 for id in all_ids}))
        assert loaded.heads.keys() == {Q1}

    async def test_a_queue_asked_for_in_several_ways_has_one_head_with_the_most(
        self, store: Store
    ) -> None:
        await store.apply(
            creating(
                shared(Q1, parties(b"1", notifier=b"1")),
                shared(Q2, parties(b"2", link=b"2")),
                shared(Q3, parties(b"3")),
            )
        )
        await store.apply(
            appending(
                *(stored(10 * n + k, q) for n in range(5) for k, q in enumerate((Q1, Q2, Q3)))
            )
        )
        loaded = await store.load(
            Load(
                heads={Q1: 3, Q2: 1, Q3: 0},
                addresses={
                    of_sender(b"1"): 1,
                    of_notifier(b"1"): 0,
                    of_sender(b"2"): 2,
                    of_link(b"2"): 4,
                    Address(Party.RECIPIENT, Q2): 3,
                    of_sender(b"3"): 0,
                },
            )
        )
        assert {q: [s.seq for s in h.first] for q, h in loaded.heads.items()} == {
            Q1: [0, 10, 20],
            Q2: [1, 11, 21, 31],
            Q3: [],
        }
        assert {h.messages for h in loaded.heads.values()} == {5}
        assert set(loaded.addresses.values()) == {Q1, Q2, Q3}
        assert len(loaded.addresses) == 6

    async def test_at_most_one_message_is_asked_for_in_several_ways(self, store: Store) -> None:
        """S004-34: subscribing and sending in one turn is one head."""
        await store.apply(creating(shared(Q1, parties(b"1")), shared(Q2, parties(b"2"))))
        await store.apply(appending(*(stored(n, q) for n, q in enumerate((Q1, Q2, Q1, Q2)))))
        loaded = await store.load(
            Load(heads={Q1: 1, Q2: 0}, addresses={of_sender(b"1"): 0, of_sender(b"2"): 1})
        )
        assert {q: [s.seq for s in h.first] for q, h in loaded.heads.items()} == {Q1: [0], Q2: [1]}
        loaded = await store.load(Load(heads={Q1: 0}, addresses={of_sender(b"2"): 0}))
        assert [h.first for h in loaded.heads.values()] == [(), ()]

    @pytest.mark.parametrize("odd", ODD_IDS)
    async def test_an_id_of_a_party_may_be_any_bytes(self, store: Store, odd: bytes) -> None:
        its = parties(odd, notifier=odd, link=odd, notifier_service=ServiceId(odd))
        await store.apply(creating(shared(QueueId(odd), its), shared(Q1, parties(odd + b"\0"))))
        await store.apply(Batch(identities={odd: ServiceRecord(ServiceId(odd), "rôle\0")}))
        asked = [Address(party, odd) for party in Party]
        assert await owners(store, *asked) == dict.fromkeys(asked, odd)
        assert await owners(store, of_sender(odd + b"\0")) == {of_sender(odd + b"\0"): Q1}
        loaded = await store.load(Load(identities={odd, odd + b"\0"}))
        assert loaded.identities == {odd: ServiceRecord(ServiceId(odd), "rôle\0")}

    async def test_amending_replaces_a_record_but_for_the_queue_and_its_domain(
        self, store: Store
    ) -> None:
        await store.apply(
            creating(
                QueueRecord(Q1, "d", S1, parties(b"old", notifier=b"n", link=b"l"), is_full=True),
                QueueRecord(Q2, "d", S1, parties(b"other"), is_full=True),
            )
        )
        await store.apply(appending(stored(1, Q1), stored(2, Q1)))
        new = parties(b"new", link=b"l2")
        await store.apply(amending(QueueRecord(Q1, "ignored", S2, new)))
        assert await head(store, Q1, 1) == Head(QueueRecord(Q1, "d", S2, new), 2, (stored(1, Q1),))
        other = QueueRecord(Q2, "d", S1, parties(b"other"), is_full=True)
        assert await head(store, Q2) == Head(other, 0, ())
        assert (await page(store, S1, b"", 10)).queues == [Q2]
        assert (await page(store, S2, b"", 10)).queues == [Q1]
        before = (of_sender(b"old"), of_notifier(b"n"), of_link(b"l"))
        after = (of_sender(b"new"), of_link(b"l2"))
        assert await owners(store, *before, *after) == dict.fromkeys(after, Q1)
        await store.apply(amending(record(Q1)))
        assert await head(store, Q1, 0) == Head(record(Q1), 2, ())
        assert await owners(store, *before, *after) == {}

    async def test_a_batch_amends_after_it_creates_and_before_it_associates(
        self, store: Store
    ) -> None:
        await store.apply(creating(record(Q1)))
        await store.apply(
            Batch(
                create={Q2: QueueRecord(Q2, "mine", S1, parties(b"2"), is_full=True)},
                amend={Q1: record(Q1, service=S1), Q2: QueueRecord(Q2, "d", S1, parties(b"two"))},
                associate={Q1: S2},
            )
        )
        loaded = await store.load(Load(heads={Q1: 0, Q2: 0}))
        assert loaded.heads[Q1].record == record(Q1, service=S2)
        assert loaded.heads[Q2].record == QueueRecord(Q2, "mine", S1, parties(b"two"))
        assert (await page(store, S1, b"", 10)).queues == [Q2]
        assert (await page(store, S2, b"", 10)).queues == [Q1]
        assert await owners(store, of_sender(b"2"), of_sender(b"two")) == {of_sender(b"two"): Q2}

    async def test_associating_leaves_the_rest_of_a_record_alone(self, store: Store) -> None:
        its = parties(b"a", notifier=b"b", notifier_service=S2)
        await store.apply(creating(QueueRecord(Q1, "d", None, its, is_full=True)))
        await store.apply(Batch(associate={Q1: S1}, tallies={S1: Tally.of([Q1])}))
        assert await head(store, Q1) == Head(QueueRecord(Q1, "d", S1, its, is_full=True), 0, ())
        assert await owners(store, of_notifier(b"b")) == {of_notifier(b"b"): Q1}

    async def test_a_notifier_and_the_tally_of_its_service_change_together(
        self, store: Store
    ) -> None:
        """S001-35"""
        its, told = parties(b"1"), parties(b"1", notifier=b"n", notifier_service=S2)
        tally = Tally.of([QueueId(b"n")])
        await store.apply(creating(shared(Q1, its)))
        with pytest.raises(StoreError):
            await store.apply(
                Batch(amend={Q1: shared(Q1, told), Q3: record(Q3)}, tallies={S2: tally})
            )
        loaded = await store.load(Load(heads={Q1: 0}, services={S2}))
        assert loaded.heads[Q1].record == shared(Q1, its)
        assert loaded.services == {}
        await store.apply(Batch(amend={Q1: shared(Q1, told)}, tallies={S2: tally}))
        loaded = await store.load(Load(heads={Q1: 0}, services={S2}))
        assert loaded.heads[Q1].record == shared(Q1, told)
        assert loaded.services == {S2: tally}

    async def test_a_removed_queue_lets_go_of_its_ids(self, store: Store) -> None:
        its = parties(b"a", notifier=b"b", link=b"c")
        await store.apply(creating(shared(Q1, its)))
        await store.apply(Batch(remove={Q1}))
        assert await owners(store, *its.addresses()) == {}
        await store.apply(creating(shared(Q2, its)))
        assert await owners(store, *its.addresses()) == dict.fromkeys(its.addresses(), Q2)

    @pytest.mark.parametrize(
        "batch",
        [
            pytest.param(
                amending(
                    shared(Q1, parties(b"2", notifier=b"2", link=b"2")),
                    shared(Q2, parties(b"1", notifier=b"1", link=b"1")),
                ),
                id="an exchange",
            ),
            pytest.param(
                Batch(
                    remove={Q1},
                    amend={Q2: shared(Q2, parties(b"1", notifier=b"1", link=b"1"))},
                    create={Q3: shared(Q3, parties(b"2", notifier=b"2", link=b"2"))},
                ),
                id="one goes, one comes",
            ),
            pytest.param(
                Batch(
                    create={Q3: shared(Q3, parties(b"1", notifier=b"1", link=b"1"))},
                    amend={Q1: record(Q1)},
                ),
                id="given up to one that is new",
            ),
            pytest.param(
                Batch(
                    create={Q3: shared(Q3, parties(b"1", notifier=b"1", link=b"1"))},
                    amend={Q3: shared(Q3, parties(b"3"))},
                ),
                id="only on the way",
            ),
        ],
    )
    async def test_a_queue_may_take_over_the_ids_that_another_gives_up(
        self, store: Store, batch: Batch
    ) -> None:
        """What counts is who has which id when the batch is done."""
        before = {q: shared(q, parties(q[1:], notifier=q[1:], link=q[1:])) for q in (Q1, Q2)}
        await store.apply(creating(*before.values()))
        await store.apply(batch)
        after = {q: r for q, r in before.items() if q not in batch.remove}
        after |= batch.create | batch.amend
        loaded = await store.load(Load(heads=dict.fromkeys((Q1, Q2, Q3), 0)))
        assert {q: h.record for q, h in loaded.heads.items()} == after
        expected = {a: q for q, r in after.items() if r.parties for a in r.parties.addresses()}
        asked = [Address(p, id) for p in list(Party)[1:] for id in (b"1", b"2", b"3")]
        assert await owners(store, *asked) == expected

    async def test_a_service_is_known_by_its_certificate(self, store: Store) -> None:
        one, two = ServiceRecord(S1, "messaging"), ServiceRecord(S2, "notifier")
        await store.apply(Batch(identities={F1: one}))
        await store.apply(Batch(identities={F2: two}))
        loaded = await store.load(Load(identities={F1, F2, b"else"}))
        assert loaded.identities == {F1: one, F2: two}
        assert (await store.load(Load(identities={F2}))).identities == {F2: two}

    async def test_old_messages_come_in_the_order_of_their_numbers(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2, "other"), record(Q3)))
        await store.apply(appending(*(stored(n, (Q1, Q2)[n % 2]) for n in (4, 1, 9, 2, 7, 3))))
        assert await aged(store, 0, FOREVER) == [1, 2, 3, 4, 7, 9]
        assert await aged(store, 2, FOREVER) == [3, 4, 7, 9]
        assert await aged(store, 2, FOREVER, 2) == [3, 4]
        assert await aged(store, 0, FOREVER, 0) == []
        assert await aged(store, 9, FOREVER) == []
        assert await aged(store, 0, 1003.5) == [1, 2]  # 3 arrived at that very time
        assert await aged(store, 1, 1003.6, 1) == [2]
        assert await aged(store, 0, 1001.0) == []
        await store.apply(Batch(delete={Seq(1), Seq(7)}, remove={Q1}))
        assert await aged(store, 0, FOREVER) == [3, 9]
        loaded = await store.load(Load(aged=Aged(Seq(3), FOREVER, 10)))
        assert loaded.aged == [Past(Seq(9), Q2, "other", MessageId(b"id 9"), 1009.5, False)]

    async def test_old_messages_are_found_behind_young_ones(self, store: Store) -> None:
        """Numbers and times grow together as a rule, but a clock may be set back."""
        times = {1: 50.0, 2: 10.0, 3: 60.0, 4: 0.0, 5: 55.0, 6: -1.0, 7: 10.0}
        await store.apply(creating(record(Q1)))
        await store.apply(
            appending(
                *(
                    Stored(Seq(n), Q1, Message(MessageId(b""), b"", at), (WHOLE,))
                    for n, at in times.items()
                )
            )
        )
        assert await aged(store, 0, 50.0) == [2, 4, 6, 7]
        assert await aged(store, 0, 50.0, 3) == [2, 4, 6]
        assert await aged(store, 4, 50.5) == [6, 7]

    async def test_what_is_overdue_comes_by_domain_in_the_order_of_numbers(
        self, store: Store
    ) -> None:
        """S003-17: the first messages of each queue, as many as were asked for."""
        await store.apply(creating(record(Q1, "a"), record(Q2, "b"), record(Q3, "a"), record(Q4)))
        queues = {1: Q1, 2: Q2, 3: Q3, 4: Q1, 5: Q2, 6: Q1, 7: Q3, 8: Q4}
        await store.apply(appending(*(stored(n, queue) for n, queue in queues.items())))
        everything = (("a", FOREVER), ("b", FOREVER))
        assert await overdue(store, 0, *everything) == [1, 2, 3, 4, 5, 6, 7]
        assert await overdue(store, 0, *everything, limit=3) == [1, 2, 3]
        assert await overdue(store, 3, *everything, limit=3) == [4, 5, 6]
        assert await overdue(store, 7, *everything) == []
        assert await overdue(store, 0) == []
        # Each domain has its own time, and what arrived at that very time is not before it.
        assert await overdue(store, 0, ("a", 1004.5), ("b", 1006.0)) == [1, 2, 3, 5]
        assert await overdue(store, 0, ("b", 1000.0), ("unknown", FOREVER)) == []
        await store.apply(Batch(delete={Seq(1), Seq(4)}, remove={Q3}))
        wanted = Overdue((("a", FOREVER),), Seq(0), 10)
        assert (await store.load(Load(overdue=wanted))).overdue == [
            Dated(Seq(6), Q1, "a", MessageId(b"id 6"), 1006.5, 4)
        ]

    async def test_behind_a_young_message_nothing_is_overdue(self, store: Store) -> None:
        """Whoever has a clock that was set back waits: a queue is in order of arrival."""
        times = {1: 10.0, 2: 50.0, 3: 10.0}
        await store.apply(creating(record(Q1)))
        await store.apply(
            appending(
                *(
                    Stored(Seq(n), Q1, Message(MessageId(b""), b"", at), (WHOLE,))
                    for n, at in times.items()
                )
            )
        )
        assert await overdue(store, 0, ("d", 50.0)) == [1]

    async def test_the_queues_of_a_domain_are_listed_in_pages(self, store: Store) -> None:
        """In the order of their ids, each with what it holds, and for whom."""
        await store.apply(
            creating(record(Q2, "a"), record(Q1, "a"), record(Q3, "b"), record(Q4, "a"))
        )
        await store.apply(
            appending(
                stored(1, Q2, b"12345"),
                stored(2, Q2, b"123"),
                stored(3, Q4, b"1", apps=("foo", "bar")),
                stored(4, Q3),
            )
        )
        await store.apply(Batch(hold={Seq(3): ("bar",)}))
        of_a = [Listed(Q1, 0, 0, None), Listed(Q2, 2, 8, True), Listed(Q4, 1, 1, False)]
        first, second = Listing("a", QueueId(b""), 2), Listing("a", Q2, 2)
        other, none = Listing("b", QueueId(b""), 5), Listing("unknown", QueueId(b""), 5)
        loaded = await store.load(Load(listings={first, second, other, none}))
        assert loaded.listings == {
            first: of_a[:2],
            second: of_a[2:],
            other: [Listed(Q3, 1, 4, True)],
            none: [],
        }

    async def test_markers_are_told_from_messages(self, store: Store) -> None:
        sets: list[Properties] = [{MARKER: True}, {MARKER: False}, {MARKER: 1}, {}, {"p": True}]
        await store.apply(creating(record(Q1)))
        await store.apply(
            appending(*(stored(n, Q1, properties=each) for n, each in enumerate(sets, 1)))
        )
        loaded = await store.load(Load(aged=Aged(Seq(0), FOREVER, 10)))
        assert [past.is_marker for past in loaded.aged] == [True, False, False, False, False]

    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(creating(record(Q1, "other")), id="a queue that exists"),
            pytest.param(appending(stored(1, Q1, b"other")), id="a number that is taken"),
            pytest.param(appending(stored(50, Q3)), id="a queue that does not exist"),
            pytest.param(Batch(associate={Q3: S1}), id="an association of nothing"),
            pytest.param(Batch(associate={GONE: S1}), id="an association of what is removed"),
            pytest.param(amending(record(Q3)), id="an amendment of nothing"),
            pytest.param(amending(record(GONE)), id="an amendment of what is removed"),
            pytest.param(amending(shared(Q1, parties(b"4"))), id="a sender of another queue"),
            pytest.param(
                amending(shared(Q1, parties(b"1", notifier=b"4"))), id="a notifier of another queue"
            ),
            pytest.param(
                amending(shared(Q1, parties(b"1", link=b"4"))), id="a link of another queue"
            ),
            pytest.param(creating(shared(Q3, parties(b"4"))), id="a new queue with such a sender"),
            pytest.param(
                creating(shared(Q3, parties(b"3", notifier=b"4"))), id="with such a notifier"
            ),
            pytest.param(creating(shared(Q3, parties(b"3", link=b"4"))), id="with such a link"),
            pytest.param(
                Batch(
                    create={Q3: shared(Q3, parties(b"same"))},
                    amend={Q1: shared(Q1, parties(b"same"))},
                ),
                id="the same sender twice",
            ),
            pytest.param(
                Batch(identities={F1: ServiceRecord(S2, "r")}), id="a certificate that is known"
            ),
            pytest.param(
                Batch(identities={b"else": ServiceRecord(S1, "r")}), id="a service that is known"
            ),
            pytest.param(
                Batch(identities={b"one": ServiceRecord(S2, "r"), b"two": ServiceRecord(S2, "r")}),
                id="a service with two certificates",
            ),
        ],
    )
    async def test_a_batch_that_fails_changes_nothing(self, store: Store, wrong: Batch) -> None:
        """S001-35, and the ids of parties are one queue's each."""
        await store.apply(
            Batch(
                create={
                    Q1: shared(Q1, parties(b"1", link=b"1")),
                    Q2: record(Q2),
                    Q4: shared(Q4, parties(b"4", notifier=b"4", link=b"4")),
                    GONE: shared(GONE, parties(b"new")),
                },
                identities={F1: ServiceRecord(S1, "r")},
            )
        )
        await store.apply(appending(stored(1, Q1), stored(2, Q2, apps=("a", "b"))))
        before = await everything(store)
        right = Batch(
            create={NEW: shared(NEW, parties(b"new", notifier=b"new"))},
            amend={Q1: shared(Q1, parties(b"other", notifier=b"1"))},
            append={Seq(60): stored(60, Q1)},
            hold={Seq(2): ("b",)},
            delete={Seq(1)},
            associate={Q2: S1},
            tallies={S1: Tally.of([Q2])},
            identities={F2: ServiceRecord(ServiceId(b"new"), "r")},
            remove={GONE},
        )
        both = Batch(
            create=right.create | wrong.create,
            amend=right.amend | wrong.amend,
            append=right.append | wrong.append,
            hold=right.hold,
            delete=right.delete,
            associate=right.associate | wrong.associate,
            tallies=right.tallies,
            identities=right.identities | wrong.identities,
            remove=right.remove,
        )
        with pytest.raises(StoreError):
            await store.apply(both)
        assert await everything(store) == before
        await store.apply(right)  # so it was the wrong part that failed
        assert await seqs(store, Q1) == [60]

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
        assert len((await page(store, S1, b"", 6000)).queues) == 5000

    async def test_many_addresses_are_one_question(self, store: Store) -> None:
        """Beyond any length of list that a store may have, and one queue in several parts of it."""
        names = [b"%d" % n for n in range(2000)]
        await store.apply(
            creating(
                *(shared(QueueId(n), parties(b"s" + n, notifier=b"n" + n, link=n)) for n in names)
            )
        )
        await store.apply(
            appending(*(stored(2 * k + i, QueueId(n)) for k, n in enumerate(names) for i in (0, 1)))
        )
        asked = {
            **{of_sender(b"s" + n): 0 for n in names},
            **{of_notifier(b"n" + n): 2 for n in names},
            **{of_link(n): 1 for n in names},
        }
        prints = {b"print " + n: ServiceRecord(ServiceId(n), "r") for n in names}
        await store.apply(Batch(identities=prints))
        loaded = await store.load(
            Load(
                heads={QueueId(n): 1 for n in names},
                addresses=asked,
                identities=set(prints),
                aged=Aged(Seq(-1), FOREVER, 3000),
            )
        )
        assert loaded.addresses == dict(zip(asked, 3 * names, strict=True))
        assert {q: len(h.first) for q, h in loaded.heads.items()} == dict.fromkeys(names, 2)
        assert loaded.identities == prints
        assert [past.seq for past in loaded.aged] == list(range(3000))
        await store.apply(amending(*(record(QueueId(n)) for n in names)))
        assert await owners(store, *asked) == {}

    async def test_groups_are_those_of_their_queue_until_they_are_gone(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        odd = "größe \0 of a group"
        made = {"a": GroupRecord(), odd: GroupRecord('kind == "é"')}
        await store.apply(
            Batch(groups={**{(Q1, name): g for name, g in made.items()}, (Q2, "a"): GroupRecord()})
        )
        loaded = await store.load(Load(backlogs={Q1, Q2, GONE}))
        assert loaded.groups == {Q1: made, Q2: {"a": GroupRecord()}}
        gone = {(Q1, "a"): None, (Q1, "never"): None, (GONE, "a"): None}
        await store.apply(Batch(groups={**gone, (Q1, odd): GroupRecord("x == 1")}))
        assert await groups(store, Q1) == {odd: GroupRecord("x == 1")}
        with pytest.raises(StoreError):
            await store.apply(Batch(groups={(GONE, "a"): GroupRecord()}))
        await store.apply(Batch(remove={Q1}))
        await store.apply(creating(record(Q1)))
        assert await groups(store, Q1) == {}
        assert await groups(store, Q2) == {"a": GroupRecord()}

    async def test_a_copy_has_the_groups(self, store: Store) -> None:
        await store.apply(creating(record(Q1), record(Q2)))
        made = {(Q1, "a"): GroupRecord(), (Q2, "b"): GroupRecord("x == 1")}
        await store.apply(Batch(groups={**made}))
        found: dict[tuple[QueueId, AppId], GroupRecord | None] = {}
        async for batch in store.batches():
            found |= batch.groups
        assert found == made

    async def test_what_is_kept_has_no_apps_and_counts(self, store: Store) -> None:
        """What every app has confirmed may be kept, as history."""
        await store.apply(creating(record(Q1), record(Q2), record(Q3)))
        await store.apply(
            appending(
                stored(1, Q1),
                stored(2, Q1, properties={"p": 1}, apps=("a",)),
                stored(3, Q2, apps=()),
                stored(4, Q3),
            )
        )
        await store.apply(Batch(hold={Seq(1): (), Seq(4): ()}))
        loaded = await store.load(
            Load(
                backlogs={Q1},
                entries={Seq(1), Seq(2), Seq(9)},
                bodies={Seq(1)},
                usage={"d"},
                listings={Listing("d", QueueId(b""), 10)},
                overdue=Overdue((("d", FOREVER),), Seq(0), 10),
            )
        )
        assert [entry.apps for entry in loaded.backlogs[Q1][1]] == [(), ("a",)]
        assert {seq: (e.properties, e.apps) for seq, e in loaded.entries.items()} == {
            1: ({}, ()),
            2: ({"p": 1}, ()),
        }
        assert loaded.bodies == {1: b"body"}
        assert loaded.usage["d"].messages == 4
        [listed] = loaded.listings.values()
        assert [(each.queue, each.messages, each.is_whole) for each in listed] == [
            (Q1, 2, False),
            (Q2, 1, None),
            (Q3, 1, None),
        ]
        assert [dated.is_kept for dated in loaded.overdue] == [True, False, True, True]
        await store.apply(Batch(hold={Seq(3): ("a",)}))
        assert (await store.load(Load(backlogs={Q2}))).backlogs[Q2][1][0].apps == ("a",)

    async def test_closing_twice_is_fine(self, open_store: OpenStore) -> None:
        store = await open_store()
        await store.close()
        await store.close()


async def groups(store: Store, queue: QueueId) -> dict[AppId, GroupRecord]:
    return (await store.load(Load(backlogs={queue}))).groups.get(queue, {})


async def everything(store: Store) -> object:
    queues = [Q1, Q2, Q3, Q4, NEW, GONE]
    known = [*(b"%d" % n for n in range(5)), b"same", b"other", b"new"]
    return await store.load(
        Load(
            heads=dict.fromkeys(queues, 100),
            addresses={Address(party, id): 1 for party in Party for id in known},
            backlogs=set(queues),
            services={S1, S2},
            pages={Page(S1, QueueId(b""), 10)},
            usage={"d", "other"},
            identities={F1, F2, b"else", b"one", b"two"},
            aged=Aged(Seq(0), FOREVER, 100),
        )
    )


class DurableStoreConformance(StoreConformance):
    """What a store does besides if it promises to outlive the process."""

    async def test_all_is_there_after_closing_and_opening(self, open_store: OpenStore) -> None:
        """S001-36"""
        store = await open_store()
        its = parties(b"1", notifier=b"2", link=b"3", notifier_service=S2)
        await store.apply(creating(record(Q1, service=S1), record(Q2), shared(Q3, parties(b"4"))))
        await store.apply(appending(stored(7, Q1, properties={"p": 1}, apps=("a",)), stored(8, Q2)))
        await store.apply(
            Batch(
                amend={Q3: QueueRecord(Q3, "d", None, its, is_full=True)},
                remember={Q2: {MessageId(b"id"): Arrival(1.0, Seq(7))}},
                groups={(Q2, "a"): GroupRecord("x == 1")},
                tallies={S1: Tally.of([Q1])},
                identities={F1: ServiceRecord(S1, "r")},
            )
        )
        before = await everything(store)
        await store.close()
        store = await open_store()
        assert await everything(store) == before
        await store.close()

"""Facts on their way to the journal."""

from __future__ import annotations

from headgate.core.commands import Create, Sealed, Send, Subscribe, Tick
from headgate.core.effects import Failed
from headgate.core.facts import Delivered, SessionOpened, Subscribed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.tally import Tally, name_of
from headgate.core.turn.outbox import Outbox
from headgate.core.turn.store_requests import Batch
from headgate.errors import LimitReached
from headgate.testing.rig import Rig

LINE = Domain("line", Mode.EXCLUSIVE)
Q = QueueId(b"queue")
ONE = SessionId(1)


def outbox(limits: Limits | None = None, last: int = 0) -> Outbox:
    return Outbox(last, limits or Limits(), name_of, {QueueId(b"shared")})


def journaling(limits: Limits | None = None) -> Rig:
    rig = Rig(LINE, limits=limits)
    rig.shard.journal = True
    return rig


def rows(rig: Rig) -> list[list[str]]:
    return [
        [fact[0] for fact in asked.outbox.facts]
        for asked in rig.asked
        if isinstance(asked, Batch) and asked.outbox is not None
    ]


def message(number: int) -> Message:
    return Message(MessageId(b"%d" % number), b"body", 0.0)


def test_facts_are_numbered_one_after_another_and_failed_ones_leave_a_gap() -> None:
    box = outbox(last=7)
    first = box.row(box.tuples([SessionOpened(0.0, ONE, "w", "n")] * 3))
    assert first is not None
    assert (first.first, first.last) == (8, 10)
    box.committed(first)
    box.row(box.tuples([SessionOpened(0.0, ONE, "w", "n")]))  # its turn fails
    second = box.row(box.tuples([SessionOpened(0.0, ONE, "w", "n")]))
    assert second is not None
    assert second.first == 12
    assert box.watermark == 10
    box.committed(second)
    assert box.watermark == 12


def test_what_waits_goes_with_the_next_row_and_stays_if_that_fails() -> None:
    box = outbox()
    box.record([SessionOpened(0.0, ONE, "w", "first")])
    assert box.row(box.tuples([])) is not None  # its turn fails
    box.record([SessionOpened(0.0, ONE, "w", "second")])
    row = box.row(box.tuples([]))
    assert row is not None
    assert [fact[4] for fact in row.facts] == ["first", "second"]
    box.record([SessionOpened(0.0, ONE, "w", "third")])  # while the commit is under way
    assert (box.recorded, box.stored) == (3, 0)
    box.committed(row)
    assert len(box) == 1
    assert (box.recorded, box.stored) == (3, 2)


def test_an_exclusive_queue_is_named_by_the_digest_of_its_tally() -> None:
    box = outbox()
    shown = box.tuples(
        [
            Delivered(0.0, Q, "", MessageId(b"m"), ONE, 0),
            Delivered(0.0, QueueId(b"shared"), "", MessageId(b"m"), ONE, 0),
        ]
    )
    row = box.row(shown)
    assert row is not None
    assert [fact[2] for fact in row.facts] == [Tally.of([Q]).hash, b"shared"]


def test_a_flood_of_one_kind_is_counted() -> None:
    """The limit journal_facts_per_second, at and one above."""
    box = outbox(Limits(journal_facts_per_second=2))
    box.record([Subscribed(5.0, Q, "", ONE)] * 5)
    assert len(box) == 2
    box.record([Subscribed(6.5, Q, "", ONE)])
    row = box.row(box.tuples([]))
    assert row is not None
    assert [fact[0] for fact in row.facts] == ["Subscribed"] * 2 + ["FactsCounted", "Subscribed"]
    assert row.facts[2][1:] == (5.0, "Subscribed", 3)


def test_facts_of_messages_are_never_counted_instead() -> None:
    box = outbox(Limits(journal_facts_per_second=1))
    row = box.row(box.tuples([Delivered(0.0, Q, "", MessageId(b"m"), ONE, 0)] * 5))
    assert row is not None
    assert len(row.facts) == 5


def test_a_turn_with_stored_changes_takes_its_facts_along() -> None:
    rig = journaling()
    session = rig.session()
    rig.do(Create(session, 1, Q, "line", subscribe=True))
    assert rows(rig) == [["QueueCreated", "Subscribed"]]


def test_a_turn_without_waits_for_the_next_or_for_a_tick() -> None:
    rig = journaling()
    a, b = rig.session(), rig.session()
    rig.do(Create(a, 1, Q, "line"))
    rig.do(Subscribe(b, 2, Q))
    assert rows(rig) == [["QueueCreated"]]
    rig.do(Send(a, 3, Q, message(1)))
    assert rows(rig)[1:] == [["Subscribed", "Accepted", "Delivered"]]
    rig.do(Subscribe(b, 4, Q))
    rig.do(Tick())
    assert rows(rig)[2:] == [["Delivered"]]
    asked = len(rig.asked)
    rig.do(Tick())
    assert len(rig.asked) == asked


def test_a_failed_turn_writes_no_fact() -> None:
    rig = journaling()
    a = rig.session()
    rig.do(Create(a, 1, Q, "line"))
    rig.fail_at = 0
    rig.do(Send(a, 2, Q, message(1)))
    rig.do(Send(a, 3, Q, message(2)))
    assert rows(rig) == [["QueueCreated"], ["Accepted"], ["Accepted"]]
    kept = rig.store.outbox.values()  # type: ignore[attr-defined]
    assert [[fact[3] for fact in row.facts] for row in kept][1:] == [[b"2"]]


def test_sealed_rows_leave_the_store() -> None:
    rig = journaling()
    a = rig.session()
    rig.do(Create(a, 1, Q, "line"))
    rig.do(Send(a, 2, Q, message(1)))
    assert rig.shard.outbox.bytes > 0
    rig.do(Sealed(1))
    assert list(rig.store.outbox) == [2]  # type: ignore[attr-defined]
    rig.do(Sealed(2))
    assert rig.shard.outbox.bytes == 0


def test_when_the_journal_does_not_keep_up_messages_are_refused() -> None:
    """The limit outbox_bytes, at and one above."""
    rig = journaling(Limits(outbox_bytes=100))
    a = rig.session()
    rig.do(Create(a, 1, Q, "line"))
    [taken] = rig.do(Send(a, 2, Q, message(1)))
    assert not isinstance(taken, Failed)
    [refused] = rig.do(Send(a, 3, Q, message(2)))
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, LimitReached)
    rig.do(Sealed(10))
    [taken] = rig.do(Send(a, 4, Q, message(2)))
    assert not isinstance(taken, Failed)

from __future__ import annotations

from headgate.core import facts as f
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.server.desk.kept import (
    FACTS_KEPT,
    FACTS_PER_SECOND,
    LEVELS,
    RECENT_BYTES,
    RECENT_DOMAINS,
    RECENT_PER_SECOND,
    KeptFacts,
    RecentMessages,
    domain_of,
    message_row,
)
from headgate.server.desk.observing import Observers


def take(kept: KeptFacts | RecentMessages, facts: list[f.Fact]) -> None:
    """What the desk does with the facts of a turn."""
    observers = Observers()
    observers.add(LEVELS if isinstance(kept, KeptFacts) else [f.Accepted], kept.take)
    observers.observe(facts)


QUEUE, ID = QueueId(b"bmq://orders/q"), MessageId(b"m" * 16)


def slowed(at: float, session: int = 1) -> f.SessionSlowed:
    return f.SessionSlowed(at, SessionId(session), "<b>\x00", 5)


def test_so_many_facts_a_second_are_kept_and_the_rest_counted() -> None:
    kept = KeptFacts()
    take(kept, [slowed(n) for n in range(FACTS_PER_SECOND + 5)])
    assert (kept.last, kept.skipped) == (FACTS_PER_SECOND, {"SessionSlowed": 5})
    kept.pass_second()
    take(kept, [slowed(0.0), f.Accepted(0.0, QUEUE, ID, 1)])
    assert kept.last == FACTS_PER_SECOND + 1
    for _ in range(20):
        kept.pass_second()
        take(kept, [slowed(1.0)] * FACTS_PER_SECOND)
    assert len(kept.newest(most=10**6)) == FACTS_KEPT


def test_facts_are_found_by_level_kind_number_and_session() -> None:
    kept = KeptFacts()
    opened = f.SessionOpened(1.0, SessionId(2), "resp", "x")
    take(kept, [slowed(1.0), opened, f.TurnFailed(2.0, 3, "full")])
    assert [row.kind for row in kept.newest()] == ["TurnFailed", "SessionOpened", "SessionSlowed"]
    assert [row.kind for row in kept.newest(level="error")] == ["TurnFailed"]
    assert [row.id for row in kept.newest(kind="SessionOpened")] == [2]
    assert [row.id for row in kept.newest(after=2)] == [3]
    assert [row.id for row in kept.about(2, 50)] == [2]
    [row] = kept.newest(kind="SessionSlowed")
    assert row.fields["name"] == "<b>\ufffd"


def test_recent_messages_are_bounded_by_number_rate_size_and_domain() -> None:
    recent = RecentMessages(60)
    one = f.Accepted(0.0, QUEUE, ID, 1, {"kind": "a"})
    take(recent, [one] * 100)
    assert len(recent.of("orders")) == RECENT_PER_SECOND
    recent.pass_second()
    take(recent, [one] * 100)
    assert len(recent.of("orders")) == 60
    recent.pass_second()
    large = f.Accepted(9.0, QUEUE, ID, 1, {"kind": "a" * RECENT_BYTES})
    take(recent, [large, f.Accepted(9.0, QUEUE, ID, 1), f.Accepted(9.0, QueueId(b"x"), ID, 1)])
    assert recent.of("orders")[-1].at == 0.0
    for number in range(RECENT_DOMAINS):
        take(recent, [f.Accepted(0.0, QueueId(b"bmq://d%d/q" % number), ID, 1, {"kind": "a"})])
    assert recent.of("orders") == ()
    nothing = RecentMessages(0)
    take(nothing, [one])
    assert nothing.of("orders") == ()


def test_the_domain_of_a_queue() -> None:
    names = (b"bmq://orders/q", b"bmq://orders.~test/q", b"\xff" * 24)
    assert [domain_of(QueueId(name)) for name in names] == ["orders", "orders", ""]


def test_a_message_is_shown_without_what_is_too_much() -> None:
    row = message_row(1.0, ID, 9, {"a": b"\x00\xff", "b": "x" * 500, "c\n": True, "d": 7})
    assert row.properties == {"a": {"hex": "00ff"}, "b": "x" * 200 + "…", "c\ufffd": True, "d": 7}
    assert row.truncated
    many = message_row(1.0, ID, 9, {str(n): n for n in range(50)})
    assert (len(many.properties), many.truncated) == (20, True)
    assert not message_row(1.0, ID, 9, {"a": 1}).truncated

"""Exclusive queues as a whole: what ends with a session, and what outlives it."""

from __future__ import annotations

from headgate.core import facts as f
from headgate.core.commands import Drained
from tests.support.exclusive_queues import (
    Desk,
    Q,
    ack,
    desk_with,
    get,
    new,
    queues,
    send,
    sub,
)


def test_a_disconnect_drops_all_subscriptions_and_the_count_falls() -> None:
    """S000-75, S000-78, SMP-7: no queue has it as subscriber, and it has no seat any more."""
    desk = Desk()
    a, b = desk.sessions("a b")
    names = queues(20)
    desk.say(*(new(a, name, subscribe=True) for name in names), new(b, Q, subscribe=True))
    desk.say(get(a, Q))
    assert (len(desk.shard.session_states), len(desk.shard.exclusive.holders.subscribers)) == (
        2,
        21,
    )
    desk.leave(a)
    assert (len(desk.shard.session_states), len(desk.shard.exclusive.holders.subscribers)) == (1, 1)
    gone = desk.take_facts(f.Unsubscribed)
    assert sorted(fact.queue for fact in gone) == names
    assert {fact.session for fact in gone} == {a}
    assert desk.leave(a) == []


def test_a_disconnect_cancels_what_waited_for_room() -> None:
    """S000-76, S000-47: pending deliveries end with the session."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    desk.leave(a)
    assert desk.say(Drained(a)) == []
    assert desk.say(sub(b, Q)) == ["b SOK q", "b * MSG q m1"]


def test_the_backlog_outlives_the_session_and_the_unconfirmed_message_comes_first() -> None:
    """S000-79, SMP-7, SMP-8: the next SUB gets the first message, delivered before or not."""
    desk, (a, b, _, x) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    desk.leave(a)
    desk.say(send(x, Q, "m3"))
    for _ in range(2):
        assert desk.say(sub(b, Q)) == ["b SOK q", "b * MSG q m1"]
    assert desk.say(ack(b, Q, "m1"), ack(b, Q, "m2"), ack(b, Q, "m3")) == [
        "b MSG q m2",
        "b MSG q m3",
        "b OK",
    ]


def test_a_restart_keeps_queues_and_messages_and_forgets_subscriptions() -> None:
    """S000-79, SMP-8: what was delivered and not confirmed comes again, in order."""
    desk, (a, _, _, x) = desk_with("m1", "m2", "m3")
    desk.say(sub(a, Q), ack(a, Q, "m1"))
    desk = desk.restarted()
    b, x = desk.sessions("b x")
    assert desk.say(send(x, Q, "m4")) == ["x RECEIPT q m4"]
    assert desk.say(sub(b, Q)) == ["b SOK q", "b * MSG q m2"]
    lines = desk.say(ack(b, Q, "m2"), ack(b, Q, "m3"), ack(b, Q, "m4"))
    assert lines == ["b MSG q m3", "b MSG q m4", "b OK"]

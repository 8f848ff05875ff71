"""Delivery from exclusive queues: one message unconfirmed, and room in the mailbox."""

from __future__ import annotations

import pytest

from headgate.core import facts as f
from headgate.core.commands import Drained
from headgate.core.model.limits import Limits
from headgate.testing.rig import deliveries
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Desk,
    Q,
    S,
    ack,
    desk_of,
    desk_with,
    get,
    messages,
    new,
    queues,
    send,
    sub,
    subs,
)


@pytest.mark.parametrize("limits", [Limits(), Limits(heads=1, heads_bytes=1, backlogs=1)])
def test_what_waited_for_room_is_pushed_though_it_is_not_in_memory_any_more(limits: Limits) -> None:
    """SMP-14, S000-45: the head of each queue, and what is behind it waits for the confirm."""
    desk = Desk(limits=limits)
    a, x = desk.sessions("a x")
    desk.do(*(new(a, queue, subscribe=True) for queue in (Q1, Q2)))
    desk.fill(a)
    desk.do(*(send(x, queue, message) for message in ("m1", "m2") for queue in (Q1, Q2)))
    desk.do(new(x, Q3), send(x, Q3, "m1"))
    assert sorted(desk.drained(a)) == ["a * MSG q1 m1", "a * MSG q2 m1"]
    assert desk.say(ack(a, Q1, "m1")) == ["a MSG q1 m2"]


def test_nothing_is_delivered_to_a_session_that_hung_up() -> None:
    """S000-74: it is marked as gone first; what waited, or arrives, is not delivered to it."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    desk.say(new(b, Q1, subscribe=True))
    desk.hang_up(a)
    desk.hang_up(b)
    assert desk.say(Drained(a), send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]
    assert desk.clean_up(a) == []
    assert desk.clean_up(b) == []


def test_a_session_that_only_gets_is_never_pushed_to() -> None:
    """S000-27, S000-40, SMP-18: SEND stores, and the message comes with the next GET."""
    desk, (a, _, _, x) = desk_with()
    assert desk.say(get(a, Q)) == ["a OK"]
    assert desk.say(send(x, Q, "m1"), send(x, Q, "m2")) == ["x RECEIPT q m1", "x RECEIPT q m2"]
    assert desk.say(get(a, Q), ack(a, Q, "m1")) == ["a MSG q m1", "a OK"]
    assert desk.say(Drained(a)) == []
    assert desk.say(get(a, Q), ack(a, Q, "m2"), get(a, Q)) == ["a MSG q m2", "a OK", "a OK"]


def test_a_queue_emptied_by_a_getter_does_not_open_the_gate_of_the_subscriber() -> None:
    """S000-28, SMP-11, SMP-13: what is in flight blocks, until its own ACK brings what came
    since."""
    desk, (a, b, _, x) = desk_with("m1")
    desk.say(sub(a, Q), get(b, Q), ack(b, Q, "m1"))
    assert desk.say(send(x, Q, "m2")) == ["x RECEIPT q m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(ack(a, Q, "m2")) == ["a OK"]


def test_only_one_message_is_in_flight_until_it_is_confirmed() -> None:
    """S000-28, S000-32, SMP-11, ACC-35: the next message waits for the ACK."""
    desk, (a, _, _, x) = desk_with("m1", "m2")
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(send(x, Q, "m3")) == ["x RECEIPT q m3"]
    assert desk.say(ack(a, Q, "m2")) == ["a ERR NoMessage"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(ack(a, Q, "m2"), ack(a, Q, "m3")) == ["a MSG q m3", "a OK"]


def test_the_gate_remembers_what_is_in_flight_and_since_when() -> None:
    """S000-29: the age of a delivery, and the time to its confirm, can be told."""
    desk, (a, *_) = desk_with("m1", "m2")
    desk.now = 1010.0
    desk.say(sub(a, Q))
    gates = dict(desk.shard.session_states.items())[a].gates
    assert gates[Q].message == b"m1"
    assert gates[Q].at == 1010.0
    desk.now = 1012.5
    desk.say(ack(a, Q, "m1"))
    assert [(fact.seconds, fact.age) for fact in desk.take_facts(f.Confirmed)] == [(2.5, 12.5)]
    assert gates[Q].at == 1012.5
    desk.say(ack(a, Q, "m2"))
    assert Q not in gates


def test_messages_come_in_the_order_they_were_sent() -> None:
    """SMP-17: whatever the turns they were sent in."""
    desk, (a, b, _, x) = desk_with()
    names = [f"m{i:02}" for i in range(60)]
    rest = iter(names)
    for size in (1, 20, 3, 36):
        desk.say(*(send(x if i % 2 else b, Q, next(rest)) for i in range(size)))
    got = deliveries(desk.do(sub(a, Q)))
    while got[-1].decode() != names[-1]:
        got += deliveries(desk.do(ack(a, Q, got[-1].decode())))
    assert [body.decode() for body in got] == names


def test_without_room_the_sender_is_answered_and_the_message_waits() -> None:
    """S000-42, S000-43, SMP-16: delivered by a later step, as soon as there is room."""
    desk, (a, _, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    assert desk.say(send(x, Q, "m1")) == ["x RECEIPT q m1"]
    assert desk.stored(Q) == ["m1"]
    assert desk.drained(a) == ["a * MSG q m1"]
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]


def test_a_waiting_delivery_is_not_in_flight() -> None:
    """S000-42, SMP-13: what was not delivered cannot be confirmed."""
    desk, (a, _, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.stored(Q) == ["m1"]
    assert desk.drained(a) == ["a * MSG q m1"]


def test_room_that_is_still_lacking_lets_the_message_wait_on() -> None:
    """S000-43: being told of room that is gone again delivers nothing and loses nothing."""
    desk, (a, _, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    assert desk.say(Drained(a)) == []
    assert desk.drained(a) == ["a * MSG q m1"]
    assert desk.drained(a) == []


def test_a_subscribe_without_room_is_answered_and_its_message_waits() -> None:
    """S000-30, S000-43, SMP-12: the answer is always given, the message needs room."""
    desk, (a, *_) = desk_with("m1")
    desk.fill(a)
    assert desk.say(sub(a, Q)) == ["a SOK q"]
    assert desk.drained(a) == ["a * MSG q m1"]


def test_many_waiting_queues_are_delivered_together_and_once() -> None:
    """S000-43, SMP-16: one step for all that waited, each message once."""
    desk = Desk()
    a, x = desk.sessions("a x")
    names = queues(50)
    desk.say(*(new(a, name, subscribe=True) for name in names))
    desk.fill(a)
    desk.say(*(send(x, name, "m1") for name in names))
    lines = desk.drained(a)
    assert sorted(lines) == [f"a * MSG {name.decode()} m1" for name in names]
    assert desk.drained(a) == []


def test_a_waiting_delivery_is_not_made_when_one_is_in_flight_by_then() -> None:
    """S000-45: no message is delivered twice to one session."""
    desk, (a, _, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    desk.drain(a)
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(Drained(a)) == []
    desk.fill(a)
    assert desk.drained(a) == []
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]


def test_a_pending_step_that_delivers_nothing_leaves_the_subscription_able_to_receive() -> None:
    """S000-46, SMP-16: the message was taken by a getter; the next one is pushed."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    desk.say(get(b, Q), ack(b, Q, "m1"))
    assert desk.drained(a) == []
    assert desk.heard_by(a, desk.say(send(x, Q, "m2"))) == ["* MSG q m2"]


def test_a_message_that_replaces_the_waiting_one_is_delivered_in_its_place() -> None:
    """S000-40, S000-46: one delivery waits per subscription, and it is of the head."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"), get(b, Q), ack(b, Q, "m1"), send(x, Q, "m2"), send(x, Q, "m3"))
    assert desk.drained(a) == ["a * MSG q m2"]
    assert desk.drained(a) == []
    assert desk.say(ack(a, Q, "m2"), ack(a, Q, "m3")) == ["a MSG q m3", "a OK"]


def test_a_session_without_room_does_not_hold_up_the_others() -> None:
    """S000-41, S000-42: whoever has room is delivered to in the same turn."""
    desk = Desk()
    a, b, x = desk.sessions("a b x")
    desk.say(new(a, Q1, subscribe=True), new(b, Q2, subscribe=True))
    desk.fill(a)
    lines = desk.say(send(x, Q1, "m1"), send(x, Q2, "m1"))
    assert desk.heard_by(b, lines) == ["* MSG q2 m1"]
    assert desk.heard_by(a, lines) == []


def test_an_answer_is_given_without_room() -> None:
    """S000-34, SMP-13, SMP-20: the peer waits for it, and asked for it one by one."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.fill(b)
    assert desk.say(ack(a, Q, "m1"), get(b, Q)) == ["a MSG q m2", "b MSG q m2"]


def test_one_who_reads_with_get_is_not_pushed_to_as_the_services_subscriber_either() -> None:
    """S000-27, S000-40, SMP-16, SMP-30: a subscription of the GET kind stops the push, and the
    sweep skips a queue of which the session has one."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a = desk.session("a")
    assert desk.say(get(a, Q1)) == ["a MSG q1 m1"]
    assert messages(desk.say(subs(a, S))) == ["a * MSG q2 m1"]
    assert desk.say(ack(a, Q1, "m1")) == ["a OK"]
    assert desk.say(send(x, Q1, "m2")) == ["x RECEIPT q1 m2"]
    assert desk.say(get(a, Q1)) == ["a MSG q1 m2"]


def test_a_full_mailbox_of_a_service_leads_to_a_later_delivery() -> None:
    """S000-48, SMP-16: a message for a service's queue waits for room like any other."""
    desk, x = desk_of(Q1)
    a = desk.session("a")
    desk.say(subs(a, S))
    desk.fill(a)
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]
    assert desk.drained(a) == ["a * MSG q1 m1"]
    assert desk.say(ack(a, Q1, "m1"), send(x, Q1, "m2")) == [
        "a OK",
        "x RECEIPT q1 m2",
        "a * MSG q1 m2",
    ]

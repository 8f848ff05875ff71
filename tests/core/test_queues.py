"""Exclusive queues: one subscriber, one message in flight, three triggers of a delivery."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import pytest

from headgate.core import facts as f
from headgate.core.commands import Command, Create, Disconnect, Drained, Sweep
from headgate.core.domain import Domain, Mode
from headgate.core.effects import Deliver, Effect, End, Failed
from headgate.core.limits import Limits
from headgate.core.names import QueueId, SessionId
from headgate.core.steps import Batch, Load
from headgate.errors import LimitReached, NoSuchQueue, QuotaReached
from headgate.store.sqlite import SqliteStore
from headgate.testing.rig import at_once, deliveries
from tests.core.desk import (
    Q1,
    Q2,
    Q3,
    SMP,
    Desk,
    Q,
    S,
    ack,
    broker_of,
    calls,
    delete,
    drive,
    get,
    new,
    queues,
    send,
    sub,
)


def desk_with(*messages: str, limits: Limits | None = None) -> tuple[Desk, list[SessionId]]:
    """A desk with a queue q that holds these messages, sessions a, b, c, and the sender x."""
    desk = Desk(limits=limits)
    a, b, c, x = desk.sessions("a b c x")
    desk.say(new(x, Q), *(send(x, Q, message) for message in messages))
    desk.facts.clear()
    desk.asked.clear()
    return desk, [a, b, c, x]


# Creating and deleting.


def test_a_new_queue_is_granted_and_stored() -> None:
    desk = Desk()
    a = desk.session("a")
    assert desk.say(new(a, Q)) == ["a SOK q"]
    assert desk.stored(Q) == []
    assert desk.subscriber(Q) == []
    assert [fact.queue for fact in desk.take_facts(f.QueueCreated)] == [Q]


def test_a_queue_created_with_a_subscription_is_pushed_to_without_looking_for_messages() -> None:
    """R10: NEW with S subscribes the creating session without message lookup."""
    desk = Desk()
    a, x = desk.sessions("a x")
    trips = desk.trips(new(a, Q, subscribe=True))
    assert [trip.heads for trip in trips if isinstance(trip, Load)] in ([], [{Q: 0}])
    assert desk.subscriber(Q) == [a]
    assert desk.heard_by(a, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]


def test_a_queue_created_without_a_subscription_is_nobodys() -> None:
    """R10: only NEW with S subscribes."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.say(new(a, Q))
    assert desk.say(send(x, Q, "m1")) == ["x RECEIPT q m1"]


def test_an_id_that_exists_is_not_created_again() -> None:
    desk, (a, b, *_) = desk_with("m1")
    assert desk.say(new(a, Q), new(b, Q1), new(a, Q1)) == [
        "a ERR QueueExists",
        "b SOK q1",
        "a ERR QueueExists",
    ]
    assert desk.stored(Q) == ["m1"]
    fresh = desk.restarted()
    assert fresh.say(new(fresh.session("a"), Q)) == ["a ERR QueueExists"]


@pytest.mark.parametrize("domain", ["nowhere", "orders"])
def test_only_a_domain_of_exclusive_queues_takes_a_new_queue(domain: str) -> None:
    desk = Desk(domain=Domain("orders", Mode.PRIORITY))
    a = desk.session("a")
    assert desk.say(Create(a, 1, Q, domain)) == ["a ERR Prohibited"]
    assert desk.stored_head(Q) is None


def test_everything_about_an_unknown_queue_is_refused_alike() -> None:
    """S004-49: each command gets its own error, the one for an unknown queue."""
    desk = Desk()
    a = desk.session("a")
    outcome = desk.do(
        sub(a, Q), get(a, Q), send(a, Q, "m"), ack(a, Q, "m"), ack(a, Q), delete(a, Q)
    )
    assert len(outcome) == 6
    for effect in outcome:
        assert isinstance(effect, Failed)
        assert isinstance(effect.error, NoSuchQueue)
        assert effect.error.queue == Q
    assert desk.subscriber(Q) == []


def test_a_deleted_queue_is_unknown_from_then_on() -> None:
    """R9, A29: after DEL every later use is refused, also of the session that had it open."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q), get(b, Q))
    assert desk.heard_by(a, desk.say(delete(a, Q))) == ["OK"]
    assert desk.stored_head(Q) is None
    assert desk.say(ack(a, Q, "m1"), ack(b, Q, "m1"), send(b, Q, "m"), get(b, Q), sub(a, Q)) == [
        "a ERR NoSuchQueue",
        "b ERR NoSuchQueue",
        "b ERR NoSuchQueue",
        "b ERR NoSuchQueue",
        "a ERR NoSuchQueue",
    ]
    assert [fact.messages for fact in desk.take_facts(f.QueueDeleted)] == [2]


def test_a_queue_deleted_and_made_again_in_one_turn_is_empty_and_there() -> None:
    """The results of a block are as if its commands were executed one by one."""
    desk, (a, b, *_) = desk_with("old")
    desk.say(sub(a, Q))
    assert desk.heard_by(b, desk.say(delete(b, Q), new(b, Q), send(b, Q, "m1"), sub(b, Q))) == [
        "OK",
        "SOK q",
        "RECEIPT q m1",
        "SOK q",
        "* MSG q m1",
    ]
    assert desk.stored(Q) == ["m1"]
    fresh = desk.restarted()
    assert fresh.say(sub(fresh.session("a"), Q)) == ["a SOK q", "a * MSG q m1"]


def test_a_queue_made_deleted_and_made_again_in_one_turn_is_there() -> None:
    """The results of a block are as if its commands were executed one by one."""
    desk = Desk()
    a = desk.session("a")
    desk.say(new(a, Q), send(a, Q, "old"), delete(a, Q), new(a, Q), send(a, Q, "m1"))
    assert desk.stored(Q) == ["m1"]


def test_a_queue_deleted_made_and_deleted_again_in_one_turn_is_gone() -> None:
    """The results of a block are as if its commands were executed one by one."""
    desk, (a, *_) = desk_with("old")
    lines = desk.say(delete(a, Q), new(a, Q), send(a, Q, "m1"), delete(a, Q), sub(a, Q))
    assert lines == ["a OK", "a SOK q", "a RECEIPT q m1", "a OK", "a ERR NoSuchQueue"]
    assert desk.stored_head(Q) is None
    assert desk.say(new(a, Q), sub(a, Q)) == ["a SOK q", "a SOK q"]


def test_the_subscriber_of_a_queue_deleted_by_another_is_told_once() -> None:
    """S000-15, R9: DELD, not END, to the subscriber; the one who deletes gets only OK."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    lines = desk.say(delete(b, Q))
    assert desk.heard_by(a, lines) == ["* DELD q"]
    assert desk.heard_by(b, lines) == ["OK"]


def test_a_subscriber_that_deletes_its_own_queue_is_only_answered() -> None:
    """R9: the deleting session itself gets only OK."""
    desk, (a, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    assert desk.say(delete(a, Q)) == ["a OK"]
    assert desk.subscriber(Q) == []


def test_a_subscriber_that_is_gone_is_told_nothing_of_a_deletion() -> None:
    """R9: DELD is for a connected session."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    desk.leave(a)
    assert desk.say(delete(b, Q)) == ["b OK"]


# One subscriber.


def test_a_subscribe_of_another_session_displaces_the_first() -> None:
    """S000-2, S000-12, S000-13, R1, R2: one END, which answers no request; the new session is
    the subscriber when its SUB is answered."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    outcome = desk.turn([sub(b, Q)])
    assert [effect for effect in outcome.effects if effect.session == a] == [End(a, Q)]
    assert desk.heard_by(b, desk.lines(outcome.effects)) == ["SOK q", "* MSG q m1"]
    assert desk.subscriber(Q) == [b]
    assert [(fact.session, fact.by) for fact in desk.take_facts(f.Displaced)] == [(a, b)]


def test_a_displaced_session_is_told_once_whatever_follows() -> None:
    """S000-13, R6: exactly one END, and nothing more of that queue after it."""
    desk, (a, b, c, x) = desk_with("m1")
    desk.say(sub(a, Q))
    lines = desk.say(sub(b, Q))
    lines += desk.say(sub(b, Q), sub(c, Q), send(x, Q, "m2"), ack(c, Q, "m1"))
    lines += desk.say(delete(x, Q))
    assert desk.heard_by(a, lines) == ["* END q"]
    assert desk.heard_by(b, lines) == ["SOK q", "* MSG q m1", "SOK q", "* MSG q m1", "* END q"]
    assert desk.heard_by(c, lines) == ["SOK q", "* MSG q m1", "MSG q m2", "* DELD q"]


def test_subscribing_again_ends_nothing_and_delivers_the_head_again() -> None:
    """S000-14, S004-47, R4: no END; the gate is reset and the head comes again."""
    desk, (a, *_) = desk_with("m1", "m2")
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m2"]
    assert desk.say(ack(a, Q, "m1"), ack(a, Q, "m2")) == ["a ERR NoMessage", "a OK"]


def test_a_displaced_session_cannot_confirm_what_it_was_given() -> None:
    """S000-16, R2, R6: its subscription is gone at once, so its ACK is NO_MSG."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    desk.say(sub(b, Q))
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.say(ack(a, Q)) == ["a ERR NoMessage"]
    assert desk.stored(Q) == ["m1", "m2"]
    assert desk.say(ack(b, Q, "m1")) == ["b MSG q m2"]


def test_a_displaced_session_gets_nothing_from_the_displacement_on_in_the_same_turn() -> None:
    """S000-17: not even between the displacement and the END."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    lines = desk.say(sub(b, Q), send(x, Q, "m1"), ack(a, Q, "m1"), ack(b, Q, "m1"))
    assert desk.heard_by(a, lines) == ["* END q", "ERR NoMessage"]
    assert desk.heard_by(b, lines) == ["SOK q", "* MSG q m1", "OK"]


def test_a_displacement_ends_the_delivery_that_waited_for_the_old_session() -> None:
    """S000-16, S000-47: its waiting delivery is cancelled."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    assert desk.heard_by(b, desk.say(sub(b, Q))) == ["SOK q", "* MSG q m1"]
    assert desk.drained(a) == []


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("order", list(permutations("abc")))
def test_registrations_take_effect_in_the_order_they_were_asked_for(
    order: tuple[str, ...], together: bool
) -> None:
    """S000-1, S000-8, R1: whatever the interleaving, the last one is the only subscriber."""
    desk, (a, b, c, x) = desk_with()
    names = dict(zip("abc", (a, b, c), strict=True))
    asked = [sub(names[name], Q) for name in order]
    lines = desk.say(*asked) if together else [line for one in asked for line in desk.say(one)]
    assert desk.subscriber(Q) == [names[order[-1]]]
    for name in order[:-1]:
        assert desk.heard_by(names[name], lines) == ["SOK q", "* END q"]
    assert desk.heard_by(names[order[-1]], lines) == ["SOK q"]
    assert deliveries(desk.do(send(x, Q, "m")), names[order[-1]]) == [b"m"]


def test_nobody_is_told_of_a_displacement_that_did_not_happen() -> None:
    """S000-12: the END belongs to the registration; when the store fails there is neither."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    restarted = desk.restarted()
    a, b, x = restarted.sessions("a b x")
    restarted.say(sub(a, Q))
    restarted.fail_at = 0
    lines, _ = restarted.say_one(sub(b, Q), send(x, Q, "m2"))
    assert lines == ["b ERR StoreError", "x ERR StoreError"]
    assert restarted.subscriber(Q) == [a]
    assert restarted.say(ack(a, Q, "m1")) == ["a OK"]


def test_queues_of_one_session_are_taken_from_it_one_by_one() -> None:
    """R1: displacement is per queue."""
    desk = Desk()
    a, b, x = desk.sessions("a b x")
    desk.say(new(a, Q1, subscribe=True), new(a, Q2, subscribe=True))
    assert desk.heard_by(a, desk.say(sub(b, Q1))) == ["* END q1"]
    assert desk.say(send(x, Q1, "m"), send(x, Q2, "m")) == [
        "x RECEIPT q1 m",
        "b * MSG q1 m",
        "x RECEIPT q2 m",
        "a * MSG q2 m",
    ]


def test_looking_up_a_subscriber_costs_the_same_among_one_queue_and_among_thousands() -> None:
    """S000-6, S000-9, S000-39: the number of calls of a SEND does not depend on the other
    queues, nor on sessions that came and went elsewhere."""

    def cost(others: int, *, subscribed: bool) -> int:
        desk = Desk()
        a, x = desk.sessions("a x")
        names = queues(others)
        desk.do(*(new(a, name, subscribe=True) for name in names))
        for name in names[: others // 10]:
            passing = desk.session("passing")
            desk.do(sub(passing, name))
            desk.leave(passing)
        desk.do(new(a, Q, subscribe=subscribed))
        desk.do(send(x, Q, "warm"), get(x, Q), ack(x, Q, "warm"))
        if subscribed:
            desk.do(sub(a, Q))
        command = send(x, Q, "m")
        return calls(lambda: desk.turn([command]))

    assert cost(1, subscribed=True) == cost(3000, subscribed=True)
    assert cost(1, subscribed=False) == cost(3000, subscribed=False)


def test_sessions_that_come_and_go_do_not_touch_a_registration() -> None:
    """S000-9: a registration is one turn, whatever happens among other sessions meanwhile."""
    desk, (a, *_) = desk_with("m1")
    step = desk.shard.turn([sub(a, Q)], desk.now)
    asked = next(step, None)
    others = [desk.session("other") for _ in range(10)]
    for other in others:
        desk.hang_up(other)
    assert asked is None or isinstance(asked, Load)
    if isinstance(asked, Load):
        with pytest.raises(StopIteration):
            step.send(at_once(desk.store.load(asked)))
    assert desk.subscriber(Q) == [a]


# Sessions that are gone.


def test_a_session_that_hung_up_is_not_registered_but_ends_the_subscriber() -> None:
    """S000-10, S000-11, R5: the place was asked for, so whoever had it is told END."""
    desk, (a, b, _, x) = desk_with("m1")
    desk.say(sub(a, Q))
    desk.hang_up(b)
    lines = desk.say(sub(b, Q))
    assert desk.heard_by(a, lines) == ["* END q"]
    assert desk.subscriber(Q) == []
    lines = desk.clean_up(b)
    lines += desk.say(send(x, Q, "m2"), ack(a, Q, "m1"))
    assert lines == ["x RECEIPT q m2", "a ERR NoMessage"]


def test_a_session_that_hung_up_and_was_the_subscriber_itself_ends_nobody() -> None:
    """S000-10, R5: END goes to a different subscriber only."""
    desk, (a, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    desk.hang_up(a)
    assert [line for line in desk.say(sub(a, Q)) if "END" in line] == []
    assert desk.clean_up(a) == []
    assert desk.subscriber(Q) == []


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


def test_the_clean_up_of_an_old_session_spares_the_subscription_of_a_new_one() -> None:
    """S000-4, S000-77, R7: it is removed only where it still is the subscriber."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q), new(a, Q1, subscribe=True))
    desk.hang_up(a)
    desk.say(sub(b, Q))
    assert desk.clean_up(a) == []
    assert desk.subscriber(Q) == [b]
    assert desk.subscriber(Q1) == []
    assert desk.heard_by(b, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]


def test_a_client_that_comes_back_before_its_clean_up_keeps_the_queue() -> None:
    """S000-4: a removal names its session, and ids are never used again."""
    desk, (a, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    desk.hang_up(a)
    again = desk.session("again")
    assert again != a
    lines = desk.say(sub(again, Q), Disconnect(a))
    assert desk.heard_by(again, lines) == ["SOK q", "* MSG q m1"]
    assert desk.say(ack(again, Q, "m1")) == ["again OK"]


def test_a_disconnect_drops_all_subscriptions_and_the_count_falls() -> None:
    """S000-75, S000-78, R7: no queue has it as subscriber, and it has no seat any more."""
    desk = Desk()
    a, b = desk.sessions("a b")
    names = queues(20)
    desk.say(*(new(a, name, subscribe=True) for name in names), new(b, Q, subscribe=True))
    desk.say(get(a, Q))
    assert (len(desk.shard.seats), len(desk.shard.queues.subscribers)) == (2, 21)
    desk.leave(a)
    assert (len(desk.shard.seats), len(desk.shard.queues.subscribers)) == (1, 1)
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
    """S000-79, R7, R8: the next SUB gets the first message, delivered before or not."""
    desk, (a, b, _, x) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    desk.leave(a)
    desk.say(send(x, Q, "m3"))
    assert desk.say(sub(b, Q)) == ["b SOK q", "b * MSG q m1"]
    assert desk.say(ack(b, Q, "m1"), ack(b, Q, "m2"), ack(b, Q, "m3")) == [
        "b MSG q m2",
        "b MSG q m3",
        "b OK",
    ]


def test_a_restart_keeps_queues_and_messages_and_forgets_subscriptions() -> None:
    """S000-79, R8: what was delivered and not confirmed comes again, in order."""
    desk, (a, _, _, x) = desk_with("m1", "m2", "m3")
    desk.say(sub(a, Q), ack(a, Q, "m1"))
    desk = desk.restarted()
    b, x = desk.sessions("b x")
    assert desk.say(send(x, Q, "m4")) == ["x RECEIPT q m4"]
    lines = desk.say(sub(b, Q), ack(b, Q, "m2"), ack(b, Q, "m3"), ack(b, Q, "m4"))
    assert lines == ["b SOK q", "b * MSG q m2", "b MSG q m3", "b MSG q m4", "b OK"]


# GET.


def test_get_then_subscribe_on_one_session_is_prohibited() -> None:
    """S000-23, R19: also when the queue was empty; and nobody is displaced by the attempt."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(b, Q))
    assert desk.say(get(a, Q)) == ["a OK"]
    assert desk.say(sub(a, Q)) == ["a ERR Prohibited"]
    assert desk.subscriber(Q) == [b]
    assert desk.heard_by(b, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]
    assert desk.say(get(a, Q), sub(a, Q)) == ["a MSG q m1", "a ERR Prohibited"]
    assert desk.say(ack(a, Q, "m1"), sub(a, Q)) == ["a OK", "a ERR Prohibited"]


def test_subscribe_then_get_on_one_session_is_prohibited() -> None:
    """S000-24, R19: and the subscription goes on."""
    desk, (a, *_) = desk_with("m1")
    assert desk.say(sub(a, Q), get(a, Q)) == ["a SOK q", "a * MSG q m1", "a ERR Prohibited"]
    assert desk.say(ack(a, Q, "m1"), get(a, Q)) == ["a OK", "a ERR Prohibited"]


def test_the_subscriber_from_creation_may_not_get_either() -> None:
    """S000-24, R10, R19: NEW with S is a subscription like any other."""
    desk = Desk()
    a = desk.session("a")
    assert desk.say(new(a, Q, subscribe=True), get(a, Q)) == ["a SOK q", "a ERR Prohibited"]


def test_get_and_subscribe_work_together_on_two_sessions() -> None:
    """S000-25, R18, R19, A40: both see the same message."""
    desk, (a, b, *_) = desk_with("m1")
    effects = desk.do(sub(a, Q), get(b, Q))
    seen = [effect.message for effect in effects if isinstance(effect, Deliver)]
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_a_displaced_session_may_get_what_it_subscribed_before() -> None:
    """S000-24, R2: the exclusion lasts while the subscription is active."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q), sub(b, Q))
    assert desk.say(get(a, Q)) == ["a MSG q m1"]


def test_a_session_that_only_gets_displaces_nobody_and_is_not_displaced() -> None:
    """S000-26, R18: it is not in the registry, and gets neither END nor DELD."""
    desk, (a, b, c, _) = desk_with("m1")
    desk.say(sub(a, Q))
    assert desk.say(get(b, Q)) == ["b MSG q m1"]
    assert desk.subscriber(Q) == [a]
    lines = desk.say(sub(c, Q)) + desk.say(delete(c, Q))
    assert desk.heard_by(b, lines) == []
    desk.leave(b)
    assert desk.take_facts(f.Displaced)[0].session == a


def test_a_session_that_only_gets_is_never_pushed_to() -> None:
    """S000-27, S000-40, R18: SEND stores, and the message comes with the next GET."""
    desk, (a, _, _, x) = desk_with()
    assert desk.say(get(a, Q)) == ["a OK"]
    assert desk.say(send(x, Q, "m1"), send(x, Q, "m2")) == ["x RECEIPT q m1", "x RECEIPT q m2"]
    assert desk.say(get(a, Q), ack(a, Q, "m1")) == ["a MSG q m1", "a OK"]
    assert desk.say(Drained(a)) == []
    assert desk.say(get(a, Q), ack(a, Q, "m2"), get(a, Q)) == ["a MSG q m2", "a OK", "a OK"]


def test_a_get_can_be_repeated_and_answers_its_own_request() -> None:
    """R20: MSG with the request's reference; OK for an empty queue."""
    desk, (a, *_) = desk_with("m1")
    first, second = get(a, Q), get(a, Q)
    effects = desk.do(first, second)
    assert [
        (effect.ref, effect.message.id) for effect in effects if isinstance(effect, Deliver)
    ] == [
        (first.ref, b"m1"),
        (second.ref, b"m1"),
    ]
    assert desk.say(ack(a, Q, "m1"), get(a, Q)) == ["a OK", "a OK"]


def test_a_confirm_after_get_deletes_and_never_answers_with_a_message() -> None:
    """R20: OK, although there is a next message."""
    desk, (a, *_) = desk_with("m1", "m2")
    assert desk.say(get(a, Q), ack(a, Q, "m1")) == ["a MSG q m1", "a OK"]
    assert desk.stored(Q) == ["m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.say(get(a, Q)) == ["a MSG q m2"]


def test_a_confirm_after_get_of_something_else_is_refused() -> None:
    """R13, R20, A42: NO_MSG for an id that was not delivered to this GET."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.say(get(a, Q), ack(a, Q, "m2"), ack(b, Q, "m1")) == [
        "a MSG q m1",
        "a ERR NoMessage",
        "b ERR NoMessage",
    ]
    assert desk.stored(Q) == ["m1", "m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]


def test_a_confirm_after_get_without_an_id_deletes_nothing_and_answers_ok() -> None:
    """R13, R20: an empty id matches what is delivered, never deletes, and the answer to a GET
    session's ACK is always OK."""
    desk, (a, *_) = desk_with("m1")
    assert desk.say(get(a, Q), ack(a, Q)) == ["a MSG q m1", "a OK"]
    assert desk.stored(Q) == ["m1"]
    assert desk.say(ack(a, Q)) == ["a ERR NoMessage"]


def test_a_confirm_after_get_is_fine_when_the_subscriber_was_faster() -> None:
    """R20, A42: OK, provided it is what was delivered to this GET; nothing else is deleted."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q), get(b, Q))
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(ack(b, Q, "m1")) == ["b OK"]
    assert desk.stored(Q) == ["m2"]


def test_a_confirm_of_what_a_getter_removed_delivers_the_current_head() -> None:
    """R13, A43, A44: the subscriber skips it, and nothing is lost."""
    desk, (a, b, *_) = desk_with("m1", "m2", "m3")
    desk.say(sub(a, Q))
    assert desk.say(get(b, Q), ack(b, Q, "m1"), get(b, Q), ack(b, Q, "m2")) == [
        "b MSG q m1",
        "b OK",
        "b MSG q m2",
        "b OK",
    ]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m3"]
    assert desk.stored(Q) == ["m3"]


def test_a_queue_emptied_by_a_getter_does_not_open_the_gate_of_the_subscriber() -> None:
    """S000-28, R11, R13: what is in flight blocks, until its own ACK brings what came since."""
    desk, (a, b, _, x) = desk_with("m1")
    desk.say(sub(a, Q), get(b, Q), ack(b, Q, "m1"))
    assert desk.say(send(x, Q, "m2")) == ["x RECEIPT q m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(ack(a, Q, "m2")) == ["a OK"]


def test_a_get_session_that_leaves_is_forgotten() -> None:
    """R7, R18: another session of the same client may subscribe."""
    desk, (a, *_) = desk_with("m1")
    desk.say(get(a, Q))
    desk.leave(a)
    again = desk.session("again")
    assert desk.say(sub(again, Q)) == ["again SOK q", "again * MSG q m1"]


# One message in flight, three triggers.


def test_only_one_message_is_in_flight_until_it_is_confirmed() -> None:
    """S000-28, S000-32, R11, A35: the next message waits for the ACK."""
    desk, (a, _, _, x) = desk_with("m1", "m2")
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(send(x, Q, "m3")) == ["x RECEIPT q m3"]
    assert desk.say(ack(a, Q, "m2")) == ["a ERR NoMessage"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]


def test_the_gate_remembers_what_is_in_flight_and_since_when() -> None:
    """S000-29: the age of a delivery, and the time to its confirm, can be told."""
    desk, (a, *_) = desk_with("m1", "m2")
    desk.now = 1010.0
    desk.say(sub(a, Q))
    gates = dict(desk.shard.seats.items())[a].gates
    assert list(gates[Q].outstanding) == [b"m1"]
    assert gates[Q].oldest() == 1010.0
    desk.now = 1012.5
    desk.say(ack(a, Q, "m1"))
    assert [(fact.seconds, fact.age) for fact in desk.take_facts(f.Confirmed)] == [(2.5, 12.5)]
    assert gates[Q].oldest() == 1012.5
    desk.say(ack(a, Q, "m2"))
    assert Q not in gates


def test_a_subscribe_answers_and_delivers_the_head_in_one_turn() -> None:
    """S000-30, S004-1, R12: SOK first, then the message, which answers no request."""
    desk, (a, *_) = desk_with("m1", "m2")
    lines, again = desk.say_one(sub(a, Q))
    assert lines == ["a SOK q", "a * MSG q m1"]
    assert again == []


def test_a_subscribe_of_an_empty_queue_is_only_answered_and_leaves_the_gate_open() -> None:
    """S000-31, S004-1, R12."""
    desk, (a, _, _, x) = desk_with()
    assert desk.say(sub(a, Q)) == ["a SOK q"]
    assert desk.say(ack(a, Q)) == ["a ERR NoMessage"]
    assert desk.heard_by(a, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]


def test_a_confirm_deletes_and_answers_with_the_next_message_in_one_trip() -> None:
    """S000-33, S000-34, R13: one batch that deletes; the next head is the answer itself."""
    desk, (a, *_) = desk_with("m1", "m2", "m3")
    desk = desk.restarted()
    a = desk.session("a")
    desk.do(sub(a, Q))
    desk.asked.clear()
    command = ack(a, Q, "m1")
    effects = desk.do(command)
    assert [
        (effect.ref, effect.message.id) for effect in effects if isinstance(effect, Deliver)
    ] == [(command.ref, b"m2")]
    assert len([trip for trip in desk.asked if isinstance(trip, Batch)]) == 1
    assert len([trip for trip in desk.asked if isinstance(trip, Load)]) <= 1
    assert desk.stored(Q) == ["m2", "m3"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m2"]


def test_a_confirm_of_the_last_message_opens_the_gate() -> None:
    """S000-35, R13, A4, A5: OK; a second ACK is NO_MSG; the next SEND is pushed."""
    desk, (a, _, _, x) = desk_with("m1")
    desk.say(sub(a, Q))
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.heard_by(a, desk.say(send(x, Q, "m2"))) == ["* MSG q m2"]


def test_a_confirm_without_an_id_deletes_nothing_and_delivers_the_head_again() -> None:
    """R13: ACK with an empty id never deletes."""
    desk, (a, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    assert desk.say(ack(a, Q), ack(a, Q)) == ["a MSG q m1", "a MSG q m1"]
    assert desk.stored(Q) == ["m1", "m2"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]


def test_a_confirm_of_the_wrong_message_changes_nothing() -> None:
    """R13: NO_MSG, and the gate stays shut under its id."""
    desk, (a, b, _, x) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    assert desk.say(ack(a, Q, "m2"), ack(a, Q, "zz"), ack(b, Q, "m1")) == [
        "a ERR NoMessage",
        "a ERR NoMessage",
        "b ERR NoMessage",
    ]
    assert desk.say(send(x, Q, "m3")) == ["x RECEIPT q m3"]
    assert desk.stored(Q) == ["m1", "m2", "m3"]


def test_a_send_to_an_empty_queue_is_pushed_to_the_idle_subscriber_at_once() -> None:
    """S000-36, S000-41, R14, R16: in the turn of the SEND, and the gate is shut by then."""
    desk, (a, _, _, x) = desk_with()
    desk.say(sub(a, Q))
    lines, again = desk.say_one(send(x, Q, "m1"), send(x, Q, "m2"), ack(a, Q, "m1"))
    assert desk.heard_by(a, lines) == ["* MSG q m1", "MSG q m2"]
    assert again == []


def test_sender_and_subscriber_may_be_one_session() -> None:
    """R15, A47: it gets its receipt and the message, in either order."""
    desk, (a, *_) = desk_with()
    desk.say(sub(a, Q))
    assert sorted(desk.say(send(a, Q, "m1"))) == ["a * MSG q m1", "a RECEIPT q m1"]


def test_a_send_to_a_queue_with_a_backlog_is_not_pushed() -> None:
    """S000-37, R14: while a message is in flight; R14 wins over offering the head on every
    touch, so neither is a head that waits behind an open gate pushed by a SEND."""
    desk, (a, b, _, x) = desk_with("m1")
    desk.say(sub(a, Q))
    assert desk.say(send(x, Q, "m2")) == ["x RECEIPT q m2"]
    desk.say(new(b, Q1, subscribe=True))
    desk.fill(b)
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]
    desk.drain(b)
    assert desk.say(send(x, Q1, "m2")) == ["x RECEIPT q1 m2"]
    assert desk.drained(b) == ["b * MSG q1 m1"]


def test_a_send_without_a_subscriber_only_stores() -> None:
    """S000-38, S000-39: no delivery, and the store is asked for nothing but to append; the
    message comes with the next SUB."""
    desk, (a, _, _, x) = desk_with()
    trips = desk.trips(send(x, Q, "m1"))
    (batch,) = [trip for trip in trips if isinstance(trip, Batch)]
    assert len(batch.append) == 1
    batch.append.clear()
    assert not batch
    assert [type(fact) for fact in desk.facts] == [f.Accepted]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]


def test_messages_come_in_the_order_they_were_sent() -> None:
    """R17: whatever the turns they were sent in."""
    desk, (a, b, _, x) = desk_with()
    names = [f"m{i:02}" for i in range(60)]
    rest = iter(names)
    for size in (1, 20, 3, 36):
        desk.say(*(send(x if i % 2 else b, Q, next(rest)) for i in range(size)))
    got = deliveries(desk.do(sub(a, Q)))
    while got[-1].decode() != names[-1]:
        got += deliveries(desk.do(ack(a, Q, got[-1].decode())))
    assert [body.decode() for body in got] == names


# No room in the mailbox.


def test_without_room_the_sender_is_answered_and_the_message_waits() -> None:
    """S000-42, S000-43, R16: delivered by a later step, as soon as there is room."""
    desk, (a, _, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    assert desk.say(send(x, Q, "m1")) == ["x RECEIPT q m1"]
    assert desk.stored(Q) == ["m1"]
    assert desk.drained(a) == ["a * MSG q m1"]
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]


def test_a_waiting_delivery_is_not_in_flight() -> None:
    """S000-42, R13: what was not delivered cannot be confirmed."""
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
    """S000-30, S000-43, R12: the answer is always given, the message needs room."""
    desk, (a, *_) = desk_with("m1")
    desk.fill(a)
    assert desk.say(sub(a, Q)) == ["a SOK q"]
    assert desk.drained(a) == ["a * MSG q m1"]


def test_many_waiting_queues_are_delivered_together_and_once() -> None:
    """S000-43, R16: one step for all that waited, each message once."""
    desk = Desk()
    a, x = desk.sessions("a x")
    names = queues(50)
    desk.say(*(new(a, name, subscribe=True) for name in names))
    desk.fill(a)
    desk.say(*(send(x, name, "m1") for name in names))
    lines = desk.drained(a)
    assert sorted(lines) == [f"a * MSG {name.decode()} m1" for name in names]
    assert desk.drained(a) == []


def test_a_waiting_delivery_goes_to_the_subscriber_of_the_moment() -> None:
    """S000-3, S000-44: not to the one that waited; the new one had it by its own SUB."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    lines = desk.say(sub(b, Q))
    assert desk.heard_by(b, lines) == ["SOK q", "* MSG q m1"]
    assert desk.heard_by(a, lines) == ["* END q"]
    desk.drain(a)
    assert desk.say(Drained(a), Drained(b)) == []


def test_with_no_subscriber_any_more_a_waiting_delivery_is_dropped() -> None:
    """S000-3, S000-11: the subscriber was ended by a session that hung up."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    desk.hang_up(b)
    desk.say(sub(b, Q))
    assert desk.drained(a) == []
    assert desk.stored(Q) == ["m1"]


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


def test_a_pending_step_that_delivers_nothing_leaves_the_subscription_able_to_receive() -> None:
    """S000-46, R16: the message was taken by a getter; the next one is pushed."""
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


def test_deleting_a_queue_ends_what_waited_of_it() -> None:
    """S000-47, S004-2: nothing is delivered of a queue that is not there."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q), new(a, Q1, subscribe=True))
    desk.fill(a)
    desk.say(send(x, Q, "m1"), send(x, Q1, "m1"))
    assert desk.heard_by(a, desk.say(delete(b, Q))) == ["* DELD q"]
    assert desk.drained(a) == ["a * MSG q1 m1"]


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
    """S000-34, R13, R20: the peer waits for it, and asked for it one by one."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.fill(b)
    assert desk.say(ack(a, Q, "m1"), get(b, Q)) == ["a MSG q m2", "b MSG q m2"]


# Blocks of commands.


def test_a_block_of_subscribes_answers_each_and_delivers_exactly_what_waits() -> None:
    """S004-54, S004-1, S004-34, S004-35, A48: a SOK for each, and the oldest message of those
    that have one."""
    desk = Desk()
    a, x = desk.sessions("a x")
    names = queues(135)
    desk.say(*(new(x, name) for name in names))
    desk.say(*(send(x, name, f"m{k}") for k in (1, 2) for name in names[::3]))
    desk = desk.restarted()
    a = desk.session("a")
    lines = desk.say(*(sub(a, name) for name in names))
    assert sorted(line for line in lines if "SOK" in line) == [f"a SOK {n.decode()}" for n in names]
    assert sorted(line for line in lines if "MSG" in line) == [
        f"a * MSG {n.decode()} m1" for n in names[::3]
    ]
    assert len(lines) == 135 + 45


def test_a_block_of_subscribes_is_one_load_of_records_and_messages() -> None:
    """S004-30, S004-32, S004-34, S004-35, S004-37, S004-38, S004-56, R21, R22: 2,700 queues in
    20 blocks are 20 loads; an empty queue is not asked for a second time, and nothing is
    written."""
    desk = Desk()
    x = desk.session("x")
    names = queues(2700)
    desk.do(*(new(x, name) for name in names))
    desk.do(*(send(x, name, "m1") for name in names[::2]))
    desk = desk.restarted()
    a = desk.session("a")
    delivered = 0
    for start in range(0, 2700, 135):
        block = names[start : start + 135]
        effects = desk.do(*(sub(a, name) for name in block))
        delivered += len(deliveries(effects, a))
    assert delivered == 1350
    assert len(desk.asked) == 20
    for number, asked in enumerate(desk.asked):
        assert isinstance(asked, Load)
        assert asked.heads == dict.fromkeys(names[number * 135 : number * 135 + 135], 1)


def test_what_is_in_memory_is_not_read_again() -> None:
    """S004-37, S004-38: a block of SUBs of queues that the router just had in its hands, empty
    ones included, asks the store for nothing."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(x, Q1), new(x, Q2), send(x, Q1, "m1"))
    assert desk.trips(sub(a, Q1), sub(a, Q2)) == []


def test_a_store_that_fails_while_loading_fails_each_subscribe() -> None:
    """S004-36: the batch as a whole, with an error for each SUB; nobody is registered."""
    desk = Desk()
    x = desk.session("x")
    names = queues(10)
    desk.do(*(new(x, name) for name in names))
    desk = desk.restarted()
    a = desk.session("a")
    desk.fail_at = 0
    assert desk.say(*(sub(a, name) for name in names)) == ["a ERR StoreError"] * 10
    assert len(desk.shard.queues.subscribers) == 0
    assert desk.say(*(sub(a, name) for name in names)) == [f"a SOK {n.decode()}" for n in names]


def test_a_mixed_block_is_carried_out_in_its_order() -> None:
    """S004-42, S004-46, S004-39, A50: each command is answered as if it came alone."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(x, Q1), new(x, Q2), new(x, Q3))
    desk.do(*(send(x, q, m) for q in (Q1, Q2) for m in ("m1", "m2")))
    desk = desk.restarted()
    a = desk.session("a")
    lines = desk.say(
        sub(a, Q1),
        get(a, Q2),
        ack(a, Q1, "m1"),
        sub(a, Q2),
        sub(a, Q),
        ack(a, Q2, "m1"),
        send(a, Q3, "m3"),
        sub(a, Q3),
        delete(a, Q1),
        ack(a, Q1, "m2"),
    )
    assert lines == [
        "a SOK q1",
        "a * MSG q1 m1",
        "a MSG q2 m1",
        "a MSG q1 m2",
        "a ERR Prohibited",
        "a ERR NoSuchQueue",
        "a OK",
        "a RECEIPT q3 m3",
        "a SOK q3",
        "a * MSG q3 m3",
        "a OK",
        "a ERR NoSuchQueue",
    ]


def test_a_block_of_a_single_command_and_one_of_many_say_the_same() -> None:
    """S004-53, S004-42: with batching, single commands do what they did."""

    def story(desk: Desk) -> list[Command]:
        a, b, x = desk.sessions("a b x")
        return [
            new(x, Q1),
            new(x, Q2),
            send(x, Q1, "m1"),
            send(x, Q1, "m2"),
            sub(a, Q1),
            sub(a, Q2),
            send(x, Q2, "m1"),
            get(b, Q2),
            ack(a, Q1, "m1"),
            ack(b, Q2, "m1"),
            ack(a, Q1, "m2"),
            sub(b, Q1),
            ack(a, Q2, "m1"),
            send(x, Q1, "m3"),
            ack(b, Q1, "m3"),
            delete(x, Q1),
            sub(a, Q1),
        ]

    one_by_one, together = Desk(), Desk()
    slowly = [line for command in story(one_by_one) for line in one_by_one.say(command)]
    assert together.say(*story(together)) == slowly


@pytest.mark.parametrize(
    "messages", [(), ("m1",), ("m1", "m2")], ids=["empty", "one message", "two messages"]
)
def test_a_message_removed_earlier_in_the_block_is_not_delivered_by_it(
    messages: tuple[str, ...],
) -> None:
    """S004-43: the prefetch is not what is delivered if the block removed it; and what the
    block added is."""
    desk, (a, b, _, x) = desk_with("m0", *messages)
    desk.say(sub(a, Q))
    desk = desk.restarted()
    a, b, x = desk.sessions("a b x")
    lines = desk.say(get(a, Q), ack(a, Q, "m0"), send(x, Q, "m9"), sub(b, Q))
    following = messages[0] if messages else "m9"
    assert desk.heard_by(a, lines) == ["MSG q m0", "OK"]
    assert desk.heard_by(b, lines) == ["SOK q", f"* MSG q {following}"]
    assert desk.stored(Q) == [*messages, "m9"]


def test_a_message_added_earlier_in_the_block_is_not_missed() -> None:
    """S004-43: sent to an empty queue just before the SUB."""
    desk, _ = desk_with()
    desk = desk.restarted()
    a, x = desk.sessions("a x")
    assert desk.say(send(x, Q, "m1"), sub(a, Q)) == ["x RECEIPT q m1", "a SOK q", "a * MSG q m1"]


def test_the_same_queue_twice_in_a_block_gives_two_answers_and_one_message() -> None:
    """S004-50: two SOKs, one message in flight."""
    desk, (a, *_) = desk_with("m1", "m2")
    lines = desk.say(sub(a, Q), sub(a, Q))
    assert sorted(lines) == ["a * MSG q m1", "a SOK q", "a SOK q"]
    assert desk.say(ack(a, Q, "m1"), ack(a, Q, "m1")) == ["a MSG q m2", "a ERR NoMessage"]


def test_a_command_that_is_refused_is_not_prefetched_for() -> None:
    """S004-40, S004-49: an unknown queue gets its own error, and the others their messages."""
    desk, _ = desk_with("m1")
    desk = desk.restarted()
    a = desk.session("a")
    assert desk.say(sub(a, Q1), sub(a, Q), sub(a, Q2)) == [
        "a ERR NoSuchQueue",
        "a SOK q",
        "a * MSG q m1",
        "a ERR NoSuchQueue",
    ]


def test_a_block_without_subscribes_reads_no_messages() -> None:
    """S004-41, R22: sends and deletions need the records at most."""
    desk, _ = desk_with("m1", "m2")
    desk = desk.restarted()
    x = desk.session("x")
    trips = desk.trips(send(x, Q, "m3"), new(x, Q1), send(x, Q1, "m1"), delete(x, Q))
    for trip in trips:
        if isinstance(trip, Load):
            assert set(trip.heads.values()) <= {0}
            assert not trip.pages
            assert not trip.bodies


def test_a_block_of_confirms_is_one_round_trip() -> None:
    """S004-51: at most one load, and one batch that deletes all; the answers are the next
    messages."""
    desk = Desk()
    x = desk.session("x")
    names = queues(135)
    desk.do(*(new(x, name) for name in names))
    desk.do(*(send(x, name, f"m{k}") for k in range(20) for name in names[:10]))
    desk.do(*(send(x, name, f"m{k}") for k in range(2) for name in names[10:]))
    desk = desk.restarted()
    a = desk.session("a")
    desk.do(*(sub(a, name) for name in names))
    desk.asked.clear()
    lines = desk.say(*(ack(a, name, "m0") for name in names))
    assert lines == [f"a MSG {name.decode()} m1" for name in names]
    assert [type(trip) for trip in desk.asked] in ([Load, Batch], [Batch])
    batch = desk.asked[-1]
    assert isinstance(batch, Batch)
    assert len(batch.delete) == 135


def test_several_confirms_of_one_queue_in_a_block_see_one_another() -> None:
    """S004-51, S004-43: the whole backlog in one block, none of it in memory before."""
    names = [f"m{k:02}" for k in range(30)]
    desk, _ = desk_with(*names)
    desk = desk.restarted()
    a = desk.session("a")
    lines = desk.say(sub(a, Q), *(ack(a, Q, name) for name in names))
    assert lines == ["a SOK q", f"a * MSG q {names[0]}"] + [
        f"a MSG q {name}" for name in names[1:]
    ] + ["a OK"]
    assert desk.stored(Q) == []


def test_a_block_of_gets_is_one_load() -> None:
    """S004-52: of all messages, empty queues included; nothing is written."""
    desk = Desk()
    x = desk.session("x")
    names = queues(135)
    desk.do(*(new(x, name) for name in names))
    desk.do(*(send(x, name, "m1") for name in names[::2]))
    desk = desk.restarted()
    a = desk.session("a")
    lines = desk.say(*(get(a, name) for name in names))
    assert lines == [
        "a OK" if number % 2 else f"a MSG {name.decode()} m1" for number, name in enumerate(names)
    ]
    (asked,) = desk.asked
    assert isinstance(asked, Load)


def test_subscribed_and_delivered_are_counted_alike_in_a_block_and_one_by_one() -> None:
    """S004-55, R23: one Subscribed per new subscription, one Delivered per message."""

    def facts(*, together: bool) -> list[str]:
        desk = Desk()
        a, b, x = desk.sessions("a b x")
        desk.do(*(new(x, q) for q in (Q1, Q2, Q3)), send(x, Q1, "m1"), sub(b, Q2))
        desk.facts.clear()
        commands: list[Command] = [sub(a, Q1), sub(a, Q2), sub(a, Q3), sub(a, Q2), sub(b, Q2)]
        if together:
            desk.do(*commands)
        else:
            for command in commands:
                desk.do(command)
        counted = (f.Subscribed, f.Unsubscribed, f.Displaced, f.Delivered)
        return sorted(repr(fact) for fact in desk.facts if isinstance(fact, counted))

    assert facts(together=True) == facts(together=False)
    assert len([fact for fact in facts(together=True) if fact.startswith("Subscribed")]) == 4
    assert len([fact for fact in facts(together=True) if fact.startswith("Delivered")]) == 1


# The number of statements.


async def statements(path: Path, word: str, number: int, *, backlog: int) -> int:
    """Statements of one turn with so many commands of a kind, from an empty memory. Every
    second queue has a backlog."""
    names = queues(number)
    store = SqliteStore(path)
    broker = broker_of(await store.open())
    x = broker.open_session("test", "x", 0.0)[0].id
    await drive(broker, store, [new(x, name) for name in names], 0.0)
    sends = [send(x, name, f"m{k}") for k in range(backlog) for name in names[::2]]
    await drive(broker, store, [*sends], 0.0)
    await store.close()
    store = SqliteStore(path)
    broker = broker_of(await store.open())
    a = broker.open_session("test", "a", 0.0)[0].id
    if word == "confirm":
        await drive(broker, store, [sub(a, name) for name in names], 0.0)
    commands: dict[str, list[Command]] = {
        "subscribe": [sub(a, name) for name in names],
        "subscribe as a service": [sub(a, name, S) for name in names],
        "get": [get(a, name) for name in names],
        "send": [send(a, name, "m") for name in names],
        "confirm": [ack(a, name, "m0") for name in names],
        "delete": [delete(a, name) for name in names],
    }
    before = store.statements
    outcome = await drive(broker, store, commands[word], 0.0)
    counted = store.statements - before
    await store.close()
    assert len(outcome.effects) >= number
    assert not any(isinstance(e, Failed) and word != "confirm" for e in outcome.effects)
    return counted


@pytest.mark.parametrize("backlog", [0, 1, 20])
@pytest.mark.parametrize(
    "word", ["subscribe", "subscribe as a service", "get", "send", "confirm", "delete"]
)
async def test_the_number_of_store_statements_does_not_depend_on_the_number_of_commands(
    tmp_path: Path, word: str, backlog: int
) -> None:
    """S004-14, S004-30, S004-32, S004-38, S004-51, S004-52, R21, R22: 1 and 135 commands cost
    the same, empty queues included."""
    one = await statements(tmp_path / "one.db", word, 1, backlog=backlog)
    many = await statements(tmp_path / "many.db", word, 135, backlog=backlog)
    assert one == many


# Limits.


def test_a_session_subscribes_as_many_queues_as_it_may_and_no_more() -> None:
    """The limit admits N; the one above is refused by name, with a fact, and leaves no trace."""
    desk = Desk(limits=Limits(queues_per_session=3))
    a, b, x = desk.sessions("a b x")
    names = queues(5)
    desk.do(*(new(x, name) for name in names))
    desk.do(sub(b, names[3]))
    effects = desk.do(*(sub(a, name) for name in names[:4]))
    refused = effects[-1]
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, LimitReached)
    assert (refused.error.name, refused.error.limit) == ("queues_per_session", 3)
    assert [(fact.name, fact.limit, fact.session) for fact in desk.take_facts(f.LimitReached)] == [
        ("queues_per_session", 3, a)
    ]
    assert desk.subscriber(names[3]) == [b]
    assert desk.say(sub(a, names[2])) == [f"a SOK {names[2].decode()}"]
    desk.do(sub(b, names[0]))
    assert desk.say(sub(a, names[4])) == [f"a SOK {names[4].decode()}"]
    desk.do(delete(a, names[4]))
    assert desk.heard_by(a, desk.say(sub(a, names[3]))) == [f"SOK {names[3].decode()}"]


def test_a_queue_created_with_a_subscription_counts_towards_the_limit() -> None:
    """NEW with S is a subscription like any other: N are admitted, N + 1 is refused."""
    desk = Desk(limits=Limits(queues_per_session=2))
    a = desk.session("a")
    lines = desk.say(*(new(a, name, subscribe=True) for name in (Q1, Q2, Q3)))
    assert lines == ["a SOK q1", "a SOK q2", "a ERR LimitReached"]
    assert [fact.name for fact in desk.take_facts(f.LimitReached)] == ["queues_per_session"]
    assert desk.stored_head(Q3) is None


@pytest.mark.parametrize("together", [True, False])
def test_a_queue_takes_as_many_messages_as_its_quota_and_no_more(together: bool) -> None:
    """A quota of N admits N. The refused message is not stored, and a confirm makes room."""
    desk = Desk(domain=Domain("smp", Mode.EXCLUSIVE, max_messages=3))
    a, x = desk.sessions("a x")
    desk.do(new(x, Q))
    commands = [send(x, Q, f"m{k}") for k in range(1, 5)]
    if together:
        effects = desk.do(*commands)
    else:
        effects = [effect for command in commands for effect in desk.do(command)]
    refused = effects[-1]
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, QuotaReached)
    assert (refused.error.unit, refused.error.limit) == ("messages", 3)
    assert desk.stored(Q) == ["m1", "m2", "m3"]
    assert desk.say(sub(a, Q), ack(a, Q, "m1"), send(x, Q, "m5"), send(x, Q, "m6")) == [
        "a SOK q",
        "a * MSG q m1",
        "a MSG q m2",
        "x RECEIPT q m5",
        "x ERR QuotaReached",
    ]


def test_the_quota_holds_after_a_restart() -> None:
    """The count of messages comes from the store, not only from memory."""
    domain = Domain("smp", Mode.EXCLUSIVE, max_messages=2)
    desk = Desk(domain=domain)
    x = desk.session("x")
    desk.do(new(x, Q), send(x, Q, "m1"))
    desk = Desk(domain=domain, store=desk.store)
    x = desk.session("x")
    assert desk.say(send(x, Q, "m2"), send(x, Q, "m3")) == ["x RECEIPT q m2", "x ERR QuotaReached"]


def test_the_quota_is_per_queue() -> None:
    """128 messages in one queue do not hinder another."""
    desk = Desk()
    x = desk.session("x")
    desk.do(new(x, Q1), new(x, Q2))
    assert SMP.max_messages == 128
    lines = desk.say(*(send(x, Q1, f"m{k}") for k in range(129)), send(x, Q2, "m"))
    assert lines[127:] == ["x RECEIPT q1 m127", "x ERR QuotaReached", "x RECEIPT q2 m"]


@pytest.mark.parametrize(("size", "answer"), [(100, "x RECEIPT q m"), (101, "x ERR LimitReached")])
def test_a_body_is_as_long_as_the_limit_and_no_longer(size: int, answer: str) -> None:
    """The limit admits N bytes; one more is refused by name and not stored."""
    desk = Desk(limits=Limits(body_bytes=100))
    x = desk.session("x")
    desk.do(new(x, Q))
    assert desk.say(send(x, Q, "m", b"x" * size)) == [answer]
    assert desk.stored(Q) == (["m"] if size == 100 else [])


TINY = {
    "one head": Limits(heads=1),
    "one byte of heads": Limits(heads_bytes=1),
    "one backlog": Limits(backlogs=1),
    "one of all": Limits(heads=1, heads_bytes=1, backlogs=1),
}


@pytest.mark.parametrize("limits", TINY.values(), ids=TINY.keys())
def test_small_caches_do_not_change_what_is_delivered(limits: Limits) -> None:
    """R17: the same story with all in memory and with nearly nothing in memory."""

    def story(desk: Desk) -> list[str]:
        shuffle = random.Random(7)
        a, b, x = desk.sessions("a b x")
        lines = desk.say(*(new(x, q) for q in (Q1, Q2, Q3)))
        for turn in range(30):
            q = shuffle.choice((Q1, Q2, Q3))
            lines += desk.say(*(send(x, q, f"{turn}.{k}") for k in range(shuffle.randrange(4))))
            lines += desk.say(sub(shuffle.choice((a, b)), q))
        for q in (Q1, Q2, Q3):
            got: list[Effect] = desk.do(sub(a, q))
            while isinstance(got[-1], Deliver):
                lines += desk.lines(got)
                got = desk.do(ack(a, q, got[-1].message.id.decode()))
        return lines

    assert story(Desk(limits=limits)) == story(Desk())


def test_only_the_core_asks_for_a_sweep() -> None:
    """R37: one that belongs to no subscription does nothing."""
    desk, (a, *_) = desk_with("m1")
    assert desk.say(Sweep(a, S, QueueId(b""), object())) == []


def test_a_queue_that_was_lost_and_taken_back_in_one_block_is_delivered_again() -> None:
    """S000-13, S000-30: as if the commands came one by one."""
    desk, (a, b, *_) = desk_with("m1")
    lines = desk.say(sub(a, Q), sub(b, Q), sub(a, Q))
    assert desk.heard_by(a, lines) == ["SOK q", "* MSG q m1", "* END q", "SOK q", "* MSG q m1"]


def test_reading_a_queue_that_is_no_more_does_not_keep_its_heir_from_being_pushed() -> None:
    """S000-27: of another queue with the same id."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.say(new(x, Q), get(a, Q), delete(x, Q), new(a, Q, subscribe=True))
    assert desk.heard_by(a, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]

"""The holder of an exclusive queue: one session, displaced by the next."""

from __future__ import annotations

from itertools import permutations

import pytest

from headgate.core import facts as f
from headgate.core.commands import Command, Disconnect, Drained
from headgate.core.effects import End
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Batch, Load
from headgate.testing.rig import at_once, deliveries
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Desk,
    Q,
    S,
    T,
    ack,
    calls,
    delete,
    desk_of,
    desk_with,
    get,
    messages,
    new,
    queues,
    send,
    soks,
    sub,
    subs,
)


def test_a_subscribe_of_another_session_displaces_the_first() -> None:
    """S000-2, S000-12, S000-13, SMP-1, SMP-2: one END, which answers no request; the new session is
    the subscriber when its SUB is answered."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    outcome = desk.turn([sub(b, Q)])
    assert [effect for effect in outcome.effects if effect.session == a] == [End(a, Q)]
    assert desk.heard_by(b, desk.lines(outcome.effects)) == ["SOK q", "* MSG q m1"]
    assert desk.subscriber(Q) == [b]
    assert [(fact.session, fact.by) for fact in desk.take_facts(f.Displaced)] == [(a, b)]


def test_a_displaced_session_is_told_once_whatever_follows() -> None:
    """S000-13, SMP-6: exactly one END, and nothing more of that queue after it."""
    desk, (a, b, c, x) = desk_with("m1")
    desk.say(sub(a, Q))
    lines = desk.say(sub(b, Q))
    lines += desk.say(sub(b, Q), sub(c, Q), send(x, Q, "m2"))
    lines += desk.say(ack(c, Q, "m1"), delete(x, Q))
    assert desk.heard_by(a, lines) == ["* END q"]
    assert desk.heard_by(b, lines) == ["SOK q", "* MSG q m1", "SOK q", "* MSG q m1", "* END q"]
    assert desk.heard_by(c, lines) == ["SOK q", "* MSG q m1", "MSG q m2", "* DELD q"]


def test_a_displaced_session_cannot_confirm_what_it_was_given() -> None:
    """S000-16, SMP-2, SMP-6: its subscription is gone at once, so its ACK is NO_MSG."""
    desk, (a, b, *_) = desk_with("m1", "m2")
    desk.say(sub(a, Q))
    assert desk.heard_by(a, desk.say(sub(b, Q))) == ["* END q"]
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]
    assert desk.say(ack(a, Q)) == ["a ERR NoMessage"]
    assert desk.stored(Q) == ["m1", "m2"]
    assert desk.say(ack(b, Q, "m1")) == ["b MSG q m2"]


def test_a_queue_that_was_taken_counts_no_more_for_who_lost_it() -> None:
    """S000-16, S000-17, SMP-6: there is room for another in its place, and nothing of it is left
    when the session ends."""
    desk = Desk(limits=Limits(queues_per_session=1))
    a, b, x = desk.sessions("a b x")
    desk.say(new(x, Q1), new(x, Q2))
    assert desk.say(sub(a, Q1), sub(a, Q2)) == ["a SOK q1", "a ERR LimitReached"]
    assert desk.say(sub(b, Q1), sub(a, Q2)) == ["a * END q1", "b SOK q1", "a SOK q2"]
    desk.facts.clear()
    desk.leave(a)
    assert [fact.queue for fact in desk.take_facts(f.Unsubscribed)] == [Q2]
    assert desk.subscriber(Q1) == [b]


def test_a_displaced_session_gets_nothing_from_the_displacement_on_in_the_same_turn() -> None:
    """S000-17: not even between the displacement and the END."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    lines = desk.say(sub(b, Q), send(x, Q, "m1"), ack(a, Q, "m1"))
    assert desk.heard_by(a, lines) == ["* END q", "ERR NoMessage"]
    assert desk.heard_by(b, lines) == ["SOK q", "* MSG q m1"]
    assert desk.say(ack(b, Q, "m1")) == ["b OK"]


def test_a_displacement_ends_the_delivery_that_waited_for_the_old_session() -> None:
    """S000-16, S000-47: its waiting delivery is cancelled."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    assert desk.heard_by(b, desk.say(sub(b, Q))) == ["SOK q", "* MSG q m1"]
    assert desk.waiting(a) == []
    assert desk.drained(a) == []


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("order", list(permutations("abc")))
def test_registrations_take_effect_in_the_order_they_were_asked_for(
    order: tuple[str, ...], known: bool, together: bool
) -> None:
    """S000-1, S000-8, SMP-1: whatever the interleaving, the last one is the only subscriber, of a
    queue that is in memory and of one that has to be read first."""
    desk, _ = desk_with()
    desk = desk if known else desk.restarted()
    a, b, c, x = desk.sessions("a b c x")
    names = dict(zip("abc", (a, b, c), strict=True))
    asked = [sub(names[name], Q) for name in order]
    lines = desk.say(*asked) if together else [line for one in asked for line in desk.say(one)]
    assert desk.subscriber(Q) == [names[order[-1]]]
    for name in order[:-1]:
        assert desk.heard_by(names[name], lines) == ["SOK q", "* END q"]
    assert desk.heard_by(names[order[-1]], lines) == ["SOK q"]
    assert deliveries(desk.do(send(x, Q, "m")), names[order[-1]]) == [b"m"]


def test_a_queue_that_its_subscriber_takes_for_its_service_is_held_once() -> None:
    """S000-8, SMP-11: the second takes the place of the first, and who comes then ends one of
    them."""
    desk, (a, b, _, x) = desk_with("m1", "m2")
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(sub(a, Q, S)) == ["a SOK q as S", "a * MSG q m1"]
    assert (desk.subscriber(Q), desk.service_subscriber(S)) == ([], [a])
    assert desk.say(send(x, Q, "m3"))[1:] == []
    lines = desk.say(sub(b, Q))
    assert desk.heard_by(a, lines) == ["* END q"]
    assert desk.heard_by(b, lines) == ["SOK q", "* MSG q m1"]
    assert desk.subscriber(Q) == [b]


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
    """SMP-1: displacement is per queue."""
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


@pytest.mark.once
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


def test_the_clean_up_of_an_old_session_spares_the_subscription_of_a_new_one() -> None:
    """S000-4, S000-77, SMP-7: it is removed only where it still is the subscriber."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q), new(a, Q1, subscribe=True))
    desk.hang_up(a)
    desk.say(sub(b, Q))
    desk.facts.clear()
    assert desk.clean_up(a) == []
    assert [fact.queue for fact in desk.take_facts(f.Unsubscribed)] == [Q1]
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


def test_a_waiting_delivery_goes_to_the_subscriber_of_the_moment() -> None:
    """S000-3, S000-44: not to the one that waited; the new one had it by its own SUB."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.fill(a)
    desk.say(send(x, Q, "m1"))
    lines = desk.say(sub(b, Q))
    assert desk.heard_by(b, lines) == ["SOK q", "* MSG q m1"]
    assert desk.heard_by(a, lines) == ["* END q"]
    assert desk.waiting(a) == []
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


def test_subscribed_and_delivered_are_counted_alike_in_a_block_and_one_by_one() -> None:
    """S004-55, SMP-23: one Subscribed per new subscription, one Delivered per message."""

    def facts(*, together: bool) -> list[str]:
        desk = Desk()
        a, b, x = desk.sessions("a b x")
        desk.do(*(new(x, q) for q in (Q1, Q2, Q3)), send(x, Q1, "m1"), sub(b, Q2))
        desk.facts.clear()
        commands: list[Command] = [sub(a, Q1), sub(a, Q2), sub(a, Q3), sub(a, Q2), sub(b, Q2)]
        turns = [commands] if together else [[command] for command in commands]
        lines = [line for turn in turns for line in desk.say(*turn)]
        assert [line for line in lines if "END" in line] == ["b * END q2", "a * END q2"]
        counted = (f.Subscribed, f.Unsubscribed, f.Displaced, f.Delivered)
        return sorted(repr(fact) for fact in desk.facts if isinstance(fact, counted))

    assert facts(together=True) == facts(together=False)
    assert len([fact for fact in facts(together=True) if fact.startswith("Subscribed")]) == 4
    assert len([fact for fact in facts(together=True) if fact.startswith("Delivered")]) == 1
    assert len([fact for fact in facts(together=True) if fact.startswith("Displaced")]) == 2


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
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]


def test_association_and_tally_change_together_or_not_at_all() -> None:
    """S001-35: one batch has both; when the store fails, neither changed."""
    desk, _ = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.fail_at = 1
    lines, _again = desk.say_one(sub(b, Q1, T))
    assert lines == ["b ERR StoreError"]
    assert desk.associated(Q1) == S
    assert (desk.tally(S), desk.tally(T)) == (Tally.of([Q1, Q2]), NOTHING)
    assert (desk.share(a), desk.share(b)) == (Tally.of([Q1, Q2]), NOTHING)
    desk.fail_at = None
    (batch,) = [trip for trip in desk.trips(sub(b, Q1, T)) if isinstance(trip, Batch)]
    assert batch.associate == {Q1: T}
    assert set(batch.tallies) == {S, T}
    assert desk.recount(S) == desk.tally(S) == Tally.of([Q2])
    assert desk.recount(T) == desk.tally(T) == Tally.of([Q1])


@pytest.mark.once
def test_the_associations_of_a_block_are_one_update() -> None:
    """S004-14, S004-30, SMP-22: 135 SUBs are one load and one batch with 135 associations."""
    desk = Desk()
    x = desk.session("x")
    names = queues(135)
    desk.do(*(new(x, name) for name in names), send(x, names[0], "m1"))
    desk = desk.restarted()
    a = desk.session("a")
    effects = desk.do(*(sub(a, name, S) for name in names))
    assert deliveries(effects) == [b"m1"]
    load, batch = desk.asked
    assert isinstance(load, Load)
    assert isinstance(batch, Batch)
    assert batch.associate == dict.fromkeys(names, S)
    assert desk.tally(S) == desk.recount(S) == Tally.of(names)


def test_only_the_queues_whose_service_differs_are_updated() -> None:
    """S004-14, S001-28, SMP-22: re-SUBs are answered, and need no update."""
    desk, x = desk_of(Q1, Q2)
    a = desk.session("a")
    desk.do(new(x, Q3))
    trips = desk.trips(sub(a, Q1, S), sub(a, Q2, S), sub(a, Q3, S))
    (batch,) = [trip for trip in trips if isinstance(trip, Batch)]
    assert batch.associate == {Q3: S}


def test_associations_survive_disconnect_and_restarts() -> None:
    """S001-36, S004-11, SMP-34: only the live subscription ends with the session."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(x, Q1), new(x, Q2), send(x, Q1, "m1"), sub(a, Q1, S), sub(a, Q2, S))
    desk.leave(a)
    assert desk.service_subscriber(S) == []
    assert desk.say(send(x, Q2, "m1")) == ["x RECEIPT q2 m1"]
    for _ in range(2):
        desk = desk.restarted()
        b, c = desk.sessions("b c")
        assert (desk.associated(Q1), desk.tally(S)) == (S, Tally.of([Q1, Q2]))
        assert desk.total() == 0
        lines = desk.say(subs(b, S))
        assert lines[0] == "b " + soks(S, Q1, Q2)
        assert sorted(messages(lines)) == ["b * MSG q1 m1", "b * MSG q2 m1"]
        # To plain subscriptions and back.
        assert desk.heard_by(c, desk.say(sub(c, Q1))) == ["SOK q1", "* MSG q1 m1"]
        assert desk.associated(Q1) is None
        assert desk.heard_by(b, desk.say(sub(b, Q1, S))) == ["SOK q1 as S", "* MSG q1 m1"]


def test_queue_subscribers_and_service_subscribers_are_two_registries() -> None:
    """S000-7, S000-93: a subscription by SUBS is found by service id, one by SUB by queue id,
    and neither shows up in the other place."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S), new(x, Q2), sub(b, Q2))
    assert (desk.subscriber(Q1), desk.service_subscriber(S)) == ([], [a])
    assert (desk.subscriber(Q2), len(desk.shard.exclusive.holders.subscribers)) == ([b], 1)
    assert desk.subscriber(QueueId(S)) == []
    lines = desk.say(sub(a, Q1, S))
    assert lines == ["a SOK q1 as S"]
    assert desk.subscriber(Q1) == []


def test_a_queue_and_a_service_of_the_same_name_do_not_meet() -> None:
    """S000-7: addresses of two kinds, whatever their bytes."""
    desk = Desk()
    a, b, x = desk.sessions("a b x")
    twin = QueueId(bytes(S))
    desk.do(new(x, twin), new(x, Q1), sub(a, twin), sub(b, Q1, S))
    assert (desk.subscriber(twin), desk.service_subscriber(S)) == ([a], [b])
    assert desk.say(send(x, twin, "m1"), send(x, Q1, "m1")) == [
        "x RECEIPT S m1",
        "a * MSG S m1",
        "x RECEIPT q1 m1",
        "b * MSG q1 m1",
    ]


def test_messages_of_a_subscribed_service_reach_its_session() -> None:
    """S004-3, S001-54, SMP-16, SMP-36: found by the service's id; confirmed without it."""
    desk, x = desk_of(Q1, Q2)
    a = desk.session("a")
    desk.say(subs(a, S))
    assert desk.say(send(x, Q1, "m1"), send(x, Q2, "m1"), send(x, Q1, "m2")) == [
        "x RECEIPT q1 m1",
        "a * MSG q1 m1",
        "x RECEIPT q2 m1",
        "a * MSG q2 m1",
        "x RECEIPT q1 m2",
    ]
    assert desk.say(ack(a, Q1, "m1"), ack(a, Q2, "m1"), ack(a, Q1, "m1")) == [
        "a MSG q1 m2",
        "a OK",
        "a ERR NoMessage",
    ]


def test_a_service_queue_is_not_pushed_to_whoever_subscribed_its_id_earlier() -> None:
    """S001-57: the plain subscriber was ended when the queue became the service's."""
    desk = Desk()
    a, b, x = desk.sessions("a b x")
    desk.do(new(a, Q1, subscribe=True), sub(b, Q1, S))
    desk.leave(b)
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]
    assert desk.say(Drained(a)) == []

"""Services: one identity that subscribes all its queues, its tally, and the sweep."""

from __future__ import annotations

import pytest

from headgate.core import facts as f
from headgate.core.commands import Command, Disconnect, Drained
from headgate.core.model.limits import Limits
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Batch, Load
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Q4,
    Desk,
    S,
    T,
    ack,
    calls,
    delete,
    desk_of,
    ends,
    identify,
    messages,
    new,
    nsubs,
    queues,
    send,
    soks,
    sub,
    subs,
)

# Association.


def test_a_queue_that_joins_after_subs_is_counted_for_the_session() -> None:
    """S001-40, S004-13: created or associated by another connection of the same service, or by
    the session itself, it is in the tally that ENDS tells."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.say(new(a, Q2, subscribe=True, service=S), new(x, Q3), sub(a, Q3, S))
    assert desk.share(a) == desk.tally(S) == desk.recount(S) == Tally.of([Q1, Q2, Q3])
    assert desk.heard_by(a, desk.say(subs(b, S))) == [ends(S, Q1, Q2, Q3)]


@pytest.mark.parametrize("together", [True, False])
def test_tallies_are_right_when_a_queue_wanders_in_one_turn(together: bool) -> None:
    """S001-40, S001-27: from nobody to one service, to another, and deleted."""
    desk = Desk()
    a, b, x = desk.sessions("a b x")
    story: list[Command] = [
        new(x, Q1),
        new(x, Q2),
        new(a, Q3, service=S),
        sub(a, Q1, S),
        sub(a, Q2, S),
        sub(b, Q1, T),
        sub(b, Q3, T),
        sub(a, Q3, S),
        sub(x, Q2),
        delete(x, Q1),
        sub(a, Q2, S),
    ]
    for block in [story] if together else [[command] for command in story]:
        desk.say(*block)
    assert desk.tally(S) == desk.recount(S) == desk.share(a) == Tally.of([Q2, Q3])
    assert desk.tally(T) == desk.recount(T) == desk.share(b) == NOTHING


# Who is found where.


def test_one_subscribe_of_a_service_receives_new_messages_of_all_its_queues() -> None:
    """SMP-29: but what waits in other queues comes only by SUBS or by their own SUB; SMP-14 and
    SMP-29 win over offering the head on every touch."""
    desk, x = desk_of(Q1, Q2, Q3, pending=1)
    a, owner = desk.sessions("a owner")
    desk.do(new(owner, Q4, service=S))
    assert desk.say(sub(a, Q1, S)) == ["a SOK q1 as S", "a * MSG q1 m1"]
    assert desk.say(send(x, Q4, "m1")) == ["x RECEIPT q4 m1", "a * MSG q4 m1"]
    assert desk.say(send(x, Q2, "m2")) == ["x RECEIPT q2 m2"]
    assert desk.say(Drained(a)) == []
    assert desk.say(sub(a, Q2, S)) == ["a SOK q2 as S", "a * MSG q2 m1"]
    assert sorted(messages(desk.say(subs(a, S)))) == ["a * MSG q3 m1"]


def test_the_session_of_a_gone_service_leaves_the_queue_to_nobody() -> None:
    """S000-74, S000-77, SMP-7, SMP-34: after a disconnect messages are stored only."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.hang_up(a)
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]
    assert desk.clean_up(a) == []
    assert messages(desk.say(subs(b, S))) == ["b * MSG q1 m1"]


def test_the_clean_up_of_an_old_session_spares_the_services_new_one() -> None:
    """S000-4, S000-77, SMP-7: removed only where it still is the subscriber."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.hang_up(a)
    desk.say(subs(b, S))
    desk.clean_up(a)
    assert desk.service_subscriber(S) == [b]
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1", "b * MSG q1 m1"]


# SUBS.


def test_one_subs_subscribes_all_queues_of_a_service_whatever_their_number() -> None:
    """S000-91, S000-97, S000-98, S001-3, S004-5, S004-13: 3,000 queues, one request; every head
    once, and one ALLS at the end."""
    desk = Desk()
    owner, x = desk.sessions("owner x")
    names = queues(3000)
    desk.do(*(new(owner, name, service=S) for name in names))
    desk.do(*(send(x, name, m) for name in names[::3] for m in ("m1", "m2")))
    desk = desk.restarted()
    a, x = desk.sessions("a x")
    lines = desk.say(subs(a, S))
    assert lines[0] == "a " + soks(S, *names)
    assert lines[-1] == "a * ALLS S"
    assert sorted(lines[1:-1]) == [f"a * MSG {name.decode()} m1" for name in names[::3]]
    assert desk.total() == 3000
    assert desk.say(send(x, names[1], "m1"))[1:] == [f"a * MSG {names[1].decode()} m1"]


def test_the_answer_to_subs_comes_first_and_is_the_routers_own() -> None:
    """S001-42, S000-95, SMP-30, SMP-31: SOKS carries the store's values, whatever the session sent;
    drift is recorded and never a refusal."""
    for expected, drift in [
        (Tally.of([Q1, Q2]), "none"),
        (Tally.of([Q1]), "more"),
        (Tally.of([Q1, Q2, Q3]), "fewer"),
        (Tally.of([Q1, Q3]), "different"),
        (NOTHING, "more"),
    ]:
        desk, _ = desk_of(Q1, Q2, pending=1)
        a = desk.session("a")
        lines = desk.say(subs(a, S, expected))
        assert lines[0] == "a " + soks(S, Q1, Q2)
        assert len(messages(lines)) == 2
        assert [(fact.drift, fact.count) for fact in desk.take_facts(f.ServiceSubscribed)] == [
            (drift, 2)
        ]


def test_a_service_without_queues_is_subscribed_and_swept() -> None:
    """S000-98, SMP-30: SOKS 0 with the zero hash, and ALLS."""
    desk = Desk()
    a = desk.session("a")
    assert desk.say(subs(a, S)) == ["a " + soks(S), "a * ALLS S"]
    assert soks(S) == f"SOKS S 0 {'0' * 32}"
    assert desk.service_subscriber(S) == [a]


def test_a_service_whose_queues_are_empty_gets_only_the_end_of_the_sweep() -> None:
    """S000-97, S000-98."""
    desk, _ = desk_of(Q1, Q2)
    a = desk.session("a")
    assert desk.say(subs(a, S)) == ["a " + soks(S, Q1, Q2), "a * ALLS S"]


def test_the_answer_to_subs_costs_the_same_for_one_queue_and_for_thousands() -> None:
    """S001-41: its turn loads a tally and no queue, and makes the same number of calls."""

    def cost(number: int) -> int:
        desk, _ = desk_of(*queues(number), pending=1)
        a = desk.session("a")
        command = subs(a, S)
        lines: list[str] = []
        counted = calls(lambda: lines.extend(desk.lines(desk.turn([command]).effects)))
        assert len(lines) == 1
        (asked,) = desk.asked
        assert isinstance(asked, Load)
        assert asked == Load(services={S})
        return counted

    assert cost(1) == cost(2000)


def test_the_session_is_registered_before_its_subs_is_answered() -> None:
    """S000-96, S001-46: in the turn of the answer, before the sweep, a SEND reaches it."""
    desk, x = desk_of(Q1)
    a = desk.session("a")
    lines, again = desk.say_one(subs(a, S), send(x, Q1, "m1"))
    assert desk.heard_by(a, lines) == [soks(S, Q1), "* MSG q1 m1"]
    assert desk.service_subscriber(S) == [a]
    assert desk.say(*again) == ["a * ALLS S"]


def test_subs_replaces_the_sessions_own_count() -> None:
    """S001-43, S001-44, SMP-30: what per-queue SUBs counted is not counted twice."""
    desk, _ = desk_of(Q1, Q2, Q3)
    a = desk.session("a")
    desk.say(sub(a, Q1, S), sub(a, Q2, S))
    assert desk.total() == 2
    desk.say(subs(a, S))
    assert (desk.share(a), desk.total()) == (Tally.of([Q1, Q2, Q3]), 3)


def test_the_total_of_service_subscribed_queues_falls_by_the_sessions_share() -> None:
    """S001-45, S004-13, ACC-61: on ENDS and on disconnect, exactly; no double counting after a
    reconnect."""
    desk, x = desk_of(Q1, Q2)
    a, b, other = desk.sessions("a b other")
    desk.do(new(other, Q4, subscribe=True, service=T))
    assert desk.total() == 1
    desk.say(subs(a, S))
    assert desk.total() == 3
    desk.say(new(x, Q3), sub(a, Q3, S))
    assert desk.total() == 4
    desk.say(subs(b, S))
    assert (desk.total(), desk.share(a)) == (4, NOTHING)
    desk.leave(b)
    assert desk.total() == 1
    desk.leave(a)
    assert desk.total() == 1
    c = desk.session("c")
    desk.say(subs(c, S))
    assert desk.total() == 4
    desk.say(delete(x, Q1))
    assert desk.total() == 3


def test_a_repeated_subs_is_only_answered() -> None:
    """S001-52, SMP-32: the current count, no sweep, no ALLS, no message."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a = desk.session("a")
    desk.say(subs(a, S))
    desk.say(new(x, Q3), sub(a, Q3, S))
    assert desk.say(subs(a, S)) == ["a " + soks(S, Q1, Q2, Q3)]
    lines = desk.say(subs(a, S), subs(a, S))
    assert lines == ["a " + soks(S, Q1, Q2, Q3)] * 2
    assert desk.total() == 3


def test_subs_twice_in_one_block_makes_one_sweep() -> None:
    """S001-52, S000-98, SMP-32: as if they came one by one."""
    desk, _ = desk_of(Q1, pending=1)
    a = desk.session("a")
    assert desk.say(subs(a, S), subs(a, S)) == [
        "a " + soks(S, Q1),
        "a " + soks(S, Q1),
        "a * MSG q1 m1",
        "a * ALLS S",
    ]


def test_subs_sees_what_came_before_it_in_its_block() -> None:
    """S001-42: the tally is that of the moment, changes of the same turn included."""
    desk, x = desk_of(Q1, Q2)
    a = desk.session("a")
    lines = desk.say(new(a, Q3, service=S), delete(x, Q1), sub(x, Q2), subs(a, S))
    assert desk.heard_by(a, lines)[:2] == ["SOK q3 as S", soks(S, Q3)]
    assert desk.share(a) == desk.tally(S) == desk.recount(S) == Tally.of([Q3])


def test_a_session_that_hung_up_is_not_registered_as_the_services_subscriber() -> None:
    """S000-10, S000-74: nor is anything delivered to it."""
    desk, _ = desk_of(Q1, pending=1)
    a = desk.session("a")
    desk.hang_up(a)
    assert messages(desk.say(subs(a, S))) == []
    assert desk.service_subscriber(S) == []
    assert desk.clean_up(a) == []
    assert desk.total() == 0


# The sweep.


@pytest.mark.parametrize("cause", ["displaced", "taken", "deleted", "left"])
def test_what_waits_for_a_service_ends_with_its_subscription(cause: str) -> None:
    """S004-8, S004-2, S000-44, S000-47, S001-59: displaced as the service's subscriber, the
    queue taken back by a plain session, deleted, or the session gone."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.fill(a)
    desk.say(send(x, Q1, "m1"))
    if cause == "displaced":
        assert messages(desk.say(subs(b, S))) == ["b * MSG q1 m1"]
    elif cause == "taken":
        assert messages(desk.say(sub(b, Q1))) == ["b * MSG q1 m1"]
    elif cause == "deleted":
        desk.say(delete(x, Q1))
    else:
        desk.leave(a)
    if cause == "left":
        assert desk.say(Drained(a)) == []
    else:
        assert desk.drained(a) == []


# Displacement.


def test_a_second_session_of_a_service_displaces_the_first_with_one_event() -> None:
    """S001-58, S000-22, S001-46, S004-4, SMP-28: one ENDS with the count and hash it had, no END
    per queue; what waits goes to the one that asked."""
    desk, _ = desk_of(Q1, Q2, Q3, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    lines = desk.say(subs(b, S))
    assert desk.heard_by(a, lines) == [ends(S, Q1, Q2, Q3)]
    heard = desk.heard_by(b, lines)
    assert heard[0] == soks(S, Q1, Q2, Q3)
    assert sorted(heard[1:-1]) == ["* MSG q1 m1", "* MSG q2 m1", "* MSG q3 m1"]
    assert heard[-1] == "* ALLS S"
    facts = desk.take_facts(f.ServiceDisplaced)
    assert [(fact.session, fact.by, fact.count) for fact in facts] == [(a, b, 3)]
    assert desk.service_subscriber(S) == [b]


def test_a_session_that_was_displaced_may_ask_for_the_service_again() -> None:
    """S004-4, S001-58, SMP-28: it begins anew, and the other has its ENDS."""
    desk, _ = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.say(subs(b, S))
    lines = desk.say(subs(a, S))
    assert desk.heard_by(b, lines) == [ends(S, Q1, Q2)]
    heard = desk.heard_by(a, lines)
    assert [heard[0], *sorted(heard[1:-1]), heard[-1]] == [
        *(soks(S, Q1, Q2), "* MSG q1 m1", "* MSG q2 m1"),
        "* ALLS S",
    ]
    assert desk.service_subscriber(S) == [a]


def test_a_queue_that_is_a_services_after_its_subs_is_counted_at_once() -> None:
    """S001-55: its messages come, and who takes the service's place is told of as many."""
    desk, x = desk_of(Q1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(new(x, Q2), sub(a, Q2, S), send(x, Q2, "m1"), *again)
    assert messages(lines) == ["a * MSG q2 m1"]
    assert desk.share(a) == desk.tally(S) == Tally.of([Q1, Q2])
    assert desk.heard_by(a, desk.say(*again, subs(b, S)))[-1] == ends(S, Q1, Q2)


@pytest.mark.parametrize("how", ["subscribe", "create", "subscribe another", "subscribe all"])
def test_every_way_of_registering_displaces_the_services_subscriber(how: str) -> None:
    """S001-58, SMP-28: via SUB, NEW or SUBS; also via SUB of a queue that was not the service's."""
    desk, x = desk_of(Q1, Q2)
    a, b = desk.sessions("a b")
    desk.do(new(x, Q4))
    desk.say(sub(a, Q1, S))
    commands: dict[str, Command] = {
        "subscribe": sub(b, Q2, S),
        "create": new(b, Q3, subscribe=True, service=S),
        "subscribe another": sub(b, Q4, S),
        "subscribe all": subs(b, S),
    }
    lines = desk.say(commands[how])
    assert desk.heard_by(a, lines) == [ends(S, Q1)]
    assert desk.service_subscriber(S) == [b]
    assert desk.share(a) == NOTHING
    assert desk.heard_by(b, desk.say(send(x, Q1, "m1"))) == ["* MSG q1 m1"]


def test_a_displaced_services_session_has_nothing_left() -> None:
    """S001-59, SMP-28: its tally is zero at that moment, its deliveries and per-queue
    subscriptions are over."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(sub(a, Q1, S), sub(a, Q2, S))
    desk.say(sub(b, Q1, S))
    assert (desk.share(a), desk.total()) == (NOTHING, 1)
    assert desk.say(ack(a, Q1, "m1"), ack(a, Q2, "m1"), ack(a, Q2)) == ["a ERR NoMessage"] * 3
    assert desk.stored(Q2) == ["m1"]
    lines = desk.say(ack(b, Q1, "m1"), send(x, Q1, "m2"))
    assert desk.heard_by(a, lines) == []


def test_a_displacement_is_told_once() -> None:
    """S001-58, S001-61: further subscriptions of the new session tell the old one nothing, and
    the new one never hears of itself."""
    desk, _ = desk_of(Q1, Q2)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    lines = desk.say(sub(b, Q1, S)) + desk.say(sub(b, Q2, S)) + desk.say(subs(b, S))
    assert desk.heard_by(a, lines) == [ends(S, Q1, Q2)]
    assert [line for line in desk.heard_by(b, lines) if "ENDS" in line] == []


def test_no_displacement_is_told_to_oneself_or_to_a_session_that_is_gone() -> None:
    """S001-61, SMP-28: ENDS is for another, connected session."""
    desk, _ = desk_of(Q1)
    a, b, c = desk.sessions("a b c")
    lines = desk.say(sub(a, Q1, S)) + desk.say(subs(a, S)) + desk.say(subs(a, S))
    assert not [line for line in lines if "ENDS" in line]
    desk.hang_up(a)
    lines = desk.say(subs(b, S)) + desk.clean_up(a)
    assert not [line for line in lines if "ENDS" in line]
    desk.leave(b)
    assert not [line for line in desk.say(subs(c, S)) if "ENDS" in line]


def test_services_do_not_displace_one_another() -> None:
    """S001-58: the displacement is of one service."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.do(new(x, Q2), sub(b, Q2, T))
    lines = desk.say(subs(a, S))
    assert desk.heard_by(b, lines) == []
    assert (desk.service_subscriber(S), desk.service_subscriber(T)) == ([a], [b])


def test_a_displaced_session_can_take_its_service_back() -> None:
    """S001-63, SMP-28: SUBS works again, sweeps again, and displaces in turn."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.say(subs(b, S))
    lines = desk.say(subs(a, S))
    assert desk.heard_by(b, lines) == [ends(S, Q1, Q2)]
    assert desk.heard_by(a, lines) == [
        soks(S, Q1, Q2),
        "* MSG q1 m1",
        "* MSG q2 m1",
        "* ALLS S",
    ]
    assert (desk.share(a), desk.share(b), desk.total()) == (Tally.of([Q1, Q2]), NOTHING, 2)
    assert desk.say(ack(a, Q1, "m1"), send(x, Q1, "m2")) == [
        "a OK",
        "x RECEIPT q1 m2",
        "a * MSG q1 m2",
    ]


def test_a_session_that_came_back_by_one_subscribe_is_swept_by_its_subs() -> None:
    """S001-63, SMP-28, SMP-29: the first SUBS after a displacement is a first one again."""
    desk, _ = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.say(subs(b, S))
    assert desk.heard_by(a, desk.say(sub(a, Q1, S))) == ["SOK q1 as S", "* MSG q1 m1"]
    assert desk.share(a) == Tally.of([Q1])
    assert desk.say(subs(a, S)) == ["a " + soks(S, Q1, Q2), "a * MSG q2 m1", "a * ALLS S"]


def test_events_of_a_displacement_need_no_room_and_stall_nobody() -> None:
    """S001-60: ENDS is handed over like END; a session without room is told all the same, and
    the new session is answered in the same turn."""
    desk, _ = desk_of(Q1, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.fill(a)
    lines, _again = desk.say_one(subs(b, S))
    assert desk.heard_by(a, lines) == [ends(S, Q1)]
    assert desk.heard_by(b, lines) == [soks(S, Q1)]


def test_a_disconnect_in_the_turn_of_a_displacement_changes_nothing_for_the_new_one() -> None:
    """S000-77, S001-45: the tally of the one that left is gone, that of the new one is whole."""
    desk, x = desk_of(Q1, Q2)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.hang_up(a)
    desk.say(subs(b, S), Disconnect(a), send(x, Q1, "m1"))
    assert (desk.total(), desk.service_subscriber(S)) == (2, [b])
    assert desk.say(ack(b, Q1, "m1")) == ["b OK"]


# Identity.


def test_a_certificate_is_the_same_service_for_ever() -> None:
    """S001-1, S001-15: whatever id it is offered later, over reconnects and restarts; another
    certificate is another service."""
    desk = Desk()
    a, b = desk.sessions("a b")
    assert desk.say(identify(a, b"one", "messaging", S)) == ["a IDENTIFIED S"]
    assert desk.say(identify(b, b"one", "messaging", T)) == ["b IDENTIFIED S"]
    desk = desk.restarted()
    c = desk.session("c")
    assert desk.say(identify(c, b"one", "messaging", T)) == ["c IDENTIFIED S"]
    assert desk.say(identify(c, b"two", "messaging", T)) == ["c IDENTIFIED T"]


def test_two_first_handshakes_in_one_turn_get_the_same_service() -> None:
    """S001-16: whoever comes first names it."""
    desk = Desk()
    a, b, c = desk.sessions("a b c")
    assert desk.say(
        identify(a, b"one", "notifier", S),
        identify(b, b"one", "notifier", T),
        identify(c, b"two", "notifier", T),
    ) == ["a IDENTIFIED S", "b IDENTIFIED S", "c IDENTIFIED T"]
    assert desk.take_facts(f.ServiceIdentified) == [
        f.ServiceIdentified(desk.now, S, "notifier"),
        f.ServiceIdentified(desk.now, T, "notifier"),
    ]


@pytest.mark.once
def test_two_first_handshakes_in_two_turns_get_the_same_service() -> None:
    """S001-16: the second is told what the first one stored, and stores nothing."""
    desk = Desk()
    a, b = desk.sessions("a b")
    trips = desk.trips(identify(a, b"one", "messaging", S))
    assert [type(trip) for trip in trips] == [Load, Batch]
    trips = desk.trips(identify(b, b"one", "messaging", T))
    assert [type(trip) for trip in trips] == [Load]
    assert len(desk.take_facts(f.ServiceIdentified)) == 1


@pytest.mark.parametrize("one_turn", [True, False])
def test_a_certificate_cannot_be_used_in_another_role(one_turn: bool) -> None:
    """ACC-64: also in the turn in which it is first seen; it keeps its service and its role."""
    desk = Desk()
    a, b = desk.sessions("a b")
    first, other = identify(a, b"one", "messaging", S), identify(b, b"one", "notifier", T)
    lines = desk.say(first, other) if one_turn else desk.say(first) + desk.say(other)
    assert lines == ["a IDENTIFIED S", "b ERR BadService"]
    assert desk.say(identify(b, b"one", "messaging", T)) == ["b IDENTIFIED S"]


def test_a_failed_turn_leaves_a_certificate_unknown() -> None:
    """S001-16: whoever comes next may name it, since nobody was told otherwise."""
    for call in (0, 1):
        desk = Desk()
        a, b = desk.sessions("a b")
        desk.fail_at = call
        assert desk.say(identify(a, b"one", "messaging", S)) == ["a ERR StoreError"]
        assert desk.fail_at is None
        assert desk.say(identify(b, b"one", "messaging", T)) == ["b IDENTIFIED T"]


# Without a sweep.


def test_a_service_may_be_subscribed_without_a_sweep() -> None:
    """SMP-33, S000-99, S001-94: registered, counted and answered as ever, and no turn follows."""
    desk, _x = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    lines, again = desk.say_one(nsubs(a, S))
    assert (lines, again) == (["a " + soks(S, Q1, Q2)], [])
    assert desk.service_subscriber(S) == [a]
    assert desk.share(a) == Tally.of([Q1, Q2])
    assert desk.say(nsubs(a, S)) == ["a " + soks(S, Q1, Q2)]
    assert desk.say(nsubs(b, S)) == ["b " + soks(S, Q1, Q2), "a " + ends(S, Q1, Q2)]
    desk.leave(b)
    assert desk.total() == 0
    assert desk.take_facts(f.SweepEnded) == []


def test_drift_is_recorded_without_a_sweep_as_well() -> None:
    """S000-95, SMP-30, SMP-33."""
    desk, _x = desk_of(Q1)
    a = desk.session("a")
    desk.do(nsubs(a, S, Tally.of([Q1, Q2])))
    assert [fact.drift for fact in desk.take_facts(f.ServiceSubscribed)] == ["fewer"]

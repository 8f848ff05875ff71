"""Subscribing to an exclusive queue, and reading from it without a subscription."""

from __future__ import annotations

from headgate.core import facts as f
from headgate.core.effects import Deliver, Failed
from headgate.core.model.limits import Limits
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import Batch
from headgate.errors import LimitReached
from headgate.testing.rig import deliveries
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Desk,
    Q,
    S,
    T,
    ack,
    delete,
    desk_of,
    desk_with,
    ends,
    get,
    messages,
    new,
    queues,
    send,
    soks,
    sub,
    subs,
)


def test_subscribing_again_ends_nothing_and_delivers_the_head_again() -> None:
    """S000-14, S004-47, SMP-4: no END; the gate is reset and the head comes again."""
    desk, (a, *_) = desk_with("m1", "m2")
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m2"]
    assert desk.say(ack(a, Q, "m1"), ack(a, Q, "m2")) == ["a ERR NoMessage", "a OK"]


def test_a_subscribe_of_a_session_that_hung_up_ends_the_subscription_of_another() -> None:
    """SMP-6, S000-74: it asked first, and had it lived the other would have lost the queue."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q))
    desk.hang_up(b)
    assert desk.say(sub(b, Q)) == ["a * END q"]
    assert desk.subscriber(Q) == []
    assert desk.say(send(x, Q, "m1"))[1:] == []
    assert desk.say(ack(a, Q, "m1")) == ["a ERR NoMessage"]


def test_a_session_that_hung_up_is_not_registered_but_ends_the_subscriber() -> None:
    """S000-10, S000-11, SMP-5: the place was asked for, so whoever had it is told END."""
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
    """S000-10, SMP-5: END goes to a different subscriber only."""
    desk, (a, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    desk.hang_up(a)
    assert [line for line in desk.say(sub(a, Q)) if "END" in line] == []
    assert desk.clean_up(a) == []
    assert desk.subscriber(Q) == []


def test_get_then_subscribe_on_one_session_is_prohibited() -> None:
    """S000-23, SMP-19: also when the queue was empty; and nobody is displaced by the attempt."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(b, Q))
    assert desk.say(get(a, Q)) == ["a OK"]
    assert desk.say(sub(a, Q)) == ["a ERR Prohibited"]
    assert desk.subscriber(Q) == [b]
    assert desk.heard_by(b, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]
    assert desk.say(get(a, Q), sub(a, Q)) == ["a MSG q m1", "a ERR Prohibited"]
    assert desk.say(ack(a, Q, "m1"), sub(a, Q)) == ["a OK", "a ERR Prohibited"]


def test_subscribe_then_get_on_one_session_is_prohibited() -> None:
    """S000-24, SMP-19: and the subscription goes on."""
    desk, (a, *_) = desk_with("m1")
    assert desk.say(sub(a, Q), get(a, Q)) == ["a SOK q", "a * MSG q m1", "a ERR Prohibited"]
    assert desk.say(ack(a, Q, "m1"), get(a, Q)) == ["a OK", "a ERR Prohibited"]


def test_the_subscriber_from_creation_may_not_get_either() -> None:
    """S000-24, SMP-10, SMP-19: NEW with S is a subscription like any other."""
    desk = Desk()
    a = desk.session("a")
    assert desk.say(new(a, Q, subscribe=True), get(a, Q)) == ["a SOK q", "a ERR Prohibited"]


def test_get_and_subscribe_work_together_on_two_sessions() -> None:
    """S000-25, SMP-18, SMP-19, ACC-40: both see the same message."""
    desk, (a, b, *_) = desk_with("m1")
    effects = desk.do(sub(a, Q), get(b, Q))
    seen = [effect.message for effect in effects if isinstance(effect, Deliver)]
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_a_displaced_session_may_get_what_it_subscribed_before() -> None:
    """S000-24, SMP-2: the exclusion lasts while the subscription is active."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q), sub(b, Q))
    assert desk.say(get(a, Q)) == ["a MSG q m1"]


def test_a_session_that_only_gets_displaces_nobody_and_is_not_displaced() -> None:
    """S000-26, SMP-18: it is not in the registry, and gets neither END nor DELD."""
    desk, (a, b, c, _) = desk_with("m1")
    desk.say(sub(a, Q))
    assert desk.say(get(b, Q)) == ["b MSG q m1"]
    assert desk.subscriber(Q) == [a]
    lines = desk.say(sub(c, Q)) + desk.say(delete(c, Q))
    assert desk.heard_by(b, lines) == []
    desk.leave(b)
    assert desk.take_facts(f.Displaced)[0].session == a


def test_a_get_can_be_repeated_and_answers_its_own_request() -> None:
    """SMP-20: MSG with the request's reference; OK for an empty queue."""
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


def test_a_get_session_that_leaves_is_forgotten() -> None:
    """SMP-7, SMP-18: another session of the same client may subscribe."""
    desk, (a, *_) = desk_with("m1")
    desk.say(get(a, Q))
    desk.leave(a)
    again = desk.session("again")
    assert desk.say(sub(again, Q)) == ["again SOK q", "again * MSG q m1"]


def test_a_subscribe_answers_and_delivers_the_head_in_one_turn() -> None:
    """S000-30, S004-1, SMP-12: SOK first, then the message, which answers no request."""
    desk, (a, *_) = desk_with("m1", "m2")
    lines, again = desk.say_one(sub(a, Q))
    assert lines == ["a SOK q", "a * MSG q m1"]
    assert again == []


def test_a_subscribe_of_an_empty_queue_is_only_answered_and_leaves_the_gate_open() -> None:
    """S000-31, S004-1, SMP-12."""
    desk, (a, _, _, x) = desk_with()
    assert desk.say(sub(a, Q)) == ["a SOK q"]
    assert desk.say(ack(a, Q)) == ["a ERR NoMessage"]
    assert desk.heard_by(a, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]


def test_a_block_of_subscribes_answers_each_and_delivers_exactly_what_waits() -> None:
    """S004-54, S004-1, S004-34, S004-35, ACC-48: a SOK for each, and the oldest message of those
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


def test_the_same_queue_twice_in_a_block_gives_two_answers_and_one_message() -> None:
    """S004-50: two SOKs, one message in flight."""
    desk, (a, *_) = desk_with("m1", "m2")
    lines = desk.say(sub(a, Q), sub(a, Q))
    assert sorted(lines) == ["a * MSG q m1", "a SOK q", "a SOK q"]
    assert desk.say(ack(a, Q, "m1"), ack(a, Q, "m1")) == ["a MSG q m2", "a ERR NoMessage"]


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


def test_a_service_subscribing_its_own_queue_again_stores_nothing() -> None:
    """S001-28, S001-29, S004-6, SMP-24: case 1; a retry after a lost answer leaves the tally
    right, in the store and in the session."""
    desk, _ = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.asked.clear()
    assert desk.say(sub(a, Q1, S)) == ["a SOK q1 as S", "a * MSG q1 m1"]
    assert desk.say(sub(a, Q1, S)) == ["a SOK q1 as S", "a * MSG q1 m1"]
    assert not [trip for trip in desk.asked if isinstance(trip, Batch)]
    assert desk.share(a) == Tally.of([Q1])
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q1, Q2])
    assert desk.heard_by(a, desk.say(sub(b, Q2, S))) == [ends(S, Q1)]


def test_a_service_counts_each_queue_it_subscribes_until_it_subscribes_them_all() -> None:
    """S001-29, S004-13: every queue once; after SUBS a per-queue SUB counts nothing more."""
    desk, _ = desk_of(Q1, Q2, Q3)
    a, b = desk.sessions("a b")
    desk.say(sub(a, Q1, S), sub(a, Q2, S), sub(a, Q2, S))
    assert (desk.share(a), desk.total()) == (Tally.of([Q1, Q2]), 2)
    desk.say(subs(a, S))
    desk.say(sub(a, Q1, S), sub(a, Q3, S))
    assert (desk.share(a), desk.total()) == (Tally.of([Q1, Q2, Q3]), 3)
    assert desk.heard_by(a, desk.say(subs(b, S))) == [ends(S, Q1, Q2, Q3)]


def test_a_service_takes_a_plain_queue() -> None:
    """S001-2, S001-30, S004-48, SMP-25: case 2; the association is stored, the session's tally
    grows, the previous subscriber gets END, and the head is delivered."""
    desk = Desk()
    a, b, x = desk.sessions("a b x")
    desk.do(new(b, Q1, subscribe=True), send(x, Q1, "m1"))
    lines = desk.say(sub(a, Q1, S))
    assert desk.heard_by(a, lines) == ["SOK q1 as S", "* MSG q1 m1"]
    assert desk.heard_by(b, lines) == ["* END q1"]
    assert desk.associated(Q1) == S
    assert desk.tally(S) == desk.recount(S) == desk.share(a) == Tally.of([Q1])
    assert desk.say(ack(b, Q1, "m1")) == ["b ERR NoMessage"]
    assert desk.say(ack(a, Q1, "m1")) == ["a OK"]
    assert [(fact.queue, fact.service) for fact in desk.take_facts(f.Associated)] == [(Q1, S)]


def test_a_service_takes_a_queue_of_another_service() -> None:
    """S001-27, S001-31, SMP-25: case 2; one messaging service at a time. The queue leaves the
    tally of the other service and of its subscriber, who gets END for it."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a, b, c = desk.sessions("a b c")
    desk.say(subs(a, S))
    lines = desk.say(sub(b, Q1, T))
    assert desk.heard_by(a, lines) == ["* END q1"]
    assert desk.heard_by(b, lines) == ["SOK q1 as T", "* MSG q1 m1"]
    assert desk.associated(Q1) == T
    assert desk.tally(S) == desk.recount(S) == desk.share(a) == Tally.of([Q2])
    assert desk.tally(T) == desk.recount(T) == desk.share(b) == Tally.of([Q1])
    assert desk.say(ack(a, Q1, "m1")) == ["a ERR NoMessage"]
    assert desk.say(ack(b, Q1, "m1"), send(x, Q1, "m2")) == [
        "b OK",
        "x RECEIPT q1 m2",
        "b * MSG q1 m2",
    ]
    assert desk.heard_by(a, desk.say(subs(c, S))) == [ends(S, Q2)]


def test_a_queue_taken_from_a_service_that_nobody_subscribed_leaves_its_tally() -> None:
    """S001-31, S001-40: there is nobody to tell, and the stored tally is right all the same."""
    desk, _ = desk_of(Q1, Q2)
    b = desk.session("b")
    assert desk.say(sub(b, Q1, T)) == ["b SOK q1 as T"]
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q2])
    assert desk.tally(T) == desk.recount(T) == Tally.of([Q1])


def test_a_plain_session_takes_a_queue_back_from_a_service() -> None:
    """S001-32, SMP-26: case 3; the association goes, the queue is subscribed by itself, the
    service's subscriber gets END and counts one less."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    lines = desk.say(sub(b, Q1))
    assert desk.heard_by(b, lines) == ["SOK q1", "* MSG q1 m1"]
    assert desk.heard_by(a, lines) == ["* END q1"]
    assert desk.associated(Q1) is None
    assert desk.tally(S) == desk.recount(S) == desk.share(a) == Tally.of([Q2])
    assert (desk.subscriber(Q1), desk.total()) == ([b], 1)
    assert desk.say(ack(a, Q1, "m1")) == ["a ERR NoMessage"]
    assert desk.say(ack(b, Q1, "m1"), send(x, Q1, "m2")) == [
        "b OK",
        "x RECEIPT q1 m2",
        "b * MSG q1 m2",
    ]


def test_a_plain_session_and_a_plain_queue_touch_no_service() -> None:
    """S001-33, SMP-27: case 4; nothing stored, nothing counted."""
    desk = Desk()
    a, b = desk.sessions("a b")
    desk.say(new(a, Q1))
    desk.facts.clear()
    assert desk.trips(sub(a, Q1), sub(b, Q1)) == []
    assert (desk.total(), desk.tally(S), desk.associated(Q1)) == (0, NOTHING, None)
    assert not desk.take_facts(f.Associated)


def test_going_to_a_service_and_back_loses_no_message() -> None:
    """S001-34, S004-11, SMP-25, SMP-26: every message comes, in order, whoever it goes to."""
    desk = Desk()
    x = desk.session("x")
    desk.do(new(x, Q1))
    got: list[str] = []
    for round_ in range(6):
        session = desk.session(f"session {round_}")
        desk.do(send(x, Q1, f"{round_}.1"), send(x, Q1, f"{round_}.2"))
        effects = desk.do(sub(session, Q1, S if round_ % 2 else None))
        (head,) = deliveries(effects, session)
        got.append(head.decode())
        (following,) = deliveries(desk.do(ack(session, Q1, got[-1])), session)
        got.append(following.decode())
        # The second is not confirmed: it comes again, as the first of the next session.
        if round_ % 3 == 0:
            desk.leave(session)
        assert desk.tally(S) == desk.recount(S) == Tally.of([Q1] if round_ % 2 else [])
        assert desk.total() == (round_ % 2 if round_ % 3 else 0)
    assert got[0] == "0.1"
    assert got[1::2] == ["0.2", "1.1", "1.2", "2.1", "2.2", "3.1"]
    assert got[2::2] == got[1:-1:2]


def test_whoever_is_ended_by_a_session_that_hung_up_gets_nothing_more_of_the_queue() -> None:
    """S000-10, S000-11, S000-17, SMP-5, SMP-6: also the subscriber of a service. If it is told END
    then its queue is not delivered to it any more."""
    desk, x = desk_of(Q1, Q2)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.hang_up(b)
    ended = "a * END q1" in desk.say(sub(b, Q1))
    desk.clean_up(b)
    lines = desk.say(send(x, Q1, "m1"))
    assert messages(lines) == ([] if ended else ["a * MSG q1 m1"])
    assert desk.share(a) == (Tally.of([Q2]) if ended else Tally.of([Q1, Q2]))


def test_a_queue_of_a_service_that_left_is_taken_back_and_nobody_is_told() -> None:
    """SMP-26, S001-32: the association goes as well; a service that comes again has one queue
    less."""
    desk, x = desk_of(Q1, Q2)
    a, b, c = desk.sessions("a b c")
    desk.say(subs(a, S))
    desk.leave(a)
    assert desk.say(sub(b, Q1)) == ["b SOK q1"]
    assert desk.service_subscriber(S) == []
    assert desk.say(subs(c, S)) == [f"c {soks(S, Q2)}", "c * ALLS S"]
    assert desk.say(send(x, Q1, "m1"))[1:] == ["b * MSG q1 m1"]


def test_a_service_that_hung_up_does_not_leave_its_queue_to_another_of_its_sessions() -> None:
    """S000-10, S000-11, SMP-29: who did not ask for the queue would not be given what waits."""
    desk, x = desk_of(Q1)
    a, b, c = desk.sessions("a b c")
    desk.say(subs(a, S), new(x, Q2), send(x, Q2, "m1"), sub(c, Q2))
    desk.hang_up(b)
    assert "c * END q2" in desk.say(sub(b, Q2, S))
    desk.clean_up(b)
    assert messages(desk.say(sub(c, Q2))) == ["c * MSG q2 m1"]

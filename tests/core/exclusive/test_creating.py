"""Creating and deleting exclusive queues."""

from __future__ import annotations

import pytest

from headgate.core import facts as f
from headgate.core.commands import Create
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.limits import Limits
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import Load
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    Desk,
    Q,
    S,
    ack,
    delete,
    desk_of,
    desk_with,
    ends,
    get,
    new,
    send,
    sub,
    subs,
)


def test_a_new_queue_is_granted_and_stored() -> None:
    desk = Desk()
    a = desk.session("a")
    assert desk.say(new(a, Q)) == ["a SOK q"]
    assert desk.stored(Q) == []
    assert desk.subscriber(Q) == []
    assert [fact.queue for fact in desk.take_facts(f.QueueCreated)] == [Q]


@pytest.mark.once
def test_a_queue_created_with_a_subscription_is_pushed_to_without_looking_for_messages() -> None:
    """SMP-10: NEW with S subscribes the creating session without message lookup."""
    desk = Desk()
    a, x = desk.sessions("a x")
    trips = desk.trips(new(a, Q, subscribe=True))
    assert [trip.heads for trip in trips if isinstance(trip, Load)] in ([], [{Q: 0}])
    assert desk.subscriber(Q) == [a]
    assert desk.heard_by(a, desk.say(send(x, Q, "m1"))) == ["* MSG q m1"]


def test_a_queue_created_without_a_subscription_is_nobodys() -> None:
    """SMP-10: only NEW with S subscribes."""
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


def test_a_deleted_queue_is_unknown_from_then_on() -> None:
    """SMP-9, ACC-29: after DEL every later use is refused, also of the session that had it open."""
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
    """S000-15, SMP-9: DELD, not END, to the subscriber; the one who deletes gets only OK."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    lines = desk.say(delete(b, Q))
    assert desk.heard_by(a, lines) == ["* DELD q"]
    assert desk.heard_by(b, lines) == ["OK"]


def test_a_subscriber_that_deletes_its_own_queue_is_only_answered() -> None:
    """SMP-9: the deleting session itself gets only OK."""
    desk, (a, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    assert desk.say(delete(a, Q)) == ["a OK"]
    assert desk.subscriber(Q) == []


def test_a_subscriber_that_is_gone_is_told_nothing_of_a_deletion() -> None:
    """SMP-9: DELD is for a connected session."""
    desk, (a, b, *_) = desk_with("m1")
    desk.say(sub(a, Q))
    desk.leave(a)
    assert desk.say(delete(b, Q)) == ["b OK"]


def test_deleting_a_queue_ends_what_waited_of_it() -> None:
    """S000-47, S004-2: nothing is delivered of a queue that is not there."""
    desk, (a, b, _, x) = desk_with()
    desk.say(sub(a, Q), new(a, Q1, subscribe=True))
    desk.fill(a)
    desk.say(send(x, Q, "m1"), send(x, Q1, "m1"))
    assert desk.heard_by(a, desk.say(delete(b, Q))) == ["* DELD q"]
    assert desk.drained(a) == ["a * MSG q1 m1"]


def test_a_queue_created_with_a_subscription_counts_towards_the_limit() -> None:
    """NEW with S is a subscription like any other: N are admitted, N + 1 is refused."""
    desk = Desk(limits=Limits(queues_per_session=2))
    a = desk.session("a")
    lines = desk.say(*(new(a, name, subscribe=True) for name in (Q1, Q2, Q3)))
    assert lines == ["a SOK q1", "a SOK q2", "a ERR LimitReached"]
    assert [fact.name for fact in desk.take_facts(f.LimitReached)] == ["queues_per_session"]
    assert desk.stored_head(Q3) is None


def test_a_queue_created_by_a_service_is_the_services_from_the_beginning() -> None:
    """S001-26, S000-94, SMP-28: stored with the queue, counted, and answered with the id."""
    desk = Desk()
    a, x = desk.sessions("a x")
    lines = desk.say(new(a, Q1, subscribe=True, service=S), new(a, Q2, service=S))
    assert lines == ["a SOK q1 as S", "a SOK q2 as S"]
    assert (desk.associated(Q1), desk.associated(Q2)) == (S, S)
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q1, Q2])
    assert desk.heard_by(a, desk.say(send(x, Q1, "m1"))) == ["* MSG q1 m1"]


def test_a_service_that_creates_a_queue_without_subscribing_is_not_the_subscriber() -> None:
    """S001-26, SMP-10, SMP-28: only NEW with S registers the session."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.say(new(a, Q1, service=S))
    assert desk.service_subscriber(S) == []
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]


def test_deleting_a_queue_takes_it_out_of_its_services_tally() -> None:
    """S004-2, SMP-34: of the store's and the session's; the service's subscriber gets DELD."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    lines = desk.say(delete(x, Q1))
    assert desk.heard_by(a, lines) == ["* DELD q1"]
    assert desk.tally(S) == desk.recount(S) == desk.share(a) == Tally.of([Q2])
    assert desk.total() == 1
    assert desk.heard_by(a, desk.say(subs(b, S))) == [ends(S, Q2)]


def test_a_service_that_deletes_its_own_queue_is_only_answered() -> None:
    """SMP-35, S004-2: its count decreases and it gets only OK."""
    desk, _ = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(sub(a, Q1, S), sub(a, Q2, S))
    assert desk.say(delete(a, Q1)) == ["a OK"]
    assert desk.tally(S) == desk.recount(S) == desk.share(a) == Tally.of([Q2])
    assert desk.heard_by(a, desk.say(subs(b, S))) == [ends(S, Q2)]


def test_deleting_a_queue_of_a_service_that_nobody_subscribed_keeps_the_tally_right() -> None:
    """S004-2, S001-40."""
    desk, x = desk_of(Q1, Q2)
    assert desk.say(delete(x, Q2)) == ["x OK"]
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q1])


def test_deleting_a_queue_that_was_not_counted_takes_nothing_from_the_session() -> None:
    """S004-13, S001-40: the session subscribed one queue of two; the other is deleted."""
    desk, x = desk_of(Q1, Q2)
    a, b = desk.sessions("a b")
    desk.say(sub(a, Q1, S))
    desk.say(delete(x, Q2))
    assert (desk.share(a), desk.total()) == (Tally.of([Q1]), 1)
    assert desk.tally(S) == Tally.of([Q1])
    assert desk.heard_by(a, desk.say(subs(b, S))) == [ends(S, Q1)]

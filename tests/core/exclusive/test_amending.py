"""Changing who may do what with a queue, and asking about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core import facts as f
from headgate.core.commands import Command, Confirm
from headgate.core.effects import Inspected, Standing
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.parties import (
    Address,
    Change,
    ChangeKeys,
    DropLink,
    DropNotifier,
    Link,
    Parties,
    Party,
    Purpose,
    Secure,
    SetLink,
    SetNotifier,
    Suspend,
)
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import Batch
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Desk,
    Q,
    S,
    T,
    ack,
    amend,
    delete,
    get,
    lget,
    link,
    mid,
    new,
    nkey,
    notifier,
    parties,
    post,
    que,
    queues,
    send,
    skey,
    sub,
    subs,
)

MESSAGING, CONTACT = Purpose.MESSAGING, Purpose.CONTACT

MEMORIES = {"roomy": Limits(), "tiny": Limits(heads=1, backlogs=1)}
each_memory = pytest.mark.parametrize("limits", MEMORIES.values(), ids=MEMORIES.keys())

CHANGES: dict[str, Change] = {
    "secure": Secure(b"key"),
    "keys": ChangeKeys((b"new", b"rcv key")),
    "link": SetLink(link(Q, b"other")),
    "no link": DropLink(),
    "notifier": SetNotifier(notifier(Q, 2)),
    "no notifier": DropNotifier(),
    "off": Suspend(),
}


def whole(queue: QueueId, purpose: Purpose | None = CONTACT) -> Parties:
    return parties(queue, purpose, link=link(queue), notifier=notifier(queue))


# Changing.


@each_memory
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_stored_and_told(limits: Limits, change: Change) -> None:
    """ACC-9, ACC-19, ACC-22, ACC-26, ACC-65, ACC-74, ACC-78, ACC-84: in memory, in the store, and
    after a restart."""
    desk = Desk(limits=limits)
    a = desk.session("a")
    desk.do(new(a, Q, parties=whole(Q)))
    expected = change.apply(whole(Q))
    assert expected != whole(Q)
    assert desk.say(amend(a, Q, change)) == ["a AMENDED q"]
    assert desk.stored_parties(Q) == expected
    assert desk.take_facts(f.QueueAmended) == [f.QueueAmended(desk.now, Q, type(change).__name__)]
    desk.check_backlogs()
    desk = desk.restarted()
    a = desk.session("a")
    [answer] = desk.do(que(a, Q))
    assert isinstance(answer, Inspected)
    assert answer.parties == expected


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_that_changes_nothing_writes_nothing(change: Change) -> None:
    """ACC-10, ACC-20, ACC-26, ACC-84: repeated after a lost answer, it is answered again, and that
    is all."""
    desk = Desk()
    a = desk.session("a")
    desk.do(new(a, Q, parties=whole(Q)))
    desk.do(amend(a, Q, change))
    desk.facts.clear()
    assert desk.trips(amend(a, Q, change)) == []
    assert desk.facts == []


def test_a_refused_change_leaves_the_queue_as_it_was() -> None:
    """ACC-11, ACC-20, ACC-21, ACC-83, ACC-84: another key, another link, another purpose."""
    desk = Desk()
    a = desk.session("a")
    desk.do(new(a, Q, parties=whole(Q, MESSAGING)), new(a, Q1, parties=whole(Q1, CONTACT)))
    desk.do(skey(a, Q, b"key"))
    before = desk.stored_head(Q), desk.stored_head(Q1)
    refused: list[Command] = [
        amend(a, Q, Secure(b"other")),
        skey(a, Q, b"other"),
        lget(a, Q),
        lget(a, Q, b"other"),
        amend(a, Q, SetLink(link(Q, b"other"))),
        amend(a, Q, ChangeKeys((b"new",))),
        skey(a, Q1, b"key"),
        lget(a, Q1, b"key"),
        amend(a, Q1, SetLink(Link(b"another", b"fixed", b"user"))),
        amend(a, Q1, SetLink(replace(link(Q1), fixed=b"another"))),
    ]
    asked = len(desk.asked)
    assert desk.say(*refused) == ["a ERR Unauthorised"] * len(refused)
    assert not any(isinstance(trip, Batch) for trip in desk.asked[asked:])
    assert (desk.stored_head(Q), desk.stored_head(Q1)) == before


def test_a_queue_without_parties_cannot_be_changed() -> None:
    """It is of another wire, where nobody is asked."""
    desk = Desk()
    a = desk.session("a")
    desk.do(new(a, Q))
    assert desk.say(amend(a, Q, Secure(b"key"))) == ["a ERR Prohibited"]
    assert desk.say(send(a, Q, "m1")) == ["a RECEIPT q m1"]


def test_changes_of_one_turn_build_on_one_another() -> None:
    """S004-43: also with an association and a quota, which are in the same record."""
    desk = Desk()
    a, s = desk.sessions("a s")
    desk.do(new(a, Q, parties=whole(Q)))
    desk.do(
        amend(a, Q, Secure(b"key")),
        sub(s, Q, S),
        amend(a, Q, ChangeKeys((b"new",))),
        amend(a, Q, DropLink()),
    )
    assert desk.associated(Q) == S
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q])
    expected = replace(whole(Q), sender_key=b"key", keys=(b"new",), link=None)
    assert desk.stored_parties(Q) == expected
    desk.do(sub(a, Q), amend(a, Q, Suspend()), sub(s, Q, S))
    desk.check_backlogs()
    assert desk.associated(Q) == S
    assert desk.stored_parties(Q) == replace(expected, is_off=True)
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q])


def test_a_change_in_the_turn_that_made_the_queue() -> None:
    """S004-43: a queue that is amended, associated, deleted and made again at once."""
    desk = Desk()
    a, s = desk.sessions("a s")
    desk.do(
        new(a, Q, parties=whole(Q)),
        amend(a, Q, Secure(b"key")),
        sub(s, Q, S),
        amend(a, Q, DropLink()),
    )
    assert desk.stored_parties(Q) == replace(whole(Q), sender_key=b"key", link=None)
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q])
    desk.do(amend(a, Q, Suspend()), delete(a, Q), new(a, Q, parties=parties(Q)))
    assert desk.stored_parties(Q) == parties(Q)
    assert desk.tally(S) == desk.recount(S) == Tally.of([])
    desk.check_backlogs()


def test_other_services_are_not_mixed_up_by_a_change() -> None:
    """S001-27, S001-40: a queue that moves and is amended in one turn is one service's."""
    desk = Desk()
    a, s, t = desk.sessions("a s t")
    desk.do(new(a, Q, service=S, parties=whole(Q)))
    desk.do(amend(a, Q, DropLink()), sub(t, Q, T), amend(a, Q, DropNotifier()))
    assert desk.associated(Q) == T
    assert desk.tally(S) == desk.recount(S) == Tally.of([])
    assert desk.tally(T) == desk.recount(T) == Tally.of([Q])
    assert desk.say(post(a, Q, "m1")) == ["a RECEIPT q m1", "t * MSG q m1"]
    assert desk.say(subs(s, S))[0].startswith("s SOKS S 0 ")


# Ids that are taken.


@each_memory
@pytest.mark.parametrize("known", [True, False])
def test_another_queue_cannot_take_a_link(limits: Limits, known: bool) -> None:
    """ACC-85: whether or not the core remembers the queue that has it, and what came of it is the
    same: AUTH, not a failure of the store."""
    desk = Desk(limits=limits)
    a = desk.session("a")
    desk.do(new(a, Q, parties=whole(Q)), new(a, Q1, parties=parties(Q1, CONTACT)))
    if not known:
        desk = desk.restarted()
        a = desk.session("a")
    assert desk.say(amend(a, Q1, SetLink(link(Q)))) == ["a ERR Unauthorised"]
    assert desk.say(amend(a, Q, SetLink(link(Q, b"mine")))) == ["a AMENDED q"]
    assert desk.stored_parties(Q1).link is None
    assert desk.stored_owner(Address(Party.LINK, link(Q).id)) == Q
    desk.check_backlogs()


@each_memory
def test_two_queues_cannot_take_one_link_in_one_turn(limits: Limits) -> None:
    """ACC-85, S004-43: the first one has it."""
    desk = Desk(limits=limits)
    a = desk.session("a")
    desk.do(*(new(a, queue, parties=parties(queue, CONTACT)) for queue in (Q, Q1)))
    one = Link(b"one", b"fixed", b"user")
    lines = desk.say(amend(a, Q, SetLink(one)), amend(a, Q1, SetLink(one)))
    assert lines == ["a AMENDED q", "a ERR Unauthorised"]
    desk.check_backlogs()


@each_memory
def test_links_that_are_given_up_are_free_at_once(limits: Limits) -> None:
    """ACC-84, ACC-85: within one turn two queues may exchange theirs, one may get that of a queue
    that is deleted, and a new one that of another."""
    desk = Desk(limits=limits)
    a = desk.session("a")
    desk.do(*(new(a, queue, parties=whole(queue)) for queue in (Q, Q1, Q2)))
    desk.do(
        amend(a, Q1, Secure(b"key")),
        amend(a, Q, DropLink()),
        amend(a, Q1, DropLink()),
        amend(a, Q1, SetLink(link(Q))),
        amend(a, Q, SetLink(link(Q1))),
    )
    assert (desk.stored_parties(Q).link, desk.stored_parties(Q1).link) == (link(Q1), link(Q))
    desk.check_backlogs()
    made = QueueId(b"made")
    desk.do(
        amend(a, Q, DropLink()),
        new(a, made, parties=parties(made, CONTACT, link=link(Q1))),
        delete(a, Q2),
        amend(a, Q, SetLink(link(Q2))),
    )
    assert (desk.stored_parties(Q).link, desk.stored_parties(made).link) == (link(Q2), link(Q1))
    desk.check_backlogs()


@each_memory
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("party", ["recipient", "sender", "notifier", "link"])
def test_a_new_queue_cannot_have_an_id_of_another(limits: Limits, known: bool, party: str) -> None:
    """ACC-85, 4.4: so that whoever makes it can choose another, or is refused."""
    desk = Desk(limits=limits)
    a = desk.session("a")
    desk.do(new(a, Q, parties=whole(Q)), new(a, Q2, parties=whole(Q2)))
    if not known:
        desk = desk.restarted()
        a = desk.session("a")
    taken = {
        "recipient": whole(Q1),
        "sender": replace(whole(Q1), sender=whole(Q).sender),
        "notifier": replace(whole(Q1), notifier=notifier(Q)),
        "link": replace(whole(Q1), link=link(Q)),
    }[party]
    queue = Q if party == "recipient" else Q1
    assert desk.say(new(a, queue, parties=taken)) == ["a ERR QueueExists"]
    assert desk.stored_parties(Q) == whole(Q)
    assert desk.stored_head(Q1) is None
    assert desk.say(new(a, Q1, parties=whole(Q1))) == ["a SOK q1"]
    desk.check_backlogs()


@pytest.mark.once
def test_a_block_of_new_queues_is_one_load() -> None:
    """SMP-21: all ids of all of them are looked for at once."""
    desk = Desk()
    a = desk.session("a")
    trips = desk.trips(*(new(a, queue, parties=whole(queue)) for queue in queues(50)))
    assert [type(trip).__name__ for trip in trips] == ["Load", "Batch"]


def test_a_new_notifier_leaves_the_rest_alone() -> None:
    """ACC-79: NKEY after NDEL, and messages as before."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, subscribe=True, parties=whole(Q)), post(x, Q, "m1"))
    desk.do(amend(a, Q, DropNotifier()), nkey(a, Q, 2))
    assert desk.stored_parties(Q) == replace(whole(Q), notifier=notifier(Q, 2))
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]


# Asking.


def inspected(desk: Desk, *commands: Command) -> Inspected:
    found = [effect for effect in desk.do(*commands) if isinstance(effect, Inspected)]
    return found[-1]


@each_memory
def test_what_is_said_of_a_queue_is_what_it_is_to_the_session_that_asks(limits: Limits) -> None:
    """ACC-33: size, head, what the session is to it and what it holds."""
    desk = Desk(limits=limits)
    a, b, x = desk.sessions("a b x")
    desk.do(new(a, Q, parties=whole(Q)))
    seen = inspected(desk, que(a, Q))
    assert (seen.parties, seen.messages, seen.head) == (whole(Q), 0, None)
    assert (seen.standing, seen.delivered) == (Standing.NONE, None)
    desk.do(sub(a, Q))
    seen = inspected(desk, que(a, Q))
    assert (seen.standing, seen.delivered) == (Standing.SUBSCRIBED, None)
    desk.do(post(x, Q, "m1"), post(x, Q, "m2"))
    seen = inspected(desk, que(a, Q))
    assert (seen.messages, seen.head and seen.head.id) == (2, mid("m1"))
    assert (seen.standing, seen.delivered) == (Standing.SUBSCRIBED, mid("m1"))
    seen = inspected(desk, que(b, Q))
    assert (seen.standing, seen.delivered) == (Standing.NONE, None)
    seen = inspected(desk, get(b, Q), que(b, Q))
    assert (seen.standing, seen.delivered) == (Standing.GETTING, mid("m1"))
    seen = inspected(desk, ack(b, Q, "m1"), que(b, Q))
    assert (seen.standing, seen.delivered) == (Standing.GETTING, None)
    assert (seen.messages, seen.head and seen.head.id) == (1, mid("m2"))


@each_memory
def test_asking_changes_nothing(limits: Limits) -> None:
    """ACC-33: neither who is subscribed nor what is in flight, nor the store."""
    desk = Desk(limits=limits)
    a, b, x = desk.sessions("a b x")
    desk.do(new(a, Q, parties=whole(Q)), post(x, Q, "m1"), sub(a, Q))
    trips = desk.trips(que(a, Q), que(b, Q), que(x, Q))
    assert not any(isinstance(trip, Batch) for trip in trips)
    assert desk.subscriber(Q) == [a]
    assert desk.say(ack(a, Q, "m1")) == ["a OK"]
    assert desk.say(sub(b, Q)) == ["a * END q", "b SOK q"]


@each_memory
def test_asking_sees_what_the_turn_did_before(limits: Limits) -> None:
    """S004-43: however many confirms stand before it."""
    desk = Desk(limits=limits)
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=whole(Q)), *(post(x, Q, f"m{k}") for k in range(1, 5)))
    desk = desk.restarted()
    a, x = desk.sessions("a x")
    commands: list[Command] = [sub(a, Q), ack(a, Q, "m1"), ack(a, Q, "m2"), que(a, Q)]
    seen = inspected(desk, *commands, post(x, Q, "m5"), Confirm(a, 0, Q, (mid("m3"),)))
    assert (seen.messages, seen.head and seen.head.id, seen.delivered) == (2, mid("m3"), mid("m3"))


def test_a_services_session_is_subscribed_to_its_queues() -> None:
    """ACC-33, SMP-36: without a subscription of its own to this one."""
    desk = Desk()
    s, x = desk.sessions("s x")
    desk.do(new(s, Q, service=S, parties=whole(Q)), new(s, Q1, service=S, parties=whole(Q1)))
    desk.do(sub(s, Q1, S))
    assert inspected(desk, que(s, Q)).standing is Standing.SUBSCRIBED
    desk.do(post(x, Q, "m1"))
    assert inspected(desk, que(s, Q)).delivered == mid("m1")
    assert inspected(desk, que(x, Q)).standing is Standing.NONE


def test_a_session_that_is_gone_is_not_answered() -> None:
    """S000-74: nor given a seat by its question."""
    desk = Desk()
    a, b = desk.sessions("a b")
    desk.do(new(a, Q, parties=whole(Q)))
    desk.hang_up(b)
    assert desk.do(que(b, Q)) == []
    assert b not in dict(desk.shard.session_states.items())


def test_a_recipient_has_so_many_keys() -> None:
    """The limit recipient_keys, at and one above: a command is tried with each of them."""
    desk = Desk(limits=Limits(recipient_keys=2))
    [a] = desk.sessions("a")
    desk.say(new(a, Q, parties=parties(Q, purpose=Purpose.CONTACT)))
    two, three = (tuple(b"key%d" % n for n in range(count)) for count in (2, 3))
    assert desk.say(amend(a, Q, ChangeKeys(three))) == ["a ERR LimitReached"]
    desk.say(amend(a, Q, ChangeKeys(two)))
    assert desk.stored_parties(Q).keys == two

"""Sending to exclusive queues: quota with its marker, messages that grow too old, and the end of
a link."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import facts as f
from headgate.core.commands import Command, Expire, Open
from headgate.core.effects import Deliver, Failed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, Seq, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import NOTIFY, Message
from headgate.core.model.parties import DropLink, Purpose, Secure, SetNotifier, Suspend
from headgate.core.turn.store_requests import Batch, Load
from headgate.errors import QuotaReached
from tests.support.exclusive_queues import (
    Q1,
    Q2,
    Q3,
    SMP,
    Desk,
    Q,
    S,
    ack,
    amend,
    calls,
    delete,
    desk_with,
    get,
    link,
    mid,
    new,
    notifier,
    parties,
    post,
    queues,
    send,
    skey,
    soks,
    sub,
    subs,
)

TTL = 100.0
MARKED = replace(SMP, max_messages=3, marks_quota=True)
AGING = replace(SMP, message_ttl=TTL)

MEMORIES = {
    "roomy": Limits(),
    "tiny": Limits(heads=1, backlogs=1),
    "small": Limits(heads=2, backlogs=2, expiries=2, sweep_queues=2),
}
each_memory = pytest.mark.parametrize("limits", MEMORIES.values(), ids=MEMORIES.keys())


def markers(desk: Desk, queue: QueueId = Q) -> list[bool]:
    """Which of the messages in the store are markers."""
    head = desk.stored_head(queue)
    assert head is not None
    return [stored.message.is_marker for stored in head.first]


def full(limits: Limits | None = None) -> tuple[Desk, SessionId, SessionId]:
    """A queue that has its three messages and the marker."""
    desk = Desk(domain=MARKED, limits=limits)
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q)))
    for message in ("m1", "m2", "m3"):
        assert desk.say(post(x, Q, message)) == [f"x RECEIPT q {message}"]
    assert desk.say(post(x, Q, "m4")) == ["x ERR QuotaReached"]
    return desk, a, x


# Quota.


@each_memory
def test_the_message_beyond_the_quota_leaves_a_marker_and_only_the_first_does(
    limits: Limits,
) -> None:
    """ACC-45, 5.5: N are taken, then QUOTA; the marker is the last, without what was refused."""
    desk, _a, x = full(limits)
    for message in ("m5", "m6"):
        assert desk.say(post(x, Q, message)) == ["x ERR QuotaReached"]
    assert desk.stored(Q) == ["m1", "m2", "m3", "m4"]
    assert markers(desk) == [False, False, False, True]
    head = desk.stored_head(Q)
    assert head is not None
    assert head.first[-1].message.body == b""
    desk.check_backlogs()


@each_memory
@pytest.mark.parametrize("restart", [True, False])
def test_a_full_queue_takes_nothing_until_all_of_it_is_confirmed(
    limits: Limits, restart: bool
) -> None:
    """ACC-45, ACC-66, 5.5: not after a part of it was read, not before the marker was confirmed;
    also over restarts in between."""
    desk, a, x = full(limits)
    desk.do(sub(a, Q))
    for done, following in (("m1", "m2"), ("m2", "m3"), ("m3", "m4")):
        if restart:
            desk = desk.restarted()
            a, x = desk.sessions("a x")
            desk.do(sub(a, Q))
        assert desk.say(ack(a, Q, done)) == [f"a MSG q {following}"]
        assert desk.say(post(x, Q, "no")) == ["x ERR QuotaReached"]
        desk.check_backlogs()
    assert markers(desk) == [True]
    if restart:
        desk = desk.restarted()
        a, x = desk.sessions("a x")
        assert desk.say(post(x, Q, "no")) == ["x ERR QuotaReached"]
        desk.do(sub(a, Q))
    assert desk.say(ack(a, Q, "m4")) == ["a OK"]
    assert desk.say(post(x, Q, "m5")) == ["x RECEIPT q m5", "a * MSG q m5"]
    assert desk.stored(Q) == ["m5"]
    desk.check_backlogs()


def test_the_marker_is_delivered_as_such() -> None:
    """ACC-45: the recipient has to tell it from a message without a body."""
    desk, a, _x = full()
    effects = desk.do(sub(a, Q))
    effects += desk.do(*(ack(a, Q, message) for message in ("m1", "m2", "m3")))
    delivered = [effect.message for effect in effects if isinstance(effect, Deliver)]
    assert [message.is_marker for message in delivered] == [False, False, False, True]


@each_memory
def test_a_getter_that_confirms_everything_opens_the_queue(limits: Limits) -> None:
    """ACC-45, SMP-20: it does not matter who confirms, nor that the subscriber did not."""
    desk, a, x = full(limits)
    g = desk.session("g")
    desk.do(sub(a, Q))
    for message in ("m1", "m2", "m3", "m4"):
        assert desk.say(post(x, Q, "no")) == ["x ERR QuotaReached"]
        assert desk.say(get(g, Q)) == [f"g MSG q {message}"]
        assert desk.say(ack(g, Q, message)) == ["g OK"]
    assert desk.say(post(x, Q, "m5")) == ["x RECEIPT q m5"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m5"]
    desk.check_backlogs()


@each_memory
def test_all_of_it_may_be_in_one_turn(limits: Limits) -> None:
    """ACC-45, S004-43: filled, read and filled again, as if the commands came one by one."""
    desk = Desk(domain=replace(MARKED, max_messages=1), limits=limits)
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q)))
    assert desk.say(
        post(x, Q, "m1"),
        post(x, Q, "m2"),
        sub(a, Q),
        ack(a, Q, "m1"),
        post(x, Q, "m3"),
        ack(a, Q, "m2"),
        post(x, Q, "m4"),
        post(x, Q, "m5"),
    ) == [
        "x RECEIPT q m1",
        "x ERR QuotaReached",
        "a SOK q",
        "a MSG q m2",
        "x ERR QuotaReached",
        "a OK",
        "x RECEIPT q m4",
        "a * MSG q m4",
        "x ERR QuotaReached",
    ]
    assert (desk.stored(Q), markers(desk)) == (["m4", "m5"], [False, True])
    desk.check_backlogs()


def test_a_queue_that_is_full_and_made_anew_is_empty() -> None:
    """That it was full goes with it."""
    desk, a, x = full()
    lines = desk.say(delete(a, Q), new(a, Q, parties=parties(Q)), post(x, Q, "m1"))
    assert lines == ["a OK", "a SOK q", "x RECEIPT q m1"]
    desk.check_backlogs()


def test_a_domain_that_does_not_mark_its_quota_has_room_after_each_confirm() -> None:
    """As before there were markers."""
    desk = Desk(domain=replace(MARKED, marks_quota=False))
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, subscribe=True))
    desk.do(*(send(x, Q, f"m{k}") for k in (1, 2, 3)))
    assert desk.say(send(x, Q, "m4")) == ["x ERR QuotaReached"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(send(x, Q, "m4")) == ["x RECEIPT q m4"]
    assert markers(desk) == [False] * 3


class Quota:
    """What a queue with a quota does, one command after another."""

    def __init__(self, quota: int) -> None:
        self.quota = quota
        self.can_write = True
        self.messages: list[str] = []

    def send(self, message: str) -> bool:
        if self.messages and not self.can_write:
            return False
        self.can_write = len(self.messages) < self.quota
        self.messages.append(message)
        return self.can_write


@given(
    quota=st.integers(0, 3),
    turns=st.lists(st.lists(st.sampled_from("sssagr"), max_size=6), max_size=8),
    limits=st.sampled_from(list(MEMORIES.values())),
)
def test_any_history_of_a_queue_keeps_its_quota(
    quota: int, turns: list[list[str]], limits: Limits
) -> None:
    """ACC-45, ACC-66, 5.5: sends, confirms of a subscriber and of a getter, and restarts, in
    batches."""
    desk = Desk(domain=replace(MARKED, max_messages=quota), limits=limits)
    model = Quota(quota)
    numbers = count(1)
    [creator] = desk.sessions("creator")
    desk.do(new(creator, Q, parties=parties(Q)))
    a, g, x = desk.sessions("a g x")
    desk.do(sub(a, Q))
    for turn in turns:
        if "r" in turn:
            desk = desk.restarted()
            a, g, x = desk.sessions("a g x")
            desk.do(sub(a, Q))
        commands: list[Command] = []
        expected: list[str] = []
        for step in turn:
            if step == "s":
                message = f"m{next(numbers)}"
                commands.append(post(x, Q, message))
                taken = model.send(message)
                expected.append(f"RECEIPT q {message}" if taken else "ERR QuotaReached")
            elif step in "ag" and model.messages:
                head = model.messages.pop(0)
                commands += (
                    [get(g, Q), ack(g, Q, head)] if step == "g" else [sub(a, Q), ack(a, Q, head)]
                )
        lines = desk.say(*commands)
        assert desk.heard_by(x, lines) == expected
        assert desk.stored(Q) == model.messages
        assert sum(markers(desk)) == (0 if model.can_write or not model.messages else 1)
        assert not any(markers(desk)[:-1])
        desk.check_backlogs()


# Being off, and links.


def test_a_suspended_queue_takes_nothing_and_can_be_read() -> None:
    """ACC-26, ACC-27: OFF refuses whoever sends, in the same turn too; SUB, GET and ACK still
    work."""
    desk = Desk()
    a, g, x = desk.sessions("a g x")
    desk.do(new(a, Q, parties=parties(Q)), post(x, Q, "m1"), post(x, Q, "m2"))
    lines = desk.say(amend(a, Q, Suspend()), post(x, Q, "m3"))
    assert lines == ["a AMENDED q", "x ERR Unauthorised"]
    assert desk.say(amend(a, Q, Suspend())) == ["a AMENDED q"]
    desk = desk.restarted()
    a, g, x = desk.sessions("a g x")
    assert desk.say(post(x, Q, "m3")) == ["x ERR Unauthorised"]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m1"]
    assert desk.say(get(g, Q)) == ["g MSG q m1"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.stored(Q) == ["m2"]
    assert desk.say(delete(a, Q)) == ["a OK"]


def test_a_suspended_queue_gets_no_marker() -> None:
    """ACC-26, 5.5: being off comes before being full."""
    desk, a, x = full()
    desk.do(sub(a, Q), *(ack(a, Q, message) for message in ("m1", "m2", "m3", "m4")))
    desk.do(*(post(x, Q, f"n{k}") for k in (1, 2, 3)), amend(a, Q, Suspend()))
    assert desk.say(post(x, Q, "n4")) == ["x ERR Unauthorised"]
    assert markers(desk) == [False] * 3


@pytest.mark.parametrize("restart", [True, False])
def test_the_first_message_to_a_secured_queue_for_messaging_ends_its_link(restart: bool) -> None:
    """4.4: whoever had the link is the sender. Not before the queue is secured, and not by what
    is refused."""
    desk = Desk(domain=replace(MARKED, max_messages=1))
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q, link=link(Q))))
    desk.do(post(x, Q, "m1"))
    assert desk.stored_parties(Q).link == link(Q)
    desk.do(amend(a, Q, Secure(b"key")))
    desk.do(post(x, Q, "refused"))
    assert desk.stored_parties(Q).link == link(Q)
    desk.do(sub(a, Q), ack(a, Q, "m1"), ack(a, Q, "refused"))
    if restart:
        desk = desk.restarted()
        a, x = desk.sessions("a x")
    desk.do(post(x, Q, "m2"))
    assert desk.stored_parties(Q) == replace(parties(Q), sender_key=b"key")
    desk.check_backlogs()
    [written] = desk.trips(sub(a, Q), ack(a, Q, "m2"))[-1:]
    assert not isinstance(written, Load)
    assert not written.amend, "the link ends once"


def test_a_block_that_the_store_refused_is_done_as_a_whole_when_it_comes_again() -> None:
    """S004-36, 4.4: the key is set, the message is there and the link has served, or nothing."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q, link=link(Q), notifier=notifier(Q))))
    block: list[Command] = [skey(x, Q, b"key"), post(x, Q, "m1", notify=True)]
    desk.fail_at = 0
    assert desk.say(*block) == ["x ERR StoreError"] * 2
    assert (desk.stored(Q), desk.stored_parties(Q).link) == ([], link(Q))
    assert desk.shard.exclusive.notifiers.count == 0
    desk.do(*block, Expire())
    assert desk.shard.exclusive.notifiers.count == 1
    assert (desk.stored(Q), desk.stored_parties(Q).link) == (["m1"], None)
    assert desk.stored_parties(Q).sender_key == b"key"


@pytest.mark.parametrize("purpose", [Purpose.CONTACT, None])
def test_other_links_stay_when_messages_come(purpose: Purpose | None) -> None:
    """4.4: a contact's link serves many."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q, purpose, link=link(Q))))
    desk.do(amend(a, Q, Secure(b"key")), post(x, Q, "m1"), post(x, Q, "m2"))
    assert desk.stored_parties(Q).link == link(Q)


def test_a_refused_message_leaves_nothing_for_a_notifier() -> None:
    """SMP-38: neither what is beyond the quota nor its marker, and nothing of a queue that is
    off."""
    desk, a, x = full()
    desk.do(amend(a, Q, SetNotifier(notifier(Q))))
    desk.do(sub(a, Q), *(ack(a, Q, message) for message in ("m1", "m2", "m3", "m4")))
    desk.do(*(post(x, Q, f"n{k}", notify=False) for k in (1, 2, 3)))
    desk.do(post(x, Q, "n4", notify=True), post(x, Q, "n5", notify=True))
    desk.do(amend(a, Q, Suspend()), post(x, Q, "n6", notify=True))
    assert desk.shard.exclusive.notifiers.count == 0
    assert desk.shard.exclusive.notifiers.waiting == {}


# Age, when a message comes.


def aging(*members: QueueId, limits: Limits | None = None) -> tuple[Desk, SessionId, SessionId]:
    desk = Desk(domain=AGING, limits=limits)
    a, x = desk.sessions("a x")
    desk.do(*(new(a, queue, parties=parties(queue)) for queue in members or (Q,)))
    return desk, a, x


def expire(desk: Desk) -> list[tuple[bytes, str]]:
    """Let messages grow too old; what did, by the account of the facts."""
    desk.take_facts(f.Expired)
    assert desk.say(Expire()) == []
    return [(fact.queue, fact.message.decode()) for fact in desk.take_facts(f.Expired)]


def test_a_send_removes_what_is_too_old() -> None:
    """ACC-68, ACC-70: from the head, at its time and not before."""
    desk, a, x = aging()
    desk.do(post(x, Q, "m1"), post(x, Q, "m2", at=1001.0))
    desk.now = 1000.0 + TTL
    desk.do(post(x, Q, "m3", at=desk.now))
    assert desk.stored(Q) == ["m1", "m2", "m3"]
    desk.now = 1000.0 + TTL + 0.5
    desk.do(post(x, Q, "m4", at=desk.now))
    assert desk.stored(Q) == ["m2", "m3", "m4"]
    assert desk.take_facts(f.Expired) == [f.Expired(desk.now, Q, mid("m1"), TTL + 0.5)]
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m2"]
    desk.check_backlogs()


def test_a_send_that_empties_the_queue_pushes_what_it_brings() -> None:
    """ACC-68, SMP-14: the subscriber never had the old one, for want of room; now it is idle."""
    desk, a, x = aging()
    desk.do(sub(a, Q))
    desk.fill(a)
    desk.do(post(x, Q, "old"))
    desk.drain(a)
    desk.now += TTL + 1
    assert desk.say(post(x, Q, "new", at=desk.now)) == ["x RECEIPT q new", "a * MSG q new"]


def test_what_is_too_old_makes_room_within_the_quota() -> None:
    """ACC-68, 5.5: nothing is refused for the sake of messages that nobody will read."""
    desk = Desk(domain=replace(MARKED, message_ttl=TTL))
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q)), *(post(x, Q, f"m{k}") for k in (1, 2, 3)))
    desk.now += TTL + 1
    assert desk.say(post(x, Q, "m4", at=desk.now)) == ["x RECEIPT q m4"]
    assert desk.stored(Q) == ["m4"]


@each_memory
def test_a_marker_never_grows_too_old(limits: Limits) -> None:
    """5.5, 5.6: the queue stays full until the recipient was told."""
    desk = Desk(domain=replace(MARKED, message_ttl=TTL), limits=limits)
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q)), *(post(x, Q, f"m{k}") for k in (1, 2, 3, 4)))
    desk.now += 10 * TTL
    assert desk.say(post(x, Q, "m5", at=desk.now)) == ["x ERR QuotaReached"]
    desk.do(Expire())
    assert (desk.stored(Q), markers(desk)) == (["m4"], [True])
    assert expire(desk) == []
    assert desk.say(post(x, Q, "m5", at=desk.now)) == ["x ERR QuotaReached"]
    desk.check_backlogs()
    assert desk.say(sub(a, Q)) == ["a SOK q", "a * MSG q m4"]
    assert desk.say(ack(a, Q, "m4")) == ["a OK"]
    assert desk.say(post(x, Q, "m6", at=desk.now)) == ["x RECEIPT q m6", "a * MSG q m6"]


def test_a_message_in_flight_may_grow_too_old() -> None:
    """5.6, SMP-13: its confirm is answered with the next, as if another had confirmed it; and what
    is sent meanwhile is not pushed past it."""
    desk, a, x = aging()
    g = desk.session("g")
    desk.do(sub(a, Q), post(x, Q, "m1"), get(g, Q))
    desk.now += TTL + 1
    assert desk.say(post(x, Q, "m2", at=desk.now)) == ["x RECEIPT q m2"]
    assert desk.stored(Q) == ["m2"]
    assert desk.say(ack(g, Q, "m1")) == ["g OK"]
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]
    assert desk.say(ack(a, Q, "m2")) == ["a OK"]
    desk.check_backlogs()


READERS = {
    "subscribe": lambda a: [sub(a, Q)],
    "get": lambda a: [get(a, Q)],
    "confirm": lambda a: [ack(a, Q, "m1")],
    "confirms": lambda a: [ack(a, Q, "m1"), ack(a, Q, "m2"), ack(a, Q, "m3")],
    "confirm what it was not given": lambda a: [ack(a, Q, "m1"), ack(a, Q, "m2"), ack(a, Q, "m4")],
    "drained": lambda a: [ack(a, Q), ack(a, Q)],
}
each_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())


@each_memory
@each_reader
@pytest.mark.parametrize("young", [0, 1, 2, 5])
@pytest.mark.parametrize("first", ["send", "expire"])
def test_what_a_turn_removes_does_not_trouble_its_later_commands(
    limits: Limits, reader: object, young: int, first: str
) -> None:
    """5.6, S004-42, S004-43: whoever reads in the turn in which messages grow too old is given one
    that is there; the core never needs what it did not load."""
    assert callable(reader)
    desk, a, x = aging(limits=limits)
    desk.do(*(post(x, Q, f"m{k}") for k in range(1, 6)))
    desk.now += TTL / 2
    desk.do(*(post(x, Q, f"y{k}", at=desk.now) for k in range(1, young + 1)))
    if reader not in (READERS["subscribe"], READERS["get"]):
        desk.do(sub(a, Q))
    desk.now += TTL / 2 + 1
    command = post(x, Q, "new", at=desk.now) if first == "send" else Expire()
    desk.do(command, *reader(a))
    desk.check_backlogs()
    desk.do(Expire())
    assert desk.stored(Q)[:young] == [f"y{k}" for k in range(1, young + 1)]
    desk.check_backlogs()
    desk.do(post(x, Q, "last", at=desk.now))
    got = [line.split()[-1] for line in desk.say(get(x, Q))]
    assert got == desk.stored(Q)[:1]


@each_memory
@pytest.mark.parametrize("before", ["send", "expire", "nothing"])
@pytest.mark.parametrize("known", ["by nobody", "by its record", "by its head"])
def test_a_sweep_in_the_turn_in_which_messages_grow_too_old(
    limits: Limits, before: str, known: str
) -> None:
    """5.6, S001-47: it brings nothing back."""
    desk = Desk(domain=AGING, limits=limits)
    owner, x = desk.sessions("owner x")
    desk.do(new(owner, Q, service=S, parties=parties(Q)))
    desk.do(*(post(x, Q, f"m{k}") for k in (1, 2, 3)))
    desk.now += TTL / 2
    desk.do(*(post(x, Q, f"y{k}", at=desk.now) for k in (1, 2)))
    desk.now += TTL / 2 + 1
    desk = desk.restarted()
    a, x = desk.sessions("a x")
    if known == "by its record":
        desk.do(amend(x, Q, DropLink()))
    elif known == "by its head":
        desk.do(get(x, Q))
    lines, again = desk.say_one(subs(a, S))
    assert lines == ["a " + soks(S, Q)]
    if before == "send":
        again = [post(x, Q, "new", at=desk.now), *again]
    elif before == "expire":
        again = [Expire(), *again]
    desk.do(*again)
    desk.check_backlogs()
    desk.do(Expire())
    desk.check_backlogs()
    assert desk.stored(Q)[:2] == ["y1", "y2"]
    # Whatever it was given, in the end it has been through all that is there.
    held = desk.do(sub(a, Q, S))
    seen = [effect.message.id.decode() for effect in held if isinstance(effect, Deliver)]
    for message in desk.stored(Q)[1:]:
        assert desk.say(ack(a, Q, seen[-1])) == [f"a MSG q {message}"]
        seen.append(message)
    assert seen[0] == "y1"


# Age, by the clock.


@each_memory
def test_what_is_too_old_is_removed_from_every_queue(limits: Limits) -> None:
    """ACC-69, ACC-70, 5.6: page by page until it is through, known or not, and nothing younger."""
    many = queues(7)
    desk, a, x = aging(*many, limits=limits)
    for age in (3.0, 2.0, 1.0):
        desk.do(*(post(x, queue, f"m{age:.0f}", at=1000.0 - age) for queue in many))
    desk.now = 1000.0 + TTL - 1.5
    assert sorted(expire(desk)) == [(queue, message) for queue in many for message in ("m2", "m3")]
    for queue in many:
        assert desk.stored(queue) == ["m1"]
    desk.check_backlogs()
    desk.do(*(get(a, queue) for queue in many[:3]))
    desk.now += 1.0
    assert sorted(expire(desk)) == [(queue, "m1") for queue in many]
    desk.check_backlogs()
    assert desk.say(*(ack(a, queue, "m1") for queue in many[:3])) == ["a OK"] * 3


def test_an_expiry_in_pages_of_one_removes_no_more_and_no_less() -> None:
    """ACC-69, ACC-70: it goes on behind the last that it removed."""
    many = queues(3)
    desk, _a, x = aging(*many, limits=Limits(expiries=1))
    desk.do(*(post(x, queue, "old", at=1000.0) for queue in many))
    desk.do(*(post(x, queue, "young", at=1000.0 + TTL) for queue in many))
    desk.now = 1001.0 + TTL
    assert sorted(expire(desk)) == [(queue, "old") for queue in many]
    assert [desk.stored(queue) for queue in many] == [["young"]] * 3


def test_an_expiry_takes_as_many_turns_as_it_has_pages() -> None:
    """5.6: others get their turns in between, and no turn removes more than its bound."""
    desk, _a, x = aging(limits=Limits(expiries=2))
    desk.do(*(post(x, Q, f"m{k}") for k in range(5)))
    desk.now += 2 * TTL
    again: list[Command] = [Expire()]
    left = []
    while again:
        again = desk.turn(again).again
        left.append(len(desk.stored(Q)))
        desk.check_backlogs()
    assert left == [3, 1, 0]


def test_two_expiries_in_one_turn_go_on_as_one() -> None:
    """A timer may come round while the last one is still under way."""
    desk, _a, x = aging(Q, Q1, limits=Limits(expiries=2))
    desk.do(*(post(x, queue, f"m{k}") for k in range(4) for queue in (Q, Q1)))
    desk.now += 2 * TTL
    again = desk.turn([Expire(), Expire(Seq(6)), Expire()]).again
    assert len(again) == 1
    desk.do(*again)
    assert (desk.stored(Q), desk.stored(Q1)) == ([], [])
    desk.check_backlogs()


@each_memory
@pytest.mark.parametrize("known", ["by nobody", "by its record", "by its head", "wholly"])
def test_memory_and_store_agree_after_each_page(limits: Limits, known: str) -> None:
    """5.6: whatever the core happens to remember of the queue."""
    desk, a, x = aging(limits=replace(limits, expiries=2))
    desk.do(*(post(x, Q, f"m{k}") for k in range(1, 6)))
    desk.now += TTL / 2
    desk.do(post(x, Q, "young", at=desk.now))
    desk.now += TTL / 2 + 1
    desk = desk.restarted()
    a, x = desk.sessions("a x")
    if known == "by its record":
        desk.do(amend(a, Q, DropLink()))
    elif known == "by its head":
        desk.do(get(a, Q))
    elif known == "wholly":
        desk.do(*(ack(a, Q) for _ in range(6)))
    again: list[Command] = [Expire()]
    while again:
        again = desk.turn(again).again
        desk.check_backlogs()
    assert desk.stored(Q) == ["young"]
    assert desk.say(get(a, Q)) == ["a MSG q young"]


@each_memory
def test_a_younger_message_before_them_keeps_older_ones(limits: Limits) -> None:
    """5.6: only the head is removed, if a clock was set back; and the count stays right."""
    desk, a, x = aging(limits=limits)
    desk.do(post(x, Q, "young", at=1500.0), post(x, Q, "old"), post(x, Q, "older", at=900.0))
    desk.do(get(a, Q))
    desk.now = 1200.0
    assert expire(desk) == []
    assert desk.stored(Q) == ["young", "old", "older"]
    desk.check_backlogs()
    desk.do(ack(a, Q, "young"))
    assert [message for _, message in expire(desk)] == ["old", "older"]
    desk.check_backlogs()


def test_what_the_turn_has_removed_otherwise_is_not_removed_again() -> None:
    """Confirmed, deleted with its queue, or too old for a send: told once, and no fact more."""
    desk, a, x = aging(Q, Q1, Q2)
    desk.do(*(post(x, queue, f"m{k}") for queue in (Q, Q1, Q2) for k in (1, 2)))
    desk.do(sub(a, Q))
    desk.now += TTL + 1
    desk.do(ack(a, Q, "m1"), delete(a, Q1), post(x, Q2, "new", at=desk.now), Expire())
    assert sorted((fact.queue, fact.message) for fact in desk.take_facts(f.Expired)) == [
        (Q, mid("m2")),
        (Q2, mid("m1")),
        (Q2, mid("m2")),
    ]
    assert (desk.stored(Q), desk.stored(Q2)) == ([], ["new"])
    assert desk.stored_head(Q1) is None
    desk.check_backlogs()


def test_messages_of_shared_queues_are_left_to_these() -> None:
    """They have a life of their own, and more readers than one."""
    shared = Domain("shared", Mode.PRIORITY, message_ttl=TTL)
    desk = Desk(domain=AGING, others=(shared,), limits=Limits(expiries=2))
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q)), Open(x, 1, Q1, "shared", write=True))
    for k in range(3):
        desk.do(post(x, Q, f"m{k}"), send(x, Q1, f"s{k}"))
    desk = desk.restarted()
    desk.now = 1000.0 + 2 * TTL
    assert [queue for queue, _ in expire(desk)] == [Q, Q, Q]
    assert desk.stored(Q1) == ["s0", "s1", "s2"]


def test_each_domain_has_its_own_age() -> None:
    """ACC-69, ACC-70, 5.6: the shortest decides what is looked at, not what is removed, and nothing
    is removed before its time is over."""
    desk = Desk(domain=AGING, others=(Domain("long", Mode.EXCLUSIVE, message_ttl=10 * TTL),))
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q)))
    desk.do(replace(new(a, Q1, parties=parties(Q1)), domain="long"))
    desk.do(post(x, Q, "m1"), post(x, Q1, "m1"))
    desk.now += 2 * TTL
    assert expire(desk) == [(Q, "m1")]
    desk.now += 8 * TTL
    assert expire(desk) == []
    desk.now += 1
    assert expire(desk) == [(Q1, "m1")]


def test_a_domain_without_an_age_keeps_everything_and_asks_nothing() -> None:
    """The store is not even read."""
    desk = Desk(domain=replace(SMP, message_ttl=None))
    a, x = desk.sessions("a x")
    desk.do(new(a, Q, parties=parties(Q)), post(x, Q, "m1"))
    desk.now += 1e9
    assert desk.trips(Expire()) == []
    desk.do(post(x, Q, "m2", at=desk.now))
    assert desk.stored(Q) == ["m1", "m2"]


@each_memory
def test_an_expiry_that_the_store_refuses_is_done_later(limits: Limits) -> None:
    """Nobody waits for it, so it is put back; memory is as it was."""
    for call in (0, 1):
        desk, a, x = aging(limits=limits)
        desk.do(*(post(x, Q, f"m{k}") for k in (1, 2, 3)), sub(a, Q))
        desk.now += TTL + 1
        desk.fail_at = call
        outcome = desk.turn([Expire()])
        assert desk.fail_at is None
        assert outcome.again == [Expire()]
        assert desk.stored(Q) == ["m1", "m2", "m3"]
        desk.check_backlogs()
        desk.do(*outcome.again)
        assert desk.stored(Q) == []
        desk.check_backlogs()


def test_the_cost_of_a_send_does_not_grow_with_what_is_there() -> None:
    """S000-39: looking for what is too old looks at the head, not at all of it."""
    desk, _a, x = aging(Q, Q1)
    desk.do(*(post(x, Q1, f"m{k}") for k in range(100)))
    desk.do(post(x, Q, "m1"))
    short = calls(lambda: desk.turn([post(x, Q, "new", at=desk.now)]))
    long = calls(lambda: desk.turn([post(x, Q1, "new", at=desk.now)]))
    assert abs(long - short) < 20


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.once
def test_any_history_removes_messages_from_the_head_only(seed: int) -> None:
    """ACC-68..ACC-70, 5.5, 5.6, SMP-13: batches of sends, reads, confirms, expiries and restarts.
    What is in the store is always the end of what was accepted; what left without a confirm was too
    old."""
    random = Random(seed)
    domain = replace(AGING, max_messages=4, marks_quota=True)
    desk = Desk(domain=domain, limits=random.choice(list(MEMORIES.values())))
    a, g, x = desk.sessions("a g x")
    members = (Q, Q1, Q2, Q3)
    desk.do(*(new(a, queue, parties=parties(queue)) for queue in members))
    accepted: dict[QueueId, list[MessageId]] = {queue: [] for queue in members}
    times: dict[MessageId, float] = {}
    numbers = count(1)
    for _ in range(40):
        if random.random() < 0.1:
            desk = desk.restarted()
            a, g, x = desk.sessions("a g x")
        desk.now += random.choice([0.0, 1.0, TTL / 4, TTL + 1])
        commands: list[Command] = []
        for _ in range(random.randrange(1, 7)):
            queue = random.choice(members)
            held = {q: d.decode() for q, d in _held(desk, a).items()}
            match random.choice("ssssubgea"):
                case "s":
                    message = f"m{next(numbers)}"
                    times[mid(message)] = desk.now
                    commands.append(post(x, queue, message, at=desk.now))
                case "u":
                    commands.append(sub(a, queue))
                case "b" | "a":
                    stored = desk.stored(queue)
                    commands.append(ack(a, queue, held.get(queue, (*stored, "none")[0])))
                case "g":
                    commands += [get(g, queue), *(ack(g, queue, m) for m in desk.stored(queue)[:1])]
                case "e":
                    commands.append(Expire())
        desk.facts.clear()
        desk.say(*commands)
        confirmed = {fact.message for fact in desk.take_facts(f.Confirmed)}
        expired = {fact.message for fact in desk.take_facts(f.Expired)}
        assert not confirmed & expired
        for fact in desk.take_facts(f.Accepted):
            accepted[fact.queue].append(fact.message)
        for queue in members:
            left = [mid(message) for message in desk.stored(queue)]
            gone = accepted[queue][: len(accepted[queue]) - len(left)]
            assert accepted[queue] == gone + left
            assert all(message in confirmed | expired for message in gone)
            accepted[queue] = left
        assert all(desk.now - times[message] > TTL for message in expired)
        desk.check_backlogs()
    desk.do(Expire())
    for queue in members:
        head = desk.stored_head(queue)
        assert head is not None
        assert all(s.message.is_marker or desk.now - s.message.arrived <= TTL for s in head.first)
    desk.check_backlogs()


def _held(desk: Desk, session: SessionId) -> dict[QueueId, bytes]:
    """What a session has in flight."""
    state = desk.shard.session_states.find(session)
    gates = state.gates if state is not None else {}
    return {queue: gate.message for queue, gate in gates.items()}


def test_a_message_of_a_sender_that_is_no_marker_is_never_taken_for_one() -> None:
    """The property is the router's own; another value of it means nothing."""
    assert not Message(mid("m"), b"", 0.0, {"quota": 1}).is_marker
    assert not Message(mid("m"), b"", 0.0, {NOTIFY: True}).is_marker


def test_a_send_to_an_empty_queue_is_pushed_to_the_idle_subscriber_at_once() -> None:
    """S000-36, S000-41, SMP-14, SMP-16: in the turn of the SEND, and the gate is shut by then."""
    desk, (a, _, _, x) = desk_with()
    desk.say(sub(a, Q))
    lines, again = desk.say_one(send(x, Q, "m1"), send(x, Q, "m2"))
    assert desk.heard_by(a, lines) == ["* MSG q m1"]
    assert again == []
    assert desk.say(ack(a, Q, "m1")) == ["a MSG q m2"]


def test_sender_and_subscriber_may_be_one_session() -> None:
    """SMP-15, ACC-47: it gets its receipt and the message, in either order."""
    desk, (a, *_) = desk_with()
    desk.say(sub(a, Q))
    assert sorted(desk.say(send(a, Q, "m1"))) == ["a * MSG q m1", "a RECEIPT q m1"]


def test_a_send_to_a_queue_with_a_backlog_is_not_pushed() -> None:
    """S000-37, SMP-14: while a message is in flight; SMP-14 wins over offering the head on every
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

"""Notifiers: who is told that there is a message, and what waits to be told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from headgate.core import facts as f
from headgate.core.commands import Command, Disconnect, Expire, Notify
from headgate.core.effects import Effect, Failed, Noticed
from headgate.core.exclusive.notifiers import NOTICE_BYTES, NOTICE_SECONDS
from headgate.core.exclusive.queue_cache import QueueCache
from headgate.core.model.ids import QueueId, ServiceId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Notice
from headgate.core.model.parties import DropNotifier
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.shared.body_cache import BodyCache
from headgate.core.shared.statistics import Statistics
from headgate.core.turn.sequence import NumberSequence
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
    calls,
    delete,
    ends,
    mid,
    new,
    nkey,
    notifier,
    nsub,
    nsubs,
    parties,
    post,
    queues,
    snapshot,
    soks,
    sub,
)

CACHES = (QueueCache, BodyCache, Statistics, NumberSequence)


def name(queue: QueueId, number: int = 1) -> QueueId:
    """What a notifier is counted as."""
    return QueueId(notifier(queue, number).id)


def watched_desk(*members: QueueId, limits: Limits | None = None) -> Desk:
    """Queues with a notifier each, and a session x that owns them and sends."""
    desk = Desk(limits=limits)
    x = desk.session("x")
    desk.do(*(new(x, queue, parties=parties(queue, notifier=notifier(queue))) for queue in members))
    return desk


def owner(desk: Desk) -> SessionId:
    return next(session for session, named in desk.names.items() if named == "x")


def waiting(desk: Desk) -> dict[bytes, list[str]]:
    return {
        id: [notice.message.decode() for notice in kept.notices]
        for id, kept in desk.shard.exclusive.notifiers.waiting.items()
    }


def check_tallies(desk: Desk, *members: QueueId) -> None:
    for service in (S, T):
        assert desk.tally(service) == desk.recount_notifiers(service, members)


# Being told.


def test_a_notifier_is_told_of_messages_that_ask_for_it() -> None:
    """ACC-76, SMP-38, SMP-39: in the order in which they came, and at the next flush, not before.
    None of those without the flag."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    assert desk.say(nsub(n, Q)) == ["n NSOK q.ntf1"]
    lines = desk.say(post(x, Q, "m1", notify=True), post(x, Q, "m2"), post(x, Q, "m3", notify=True))
    assert desk.heard_by(n, lines) == []
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m1", "n * NMSG q.ntf1 m3"]
    assert desk.say(Notify()) == []
    assert desk.take_facts(f.NoticesSent) == [f.NoticesSent(desk.now, 2)]


def test_a_notifier_is_told_as_far_as_it_has_room() -> None:
    """ACC-76, SMP-38: what it is told in one turn counts; the rest waits until it has read."""
    both = queues(2)
    desk = watched_desk(*both, limits=Limits(mailbox_bytes_soft=3 * NOTICE_BYTES - 1))
    x, n = owner(desk), desk.session("n")
    desk.do(*(nsub(n, queue) for queue in both))
    desk.do(*(post(x, queue, f"m{k}", notify=True) for k in range(3) for queue in both))
    lines, again = desk.say_one(Notify())
    [first] = {line.split()[-2] for line in lines}
    [(second, notices)] = waiting(desk).items()
    assert {first.encode(), second} == set(map(name, both))
    assert [line.split()[-1] for line in lines] == notices == ["m0", "m1", "m2"]
    assert desk.shard.exclusive.notifiers.has_news
    assert [line.split()[-1] for line in desk.say(*again, Notify())] == notices
    assert not desk.shard.exclusive.notifiers.has_news


def test_a_notice_that_nobody_takes_is_not_looked_for_again() -> None:
    """SMP-38: it waits, and costs nothing until somebody comes."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    desk.do(post(x, Q, "m1", notify=True))
    assert desk.say(Notify()) == []
    assert not desk.shard.exclusive.notifiers.has_news
    desk.do(nsub(n, Q))
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m1"]


def test_a_notifier_that_moves_to_another_service_is_counted_there() -> None:
    """ACC-81, ACC-80: and no longer where it was, for its session or in the store."""
    desk = watched_desk(Q, Q1)
    s, t = desk.sessions("s t")
    desk.do(nsub(s, Q, S), nsub(s, Q1, S))
    lines = desk.say(nsub(t, Q, T))
    assert desk.heard_by(s, lines) == ["* NEND q.ntf1"]
    assert desk.heard_by(t, lines) == ["NSOK q.ntf1 as T"]
    assert (desk.share(s), desk.share(t)) == (Tally.of([name(Q1)]), Tally.of([name(Q)]))
    assert desk.say(nsubs(s, S)) == ["s " + soks(S, name(Q1))]
    assert desk.say(nsubs(t, T)) == ["t " + soks(T, name(Q))]


def test_one_subscribe_of_a_service_tells_what_was_kept_for_it() -> None:
    """SMP-29, SMP-33: the newest of each notifier, and what there was no room for is a fact."""
    desk = watched_desk(Q, Q1, limits=Limits(notices_per_notifier=2))
    x, s, t = owner(desk), desk.session("s"), desk.session("t")
    desk.do(nsub(s, Q, S), nsub(s, Q1, S))
    desk.leave(s)
    desk.do(*(post(x, Q, f"m{k}", notify=True) for k in (1, 2, 3)))
    assert desk.take_facts(f.NoticesDropped) == [f.NoticesDropped(desk.now, 1, "too many")]
    assert desk.shard.exclusive.notifiers.count == 2
    desk.do(nsub(t, Q1, S))
    assert desk.say(Notify()) == ["t * NMSG q.ntf1 m2", "t * NMSG q.ntf1 m3"]


def test_a_notice_has_what_the_wire_needs_to_seal_it() -> None:
    """SMP-38: the notifier's own secret, and the id and time of the message, as of its arrival."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    desk.do(nsub(n, Q), post(x, Q, "m1", notify=True, at=1234.0))
    assert desk.do(Notify()) == [
        Noticed(n, Notice(b"q.ntf1", b"ntf secret", mid("m1"), 1234.0)),
    ]


def test_a_notifier_is_told_although_the_message_was_delivered_at_once() -> None:
    """SMP-38: and though it was confirmed since."""
    desk = watched_desk(Q)
    x, a, n = owner(desk), desk.session("a"), desk.session("n")
    desk.do(sub(a, Q), nsub(n, Q))
    assert "a * MSG q m1" in desk.say(post(x, Q, "m1", notify=True))
    desk.do(ack(a, Q, "m1"))
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m1"]


def test_watching_delivers_no_message() -> None:
    """SMP-40, S001-94: neither what waits in the queue nor what comes."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    desk.do(post(x, Q, "m1"))
    assert desk.say(nsub(n, Q)) == ["n NSOK q.ntf1"]
    assert desk.say(post(x, Q, "m2")) == ["x RECEIPT q m2"]
    assert desk.say(nsubs(n, S)) == ["n " + soks(S)]
    assert desk.subscriber(Q) == []


def test_what_nobody_takes_waits() -> None:
    """SMP-38, SMP-39: with nobody there at all, with a notifier that comes, and one that comes
    back."""
    desk = watched_desk(Q)
    x = owner(desk)
    desk.do(post(x, Q, "m1", notify=True))
    assert desk.say(Notify()) == []
    n = desk.session("n")
    assert desk.say(nsub(n, Q)) == ["n NSOK q.ntf1"]
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m1"]
    desk.leave(n)
    desk.do(post(x, Q, "m2", notify=True), Notify())
    n = desk.session("n")
    desk.do(nsub(n, Q))
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m2"]
    assert waiting(desk) == {}


def test_a_session_that_hung_up_takes_no_notice_with_it() -> None:
    """S000-74, SMP-39: before its clean-up has run, and after."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    desk.do(nsub(n, Q), post(x, Q, "m1", notify=True))
    desk.hang_up(n)
    assert desk.say(Notify()) == []
    desk.clean_up(n)
    assert desk.say(Notify()) == []
    m = desk.session("m")
    desk.do(nsub(m, Q))
    assert desk.say(Notify()) == ["m * NMSG q.ntf1 m1"]


def test_notices_go_only_to_those_with_room() -> None:
    """SMP-39: the rest waits for a later flush, and delays nobody."""
    desk = watched_desk(Q, Q1)
    x, n, m = owner(desk), desk.session("n"), desk.session("m")
    desk.do(nsub(n, Q), nsub(m, Q1))
    desk.fill(n)
    desk.do(post(x, Q, "m1", notify=True), post(x, Q1, "m2", notify=True))
    assert desk.say(Notify()) == ["m * NMSG q1.ntf1 m2"]
    assert desk.say(Notify()) == []
    assert waiting(desk) == {b"q.ntf1": ["m1"]}
    desk.drain(n)
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m1"]


def test_one_flush_does_not_overfill_a_session() -> None:
    """SMP-39: what it is given in this turn counts; the rest is told by the next."""
    many = queues(10)
    desk = watched_desk(*many, limits=Limits(mailbox_bytes_soft=1000))
    x, n = owner(desk), desk.session("n")
    desk.do(*(nsub(n, queue) for queue in many))
    desk.do(*(post(x, queue, "m1", notify=True) for queue in many))
    shown = []
    while lines := desk.turn([Notify()]).effects:
        shown.append(len(lines))
    assert sum(shown) == 10
    assert 1 < shown[0] < 10


# One at a time.

REMOVALS: dict[str, Callable[[SessionId], Command]] = {
    "drop": lambda session: amend(session, Q, DropNotifier()),
    "replace": lambda session: nkey(session, Q, 2),
    "delete": lambda session: delete(session, Q),
}


def test_a_second_watcher_displaces_the_first() -> None:
    """ACC-77, SMP-40: one END, and notices go to the second only."""
    desk = watched_desk(Q)
    x, n, m = owner(desk), desk.session("n"), desk.session("m")
    desk.do(nsub(n, Q))
    assert desk.say(nsub(m, Q)) == ["n * NEND q.ntf1", "m NSOK q.ntf1"]
    assert desk.take_facts(f.WatcherDisplaced) == [f.WatcherDisplaced(desk.now, name(Q), n, m)]
    desk.do(post(x, Q, "m1", notify=True))
    assert desk.say(Notify()) == ["m * NMSG q.ntf1 m1"]
    assert desk.watcher(Q) == [m]


def test_watching_again_displaces_nobody() -> None:
    """ACC-80, S000-14: nor is it told twice."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    desk.do(nsub(n, Q), post(x, Q, "m1", notify=True))
    assert desk.say(nsub(n, Q), nsub(n, Q)) == ["n NSOK q.ntf1"] * 2
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m1"]
    assert len(desk.take_facts(f.Watched)) == 1


def test_a_clean_up_leaves_the_newer_watcher_alone() -> None:
    """SMP-7, S000-4, S000-75, S000-77."""
    desk = watched_desk(Q, Q1)
    n, m = desk.sessions("n m")
    desk.do(nsub(n, Q), nsub(n, Q1), nsub(m, Q))
    desk.leave(n)
    assert (desk.watcher(Q), desk.watcher(Q1)) == ([m], [])


def test_a_watch_of_a_session_that_hung_up_still_ends_the_other() -> None:
    """SMP-5: and nobody is registered."""
    desk = watched_desk(Q)
    x, n, m = owner(desk), desk.session("n"), desk.session("m")
    desk.do(nsub(n, Q))
    desk.hang_up(m)
    assert desk.say(nsub(m, Q)) == ["n * NEND q.ntf1"]
    assert desk.watcher(Q) == []
    desk.do(post(x, Q, "m1", notify=True))
    assert desk.say(Notify()) == []
    assert m not in dict(desk.shard.session_states.items())


@pytest.mark.parametrize("how", REMOVALS)
def test_the_watcher_is_told_that_its_notifier_is_gone(how: str) -> None:
    """ACC-78, SMP-9, SMP-40: on NDEL, on NKEY and with the queue; what waited for it is not
    told."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    desk.do(nsub(n, Q), post(x, Q, "m1", notify=True))
    command = REMOVALS[how](x)
    assert desk.heard_by(n, desk.say(command)) == ["* NDELD q.ntf1"]
    assert desk.watcher(Q) == []
    assert waiting(desk) == {}
    assert desk.shard.exclusive.notifiers.count == 0
    assert desk.say(Notify()) == []
    assert desk.say(nsub(n, Q)) == ["n ERR NoSuchQueue"]
    assert snapshot(dict(desk.shard.session_states.items())[n].watched) == ("set", [])


@pytest.mark.parametrize("how", REMOVALS)
def test_whoever_removes_its_own_notifier_is_only_answered(how: str) -> None:
    """SMP-9."""
    desk = watched_desk(Q)
    x = owner(desk)
    desk.do(nsub(x, Q))
    command = REMOVALS[how](x)
    assert len(desk.say(command)) == 1
    assert desk.watcher(Q) == []


def test_a_new_notifier_begins_with_nothing() -> None:
    """ACC-79: what waited for the one before it is not for it, and the old id takes nothing."""
    desk = watched_desk(Q)
    x, n = owner(desk), desk.session("n")
    desk.do(post(x, Q, "m1", notify=True), nkey(x, Q, 2), post(x, Q, "m2", notify=True))
    desk.do(nsub(n, Q, number=2))
    assert desk.say(Notify()) == ["n * NMSG q.ntf2 m2"]


def test_messages_and_notices_have_subscribers_of_their_own() -> None:
    """6.1: NSUB displaces no SUB, nor the reverse, whatever ids they have."""
    desk = watched_desk(Q)
    a, n = desk.sessions("a n")
    desk.do(sub(a, Q))
    assert desk.say(nsub(n, Q)) == ["n NSOK q.ntf1"]
    assert desk.say(sub(a, Q)) == ["a SOK q"]
    assert (desk.subscriber(Q), desk.watcher(Q)) == ([a], [n])
    assert desk.subscriber(name(Q)) == []


# Services: the four cases.


def test_a_service_watches_its_own_notifier_again() -> None:
    """SMP-24, SMP-40, ACC-80, S001-28, S001-29: case 1, nothing is stored and nothing counted
    twice."""
    desk = watched_desk(Q)
    s = desk.session("s")
    assert desk.say(nsub(s, Q, S)) == ["s NSOK q.ntf1 as S"]
    assert desk.trips(nsub(s, Q, S), nsub(s, Q, S)) == []
    check_tallies(desk, Q)
    assert desk.tally(S) == desk.share(s) == Tally.of([name(Q)])
    desk = desk.restarted()
    s = desk.session("s")
    assert desk.share(s) == NOTHING
    assert not any(isinstance(trip, Batch) for trip in desk.trips(nsub(s, Q, S)))
    assert desk.share(s) == Tally.of([name(Q)])


@pytest.mark.parametrize("before", ["nobody", "a plain session", "itself"])
def test_a_service_takes_a_plain_notifier(before: str) -> None:
    """SMP-25, SMP-40, S001-30: case 2, stored with the notifier and counted; a plain watcher is
    told."""
    desk = watched_desk(Q)
    n, s = desk.sessions("n s")
    if before == "a plain session":
        desk.do(nsub(n, Q))
    elif before == "itself":
        desk.do(nsub(s, Q))
    lines = desk.say(nsub(s, Q, S))
    shown = ["n * NEND q.ntf1"] if before == "a plain session" else []
    assert lines == [*shown, "s NSOK q.ntf1 as S"]
    stored = desk.stored_parties(Q).notifier
    assert stored == replace(notifier(Q), service=S)
    assert desk.watcher(Q) == []
    assert desk.tally(S) == desk.share(s) == Tally.of([name(Q)])
    check_tallies(desk, Q)
    desk.check_backlogs()


def test_a_service_takes_a_notifier_of_another() -> None:
    """SMP-25, S001-31: case 2, out of the tally of the one that had it; its session is told
    once."""
    desk = watched_desk(Q, Q1)
    x, s, t = owner(desk), desk.session("s"), desk.session("t")
    desk.do(nsub(s, Q, S), nsub(s, Q1, S))
    assert desk.say(nsub(t, Q, T)) == ["s * NEND q.ntf1", "t NSOK q.ntf1 as T"]
    assert desk.share(s) == desk.tally(S) == Tally.of([name(Q1)])
    assert desk.share(t) == desk.tally(T) == Tally.of([name(Q)])
    check_tallies(desk, Q, Q1)
    desk.do(post(x, Q, "m1", notify=True), post(x, Q1, "m2", notify=True))
    assert sorted(desk.say(Notify())) == ["s * NMSG q1.ntf1 m2", "t * NMSG q.ntf1 m1"]


@pytest.mark.parametrize("there", [True, False])
def test_a_plain_session_takes_a_notifier_back(there: bool) -> None:
    """SMP-26, S001-32: case 3, the association is removed; the service's session, if it is there,
    is told and counts less."""
    desk = watched_desk(Q, Q1)
    s, n = desk.sessions("s n")
    desk.do(nsub(s, Q, S), nsub(s, Q1, S))
    if not there:
        desk.leave(s)
    shown = ["s * NEND q.ntf1"] if there else []
    assert desk.say(nsub(n, Q)) == [*shown, "n NSOK q.ntf1"]
    assert desk.stored_parties(Q).notifier == notifier(Q)
    assert desk.tally(S) == Tally.of([name(Q1)])
    if there:
        assert desk.share(s) == Tally.of([name(Q1)])
    check_tallies(desk, Q, Q1)


def test_plain_watching_touches_no_service() -> None:
    """SMP-27, S001-33: case 4."""
    desk = watched_desk(Q)
    n, m = desk.sessions("n m")
    assert not any(isinstance(trip, Batch) for trip in desk.trips(nsub(n, Q), nsub(m, Q)))
    assert desk.tally(S) == NOTHING


@pytest.mark.parametrize("service", [None, S, T])
def test_a_notifier_that_is_watched_by_a_session_that_hung_up(service: ServiceId | None) -> None:
    """SMP-5: it is nobody's then, unless it was its service's anyway; the tally is right."""
    desk = watched_desk(Q)
    s, gone = desk.sessions("s gone")
    desk.do(nsub(s, Q, S))
    desk.hang_up(gone)
    lines = desk.say(nsub(gone, Q, service))
    stored = desk.stored_parties(Q).notifier
    assert stored is not None
    if service == S:
        assert (lines, stored.service) == ([], S)
        assert desk.share(s) == Tally.of([name(Q)])
    else:
        assert (lines, stored.service) == (["s * NEND q.ntf1"], None)
        assert desk.share(s) == NOTHING
    check_tallies(desk, Q)


@pytest.mark.parametrize("how", REMOVALS)
@pytest.mark.parametrize("swept", [True, False])
def test_a_notifier_that_is_gone_is_not_counted(how: str, swept: bool) -> None:
    """SMP-34, SMP-9, S001-40: its service's session is told, and the tally is that of the rest."""
    desk = watched_desk(Q, Q1)
    x, s = owner(desk), desk.session("s")
    desk.do(nsub(s, Q, S), nsub(s, Q1, S))
    if swept:
        desk.do(nsubs(s, S))
    command = REMOVALS[how](x)
    assert desk.heard_by(s, desk.say(command)) == ["* NDELD q.ntf1"]
    assert desk.tally(S) == desk.share(s) == Tally.of([name(Q1)])
    check_tallies(desk, Q, Q1)


@pytest.mark.once
def test_a_service_is_subscribed_as_a_whole() -> None:
    """ACC-81, SMP-33, S000-99, S001-93, S001-94: SOKS with count and hash, ENDS to the other, no
    ALLS; from then on the notices of all its queues."""
    desk = watched_desk(Q, Q1)
    x, s, t = owner(desk), desk.session("s"), desk.session("t")
    desk.do(nsub(s, Q, S), nsub(s, Q1, S))
    both = (name(Q), name(Q1))
    assert desk.say(nsubs(t, S)) == ["t " + soks(S, *both), "s " + ends(S, *both)]
    desk.do(post(x, Q, "m1", notify=True), post(x, Q1, "m2", notify=True))
    assert desk.say(Notify()) == ["t * NMSG q.ntf1 m1", "t * NMSG q1.ntf1 m2"]
    assert desk.say(nsubs(t, S)) == ["t " + soks(S, *both)]
    assert desk.share(t) == Tally.of(both)


def test_one_watch_as_a_service_displaces_its_other_session() -> None:
    """ACC-80, SMP-28: ENDS with what the first one had."""
    desk = watched_desk(Q)
    s, t = desk.sessions("s t")
    desk.do(nsub(s, Q, S))
    assert desk.say(nsub(t, Q, S)) == ["s " + ends(S, name(Q)), "t NSOK q.ntf1 as S"]
    assert (desk.share(s), desk.share(t)) == (NOTHING, Tally.of([name(Q)]))


@pytest.mark.parametrize("by", ["all", "one"])
def test_what_waited_for_a_service_is_told_to_whoever_subscribes_it(by: str) -> None:
    """SMP-29, SMP-39, ACC-81, S001-93, S001-94: NSUBS, or watching one of its notifiers, is for
    all."""
    desk = watched_desk(Q, Q1, Q2)
    x, s = owner(desk), desk.session("s")
    desk.do(nsub(s, Q, S), nsub(s, Q1, S))
    desk.leave(s)
    desk.do(*(post(x, queue, "m1", notify=True) for queue in (Q, Q1, Q2)))
    assert desk.say(Notify()) == []
    s = desk.session("s")
    desk.do(nsubs(s, S) if by == "all" else nsub(s, Q, S))
    assert sorted(desk.say(Notify())) == ["s * NMSG q.ntf1 m1", "s * NMSG q1.ntf1 m1"]
    assert waiting(desk) == {b"q2.ntf1": ["m1"]}


def test_what_waits_follows_the_notifier_to_another() -> None:
    """SMP-39, SMP-40: it is told to whoever has the notifier at the flush."""
    desk = watched_desk(Q)
    x, s, n = owner(desk), desk.session("s"), desk.session("n")
    desk.do(post(x, Q, "m1", notify=True), nsub(n, Q), nsub(s, Q, S))
    assert desk.say(Notify()) == ["s * NMSG q.ntf1 m1"]
    desk.do(post(x, Q, "m2", notify=True), nsub(n, Q))
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m2"]
    desk.do(post(x, Q, "m3", notify=True))
    desk.leave(n)
    desk.do(Notify(), nsub(s, Q, S))
    assert desk.say(Notify()) == ["s * NMSG q.ntf1 m3"]


def test_associations_survive_a_restart() -> None:
    """SMP-34, ACC-63, ACC-65."""
    desk = watched_desk(Q)
    desk.do(nsub(desk.session("s"), Q, S))
    desk = desk.restarted()
    x, s = desk.sessions("x s")
    assert desk.say(nsubs(s, S)) == ["s " + soks(S, name(Q))]
    desk.do(post(x, Q, "m1", notify=True))
    assert desk.say(Notify()) == ["s * NMSG q.ntf1 m1"]


def test_a_queue_may_be_of_one_service_and_its_notifier_of_another() -> None:
    """6.1: the two never interact, and neither is counted for the other."""
    desk = watched_desk(Q)
    x, s, t = owner(desk), desk.session("s"), desk.session("t")
    desk.do(sub(s, Q, S), nsub(t, Q, T))
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q])
    assert desk.tally(T) == Tally.of([name(Q)])
    lines = desk.say(post(x, Q, "m1", notify=True), Notify())
    assert lines == ["x RECEIPT q m1", "s * MSG q m1", "t * NMSG q.ntf1 m1"]
    assert desk.heard_by(t, desk.say(sub(x, Q))) == []
    assert desk.tally(T) == Tally.of([name(Q)])
    desk.do(sub(s, Q, S), nsub(x, Q), delete(x, Q))
    assert (desk.tally(S), desk.tally(T)) == (NOTHING, NOTHING)


# Bounds.


def test_a_session_watches_as_many_as_it_may_subscribe() -> None:
    """`queues_per_session`: at the limit, above it, and again what it has."""
    desk = watched_desk(Q, Q1, Q2, limits=Limits(queues_per_session=2))
    n = desk.session("n")
    assert desk.say(nsub(n, Q), nsub(n, Q1)) == ["n NSOK q.ntf1", "n NSOK q1.ntf1"]
    assert desk.say(nsub(n, Q2)) == ["n ERR LimitReached"]
    assert desk.say(nsub(n, Q)) == ["n NSOK q.ntf1"]
    assert desk.watcher(Q2) == []


def test_the_oldest_notices_of_one_notifier_go_first() -> None:
    """`notices_per_notifier`: it is told that there are messages, not how many."""
    desk = watched_desk(Q, Q1, limits=Limits(notices_per_notifier=2))
    x = owner(desk)
    desk.do(*(post(x, Q, f"m{k}", notify=True) for k in (1, 2)))
    assert desk.take_facts(f.NoticesDropped) == []
    desk.do(post(x, Q, "m3", notify=True), post(x, Q1, "m4", notify=True))
    assert waiting(desk) == {b"q.ntf1": ["m2", "m3"], b"q1.ntf1": ["m4"]}
    assert desk.shard.exclusive.notifiers.count == 3
    assert [fact.count for fact in desk.take_facts(f.NoticesDropped)] == [1]


def test_notices_are_bounded_in_all() -> None:
    """`notices`: above it new ones are not kept, and nothing of them is, either; a notifier that
    has its own full goes on with the newest."""
    desk = watched_desk(Q, Q1, Q2, limits=Limits(notices=2, notices_per_notifier=1))
    x, n = owner(desk), desk.session("n")
    desk.do(*(post(x, queue, "m1", notify=True) for queue in (Q, Q1, Q2)))
    assert waiting(desk) == {b"q.ntf1": ["m1"], b"q1.ntf1": ["m1"]}
    desk.do(post(x, Q, "m2", notify=True))
    assert waiting(desk) == {b"q.ntf1": ["m2"], b"q1.ntf1": ["m1"]}
    assert desk.shard.exclusive.notifiers.count == 2
    assert len(desk.take_facts(f.NoticesDropped)) == 2
    desk.do(nsub(n, Q), Notify(), post(x, Q2, "m3", notify=True))
    assert waiting(desk) == {b"q1.ntf1": ["m1"], b"q2.ntf1": ["m3"]}


def test_notices_wait_for_a_day() -> None:
    """5.6, SMP-41: then they are given up, one by one; the count is right."""
    desk = watched_desk(Q, Q1)
    x, n = owner(desk), desk.session("n")
    desk.do(post(x, Q, "m1", notify=True, at=1000.0), post(x, Q1, "m1", notify=True, at=1000.0))
    desk.do(post(x, Q, "m2", notify=True, at=1001.0))
    desk.now = 1000.0 + NOTICE_SECONDS
    desk.do(Expire())
    assert desk.shard.exclusive.notifiers.count == 3
    desk.now += 0.5
    desk.do(Expire())
    assert waiting(desk) == {b"q.ntf1": ["m2"]}
    assert desk.shard.exclusive.notifiers.count == 1
    assert desk.take_facts(f.NoticesDropped) == [f.NoticesDropped(desk.now, 2, "too old")]
    desk.do(nsub(n, Q), nsub(n, Q1))
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m2"]


# Cost.


@pytest.mark.once
def test_notifiers_that_nobody_watches_are_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SMP-39: a flush costs what there is to tell, however much waits for nobody."""
    many = queues(50)
    desk = watched_desk(*many, Q)
    x, s, n = owner(desk), desk.session("s"), desk.session("n")
    desk.do(*(nsub(s, queue, S) for queue in many[:25]), nsub(n, Q))
    desk.leave(s)
    desk.do(*(post(x, queue, "m1", notify=True) for queue in many))
    looked: list[bytes] = []
    notifiers = desk.shard.exclusive.notifiers
    find = notifiers._holder_of

    def spy(id: bytes, service: ServiceId | None) -> SessionId | None:
        looked.append(id)
        return find(id, service)

    monkeypatch.setattr(notifiers, "_holder_of", spy)
    desk.do(Notify())
    assert len(looked) == 50
    looked.clear()
    desk.do(Notify())
    assert looked == []
    desk.do(post(x, many[3], "m2", notify=True), post(x, Q, "m1", notify=True))
    assert desk.say(Notify()) == ["n * NMSG q.ntf1 m1"]
    assert len(looked) == 2
    assert len(waiting(desk)) == 50


@pytest.mark.once
def test_subscribing_a_service_again_does_not_look_through_what_waits() -> None:
    """SMP-32, SMP-33: a session that repeats its NSUBS costs the others nothing."""
    costs = []
    for number in (0, 200):
        many = queues(number)
        desk = watched_desk(*many)
        x, s = owner(desk), desk.session("s")
        desk.do(*(nsub(s, queue, S) for queue in many), nsubs(s, S))
        desk.do(*(post(x, queue, "m1", notify=True) for queue in many))
        costs.append(calls(lambda desk=desk, s=s: desk.turn([nsubs(s, S)])))  # type: ignore[misc]
    assert abs(costs[1] - costs[0]) < 20


# Any history.


class Watched:
    """A notifier of the model."""

    def __init__(self) -> None:
        self.service: ServiceId | None = None
        self.notices: list[str] = []


class Model:
    """One command at a time, with dictionaries."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.owned: dict[QueueId, int] = {}
        """The number of the present notifier of each queue, 0 for none."""
        self.watched: dict[QueueId, Watched] = {}
        self.watcher: dict[QueueId, SessionId] = {}
        self.holder: dict[ServiceId, SessionId] = {}
        self.counted: dict[SessionId, set[QueueId]] = {}
        self.whole: set[SessionId] = set()
        self.heard: dict[SessionId, list[str]] = defaultdict(list)

    def members(self, service: ServiceId) -> list[QueueId]:
        return [id for id, one in self.watched.items() if one.service == service]

    def share(self, session: SessionId, service: ServiceId | None) -> Tally:
        if service is None or self.holder.get(service) != session:
            return NOTHING
        if session in self.whole:
            return Tally.of(self.members(service))
        return Tally.of(self.counted.get(session, ()))

    def who(self, id: QueueId) -> SessionId | None:
        service = self.watched[id].service
        return self.holder.get(service) if service is not None else self.watcher.get(id)

    def watch(self, session: SessionId, service: ServiceId | None, id: QueueId) -> None:
        if id not in self.watched:
            self.heard[session].append("ERR NoSuchQueue")
            return
        known, before = self.watched[id], self.who(id)
        if known.service != service or service is None:
            if before is not None and before != session:
                self.heard[before].append(f"* NEND {id.decode()}")
            self.watcher.pop(id, None)
            for others in self.counted.values():
                others.discard(id)
        if service is None:
            self.watcher[id] = session
        else:
            self.register(session, service)
            self.counted[session].add(id)
        known.service = service
        self.heard[session].append(
            f"NSOK {id.decode()}" + (f" as {service.decode()}" if service is not None else "")
        )

    def register(self, session: SessionId, service: ServiceId) -> None:
        before = self.holder.get(service)
        if before == session:
            return
        if before is not None:
            self.heard[before].append(self.lost(before, service))
            self.whole.discard(before)
        self.holder[service] = session
        self.counted[session] = set()

    def lost(self, session: SessionId, service: ServiceId) -> str:
        tally = self.share(session, service)
        return f"* ENDS {service.decode()} {tally.count} {tally.hash.hex()}"

    def subscribe(self, session: SessionId, service: ServiceId) -> None:
        self.register(session, service)
        self.whole.add(session)
        self.heard[session].append(soks(service, *self.members(service)))

    def drop(self, queue: QueueId, by: SessionId) -> None:
        number = self.owned[queue]
        if not number:
            return
        id = name(queue, number)
        before = self.who(id)
        if before is not None and before != by:
            self.heard[before].append(f"* NDELD {id.decode()}")
        self.watcher.pop(id, None)
        for others in self.counted.values():
            others.discard(id)
        del self.watched[id]
        self.owned[queue] = 0

    def set(self, queue: QueueId, number: int) -> None:
        self.owned[queue] = number
        self.watched[name(queue, number)] = Watched()

    def note(self, queue: QueueId, message: str) -> None:
        if not self.owned.get(queue):
            return
        notices = self.watched[name(queue, self.owned[queue])].notices
        if len(notices) == self.limits.notices_per_notifier:
            notices.pop(0)
        elif sum(len(one.notices) for one in self.watched.values()) == self.limits.notices:
            return
        notices.append(message)

    def notify(self) -> None:
        for id, one in self.watched.items():
            who = self.who(id)
            if who is not None:
                self.heard[who] += [f"* NMSG {id.decode()} {m}" for m in one.notices]
                one.notices = []

    def leave(self, session: SessionId) -> None:
        self.watcher = {id: who for id, who in self.watcher.items() if who != session}
        self.holder = {service: who for service, who in self.holder.items() if who != session}
        self.counted.pop(session, None)
        self.whole.discard(session)


def tidy(lines: list[str]) -> list[str]:
    """In which order notifiers are told is left open."""
    notices = sorted((line for line in lines if "NMSG" in line), key=lambda line: line.split()[2])
    return [*(line for line in lines if "NMSG" not in line), *notices]


MEMORIES = {"roomy": Limits(), "tiny": Limits(heads=1, backlogs=1)}


@pytest.mark.parametrize("failures", [False, True], ids=["sound store", "failing store"])
@pytest.mark.parametrize("limits", MEMORIES.values(), ids=MEMORIES.keys())
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.once
def test_any_history_is_that_of_the_model(seed: int, limits: Limits, failures: bool) -> None:
    """SMP-7, SMP-24..SMP-29, SMP-32..SMP-35, SMP-38..SMP-40, S001-27, S001-40, S001-45: watching,
    notifiers that come and go, services and their displacement, notices and their bounds, in
    batches; every tally equals a recount at any moment, and a turn that fails leaves no trace."""
    random = Random(seed)
    limits = replace(limits, notices=4, notices_per_notifier=2)
    desk, model = Desk(limits=limits), Model(limits)
    members = (Q, Q1, Q2)
    x = desk.session("x")
    desk.do(*(new(x, queue, parties=parties(queue)) for queue in members))
    model.owned = dict.fromkeys(members, 0)
    numbers, messages, names = count(1), count(1), count(1)
    identity: dict[SessionId, ServiceId | None] = {}
    for _ in range(60):
        while len(identity) < 6:
            service = (None, None, S, S, T, T)[len(identity)]
            identity[desk.session(f"s{next(names)}")] = random.choice([service, None, S])
        commands: list[Command] = []
        for _ in range(random.randrange(1, 6)):
            session = random.choice(list(identity))
            queue, mine = random.choice(members), identity[session]
            match random.choice("wwwwwwppppnnkddqs"):
                case "w":
                    number = model.owned[queue] or 1
                    commands.append(nsub(session, queue, mine, number))
                    model.watch(session, mine, name(queue, number))
                case "p":
                    message = f"m{next(messages)}"
                    commands.append(post(x, queue, message, notify=True))
                    model.note(queue, message)
                case "n":
                    commands.append(Notify())
                    model.notify()
                case "k":
                    number = next(numbers)
                    commands.append(nkey(session, queue, number))
                    model.drop(queue, session)
                    model.set(queue, number)
                    model.heard[session].append(f"AMENDED {queue.decode()}")
                case "d":
                    commands.append(amend(session, queue, DropNotifier()))
                    model.drop(queue, session)
                    model.heard[session].append(f"AMENDED {queue.decode()}")
                case "q":
                    commands += [
                        delete(session, queue),
                        new(session, queue, parties=parties(queue)),
                    ]
                    model.drop(queue, session)
                    model.heard[session] += ["OK", f"SOK {queue.decode()}"]
                case "s" if mine is not None:
                    commands.append(nsubs(session, mine))
                    model.subscribe(session, mine)
        compare(desk, model, identity, play(desk, commands, random if failures else None))
        if random.random() < 0.2:
            gone = random.choice(list(identity))
            desk.hang_up(gone)
            desk.do(Disconnect(gone))
            model.leave(gone)
            del identity[gone]


def play(desk: Desk, commands: list[Command], random: Random | None) -> list[Effect]:
    """One turn, perhaps after one that failed."""
    if random is not None and random.random() < 0.5:
        before = snapshot(desk.shard, CACHES)
        desk.fail_at = random.randrange(2)
        outcome = desk.turn(commands)
        if desk.fail_at is not None:
            desk.fail_at = None
            return outcome.effects
        assert snapshot(desk.shard, CACHES) == before
        desk.check_backlogs()
        assert all(isinstance(effect, Failed) for effect in outcome.effects)
    return desk.turn(commands).effects


def compare(
    desk: Desk, model: Model, identity: dict[SessionId, ServiceId | None], effects: list[Effect]
) -> None:
    lines = desk.lines(effects)
    for session, service in identity.items():
        assert tidy(desk.heard_by(session, lines)) == tidy(model.heard[session])
        assert desk.share(session) == model.share(session, service)
    model.heard.clear()
    for service in (S, T):
        kept = Tally.of(model.members(service))
        assert desk.tally(service) == desk.recount_notifiers(service, model.owned) == kept
    assert waiting(desk) == {id: one.notices for id, one in model.watched.items() if one.notices}
    assert desk.shard.exclusive.notifiers.count == sum(
        len(one.notices) for one in model.watched.values()
    )
    registered = desk.shard.exclusive.notifiers.subscribers
    assert {id: next(iter(registered.roster(id))) for id in registered} == model.watcher
    desk.check_backlogs()

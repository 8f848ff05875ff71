"""Services: one identity that subscribes all its queues, its tally, and the sweep."""

from __future__ import annotations

from hashlib import md5
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import facts as f
from headgate.core.commands import Command, Disconnect, Drained
from headgate.core.limits import Limits
from headgate.core.names import QueueId, SessionId
from headgate.core.steps import Batch, Load
from headgate.core.tally import NOTHING, Drift, Tally
from headgate.testing.rig import deliveries
from tests.core.desk import (
    Q1,
    Q2,
    Q3,
    Q4,
    Desk,
    Q,
    S,
    T,
    ack,
    calls,
    delete,
    ends,
    get,
    identify,
    new,
    nsubs,
    queues,
    send,
    soks,
    sub,
    subs,
)


def desk_of(
    *members: QueueId, pending: int = 0, limits: Limits | None = None
) -> tuple[Desk, SessionId]:
    """A router that just started: these queues are the service's, each with so many messages;
    and a session that sends."""
    desk = Desk(limits=limits)
    owner, x = desk.sessions("owner x")
    desk.do(*(new(owner, queue, service=S) for queue in members))
    desk.do(*(send(x, queue, f"m{k}") for queue in members for k in range(1, pending + 1)))
    desk = desk.restarted()
    return desk, desk.session("x")


def messages(lines: list[str]) -> list[str]:
    return [line for line in lines if "MSG" in line]


# The tally.


def test_the_hash_of_a_set_is_the_xor_of_the_md5_of_its_ids() -> None:
    """S001-37: 16 bytes; the empty set has 16 zero bytes. The example is that of the spec."""
    one, two = QueueId(bytes(range(0x40, 0x58))), QueueId(bytes(range(0x60, 0x78)))
    assert NOTHING.hash == bytes(16)
    assert Tally.of([]) == NOTHING
    assert Tally.of([one]).hash.hex() == "408bf8bbb5cca1467fa19699b9c451b1"
    assert Tally.of([two]).hash.hex() == "2d1add89918afc18fa77589648bd09c8"
    assert Tally.of([one, two]).hash.hex() == "6d91253224465d5e85d6ce0ff1795879"
    assert Tally.parse(2, Tally.of([one, two]).hash) == Tally.of([one, two])


ids = st.binary(max_size=30).map(QueueId)


@given(st.lists(ids, unique=True, max_size=20), st.randoms())
def test_the_tally_of_a_set_does_not_depend_on_its_order(
    members: list[QueueId], shuffle: Random
) -> None:
    """S001-37, S001-38: adding and removing are the same operation on the hash."""
    expected = 0
    for member in members:
        expected ^= int.from_bytes(md5(member).digest(), "big")
    tally = Tally.of(members)
    assert (tally.count, tally.hash) == (len(members), expected.to_bytes(16, "big"))
    shuffled = members[:]
    shuffle.shuffle(shuffled)
    assert Tally.of(shuffled) == tally
    for member in shuffled:
        assert tally.plus(QueueId(member + b"new")).minus(QueueId(member + b"new")) == tally
        tally = tally.minus(member)
        assert tally.plus(member).hash == Tally.of([member]).join(tally).hash
    assert tally == NOTHING


def test_drift_is_judged_on_count_and_hash_together() -> None:
    """S001-39: equal hashes with different counts are drift."""
    kept = Tally.of([Q1, Q2])
    assert kept.drift(Tally.of([Q2, Q1])) is Drift.NONE
    assert kept.drift(Tally.of([Q1])) is Drift.MORE
    assert kept.drift(Tally.of([Q1, Q2, Q3])) is Drift.FEWER
    assert kept.drift(Tally.of([Q1, Q3])) is Drift.DIFFERENT
    assert kept.drift(Tally(3, kept.xor)) is Drift.FEWER
    assert kept.drift(Tally(1, kept.xor)) is Drift.MORE


# Association.


def test_a_queue_created_by_a_service_is_the_services_from_the_beginning() -> None:
    """S001-26, S000-94, R28: stored with the queue, counted, and answered with the id."""
    desk = Desk()
    a, x = desk.sessions("a x")
    lines = desk.say(new(a, Q1, subscribe=True, service=S), new(a, Q2, service=S))
    assert lines == ["a SOK q1 as S", "a SOK q2 as S"]
    assert (desk.associated(Q1), desk.associated(Q2)) == (S, S)
    assert desk.tally(S) == desk.recount(S) == Tally.of([Q1, Q2])
    assert desk.heard_by(a, desk.say(send(x, Q1, "m1"))) == ["* MSG q1 m1"]


def test_a_service_that_creates_a_queue_without_subscribing_is_not_the_subscriber() -> None:
    """S001-26, R10, R28: only NEW with S registers the session."""
    desk = Desk()
    a, x = desk.sessions("a x")
    desk.say(new(a, Q1, service=S))
    assert desk.service_subscriber(S) == []
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]


def test_a_service_subscribing_its_own_queue_again_stores_nothing() -> None:
    """S001-28, S001-29, S004-6, R24: case 1; a retry after a lost answer leaves the tally
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
    """S001-2, S001-30, S004-48, R25: case 2; the association is stored, the session's tally
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
    """S001-27, S001-31, R25: case 2; one messaging service at a time. The queue leaves the
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
    """S001-32, R26: case 3; the association goes, the queue is subscribed by itself, the
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
    """S001-33, R27: case 4; nothing stored, nothing counted."""
    desk = Desk()
    a, b = desk.sessions("a b")
    desk.say(new(a, Q1))
    desk.facts.clear()
    assert desk.trips(sub(a, Q1), sub(b, Q1)) == []
    assert (desk.total(), desk.tally(S), desk.associated(Q1)) == (0, NOTHING, None)
    assert not desk.take_facts(f.Associated)


def test_going_to_a_service_and_back_loses_no_message() -> None:
    """S001-34, S004-11, R25, R26: every message comes, in order, whoever it goes to."""
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
    assert got[0] == "0.1"
    assert got[1::2] == ["0.2", "1.1", "1.2", "2.1", "2.2", "3.1"]
    assert got[2::2] == got[1:-1:2]


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


def test_the_associations_of_a_block_are_one_update() -> None:
    """S004-14, S004-30, R22: 135 SUBs are one load and one batch with 135 associations."""
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
    """S004-14, S001-28, R22: re-SUBs are answered, and need no update."""
    desk, x = desk_of(Q1, Q2)
    a = desk.session("a")
    desk.do(new(x, Q3))
    trips = desk.trips(sub(a, Q1, S), sub(a, Q2, S), sub(a, Q3, S))
    (batch,) = [trip for trip in trips if isinstance(trip, Batch)]
    assert batch.associate == {Q3: S}


def test_associations_survive_disconnect_and_restarts() -> None:
    """S001-36, S004-11, R34: only the live subscription ends with the session."""
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


def test_deleting_a_queue_takes_it_out_of_its_services_tally() -> None:
    """S004-2, R34: of the store's and the session's; the service's subscriber gets DELD."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    lines = desk.say(delete(x, Q1))
    assert desk.heard_by(a, lines) == ["* DELD q1"]
    assert desk.tally(S) == desk.recount(S) == desk.share(a) == Tally.of([Q2])
    assert desk.total() == 1
    assert desk.heard_by(a, desk.say(subs(b, S))) == [ends(S, Q2)]


def test_a_service_that_deletes_its_own_queue_is_only_answered() -> None:
    """R35, S004-2: its count decreases and it gets only OK."""
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


def test_queue_subscribers_and_service_subscribers_are_two_registries() -> None:
    """S000-7, S000-93: a subscription by SUBS is found by service id, one by SUB by queue id,
    and neither shows up in the other place."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S), new(x, Q2), sub(b, Q2))
    assert (desk.subscriber(Q1), desk.service_subscriber(S)) == ([], [a])
    assert (desk.subscriber(Q2), len(desk.shard.queues.subscribers)) == ([b], 1)
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
    """S004-3, S001-54, R16, R36: found by the service's id; confirmed without it."""
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


def test_one_subscribe_of_a_service_receives_new_messages_of_all_its_queues() -> None:
    """R29: but what waits in other queues comes only by SUBS or by their own SUB; R14 and R29
    win over offering the head on every touch."""
    desk, x = desk_of(Q1, Q2, Q3, pending=1)
    a, owner = desk.sessions("a owner")
    desk.do(new(owner, Q4, service=S))
    assert desk.say(sub(a, Q1, S)) == ["a SOK q1 as S", "a * MSG q1 m1"]
    assert desk.say(send(x, Q4, "m1")) == ["x RECEIPT q4 m1", "a * MSG q4 m1"]
    assert desk.say(send(x, Q2, "m2")) == ["x RECEIPT q2 m2"]
    assert desk.say(Drained(a)) == []
    assert desk.say(sub(a, Q2, S)) == ["a SOK q2 as S", "a * MSG q2 m1"]
    assert sorted(messages(desk.say(subs(a, S)))) == ["a * MSG q3 m1"]


def test_a_service_queue_is_not_pushed_to_whoever_subscribed_its_id_earlier() -> None:
    """S001-57: the plain subscriber was ended when the queue became the service's."""
    desk = Desk()
    a, b, x = desk.sessions("a b x")
    desk.do(new(a, Q1, subscribe=True), sub(b, Q1, S))
    desk.leave(b)
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]
    assert desk.say(Drained(a)) == []


def test_the_session_of_a_gone_service_leaves_the_queue_to_nobody() -> None:
    """S000-74, S000-77, R7, R34: after a disconnect messages are stored only."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.hang_up(a)
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1"]
    assert desk.clean_up(a) == []
    assert messages(desk.say(subs(b, S))) == ["b * MSG q1 m1"]


def test_the_clean_up_of_an_old_session_spares_the_services_new_one() -> None:
    """S000-4, S000-77, R7: removed only where it still is the subscriber."""
    desk, x = desk_of(Q1)
    a, b = desk.sessions("a b")
    desk.say(subs(a, S))
    desk.hang_up(a)
    desk.say(subs(b, S))
    desk.clean_up(a)
    assert desk.service_subscriber(S) == [b]
    assert desk.say(send(x, Q1, "m1")) == ["x RECEIPT q1 m1", "b * MSG q1 m1"]


def test_one_who_reads_with_get_is_not_pushed_to_as_the_services_subscriber_either() -> None:
    """S000-27, S000-40, R16, R30: a subscription of the GET kind stops the push, and the sweep
    skips a queue of which the session has one."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a = desk.session("a")
    assert desk.say(get(a, Q1)) == ["a MSG q1 m1"]
    assert messages(desk.say(subs(a, S))) == ["a * MSG q2 m1"]
    assert desk.say(ack(a, Q1, "m1")) == ["a OK"]
    assert desk.say(send(x, Q1, "m2")) == ["x RECEIPT q1 m2"]
    assert desk.say(get(a, Q1)) == ["a MSG q1 m2"]


def test_whoever_is_ended_by_a_session_that_hung_up_gets_nothing_more_of_the_queue() -> None:
    """S000-10, S000-11, S000-17, R5, R6: also the subscriber of a service. If it is told END
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
    """S001-42, S000-95, R30, R31: SOKS carries the store's values, whatever the session sent;
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
    """S000-98, R30: SOKS 0 with the zero hash, and ALLS."""
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
    """S001-43, S001-44, R30: what per-queue SUBs counted is not counted twice."""
    desk, _ = desk_of(Q1, Q2, Q3)
    a = desk.session("a")
    desk.say(sub(a, Q1, S), sub(a, Q2, S))
    assert desk.total() == 2
    desk.say(subs(a, S))
    assert (desk.share(a), desk.total()) == (Tally.of([Q1, Q2, Q3]), 3)


def test_the_total_of_service_subscribed_queues_falls_by_the_sessions_share() -> None:
    """S001-45, S004-13, A61: on ENDS and on disconnect, exactly; no double counting after a
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
    """S001-52, R32: the current count, no sweep, no ALLS, no message."""
    desk, x = desk_of(Q1, Q2, pending=1)
    a = desk.session("a")
    desk.say(subs(a, S))
    desk.say(new(x, Q3), sub(a, Q3, S))
    assert desk.say(subs(a, S)) == ["a " + soks(S, Q1, Q2, Q3)]
    lines = desk.say(subs(a, S), subs(a, S))
    assert lines == ["a " + soks(S, Q1, Q2, Q3)] * 2
    assert desk.total() == 3


def test_subs_twice_in_one_block_makes_one_sweep() -> None:
    """S001-52, S000-98, R32: as if they came one by one."""
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


def test_a_sweep_goes_page_by_page_and_delivers_as_it_goes() -> None:
    """S001-48, S000-97, S000-98, R37: each turn hands over its page; ALLS is last and once."""
    names = queues(7)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=2))
    a = desk.session("a")
    lines, again = desk.say_one(subs(a, S))
    assert lines == ["a " + soks(S, *names)]
    pages = []
    while again:
        lines, again = desk.say_one(*again)
        pages.append(lines)
    assert [line for lines in pages for line in lines][-1] == "a * ALLS S"
    swept = [messages(lines) for lines in pages]
    assert max(len(page) for page in swept) == 2
    assert [line for page in swept for line in page] == [
        f"a * MSG {name.decode()} m1" for name in names
    ]
    assert sum(line == "a * ALLS S" for lines in pages for line in lines) == 1


@pytest.mark.parametrize("number", range(8))
def test_a_sweep_ends_once_whatever_the_number_of_queues(number: int) -> None:
    """S000-98: also when the last page is full, and without any queue."""
    desk, _ = desk_of(*queues(number), pending=1, limits=Limits(sweep_queues=3))
    a = desk.session("a")
    lines = desk.say(subs(a, S))
    assert len(messages(lines)) == number
    assert lines.index("a * ALLS S") == len(lines) - 1
    assert [fact.session for fact in desk.take_facts(f.SweepEnded)] == [a]


def test_a_sweep_skips_queues_that_have_a_delivery_of_this_session() -> None:
    """S001-47, R30: at most one head per queue; SUBs before the SUBS had theirs."""
    desk, _ = desk_of(Q1, Q2, Q3, pending=2)
    a = desk.session("a")
    desk.say(sub(a, Q1, S), sub(a, Q2, S), ack(a, Q2, "m1"))
    assert messages(desk.say(subs(a, S))) == ["a * MSG q3 m1"]


def test_commands_go_on_during_a_sweep() -> None:
    """S001-53, R31: of the same session and of others, between two pages and in the same turn
    as a page."""
    names = queues(6)
    desk, x = desk_of(*names, pending=2, limits=Limits(sweep_queues=2))
    a, b = desk.sessions("a b")
    desk.do(new(b, Q, subscribe=True))
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(*again)
    assert len(messages(lines)) == 2
    lines, again = desk.say_one(
        ack(a, names[0], "m1"), send(x, Q, "m1"), ack(b, Q, "m1"), *again, send(x, Q, "m2")
    )
    assert desk.heard_by(a, lines) == [
        f"MSG {names[0].decode()} m2",
        f"* MSG {names[2].decode()} m1",
        f"* MSG {names[3].decode()} m1",
    ]
    assert desk.heard_by(b, lines) == ["* MSG q m1", "OK", "* MSG q m2"]
    assert desk.say(*again) == [
        f"a * MSG {names[4].decode()} m1",
        f"a * MSG {names[5].decode()} m1",
        "a * ALLS S",
    ]


def test_a_new_message_does_not_wait_for_the_sweep() -> None:
    """S001-55, S001-56, R31: of a queue that the sweep has not reached, or of one associated
    after SUBS; and the sweep does not deliver it a second time."""
    names = queues(4)
    desk, x = desk_of(*names, limits=Limits(sweep_queues=1))
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    _, again = desk.say_one(*again)
    late = QueueId(b"zzz")
    lines, again = desk.say_one(
        new(x, late), sub(a, late, S), send(x, late, "m1"), send(x, names[3], "m1"), *again
    )
    assert messages(lines) == ["a * MSG zzz m1", f"a * MSG {names[3].decode()} m1"]
    assert desk.say(*again) == ["a * ALLS S"]


@pytest.mark.parametrize("sweep_first", [True, False])
def test_sweep_and_new_message_in_one_turn_make_one_delivery(sweep_first: bool) -> None:
    """S001-56: the gate decides, whichever comes first."""
    desk, x = desk_of(Q1)
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    arrival = send(x, Q1, "m1")
    block: list[Command] = [*again, arrival] if sweep_first else [arrival, *again]
    lines = desk.say(*block)
    assert messages(lines) == ["a * MSG q1 m1"]
    assert "a * ALLS S" in lines


def test_a_sweep_sees_what_its_turn_did_before_it() -> None:
    """S001-47, S004-43: confirmed, deleted and re-associated queues of the same turn."""
    desk, x = desk_of(Q1, Q2, Q3, Q4, pending=1)
    a, b = desk.sessions("a b")
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(
        get(b, Q1), ack(b, Q1, "m1"), delete(x, Q2), sub(b, Q3), send(x, Q1, "m2"), *again
    )
    assert desk.heard_by(a, lines) == [
        "* DELD q2",
        "* END q3",
        "* MSG q1 m2",
        "* MSG q4 m1",
        "* ALLS S",
    ]
    assert again == []


def test_a_sweep_delivers_what_was_sent_to_a_backlog_that_is_not_in_memory() -> None:
    """S000-97, S001-51, R14: after a restart a SEND to a queue with a backlog is not pushed;
    the sweep then delivers the oldest message, not the newest, and nothing breaks."""
    desk, x = desk_of(Q1, Q2, pending=2)
    a = desk.session("a")
    assert desk.say(send(x, Q1, "m3")) == ["x RECEIPT q1 m3"]
    assert messages(desk.say(subs(a, S))) == ["a * MSG q1 m1", "a * MSG q2 m1"]
    assert desk.say(ack(a, Q1, "m1"), ack(a, Q1, "m2"), ack(a, Q1, "m3")) == [
        "a MSG q1 m2",
        "a MSG q1 m3",
        "a OK",
    ]


def test_a_send_in_the_turn_of_the_sweep_to_a_backlog_that_is_not_in_memory() -> None:
    """S000-97, S001-56: the page and the record of one queue in one turn."""
    desk, x = desk_of(Q1, pending=2)
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    lines = desk.say(send(x, Q1, "m3"), *again)
    assert messages(lines) == ["a * MSG q1 m1"]


@pytest.mark.parametrize("cold", [True, False])
def test_a_sweep_does_not_bring_back_what_its_turn_confirmed(cold: bool) -> None:
    """S001-47, S004-43: the page was read before the queue was emptied in the same turn; what
    is sent after the sweep is the head then."""
    desk, x = desk_of(Q1, pending=1)
    a, b = desk.sessions("a b")
    if not cold:
        desk.say(get(b, Q1))
    _, again = desk.say_one(subs(a, S))
    lines = desk.say(get(b, Q1), ack(b, Q1, "m1"), *again, send(x, Q1, "m2"), send(x, Q1, "m3"))
    assert messages(desk.heard_by(a, lines)) == ["* MSG q1 m2"]
    assert desk.say(ack(a, Q1, "m2"), ack(a, Q1, "m3")) == ["a MSG q1 m3", "a OK"]
    assert desk.stored(Q1) == []


def test_a_queue_created_again_under_the_id_of_a_refused_one_is_swept() -> None:
    """S000-97: a NEW of an id that exists reads its record only; the sweep still finds the
    head."""
    desk, x = desk_of(Q1, pending=1)
    a = desk.session("a")
    assert desk.say(new(x, Q1)) == ["x ERR QueueExists"]
    assert messages(desk.say(subs(a, S))) == ["a * MSG q1 m1"]


def test_all_that_was_pending_comes_before_the_end_of_the_sweep() -> None:
    """S001-51, R31, R37: without room in the mailbox the sweep waits, and so does ALLS."""
    names = queues(5)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=2))
    a = desk.session("a")
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(*again)
    desk.fill(a)
    lines += desk.say(*again)
    assert len(messages(lines)) == 2
    assert "a * ALLS S" not in lines
    lines += desk.drained(a)
    assert messages(lines) == [f"a * MSG {name.decode()} m1" for name in names]
    assert lines.index("a * ALLS S") == len(lines) - 1


def test_a_sweep_that_never_had_room_delivers_everything_when_there_is_some() -> None:
    """S001-51, R37: nothing is lost, nothing comes twice, ALLS is last and once."""
    names = queues(5)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=2))
    a = desk.session("a")
    desk.fill(a)
    assert desk.say(subs(a, S)) == ["a " + soks(S, *names)]
    assert desk.say(Drained(a)) == []
    lines = desk.drained(a)
    assert sorted(messages(lines)) == [f"a * MSG {name.decode()} m1" for name in names]
    assert lines.index("a * ALLS S") == len(lines) - 1
    assert desk.drained(a) == []


def test_a_sweep_waits_for_room_without_delaying_others() -> None:
    """S001-53, R37: the iteration must not block."""
    desk, x = desk_of(Q1, pending=1)
    a, b = desk.sessions("a b")
    desk.do(new(b, Q2, subscribe=True))
    desk.fill(a)
    desk.say(subs(a, S))
    assert desk.say(send(x, Q2, "m1"))[1:] == ["b * MSG q2 m1"]


def test_a_sweep_whose_last_waiting_queue_is_gone_still_ends() -> None:
    """S000-98, S001-51: the queue that waited for room was deleted meanwhile."""
    desk, x = desk_of(Q1, pending=1)
    a = desk.session("a")
    desk.fill(a)
    desk.say(subs(a, S))
    lines = desk.say(delete(x, Q1))
    assert desk.heard_by(a, lines) == ["* DELD q1"]
    assert desk.drained(a) == ["a * ALLS S"]


def test_a_sweep_stops_when_its_session_leaves() -> None:
    """S000-76, S004-8, R37: nothing is delivered, and the next session gets it all."""
    names = queues(4)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    _, again = desk.say_one(subs(a, S))
    _, again = desk.say_one(*again)
    desk.hang_up(a)
    assert [line for line in desk.say(*again) if line.startswith("a")] == []
    desk.clean_up(a)
    assert len(messages(desk.say(subs(b, S)))) == 4


def test_a_full_mailbox_of_a_service_leads_to_a_later_delivery() -> None:
    """S000-48, R16: a message for a service's queue waits for room like any other."""
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
    """S001-58, S000-22, S001-46, S004-4, R28: one ENDS with the count and hash it had, no END
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


@pytest.mark.parametrize("how", ["subscribe", "create", "subscribe another", "subscribe all"])
def test_every_way_of_registering_displaces_the_services_subscriber(how: str) -> None:
    """S001-58, R28: via SUB, NEW or SUBS; also via SUB of a queue that was not the service's."""
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
    """S001-59, R28: its tally is zero at that moment, its deliveries and per-queue
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
    """S001-61, R28: ENDS is for another, connected session."""
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


def test_the_sweep_of_a_displaced_session_delivers_nothing_more() -> None:
    """S001-62, S004-4, S004-8, R37: not after the displacement, in the same turn or later."""
    names = queues(6)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    _, again = desk.say_one(subs(a, S))
    lines, again = desk.say_one(*again)
    assert len(messages(lines)) == 1
    lines = desk.say(subs(b, S), *again)
    assert messages(desk.heard_by(a, lines)) == []
    assert desk.heard_by(a, lines)[0] == ends(S, *names)
    assert len(messages(desk.heard_by(b, lines))) == 6
    assert desk.heard_by(b, lines)[-1] == "* ALLS S"


def test_a_displaced_session_can_take_its_service_back() -> None:
    """S001-63, R28: SUBS works again, sweeps again, and displaces in turn."""
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


def test_a_sweep_of_before_the_displacement_does_not_double_the_one_after_it() -> None:
    """S001-63, S001-62, S000-98: taken away and taken back while a page was still to come; one
    sweep of all queues, one ALLS."""
    names = queues(4)
    desk, _ = desk_of(*names, pending=1, limits=Limits(sweep_queues=1))
    a, b = desk.sessions("a b")
    _, old = desk.say_one(subs(a, S))
    _, old = desk.say_one(*old)
    lines, again = desk.say_one(subs(b, S), subs(a, S))
    lines += desk.say(*old, *again)
    heard = desk.heard_by(a, lines)
    assert messages(heard) == [f"* MSG {name.decode()} m1" for name in names]
    assert heard.count("* ALLS S") == 1
    assert heard[-1] == "* ALLS S"


def test_a_session_that_came_back_by_one_subscribe_is_swept_by_its_subs() -> None:
    """S001-63, R28, R29: the first SUBS after a displacement is a first one again."""
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


def test_a_service_that_hung_up_does_not_leave_its_queue_to_another_of_its_sessions() -> None:
    """S000-10, S000-11, R29: who did not ask for the queue would not be given what waits."""
    desk, x = desk_of(Q1)
    a, b, c = desk.sessions("a b c")
    desk.say(subs(a, S), new(x, Q2), send(x, Q2, "m1"), sub(c, Q2))
    desk.hang_up(b)
    assert "c * END q2" in desk.say(sub(b, Q2, S))
    desk.clean_up(b)
    assert messages(desk.say(sub(c, Q2))) == ["c * MSG q2 m1"]


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
    """A64: also in the turn in which it is first seen; it keeps its service and its role."""
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
    """R33, S000-99, S001-94: registered, counted and answered as ever, and no turn follows."""
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
    """S000-95, R30, R33."""
    desk, _x = desk_of(Q1)
    a = desk.session("a")
    desk.do(nsubs(a, S, Tally.of([Q1, Q2])))
    assert [fact.drift for fact in desk.take_facts(f.ServiceSubscribed)] == ["fewer"]

"""Each row of the table of queues, and what the application gets to know."""

from __future__ import annotations

import pytest

from headgate.agent.engine.answers import (
    PROHIBITED,
    TIMED_OUT,
    Answer,
    NotSubscribed,
    Subscribed,
)
from headgate.agent.engine.effects import (
    Announce,
    ReadPage,
    RemoveQueue,
    Report,
    SendSubs,
    SetAssociated,
    Settled,
    StoreNewQueue,
    StoreNotice,
)
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.queue_states import QueueState
from headgate.agent.engine.settings import EngineSettings
from headgate.agent.events import Deleted, Down, End, Problem, ProblemKind, Refusal, Up
from headgate.agent.model import QueueRow, SessionKey, SessionMode, SlotKey
from headgate.core.model.ids import ServiceId
from tests.support.agent_world import World, refused, router_address

HERE = router_address(1)
ROWS = [QueueRow(b"a", b"x"), QueueRow(b"b", b"y")]
A, B = ROWS
OTHER_SERVICE = ServiceId(b"other")


def opened(rows: list[QueueRow] | None = None) -> tuple[Engine, SessionKey]:
    """An engine with a session, whose queues have been sent."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.want(1, 1, ROWS if rows is None else rows, 0.0)
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    some.connected(key, None, 0.0)
    return some, key


def test_a_queue_is_pending_before_its_subscribe_leaves() -> None:
    """S000-58."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.want(1, 1, ROWS, 0.0)
    assert some.state_of(1, 1, A) is QueueState.PENDING
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    effects = some.connected(key, None, 0.0)
    assert effects == [SendSubs(key, (b"a", b"b"))]
    assert some.state_of(1, 1, A) is QueueState.PENDING


@pytest.mark.parametrize(
    "answer",
    [
        Subscribed(b"a"),
        Subscribed(b"a", OTHER_SERVICE),
        Subscribed(b"a", by_message=True),
    ],
)
def test_every_success_makes_a_queue_active(answer: Answer) -> None:
    """S000-61, S001-66: OK, SOK of nobody, SOK of another service, a message."""
    some, key = opened()
    some.answered(key, [answer], 0.0)
    assert some.state_of(1, 1, A) is QueueState.ACTIVE
    assert some.state_of(1, 1, B) is QueueState.PENDING


def test_up_names_those_of_the_batch_together_and_once() -> None:
    """S000-63, S000-72, S000-73."""
    rows = [QueueRow(b"a", b"x"), QueueRow(b"b", b"y"), QueueRow(b"c", b"x")]
    some, key = opened(rows)
    effects = some.answered(key, [Subscribed(b"a"), Subscribed(b"b")], 0.0)
    assert effects[-1] == Announce(Up(1, HERE, (b"x", b"y")))
    effects = some.answered(key, [Subscribed(b"c")], 0.0)
    assert [type(effect) for effect in effects] == [Settled]


def test_asking_again_for_what_is_active_sends_nothing_and_announces_nothing() -> None:
    """S000-72."""
    some, key = opened()
    some.answered(key, [Subscribed(b"a"), Subscribed(b"b")], 0.0)
    effects = some.want(1, 1, ROWS, 1.0)
    assert [type(effect) for effect in effects] == [Settled]
    assert some.state_of(1, 1, A) is QueueState.ACTIVE


def test_a_temporary_error_keeps_a_queue_pending_and_the_worker_tries_again() -> None:
    """S000-87."""
    some, key = opened()
    some.answered(key, [Subscribed(b"a"), NotSubscribed(b"b", refused("STORE x"))], 0.0)
    assert some.state_of(1, 1, B) is QueueState.PENDING
    assert some.tick(1.0) == []
    assert some.tick(3.0) == [SendSubs(key, (b"b",))]


def test_a_permanent_error_removes_its_own_queue_only_and_is_told_in_one_list() -> None:
    """S000-61."""
    some, key = opened([*ROWS, QueueRow(b"c", b"z")])
    answers: list[Answer] = [
        NotSubscribed(b"a", refused("AUTH")),
        Subscribed(b"b"),
        NotSubscribed(b"c", refused("CMD SYNTAX")),
    ]
    events = [e.event for e in some.answered(key, answers, 0.0) if isinstance(e, Announce)]
    refusals = (Refusal(b"x", "AUTH"), Refusal(b"z", "CMD SYNTAX"))
    assert events == [
        Up(1, HERE, (b"y",)),
        Problem(1, HERE, ProblemKind.REFUSED, refusals=refusals),
    ]
    assert some.state_of(1, 1, A) is QueueState.REMOVED
    some.want(1, 1, [A], 0.0)
    assert some.state_of(1, 1, A) is QueueState.PENDING, "until it is asked for again"


def test_a_blocked_queue_keeps_its_notice() -> None:
    some, key = opened()
    effects = some.answered(key, [NotSubscribed(b"a", refused("BLOCKED reason=spam"))], 0.0)
    assert effects[0] == StoreNotice(1, b"a", "BLOCKED reason=spam")
    kinds = [
        e.event.kind for e in effects if isinstance(e, Announce) and isinstance(e.event, Problem)
    ]
    assert kinds == [ProblemKind.BLOCKED]


def test_an_answer_of_another_session_leaves_no_trace() -> None:
    """S000-89, S000-90: whatever state the queue is in."""
    some, key = opened()
    some.answered(key, [Subscribed(b"a")], 0.0)
    before = some.status()
    answers: list[Answer] = [NotSubscribed(b"a", refused("AUTH")), Subscribed(b"b")]
    for stale in (SessionKey(key.slot, 7, key.session), SessionKey(key.slot, 1, b"other")):
        assert some.answered(stale, answers, 0.0) == []
    assert some.status() == before
    assert some.ignored == 2


def test_an_answer_for_a_queue_that_waits_for_none_is_ignored() -> None:
    """S000-89."""
    some, key = opened()
    some.answered(key, [Subscribed(b"a")], 0.0)
    some.unwant(1, 1, [B], 0.0)
    answers: list[Answer] = [NotSubscribed(b"a", refused("AUTH")), Subscribed(b"b")]
    assert some.answered(key, answers, 0.0) == []
    assert some.state_of(1, 1, A) is QueueState.ACTIVE
    assert some.state_of(1, 1, B) is QueueState.REMOVED
    assert some.ignored == 2


def test_a_late_answer_makes_its_queue_active_and_counts_for_up() -> None:
    """S000-70."""
    some, key = opened()
    some.answered(key, [Subscribed(b"a"), NotSubscribed(b"b", TIMED_OUT)], 0.0)
    effects = some.answered(key, [Subscribed(b"b")], 1.0)
    assert effects[-1] == Announce(Up(1, HERE, (b"y",)))
    assert some.tick(10.0) == [], "nothing is left to try"


def test_end_of_the_current_session_is_told_and_the_queue_left_alone() -> None:
    """S000-69."""
    some, key = opened()
    some.answered(key, [Subscribed(b"a"), Subscribed(b"b")], 0.0)
    old = SessionKey(key.slot, key.number, b"old")
    assert some.ended(old, A, 1.0) == []
    assert some.state_of(1, 1, A) is QueueState.ACTIVE
    assert some.ended(key, A, 1.0) == [Announce(End(1, HERE, b"x"))]
    assert some.state_of(1, 1, A) is QueueState.REMOVED
    effects = some.lost(key, 100.0)
    assert effects[0] == Announce(Down(1, HERE, (b"y",)))
    again = SessionKey(key.slot, 2, b"next")
    assert some.connected(again, None, 100.0) == [SendSubs(again, (b"b",))]


def test_end_of_a_queue_that_is_not_ours_is_nothing() -> None:
    some, key = opened([A])
    assert some.ended(key, QueueRow(b"unknown", b"z"), 0.0) == []


def test_a_deleted_queue_is_told_and_marked_from_whichever_session() -> None:
    """S000-69."""
    some, key = opened()
    some.answered(key, [Subscribed(b"a")], 0.0)
    assert some.deleted(1, 1, A, 0.0) == [RemoveQueue(1, b"a"), Announce(Deleted(1, HERE, b"x"))]
    assert some.state_of(1, 1, A) is QueueState.UNKNOWN


def test_a_queue_that_was_deleted_while_it_was_read_is_not_subscribed() -> None:
    world = World()
    row = world.add_queue(1, 1, b"a", b"x")
    world.add_queue(1, 1, b"b", b"y")
    world.do(world.engine.want_all(1, 1, world.now))
    world.run_job(0)
    world.run_job(0)
    world.do(world.engine.remove(1, 1, row, world.now))
    world.deliver(world.read.pop())
    (page,) = world.jobs_of(SendSubs)
    assert page.queues == (b"b",)


def test_what_the_records_do_not_have_is_not_waited_for() -> None:
    """A queue that was removed while its page was on the way is gone, and the others go on."""
    world = World()
    world.add_queue(1, 1, b"a", b"x")
    world.do(world.engine.want_all(1, 1, world.now))
    world.run_job(0)
    world.run_job(0)
    world.deliver(world.read.pop())
    (page,) = world.jobs_of(SendSubs)
    world.do(world.engine.withdrawn(page.session, page.page, page.queues, world.now))
    assert not world.engine.is_busy()
    assert world.engine.state_of(1, 1, QueueRow(b"a", b"x", False)) is QueueState.UNKNOWN


def test_what_is_wanted_again_is_not_withdrawn_with_what_was_removed() -> None:
    world = World()
    row = world.add_queue(1, 1, b"a", b"x")
    world.do(world.engine.want_all(1, 1, world.now))
    world.run_job(0)
    world.run_job(0)
    world.deliver(world.read.pop())
    (page,) = world.jobs_of(SendSubs)
    world.do(world.engine.remove_all(1, 1, [row], world.now))
    world.do(world.engine.want(1, 1, [row], world.now))
    world.do(world.engine.withdrawn(page.session, page.page, page.queues, world.now))
    assert world.engine.state_of(1, 1, row) is QueueState.PENDING


# Locks


def test_a_queue_with_a_get_under_way_is_left_out_and_reported() -> None:
    """S000-55: the others go on, and after the GET it can be subscribed."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    assert some.lock(1, 1, A)
    settled, *_ = some.want(1, 1, ROWS, 0.0)
    assert isinstance(settled, Settled)
    assert [(o.queue, o.failure) for o in settled.outcomes] == [(b"a", PROHIBITED)]
    assert some.state_of(1, 1, A) is QueueState.LOCKED
    assert some.state_of(1, 1, B) is QueueState.PENDING
    some.unlock(1, 1, A)
    some.want(1, 1, [A], 0.0)
    assert some.state_of(1, 1, A) is QueueState.PENDING


def test_what_is_subscribed_cannot_be_read_by_get() -> None:
    some, key = opened()
    some.answered(key, [Subscribed(b"a")], 0.0)
    assert not some.lock(1, 1, A)
    assert not some.lock(1, 1, B)


def test_a_lock_ends_with_its_session() -> None:
    some, key = opened([A])
    assert some.lock(1, 1, B)
    some.lost(key, 0.0)
    assert some.state_of(1, 1, B) is QueueState.UNKNOWN


# Grouping


def test_two_users_have_two_sessions_and_a_user_in_entity_mode_one_for_each_connection() -> None:
    """S000-56, S000-57."""
    world = World()
    world.engine.add_user(2, mode=SessionMode.ENTITY)
    for user in (1, 2):
        for queue, connection in ((b"a", b"x"), (b"b", b"y"), (b"c", b"x")):
            world.add_queue(user, 1, b"%d" % user + queue, b"%d" % user + connection)
        world.do(world.engine.want_all(user, 1, world.now))
    world.run()
    assert set(world.attempts) == {
        SlotKey(1, 1),
        SlotKey(2, 1, b"2x"),
        SlotKey(2, 1, b"2y"),
    }
    assert all(queue.holder for queue in world.routers[1].queues.values())


def test_a_router_that_never_answers_does_not_delay_another() -> None:
    """S000-59."""
    world = World()
    for router in (1, 2):
        world.add_queue(1, router, b"%d" % router, b"x%d" % router)
        world.do(world.engine.want_all(1, router, world.now))
    while world.jobs or world.read:
        world.run_job(0) if world.jobs else world.deliver(world.read.pop())
    world.deliver_next(world.session(2))
    assert world.take_events() == [Up(1, router_address(2), (b"x2",))]


# Pages


def test_pages_follow_each_other_and_at_most_two_are_under_way() -> None:
    """As many together as a page has; the next when the last was answered."""
    world = World(EngineSettings(page=10))
    for n in range(95):
        world.add_queue(1, 1, b"%03d" % n, b"of %d" % n)
    world.do(world.engine.want_all(1, 1, world.now))
    most = 0
    while world.jobs or world.read or any(s.unsent for s in world.known_sessions()):
        most = max(most, len(world.jobs) + len(world.read))
        while world.jobs:
            world.run_job(0)
        if world.read:
            world.deliver(world.read.pop(0))
        else:
            world.deliver_next(world.session(1))
    sizes = [len(effect.queues) for effect in world.log if isinstance(effect, SendSubs)]
    assert sizes == [10] * 9 + [5]
    assert sum(isinstance(effect, ReadPage) for effect in world.log) == 10
    assert most <= 2
    assert len(world.up) == 95


def test_a_page_that_cannot_be_read_is_read_later() -> None:
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.want_all(1, 1, 0.0)
    (ask,) = some.connected(SessionKey(SlotKey(1, 1), 1, b"session"), None, 0.0)
    assert isinstance(ask, ReadPage)
    some.read_failed(1, 1, ask.request, 0.0)
    assert some.tick(1.0) == []
    (again,) = some.tick(2.0)
    assert isinstance(again, ReadPage)
    assert (again.after, again.which) == (ask.after, ask.which)
    assert some.page_read(1, 1, ask.request, [A], False, 3.0) == [], "nobody waits for that one"


def test_a_page_of_a_walk_that_was_begun_anew_is_not_taken_for_one_of_the_new() -> None:
    """S001-85: what it left behind would never be read."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.want_all(1, 1, 0.0)
    (old,) = some.connected(SessionKey(SlotKey(1, 1), 1, b"session"), None, 0.0)
    assert isinstance(old, ReadPage)
    (new,) = some.want_all(1, 1, 0.0)
    assert isinstance(new, ReadPage)
    assert some.page_read(1, 1, old.request, [B], True, 0.0) == []
    assert some.state_of(1, 1, B) is QueueState.UNKNOWN
    some.page_read(1, 1, new.request, [A, B], False, 0.0)
    assert some.state_of(1, 1, B) is QueueState.PENDING


def test_flags_that_were_read_before_they_were_cleared_are_not_believed() -> None:
    """S001-85: otherwise the queue would be left to a service that does not have it."""
    world = World()
    world.engine.add_user(1, services=True)
    world.add_queue(1, 1, b"a", b"x")
    world.do(world.engine.want_all(1, 1, world.now))
    world.run()
    stamp = world.engine.stamp(1, 1)
    row = QueueRow(b"b", b"y", associated=True)
    world.add_queue(1, 1, b"b", b"y")
    world.do(world.engine.set_services(1, False, world.now))
    world.do(world.engine.set_services(1, True, world.now))
    world.run()
    world.do(world.engine.want(1, 1, [row], world.now, stamp))
    world.run()
    assert world.routers[1].queues[b"b"].holder is world.session(1)


# Queues that are created


def service_session() -> tuple[Engine, SessionKey, ServiceId]:
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1, services=True)
    some.need(SlotKey(1, 1), 0.0)
    key, service = SessionKey(SlotKey(1, 1), 1, b"session"), ServiceId(b"ours")
    some.connected(key, service, 0.0)
    return some, key, service


def test_a_queue_that_is_created_for_the_sessions_service_belongs_to_it() -> None:
    """S004-18, S001-64."""
    some, key, service = service_session()
    effects = some.created(key, b"a", b"x", service, 0.0)
    assert effects[0] == StoreNewQueue(1, 1, b"a", b"x", associated=True)
    assert some.state_of(1, 1, A) is QueueState.COUNTED


@pytest.mark.parametrize("service", [None, OTHER_SERVICE])
def test_a_queue_that_is_created_for_another_service_is_kept_as_a_single_one(
    service: ServiceId | None,
) -> None:
    """S004-18: and it is logged."""
    some, key, _ = service_session()
    effects = some.created(key, b"a", b"x", service, 0.0)
    assert [type(effect) for effect in effects[:2]] == [Report, StoreNewQueue]
    assert effects[1] == StoreNewQueue(1, 1, b"a", b"x", associated=False)
    assert some.state_of(1, 1, A) is QueueState.ACTIVE


def test_a_queue_that_was_created_goes_down_with_its_session_and_comes_up_again() -> None:
    some, key = opened([])
    assert some.want(1, 1, [], 0.0) == []
    some.need(key.slot, 0.0)
    some.connected(key, None, 0.0)
    effects = some.created(key, b"a", b"x", None, 0.0)
    assert effects == [StoreNewQueue(1, 1, b"a", b"x", associated=False)]
    assert Announce(Down(1, HERE, (b"x",))) in some.lost(key, 0.0)
    assert some.state_of(1, 1, A) is QueueState.PENDING


def test_a_queue_whose_session_was_replaced_by_the_time_of_the_answer_is_pending() -> None:
    some, key = opened()
    stale = SessionKey(key.slot, 0, b"old")
    some.created(stale, b"new", b"z", None, 0.0)
    assert some.state_of(1, 1, QueueRow(b"new", b"z")) is QueueState.PENDING


def test_an_association_that_the_router_does_not_have_is_cleared() -> None:
    """Flag and tally follow."""
    some, key = opened([QueueRow(b"a", b"x", associated=True)])
    effects = some.answered(key, [Subscribed(b"a")], 0.0)
    assert effects[0] == SetAssociated(1, 1, (b"a",), associated=False)


def test_a_message_in_answer_to_a_subscribe_shows_nothing_of_an_association() -> None:
    """The message is the link's to hand on."""
    some, key = opened([QueueRow(b"a", b"x", associated=True)])
    effects = some.answered(key, [Subscribed(b"a", by_message=True)], 0.0)
    assert not [effect for effect in effects if isinstance(effect, SetAssociated)]

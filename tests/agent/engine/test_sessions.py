"""Sessions come, fail and go; what they show of the service is compared with the records."""

from __future__ import annotations

import pytest

from headgate.agent.engine.answers import Failure
from headgate.agent.engine.effects import (
    Announce,
    CloseSession,
    Connect,
    ConnectRefused,
    DeleteService,
    Effect,
    Report,
    StoreServiceId,
)
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.queue_states import QueueState
from headgate.agent.events import Down, Problem, ProblemKind, ServiceDown, Up
from headgate.agent.model import QueueRow, SessionKey, SessionMode, SlotKey
from headgate.client.smp.failures import FailureKind
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from tests.support.agent_world import UNREACHABLE, World, refused, router_address

X, Y = ServiceId(b"x"), ServiceId(b"y")
SLOT = SlotKey(1, 1)


def engine(services: bool = False, stored: ServiceId | None = None) -> Engine:
    some = Engine()
    some.add_router(1, router_address(1))
    some.add_user(1, services=services)
    if stored is not None:
        some.load_service(1, 1, stored, Tally.of([QueueId(b"old")]))
    return some


def kinds(effects: list[Effect], *types: type[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, types)]


def attempt(some: Engine, now: float = 0.0) -> SessionKey:
    """Need the session; the key that it will have."""
    (connect,) = some.need(SLOT, now)
    assert isinstance(connect, Connect)
    return SessionKey(SLOT, connect.number, b"session %d" % connect.number)


def world_with(*queues: bytes, router: int = 1) -> World:
    world = World()
    for queue in queues:
        world.add_queue(1, router, queue, b"of " + queue)
    world.do(world.engine.want_all(1, router, world.now))
    return world


# Slots


def test_who_needs_an_empty_slot_begins_the_only_attempt() -> None:
    some = engine()
    (connect,) = some.need(SLOT, 0.0)
    assert isinstance(connect, Connect)
    assert not connect.with_service
    assert some.need(SLOT, 0.0) == [], "it is under way, whoever asks"


def test_concurrent_callers_fail_with_the_attempt_for_a_moment() -> None:
    some = engine()
    key = attempt(some)
    some.connect_failed(SLOT, key.number, UNREACHABLE, 10.0)
    assert some.need(SLOT, 12.9) == [ConnectRefused(SLOT, UNREACHABLE)]
    assert kinds(some.need(SLOT, 13.0), Connect)


def test_the_report_of_a_loss_of_another_session_changes_nothing() -> None:
    """S000-80: the number is not that of the session which is here."""
    world = world_with(b"a")
    world.run()
    first = world.session(1)
    world.lose(first)
    world.run_until(world.now + 60)
    second = world.session(1)
    assert second.key.number != first.key.number
    before = world.engine.status()
    assert world.engine.lost(first.key, world.now) == []
    assert world.engine.lost(SessionKey(SLOT, second.key.number, b"other"), world.now) == []
    assert world.engine.status() == before
    assert world.engine.ignored == 2


def test_a_loss_demotes_before_it_is_announced_and_names_each_connection_once() -> None:
    """S000-81, S000-82: the state has changed when the effects are there."""
    world = World()
    row = world.add_queue(1, 1, b"a", b"x")
    world.add_queue(1, 1, b"b", b"x")
    world.do(world.engine.want_all(1, 1, world.now))
    world.run()
    world.now += 100
    effects = world.engine.lost(world.session(1).key, world.now)
    assert world.engine.state_of(1, 1, row) is QueueState.PENDING
    assert effects[0] == Announce(Down(1, router_address(1), (b"x",)))
    # S000-83: then it goes on by itself.
    assert isinstance(effects[1], Connect)


def test_a_connection_that_another_router_holds_does_not_go_down() -> None:
    """S000-82."""
    world = World()
    for router in (1, 2):
        world.add_queue(1, router, b"a", b"x")
        world.do(world.engine.want_all(1, router, world.now))
    world.run()
    assert world.take_events() == [Up(1, router_address(1), (b"x",))]
    world.routers[1].is_up = False
    world.lose(world.session(1))
    world.run()
    assert world.take_events() == []
    world.lose(world.session(2))
    world.run()
    assert world.take_events()[0] == Down(1, router_address(2), (b"x",))


def test_a_session_that_answers_nothing_is_closed_and_tried_again() -> None:
    """S000-86: otherwise half a session would be kept for ever."""
    world = world_with(b"a", b"b")
    world.routers[1].is_silent = True
    world.run()
    assert world.sessions == {}
    assert world.wakes
    world.routers[1].is_silent = False
    world.run_until(world.now + 10)
    assert world.take_events() == [Up(1, router_address(1), (b"of a", b"of b"))]


def test_a_session_with_something_active_is_kept_when_a_batch_fails() -> None:
    world = world_with(b"a")
    world.run()
    session = world.session(1)
    world.routers[1].error = "STORE unavailable"
    world.do(world.engine.want(1, 1, [world.add_queue(1, 1, b"b", b"y")], world.now))
    world.run()
    assert world.session(1) is session


def test_a_new_session_id_without_a_loss_takes_everybody_down_too() -> None:
    world = world_with(b"a")
    world.run()
    session = world.session(1).key
    world.take_events()
    effects = world.engine.connected(SessionKey(SLOT, session.number, b"new"), None, world.now)
    assert effects[0] == Announce(Down(1, router_address(1), (b"of a",)))
    assert world.engine.connected(SessionKey(SLOT, session.number, b"new"), None, 0) == []


def test_a_session_that_nobody_waits_for_is_closed() -> None:
    some = engine()
    key = attempt(some)
    some.connect_failed(SLOT, key.number, UNREACHABLE, 0.0)
    assert some.connected(key, None, 1.0) == [CloseSession(SLOT, key.number)]
    assert some.connect_failed(SLOT, key.number, UNREACHABLE, 1.0) == []
    assert some.lost(key, 1.0) == []


def test_a_router_that_cannot_be_is_announced_once_an_hour_and_tried_rarely() -> None:
    some = engine()
    some.want(1, 1, [QueueRow(b"a", b"x")], 0.0)
    wrong = Failure(FailureKind.HOST, "not this router")
    now, problems, attempts = 0.0, 0, 0
    number = 1
    while now < 3 * 3600:
        effects = some.connect_failed(SLOT, number, wrong, now)
        problems += len(kinds(effects, Announce))
        now += 200
        (connect,) = kinds(some.tick(now), Connect)
        assert isinstance(connect, Connect)
        number, attempts = connect.number, attempts + 1
    assert problems == 3
    assert attempts == 54


def test_a_router_that_is_absent_at_first_comes_up() -> None:
    """S000-84, S000-87: until it is there."""
    world = world_with(b"a")
    world.routers[1].is_up = False
    world.run_until(world.now + 500)
    assert world.take_events() == []
    world.routers[1].is_up = True
    world.run_until(world.now + 200)
    assert world.take_events() == [Up(1, router_address(1), (b"of a",))]


@pytest.mark.parametrize("mode", SessionMode)
def test_down_and_up_alternate_however_often_a_router_stops(mode: SessionMode) -> None:
    """S000-83, S000-85, S000-87: by one worker in both modes, so a failed attempt is repeated."""
    world = world_with(b"a")
    world.do(world.engine.set_mode(1, mode, world.now))
    world.run()
    for _ in range(20):
        (session,) = world.known_sessions()
        world.routers[1].is_up = False
        world.lose(session)
        world.run_until(world.now + 200)
        world.routers[1].is_up = True
        world.run_until(world.now + 200)
    events = world.take_events()
    assert [type(event) for event in events] == [Up] + [Down, Up] * 20


def test_a_worker_that_ends_leaves_the_others_alone() -> None:
    """S000-88: each slot has its own, and what one has left is no other's."""
    world = World()
    for router in (1, 2):
        world.routers[router].is_up = False
        world.add_queue(1, router, b"%d" % router, b"x%d" % router)
        world.do(world.engine.want_all(1, router, world.now))
    world.run_until(world.now + 100)
    world.routers[1].is_up = True
    world.run_until(world.now + 200)
    assert world.take_events() == [Up(1, router_address(1), (b"x1",))]
    world.routers[2].is_up = True
    world.run_until(world.now + 200)
    assert world.take_events() == [Up(1, router_address(2), (b"x2",))]


# Services after a connect


def test_the_first_id_is_stored() -> None:
    """There was none before the first handshake."""
    some = engine(services=True)
    effects = some.connected(attempt(some), X, 0.0)
    assert kinds(effects, StoreServiceId, DeleteService) == [StoreServiceId(1, 1, X)]


def test_the_same_id_changes_nothing() -> None:
    """S001-77."""
    some = engine(services=True, stored=X)
    assert some.connected(attempt(some), X, 0.0) == []


def test_another_id_clears_the_associations_and_all_queues_are_subscribed_again() -> None:
    """S001-78, S004-23: in one transaction; and nobody is forgotten."""
    some = engine(services=True, stored=X)
    effects = some.connected(attempt(some), Y, 0.0)
    assert effects[0] == StoreServiceId(1, 1, Y, clear=True)


def test_after_another_id_every_queue_is_associated_anew() -> None:
    """S001-78, S004-23."""
    world = service_world()
    world.forget_services(world.routers[1], ids_too=True)
    world.lose(world.session(1))
    world.run_until(world.now + 60)
    assert world.records.tally((1, 1)) == Tally.of([QueueId(b"a"), QueueId(b"b")])
    assert {q.holder for q in world.routers[1].queues.values()} == {world.session(1)}


def test_a_router_without_services_makes_the_record_go() -> None:
    """S001-79."""
    some = engine(services=True, stored=X)
    effects = some.connected(attempt(some), None, 0.0)
    assert effects[0] == DeleteService(1, 1)
    assert kinds(effects, Announce)


def test_a_record_that_was_never_used_goes_without_an_event() -> None:
    """S001-79."""
    some = engine(services=True)
    assert some.connected(attempt(some), None, 0.0) == [DeleteService(1, 1)]


def test_a_router_that_is_too_old_to_be_shown_a_service_costs_no_certificate() -> None:
    """The session is a plain one."""
    some = engine(services=True)
    assert some.connected(attempt(some), None, 0.0, shown=False) == []


def test_an_id_that_nobody_asked_for_is_logged_and_ignored() -> None:
    """S001-80."""
    some = engine()
    effects = some.connected(attempt(some), X, 0.0)
    assert [type(effect) for effect in effects] == [Report]


def test_a_service_that_cannot_be_looked_up_is_tried_again_and_keeps_its_record() -> None:
    """S004-19."""
    some = engine(services=True, stored=X)
    some.want(1, 1, [QueueRow(b"a", b"x")], 0.0)
    effects = some.connect_failed(SLOT, 1, refused("HANDSHAKE BAD_SERVICE"), 0.0)
    assert kinds(effects, DeleteService, Announce) == []
    (connect,) = kinds(some.tick(3.0), Connect)
    assert isinstance(connect, Connect)
    assert connect.with_service


# The fallback


def service_world(*queues: bytes) -> World:
    world = World()
    world.engine.add_user(1, services=True)
    for queue in queues or (b"a", b"b"):
        world.add_queue(1, 1, queue, b"of " + queue)
    world.do(world.engine.want_all(1, 1, world.now))
    world.run()
    world.now += 60
    return world


@pytest.mark.parametrize("error", ["NO_SERVICE", "SERVICE", "PROXY BROKER NO_SERVICE"])
def test_a_service_error_makes_all_queues_single_until_they_are_answered(error: str) -> None:
    """S001-83, S001-84, S001-85, S004-24: record and flags go at once, and new credentials come."""
    world = service_world()
    first = world.records.certificates[1, 1]
    world.routers[1].service_error = error
    world.lose(world.session(1))
    world.run()
    events = world.take_events()
    assert [type(event) for event in events] == [Up, ServiceDown, Problem, Up]
    assert isinstance(events[2], Problem)
    assert events[2].kind is ProblemKind.SERVICE
    assert world.records.certificates[1, 1] != first
    assert {q.holder for q in world.routers[1].queues.values()} == {world.session(1)}
    assert world.records.tally((1, 1)).count == 2


def test_after_two_service_errors_the_next_session_is_plain_and_the_one_after_is_not() -> None:
    """S001-85: no queue is forgotten, and the router is not asked in a circle."""
    world = service_world()
    world.routers[1].error = world.routers[1].service_error = "SERVICE"
    world.lose(world.session(1))
    world.run_until(world.now + 60)
    # At first, after the loss, with a new certificate, and without.
    connects = [effect for effect in world.log if isinstance(effect, Connect)]
    assert [connect.with_service for connect in connects] == [True, True, True, False]
    assert {q.holder for q in world.routers[1].queues.values()} == {world.session(1)}
    world.routers[1].error = world.routers[1].service_error = None
    world.lose(world.session(1))
    world.run_until(world.now + 60)
    assert world.session(1).service is not None
    assert world.records.tally((1, 1)).count == 2


def test_a_service_error_of_one_router_leaves_the_other_alone() -> None:
    """S004-20."""
    world = service_world()
    world.add_queue(1, 2, b"c", b"of c")
    world.do(world.engine.want_all(1, 2, world.now))
    world.run()
    kept = world.records.tally((1, 2))
    assert kept.count == 1
    world.routers[1].service_error = "SERVICE"
    world.lose(world.session(1))
    world.run()
    assert kinds(world.log, DeleteService) == [DeleteService(1, 1)]
    assert world.records.tally((1, 2)) == kept


def test_a_router_that_forgot_services_on_reconnect_costs_nothing() -> None:
    """S001-79, S004-23."""
    world = service_world()
    world.routers[1].offers_services = False
    world.lose(world.session(1))
    world.run()
    assert [type(e) for e in world.take_events()] == [Up, ServiceDown, Problem, Up]
    assert world.records.tally((1, 1)) == NOTHING
    assert (1, 1) not in world.records.certificates
    assert {q.holder for q in world.routers[1].queues.values()} == {world.session(1)}

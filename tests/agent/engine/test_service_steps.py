"""The subscription of a service against a router, and what the application gets to know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.agent.engine.answers import TIMED_OUT, NotSubscribed, Subscribed
from headgate.agent.engine.effects import (
    Announce,
    ClearAssociations,
    ReadTally,
    Report,
    SendServiceSub,
    SendSubs,
    SetAssociated,
)
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.queue_states import QueueState
from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.settings import MESSAGING, NOTIFIER, EngineSettings
from headgate.agent.events import (
    Down,
    End,
    Mismatch,
    Problem,
    ServiceAll,
    ServiceDown,
    ServiceEnd,
    ServiceUp,
    Up,
)
from headgate.agent.model import QueueRow, SessionKey, SlotKey
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from tests.support.agent_world import OTHER, Records, World, refused, router_address

HERE = router_address(1)
OURS = ServiceId(b"ours")
ALL = (b"a", b"b", b"c")


def tally(*queues: bytes) -> Tally:
    return Tally.of(QueueId(queue) for queue in queues)


def first_start(settings: EngineSettings = MESSAGING) -> World:
    world = World(settings)
    world.engine.add_user(1, services=True)
    for queue in ALL:
        world.add_queue(1, 1, queue, b"of " + queue)
    world.do(world.engine.want_all(1, 1, world.now))
    world.run()
    return world


def restart(before: World) -> World:
    """Another agent with the records and routers of the first."""
    world = World(before.engine.settings)
    world.engine.add_user(1, services=True)
    world.records, world.routers = before.records, before.routers
    for session in before.known_sessions():
        before._hang_up(session)
    service = world.records.services[1, 1]
    world.do(world.engine.load_service(1, 1, service, world.records.tally((1, 1))))
    world.do(world.engine.want_all(1, 1, world.now))
    return world


def reconnect(world: World) -> None:
    world.take_events()
    world.now += 60
    world.lose(world.session(1))
    world.log.clear()
    world.run()


def held(world: World) -> set[object]:
    return {queue.holder for queue in world.routers[1].queues.values()}


def sent(world: World) -> list[type]:
    return [type(effect) for effect in world.log if isinstance(effect, SendSubs | SendServiceSub)]


def test_at_the_first_start_queues_associate_themselves() -> None:
    """S001-64, S001-65, S001-70: they count in the tally and are not active."""
    world = first_start()
    assert world.records.tally((1, 1)) == tally(*ALL)
    (status,) = world.engine.status()
    assert (status.pending, status.active, status.tally) == (0, 0, tally(*ALL))
    row = world.records.row((1, 1), b"a")
    assert world.engine.state_of(1, 1, row) is QueueState.COUNTED
    assert world.engine.service_of(1, 1) is ServiceState.ACTIVE
    assert world.take_events() == [Up(1, HERE, tuple(b"of " + queue for queue in ALL))]


def test_the_associations_of_a_batch_are_stored_together() -> None:
    world = first_start()
    stored = [effect for effect in world.log if isinstance(effect, SetAssociated)]
    assert stored == [SetAssociated(1, 1, ALL, associated=True)]


def test_at_the_second_start_one_subscribe_is_for_all_and_no_event_names_a_connection() -> None:
    """S001-68, S001-69, S001-73, S001-75, S001-76, S001-77."""
    world = restart(first_start())
    world.run()
    assert sent(world) == [SendServiceSub]
    assert world.take_events() == [ServiceUp(1, HERE, tally(*ALL)), ServiceAll(1, HERE)]
    assert held(world) == {world.session(1)}


def test_the_end_of_the_sweep_may_come_before_the_answer() -> None:
    """S001-75."""
    world = restart(first_start())
    while not any(isinstance(job, SendServiceSub) for job in world.jobs):
        world.run_job(0) if world.jobs else world.deliver(world.read.pop(0))
    key = world.session(1).key
    assert world.engine.service_swept(key) == [Announce(ServiceAll(1, HERE))]


def test_after_a_reconnect_the_service_is_first() -> None:
    """S001-71, S001-74, S001-81."""
    world = first_start()
    world.do(world.engine.unwant(1, 1, [], world.now))
    reconnect(world)
    assert sent(world) == [SendServiceSub]
    assert world.take_events() == [
        ServiceDown(1, HERE, tally(*ALL)),
        ServiceUp(1, HERE, tally(*ALL)),
        ServiceAll(1, HERE),
    ]
    world.now += 60
    world.lose(world.session(1))
    world.do(world.engine.want(1, 1, [world.add_queue(1, 1, b"d", b"of d")], world.now))
    world.log.clear()
    world.run()
    assert sent(world) == [SendServiceSub, SendSubs]


def asked() -> tuple[Engine, SessionKey]:
    """An engine that has sent the subscribe of a service with three queues."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1, services=True)
    some.load_service(1, 1, OURS, tally(*ALL))
    some.want(1, 1, [QueueRow(b"single", b"x")], 0.0)
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    assert some.connected(key, OURS, 0.0) == [ReadTally(key)]
    assert some.tally_read(key, tally(*ALL), 0.0) == [SendServiceSub(key, OURS, tally(*ALL))]
    return some, key


def test_the_answer_of_another_session_leaves_the_service_pending() -> None:
    """S001-67."""
    some, key = asked()
    stale = SessionKey(key.slot, key.number, b"other")
    assert some.service_confirmed(stale, OURS, tally(*ALL), 0.0) == []
    assert some.service_of(1, 1) is ServiceState.ASKED
    assert some.tally_read(stale, NOTHING, 0.0) == []
    assert some.service_failed(stale, refused("SERVICE"), 0.0) == []
    assert some.service_ended(stale, OURS, 0.0) == []
    assert some.service_swept(stale) == []


def test_a_late_answer_counts_and_a_second_does_not() -> None:
    some, key = asked()
    some.service_failed(key, TIMED_OUT, 0.0)
    some.answered(key, [Subscribed(b"single", OURS)], 0.0)
    effects = some.service_confirmed(key, OURS, tally(*ALL, b"single"), 1.0)
    assert [type(e.event) for e in effects if isinstance(e, Announce)] == [ServiceUp]
    assert some.service_confirmed(key, OURS, tally(*ALL), 1.0) == []
    assert some.tally_read(key, NOTHING, 1.0) == []


def test_what_waits_and_belongs_to_the_service_needs_no_subscribe() -> None:
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1, services=True)
    some.load_service(1, 1, OURS, tally(b"a"))
    row = QueueRow(b"a", b"x", associated=True)
    some.want(1, 1, [row], 0.0)
    assert some.state_of(1, 1, row) is QueueState.PENDING
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    some.connected(key, OURS, 0.0)
    some.tally_read(key, tally(b"a"), 0.0)
    effects = some.service_confirmed(key, OURS, tally(b"a"), 0.0)
    assert not [effect for effect in effects if isinstance(effect, SendSubs)]
    assert some.state_of(1, 1, row) is QueueState.COUNTED
    # S000-72: nor does asking for it again.
    assert len(some.want(1, 1, [row], 0.0)) == 1


def test_what_seems_to_belong_to_a_service_without_queues_is_subscribed() -> None:
    """S001-85: the row was read before the flags were cleared."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1, services=True)
    some.want(1, 1, [QueueRow(b"a", b"x", associated=True)], 0.0)
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    some.connected(key, OURS, 0.0)
    assert some.tally_read(key, NOTHING, 0.0) == [SendSubs(key, (b"a",))]


def test_a_temporary_error_lets_single_queues_go_on_and_is_tried_again() -> None:
    some, key = asked()
    effects = some.service_failed(key, refused("STORE unavailable"), 0.0)
    assert effects == [SendSubs(key, (b"single",))]
    some.answered(key, [Subscribed(b"single", OURS)], 0.0)
    assert some.service_of(1, 1) is ServiceState.POSTPONED
    assert some.tick(3.0) == [ReadTally(key)]


def test_a_session_whose_service_is_not_answered_is_closed() -> None:
    world = restart(first_start())
    world.routers[1].is_silent = True
    world.run()
    assert world.sessions == {}
    world.routers[1].is_silent = False
    world.run_until(world.now + 10)
    assert ServiceUp(1, HERE, tally(*ALL)) in world.take_events()


# Drift


def test_a_router_that_lost_one_queue_is_repaired_in_the_background() -> None:
    """S001-73, S004-23: the queue is associated again by a subscribe of its own."""
    world = first_start()
    world.routers[1].queues[b"b"].service = None
    reconnect(world)
    assert world.take_events() == [
        ServiceDown(1, HERE, tally(*ALL)),
        ServiceUp(1, HERE, tally(b"a", b"c"), Mismatch.FEWER),
        ServiceAll(1, HERE),
    ]
    assert sent(world) == [SendServiceSub, SendSubs]
    assert held(world) == {world.session(1)}
    reconnect(world)
    assert ServiceUp(1, HERE, tally(*ALL)) in world.take_events()


def test_without_repair_a_drift_is_only_told() -> None:
    """S001-73."""
    world = first_start(replace(MESSAGING, repair=False))
    world.routers[1].queues[b"b"].service = None
    reconnect(world)
    assert sent(world) == [SendServiceSub]


def test_a_queue_that_the_router_does_not_have_leaves_the_tally() -> None:
    """Found by the repair."""
    world = first_start()
    del world.routers[1].queues[b"b"]
    reconnect(world)
    assert world.records.tally((1, 1)) == tally(b"a", b"c")
    assert [type(e) for e in world.take_events()][-2:] == [ServiceAll, Problem]


def test_a_repair_that_fails_for_a_moment_is_taken_up_again() -> None:
    world = first_start()
    world.routers[1].queues[b"b"].service = None
    world.routers[1].error = "STORE unavailable"
    reconnect(world)
    assert world.routers[1].queues[b"b"].holder is None
    world.routers[1].error = None
    world.run_until(world.now + 10)
    assert held(world) == {world.session(1)}


def test_a_repaired_queue_that_is_of_no_service_is_active() -> None:
    world = first_start()
    world.routers[1].queues[b"b"].service = None
    world.take_events()
    world.now += 60
    world.lose(world.session(1))
    while not any(isinstance(job, SendSubs) for job in world.jobs):
        next(world.pending_steps())()
    key = world.session(1).key
    effects = world.engine.answered(key, [Subscribed(b"b", ServiceId(b"other"))], world.now)
    assert SetAssociated(1, 1, (b"b",), associated=False) in effects
    assert Announce(Up(1, HERE, (b"of b",))) in effects


def test_a_router_that_has_none_of_them_gets_all_anew() -> None:
    """S001-82, S004-23: singly, each pending until its own answer."""
    world = first_start()
    world.forget_services(world.routers[1], ids_too=False)
    reconnect(world)
    assert ClearAssociations(1, 1) in world.log
    assert [type(event) for event in world.take_events()] == [
        ServiceDown,
        ServiceUp,
        ServiceAll,
        Up,
    ]
    assert world.records.tally((1, 1)) == tally(*ALL)
    assert held(world) == {world.session(1)}


def test_an_answer_for_another_service_leads_to_single_subscriptions() -> None:
    """S001-82."""
    some, key = asked()
    effects = some.service_confirmed(key, ServiceId(b"other"), tally(*ALL), 0.0)
    assert effects[0] == ClearAssociations(1, 1)
    events = [effect.event for effect in effects if isinstance(effect, Announce)]
    assert events == [ServiceUp(1, HERE, tally(*ALL), Mismatch.SERVICE)]
    (status,) = some.status()
    assert status.is_reading


# Ends


def test_a_service_that_another_client_took_is_left_alone_for_five_minutes() -> None:
    """S001-72, S001-75: its entity is the service."""
    world = first_start()
    world.take_events()
    world.take_service(world.session(1))
    world.run()
    assert world.take_events() == [ServiceEnd(1, HERE, tally(*ALL))]
    assert world.engine.service_of(1, 1) is ServiceState.ENDED
    world.run_until(world.now + 299)
    assert held(world) == {OTHER}
    world.run_until(world.now + 2)
    assert held(world) == {world.session(1)}
    assert world.take_events()[0] == ServiceUp(1, HERE, tally(*ALL))


def test_a_service_that_was_taken_comes_back_at_once_when_asked_for() -> None:
    world = first_start()
    world.take_service(world.session(1))
    world.run()
    world.do(world.engine.want_all(1, 1, world.now))
    world.run()
    assert held(world) == {world.session(1)}


def test_the_end_of_another_service_is_logged() -> None:
    some, key = asked()
    effects = some.service_ended(key, ServiceId(b"a queue, perhaps"), 0.0)
    assert [type(effect) for effect in effects] == [Report]
    assert some.service_of(1, 1) is ServiceState.ASKED


def test_a_queue_that_was_asked_for_while_its_service_is_taken_is_single_until_it_is_not() -> None:
    world = first_start()
    world.take_service(world.session(1))
    world.run()
    row = world.records.row((1, 1), b"a")
    world.take_events()
    world.do(world.engine.want(1, 1, [row], world.now))
    world.run()
    assert world.take_events() == [Up(1, HERE, (b"of a",))]
    world.now += 60
    world.lose(world.session(1))
    world.run()
    assert world.take_events() == [Down(1, HERE, (b"of a",)), Up(1, HERE, (b"of a",))]


def test_a_second_end_of_a_service_is_nothing() -> None:
    world = first_start()
    world.take_service(world.session(1))
    world.run()
    world.take_events()
    world.take_service(world.session(1))
    world.run()
    assert world.take_events() == []


def test_who_takes_one_queue_of_a_service_takes_it_out_of_the_tally() -> None:
    """S000-69."""
    world = first_start()
    world.take_events()
    world.take_queue(world.routers[1], b"b")
    world.run()
    assert world.take_events() == [End(1, HERE, b"of b")]
    assert world.records.tally((1, 1)) == tally(b"a", b"c")
    reconnect(world)
    assert ServiceUp(1, HERE, tally(b"a", b"c")) in world.take_events()
    assert world.routers[1].queues[b"b"].holder == OTHER


def test_a_late_answer_associates_as_a_timely_one_does() -> None:
    """S004-17."""
    some, key = asked()
    some.service_confirmed(key, OURS, tally(*ALL), 0.0)
    some.answered(key, [NotSubscribed(b"single", TIMED_OUT)], 0.0)
    effects = some.answered(key, [Subscribed(b"single", OURS)], 60.0)
    assert effects[0] == SetAssociated(1, 1, (b"single",), associated=True)


# The notifier


def test_a_notifier_subscribes_its_service_and_then_every_queue() -> None:
    """Associated ones included, in pages."""
    world = restart(first_start(replace(NOTIFIER, page=2)))
    world.run()
    assert sent(world) == [SendServiceSub, SendSubs, SendSubs]
    assert world.take_events() == [ServiceUp(1, HERE, tally(*ALL))]
    assert world.records.tally((1, 1)) == tally(*ALL)


def test_drift_does_not_stop_a_notifier() -> None:
    """The subscribes that follow repair it."""
    before = first_start(replace(NOTIFIER, page=2))
    before.routers[1].queues[b"a"].service = None
    world = restart(before)
    world.run()
    assert sent(world) == [SendServiceSub, SendSubs, SendSubs]
    assert held(world) == {world.session(1)}


def test_a_notifier_has_no_end_of_a_sweep() -> None:
    world = first_start(NOTIFIER)
    effects = world.engine.service_swept(world.session(1).key)
    assert [type(effect) for effect in effects] == [Report]


@pytest.mark.parametrize("settings", [MESSAGING, NOTIFIER])
def test_after_a_service_error_everything_is_subscribed_singly(settings: EngineSettings) -> None:
    """Credentials, tally and flags of that router go."""
    world = restart(first_start(settings))
    world.routers[1].service_error = "SERVICE"
    world.routers[1].offers_services = True
    world.run_until(world.now + 60)
    assert held(world) == {world.session(1)}
    assert isinstance(world.records, Records)
    assert Problem in [type(event) for event in world.take_events()]

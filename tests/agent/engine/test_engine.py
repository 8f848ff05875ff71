"""Users, modes, flags and suspending; and what many queues cost."""

from __future__ import annotations

import tracemalloc

import pytest

from headgate.agent.engine.answers import Subscribed
from headgate.agent.engine.effects import (
    Announce,
    CloseSession,
    Connect,
    DeleteService,
    ReadPage,
    SendSubs,
)
from headgate.agent.engine.engine import Engine
from headgate.agent.events import Down, ProblemKind, Suspended, Up
from headgate.agent.events import Problem as ProblemEvent
from headgate.agent.model import QueueRow, SessionKey, SessionMode, SlotKey
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from headgate.errors import ConfigError
from tests.support.agent_world import World, WorldSession, router_address

HERE = router_address(1)


def started(services: bool = False, queues: int = 4) -> World:
    world = World()
    world.engine.add_user(1, services=services)
    for n in range(queues):
        world.add_queue(1, 1, b"q%d" % n, b"c%d" % (n // 2))
    world.do(world.engine.want_all(1, 1, world.now))
    world.run()
    world.take_events()
    world.now += 60
    return world


def holders(world: World) -> set[SlotKey]:
    found = set()
    for queue in world.routers[1].queues.values():
        assert isinstance(queue.holder, WorldSession)
        found.add(queue.holder.key.slot)
    return found


def test_services_and_one_session_for_each_connection_are_refused_together() -> None:
    """S004-15: when configured and when switched."""
    some = Engine()
    with pytest.raises(ConfigError, match="one session for each router"):
        some.add_user(1, services=True, mode=SessionMode.ENTITY)
    some.add_user(1, services=True)
    with pytest.raises(ConfigError):
        some.set_mode(1, SessionMode.ENTITY, 0.0)
    some.add_user(2, mode=SessionMode.ENTITY)
    with pytest.raises(ConfigError):
        some.set_services(2, True, 0.0)


def test_switching_the_mode_subscribes_everything_anew() -> None:
    """S000-57: all sessions end, and every queue is in a slot of the new kind."""
    world = started()
    world.do(world.engine.set_mode(1, SessionMode.ENTITY, world.now))
    world.run()
    assert holders(world) == {SlotKey(1, 1, b"c0"), SlotKey(1, 1, b"c1")}
    assert set(world.attempts) == holders(world)
    assert world.take_events() == [
        Down(1, HERE, (b"c0", b"c1")),
        Up(1, HERE, (b"c0",)),
        Up(1, HERE, (b"c1",)),
    ]
    world.do(world.engine.set_mode(1, SessionMode.SHARED, world.now))
    world.run()
    assert holders(world) == {SlotKey(1, 1)}
    assert set(world.attempts) == holders(world)


def test_switching_the_mode_loses_nothing_that_is_still_to_be_read() -> None:
    world = World()
    for n in range(4):
        world.add_queue(1, 1, b"q%d" % n, b"c%d" % n)
    world.do(world.engine.want_all(1, 1, world.now))
    world.do(world.engine.set_mode(1, SessionMode.ENTITY, world.now))
    world.run()
    assert len(holders(world)) == 4


def test_switching_services_off_deletes_record_and_flags_and_messages_keep_coming() -> None:
    """S004-21, S004-22."""
    world = started(services=True)
    assert world.records.tally((1, 1)).count == 4
    world.do(world.engine.set_services(1, False, world.now))
    world.run()
    assert world.records.tally((1, 1)) == NOTHING
    assert (1, 1) not in world.records.services
    assert holders(world) == {SlotKey(1, 1)}
    assert world.session(1).service is None
    # And on again: they associate.
    world.do(world.engine.set_services(1, True, world.now))
    world.run()
    assert world.records.tally((1, 1)).count == 4
    assert holders(world) == {SlotKey(1, 1)}


def test_services_that_were_switched_off_before_the_start_are_deleted() -> None:
    """S004-21."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    effects = some.load_service(1, 1, ServiceId(b"x"), Tally.of([QueueId(b"a")]))
    assert effects == [DeleteService(1, 1)]
    (connect,) = some.want_all(1, 1, 0.0)
    assert isinstance(connect, Connect)
    assert not connect.with_service


def test_nothing_is_tried_offline_or_in_the_background_and_everything_when_that_ends() -> None:
    """S000-84: and the pauses begin anew."""
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.set_online(False, 0.0)
    some.set_foreground(False, 0.0)
    assert some.want(1, 1, [QueueRow(b"a", b"x")], 0.0) == []
    assert some.tick(1000.0) == []
    assert some.set_online(True, 1000.0) == []
    (connect,) = some.set_foreground(True, 1000.0)
    assert isinstance(connect, Connect)


def test_suspended_is_announced_when_nothing_is_under_way_and_resuming_goes_on() -> None:
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.want(1, 1, [QueueRow(b"a", b"x")], 0.0)
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    some.connected(key, None, 0.0)
    assert some.suspend() == []
    assert some.want(1, 1, [QueueRow(b"b", b"y")], 0.0) == []
    effects = some.answered(key, [Subscribed(b"a")], 0.0)
    assert effects[-1] == Announce(Suspended())
    assert some.suspend() == []
    assert some.tick(100.0) == []
    assert some.resume(100.0) == [SendSubs(key, (b"b",))]


def test_suspending_need_not_wait_for_ever() -> None:
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.want(1, 1, [QueueRow(b"a", b"x")], 0.0)
    some.connected(SessionKey(SlotKey(1, 1), 1, b"session"), None, 0.0)
    assert some.suspend() == []
    assert some.suspend_now() == [Announce(Suspended())]
    assert some.suspend_now() == []


def test_a_step_of_the_shell_that_fails_is_tried_again_and_at_last_rarely() -> None:
    some = Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    some.want(1, 1, [QueueRow(b"a", b"x"), QueueRow(b"b", b"y")], 0.0)
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    some.connected(key, None, 0.0)
    some.answered(key, [Subscribed(b"a")], 0.0)
    kinds, now = [], 0.0
    for _ in range(6):
        effects = some.step_failed(key, "a fault", now)
        kinds += [
            effect.event.kind
            for effect in effects
            if isinstance(effect, Announce) and isinstance(effect.event, ProblemEvent)
        ]
        now += 5
        sent = some.tick(now)
    assert kinds == [ProblemKind.STEP] * 5 + [ProblemKind.CRITICAL]
    assert sent == []
    assert SendSubs(key, (b"b",)) in some.tick(now + 200)


def test_sessions_that_are_closed_for_a_switch_are_not_reported() -> None:
    world = started()
    session = world.session(1)
    effects = world.engine.set_mode(1, SessionMode.ENTITY, world.now)
    assert CloseSession(SlotKey(1, 1), session.key.number) in effects
    assert world.engine.lost(session.key, world.now) == []


def test_a_queue_takes_little_memory_and_pages_are_few() -> None:
    """What is kept of each is its id and its connection; pages are counted."""
    number, some = 20_000, Engine()
    some.add_router(1, HERE)
    some.add_user(1)
    key = SessionKey(SlotKey(1, 1), 1, b"session")
    tracemalloc.start()
    try:
        some.want_all(1, 1, 0.0)
        todo = some.connected(key, None, 0.0)
        pages = reads = up = made = 0
        while todo:
            effect = todo.pop(0)
            if isinstance(effect, ReadPage):
                reads += 1
                size = min(effect.limit, number - made)
                rows = [
                    QueueRow(n.to_bytes(24, "big"), n.to_bytes(12, "big"))
                    for n in range(made, made + size)
                ]
                made += size
                todo += some.page_read(1, 1, effect.request, rows, made < number, 0.0)
            elif isinstance(effect, SendSubs):
                pages += 1
                todo += some.answered(key, [Subscribed(queue) for queue in effect.queues], 0.0)
            elif isinstance(effect, Announce) and isinstance(effect.event, Up):
                up += len(effect.event.connections)
        taken, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (pages, reads, up) == (15, 15, number)
    assert taken / number < 600
    assert most / number < 1000

"""The agent with routers of ours."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headgate.agent
from headgate.agent.agent import Agent
from headgate.agent.engine.backoff import Delays
from headgate.agent.engine.slots import Phase
from headgate.agent.events import (
    Deleted,
    Down,
    End,
    Message,
    NamedQueue,
    Receipt,
    Sent,
    ServiceAll,
    ServiceDown,
    ServiceUp,
    Suspended,
    Up,
)
from headgate.agent.model import QueueRow, RouterId, SessionMode, UserId
from headgate.agent.records import Records, connections, receive_queues, services
from headgate.agent.records.connections import ConnectionKind, ConnectionRecord
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.subscribe_calls import SubscribeState
from headgate.agent.tickets import Ticket
from headgate.client.smp import requests
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import Tally
from headgate.errors import Closed, ConfigError, LinkUsed, StoreError
from headgate.wire.smp.codec import replies as r
from tests.agent.conftest import StartRig
from tests.support.agent_scene import (
    QUICK,
    EventLog,
    as_record,
    connection_id,
    keep,
    opened,
    shell_of,
    soon,
    store_queues,
)
from tests.support.smp_peer import is_cancelled_at
from tests.support.smp_router import Rig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def everybody(count: int) -> set[bytes]:
    return {connection_id(n) for n in range(count)}


@pytest.mark.parametrize("session", ["shared", "entity"])
async def test_up_and_down_alternate_however_often_a_router_stops(
    rig: Rig, path: Path, session: str
) -> None:
    """S000-83, S000-84, S000-85, S000-86, S000-87, ACC-97: DOWN names who was up, UP follows."""
    await store_queues(path, rig, 3)
    async with opened(path, session=session) as (_, log):
        moves: dict[bytes, list[type]] = {connection: [] for connection in everybody(3)}

        async def move(kind: type[Up | Down]) -> None:
            """Read until each connection has gone this way once more."""
            left = everybody(3)
            while left:
                event = await log.next_of(Up, Down)
                assert isinstance(event, Up | Down)
                for connection in event.connections:
                    moves[connection].append(type(event))
                if isinstance(event, kind):
                    left -= set(event.connections)

        await move(Up)
        for _ in range(20):
            await rig.stop()
            await move(Down)
            await rig.start()
            await move(Up)
    for moved in moves.values():
        assert moved == [Up, *[Down, Up] * 20]


async def test_a_router_that_is_absent_at_the_start(rig: Rig, path: Path) -> None:
    """S000-83, ACC-98: opening does not wait for it, and it is up when the router is there."""
    await store_queues(path, rig, 2)
    await rig.stop()
    async with opened(path) as (agent, log):
        result = (await agent.subscribe([connection_id(0)]))[connection_id(0)]
        assert result.state is SubscribeState.PENDING
        await rig.start()
        await log.until(lambda: sum(len(up.connections) for up in log.of(Up)) == 2)
        assert {each for up in log.of(Up) for each in up.connections} == everybody(2)
        assert not log.of(Down)
        (status,) = agent.status()
        assert (status.router, status.phase, status.active) == (rig.address, Phase.OPEN, 2)


async def test_turning_the_network_on_tries_at_once(rig: Rig, path: Path) -> None:
    """S000-84."""
    await store_queues(path, rig, 1)
    await rig.stop()
    never = replace(QUICK, engine=replace(QUICK.engine, delays=Delays(first=1e6, longest=1e6)))
    async with opened(path, settings=never) as (agent, log):
        result = (await agent.subscribe([connection_id(0)]))[connection_id(0)]
        assert result.state is SubscribeState.PENDING
        await rig.start()
        agent.set_online(False)
        agent.set_online(True)
        assert set((await log.next_of(Up)).connections) == everybody(1)


async def test_what_subscribing_comes_to(rig: Rig, path: Path) -> None:
    """S000-52, S000-53: new connections and those that only send need no network."""
    place, _ = await store_queues(path, rig, 1)
    async with await Records.open(path) as records:
        for n, kind in ((7, ConnectionKind.NEW), (8, ConnectionKind.SEND)):
            record = ConnectionRecord(connection_id(n), place.user, kind)
            await records.write(connections.add, record)
    async with opened(path) as (agent, _):
        found = await agent.subscribe(connection_id(n) for n in (0, 7, 8, 9))
        assert [result.state for result in found.values()] == [
            SubscribeState.SUBSCRIBED,
            SubscribeState.NOT_NEEDED,
            SubscribeState.NOT_NEEDED,
            SubscribeState.UNKNOWN,
        ]
    await rig.stop()
    async with opened(path) as (agent, _):
        found = await agent.subscribe([connection_id(7), connection_id(8)])
        assert all(result.is_ok for result in found.values())
        assert await agent.subscribe([]) == {}


async def test_a_queue_that_is_being_fetched_from_is_left_out(rig: Rig, path: Path) -> None:
    """S000-55: and reported; the others are subscribed, and it can be afterwards."""
    place, (first, _) = await store_queues(path, rig, 2)
    async with shell_of(path, subscribes=False) as scene:
        row = QueueRow(first.id, connection_id(0))
        assert scene.shell.lock(place.user, place.router, row)
        found = await scene.shell.subscribe(everybody(2))
        assert found[connection_id(0)].state is SubscribeState.PROHIBITED
        assert found[connection_id(1)].is_ok
        scene.shell.unlock(place.user, place.router, row)
        found = await scene.shell.subscribe(everybody(2))
        assert all(result.is_ok for result in found.values())
        assert not scene.shell.lock(place.user, place.router, row)


async def test_whoever_takes_a_queue_keeps_it(rig: Rig, path: Path) -> None:
    """S000-69: END is announced, and the queue not subscribed again until somebody asks."""
    _, (first, second) = await store_queues(path, rig, 2)
    async with opened(path) as (agent, log):
        await log.next_of(Up)
        other = await rig.connect()
        await other.subscribe(first)
        assert (await log.next_of(End)).connection == connection_id(0)
        await rig.restart()
        up = await log.next_of(Up)
        assert up.connections == (connection_id(1),)
        found = await agent.subscribe([connection_id(0)])
        assert found[connection_id(0)].is_ok
        assert (await log.next_of(Up)).connections == (connection_id(0),)
        assert second.id != first.id


async def test_a_queue_that_is_deleted_at_its_router(rig: Rig, path: Path) -> None:
    """S000-69: DELD is announced, and the records know it."""
    place, (first, _) = await store_queues(path, rig, 2)
    async with opened(path) as (_, log):
        await log.next_of(Up)
        other = await rig.connect()
        await other.ask(requests.delete(first.id, first.key))
        assert (await log.next_of(Deleted)).connection == connection_id(0)
    async with await Records.open(path) as records:
        kept = await records.read(receive_queues.get, (place.router, first.id))
        assert kept is not None
        assert kept.deleted


async def test_changing_the_mode_subscribes_everything_anew(rig: Rig, path: Path) -> None:
    """S000-57, ACC-107: without a message lost."""
    _, (queue, *_) = await store_queues(path, rig, 3)
    async with shell_of(path) as scene:
        await soon(lambda: scene.up == everybody(3))
        assert len(scene.shell.status()) == 1
        scene.shell.set_mode(1, SessionMode.ENTITY)
        await soon(lambda: scene.up == everybody(3) and len(scene.of(Down)) == 1)
        await soon(lambda: len(scene.shell.status()) == 3)
        sender = await rig.connect()
        assert await sender.send(queue, b"hello") == r.Ok()
        await soon(lambda: scene.inbox.taken)
        ((session, entity, _),) = scene.inbox.taken
        assert (session.slot.connection, entity) == (connection_id(0), queue.id)


async def test_messages_are_taken_and_a_session_forgets_them_once(rig: Rig, path: Path) -> None:
    """S000-62, S000-65: pushed, in the answer to SUB, and in the answer to ACK."""
    _, (queue,) = await store_queues(path, rig, 1)
    sender = await rig.connect()
    await sender.send(queue, b"first")
    async with shell_of(path) as scene:
        await soon(lambda: scene.up == everybody(1))
        ((session, entity, first),) = scene.inbox.taken
        await sender.send(queue, b"second")
        asked = requests.acknowledge(queue.id, queue.key, first.message_id)
        again, (second,) = await scene.shell.ask(1, 1, connection_id(0), [asked])
        assert again == session
        assert isinstance(second, r.Msg)
        asked = requests.acknowledge(queue.id, queue.key, second.message_id)
        assert (await scene.shell.ask(1, 1, connection_id(0), [asked]))[1] == [r.Ok()]
        await sender.send(queue, b"third")
        await soon(lambda: len(scene.inbox.taken) == 3)
        bodies = [queue.open(message) for _, _, message in scene.inbox.taken]
        assert [getattr(body, "body", None) for body in bodies] == [b"first", b"second", b"third"]
        assert {found for _, found, _ in scene.inbox.taken} == {entity}
    assert scene.inbox.forgotten == [session]


# Services.


async def test_a_service_associates_and_comes_back_with_one_subscribe(rig: Rig, path: Path) -> None:
    """S001-64, S001-65, S001-69, S001-70, S001-73, S001-75, S001-76, S001-86."""
    place, queues = await store_queues(path, rig, 3, services=True)
    tally = Tally.of(QueueId(queue.id) for queue in queues)
    async with opened(path, services=True) as (agent, log):
        assert set((await log.next_of(Up)).connections) == everybody(3)
        (status,) = agent.status()
        assert (status.active, status.tally) == (0, tally)
    async with opened(path, services=True) as (agent, log):
        await log.until(lambda: log.of(ServiceUp) and log.of(ServiceAll))
        (up,) = log.of(ServiceUp)
        assert (up.tally, up.drift) == (tally, None)
        assert len(log.events) == 2
        await rig.restart()
        assert (await log.next_of(ServiceDown)).tally == tally
        assert (await log.next_of(ServiceUp)).drift is None
    async with await Records.open(path) as records:
        kept = await records.read(services.get, place.user, place.router)
        assert kept is not None
        assert kept.tally == tally


async def test_services_may_be_switched_off_and_on(rig: Rig, path: Path) -> None:
    """S004-21, S004-22, ACC-106: record and flags go, messages keep coming; on again they
    associate."""
    place, (queue, *_) = await store_queues(path, rig, 3, services=True)
    async with shell_of(path, services=True) as scene:
        await soon(lambda: scene.up == everybody(3))
        scene.shell.set_services(place.user, False)
        await soon(lambda: scene.status() == (0, 3))
        assert await scene.read(services.get, place.user, place.router) is None
        sender = await rig.connect()
        await sender.send(queue, b"hello")
        await soon(lambda: scene.inbox.taken)
        scene.shell.set_services(place.user, True)
        await soon(lambda: scene.status() == (0, 0) and scene.shell.status()[0].tally.count == 3)
        kept = await scene.read(services.get, place.user, place.router)
        assert kept is not None
        assert kept.tally.count == 3
    async with opened(path) as (agent, log):
        # They are off in this run.
        assert set((await log.next_of(Up)).connections) == everybody(3)
        assert agent.status()[0].active == 3
    async with await Records.open(path) as records:
        assert await records.read(services.get, place.user, place.router) is None
        found = await records.read(receive_queues.page, place.user, place.router)
        assert [row.assoc for row in found] == [False] * 3


async def test_a_queue_that_is_made_for_another_service_is_not_counted(
    rig: Rig, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S004-18: the service that IDS names is believed only if it is the session's."""
    place, _ = await store_queues(path, rig, 1, services=True)
    async with shell_of(path, services=True) as scene:
        await soon(lambda: scene.up == everybody(1))
        for n, named in ((5, None), (6, b"another")):
            new = requests.new_queue()
            session, (ids,) = await scene.shell.ask(place.user, place.router, None, [new.request])
            assert isinstance(ids, r.Ids)
            assert session is not None
            assert ids.service is not None
            queue = as_record(new.made(ids), place.user, place.router, n)

            def make(_: UserId, __: RouterId, made: ReceiveQueue = queue) -> list[ReceiveQueue]:
                return [made]

            await scene.records.write(keep, rig.address, make, False, place.user)
            service = ids.service if named is None else named
            scene.shell.created(session, ids.recipient, connection_id(n), service)
            kept = await scene.read(receive_queues.get, queue.key)
            assert kept is not None
            assert kept.assoc is (named is None)
    assert "another service" in caplog.text


async def test_services_need_a_session_for_each_router(rig: Rig, path: Path) -> None:
    """S004-15: refused when it is opened and when it is switched."""
    with pytest.raises(ConfigError, match="services"):
        await Agent.open(path, services=True, session="entity")
    assert not await asyncio.to_thread(path.exists)
    with pytest.raises(ConfigError, match="'both'"):
        await Agent.open(path, session="both")  # type: ignore[arg-type]
    async with opened(path, services=True) as (agent, _):
        with pytest.raises(ConfigError, match="services"):
            agent.set_session("entity")
        agent.set_services(False)
        agent.set_session("entity")
        with pytest.raises(ConfigError, match="services"):
            agent.set_services(True)


async def test_users_of_an_agent_share_nothing(rig: Rig, path: Path) -> None:
    """S000-56, S004-22: neither sessions nor services nor names, also after a restart."""
    async with opened(path, routers=[rig.address]) as (agent, _):
        other = await agent.add_user(services=True)
        own, of_other = await agent.queue("north"), await agent.queue("north", user=other)
        assert own.connection != of_other.connection
    async with opened(path) as (agent, log):
        assert await agent.queue("north", user=other) == of_other
        assert (await log.next_of(Up)).user == agent.user
        await log.until(lambda: log.of(ServiceUp))
        assert {up.user for up in log.of(ServiceUp)} == {other}
        found = {status.user: (status.active, status.tally.count) for status in agent.status()}
        assert found == {agent.user: (1, 0), other: (0, 1)}
        number = 0
        while await is_cancelled_at(agent.add_user(), number):
            number += 1


# Opening and closing.


def test_what_an_application_needs_can_be_imported_from_one_place() -> None:
    for name in headgate.agent.__all__:
        assert getattr(headgate.agent, name)
        assert name in dir(headgate.agent)
    with pytest.raises(AttributeError):
        headgate.agent.nothing  # noqa: B018


async def test_two_agents_cannot_have_one_file(path: Path) -> None:
    async with opened(path):
        with pytest.raises(StoreError):
            await Agent.open(path)
    async with opened(path):
        pass


async def test_an_agent_in_memory_is_entered_without_waiting() -> None:
    async with Agent.memory(routers=["smp://" + "A" * 43 + "=@localhost"]) as agent:
        assert agent.status() == []
        assert agent.user == 1
    assert [event async for event in agent.events()] == []
    with pytest.raises(Closed):
        await agent.subscribe([])
    with pytest.raises(Closed):
        agent.resume()
    await agent.close()


async def test_suspended_nothing_is_shown(rig: Rig, path: Path) -> None:
    """S000-71."""
    await store_queues(path, rig, 1)
    async with opened(path) as (agent, log):
        await log.next_of(Up)
        await agent.suspend()
        assert await log.next() == Suspended()
        await rig.stop()
        reading = asyncio.create_task(log.next())
        await soon(lambda: len(agent._events))
        await asyncio.sleep(0)
        assert not reading.done()
        await rig.start()
        agent.resume()
        assert isinstance(await reading, Down)
        await log.next_of(Up)


async def test_an_agent_is_usable_after_any_cancelled_call(start_rig: StartRig, path: Path) -> None:
    """S004-26: at every await of every public coroutine."""
    rig = await start_rig()
    place, _ = await store_queues(path, rig, 3, services=True)

    async def check(agent: Agent) -> None:
        found = await agent.subscribe(everybody(3))
        assert {result.state for result in found.values()} == {SubscribeState.SUBSCRIBED}

    number = 0
    while await is_cancelled_at(_open_and_close(path), number):
        number += 1
    assert number > 3
    async with opened(path, services=True) as (agent, _):
        await check(agent)
        shell = agent._shell

        def calls() -> list[Any]:
            ping = [requests.ping()]
            return [
                lambda: agent.subscribe(everybody(3)),
                lambda: agent.subscribe_all(),
                lambda: agent.suspend(),
                lambda: shell.ask(place.user, place.router, None, ping),
                lambda: anext(agent.events()),
            ]

        for call in calls():
            for is_down in (False, True):
                number = 0
                while True:
                    if is_down:
                        # So that there is something to wait for.
                        agent._shell.set_services(place.user, bool(number % 2))
                    cancelled = await is_cancelled_at(call(), number)
                    agent.resume()
                    if not cancelled:
                        break
                    number += 1
                await check(agent)
        assert await is_cancelled_at(agent.close(), 0)
        await agent.close()


async def _open_and_close(path: Path) -> None:
    agent = await Agent.open(path, services=True, settings=QUICK)
    try:
        await agent.close()
    finally:
        await agent.close()  # who was cancelled waits until the file is free


# Plain queues.


async def test_two_programs_share_a_queue(rig: Rig, path: Path, tmp_path: Path) -> None:
    """S000-68, ACC-99: in order, each acknowledged once, found again after a restart."""
    bodies = [b"%d" % n for n in range(5)]
    async with (
        opened(path, routers=[rig.address]) as (agent, log),
        Agent.memory(settings=QUICK) as sender,
    ):
        own = await agent.queue("north")
        to = await sender.open_queue(str(own.address))
        for body in bodies[:3]:
            await to.send(body)
        for body in bodies[:2]:
            message = await log.next_of(Message)
            assert (message.body, message.queue) == (body, NamedQueue(own.connection, "north"))
            await message.ack()
        # The third is shown, and not acknowledged.
        assert (await log.next_of(Message)).body == bodies[2]
        with pytest.raises(LinkUsed):
            async with Agent.memory(settings=QUICK) as thief:
                await thief.open_queue(own.address)
        for body in bodies[3:]:
            await to.send(body)
        sent = EventLog(sender)
        await sent.until(lambda: len(sent.of(Sent)) == 5)
    async with opened(path) as (agent, log):
        assert await agent.queue("north") == own
        for body in bodies[2:]:
            message = await log.next_of(Message)
            assert message.body == body
            await message.ack()
        with pytest.raises(ConfigError, match="south"):
            await agent.queue("south")


async def test_messages_come_again_after_each_restart_of_a_router(rig: Rig, path: Path) -> None:
    """S000-83, ACC-99: those that wait to be sent, and those that were not acknowledged."""
    async with opened(path, services=True) as (agent, log), Agent.memory(settings=QUICK) as sender:
        own = await agent.queue("north", router=rig.address)
        to = await sender.open_queue(own.address)
        for number in range(5):
            await rig.stop()
            await to.send(b"%d" % number)
            await rig.start()
            message = await log.next_of(Message)
            assert message.body == b"%d" % number
            await message.ack()


async def test_suspended_no_message_is_shown(rig: Rig, path: Path) -> None:
    """S000-71: resumed, all come, in order."""
    async with opened(path) as (agent, log), Agent.memory(settings=QUICK) as sender:
        own = await agent.queue("north", router=rig.address)
        to = await sender.open_queue(own.address)
        await agent.suspend()
        sent = EventLog(sender)
        for number in range(3):
            await to.send(b"%d" % number)
        await sent.until(lambda: len(sent.of(Sent)) == 3)
        assert await log.next() == Suspended()
        assert not len(agent._events)
        agent.resume()
        for number in range(3):
            message = await log.next_of(Message)
            assert message.body == b"%d" % number
            await message.ack()


async def test_a_message_stays_until_its_body_is_read(
    rig: Rig, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S004-26: a reader that is cancelled while the body is read leaves the message, and a disk
    that cannot be read is tried again."""
    async with opened(path) as (agent, _), Agent.memory(settings=QUICK) as sender:
        own = await agent.queue("north", router=rig.address)
        to = await sender.open_queue(own.address)
        await to.send(b"hello")
        await soon(lambda: len(agent._events))
        outcomes: list[BaseException] = [asyncio.CancelledError(), StoreError("locked")]
        real = Ticket.load

        async def load(ticket: Ticket) -> Message | Receipt | None:
            if outcomes:
                raise outcomes.pop(0)
            return await real(ticket)

        monkeypatch.setattr(Ticket, "load", load)
        with pytest.raises(asyncio.CancelledError):
            await anext(agent.events())
        message = await anext(agent.events())
        assert isinstance(message, Message)
        assert message.body == b"hello"
        assert outcomes == []

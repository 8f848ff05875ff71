"""Messages that are fetched from queues without a subscription, with a router of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headgate.agent.agent import Agent
from headgate.agent.events import Message, Problem, ProblemKind, Sent
from headgate.agent.queues import OwnQueue
from headgate.agent.subscribe_calls import SubscribeState
from headgate.errors import NotConnected, Prohibited, StoreError
from tests.support.agent_scene import QUICK, EventLog, opened, soon
from tests.support.smp_peer import is_cancelled_at
from tests.support.smp_router import Rig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


async def fill(rig: Rig, path: Path, *bodies: bytes) -> None:
    """Make the queues north and south, and send these to north."""
    async with opened(path, routers=[rig.address]) as (agent, _):
        address = (await agent.queue("north")).address
        await agent.queue("south")
    async with Agent.memory(settings=QUICK) as sender:
        to = await sender.open_queue(address)
        for body in bodies:
            await to.send(body)
        log = EventLog(sender)
        await log.until(lambda: len(log.of(Sent)) == len(bodies))


@asynccontextmanager
async def unsubscribed(path: Path) -> AsyncIterator[tuple[Agent, OwnQueue, EventLog]]:
    """An agent that subscribes nothing by itself, and its queue north."""
    async with opened(path, subscribe=False) as (agent, log):
        yield agent, await agent.queue("north"), log


async def test_a_queue_is_locked_from_its_message_until_the_ack(rig: Rig, path: Path) -> None:
    """S000-55: reported as prohibited, while others are subscribed; afterwards it can be."""
    await fill(rig, path, b"first", b"second")
    async with unsubscribed(path) as (agent, north, log):
        south = await agent.queue("south")
        message = await agent.fetch(north)
        assert message is not None
        assert (message.body, message.attempts) == (b"first", 1)
        assert message.queue is not None
        assert message.queue.name == "north"
        both = [north.connection, south.connection]
        found = await agent.subscribe(both)
        assert found[north.connection].state is SubscribeState.PROHIBITED
        assert found[south.connection].state is SubscribeState.SUBSCRIBED
        with pytest.raises(Prohibited):
            await agent.fetch(north)
        await message.ack()
        await soon(lambda: not agent._fetching.under_way)
        found = await agent.subscribe(both)
        assert found[north.connection].state is SubscribeState.SUBSCRIBED
        assert (await log.next_of(Message)).body == b"second"
        with pytest.raises(Prohibited):
            await agent.fetch(north)


async def test_an_empty_queue_has_no_message_and_no_lock(rig: Rig, path: Path) -> None:
    """S000-55."""
    await fill(rig, path)
    async with unsubscribed(path) as (agent, north, _):
        for _ in range(2):
            assert await agent.fetch(north) is None
        found = await agent.subscribe([north.connection])
        assert found[north.connection].is_ok


async def test_what_was_not_acknowledged_is_fetched_again(rig: Rig, path: Path) -> None:
    """ACC-99: with one attempt more; what was acknowledged is not, though the ACK was lost."""
    await fill(rig, path, b"first", b"second")
    async with unsubscribed(path) as (agent, north, _):
        first = await agent.fetch(north)
        assert first is not None
    async with unsubscribed(path) as (agent, north, _):
        again = await agent.fetch(north)
        assert again is not None
        assert (again.id, again.body, again.attempts) == (first.id, b"first", 2)
        await rig.stop()
        await soon(lambda: not agent._fetching.under_way)
        await again.ack()
        with pytest.raises(NotConnected):
            await agent.fetch(north)
        await rig.start()
        second = await agent.fetch(north)
        assert second is not None
        assert second.body == b"second"
        await second.ack()
        await soon(lambda: not agent._fetching.under_way)
        assert await agent.fetch(north) is None


async def test_a_fetch_may_be_cancelled(rig: Rig, path: Path) -> None:
    """S004-26: at every await; the message is there for the next."""
    await fill(rig, path, b"hello")
    async with unsubscribed(path) as (agent, north, _):
        number = 0
        while await is_cancelled_at(agent.fetch(north), number):
            await soon(lambda: not agent._fetching.under_way)
            number += 1
        assert number > 3
        for fetch in list(agent._fetching.under_way):
            fetch.end()
        message = await agent.fetch(north)
        assert message is not None
        assert message.body == b"hello"


async def test_what_cannot_be_opened_is_passed_over(rig: Rig, path: Path) -> None:
    """It is reported, and does not keep others from coming."""
    await fill(rig, path, b"hello")
    async with unsubscribed(path) as (agent, north, log):
        text = "UPDATE receive_queues SET e2e_private = zeroblob(32), e2e_key = zeroblob(32)"
        await agent._records.write(lambda tables: tables.change(text))
        assert await agent.fetch(north) is None
        problem = await log.next_of(Problem)
        assert (problem.kind, problem.connection) == (ProblemKind.UNREADABLE, north.connection)


async def test_a_queue_that_was_deleted_cannot_be_fetched_from(rig: Rig, path: Path) -> None:
    await fill(rig, path)
    async with unsubscribed(path) as (agent, north, _):
        await north.delete()
        with pytest.raises(StoreError, match="make it again"):
            await agent.fetch(north)


async def test_the_next_message_is_fetched_at_once(rig: Rig, path: Path) -> None:
    """Whoever has acknowledged one does not meet its own lock."""
    bodies = [b"first", b"second", b"third"]
    await fill(rig, path, *bodies)
    async with unsubscribed(path) as (agent, north, _):
        found = []
        while message := await agent.fetch(north):
            found.append(message.body)
            await message.ack()
    assert found == bodies


async def test_a_queue_that_is_made_without_subscribing_is_fetched_from(
    rig: Rig, path: Path
) -> None:
    """Its messages wait at the router for whoever fetches them."""
    async with (
        opened(path, routers=[rig.address], subscribe=False) as (agent, log),
        Agent.memory(settings=QUICK) as sender,
    ):
        queue = await agent.queue("west")
        await (await sender.open_queue(queue.address)).send(b"42")
        await EventLog(sender).next_of(Sent)
        message = await agent.fetch(queue)
        assert message is not None
        assert message.body == b"42"
        assert log.of(Message) == []

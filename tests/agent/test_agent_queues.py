"""Plain queues between agents, over a router of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headgate.agent.agent import Agent, Opening
from headgate.agent.agent_options import AgentOptions
from headgate.agent.event_stream import AgentEvent
from headgate.agent.events import Down, Failed, Message, Sent, Suspended, Up
from headgate.agent.records import Records
from headgate.client.smp.link import Link
from headgate.errors import (
    Closed,
    ConfigError,
    HeadgateError,
    LinkUsed,
    Malformed,
    RequestRefused,
    StoreError,
    TooLong,
)
from tests.support.agent_scene import QUICK, HurriedClock
from tests.support.smp_peer import is_cancelled_at
from tests.support.smp_router import Rig


async def next_message(agent: Agent) -> Message:
    async for event in agent.events():
        if isinstance(event, Message):
            return event
    raise AssertionError("the agent was closed")


async def until(agent: Agent, *kinds: type[AgentEvent]) -> AgentEvent:
    async for event in agent.events():
        if isinstance(event, kinds):
            return event
    raise AssertionError("the agent was closed")


async def test_what_is_sent_to_a_queue_is_read_by_its_owner(rig: Rig) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        queue = await reader.queue("meters")
        opened = await sender.open_queue(queue.address)
        ids = [await opened.send(body) for body in (b"41", b"42", b"43")]
        assert [await until(sender, Sent) for _ in ids] == [
            Sent(opened.connection, id) for id in ids
        ]
        for body in (b"41", b"42", b"43"):
            message = await next_message(reader)
            assert (message.body, message.attempts) == (body, 1)
            assert message.queue is not None
            assert message.queue.name == "meters"
            await message.ack()


async def test_a_queue_is_found_again_by_its_name(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with Agent.open(path, routers=[rig.address], settings=QUICK) as agent:
        queue = await agent.queue("meters")
        assert await agent.queue("meters") == queue
    async with Agent.open(path, settings=QUICK) as agent:
        assert await agent.queue("meters") == queue


async def test_a_message_is_shown_until_it_is_acknowledged(rig: Rig, tmp_path: Path) -> None:
    """ACC-99: and not after it."""
    path = tmp_path / "agent.db"
    async with Agent.memory(settings=QUICK) as sender:
        async with Agent.open(path, routers=[rig.address], settings=QUICK) as agent:
            opened = await sender.open_queue((await agent.queue("meters")).address)
            await opened.send(b"first")
            await opened.send(b"second")
            assert (await next_message(agent)).body == b"first"
        async with Agent.open(path, settings=QUICK) as agent:
            message = await next_message(agent)
            assert (message.body, message.attempts) == (b"first", 2)
            await message.ack()
            assert (await next_message(agent)).body == b"second"


async def test_an_agent_that_only_sends_is_given_nothing(rig: Rig, tmp_path: Path) -> None:
    """Unless it asks; and nothing counts as shown to it."""
    path = tmp_path / "agent.db"
    async with Agent.memory(routers=[rig.address], settings=QUICK) as other:
        theirs = (await other.queue("theirs")).address
        for services in (False, True):
            async with Agent.open(path, routers=[rig.address], settings=QUICK) as agent:
                ours = await agent.queue(f"ours {services}")
            await (await other.open_queue(ours.address)).send(b"unread")
            await until(other, Sent)
            only_sends = Agent.open(path, services=services, subscribe=False, settings=QUICK)
            async with only_sends as agent:
                await (await agent.open_queue(theirs)).send(b"hello")
                assert isinstance(await anext(aiter(agent.events())), Sent)
                assert sum(status.active for status in agent.status()) == 0
                await agent.subscribe([ours.connection])
                message = await next_message(agent)
                assert (message.body, message.attempts) == (b"unread", 1)
                await message.ack()


async def test_a_router_that_restarts_loses_nothing(rig: Rig) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        opened = await sender.open_queue((await reader.queue("meters")).address)
        for number in range(3):
            await opened.send(b"%d before" % number)
            message = await next_message(reader)
            assert message.body == b"%d before" % number
            await message.ack()
            await rig.stop()
            await until(reader, Down)
            await opened.send(b"%d meanwhile" % number)
            await rig.start()
            await until(reader, Up)
            message = await next_message(reader)
            assert message.body == b"%d meanwhile" % number
            await message.ack()


async def test_a_suspended_agent_shows_nothing(rig: Rig) -> None:
    """S000-71: what comes meanwhile is shown, in order, when it is resumed."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        opened = await sender.open_queue((await reader.queue("meters")).address)
        await opened.send(b"first")
        await until(sender, Sent)
        waiting = asyncio.create_task(next_message(reader))
        first = await waiting
        await reader.suspend()
        assert await anext(aiter(reader.events())) == Suspended()
        await first.ack()
        await opened.send(b"second")
        await until(sender, Sent)
        waiting = asyncio.create_task(next_message(reader))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        reader.resume()
        assert (await waiting).body == b"second"


async def test_who_stops_reading_leaves_the_message_for_the_next(rig: Rig) -> None:
    """S004-26: cancelled at every await."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        opened = await sender.open_queue((await reader.queue("meters")).address)
        assert await is_cancelled_at(next_message(reader), 0)  # nothing has come, so it waits
        sent: list[bytes] = []
        number = 0
        while True:
            sent.append(b"%d" % len(sent))
            await opened.send(sent[-1])
            await until(sender, Sent)
            # How often it waits depends on what has come already.
            if not await is_cancelled_at(next_message(reader), number):
                break
            message = await next_message(reader)
            assert message.body == sent[-1]
            await message.ack()
            number += 1


async def test_making_and_opening_a_queue_may_be_cancelled(rig: Rig) -> None:
    """S004-26: at every await; whoever asks again has a queue that works."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        number = 0
        while await is_cancelled_at(reader.queue(f"queue {number}"), number):
            queue = await reader.queue(f"queue {number}")
            assert await reader.queue(f"queue {number}") == queue
            at = 0
            while await is_cancelled_at(sender.open_queue(queue.address), at):
                at += 1
            opened = await sender.open_queue(queue.address)
            await opened.send(b"%d" % number)
            message = await next_message(reader)
            assert (message.body, message.connection) == (b"%d" % number, queue.connection)
            await message.ack()
            number += 1
        assert number > 2


async def test_opening_a_queue_may_be_cancelled(rig: Rig) -> None:
    """S004-26: at every await of the first time, too; the key of the first is that of the next."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        number = 0
        while True:
            queue = await reader.queue(f"queue {number}")
            if not await is_cancelled_at(sender.open_queue(queue.address), number):
                break
            opened = await sender.open_queue(queue.address)
            await opened.send(b"%d" % number)
            message = await next_message(reader)
            assert (message.body, message.connection) == (b"%d" % number, queue.connection)
            await message.ack()
            number += 1
        assert number > 2


async def test_sending_may_be_cancelled(rig: Rig) -> None:
    """S004-26: what was sent arrives once and in its order, whether its caller waited or not."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        opened = await sender.open_queue((await reader.queue("meters")).address)
        number = 0
        while await is_cancelled_at(opened.send(b"%d" % number), number):
            number += 1
        assert number > 0
        for expected in range(number + 1):
            message = await next_message(reader)
            assert message.body == b"%d" % expected
            await message.ack()


async def test_acknowledging_may_be_cancelled(rig: Rig) -> None:
    """S004-26, ACC-99: it is acknowledged all the same, and not shown again."""
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
    ):
        opened = await sender.open_queue((await reader.queue("meters")).address)
        number = 0
        while True:
            await opened.send(b"%d" % number)
            message = await next_message(reader)
            assert message.body == b"%d" % number
            if not await is_cancelled_at(message.ack(), number):
                break
            number += 1
            await rig.restart()
        assert number > 0


async def test_a_queue_has_one_sender(rig: Rig) -> None:
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Agent.memory(settings=QUICK) as sender,
        Agent.memory(settings=QUICK) as other,
    ):
        queue = await reader.queue("meters")
        await sender.open_queue(queue.address)
        with pytest.raises(LinkUsed):
            await other.open_queue(queue.address)


async def test_what_cannot_be_done_says_what_to_do(rig: Rig) -> None:
    async with Agent.memory(settings=QUICK) as agent:
        with pytest.raises(ConfigError, match="name the router"):
            await agent.queue("meters")
        with pytest.raises(Malformed):
            await agent.open_queue("smp://nonsense")
        queue = await agent.queue("meters", router=rig.address.text)
        opened = await agent.open_queue(queue.address)
        with pytest.raises(TooLong):
            await opened.send(bytes(15_902))
    with pytest.raises(Closed):
        await agent.queue("meters")


async def test_who_resumes_while_it_is_being_suspended_has_an_agent_that_goes_on(rig: Rig) -> None:
    """S000-71."""
    async with Agent.memory(routers=[rig.address], settings=QUICK) as agent:
        queue = await agent.queue("meters")
        opened = await agent.open_queue(queue.address)
        async with agent._operations.operation():
            suspending = asyncio.create_task(agent.suspend())
            await asyncio.sleep(0)
            agent.resume()
        await suspending
        await opened.send(b"42")
        assert (await next_message(agent)).body == b"42"


@pytest.mark.parametrize(
    "error", [RequestRefused("HANDSHAKE BAD_AUTH"), StoreError("the disk is full")], ids=str
)
async def test_no_message_is_given_up_for_an_attempt_to_connect_that_failed(
    rig: Rig, error: HeadgateError
) -> None:
    """The router was not asked, so it has refused nothing."""
    failures = [error, error, error]

    async def connect(*args: Any, **named: Any) -> Link:  # noqa: ANN401
        if failures:
            raise failures.pop()
        return await Link.connect(*args, **named)

    options = AgentOptions(settings=QUICK, clock=HurriedClock(), connect=connect)
    async with (
        Agent.memory(routers=[rig.address], settings=QUICK) as reader,
        Opening(Records.memory, options) as sender,
    ):
        queue = await reader.queue("meters")
        opened = await sender.open_queue(queue.address)
        id = await opened.send(b"42")
        assert await until(sender, Sent, Failed) == Sent(opened.connection, id)
        assert (await next_message(reader)).body == b"42"

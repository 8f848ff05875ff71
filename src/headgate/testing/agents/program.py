"""A program with an agent: it has queues, reads them, and sends to queues of others.

Its process comes and goes. Its disk stays, and so does what it knows of itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from headgate.agent.agent import Agent, Opening
from headgate.agent.agent_options import AgentOptions
from headgate.agent.clock import SystemClock
from headgate.agent.event_stream import AgentEvent
from headgate.agent.events import (
    Deleted,
    Down,
    End,
    Failed,
    Message,
    Problem,
    ProblemKind,
    ServiceDown,
    ServiceEnd,
    Up,
)
from headgate.agent.model import ConnectionId, SessionMode
from headgate.agent.sender_queue import SenderQueue
from headgate.errors import Closed, ConfigError, HeadgateError, StoreError
from headgate.testing.agents.disk import Disk, DiskRecords
from headgate.testing.agents.laws import QueueBook, UpBook
from headgate.testing.agents.loop import Process
from headgate.testing.agents.router import WorldRouter
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.codec.router_address import RouterAddress

if TYPE_CHECKING:
    from headgate.testing.agents.world import AgentWorld

EPOCH = 1_700_000_000.0
"""When the loop's time began, by the clock on the wall."""
RETRY_SECONDS = 5.0
EXPECTED = (ProblemKind.SERVICE, ProblemKind.ROUTER, ProblemKind.STEP)
"""Problems that pass by themselves."""


@dataclass(eq=False)
class WorldQueue:
    """A queue of a world: where it is, and who is at its ends."""

    name: str
    router: WorldRouter
    reader: Program
    writer: Program
    book: QueueBook
    messages: int
    """So many are sent at most."""
    made: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the reader has made it; then these are known."""
    recipient: bytes = b""
    connection: ConnectionId = b""
    address: QueueAddress | None = None


class WorldClock(SystemClock):
    """The clock of a program: that of the loop, which is the world's."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    def jitter(self) -> float:
        return self._random.uniform(-1, 1)


class Program:
    """A program with an agent, owned by a world."""

    def __init__(self, world: AgentWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.seed} {name}")
        self.services = self.random.random() < 0.5
        self.is_shared = self.services or self.random.random() < 0.7
        self.disk = Disk()
        self.disk.open()
        self.process: Process | None = None
        self.agent: Agent | None = None
        self.reads: list[WorldQueue] = []
        self.writes: list[WorldQueue] = []
        self.held: list[tuple[WorldQueue, int, Message]] = []
        """Messages that were shown, and are to be acknowledged."""
        self._is_leaving = asyncio.Event()
        self._main: asyncio.Task[None] | None = None

    # Its life.

    def start(self) -> None:
        if self.process is not None:
            return
        self.process = process = Process(self.name)
        self._is_leaving = asyncio.Event()
        self.world.trace.add(self.name, "starts")
        self._main = process.run(self._run(process))

    async def kill(self) -> None:
        """End without warning."""
        process, self.process, self.agent = self.process, None, None
        if process is not None:
            self.world.trace.add(self.name, "is killed")
            self.world.network.ended(process)
            await process.kill()
            self.held.clear()

    async def leave(self) -> None:
        """Close the agent, as a program that ends does."""
        process = self.process
        if process is not None:
            self.world.trace.add(self.name, "closes its agent")
            self._is_leaving.set()
            assert self._main is not None, "a process runs something"
            await asyncio.wait([self._main])
            self.world.network.ended(process)
            await process.kill()

    async def _run(self, process: Process) -> None:
        world = self.world
        records = DiskRecords(self.disk, process, self.random, world.weather)
        options = AgentOptions(
            services=self.services,
            mode=SessionMode.SHARED if self.is_shared else SessionMode.ENTITY,
            on_error=self._on_error,
            clock=WorldClock(self.random),
            connect=partial(world.network.connect, process),
            draw=self.random.randbytes,
        )
        while True:
            try:
                async with Opening(records.start, options) as agent:
                    await self._use(agent)
                break
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)  # as a person would
        self.agent = self.process = None
        self.held.clear()

    async def _use(self, agent: Agent) -> None:
        self.agent = agent
        tasks = [self._begin(self._read(agent))]
        tasks += [self._begin(self._open(agent, queue)) for queue in self.reads]
        tasks += [self._begin(self._write(agent, queue)) for queue in self.writes]
        try:
            await self._is_leaving.wait()
        finally:
            for task in tasks:
                task.cancel()
            self.agent = None
        await asyncio.wait(tasks)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in its process. An exception is a fault of the agent."""
        assert self.process is not None, "a program that runs"
        task = self.process.run(work)
        task.add_done_callback(partial(self._ended, self.process))
        return task

    def _ended(self, process: Process, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and process.is_alive:
            self.world.broken("raised", f"{self.name}: {error!r}", error)

    def _on_error(self, error: Exception) -> None:
        if not isinstance(error, StoreError):
            self.world.broken("raised", f"{self.name}: {error!r}", error)

    # What is done to it.

    def change_services(self) -> None:
        if self.agent is not None and self.process is not None and self.is_shared:
            self.services = not self.services
            self.world.trace.add(self.name, f"services: {self.services}")
            self.process.call(self.agent.set_services, self.services)

    def change_session(self) -> None:
        if self.agent is not None and self.process is not None and not self.services:
            self.is_shared = not self.is_shared
            self.world.trace.add(self.name, f"shared sessions: {self.is_shared}")
            mode = "shared" if self.is_shared else "entity"
            self.process.call(self.agent.set_session, mode)

    def suspend(self, seconds: float) -> None:
        if self.agent is not None and self.process is not None:
            self.world.trace.add(self.name, "suspends its agent")
            self._begin(self._suspend(self.agent, seconds))

    async def _suspend(self, agent: Agent, seconds: float) -> None:
        with suppress(Closed):
            await agent.suspend(self.random.choice((0.0, 1.0, 60.0)))
        await asyncio.sleep(seconds)
        if self.agent is agent:
            self.world.trace.add(self.name, "resumes its agent")
            agent.resume()

    def go_offline(self, seconds: float) -> None:
        if self.agent is not None and self.process is not None:
            self.world.trace.add(self.name, "goes offline")
            self._begin(self._go_offline(self.agent, seconds))

    async def _go_offline(self, agent: Agent, seconds: float) -> None:
        agent.set_online(False)
        await asyncio.sleep(seconds)
        if self.agent is agent:
            self.world.trace.add(self.name, "is online")
            agent.set_online(True)

    # Its queues.

    async def _open(self, agent: Agent, queue: WorldQueue) -> None:
        while True:
            try:
                own = await agent.queue(queue.name, router=queue.router.address)
                break
            except ConfigError:
                raise
            except HeadgateError:
                await asyncio.sleep(RETRY_SECONDS)
        queue.connection, queue.recipient = own.connection, own.recipient_id
        queue.address = own.address
        queue.made.set()

    async def _write(self, agent: Agent, queue: WorldQueue) -> None:
        await queue.made.wait()
        assert queue.address is not None, "a queue that was made"
        sender: SenderQueue | None = None
        while sender is None:
            try:
                sender = await agent.open_queue(queue.address)
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)
        while queue.book.begun < queue.messages and not self.world.is_calm:
            await asyncio.sleep(self.random.choice((0.0, 1.0, 30.0)) * self.random.random())
            count = self.random.choice((1, 1, 3))
            await asyncio.gather(*(self._send(sender, queue) for _ in range(count)))

    async def _send(self, sender: SenderQueue, queue: WorldQueue) -> None:
        number = queue.book.next()
        try:
            await sender.send(b"%s %d" % (queue.name.encode(), number))
        except StoreError:
            queue.book.refused.add(number)
        else:
            queue.book.sent.add(number)
            self.world.trace.add(self.name, f"has sent {queue.name} {number}")

    # Its events.

    async def _read(self, agent: Agent) -> None:
        ups = UpBook(self.name, self.world.broken)
        async for event in agent.events():
            self._note(agent, ups, event)
            if isinstance(event, Message):
                await self._take(event)

    def _note(self, agent: Agent, ups: UpBook, event: AgentEvent) -> None:
        match event:
            case Up(connections=connections):
                self.world.trace.add(self.name, "UP", self._names(connections))
                ups.up(connections)
            case Down(connections=connections):
                self.world.trace.add(self.name, "DOWN", self._names(connections))
                ups.down(connections)
            case ServiceDown(router=router) | ServiceEnd(router=router):
                self.world.trace.add(self.name, type(event).__name__, str(router.hosts[0]))
                ups.over(self._connections_at(router))
            case End(connection=connection):
                self.world.trace.add(self.name, "END", self._names([connection]))
                ups.over([connection])
                self._begin(self._take_back(agent, connection))
            case Deleted():
                self.world.broken("refused", f"{self.name}: a queue was deleted")
            case Problem(kind=kind, text=text) if kind not in EXPECTED:
                self.world.broken("refused", f"{self.name}: {kind.value}: {text}")
            case Failed(ids=ids, reason=reason):
                self.world.broken("lost", f"{self.name}: {ids} were given up: {reason}")
            case _:
                self.world.trace.add(self.name, type(event).__name__)

    def _names(self, connections: Iterable[ConnectionId]) -> list[str]:
        known = {queue.connection: queue.name for queue in self.reads}
        return [known.get(id, "?") for id in connections]

    def _connections_at(self, router: RouterAddress) -> list[ConnectionId]:
        rows = self.disk.find(
            lambda tables: tables.ask(
                "SELECT connection FROM receive_queues JOIN routers"
                " ON routers.id = receive_queues.router WHERE routers.key_hash = ?",
                router.key_hash,
            )
        )
        return [connection for (connection,) in rows]

    async def _take_back(self, agent: Agent, connection: ConnectionId) -> None:
        """Subscribe again to what somebody else took."""
        await asyncio.sleep(self.random.uniform(0.0, 60.0))
        while self.agent is agent:
            try:
                await agent.subscribe([connection])
                return
            except Closed:
                return
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _take(self, message: Message) -> None:
        name, number = message.body.decode().split()
        queue = next(queue for queue in self.reads if queue.name == name)
        self.world.trace.add(self.name, f"is shown {name} {number}")
        queue.book.show(int(number))
        item = (queue, int(number), message)
        self.held.append(item)
        chance = self.random.random()
        if self.world.is_calm or chance < 0.6:
            await self._acknowledge(item)
        elif chance < 0.9:
            self._begin(self._acknowledge_later(item))

    async def _acknowledge_later(self, item: tuple[WorldQueue, int, Message]) -> None:
        await asyncio.sleep(self.random.uniform(0.0, 100.0))
        await self._acknowledge(item)

    async def _acknowledge(self, item: tuple[WorldQueue, int, Message]) -> None:
        queue, number, message = item
        if item not in self.held:
            return
        queue.book.done.add(number)
        try:
            await message.ack()
        except StoreError:
            queue.book.done.discard(number)
            return
        queue.book.acknowledged.add(number)
        self.world.trace.add(self.name, f"has acknowledged {queue.name} {number}")
        if item in self.held:
            self.held.remove(item)

    def acknowledge_held(self) -> None:
        """Acknowledge what was forgotten."""
        if self.process is not None:
            for item in list(self.held):
                self._begin(self._acknowledge(item))

"""Worlds of agents: programs with real agents, routers, a network and disks under one seed.

Each agent is whole: engine, shell, receiving, sending, queues, links, and its tables in SQLite.
What is simulated is what is around it. See docs/design/worlds.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from headgate.agent.records.check import check, tallies
from headgate.agent.records.database import Database
from headgate.testing.agents.laws import QueueBook
from headgate.testing.agents.loop import Idle, WorldLoop
from headgate.testing.agents.network import Network
from headgate.testing.agents.program import Program, WorldQueue
from headgate.testing.agents.router import RouterQueue, WorldRouter
from headgate.testing.agents.weather import draw_weather
from headgate.testing.trace import Trace, Violation

STEPS = 20
"""Things that a world does to its inhabitants, unless another number is given."""
REST_SECONDS = 24 * 3600.0
"""Within so long after the last fault everything is as it should be: a sender waits for a queue
that was full for hours."""
LOOK_SECONDS = 20.0


class AgentWorld:
    """Everything, under one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = WorldLoop()
        self.trace = Trace(self.loop)
        self.random = Random(f"{seed} world")
        self.weather = draw_weather(self.random)
        self.network = Network(self.loop, Random(f"{seed} network"), self.weather, self.trace)
        self.is_calm = False
        """Nothing goes wrong any more, and nobody begins anything."""
        self.counts: Counter[str] = Counter()
        """What was done to the world, by name."""
        self.violation: Violation | None = None
        self.doings: list[tuple[int, Callable[[], Any]]] = [
            (3, self._crash_router),
            (3, self._cut),
            (3, self._hold),
            (3, self._kill),
            (1, self._leave),
            (1, self._suspend),
            (1, self._go_offline),
            (1, self._change_services),
            (1, self._change_session),
            (2, self._take_queue),
            (1, self._take_service),
            (1, self._refuse_services),
        ]
        """What may happen, with its weight."""
        self.routers = [
            WorldRouter(number, self.network, Random(f"{seed} router {number}"))
            for number in range(1, 1 + self.random.choice((1, 2)))
        ]
        self.programs = [Program(self, name) for name in ("anna", "boris")]
        self.queues = [self._queue(number) for number in range(1, 1 + self.random.choice((1, 3)))]

    def _queue(self, number: int) -> WorldQueue:
        reader, writer = self.random.sample(self.programs, 2)
        name = f"q{number}"
        book = QueueBook(name, self.broken)
        router = self.random.choice(self.routers)
        queue = WorldQueue(name, router, reader, writer, book, self.random.choice((2, 6)))
        reader.reads.append(queue)
        writer.writes.append(queue)
        return queue

    # Running.

    def play(self, steps: int = STEPS) -> None:
        """Let so many things happen, then come to rest; raise a `Violation` if there is one."""
        self.loop.set_exception_handler(self._on_exception)
        try:
            with _quiet():
                self.loop.run_until_complete(self._play(steps))
        except Idle:
            self.broken("rest", "somebody waits for what will never happen")
        finally:
            self.loop.close()
            for program in self.programs:
                program.disk.end()
        if self.violation is not None:
            raise self.violation

    async def _play(self, steps: int) -> None:
        try:
            for program in self.programs:
                program.start()
            for _ in range(steps):
                await self._wait()
                if self.violation is None:
                    await self._happen()
                self._check_tallies()
            await self._calm()
            await self._rest()
            for program in self.programs:
                await program.leave()
            self._check_tables()
        finally:
            for program in self.programs:
                await program.kill()

    async def _wait(self) -> None:
        await asyncio.sleep(self.random.choice((0.01, 1.0, 10.0, 100.0)) * self.random.random())

    def summary(self) -> str:
        sent = sum(len(queue.book.sent) for queue in self.queues)
        shown = sum(sum(queue.book.shown.values()) for queue in self.queues)
        happened = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        return f"{len(self.trace)} lines, {sent} messages sent, {shown} shown; {happened}"

    # What happens to them.

    async def _happen(self) -> None:
        (doing,) = self.random.choices(
            [doing for _, doing in self.doings], [weight for weight, _ in self.doings]
        )
        self.counts[doing.__name__.strip("_")] += 1
        done = doing()
        if asyncio.iscoroutine(done):
            await done

    def _crash_router(self) -> None:
        router = self.random.choice(self.routers)
        forgets, offers = self.random.random() < 0.3, self.random.random() < 0.8
        if router.is_up:
            self.trace.add("world", f"{router.name} crashes")
            router.crash(forgets, offers)
            seconds = self.random.choice((0.1, 10.0, 300.0)) * self.random.random()
            self.loop.call_later(seconds, self._start_router, router)

    def _start_router(self, router: WorldRouter) -> None:
        if not router.is_up:
            self.trace.add("world", f"{router.name} starts")
            router.is_up = True

    def _cut(self) -> None:
        for connection in list(self.network.connections.values()):
            if self.random.random() < 0.5:
                connection.cut()

    def _hold(self) -> None:
        """What is asked, or what is answered, comes late."""
        until = self.loop.now + self.random.choice((1.0, 45.0, 200.0, 800.0))
        direction = self.random.choice(("asked", "answered", "both"))
        for connection in self.network.connections.values():
            if self.random.random() < 0.7:
                self.trace.add("network", f"holds what is {direction} of {connection}")
                if direction != "answered":
                    connection.asked_held_until = until
                if direction != "asked":
                    connection.answers_held_until = until

    async def _kill(self) -> None:
        program = self.random.choice(self.programs)
        await program.kill()
        self._start_later(program)

    async def _leave(self) -> None:
        program = self.random.choice(self.programs)
        await program.leave()
        self._start_later(program)

    def _start_later(self, program: Program) -> None:
        seconds = self.random.choice((0.0, 1.0, 100.0)) * self.random.random()
        self.loop.call_later(seconds, program.start)

    def _suspend(self) -> None:
        self.random.choice(self.programs).suspend(self.random.uniform(0.0, 300.0))

    def _go_offline(self) -> None:
        self.random.choice(self.programs).go_offline(self.random.uniform(0.0, 300.0))

    def _change_services(self) -> None:
        self.random.choice(self.programs).change_services()

    def _change_session(self) -> None:
        self.random.choice(self.programs).change_session()

    def _take_queue(self) -> None:
        queue = self.random.choice(self.queues)
        if (found := self._at_router(queue)) is not None:
            self.trace.add("world", f"somebody takes {queue.name}")
            queue.router.take(found)

    def _take_service(self) -> None:
        router = self.random.choice(self.routers)
        for session in list(router.sessions):
            if session.service is not None:
                self.trace.add("world", f"somebody takes the service of {session.connection}")
                router.take_service(session)

    def _refuse_services(self) -> None:
        router = self.random.choice(self.routers)
        router.refuses_services = not router.refuses_services
        self.trace.add("world", f"{router.name} refuses services: {router.refuses_services}")

    # The end.

    async def _calm(self) -> None:
        self.trace.add("world", "is calm")
        self.weather.calm()
        self.is_calm = True
        for router in self.routers:
            self._start_router(router)
            router.refuses_services = False
        for connection in self.network.connections.values():
            connection.let_go()
        for program in self.programs:
            program.start()

    async def _rest(self) -> None:
        """Wait until everything is as it should be, or for long enough."""
        end = self.loop.now + REST_SECONDS
        pause = LOOK_SECONDS
        while self.violation is None:
            for program in self.programs:
                program.acknowledge_held()
            unrest = self._unrest()
            if unrest is None:
                return
            if self.loop.now > end:
                self.broken(*unrest)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 3600.0)

    def _unrest(self) -> tuple[str, str] | None:
        """What is not yet as it should be, and by which law."""
        for queue in self.queues:
            found = self._at_router(queue)
            if found is None:
                return "wanted", f"{queue.name} was not made"
            if queue.book.left:
                return "lost", f"{queue.name}: {queue.book.left} were sent and never shown"
            if not self._is_held(queue, found):
                return "wanted", f"{queue.name} is not subscribed by {queue.reader.name}"
            if found.messages:
                return (
                    "lost",
                    f"{queue.name}: {len(found.messages)} are left at {queue.router.name}",
                )
        for program in self.programs:
            agent = program.agent
            if agent is None or any(s.pending or s.is_reading for s in agent.status()):
                return "wanted", f"{program.name} has queues that are pending"
            if (difference := self._differing_flags(program)) is not None:
                return "tally", difference
        return None

    def _at_router(self, queue: WorldQueue) -> RouterQueue | None:
        return queue.router.queues.get(queue.recipient)

    def _is_held(self, queue: WorldQueue, found: RouterQueue) -> bool:
        if found.holder is None:
            return False
        connection = found.holder.connection
        is_whole = not connection.is_cut and not connection.is_broken
        return is_whole and connection.process is queue.reader.process

    def _differing_flags(self, program: Program) -> str | None:
        """A queue that belongs to the service for one side and not for the other."""
        for queue in program.reads:
            found = self._at_router(queue)
            assert found is not None, "it was made"
            is_kept = program.disk.find(lambda tables, id=found.recipient: _is_flagged(tables, id))  # type: ignore[misc]
            if is_kept != (found.service is not None):
                return f"{queue.name} belongs to a service for {program.name}: {is_kept}"
        return None

    # Watching.

    def _check_tallies(self) -> None:
        """Stored tallies are recounts, at any moment."""
        for program in self.programs:
            for kept, counted in program.disk.find(tallies).values():
                if kept != counted:
                    self.broken("tally", f"{program.name} keeps {kept}, and has {counted}")

    def _check_tables(self) -> None:
        """Besides, no row belongs to nothing."""
        for program in self.programs:
            for wrong in program.disk.find(check):
                self.broken("tally", f"{program.name}: {wrong}")

    def broken(self, law: str, what: str, cause: BaseException | None = None) -> None:
        """Something happened that must not. The first is kept, and ends the world."""
        if self.violation is None:
            self.trace.add("world", f"{law}: {what}")
            self.violation = Violation(law, what, self.seed, self.trace.lines())
            self.violation.__cause__ = cause

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.broken("agent", f"{context['message']}: {error!r}", error)


def _is_flagged(tables: Database, recipient: bytes) -> bool:
    rows = tables.ask("SELECT assoc FROM receive_queues WHERE recipient_id = ?", recipient)
    return bool(rows and rows[0][0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Agents log what they recover from, which is all that happens here."""
    log = logging.getLogger("headgate.agent")
    level, log.level = log.level, logging.CRITICAL + 1
    try:
        yield
    finally:
        log.level = level


def play(seed: int, steps: int = STEPS) -> AgentWorld:
    """Make a world and play it; raise a `Violation` if there is one."""
    world = AgentWorld(seed)
    world.play(steps)
    return world


def shortest(seed: int, steps: int = STEPS) -> int:
    """The fewest steps after which a world that breaks a law breaks one: the first steps of a
    longer world are those of a shorter one."""
    for fewer in range(steps):
        try:
            play(seed, fewer)
        except Violation:
            return fewer
    return steps

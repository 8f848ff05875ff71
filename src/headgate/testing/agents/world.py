"""Worlds of agents: programs with real agents, routers, a network and disks under one seed.

Each agent is whole: engine, shell, receiving, sending, queues, links, and its tables in SQLite.
Everything around it is simulated. See docs/design/worlds.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from headgate.agent.records.check import check, tallies
from headgate.agent.records.database import Database
from headgate.testing.agents import router_world
from headgate.testing.agents.laws import QueueBook
from headgate.testing.agents.program import Program, WorldQueue
from headgate.testing.agents.router import RouterQueue, WorldRouter
from headgate.testing.agents.router_world import STEPS, RouterWorld


class AgentWorld(RouterWorld):
    """Two programs with agents, one or two routers, and up to three queues."""

    logger: ClassVar = "headgate.agent"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.doings += [
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

    @property
    def _routers(self) -> Sequence[WorldRouter]:
        return self.routers

    def _start(self) -> None:
        for program in self.programs:
            program.start()

    def _watch(self) -> None:
        self._check_tallies()

    def _help_to_rest(self) -> None:
        for program in self.programs:
            program.acknowledge_held()

    async def _leave_all(self) -> None:
        for program in self.programs:
            await program.leave()
        self._check_tables()

    async def _kill_all(self) -> None:
        for program in self.programs:
            await program.kill()

    def _end_disks(self) -> None:
        for program in self.programs:
            program.disk.end()

    def summary(self) -> str:
        sent = sum(len(queue.book.sent) for queue in self.queues)
        shown = sum(sum(queue.book.shown.values()) for queue in self.queues)
        return f"{len(self.trace)} lines, {sent} messages sent, {shown} shown; {self._happened}"

    # What happens to them.

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

    # The end.

    def _unrest(self) -> tuple[str, str] | None:
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


def _is_flagged(tables: Database, recipient: bytes) -> bool:
    rows = tables.ask("SELECT assoc FROM receive_queues WHERE recipient_id = ?", recipient)
    return bool(rows and rows[0][0])


def play(seed: int, steps: int = STEPS) -> AgentWorld:
    """Make a world and play it; raise a `Violation` if there is one."""
    world = AgentWorld(seed)
    world.play(steps)
    return world


def shortest(seed: int, steps: int = STEPS) -> int:
    return router_world.shortest(AgentWorld, seed, steps)

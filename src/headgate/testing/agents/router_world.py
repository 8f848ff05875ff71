"""The base of worlds with simulated routers: time, chance, a network, steps and an end."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, ClassVar

from headgate.testing.agents.loop import Idle, WorldLoop
from headgate.testing.agents.network import Network
from headgate.testing.agents.router import WorldRouter
from headgate.testing.agents.weather import AgentWeather, draw_weather
from headgate.testing.trace import Trace, Violation

STEPS = 20
"""Things that a world does to its inhabitants, unless another number is given."""
LOOK_SECONDS = 20.0


class RouterWorld(ABC):
    """A world with routers: everything, under one seed. Kinds of worlds add who lives in them, and
    their laws."""

    logger: ClassVar = "headgate"
    """Of those who live here: they log what they recover from, which is all that happens."""

    rest_seconds: ClassVar = 24 * 3600.0
    """Within so long after the last fault everything is as it should be: a sender waits for a
    queue that was full for hours."""
    weather: AgentWeather

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = WorldLoop()
        self.trace = Trace(self.loop)
        self.random = Random(f"{seed} world")
        self.weather = self._draw_weather()
        self.network = Network(self.loop, Random(f"{seed} network"), self.weather, self.trace)
        self.is_calm = False
        """Nothing goes wrong any more, and nobody begins anything."""
        self.counts: Counter[str] = Counter()
        """The actions taken so far, counted by name."""
        self.violation: Violation | None = None
        self.doings: list[tuple[int, Callable[[], Any]]] = [
            (3, self._crash_router),
            (3, self._cut),
            (3, self._hold),
        ]
        """The possible actions, each with its weight."""

    def _draw_weather(self) -> AgentWeather:
        return draw_weather(self.random)

    @property
    @abstractmethod
    def _routers(self) -> Sequence[WorldRouter]: ...

    @abstractmethod
    def _start(self) -> None:
        """Start whoever does not run."""

    @abstractmethod
    def _watch(self) -> None:
        """Check the laws that hold at any moment."""

    @abstractmethod
    def _unrest(self) -> tuple[str, str] | None:
        """The reason why the world is not at rest yet, and the law that asks for it."""

    @abstractmethod
    async def _leave_all(self) -> None:
        """End all programs in order."""

    @abstractmethod
    async def _kill_all(self) -> None:
        """Kill all programs."""

    @abstractmethod
    def _end_disks(self) -> None: ...

    @abstractmethod
    def summary(self) -> str: ...

    @abstractmethod
    def _help_to_rest(self) -> None:
        """Called before each look at what is not as it should be."""

    # Running.

    def play(self, steps: int = STEPS) -> None:
        """Let so many things happen, then come to rest; raise a `Violation` if there is one."""
        self.loop.set_exception_handler(self._on_exception)
        try:
            with _quiet(self.logger):
                self.loop.run_until_complete(self._play(steps))
        except Idle:
            self.broken("rest", "somebody waits for what will never happen")
        finally:
            self.loop.close()
            self._end_disks()
        if self.violation is not None:
            raise self.violation

    async def _play(self, steps: int) -> None:
        try:
            self._start()
            for _ in range(steps):
                await self._wait()
                if self.violation is None:
                    await self._happen()
                self._watch()
            await self._calm()
            await self._rest()
            await self._leave_all()
        finally:
            await self._kill_all()

    async def _wait(self) -> None:
        await asyncio.sleep(self.random.choice((0.01, 1.0, 10.0, 100.0)) * self.random.random())

    @property
    def _happened(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))

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
        router = self.random.choice(self._routers)
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
        """Requests, or answers, come late."""
        until = self.loop.now + self.random.choice((1.0, 45.0, 200.0, 800.0))
        direction = self.random.choice(("asked", "answered", "both"))
        for connection in self.network.connections.values():
            if self.random.random() < 0.7:
                self.trace.add("network", f"holds what is {direction} of {connection}")
                if direction != "answered":
                    connection.asked_held_until = until
                if direction != "asked":
                    connection.answers_held_until = until

    def _take_service(self) -> None:
        router = self.random.choice(self._routers)
        for session in list(router.sessions):
            if session.service is not None:
                self.trace.add("world", f"somebody takes the service of {session.connection}")
                router.take_service(session)

    def _refuse_services(self) -> None:
        router = self.random.choice(self._routers)
        router.refuses_services = not router.refuses_services
        self.trace.add("world", f"{router.name} refuses services: {router.refuses_services}")

    # The end.

    async def _calm(self) -> None:
        self.trace.add("world", "is calm")
        self.weather.calm()
        self.is_calm = True
        for router in self._routers:
            self._start_router(router)
            router.refuses_services = False
        for connection in self.network.connections.values():
            connection.let_go()
        self._start()

    async def _rest(self) -> None:
        """Wait until everything is as it should be, or for long enough."""
        end = self.loop.now + self.rest_seconds
        pause = LOOK_SECONDS
        while self.violation is None:
            self._help_to_rest()
            unrest = self._unrest()
            if unrest is None:
                return
            if self.loop.now > end:
                self.broken(*unrest)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 3600.0)

    # Watching.

    def broken(self, law: str, what: str, cause: BaseException | None = None) -> None:
        """Something happened that must not. The first is kept, and ends the world."""
        if self.violation is None:
            self.trace.add("world", f"{law}: {what}")
            self.violation = Violation(law, what, self.seed, self.trace.lines())
            self.violation.__cause__ = cause

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.broken("raised", f"{context['message']}: {error!r}", error)


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def shortest(make: Callable[[int], RouterWorld], seed: int, steps: int = STEPS) -> int:
    """The fewest steps after which a world that breaks a law breaks one: the first steps of a
    longer world are those of a shorter one."""
    for fewer in range(steps):
        try:
            make(seed).play(fewer)
        except Violation:
            return fewer
    return steps

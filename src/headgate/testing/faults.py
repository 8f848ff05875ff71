"""Weather of a world: what goes wrong, and how often, and a store that has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from headgate.core.turn.store_requests import Batch, Load, Loaded
from headgate.errors import StoreError
from headgate.store.memory import MemoryStore
from headgate.testing.clock import Clock
from headgate.testing.rig import at_once
from headgate.testing.trace import Trace

Answer: TypeAlias = Loaded | StoreError | None

CALLS_MAX = 3
"""Calls of the store in one turn: what it lacks, bodies, the batch."""

BEFORE, AFTER = "before", "after"
"""When a router crashes around a call of the store: before it is done, or after."""


@dataclass(frozen=True)
class Weather:
    """The weather of a world. Chances are per turn for the store and the router, per action for a
    client's link."""

    loss: float = 0.03
    """That a link breaks, with everything that is on its way."""
    latency: tuple[float, float] = (0.001, 0.08)
    """Seconds from one end of a link to the other."""
    store_delay: tuple[float, float] = (0.0, 0.15)
    """Seconds until the store has done what it was asked, and again until the answer is back."""
    store_failure: float = 0.05
    crash: float = 0.01
    fail_at: int | None = None
    """Let exactly this call of the store fail, counted from 0 over the whole world."""
    crash_at: tuple[int, str] | None = None
    """Let the router crash at exactly this call of the store, before or after it is done."""


def storm(random: Random) -> Weather:
    """Bad weather, drawn: a fast store makes many small turns, a slow one few large ones."""
    return Weather(
        loss=random.choice((0.01, 0.03, 0.08)),
        latency=(0.001, random.choice((0.01, 0.08))),
        store_delay=(0.0, random.choice((0.001, 0.02, 0.15))),
        store_failure=random.choice((0.0, 0.05, 0.2)),
        crash=random.choice((0.0, 0.02, 0.06)),
    )


CALM = Weather(loss=0.0, store_delay=(0.0, 0.01), store_failure=0.0, crash=0.0)


@dataclass(slots=True)
class Fate:
    """The fate of one turn, by the weather: it is decided when the turn begins, so that memory is
    looked at beforehand only if the turn may fail."""

    fail_at: int | None = None
    """The so-manieth call of this turn fails, if there is one."""
    crash_at: tuple[int, str] | None = None

    @property
    def may_fail(self) -> bool:
        return self.fail_at is not None


class SlowStore:
    """The memory store behind a wire: it answers later, fails on purpose, and stays when the
    router goes."""

    def __init__(self, clock: Clock, random: Random, trace: Trace) -> None:
        self.inner = MemoryStore()
        self.calls = 0
        self.failures = 0
        self._clock = clock
        self._random = random
        self._trace = trace

    def fate(self, weather: Weather) -> Fate:
        """The faults of the next turn."""
        random, fate = self._random, Fate()
        # Drawn in any case, so that a world that fails at one place is like others up to there.
        fails, crashes = random.random() < weather.store_failure, random.random() < weather.crash
        call, when = random.randrange(CALLS_MAX), random.choice((BEFORE, AFTER))
        if weather.fail_at is not None:
            ahead = weather.fail_at - self.calls
            fate.fail_at = ahead if 0 <= ahead < CALLS_MAX else None
        elif fails:
            fate.fail_at = call
        if weather.crash_at is not None:
            fate.crash_at = (weather.crash_at[0] - self.calls, weather.crash_at[1])
        elif crashes:
            fate.crash_at = (call, when)
        return fate

    def ask(
        self,
        asked: Load | Batch,
        weather: Weather,
        fails: bool,
        done: Callable[[], None],
        answered: Callable[[Answer], None],
    ) -> None:
        """Do what is asked in a while, say `done` at that moment, and answer a while later."""
        self.calls += 1
        wait = self._random.uniform(*weather.store_delay)
        back = self._random.uniform(*weather.store_delay)

        def work() -> None:
            answer = self._fail(asked) if fails else self._do(asked)
            if not isinstance(answer, StoreError):
                done()
            self._clock.after(back, lambda: answered(answer))

        self._clock.after(wait, work)

    def _fail(self, asked: Load | Batch) -> StoreError:
        self.failures += 1
        self._trace.add("store", "fails on purpose at", asked)
        return StoreError("on purpose")

    def _do(self, asked: Load | Batch) -> Answer:
        self._trace.add("store", "does", asked)
        try:
            if isinstance(asked, Load):
                return at_once(self.inner.load(asked))
            return at_once(self.inner.apply(asked))
        except StoreError as error:
            self._trace.add("store", "refuses", error)
            return error

"""The driver of an agent's engine: it calls it and has its effects carried out, in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from headgate.agent.engine.effects import Effect, WakeAt
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.settings import EngineSettings


class EngineDriver:
    """An engine, its clock, and the effects that were not carried out yet. Owned by a shell.

    Whoever calls the engine passes what it returns to `do`, without awaiting between the two. All
    calls are made in one event loop, so there is no lock. `carry_out` returns at once; what it
    raises goes to `failed`, and the effects after it are carried out all the same.
    """

    def __init__(
        self,
        settings: EngineSettings,
        seed: int,
        carry_out: Callable[[Effect], None],
        failed: Callable[[Exception], None],
    ) -> None:
        # The seed differs from run to run, so that agents that lost one router come back apart.
        self.engine = Engine(settings, seed)
        self._carry_out = carry_out
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._effects: deque[Effect] = deque()
        self._is_doing = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._watchers: list[asyncio.Future[None]] = []
        """Who waits for a change."""

    def now(self) -> float:
        """The time that the engine goes by, which never goes back."""
        return self._loop.time()

    def do(self, effects: Iterable[Effect]) -> None:
        """Carry effects out, after those that came before. One that leads to others, because it
        ends a session, has them carried out after itself."""
        self._effects.extend(effects)
        if self._is_doing:
            return
        self._is_doing = True
        try:
            while self._effects and not self._is_closed:
                effect = self._effects.popleft()
                try:
                    if isinstance(effect, WakeAt):
                        self._wake_at(effect.time)
                    else:
                        self._carry_out(effect)
                except Exception as error:
                    self._failed(error)
        finally:
            self._is_doing = False
        self.stir()

    async def change(self) -> None:
        """Wait until something was done."""
        waiting = self._loop.create_future()
        self._watchers.append(waiting)
        await waiting

    def stir(self) -> None:
        """Something has changed."""
        watchers, self._watchers = self._watchers, []
        for waiting in watchers:
            if not waiting.done():
                waiting.set_result(None)

    def close(self) -> None:
        """Carry nothing out any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._tick, when)

    def _tick(self, when: float) -> None:
        self._timer = None
        # A loop may be early by what its clock cannot tell apart.
        self.do(self.engine.tick(max(when, self.now())))

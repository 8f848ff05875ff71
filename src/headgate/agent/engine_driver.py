"""The driver of an agent's engine: it calls the engine and has its effects carried out, in
order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from headgate.agent.engine.effects import Effect, WakeAt
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.settings import EngineSettings


class EngineDriver:
    """An engine, its clock, and the effects that were not carried out yet. Owned by a shell.

    Callers of the engine pass its result to `do`, without awaiting in between. All calls are made
    in one event loop, so there is no lock. `carry_out` returns at once; its exceptions go to
    `failed`, and later effects are carried out all the same.
    """

    def __init__(
        self,
        settings: EngineSettings,
        seed: int,
        carry_out: Callable[[Effect], None],
        failed: Callable[[Exception], None],
    ) -> None:
        # The seed differs from run to run, so that agents that lost one router reconnect at
        # different times.
        self.engine = Engine(settings, seed)
        self._carry_out = carry_out
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._effects: deque[Effect] = deque()
        self._is_doing = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._watchers: list[asyncio.Future[None]] = []
        """Callers that wait for a change."""

    def now(self) -> float:
        """The engine's time, which never goes back."""
        return self._loop.time()

    def do(self, effects: Iterable[Effect]) -> None:
        """Carry effects out, after earlier ones. If one leads to others, because it ends a session,
        those follow after itself."""
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
        """Wait until effects were carried out."""
        waiting = self._loop.create_future()
        self._watchers.append(waiting)
        await waiting

    def stir(self) -> None:
        """Wake the callers that wait for a change."""
        watchers, self._watchers = self._watchers, []
        for waiting in watchers:
            if not waiting.done():
                waiting.set_result(None)

    def close(self) -> None:
        """Carry out no more effects."""
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
        # A loop may wake early by the resolution of its clock.
        self.do(self.engine.tick(max(when, self.now())))

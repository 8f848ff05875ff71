"""Waiting before another attempt, with pauses that grow until one succeeds."""

from __future__ import annotations

import asyncio
from typing import Final

from headgate.agent.clock import AgentClock
from headgate.agent.engine.backoff import Backoff, Delays, spread

FAST: Final = Delays(first=2.0, constant_for=0.0, longest=120.0)
"""After a temporary error."""
SLOW: Final = Delays(first=300.0, constant_for=0.0, longest=6 * 3600.0)
"""After QUOTA: the recipient has to read first."""


class Pauses:
    """A position in a sequence of pauses, and the clock for waiting."""

    def __init__(self, clock: AgentClock, delays: Delays) -> None:
        self._clock = clock
        self._delays = delays
        self._never = asyncio.Event()
        self.reset()

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self._backoff = Backoff(self._delays)

    async def wait(self) -> None:
        self._backoff = self._backoff.step()
        await self._clock.wait(spread(self._backoff.pause, self._clock.jitter()), self._never)

"""Time for waiting and for counting days. Tests have a clock of their own."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class AgentClock(Protocol):
    """The clock of an agent: the time, and waiting."""

    def now(self) -> float:
        """Seconds of the wall clock, for the age of messages."""
        ...

    async def wait(self, seconds: float, until: asyncio.Event) -> None:
        """Wait so long, or until the event is set. Independent of jumps of the wall clock."""
        ...

    def jitter(self) -> float:
        """A number from -1 to 1, so that many agents do not reconnect at the same moment."""
        ...


def jitter_seed(clock: AgentClock) -> int:
    """A seed for a sequence of jitters that is computed."""
    return round((clock.jitter() + 1) * 2**31)


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        return time.time()

    async def wait(self, seconds: float, until: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(seconds):
                await until.wait()
        except TimeoutError:
            pass

    def jitter(self) -> float:
        return random.uniform(-1, 1)

"""The health of the store: whether it answers, known also while nobody needs it.

A turn finds out for itself that its store failed; a router without traffic has no turns. So the
store is asked a small question now and then, one at a time: while one has no answer there is no
second, and how long the first has waited is what there is to tell.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from headgate.errors import StoreError

PROBE_SECONDS = 2.0
"""Between an answer and the next question."""

SILENCE_SECONDS = 5.0
"""So long nobody complains: a store that is busy answers late."""


class StoreHealth:
    """Asks the store a small question now and then, and knows how long it has not answered.

    Owned by the router; `/readyz` shows its `problem`.
    """

    def __init__(
        self, probe: Callable[[], Awaitable[None]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._failure: str | None = None
        self._asked: float | None = None
        """Since when a question waits for its answer."""

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            await self.ask()

    async def ask(self) -> None:
        self._asked = self._clock()
        try:
            await self._probe()
        except StoreError as error:
            self._failure = str(error)
        else:
            self._failure = None
        finally:
            self._asked = None

    @property
    def problem(self) -> str | None:
        """The trouble with the store, if there is any."""
        waited = 0.0 if self._asked is None else self._clock() - self._asked
        if waited >= SILENCE_SECONDS:
            return f"it has not answered for {waited:.0f} s"
        return self._failure

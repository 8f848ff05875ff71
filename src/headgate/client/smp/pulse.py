"""The pulse of a link: a PING is sent when no data comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headgate.client.smp.timing import Timing
from headgate.client.smp.waiting import Outcome
from headgate.errors import TimedOut


class LinkPulse:
    """Checks whether the other end of a link lives.

    The link owns it: starts it when it begins to subscribe, calls it for every block, and stops it
    at its end. After a time without data it calls `ask` for an answer, and `end` after so many
    missing answers and so long a silence. All its timers use the loop's clock.
    """

    __slots__ = ("_ask", "_end", "_loop", "_missed", "_timer", "_timing", "heard_at")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timing: Timing,
        ask: Callable[[], None],
        end: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._timing = timing
        self._ask = ask
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        self._missed = 0
        """Missing answers in a row."""
        self.heard_at = loop.time()

    @property
    def is_started(self) -> bool:
        return self._timer is not None

    def start(self) -> None:
        self._timer = self._loop.call_later(self._timing.ping_seconds, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def heard(self) -> None:
        """Note that data came."""
        self.heard_at, self._missed = self._loop.time(), 0

    def answered(self, place: int, outcome: Outcome) -> None:
        """Note the outcome of a question, as a batch reports it."""
        if not isinstance(outcome, TimedOut):
            return
        self._missed += 1
        silence = self._loop.time() - self.heard_at
        if (
            self._missed >= self._timing.pings_missed_max
            and silence >= self._timing.silence_seconds
        ):
            self._end(f"the router is silent for {silence:.0f} seconds")

    def _beat(self) -> None:
        """Send a PING if no data came."""
        now, due = self._loop.time(), self.heard_at + self._timing.ping_seconds
        if now < due:
            self._timer = self._loop.call_at(due, self._beat)
            return
        self.start()
        self._ask()

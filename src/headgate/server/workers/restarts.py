"""Restarts: when a worker that died is started again."""

from __future__ import annotations

PAUSES = (0.1, 0.5, 1.0, 5.0)
"""Seconds before a restart, by the number of deaths in a row."""
STEADY_SECONDS = 10.0
"""After so many seconds of accepting clients, a death is not one in a row."""
FAILING = 2
"""Deaths in a row that are reported as a problem."""


class Restarts:
    """The lives of one worker. The supervisor owns one for each number; the caller passes times."""

    def __init__(self) -> None:
        self.starts = 0
        self.deaths = 0
        """Number of deaths in a row."""
        self._ready_since: float | None = None
        self._due = 0.0

    def started(self) -> int:
        """Count a start; return the number of starts."""
        self.starts += 1
        self._ready_since = None
        return self.starts

    def ready(self, now: float) -> None:
        """Note that it accepts clients."""
        self._ready_since = now

    def died(self, now: float) -> float:
        """Note that it is dead; return the seconds until its restart."""
        self.lives(now)
        self.deaths += 1
        pause = PAUSES[min(self.deaths, len(PAUSES)) - 1]
        self._due = now + pause
        return pause

    def lives(self, now: float) -> None:
        """Note that it is alive. When it has accepted clients for a while, all is well."""
        if self._ready_since is not None and now - self._ready_since >= STEADY_SECONDS:
            self.deaths = 0

    def is_due(self, now: float) -> bool:
        """Whether it is dead and to be started now."""
        return now >= self._due

    @property
    def is_failing(self) -> bool:
        return self.deaths >= FAILING

"""Restarts: when a worker that died is started again."""

from __future__ import annotations

PAUSES = (0.1, 0.5, 1.0, 5.0)
"""Seconds before it is started again, by how often it died in a row."""
STEADY_SECONDS = 10.0
"""Who took clients for so long did not die in a row."""
FAILING = 2
"""So many deaths in a row are a problem to tell of."""


class Restarts:
    """The lives of one worker. The supervisor owns one for each number; times are given to it."""

    def __init__(self) -> None:
        self.starts = 0
        self.deaths = 0
        """In a row."""
        self._ready_since: float | None = None
        self._due = 0.0

    def started(self) -> int:
        """It is started; return how often it was."""
        self.starts += 1
        self._ready_since = None
        return self.starts

    def ready(self, now: float) -> None:
        """It takes clients."""
        self._ready_since = now

    def died(self, now: float) -> float:
        """It is dead; return after which pause it is to be started again."""
        self.lives(now)
        self.deaths += 1
        pause = PAUSES[min(self.deaths, len(PAUSES)) - 1]
        self._due = now + pause
        return pause

    def lives(self, now: float) -> None:
        """It is there. When it took clients for a while, all is well."""
        if self._ready_since is not None and now - self._ready_since >= STEADY_SECONDS:
            self.deaths = 0

    def is_due(self, now: float) -> bool:
        """Of one that is dead: whether it is to be started now."""
        return now >= self._due

    @property
    def is_failing(self) -> bool:
        return self.deaths >= FAILING

"""Time that passes only when there is something to do."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeAlias

Action: TypeAlias = Callable[[], None]

START = 1000.0
"""Where every world begins, in seconds."""


class Clock:
    """The things that are to happen, in the order in which they will. Of two at the same moment the
    one that was planned first comes first, so a world depends on nothing but its seed."""

    def __init__(self, now: float = START) -> None:
        self.now = now
        self.steps = 0
        """How many things have happened."""
        self._planned: list[tuple[float, int, Action]] = []
        self._count = 0

    def after(self, seconds: float, action: Action) -> None:
        """Plan something for so many seconds from now."""
        self.at(self.now + seconds, action)

    def at(self, moment: float, action: Action) -> None:
        assert moment >= self.now, "nothing is planned for the past"
        self._count += 1
        heapq.heappush(self._planned, (moment, self._count, action))

    def step(self) -> bool:
        """Let the next thing happen; false if there is none."""
        if not self._planned:
            return False
        self.now, _, action = heapq.heappop(self._planned)
        self.steps += 1
        action()
        return True

    def __len__(self) -> int:
        return len(self._planned)

"""An agenda: what is to be looked at, and when, the earliest first.

A look that comes too early is harmless: whoever looks says when to come again. So a turn that
failed may leave here what it put, and only what it took has to be put back.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bytes, tuple[bytes, int])


class Agenda(Generic[K]):
    """One time for each thing, the earliest that was asked for. What is not due costs nothing."""

    __slots__ = ("_line", "_times")

    def __init__(self) -> None:
        self._times: dict[K, float] = {}
        self._line: list[tuple[float, K]] = []
        """A heap. An item whose time is not that of `_times` was put off or overtaken."""

    def put(self, when: float, what: K) -> None:
        """Look at it at this time, if not before."""
        known = self._times.get(what)
        if known is None or when < known:
            self._times[what] = when
            heappush(self._line, (when, what))

    def has_due(self, now: float) -> bool:
        return bool(self._line) and self._line[0][0] <= now

    def due(self, now: float, most: int | None = None) -> list[tuple[float, K]]:
        """Take what is to be looked at by now, so many at most."""
        taken: list[tuple[float, K]] = []
        while self.has_due(now) and (most is None or len(taken) < most):
            when, what = heappop(self._line)
            if self._times.get(what) == when:
                del self._times[what]
                taken.append((when, what))
        return taken

    def __len__(self) -> int:
        return len(self._times)

"""Agendas: which items are due, and when, the earliest first.

An item that is due too early does no harm: its owner puts it in again. So what a failed turn put in
may stay, and only what it took has to be put back.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bytes, tuple[bytes, int])


class Agenda(Generic[K]):
    """One time for each item, the earliest that was asked for.

    Owned by the part that has the items. Items that are not due cost nothing.
    """

    __slots__ = ("_line", "_times")

    def __init__(self) -> None:
        self._times: dict[K, float] = {}
        self._line: list[tuple[float, K]] = []
        """A heap. An entry whose time differs from that in `_times` was moved or overtaken."""

    def put(self, when: float, what: K) -> None:
        """Make an item due at this time, unless it is due earlier."""
        known = self._times.get(what)
        if known is None or when < known:
            self._times[what] = when
            heappush(self._line, (when, what))

    def has_due(self, now: float) -> bool:
        return bool(self._line) and self._line[0][0] <= now

    def due(self, now: float, most: int | None = None) -> list[tuple[float, K]]:
        """Take the items that are due by now, at most so many."""
        taken: list[tuple[float, K]] = []
        while self.has_due(now) and (most is None or len(taken) < most):
            when, what = heappop(self._line)
            if self._times.get(what) == when:
                del self._times[what]
                taken.append((when, what))
        return taken

    def __len__(self) -> int:
        return len(self._times)

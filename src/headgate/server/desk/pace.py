"""Limits on how often something may be asked for: so many a second, of all together or of each who
asks."""

from __future__ import annotations

from collections.abc import Callable

VIEWERS_KEPT = 256
"""The viewers that asked last; one that is forgotten begins anew."""


class Pace:
    """A limit of so many requests a second. A request counts before it is done, and also if it is
    refused."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._second = 0.0
        self._count = 0

    def take(self) -> bool:
        """Whether one more may be."""
        now = self._clock()
        if now - self._second >= 1.0:
            self._second, self._count = now, 0
        self._count += 1
        return self._count <= self._most


class ViewerPace:
    """A limit of so many requests a second for each who asks."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._paces: dict[bytes, Pace] = {}

    def take(self, viewer: bytes) -> bool:
        """Whether one more may be."""
        pace = self._paces.pop(viewer, None) or Pace(self._most, self._clock)
        self._paces[viewer] = pace
        if len(self._paces) > VIEWERS_KEPT:
            del self._paces[next(iter(self._paces))]
        return pace.take()

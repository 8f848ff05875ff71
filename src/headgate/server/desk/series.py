"""The history that the router keeps of its own numbers: fifteen minutes by the second, and a day by
ten seconds. A restart forgets it; Prometheus is for longer."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from headgate.server.desk.answers import Point

NAMES = Point.__struct_fields__
FINE_POINTS = 900
COARSE_SECONDS = 10
COARSE_POINTS = 24 * 3600 // COARSE_SECONDS
SPAN_MAX = COARSE_POINTS * COARSE_SECONDS


class Ring:
    """The last points of all series, in columns."""

    def __init__(self, points: int) -> None:
        self._points = points
        self._at = array("d", bytes(8 * points))
        self._columns = {name: array("d", bytes(8 * points)) for name in NAMES}
        self._next = 0
        self._count = 0

    def add(self, at: float, values: Sequence[float]) -> None:
        """One value of each series, in their order."""
        place = self._next
        self._at[place] = at
        for column, value in zip(self._columns.values(), values, strict=True):
            column[place] = value
        self._next = (place + 1) % self._points
        self._count = min(self._count + 1, self._points)

    def last(self, names: Sequence[str], points: int) -> dict[str, list[float]]:
        """The newest points of some series, the oldest of them first."""
        count = min(points, self._count)
        found = {"at": self._cut(self._at, count)}
        return found | {name: self._cut(self._columns[name], count) for name in names}

    def _cut(self, column: array[float], count: int) -> list[float]:
        first = self._next - count
        if first >= 0:
            return column[first : self._next].tolist()
        return column[first:].tolist() + column[: self._next].tolist()


class History:
    """All series: the newest by the second, older ones as the mean of ten seconds."""

    def __init__(self) -> None:
        self._fine = Ring(FINE_POINTS)
        self._coarse = Ring(COARSE_POINTS)
        self._sums = [0.0] * len(NAMES)
        self._summed = 0

    def add(self, at: float, point: Point) -> None:
        values = [getattr(point, name) for name in NAMES]
        self._fine.add(at, values)
        self._sums = [total + value for total, value in zip(self._sums, values, strict=True)]
        self._summed += 1
        if self._summed == COARSE_SECONDS:
            self._coarse.add(at, [total / COARSE_SECONDS for total in self._sums])
            self._sums, self._summed = [0.0] * len(NAMES), 0

    def columns(self, names: Sequence[str], span: int) -> dict[str, list[float]]:
        """Some series of the last seconds."""
        if span <= FINE_POINTS:
            return self._fine.last(names, span)
        return self._coarse.last(names, span // COARSE_SECONDS)

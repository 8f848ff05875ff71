"""How many deliveries of exclusive queues are not confirmed, and since when the oldest: kept as
turns happen, so that nobody has to go through all sessions to know."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from headgate.core.model.ids import SessionId

SPARE = 1000
"""So many entries more than sessions may be out of date before they are cleared away."""


class Unconfirmed:
    """The deliveries of all sessions. It is told only of turns that have happened, so nothing of it
    is ever taken back.

    The oldest is found by a heap of sessions. An entry that is no longer true stays in it until it
    comes to the front.
    """

    def __init__(self) -> None:
        self.count = 0
        self._counts: dict[SessionId, int] = {}
        self._oldest: dict[SessionId, float] = {}
        self._heap: list[tuple[float, SessionId]] = []

    def set(self, session: SessionId, count: int, oldest: float | None) -> None:
        """A session has so many now, the oldest of which was made then."""
        self.count += count - self._counts.pop(session, 0)
        if not count or oldest is None:
            self._oldest.pop(session, None)
            return
        self._counts[session] = count
        if self._oldest.get(session) != oldest:
            self._oldest[session] = oldest
            heappush(self._heap, (oldest, session))
            if len(self._heap) > 2 * len(self._oldest) + SPARE:
                self._heap = [(at, each) for each, at in self._oldest.items()]
                heapify(self._heap)

    def oldest(self) -> float | None:
        """When the oldest was made."""
        heap = self._heap
        while heap and self._oldest.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

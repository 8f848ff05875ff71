"""Unconfirmed deliveries of exclusive queues: their number and the oldest, kept up to date by each
turn, so that no caller has to go through all sessions."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from headgate.core.model.ids import SessionId

SPARE = 1000
"""Stale entries, beyond the number of sessions, that are kept before they are cleared away."""


class Unconfirmed:
    """The unconfirmed deliveries of all sessions. Only committed turns change it, so nothing is
    ever undone.

    The oldest is found by a heap of sessions. A stale entry stays in it until it comes to the
    front.
    """

    def __init__(self) -> None:
        self.count = 0
        self._counts: dict[SessionId, int] = {}
        self._oldest: dict[SessionId, float] = {}
        self._heap: list[tuple[float, SessionId]] = []

    def set(self, session: SessionId, count: int, oldest: float | None) -> None:
        """Set the number of a session's deliveries and the time of the oldest."""
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
        """The time of the oldest delivery."""
        heap = self._heap
        while heap and self._oldest.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

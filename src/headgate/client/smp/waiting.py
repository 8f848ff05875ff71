"""Unanswered requests of a link: callers' batches, written blocks, and the table of requests that
may still be answered.

Nothing here does I/O or reads a clock: time is an argument.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from headgate.client.smp.recipient import Request
from headgate.errors import HeadgateError
from headgate.wire.smp.codec.replies import Reply

Outcome: TypeAlias = Reply | HeadgateError
"""The outcome of a request: an answer, or an error."""

Each: TypeAlias = Callable[[int, Outcome], None]
"""Called with the position of a request in its batch, and its outcome."""


class Batch:
    """The requests that one caller waits for together.

    The caller may leave; later answers are late. `each` is called at once for every outcome, in
    order, among the events of the link.
    """

    __slots__ = ("_each", "is_left", "left", "outcomes", "over")

    def __init__(self, count: int, over: asyncio.Future[None], each: Each | None = None) -> None:
        self.outcomes: list[Outcome | None] = [None] * count
        self.left = count
        """Number of requests without an outcome."""
        self.over = over
        """Done when every request has an outcome."""
        self.is_left = False
        """Whether the caller has left."""
        self._each = each

    def settle(self, place: int, outcome: Outcome) -> None:
        if self.is_left or self.outcomes[place] is not None:
            return
        self.outcomes[place] = outcome
        self.left -= 1
        if not self.left and not self.over.done():
            self.over.set_result(None)
        if self._each is not None:
            self._each(place, outcome)

    def results(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome is not None]


class SentBlock:
    """A written block, and when its time began."""

    __slots__ = ("answers_left", "correlations", "is_subscribing", "seconds", "since", "timer")

    def __init__(self, correlations: Sequence[bytes], is_subscribing: bool, seconds: float) -> None:
        self.correlations = correlations
        self.answers_left = len(correlations)
        self.is_subscribing = is_subscribing
        self.seconds = seconds
        """Seconds that its answers may take."""
        self.since: float | None = None
        """When its time began: None before it was written, and extended while earlier blocks are
        answered."""
        self.timer: asyncio.TimerHandle | None = None


class WaitingRow:
    """A request, the batch that waits for its answer, and its block."""

    __slots__ = ("batch", "block", "place", "request")

    def __init__(self, request: Request, batch: Batch, place: int, block: SentBlock) -> None:
        self.request = request
        self.batch = batch
        self.place = place
        self.block = block


class WaitingTable:
    """The requests of one link by correlation id: those whose time runs, and for a while expired
    ones, since their answers still count."""

    def __init__(self, late_seconds: float, late_max: int) -> None:
        self._rows: dict[bytes, WaitingRow] = {}
        self._late: dict[bytes, tuple[WaitingRow, float]] = {}
        """With the time at which each is forgotten, the first one first."""
        self._late_seconds = late_seconds
        self._late_max = late_max

    def __len__(self) -> int:
        """Number of requests whose time runs."""
        return len(self._rows)

    @property
    def late_count(self) -> int:
        return len(self._late)

    def add(self, correlation: bytes, row: WaitingRow) -> None:
        assert correlation, "an answer without a correlation is an event"
        assert correlation not in self._rows, "every request has a correlation of its own"
        self._rows[correlation] = row

    def take(self, correlation: bytes, now: float) -> tuple[WaitingRow, bool] | None:
        """The request of an answer, and whether the answer is late."""
        row = self._rows.pop(correlation, None)
        if row is not None:
            return row, row.batch.is_left
        found = self._late.pop(correlation, None)
        if found is None or found[1] <= now:
            return None
        return found[0], True

    def expire(self, block: SentBlock, now: float) -> list[WaitingRow]:
        """Expire the unanswered requests of a block: from now on their answers are late."""
        self._forget(now)
        rows = []
        for correlation in block.correlations:
            row = self._rows.pop(correlation, None)
            if row is not None:
                rows.append(row)
                self._late[correlation] = row, now + self._late_seconds
        while len(self._late) > self._late_max:
            del self._late[next(iter(self._late))]
        return rows

    def clear(self) -> list[WaitingRow]:
        """Remove all requests whose time ran; no more answers are expected."""
        rows = list(self._rows.values())
        self._rows.clear()
        self._late.clear()
        return rows

    def _forget(self, now: float) -> None:
        while self._late:
            first = next(iter(self._late))
            if self._late[first][1] > now:
                return
            del self._late[first]

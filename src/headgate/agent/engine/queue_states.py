"""The queues of one slot: those that wait for an answer, and those with one of the current session.

A queue is in one place at a time. A queue that a service covers is in none: it is counted in the
service's tally, and costs no memory. Only the id and the connection of a queue are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import islice

from headgate.agent.model import ConnectionId, RecipientId


class QueueState(Enum):
    """The state of a receive queue."""

    UNKNOWN = "unknown"
    """Not wanted, not read yet, or covered by its service."""
    PENDING = "pending"
    ACTIVE = "active"
    COUNTED = "counted"
    """Confirmed as part of the session's service, by an answer of its own."""
    LOCKED = "locked"
    """A GET is under way."""
    REMOVED = "removed"
    """Refused for good, ended or not wanted any more, until it is requested again."""


class PendingQueues:
    """Queues that need an answer. In a round of the worker each is sent once: from waiting to
    sent, and, if the answer is a temporary error, to postponed until the next round."""

    __slots__ = ("postponed", "sent", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[RecipientId, ConnectionId] = {}
        self.sent: dict[RecipientId, ConnectionId] = {}
        self.postponed: dict[RecipientId, ConnectionId] = {}

    def __len__(self) -> int:
        return len(self.waiting) + len(self.sent) + len(self.postponed)

    def __contains__(self, queue: RecipientId) -> bool:
        return queue in self.waiting or queue in self.sent or queue in self.postponed

    def items(self) -> Iterator[tuple[RecipientId, ConnectionId]]:
        for places in (self.sent, self.postponed, self.waiting):
            yield from places.items()

    def take(self, limit: int) -> tuple[RecipientId, ...]:
        """Take the next queues to send."""
        page = tuple(islice(self.waiting, limit))
        for queue in page:
            self.sent[queue] = self.waiting.pop(queue)
        return page

    def postpone(self, queue: RecipientId) -> ConnectionId:
        """Postpone a queue to the next round, if it was sent in this one; return its connection."""
        if queue in self.sent:
            self.postponed[queue] = self.sent.pop(queue)
        return self.postponed[queue] if queue in self.postponed else self.waiting[queue]

    def discard(self, queue: RecipientId) -> ConnectionId | None:
        """Remove a queue; return its connection, if it was pending."""
        for places in (self.sent, self.postponed, self.waiting):
            connection = places.pop(queue, None)
            if connection is not None:
                return connection
        return None

    def begin_round(self) -> None:
        """Allow postponed queues to be sent again."""
        self.waiting.update(self.postponed)
        self.postponed.clear()

    def reset(self) -> None:
        """Note that the session is gone: sent queues have to be sent again."""
        # What was sent first is first again.
        self.waiting = {**self.sent, **self.postponed, **self.waiting}
        self.sent = {}
        self.postponed = {}

    def clear(self) -> None:
        self.waiting.clear()
        self.sent.clear()
        self.postponed.clear()


class QueueStates:
    """The states of the queues of one slot. Only its engine changes them."""

    __slots__ = ("active", "checks", "counted", "flagged", "locked", "pending")

    def __init__(self) -> None:
        self.pending = PendingQueues()
        self.active: dict[RecipientId, ConnectionId] = {}
        # S001-64, S001-65: counted queues are not among the active ones.
        self.counted: dict[RecipientId, ConnectionId] = {}
        self.checks = PendingQueues()
        """Queues that the service covers and that are subscribed once more to repair a drift."""
        self.flagged: set[RecipientId] = set()
        """Pending and active queues that the records have as the service's."""
        self.locked: set[RecipientId] = set()

    @property
    def is_empty(self) -> bool:
        return not (self.pending or self.active or self.counted or self.checks or self.locked)

    def state_of(self, queue: RecipientId) -> QueueState:
        if queue in self.locked:
            return QueueState.LOCKED
        if queue in self.pending:
            return QueueState.PENDING
        if queue in self.active:
            return QueueState.ACTIVE
        if queue in self.counted or queue in self.checks:
            return QueueState.COUNTED
        return QueueState.UNKNOWN

    def want(self, queue: RecipientId, connection: ConnectionId, is_flagged: bool) -> None:
        """Make a queue pending."""
        self.pending.waiting[queue] = connection
        if is_flagged:
            self.flagged.add(queue)

    def activate(self, queue: RecipientId) -> ConnectionId | None:
        """Make a pending queue active; return its connection, if it was pending."""
        # S000-89: only what is still pending becomes active.
        connection = self.pending.discard(queue)
        if connection is not None:
            self.active[queue] = connection
        return connection

    def count(self, queue: RecipientId) -> ConnectionId | None:
        """Count a pending queue for the service; return its connection, if it was pending."""
        connection = self.pending.discard(queue)
        if connection is not None:
            self.counted[queue] = connection
            self.flagged.discard(queue)
        return connection

    def cover(self) -> list[tuple[RecipientId, ConnectionId]]:
        """Note that the service is active: its pending queues need no answer of their own."""
        covered = []
        for queue in self.flagged:
            connection = self.pending.discard(queue)
            if connection is not None:
                covered.append((queue, connection))
        self.flagged.difference_update([queue for queue, _ in covered])
        return covered

    def discard(self, queue: RecipientId) -> None:
        """Remove a queue, in whatever state."""
        self.pending.discard(queue)
        self.checks.discard(queue)
        self.active.pop(queue, None)
        self.counted.pop(queue, None)
        self.flagged.discard(queue)

    def demote(self, counted_too: bool) -> None:
        """Note that the session is gone: active queues become pending. Counted ones are left to the
        service, or become pending as well."""
        # S000-81: one step, within the call that reports the loss.
        self.pending.reset()
        waiting = self.active
        if counted_too:
            self.flagged.update(self.counted)
            waiting = {**waiting, **self.counted}
        waiting.update(self.pending.waiting)
        self.pending.waiting = waiting
        self.active = {}
        self.counted = {}
        self.checks.clear()
        self.locked.clear()

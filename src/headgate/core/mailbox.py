"""The outbound side of a session: two lanes, counted in bytes, and the pressure they make."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from typing import Generic, TypeVar

from headgate.core.limits import Limits
from headgate.core.names import SessionId

T = TypeVar("T")


class Pressure(IntEnum):
    EASY = 0
    SOFT = 1
    """Slow: a clock runs, and it is the first to be held against when the budget is spent."""
    HARD = 2
    """Those who publish to it wait."""


class Budget:
    """Bytes that many mailboxes share."""

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0

    @property
    def is_spent(self) -> bool:
        return self.bytes > self.limit


class Mailbox(Generic[T]):
    """What waits for one session: a control lane of deliveries and events, a data lane of work
    that the session itself asked for.

    The control lane goes first. After `dispatch_quota` of its items in a row one item of the
    data lane gets its turn, so that a flood of messages does not keep a subscriber's own
    commands from being answered. Only the control lane is charged: the data lane is bounded
    by not reading from the peer.
    """

    __slots__ = ("_budget", "_control", "_data", "_in_a_row", "_limits", "bytes", "slow_since")

    def __init__(self, limits: Limits, budget: Budget) -> None:
        self._limits = limits
        self._budget = budget
        self._control: deque[tuple[T, int]] = deque()
        self._data: deque[T] = deque()
        self._in_a_row = 0
        self.bytes = 0
        self.slow_since: float | None = None
        """When it went over the soft limit; none while it is easy."""

    @property
    def pressure(self) -> Pressure:
        return self.pressure_with(0)

    def pressure_with(self, more: int) -> Pressure:
        """The pressure if so many bytes more were in it."""
        size = self.bytes + more
        if size > self._limits.mailbox_bytes_hard:
            return Pressure.HARD
        return Pressure.SOFT if size > self._limits.mailbox_bytes_soft else Pressure.EASY

    def offer(self, item: T, size: int, now: float) -> Pressure:
        """Put an item into the control lane. It is charged before it can be taken."""
        self._charge(size, now)
        self._control.append((item, size))
        return self.pressure

    def queue(self, item: T) -> None:
        """Put an item into the data lane."""
        self._data.append(item)

    def take(self, now: float) -> T | None:
        """The next item, or nothing."""
        quota = self._limits.dispatch_quota
        if self._data and (not self._control or (quota and self._in_a_row >= quota)):
            self._in_a_row = 0
            return self._data.popleft()
        if not self._control:
            self._in_a_row = 0
            return None
        self._in_a_row += 1
        item, size = self._control.popleft()
        self._charge(-size, now)
        return item

    def drop_oldest(self, bytes_max: int, now: float) -> int:
        """Drop from the front of the control lane until it holds no more; say how many."""
        dropped = 0
        while self._control and self.bytes > bytes_max:
            self._charge(-self._control.popleft()[1], now)
            dropped += 1
        return dropped

    def close(self, now: float) -> int:
        """Give everything back to the budget; say how many items were never taken."""
        dropped = len(self._control)
        self._control.clear()
        self._data.clear()
        self._charge(-self.bytes, now)
        return dropped

    def __len__(self) -> int:
        return len(self._control) + len(self._data)

    def _charge(self, size: int, now: float) -> None:
        self.bytes += size
        self._budget.bytes += size
        if self.bytes <= self._limits.mailbox_bytes_soft:
            self.slow_since = None
        elif self.slow_since is None:
            self.slow_since = now


def may_publish(audience: Iterable[Mailbox[T]], budget: Budget) -> bool:
    """Whether a publisher may send to these mailboxes now.

    It waits while one of its own targets is over its hard limit, or while the budget is spent
    and one of its own targets is slow. So a stuck session holds up those who publish to it
    and nobody else; the documents' total per thread would hold up everybody.
    """
    limit = Pressure.SOFT if budget.is_spent else Pressure.HARD
    return all(mailbox.pressure < limit for mailbox in audience)


class Waiting:
    """Publishers that wait, and for whom. Nobody is left asleep: whoever may go on is told."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[SessionId, tuple[SessionId, ...]] = {}

    def wait(self, publisher: SessionId, audience: Iterable[SessionId]) -> None:
        self._waiters[publisher] = tuple(audience)

    def forget(self, publisher: SessionId) -> None:
        self._waiters.pop(publisher, None)

    def wake(self, mailboxes: dict[SessionId, Mailbox[T]], budget: Budget) -> list[SessionId]:
        """The publishers that may go on now, in the order in which they began to wait."""
        free = [
            publisher
            for publisher, audience in self._waiters.items()
            if may_publish((mailboxes[s] for s in audience if s in mailboxes), budget)
        ]
        for publisher in free:
            del self._waiters[publisher]
        return free

    def __len__(self) -> int:
        return len(self._waiters)

"""The outbound side of a session: what waits for its socket, counted in bytes, and the pressure
that makes.

A mailbox is empty as long as the socket takes what it is given, so a healthy session costs
nothing here. What the socket does not take waits in line: deliveries and the answers to the
session's own commands in one line, in the order in which they came about. So an answer comes
after the messages that were there before its command and is not kept waiting by those that came
later, however many they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum

from headgate.core.names import SessionId

ANSWER = 0
"""An item without messages: the session asked for it."""
PART = -1
"""What the socket left of an item."""


class Pressure(IntEnum):
    EASY = 0
    SOFT = 1
    """Slow: a clock runs, and it is the first to be held against when the budget is spent."""
    HARD = 2
    """Those who publish to it wait."""


class Budget:
    """Bytes that many mailboxes share, and which of them are slow."""

    __slots__ = ("bytes", "limit", "mailbox_hard", "mailbox_soft", "slow", "stuck")

    def __init__(self, limit: int, mailbox_soft: int, mailbox_hard: int) -> None:
        self.limit = limit
        self.mailbox_soft = mailbox_soft
        """Bytes above which a mailbox is slow."""
        self.mailbox_hard = mailbox_hard
        """Bytes above which those who publish to its session wait."""
        self.bytes = 0
        self.stuck: dict[SessionId, Mailbox] = {}
        """The mailboxes with something in them: their sockets took less than they were given."""
        self.slow: dict[SessionId, Mailbox] = {}
        """Those over their soft limit."""

    @property
    def is_spent(self) -> bool:
        return self.bytes > self.limit

    def is_blocking(self, session: SessionId) -> bool:
        """Whether those who publish to this session have to wait: its mailbox is over its hard
        limit, or the budget is spent and it is over its share of it. So a stuck session holds
        up those who publish to it and nobody else; a limit on the total would hold up
        everybody. The share shrinks with the number of stuck sessions, or enough of them, each
        below the soft limit, could hold any number of bytes."""
        mailbox = self.stuck.get(session)
        return mailbox is not None and self.is_over(mailbox)

    def is_over(self, mailbox: Mailbox) -> bool:
        size = mailbox.bytes
        return size > self.mailbox_hard or (self.is_spent and size > self.share)

    @property
    def share(self) -> int:
        """What a mailbox may hold while the budget is spent."""
        return min(self.mailbox_soft, self.limit // max(1, len(self.stuck)))


class Mailbox:
    """What waits for the socket of one session."""

    __slots__ = (
        "_budget",
        "_line",
        "_session",
        "_was_answer",
        "answers",
        "bytes",
        "moved_at",
        "pressure",
        "slow_since",
    )

    def __init__(self, session: SessionId, budget: Budget) -> None:
        self._session = session
        self._budget = budget
        self._line: deque[tuple[object, int, int]] = deque()
        self.bytes = 0
        self.answers = 0
        """Of these bytes, those that the session asked for."""
        self.pressure = Pressure.EASY
        self.slow_since: float | None = None
        """When it went over the soft limit; none while it is easy."""
        self.moved_at = 0.0
        """When something was last taken, or the line began."""
        self._was_answer = False

    def pressure_with(self, more: int) -> Pressure:
        """The pressure if so many bytes more were in it."""
        size = self.bytes + more
        if size > self._budget.mailbox_hard:
            return Pressure.HARD
        return Pressure.SOFT if size > self._budget.mailbox_soft else Pressure.EASY

    def has_room(self, more: int) -> bool:
        """Whether so many bytes more would leave it easy. When the budget is spent, only who
        took everything is given more: any number of sessions may be stuck."""
        spent = self._budget.is_spent and self.bytes > 0
        return not spent and self.pressure_with(more) is Pressure.EASY

    def offer(self, item: object, size: int, now: float, *, messages: int = 1) -> Pressure:
        """Put an item at the end of the line. It is charged before it can be taken. What has no
        message in it is an answer or a part of something, and never dropped."""
        self._charge(size, messages, now)
        if not self._line:
            self.moved_at = now
        self._line.append((item, size, messages))
        self._budget.stuck[self._session] = self
        return self.pressure

    def take(self, now: float) -> object | None:
        """The next item, or nothing."""
        if not self._line:
            return None
        item, size, messages = self._line.popleft()
        self.moved_at = now
        self._was_answer = messages == ANSWER
        self._charge(-size, messages, now)
        if not self._line:
            del self._budget.stuck[self._session]
        return item

    def put_back(self, rest: object, size: int, now: float) -> None:
        """What the socket left of an item. It is no longer whole, so it is never dropped."""
        kind = ANSWER if self._was_answer else PART
        self._charge(size, kind, now)
        self._line.appendleft((rest, size, kind))
        self._budget.stuck[self._session] = self

    def drop_oldest(self, bytes_max: int, now: float) -> int:
        """Drop messages from the front until there are no more bytes, but not the newest item;
        say how many."""
        kept, dropped = [], 0
        while len(self._line) > 1 and self.bytes > bytes_max:
            item, size, messages = self._line.popleft()
            if messages > 0:
                dropped += messages
                self._charge(-size, messages, now)
            else:
                kept.append((item, size, messages))
        self._line.extendleft(reversed(kept))
        return dropped

    def close(self, now: float) -> int:
        """Give everything back to the budget; say how many messages were never taken."""
        dropped = sum(messages for _, _, messages in self._line if messages > 0)
        self._line.clear()
        self._budget.stuck.pop(self._session, None)
        self.answers = 0
        self._charge(-self.bytes, PART, now)
        return dropped

    def __len__(self) -> int:
        return len(self._line)

    def _charge(self, size: int, messages: int, now: float) -> None:
        self.bytes += size
        self._budget.bytes += size
        if messages == ANSWER:
            self.answers += size
        pressure = self.pressure_with(0)
        if pressure is not self.pressure:
            self._press(pressure, now)

    def _press(self, pressure: Pressure, now: float) -> None:
        self.pressure = pressure
        budget = self._budget
        if pressure is Pressure.EASY:
            self.slow_since = None
            budget.slow.pop(self._session, None)
        elif self.slow_since is None:
            self.slow_since = now
            budget.slow[self._session] = self


class Waiting:
    """Publishers that wait, each for one session that blocks it. Nobody is left asleep: whoever
    waits for a session that no longer blocks is told, and asks again."""

    __slots__ = ("_blocker_of", "_publishers")

    def __init__(self) -> None:
        self._publishers: dict[SessionId, dict[SessionId, None]] = {}
        self._blocker_of: dict[SessionId, SessionId] = {}

    def wait(self, publisher: SessionId, blocker: SessionId) -> None:
        self.forget(publisher)
        self._blocker_of[publisher] = blocker
        self._publishers.setdefault(blocker, {})[publisher] = None

    def forget(self, publisher: SessionId) -> None:
        blocker = self._blocker_of.pop(publisher, None)
        if blocker is not None:
            waiting = self._publishers[blocker]
            del waiting[publisher]
            if not waiting:
                del self._publishers[blocker]

    def wake(self, budget: Budget) -> list[SessionId]:
        """The publishers that may ask again, in the order in which they began to wait."""
        free = [session for session in self._publishers if not budget.is_blocking(session)]
        woken = [publisher for blocker in free for publisher in self._publishers[blocker]]
        for publisher in woken:
            self.forget(publisher)
        return woken

    def wake_all(self) -> list[SessionId]:
        """All who wait: what they wait for may have become another thing."""
        woken = list(self._blocker_of)
        self._blocker_of.clear()
        self._publishers.clear()
        return woken

    def __iter__(self) -> Iterator[tuple[SessionId, SessionId]]:
        """Who waits, and for whom."""
        return iter(self._blocker_of.items())

    def __len__(self) -> int:
        return len(self._blocker_of)

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
from enum import IntEnum
from typing import NamedTuple

from headgate.core.model.ids import SessionId

ANSWER = 0
"""An item without messages: the session asked for it."""
PART = -1
"""What the socket left of an item."""


class Pressure(IntEnum):
    """How full a mailbox is."""

    EASY = 0
    SOFT = 1
    """Slow: a clock runs, and it is the first to be held against when the budget is spent."""
    HARD = 2
    """Those who publish to it wait."""


class Crossing(NamedTuple):
    """A session became slow, or caught up. The two take turns, whatever was dropped between."""

    session: SessionId
    size: int
    """Bytes in its mailbox."""
    slow_since: float | None
    """If it caught up, since when it was slow."""


class Charged:
    """Bytes that are in mailboxes."""

    __slots__ = ("answers", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self.answers = 0
        """Of these bytes, those that sessions asked for."""


class Budget:
    """Bytes that the mailboxes of all wires share, and which of them are slow.

    A wire may have limits of its own: a budget that `shares` the bytes and the lists of another,
    and judges its own sessions by them.
    """

    __slots__ = (
        "charged",
        "crossings",
        "limit",
        "mailbox_hard",
        "mailbox_soft",
        "slow",
        "stuck",
    )

    def __init__(
        self, limit: int, mailbox_soft: int, mailbox_hard: int, shares: Budget | None = None
    ) -> None:
        self.limit = limit
        self.mailbox_soft = mailbox_soft
        """Bytes above which a mailbox is slow."""
        self.mailbox_hard = mailbox_hard
        """Bytes above which those who publish to its session wait."""
        self.charged: Charged = Charged() if shares is None else shares.charged
        self.stuck: dict[SessionId, Mailbox] = {} if shares is None else shares.stuck
        """The mailboxes with something in them: their sockets took less than they were given."""
        self.slow: dict[SessionId, Mailbox] = {} if shares is None else shares.slow
        """Those that went over their soft limit and did not catch up since."""
        self.crossings: list[Crossing] = [] if shares is None else shares.crossings
        """Who became slow and who caught up, until somebody tells it."""

    @property
    def bytes(self) -> int:
        return self.charged.bytes

    @property
    def answers(self) -> int:
        return self.charged.answers

    @property
    def is_spent(self) -> bool:
        return self.charged.bytes > self.limit

    def is_blocking(self, session: SessionId) -> bool:
        """Whether those who publish to this session have to wait: its mailbox is over its hard
        limit, or the budget is spent and it is over its share of it. So a stuck session holds
        up those who publish to it and nobody else; a limit on the total would hold up
        everybody. The share shrinks with the number of stuck sessions, or enough of them, each
        below the soft limit, could hold any number of bytes."""
        mailbox = self.stuck.get(session)
        return mailbox is not None and mailbox.budget.is_over(mailbox)

    def is_over(self, mailbox: Mailbox) -> bool:
        # S002-58, S002-61, RESP-59: each session holds up its own publishers only.
        return mailbox.bytes > self.allowance

    @property
    def allowance(self) -> int:
        """Bytes that a mailbox may hold now before those who publish to its session wait."""
        return min(self.mailbox_hard, self.share) if self.is_spent else self.mailbox_hard

    @property
    def share(self) -> int:
        """The bytes that a mailbox may hold while the budget is spent."""
        return min(self.mailbox_soft, self.limit // max(1, len(self.stuck)))


class Mailbox:
    """Bytes and messages that wait for the socket of one session."""

    __slots__ = (
        "_charged",
        "_line",
        "_session",
        "answers",
        "budget",
        "bytes",
        "moved_at",
        "pressure",
        "slow_since",
    )

    def __init__(self, session: SessionId, budget: Budget) -> None:
        self._session = session
        self.budget = budget
        """Whose limits it is judged by."""
        self._charged = budget.charged
        self._line: deque[tuple[object, int, int]] = deque()
        self.bytes = 0
        self.answers = 0
        """Of these bytes, those that the session asked for."""
        self.pressure = Pressure.EASY
        self.slow_since: float | None = None
        """When it went over the soft limit; none if its socket caught up since. What is dropped
        does not count: a session that loses messages has not caught up."""
        self.moved_at = 0.0
        """When something was last taken, or the line began."""

    def pressure_with(self, more: int) -> Pressure:
        """The pressure if so many bytes more were in it."""
        size = self.bytes + more
        if size > self.budget.mailbox_hard:
            return Pressure.HARD
        return Pressure.SOFT if size > self.budget.mailbox_soft else Pressure.EASY

    def has_room(self, more: int) -> bool:
        """Whether so many bytes more would leave it easy. When the budget is spent, only who
        took everything is given more: any number of sessions may be stuck."""
        if self.bytes + more > self.budget.mailbox_soft:
            return False
        return not (self.bytes > 0 and self.budget.is_spent)

    def offer(self, item: object, size: int, now: float, *, messages: int = 1) -> Pressure:
        """Put an item at the end of the line. It is charged before it can be taken. What has no
        message in it is an answer or a part of something, and never dropped."""
        # S002-56: it counts before it can be taken.
        self._charge(size, messages)
        if not self._line:
            self.moved_at = now
        self._line.append((item, size, messages))
        budget = self.budget
        budget.stuck[self._session] = self
        if self.slow_since is None and self.pressure is not Pressure.EASY:
            self.slow_since = now
            budget.slow[self._session] = self
            budget.crossings.append(Crossing(self._session, self.bytes, None))
        return self.pressure

    def first(self) -> object | None:
        """The next thing to be taken from the line, or nothing. It stays in line, and charged."""
        return self._line[0][0] if self._line else None

    def take(self, now: float) -> object | None:
        """The next item, of which the socket took all; or nothing."""
        if not self._line:
            return None
        item, size, messages = self._line.popleft()
        self._charge(-size, messages)
        if not self._line:
            del self.budget.stuck[self._session]
        self._moved(now)
        return item

    def shorten(self, rest: object, size: int, now: float) -> None:
        """The socket took some of the next item: this is left of it. It is no longer whole, so it
        is never dropped."""
        _, before, messages = self._line[0]
        self._charge(size - before, messages)
        self._line[0] = (rest, size, ANSWER if messages == ANSWER else PART)
        self._moved(now)

    def drop_oldest(self, bytes_max: int) -> int:
        """Drop messages from the front until there are no more bytes, but not the newest of them,
        whatever answers came after it; say how many."""
        behind = 0
        for _, _, messages in reversed(self._line):
            if messages > 0:
                break
            behind += 1
        kept, dropped = [], 0
        while len(self._line) > behind + 1 and self.bytes > bytes_max:
            item, size, messages = self._line.popleft()
            if messages > 0:
                dropped += messages
                self._charge(-size, messages)
            else:
                kept.append((item, size, messages))
        self._line.extendleft(reversed(kept))
        return dropped

    def close(self) -> int:
        """Give everything back to the budget; say how many messages were never taken."""
        dropped = sum(messages for _, _, messages in self._line if messages > 0)
        self._line.clear()
        self.budget.stuck.pop(self._session, None)
        self.budget.slow.pop(self._session, None)
        self.slow_since = None
        self._charged.answers -= self.answers
        self.answers = 0
        # S002-57: who goes gives everything back.
        self._charge(-self.bytes, PART)
        return dropped

    def __len__(self) -> int:
        return len(self._line)

    def _charge(self, size: int, messages: int) -> None:
        self.bytes += size
        # S002-55: counted for the session and for all.
        self._charged.bytes += size
        if messages == ANSWER:
            self.answers += size
            self._charged.answers += size
        self.pressure = self.pressure_with(0)

    def _moved(self, now: float) -> None:
        """The socket took something."""
        self.moved_at = now
        if self.slow_since is not None and self.pressure is Pressure.EASY:
            budget = self.budget
            del budget.slow[self._session]
            budget.crossings.append(Crossing(self._session, self.bytes, self.slow_since))
            self.slow_since = None

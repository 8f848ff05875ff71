"""The outbound side of a session: data that waits for its socket, counted in bytes, and the
resulting pressure.

A mailbox is empty while the socket takes all data, so a healthy session costs nothing here. Other
data waits in one line: deliveries and the answers to the session's own commands, in the order in
which they were made. So an answer comes after the messages from before its command, and does not
wait for later ones, however many they are.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import NamedTuple

from headgate.core.model.ids import SessionId

ANSWER = 0
"""Number of messages of an item that is an answer, which the session requested."""
PART = -1
"""Number of messages of an item that was partly sent."""


class Pressure(IntEnum):
    """How full a mailbox is."""

    EASY = 0
    SOFT = 1
    """Slow: a clock runs, and it is among the first to block publishers when the budget is
    spent."""
    HARD = 2
    """Its publishers wait."""


class Crossing(NamedTuple):
    """A session became slow, or caught up. The two alternate, whatever was dropped in between."""

    session: SessionId
    size: int
    """Bytes in its mailbox."""
    slow_since: float | None
    """If it caught up: since when it was slow."""


class Charged:
    """Bytes in mailboxes."""

    __slots__ = ("answers", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self.answers = 0
        """The part of these bytes in answers."""


class Budget:
    """Bytes that the mailboxes of all wires share, and the slow ones among them.

    A wire may have limits of its own: a budget that `shares` the bytes and the lists of another,
    and applies its own limits.
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
        """Bytes above which the publishers of its session wait."""
        self.charged: Charged = Charged() if shares is None else shares.charged
        self.stuck: dict[SessionId, Mailbox] = {} if shares is None else shares.stuck
        """The non-empty mailboxes: their sockets took less than was written."""
        self.slow: dict[SessionId, Mailbox] = {} if shares is None else shares.slow
        """Mailboxes that exceeded their soft limit and have not caught up since."""
        self.crossings: list[Crossing] = [] if shares is None else shares.crossings
        """Sessions that became slow or caught up, to be recorded."""

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
        """Whether the publishers of this session have to wait: its mailbox is over its hard limit,
        or the budget is spent and it is over its share. So a stuck session blocks its own
        publishers and no others; a limit on the total would block all. The share shrinks with the
        number of stuck sessions; otherwise enough of them, each below the soft limit, could hold
        any number of bytes."""
        mailbox = self.stuck.get(session)
        return mailbox is not None and mailbox.budget.is_over(mailbox)

    def is_over(self, mailbox: Mailbox) -> bool:
        # S002-58, S002-61, RESP-59: each session blocks its own publishers only.
        return mailbox.bytes > self.allowance

    @property
    def allowance(self) -> int:
        """Bytes that a mailbox may hold now before the publishers of its session wait."""
        return min(self.mailbox_hard, self.share) if self.is_spent else self.mailbox_hard

    @property
    def share(self) -> int:
        """The bytes that a mailbox may hold while the budget is spent."""
        return min(self.mailbox_soft, self.limit // max(1, len(self.stuck)))


class Mailbox:
    """Bytes and messages that wait for the socket of one session.

    Made by the broker for each session; its connection fills and empties it, and the core asks it
    for room. Its bytes are always part of its budget's.
    """

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
        """The budget whose limits apply to it."""
        self._charged = budget.charged
        self._line: deque[tuple[object, int, int]] = deque()
        self.bytes = 0
        self.answers = 0
        """The part of these bytes in answers."""
        self.pressure = Pressure.EASY
        self.slow_since: float | None = None
        """When it exceeded the soft limit; None if its socket caught up since. Dropped data does
        not count: a session that loses messages has not caught up."""
        self.moved_at = 0.0
        """When the socket last took data, or the line began."""

    def pressure_with(self, more: int) -> Pressure:
        """The pressure with so many bytes more."""
        size = self.bytes + more
        if size > self.budget.mailbox_hard:
            return Pressure.HARD
        return Pressure.SOFT if size > self.budget.mailbox_soft else Pressure.EASY

    def has_room(self, more: int) -> bool:
        """Whether so many bytes more would leave it below the soft limit. When the budget is spent,
        only empty mailboxes get more: any number of sessions may be stuck."""
        if self.bytes + more > self.budget.mailbox_soft:
            return False
        return not (self.bytes > 0 and self.budget.is_spent)

    def offer(self, item: object, size: int, now: float, *, messages: int = 1) -> Pressure:
        """Put an item at the end of the line. It is charged before it can be taken. An item without
        messages is an answer or part of an item, and is never dropped."""
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
        """The next item, or None. It stays in line, and charged."""
        return self._line[0][0] if self._line else None

    def take(self, now: float) -> object | None:
        """Take the next item, which the socket took whole; None if there is none."""
        if not self._line:
            return None
        item, size, messages = self._line.popleft()
        self._charge(-size, messages)
        if not self._line:
            del self.budget.stuck[self._session]
        self._moved(now)
        return item

    def shorten(self, rest: object, size: int, now: float) -> None:
        """Replace the next item by the rest that the socket did not take. It is no longer whole, so
        it is never dropped."""
        _, before, messages = self._line[0]
        self._charge(size - before, messages)
        self._line[0] = (rest, size, ANSWER if messages == ANSWER else PART)
        self._moved(now)

    def drop_oldest(self, bytes_max: int) -> int:
        """Drop messages from the front until at most so many bytes are left, but not the newest of
        them, whatever answers follow it; return how many."""
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
        """Release all bytes; return the number of messages never taken."""
        dropped = sum(messages for _, _, messages in self._line if messages > 0)
        self._line.clear()
        self.budget.stuck.pop(self._session, None)
        self.budget.slow.pop(self._session, None)
        self.slow_since = None
        self._charged.answers -= self.answers
        self.answers = 0
        # S002-57: a session that ends releases all of its bytes.
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
        """Note that the socket took data."""
        self.moved_at = now
        if self.slow_since is not None and self.pressure is Pressure.EASY:
            budget = self.budget
            del budget.slow[self._session]
            budget.crossings.append(Crossing(self._session, self.bytes, self.slow_since))
            self.slow_since = None

"""Back-pressure: publishers are not read while one of their receivers is stuck.

`mailbox` decides how full a mailbox is, and whether that blocks (`Pressure`, `Budget`). The broker
owns the waiting publishers; a wire makes a publisher wait, and the server wakes it when a mailbox
shrank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.core.delivery.mailbox import Budget
from headgate.core.model.ids import SessionId


class BlockedPublishers:
    """Publishers that wait, each for one session that blocks it. When that no longer blocks, the
    publisher is woken and tries again.

    A session blocks while its mailbox holds more than the budget's allowance. So it ceases to in
    two ways: its own mailbox shrinks, or the allowance rises because another one did. The least
    allowance that was applied is remembered: while the present one is no higher, a blocker whose
    mailbox did not change still blocks, and is not looked at.
    """

    __slots__ = ("_allowance", "_blocker_of", "_publishers")

    def __init__(self) -> None:
        self._publishers: dict[SessionId, dict[SessionId, None]] = {}
        self._blocker_of: dict[SessionId, SessionId] = {}
        self._allowance = 0
        """Every blocker held more than this when its mailbox last shrank."""

    def wait(self, publisher: SessionId, blocker: SessionId, budget: Budget) -> None:
        self.forget(publisher)
        allowance = budget.allowance
        if not self._blocker_of or allowance < self._allowance:
            self._allowance = allowance
        self._blocker_of[publisher] = blocker
        self._publishers.setdefault(blocker, {})[publisher] = None

    def forget(self, publisher: SessionId) -> None:
        blocker = self._blocker_of.pop(publisher, None)
        if blocker is not None:
            waiting = self._publishers[blocker]
            del waiting[publisher]
            if not waiting:
                del self._publishers[blocker]

    def wake(self, budget: Budget, relieved: SessionId | None = None) -> list[SessionId]:
        """The publishers that may try again after this session's mailbox shrank, or it is gone;
        without one, all that may. In the order in which they began to wait for a session."""
        allowance = budget.allowance
        looked_at: Iterable[SessionId]
        if relieved is None or allowance > self._allowance:
            looked_at = self._publishers
        # S002-62: other mailboxes that shrink wake no publisher here.
        elif relieved in self._publishers:
            looked_at = (relieved,)
        else:
            return []
        self._allowance = allowance
        # S002-63, RESP-61: all that may go on are woken.
        free = [session for session in looked_at if not budget.is_blocking(session)]
        woken = [publisher for blocker in free for publisher in self._publishers[blocker]]
        for publisher in woken:
            self.forget(publisher)
        return woken

    def wake_all(self) -> list[SessionId]:
        """All waiting publishers: the reason of their wait may have changed."""
        woken = list(self._blocker_of)
        self._blocker_of.clear()
        self._publishers.clear()
        return woken

    def blocker(self, publisher: SessionId) -> SessionId | None:
        """The session that a publisher waits for."""
        return self._blocker_of.get(publisher)

    def blockers(self) -> Iterator[SessionId]:
        """The sessions that block publishers."""
        return iter(self._publishers)

    def held_up(self, blocker: SessionId) -> int:
        """Number of publishers that wait for a session."""
        return len(self._publishers.get(blocker, ()))

    def held_up_by(self, blocker: SessionId) -> Iterator[SessionId]:
        """The publishers that wait for a session."""
        return iter(self._publishers.get(blocker, ()))

    def __iter__(self) -> Iterator[tuple[SessionId, SessionId]]:
        """Pairs of a waiting publisher and the session that it waits for."""
        return iter(self._blocker_of.items())

    def __len__(self) -> int:
        return len(self._blocker_of)

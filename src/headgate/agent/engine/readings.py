"""Receive queues that are still to be read from the records, page by page."""

from __future__ import annotations

from headgate.agent.engine.effects import ReadPage
from headgate.agent.model import RecipientId, RouterId, UserId, Which


class Reading:
    """One walk through the queues of a user at a router, in the order of their ids. Unread queues
    are wanted too, so a slot is not done before its readings are."""

    __slots__ = ("after", "checks", "request", "retry_at", "which")

    def __init__(self, which: Which, checks: bool = False) -> None:
        self.which = which
        self.checks = checks
        """Whether queues that the service covers are subscribed once more."""
        self.after: RecipientId | None = None
        self.request: int | None = None
        """The page being read."""
        self.retry_at = 0.0

    @property
    def is_under_way(self) -> bool:
        return self.request is not None

    def ask(self, user: UserId, router: RouterId, request: int, limit: int) -> ReadPage:
        self.request = request
        return ReadPage(user, router, request, self.after, limit, self.which)

    def fail(self, retry_at: float) -> None:
        """Note a failure of the records; the same page is requested later."""
        self.request = None
        self.retry_at = retry_at

    def advance(self, last: RecipientId | None) -> None:
        self.request = None
        if last is not None:
            self.after = last

"""The mailbox of a session whose socket is another worker's: what was sent there, and of which that
worker has not said that the client took it.

So a client that does not read keeps its messages in the store, as it does on the worker that has
the store, and what is under way to it is bounded by the same limits.
"""

from __future__ import annotations

from headgate.core.delivery.mailbox import PART, Mailbox


class RemoteMailbox(Mailbox):
    """Bytes that are under way to a client. That it is slow is told by the worker that has it."""

    __slots__ = ()

    def sent(self, size: int, now: float) -> None:
        """So many bytes of messages went to the other worker."""
        if not self.bytes:
            self.moved_at = now
        self._charge(size, PART)
        self.budget.stuck[self._session] = self

    def credit(self, size: int, now: float) -> None:
        """The client took so many."""
        self._charge(-min(size, self.bytes), PART)
        self.moved_at = now
        if not self.bytes:
            self.budget.stuck.pop(self._session, None)

"""The mailbox of a session whose socket is at another worker: data sent there that its client has
not taken yet.

So the messages of a client that does not read stay in the store, as on the worker with the store,
and data under way to it is bounded by the same limits.
"""

from __future__ import annotations

from headgate.core.delivery.mailbox import PART, Mailbox


class RemoteMailbox(Mailbox):
    """Bytes under way to a client. The worker with its socket records that it is slow."""

    __slots__ = ()

    def sent(self, size: int, now: float) -> None:
        """Charge bytes of messages sent to the other worker."""
        if not self.bytes:
            self.moved_at = now
        self._charge(size, PART)
        self.budget.stuck[self._session] = self

    def credit(self, size: int, now: float) -> None:
        """Release bytes that the client took."""
        self._charge(-min(size, self.bytes), PART)
        self.moved_at = now
        if not self.bytes:
            self.budget.stuck.pop(self._session, None)

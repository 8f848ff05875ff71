"""Messages that wait for the application, and the number of their bodies in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headgate.agent.events import Message, Receipt
from headgate.agent.records.received import ReceivedMessage
from headgate.agent.taking import Origin


class Ticket:
    """A stored message that waits to be shown. It stands among the events until the application
    reaches it; then `load` makes the message.

    A ticket holds a body only while there is room for it; otherwise it is read again.
    """

    __slots__ = ("_load", "body", "counted", "is_again", "message", "origin")

    def __init__(
        self,
        origin: Origin,
        message: ReceivedMessage,
        load: Callable[[Ticket], Awaitable[Message | Receipt | None]],
        *,
        is_again: bool = False,
    ) -> None:
        self.origin = origin
        self.message = message
        self.is_again = is_again
        """Whether it came before, and so is counted when it is shown."""
        self.counted: asyncio.Future[int] | None = None
        """How often it was shown, while that is being stored."""
        self.body: bytes | None = None
        """Owned by `Bodies`."""
        self._load = load

    @property
    def id(self) -> int:
        return self.message.id

    async def load(self) -> Message | Receipt | None:
        """The message for the application; None if it was acknowledged meanwhile. Tickets are
        loaded in the order of the events, one at a time, and dropped when this has returned: a
        cancelled caller calls it again. It waits while the agent is suspended, and raises
        `StoreError` if the body cannot be read."""
        return await self._load(self)

    def __repr__(self) -> str:
        return f"Ticket({self.id})"


class Bodies:
    """The bodies in memory: of messages being stored, and of tickets.

    What must hold: there are never more than `limit`. Messages being stored take precedence:
    tickets drop their bodies for them, the newest first, since the application reaches it last.
    """

    def __init__(self, limit: int) -> None:
        assert limit > 0, "a message that is being stored needs a place"
        self.limit = limit
        self.coming = 0
        """Number of messages that are not stored yet."""
        self._kept: dict[int, Ticket] = {}
        """By id, in the order in which they are shown."""

    @property
    def count(self) -> int:
        return self.coming + len(self._kept)

    def admit(self) -> bool:
        """Take a place for a new message; False if others that are being stored take all."""
        if self.count >= self.limit:
            if not self._kept:
                return False
            _, ticket = self._kept.popitem()
            ticket.body = None
        self.coming += 1
        return True

    def release(self) -> None:
        """Free the place of a message."""
        self.coming -= 1

    def keep(self, ticket: Ticket, body: bytes) -> None:
        """Give a stored message's body to its ticket."""
        self.coming -= 1
        ticket.body = body
        self._kept[ticket.id] = ticket

    def give(self, ticket: Ticket) -> bytes | None:
        """Drop the body of a ticket, if it is there."""
        body, ticket.body = ticket.body, None
        if body is not None:
            del self._kept[ticket.id]
        return body

"""Messages that wait for the application, and how many of their bodies are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headgate.agent.events import Message, Receipt
from headgate.agent.records.received import ReceivedMessage
from headgate.agent.taking import Origin


class Ticket:
    """A message that is stored and waits to be shown. It stands among the events until the
    application comes to it; then `load` makes the message of it.

    A ticket holds a body only as long as there is room for it: it is read back otherwise.
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
        """How often it was shown, if that is on its way to the disk."""
        self.body: bytes | None = None
        """Owned by `Bodies`."""
        self._load = load

    @property
    def id(self) -> int:
        return self.message.id

    async def load(self) -> Message | Receipt | None:
        """The message, for the application now; none if it was acknowledged meanwhile. Tickets are
        loaded in the order of the events, one at a time, and let go of when this has returned: who
        is cancelled calls it again. It waits while the agent is suspended, and raises `StoreError`
        if the body cannot be read."""
        return await self._load(self)

    def __repr__(self) -> str:
        return f"Ticket({self.id})"


class Bodies:
    """A count of the bodies in memory: of messages that are being stored, and of tickets.

    What must hold: there are never more than `limit`. What is being stored goes first: a ticket
    gives its body up for it, the one that was made last before the others, since the
    application comes to it last.
    """

    def __init__(self, limit: int) -> None:
        assert limit > 0, "a message that is being stored needs a place"
        self.limit = limit
        self.coming = 0
        """Messages that are not stored yet."""
        self._kept: dict[int, Ticket] = {}
        """By id, in the order in which they are shown."""

    @property
    def count(self) -> int:
        return self.coming + len(self._kept)

    def admit(self) -> bool:
        """Make a place for a message that comes; false if all are taken by others that come."""
        if self.count >= self.limit:
            if not self._kept:
                return False
            _, ticket = self._kept.popitem()
            ticket.body = None
        self.coming += 1
        return True

    def release(self) -> None:
        """A message that came needs its place no more."""
        self.coming -= 1

    def keep(self, ticket: Ticket, body: bytes) -> None:
        """A message that came is stored, and its body stays for the ticket."""
        self.coming -= 1
        ticket.body = body
        self._kept[ticket.id] = ticket

    def give(self, ticket: Ticket) -> bytes | None:
        """Let go of the body of a ticket, if it is there."""
        body, ticket.body = ticket.body, None
        if body is not None:
            del self._kept[ticket.id]
        return body

"""Errors between a client and its router.

* HeadgateError
    * NotConnected               no router answers, or none did for too long
        * LinkBroken             this connection is over; there may be another
        * Closed                 the queue or the client was closed on this side
    * NotAccepted                the router refused a message; carries the status
    * Unreadable                 a delivery whose data is wrong; carries the delivery
    * RequestRefused             the router refused a request; carries the category and the code
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headgate import errors
from headgate.errors import HeadgateError, NotConnected, TimedOut
from headgate.wire.bmq.codec.control import Status
from headgate.wire.bmq.codec.messages import AckStatus

if TYPE_CHECKING:
    from headgate.client.bmq.queue import Delivery

REASONS = {
    AckStatus.LIMIT_MESSAGES: "its queue or domain holds its limit of messages",
    AckStatus.LIMIT_BYTES: "its queue or domain holds its limit of bytes",
    AckStatus.STORAGE_FAILURE: "the store failed",
    AckStatus.NOT_READY: "the queue is not ready",
}


class LinkBroken(NotConnected):
    """This connection is over. Users see it only as the cause of another error."""


class Closed(NotConnected):
    """The queue or the client was closed on this side."""


class RequestRefused(errors.RequestRefused):
    """The router refused a request; the text is the router's."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message or f"the router said {status.category.name}")
        self.category = status.category
        self.code = status.code


class NotAccepted(HeadgateError):
    """The router refused a message."""

    def __init__(self, status: int) -> None:
        known = status in AckStatus.__members__.values()
        self.status = AckStatus(status) if known else AckStatus.UNKNOWN
        reason = REASONS.get(self.status, "it does not say why")
        super().__init__(f"the router did not take the message: {reason}")


class Unreadable(HeadgateError):
    """The data of a message is wrong. It is not confirmed: the reader decides."""

    def __init__(self, delivery: Delivery, error: HeadgateError) -> None:
        super().__init__(f"message {delivery.guid.hex()}: {error}")
        self.delivery = delivery
        """Without properties and with the raw data, for confirming it."""


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise `TimedOut` if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimedOut(what, seconds) from None

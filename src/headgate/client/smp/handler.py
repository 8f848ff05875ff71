"""The handler of a link's events, late answers, and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headgate.client.smp.recipient import Request
from headgate.core.model.value import value
from headgate.wire.smp.codec.replies import Reply

if TYPE_CHECKING:
    from headgate.client.smp.link import Link


@value
class Unexpected:
    """A report of data from a router that belongs to no request."""

    why: str
    correlation: bytes = b""
    entity: bytes = b""
    reply: Reply | None = None
    """None if it cannot be read."""


class LinkHandler(Protocol):
    """The handler of a link, called by its reader in order.

    Its methods return at once: the link reads on only after that. They may send requests in a task
    of their own, and may close the link. An exception ends the link.
    """

    def received(self, link: Link, entity: bytes, event: Reply) -> None:
        """Handle an event: MSG, NMSG, END, DELD, ENDS, ALLS, or an error without a request."""

    def answered_late(self, link: Link, request: Request, reply: Reply) -> None:
        """Handle an answer whose caller has left or timed out. It counts as much as any: a message
        in it is a message."""

    def unexpected(self, link: Link, report: Unexpected) -> None:
        """Handle data that belongs to no request. The link goes on."""

    def lost(self, link: Link, reason: str) -> None:
        """Handle the end of the link. Called once, whichever end closed it, and last."""

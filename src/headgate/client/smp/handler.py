"""The handler of what a router sends unasked, or too late, and of the end of a link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headgate.client.smp.recipient import Request
from headgate.core.model.value import value
from headgate.wire.smp.codec.replies import Reply

if TYPE_CHECKING:
    from headgate.client.smp.link import Link


@value
class Unexpected:
    """A report of something that a router sent and that belongs to nothing."""

    why: str
    correlation: bytes = b""
    entity: bytes = b""
    reply: Reply | None = None
    """None if it cannot be read."""


class LinkHandler(Protocol):
    """The handler of a link, called by its reader in the order in which things come.

    Its methods return at once: nothing is read before they do. They may ask the link for more
    in a task of their own, and may close it. One that raises ends the link.
    """

    def received(self, link: Link, entity: bytes, event: Reply) -> None:
        """An event: MSG, NMSG, END, DELD, ENDS, ALLS, or an error that answers nothing."""

    def answered_late(self, link: Link, request: Request, reply: Reply) -> None:
        """An answer whose caller has left or waited in vain. It counts as much as any: a message
        in it is a message."""

    def unexpected(self, link: Link, report: Unexpected) -> None:
        """Something that belongs to nothing. The link goes on."""

    def lost(self, link: Link, reason: str) -> None:
        """The link is over. This is called once, whoever ended it; nothing is called after it."""

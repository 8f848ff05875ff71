"""Ports between the parts of an agent that do things.

The shell has sessions with routers and asks in them. What came in messages is for `MessagePort`;
whoever sends, acknowledges or creates queues asks through `RouterPort`, and who fetches single
messages through `FetchPort`. Neither part imports the other; the agent joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.agent.model import (
    ConnectionId,
    QueueRow,
    RecipientId,
    RouterId,
    SessionKey,
    UserId,
)
from headgate.client.smp.handler import LinkHandler
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.waiting import Outcome
from headgate.wire.smp.codec.replies import Msg
from headgate.wire.smp.codec.router_address import RouterAddress


class RouterPort(Protocol):
    """The port that asks routers, in the sessions that the agent has with them."""

    def add_router(self, router: RouterId, address: RouterAddress) -> None:
        """A router that is in the records, before anything else names it; or another address of
        one that is known."""
        ...

    async def ask(
        self,
        user: UserId,
        router: RouterId,
        connection: ConnectionId | None,
        requests: Sequence[Request],
    ) -> tuple[SessionKey | None, list[Outcome]]:
        """What came of each request, and the session in which it was asked. Connects first if
        there is no session; if that fails every outcome is the failure. Cancelling is safe. A
        message in an answer also goes to `MessagePort.take`, in its place."""
        ...

    def created(
        self,
        session: SessionKey,
        queue: RecipientId,
        connection: ConnectionId,
        service: bytes | None,
        *,
        subscribed: bool = True,
    ) -> None:
        """A queue was made in this session, for the service that IDS names, and is in the records
        with its keys, not associated. It stays subscribed from now on."""
        ...

    def removed(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        """A queue was deleted by us, or is about to be: nobody subscribes it any more."""
        ...


class FetchPort(Protocol):
    """The port of fetching a message of a queue that is not subscribed."""

    def lock(self, user: UserId, router: RouterId, row: QueueRow) -> bool:
        """Have the queue left out of subscribing; False if it is subscribed, or locked."""
        ...

    def unlock(self, user: UserId, router: RouterId, row: QueueRow) -> None: ...

    async def connect_alone(self, router: RouterId, handler: LinkHandler) -> Link:
        """A link beside the sessions, which whoever asked for it closes. Raises as
        `Link.connect` does."""
        ...


class MessagePort(Protocol):
    """The port that takes messages, in the order in which a session brings them."""

    def take(self, session: SessionKey, queue: RecipientId, message: Msg) -> None:
        """A message of a queue: pushed, or in an answer to SUB, GET or ACK, timely or late. It
        returns at once; nothing is read from the session before it does."""
        ...

    def forget(self, session: SessionKey) -> None:
        """The session is over: what it gave and was not acknowledged comes again."""
        ...

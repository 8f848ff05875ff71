"""Ports between the parts of an agent that do things.

The shell has the sessions with routers. Messages go to `MessagePort`; sending, acknowledging and
creating queues use `RouterPort`, and fetching single messages uses `FetchPort`. The parts do not
import each other; the agent joins them.
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
    """Sends requests to routers, in the agent's sessions."""

    def add_router(self, router: RouterId, address: RouterAddress) -> None:
        """Add a router of the records, before any other call names it; or another address of a
        known one."""
        ...

    async def ask(
        self,
        user: UserId,
        router: RouterId,
        connection: ConnectionId | None,
        requests: Sequence[Request],
    ) -> tuple[SessionKey | None, list[Outcome]]:
        """The outcome of each request, and the session of the requests. Connects first if there is
        no session; if that fails every outcome is the failure. May be cancelled. A message in an
        answer also goes to `MessagePort.take`, in its place."""
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
        """Note a queue made in this session, for the service that IDS names. It is in the records
        with its keys, not associated, and stays subscribed from now on."""
        ...

    def removed(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        """Note a queue that we deleted, or are about to: it is not subscribed any more."""
        ...


class FetchPort(Protocol):
    """Fetches a message of a queue that is not subscribed."""

    def lock(self, user: UserId, router: RouterId, row: QueueRow) -> bool:
        """Leave the queue out of subscribing; False if it is subscribed, or locked."""
        ...

    def unlock(self, user: UserId, router: RouterId, row: QueueRow) -> None: ...

    async def connect_alone(self, router: RouterId, handler: LinkHandler) -> Link:
        """A link beside the sessions, which the caller closes. Raises as `Link.connect` does."""
        ...


class MessagePort(Protocol):
    """Takes messages, in the order of their session."""

    def take(self, session: SessionKey, queue: RecipientId, message: Msg) -> None:
        """Take a message of a queue: pushed, or in an answer to SUB, GET or ACK, timely or late. It
        returns at once; the session reads on only after that."""
        ...

    def forget(self, session: SessionKey) -> None:
        """Forget a session that is over: its unacknowledged messages come again."""
        ...

"""A link to another worker: a socket with the same connection and mailbox that clients have.

So data that the other worker does not take is bounded and counted like a session's, and publishers
wait for it in the same way.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from headgate.core.delivery.mailbox import PART, Mailbox, Pressure
from headgate.server.net.connection import Connection, SocketPipe
from headgate.server.net.poller import poller_of
from headgate.server.router_port import ChannelRouterPort
from headgate.wire.resp.workers.link_frames import LONG_BYTES
from headgate.wire.resp.workers.link_session import LinkSession
from headgate.wire.resp.workers.relay import Relay

QUOTA = 1000
"""Items of its mailbox written in a row."""
OVER = 4
"""Limit of a link, as a multiple of a mailbox and all answers. Beyond it waiting publishers do not
help: the other worker takes nothing."""
NO_LIMIT = 2**62

logger = logging.getLogger("headgate")


class Link:
    """The socket of a link. The worker that was given it owns it."""

    def __init__(
        self,
        router: ChannelRouterPort,
        relay: Relay,
        connected: socket.socket,
        worker: int,
        start: int,
        lost: Callable[[Link, str], None],
    ) -> None:
        self.worker = worker
        self.start = start
        self._router = router
        self._relay = relay
        self._lost = lost
        self._poller = poller_of(asyncio.get_running_loop())
        self._held: list[bytes] = []
        """Frames held until the end of this pass."""
        self._held_bytes = 0
        self._is_reported = False
        self.id = router.broker.sessions.next_id()
        self._mailbox = Mailbox(self.id, relay.hub.budget)
        self._connection = Connection(
            asyncio.get_running_loop(),
            self._poller,
            SocketPipe(connected),
            self,
            self.id,
            self._mailbox,
            router.clock,
            QUOTA,
            NO_LIMIT,
        )
        self.session: LinkSession = relay.join(self, worker, start)
        self._connection.start(self.session)

    @property
    def heard(self) -> float:
        """When data of the other worker last came."""
        return self._connection.heard

    # Calls of the relay.

    @property
    def unwritten(self) -> int:
        return self._held_bytes + self._mailbox.bytes

    def write(self, frame: bytes) -> None:
        if len(frame) > LONG_BYTES:
            self.deliver(frame, PART)
            self._relay.questions.taken(self.session)
            return
        if not self._held:
            self._poller.soon(self._let_go)
        self._held.append(frame)
        self._held_bytes += len(frame)

    def deliver(self, blob: bytes, messages: int) -> None:
        self._let_go()
        self._connection.deliver(blob, messages)

    def pause(self) -> None:
        self._connection.pause()

    def resume(self) -> None:
        self._connection.resume()

    def close(self, reason: str) -> None:
        self._connection.close(reason, at_once=True)

    def _let_go(self) -> None:
        if self._held:
            held, self._held, self._held_bytes = b"".join(self._held), [], 0
            self._connection.deliver(held, PART)  # which is never dropped
            self._relay.questions.taken(self.session)

    # Calls of the connection.

    def pressed(self, connection: Connection) -> None:
        mailbox, limits = self._mailbox, self._router.limits
        # Of the commands lane there is never more than an inbox and a budget have room for.
        lane = limits.inbox_bytes + limits.budget_bytes
        most = OVER * (mailbox.budget.mailbox_hard + limits.answers_bytes) + lane
        if mailbox.bytes > most and not self._is_reported:
            self._is_reported = True
            self._lost(self, f"holds more than {most} bytes")

    def eased(self, connection: Connection, before: Pressure) -> None:
        self._router.relieve(self.id)
        self._relay.questions.taken(self.session)

    def gone(self, connection: Connection, reason: str) -> None:
        self._mailbox.close()
        self._relay.leave(self.session)
        self._lost(self, reason)

    def ended(self, connection: Connection) -> None:
        pass

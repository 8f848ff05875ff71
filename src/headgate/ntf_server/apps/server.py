"""The listener for apps: TLS, connections with bounds, and a session on each."""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial
from itertools import count
from typing import Final

from headgate.core.delivery.mailbox import Budget, Mailbox, Pressure
from headgate.core.model.ids import SessionId
from headgate.errors import ConfigError, LimitReached
from headgate.ntf_server.apps.commands import AppCommands
from headgate.ntf_server.apps.session import AppSession
from headgate.ntf_server.apps.settings import HOUR, AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.server.identity import Identity
from headgate.server.net.connection import Connection
from headgate.server.net.connections import QUOTA
from headgate.server.net.endpoint import Endpoint, Guest, handshakes
from headgate.server.net.openssl import OpenSslPipe, smp_context
from headgate.server.net.poller import poller_of
from headgate.wire.ntf.address import NTF_PROTOCOL, NtfAddress
from headgate.wire.ntf.transmissions import NtfAnswer, NtfIncoming

log = logging.getLogger("headgate.ntf")

WIRE: Final = "ntf"
IDLE_LOOK_SECONDS: Final = HOUR
"""How often connections are looked at for having been silent."""
ANSWER_BYTES_MAX: Final = 16 * 1024
"""Answers of one connection that it did not take; above, nothing of it is read."""


class AppServer:
    """The listener for apps over TLS, which puts an `AppSession` on each connection."""

    def __init__(
        self,
        host: NtfHost,
        commands: AppCommands,
        identity: Identity,
        settings: AppSettings,
        address: tuple[str, int],
    ) -> None:
        self.host = host
        self.commands = commands
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self._poller = poller_of(self._loop)
        self._take(identity)
        limits = host.limits
        self._budget = Budget(
            limits.budget_bytes, limits.mailbox_bytes_soft, limits.mailbox_bytes_hard
        )
        self._numbers = count(1)
        self._live: dict[SessionId, AppConnection] = {}
        self._open: set[Connection] = set()
        """Connections included whose session is over, and that may still read the last answer."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Blocks that are being carried out."""
        opening = handshakes(
            host,
            WIRE,
            lambda connected: OpenSslPipe(self._context, connected),
            settings.handshake_seconds,
        )
        self._endpoint = Endpoint(host, WIRE, *address, opening, self._welcome, check=self._check)
        self._idle_timer = self._loop.call_later(IDLE_LOOK_SECONDS, self._end_idle)

    def __len__(self) -> int:
        """How many apps are connected."""
        return len(self._live)

    @property
    def address(self) -> NtfAddress:
        host, port = self._endpoint.address
        shown = f"[{host}]" if ":" in host else host
        return NtfAddress((shown,), port, self.identity.fingerprint)

    def reload(self, identity: Identity) -> None:
        """Show a new leaf to apps that connect from now on. The server's identity stays the
        same."""
        if identity.fingerprint != self.identity.fingerprint:
            raise ConfigError("the identity is another; restart the server to take it over")
        self._take(identity)

    async def close(self) -> None:
        """Accept nothing more, end every session, and finish what was begun."""
        self._endpoint.close()
        self._idle_timer.cancel()
        for connection in list(self._open):
            connection.close("the server stops", at_once=True)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def carry_out(self, client: AppConnection) -> None:
        """Answer what an app asked, block by block."""
        task = asyncio.create_task(client.answer_all(), name="app")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self, identity: Identity) -> None:
        self._context = smp_context(identity, (NTF_PROTOCOL.encode(),))
        self.identity = identity

    def _check(self) -> None:
        most = self.settings.connections
        if len(self._live) >= most:
            raise LimitReached("ntf.connections", most)

    def _welcome(self, pipe: OpenSslPipe, guest: Guest) -> None:
        id = SessionId(next(self._numbers))
        connection = Connection(
            self._loop,
            self._poller,
            pipe,
            self,
            id,
            Mailbox(id, self._budget),
            self.host.clock,
            QUOTA,
            ANSWER_BYTES_MAX,
        )
        self._open.add(connection)
        guest.leave = partial(connection.close, at_once=True)
        client = AppConnection(self, guest, connection)
        self._live[id] = client
        session = AppSession(client, self.identity, pipe.peer(), secrets.token_bytes(32))
        client.start(session)

    def _end_idle(self) -> None:
        self._idle_timer = self._loop.call_later(IDLE_LOOK_SECONDS, self._end_idle)
        oldest = self._loop.time() - self.settings.idle_seconds
        for client in list(self._live.values()):
            if client.active_at < oldest:
                client.close("idle")

    # What connections report.

    def pressed(self, connection: Connection) -> None:
        """Nothing: who does not take its answers is not read."""

    def eased(self, connection: Connection, before: Pressure) -> None:
        """Nothing either: nobody waits for it."""

    def gone(self, connection: Connection, reason: str) -> None:
        self._live.pop(connection.id).end()
        connection.mailbox.close()

    def ended(self, connection: Connection) -> None:
        self._open.discard(connection)


class AppConnection:
    """The part between a connection and the session that speaks the protocol on it."""

    __slots__ = (
        "_connection",
        "_deadline",
        "_guest",
        "_is_answering",
        "_server",
        "active_at",
        "session",
    )

    session: AppSession

    def __init__(self, server: AppServer, guest: Guest, connection: Connection) -> None:
        self._server = server
        self._guest = guest
        self._connection = connection
        self._is_answering = False
        loop = asyncio.get_running_loop()
        self.active_at = loop.time()
        """When the app was read last."""
        self._deadline: asyncio.TimerHandle | None = loop.call_later(
            server.settings.handshake_seconds, self.close, "handshake took too long"
        )

    def start(self, session: AppSession) -> None:
        self.session = session
        self._connection.start(self)
        session.start()

    def end(self) -> None:
        """The session is over."""
        self._finish_handshake()
        self.session.end()

    owes_answers = False
    """An app that hangs up is gone."""

    def receive(self, data: bytes) -> None:
        self.active_at = asyncio.get_running_loop().time()
        self.session.receive(data)

    def go_on(self) -> None:
        """Requests are read again when they are answered."""

    def let_go(self) -> None:
        """Answers may be under way, which ask the session."""

    # What the session asks.

    def write(self, data: bytes) -> None:
        self._connection.write(data)

    def close(self, reason: str) -> None:
        self._connection.close(reason)

    def pause(self) -> None:
        self._connection.pause(may_leave=False)

    def resume(self) -> None:
        self._connection.resume()

    def opened(self) -> None:
        self._finish_handshake()

    def carry_out(self) -> None:
        if not self._is_answering:
            self._is_answering = True
            self._server.carry_out(self)

    async def answer_all(self) -> None:
        """Answer block by block, until nothing waits."""
        try:
            while (block := self.session.next_block()) is not None:
                self.session.answer([await self._answered(each) for each in block])
        except Exception:
            log.exception("a session failed")
            self._connection.close("internal error", at_once=True)
        finally:
            self._is_answering = False

    async def _answered(self, incoming: NtfIncoming) -> NtfAnswer:
        if isinstance(incoming, NtfAnswer):
            return incoming
        commands, network = self._server.commands, self._guest.network
        reply = await commands.answer(incoming, self.session.verifier, network)
        return NtfAnswer(incoming.correlation, incoming.entity, reply)

    def _finish_handshake(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._guest.known()

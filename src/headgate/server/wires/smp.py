"""The SMP wire on a listener: connections, events that are told together, and the clocks."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hmac import compare_digest
from pathlib import Path

from headgate.core.commands import Command
from headgate.core.delivery.mailbox import Pressure
from headgate.core.effects import Effect
from headgate.core.model.ids import SessionId
from headgate.errors import ConfigError, HeadgateError, LimitReached, Unauthorised
from headgate.server.config import Config
from headgate.server.config.sections import ListenSmp, Smp
from headgate.server.identity import Identity, kept_host
from headgate.server.net.connection import Connection
from headgate.server.net.connections import Connections
from headgate.server.net.endpoint import Endpoint, Guest, Listen, handshakes
from headgate.server.net.openssl import OpenSslPipe, smp_context
from headgate.server.net.session_shell import SessionShell
from headgate.server.router_port import RouterPort
from headgate.server.wires.wire import Finding, Listening, Wire
from headgate.wire.smp.session import Credentials, SmpSession

IDLE_LOOK_SECONDS = 60.0
"""How often sessions are looked at for having done nothing."""
MINUTE = 60.0


class SmpServer(Listening):
    """Listens for SMP clients over TLS, and puts an `SmpSession` on each connection.

    Opened and closed by the service, through `Wire`. ENDs and notices are collected here, and sent
    at the next flush.
    """

    def __init__(
        self,
        router: RouterPort,
        listen: ListenSmp,
        settings: Smp,
        directory: Path,
        source: Listen | None = None,
    ) -> None:
        self.router = router
        self.settings = settings
        self._folder = directory / settings.identity
        self._take(Identity.open(self._folder, socket.gethostname(), time.time()))
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(router, "smp", self._gone)
        self._clients: dict[SessionId, SmpConnection] = {}
        self._deferred: dict[SessionId, list[Effect]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        opening = handshakes(
            router,
            "smp",
            lambda connected: OpenSslPipe(self._context, connected),
            settings.handshake_timeout,
        )
        self._endpoint = Endpoint(
            router,
            "smp",
            listen.host,
            listen.port,
            opening,
            self._open,
            check=self._check,
            listen=source,
        )
        # S000-18, SMP-3: losses are told by a timer that has a setting.
        self._every(settings.end_flush, self.write_losses)
        # SMP-39: so are notices.
        self._every(settings.notification_flush, router.notify)
        self._every(IDLE_LOOK_SECONDS, self._end_idle)

    @property
    def url(self) -> str:
        return self.identity.address(*self.address)

    @property
    def public_url(self) -> str:
        host, port = self.address
        return self.identity.address(kept_host(self._folder) or host, port)

    @property
    def details(self) -> Mapping[str, object]:
        return {"fingerprint": self.identity.fingerprint_text}

    def reload(self) -> None:
        """Show a new leaf to clients that connect from now on. The router's identity stays the
        same."""
        identity = Identity.load(self._folder, time.time())
        if identity.fingerprint != self.identity.fingerprint:
            raise ConfigError("the identity is another; restart the router to take it over")
        self._take(identity)

    def _take(self, identity: Identity) -> None:
        self._context = smp_context(identity)
        self._credentials = Credentials(identity.chain, identity.private, identity.fingerprint)
        self.identity = identity

    def close(self) -> None:
        """Accept nothing more, and end every session."""
        self._endpoint.close()
        for timer in self._timers:
            timer.cancel()
        self._connections.close()

    # New connections.

    def _check(self) -> None:
        most = self.settings.max_sessions
        if most and len(self._clients) >= most:
            raise LimitReached("smp.max_sessions", most)

    def _open(self, pipe: OpenSslPipe, guest: Guest) -> None:
        client = SmpConnection(self, guest)
        # Neither journal nor log is told where a client is: it has no name.
        connection = self._connections.open(pipe, guest, client.write_effects)
        if connection is None:
            return
        id = connection.id
        self._clients[id] = client
        client.start(connection, SmpSession(client, id, self._credentials, pipe.peer()))

    def deadline(self, client: SmpConnection) -> asyncio.TimerHandle:
        return self._loop.call_later(
            self.settings.handshake_timeout, client.close, "handshake took too long"
        )

    def _gone(self, connection: Connection, reason: str) -> None:
        client = self._clients.pop(connection.id)
        client.end()
        # S000-21: nobody is left to be told.
        self._deferred.pop(connection.id, None)
        if client.session.is_cut_off and reason == "closed by the client":
            reason = "closed by the client in the middle of a block"
        self.router.disconnect(connection.id, reason)

    # The clocks.

    def defer(self, session: SessionId, effects: Sequence[Effect]) -> None:
        """Have a session told these at the next flush."""
        self._deferred.setdefault(session, []).extend(effects)

    def deferred(self, session: SessionId) -> list[Effect]:
        """Answers that wait for the next flush, and no longer have to."""
        return self._deferred.pop(session, [])

    def _every(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it again and again."""
        handle: asyncio.TimerHandle

        def run() -> None:
            nonlocal handle
            self._timers.discard(handle)
            handle = self._loop.call_later(seconds, run)
            self._timers.add(handle)
            call()

        handle = self._loop.call_later(seconds, run)
        self._timers.add(handle)

    def write_losses(self) -> None:
        """Send the ENDs that wait. A session that does not read keeps its own and delays nobody."""
        for id in list(self._deferred):
            client = self._clients[id]
            # S000-20, SMP-3: who does not read waits alone, and loses nothing.
            if client.connection.mailbox.pressure is Pressure.EASY:
                # S000-19: all that waits leaves together, in its order.
                client.session.write_later(self._deferred.pop(id))

    def _end_idle(self) -> None:
        """Sessions that subscribe to nothing and say nothing."""
        oldest = self.router.clock() - self.settings.idle_timeout
        for id, client in list(self._clients.items()):
            if client.active_at > oldest:
                continue
            # ACC-73: who subscribes to something may be silent.
            if not self.router.is_subscribed(id):
                client.close("idle")


class SmpConnection(SessionShell):
    """The shell of one session: between its connection, its `SmpSession` and the router.

    Owned by `SmpServer`; implements `SmpPort`.
    """

    __slots__ = ("_created", "_deadline", "_server", "_since", "session")

    session: SmpSession

    def __init__(self, server: SmpServer, guest: Guest) -> None:
        super().__init__(server.router, guest)
        self._server = server
        self._deadline: asyncio.TimerHandle | None = None
        self._created = 0
        self._since = 0.0

    def start(self, connection: Connection, session: SmpSession) -> None:
        self.connection = connection
        self.session = session
        self._deadline = self._server.deadline(self)
        connection.start(self)
        session.start()

    def end(self) -> None:
        """The session is over."""
        if self._deadline is not None:
            self._finished()

    def let_go(self) -> None:
        del self.session

    def receive(self, data: bytes) -> None:
        self.active_at = self.now()
        self.session.receive(data)

    owes_answers = False
    """A client that hangs up is gone."""

    def go_on(self) -> None:
        """Requests are read again when they are answered, not when answers are taken."""

    def write_effects(self, effects: Sequence[Effect]) -> None:
        with self.safely():
            self.session.write_effects(effects)

    # What the session asks.

    def draw(self, length: int) -> bytes:
        return secrets.token_bytes(length)

    def creating(self, password: bytes | None) -> HeadgateError | None:
        settings = self._server.settings
        wanted = settings.create_password
        # ACC-31, ACC-32: nobody, or who knows the password if one is asked for.
        if not settings.create_queues or (
            wanted is not None and not compare_digest(password or b"", wanted.reveal().encode())
        ):
            return Unauthorised()
        now, most = self.now(), self.router.limits.creations_per_minute
        if now - self._since >= MINUTE:
            self._since, self._created = now, 0
        self._created += 1
        return None if self._created <= most else LimitReached("creations_per_minute", most)

    def write(self, blocks: bytes, messages: int) -> None:
        self.active_at = self.now()
        self.connection.deliver(blocks, messages)

    def submit(self, commands: Sequence[Command]) -> None:
        self.router.submit(self.connection.id, commands)

    def defer(self, effects: Sequence[Effect]) -> None:
        self._server.defer(self.connection.id, effects)

    def deferred(self) -> list[Effect]:
        return self._server.deferred(self.connection.id)

    def opened(self) -> None:
        self._finished()

    def _finished(self) -> None:
        assert self._deadline is not None, "a handshake ends once"
        self._deadline.cancel()
        self._deadline = None
        self.guest.known()


def open_smp(router: RouterPort, config: Config, source: Listen | None = None) -> SmpServer:
    assert config.listen.smp is not None, "its section is there"
    return SmpServer(router, config.listen.smp, config.smp, config.directory, source)


def check_smp(config: Config) -> Iterator[Finding]:
    """Whether its identity can be used, or made."""
    folder = config.directory / config.smp.identity
    if not folder.exists():
        yield Finding("identity", True, f"{folder} (will be made)")
        return
    try:
        identity = Identity.load(folder, time.time())
    except HeadgateError as error:
        yield Finding("identity", False, str(error))
    else:
        yield Finding("identity", True, f"{folder} ({identity.fingerprint_text})")


SMP = Wire("smp", ListenSmp, open_smp, check_smp)

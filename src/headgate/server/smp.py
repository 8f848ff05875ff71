"""The SMP wire on a listener: connections, events that are told together, and the clocks."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from hmac import compare_digest

from headgate.core.commands import Command, Notify
from headgate.core.effects import Effect
from headgate.core.facts import HandshakeFailed
from headgate.core.mailbox import Pressure
from headgate.core.names import SessionId
from headgate.errors import HeadgateError, LimitReached, Unauthorised
from headgate.server.config.sections import ListenSmp, Smp
from headgate.server.connection import Connection
from headgate.server.identity import Identity
from headgate.server.links import Links
from headgate.server.listener import Listener, bind
from headgate.server.openssl import OpenSslPipe, smp_context
from headgate.server.router import NOBODY, Router
from headgate.server.tls import Handshakes
from headgate.wire.smp.session import Credentials, SmpSession

log = logging.getLogger(__name__)

IDLE_LOOK_SECONDS = 60.0
"""How often sessions are looked at for having done nothing."""
MINUTE = 60.0


class SmpServer:
    def __init__(
        self, router: Router, listen: ListenSmp, settings: Smp, identity: Identity
    ) -> None:
        self.router = router
        self.settings = settings
        self.identity = identity
        self._credentials = Credentials(identity.chain, identity.private, identity.fingerprint)
        self._context = smp_context(identity)
        self._loop = asyncio.get_running_loop()
        self._links = Links(router, self._gone)
        self._clients: dict[SessionId, Client] = {}
        self._unfinished: Counter[str] = Counter()
        """Handshakes under way, by the address of the client."""
        self._handshakes = Handshakes(
            self._loop,
            lambda connected: OpenSslPipe(self._context, connected),
            settings.handshake_timeout,
            lambda reason: router.announce([HandshakeFailed(router.clock(), "smp", reason)]),
        )
        self._deferred: dict[SessionId, list[Effect]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._listener = Listener(
            self._loop, bind("listen.smp", listen.host, listen.port), self._welcome
        )
        self._every(settings.end_flush, self._flush)
        self._every(settings.notification_flush, self._notify)
        self._every(IDLE_LOOK_SECONDS, self._end_idle)

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    def close(self) -> None:
        """Accept nothing more, and end every session."""
        self._listener.close()
        self._handshakes.close()
        for timer in self._timers:
            timer.cancel()
        self._links.close()

    # New connections.

    def _welcome(self, connected: socket.socket, peer: str) -> None:
        address, limits = peer.rpartition(":")[0], self.router.limits
        try:
            with self.router.telling_limits(NOBODY):
                if self._unfinished.total() >= limits.handshakes:
                    raise LimitReached("handshakes", limits.handshakes)
                if self._unfinished[address] >= limits.handshakes_per_address:
                    raise LimitReached("handshakes_per_address", limits.handshakes_per_address)
                most = self.settings.max_sessions
                if most and len(self._clients) >= most:
                    raise LimitReached("smp.max_sessions", most)
        except LimitReached:
            connected.close()
            return

        def done(pipe: OpenSslPipe | None) -> None:
            if pipe is not None:
                self._open(pipe, address)
            else:
                self.finished(address)

        self._unfinished[address] += 1
        self._handshakes.begin(connected, done)

    def finished(self, address: str) -> None:
        """A handshake came to its end, this way or another."""
        self._unfinished[address] -= 1
        if not self._unfinished[address]:
            del self._unfinished[address]

    def _open(self, pipe: OpenSslPipe, address: str) -> None:
        client = Client(self, address)
        try:
            # Neither journal nor log is told where a client is.
            connection = self._links.make("smp", "", pipe, client.tell)
        except LimitReached:
            self.finished(address)
            pipe.close()
            return
        id = connection.id
        self._clients[id] = client
        client.start(connection, SmpSession(client, id, self._credentials, pipe.peer()))

    def deadline(self, client: Client) -> asyncio.TimerHandle:
        return self._loop.call_later(
            self.settings.handshake_timeout, client.close, "handshake took too long"
        )

    def _gone(self, connection: Connection, reason: str) -> None:
        client = self._clients.pop(connection.id)
        client.end()
        self._deferred.pop(connection.id, None)
        if client.session.is_cut_off and reason == "closed by the client":
            reason = "closed by the client in the middle of a block"
        self.router.disconnect(connection.id, reason)

    # The clocks.

    def defer(self, session: SessionId, effects: Sequence[Effect]) -> None:
        """Have a session told these at the next flush."""
        self._deferred.setdefault(session, []).extend(effects)

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

    def _flush(self) -> None:
        """Tell those who lost queues. Who does not read waits for its turn, and holds up nobody."""
        for id in list(self._deferred):
            client = self._clients[id]
            if client.connection.mailbox.pressure is Pressure.EASY:
                client.session.tell_later(self._deferred.pop(id))

    def _notify(self) -> None:
        if self.router.broker.shard.watchers.has_news:
            self.router.turns.insist([Notify()])

    def _end_idle(self) -> None:
        """Sessions that subscribe to nothing and say nothing."""
        oldest = self.router.clock() - self.settings.idle_timeout
        seats = self.router.broker.shard.seats
        for id, client in list(self._clients.items()):
            if client.active_at > oldest:
                continue
            seat = seats.find(id)
            if seat is None or not (seat.queues or seat.watched or seat.tie):
                client.close("idle")


class Client:
    """The shell of one session."""

    __slots__ = (
        "_address",
        "_created",
        "_deadline",
        "_server",
        "_since",
        "active_at",
        "connection",
        "session",
    )

    connection: Connection
    session: SmpSession

    def __init__(self, server: SmpServer, address: str) -> None:
        self._server = server
        self._address = address
        self._deadline: asyncio.TimerHandle | None = None
        self._created = 0
        self._since = 0.0
        self.active_at = server.router.clock()

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

    def receive(self, data: bytes) -> None:
        self.active_at = self._server.router.clock()
        self.session.receive(data)

    def go_on(self) -> None:
        """Requests are read again when they are answered, not when answers are taken."""

    def tell(self, effects: Sequence[Effect]) -> None:
        try:
            self.session.tell(effects)
        except Exception:
            # A mistake of ours costs the client that met it its session, and nobody else.
            log.exception("a session failed")
            self.connection.close("internal error", at_once=True)

    # What the session asks.

    def now(self) -> float:
        return self._server.router.clock()

    def draw(self, length: int) -> bytes:
        return secrets.token_bytes(length)

    def creating(self, password: bytes | None) -> HeadgateError | None:
        settings = self._server.settings
        wanted = settings.create_password
        if not settings.create_queues or (
            wanted is not None and not compare_digest(password or b"", wanted.reveal().encode())
        ):
            return Unauthorised()
        now, most = self.now(), self._server.router.limits.creations_per_minute
        if now - self._since >= MINUTE:
            self._since, self._created = now, 0
        self._created += 1
        return None if self._created <= most else LimitReached("creations_per_minute", most)

    def write(self, blocks: bytes, messages: int) -> None:
        self.active_at = self._server.router.clock()
        self.connection.deliver(blocks, messages)

    def submit(self, commands: Sequence[Command]) -> None:
        self._server.router.submit(self.session.id, commands)

    def defer(self, effects: Sequence[Effect]) -> None:
        self._server.defer(self.session.id, effects)

    def opened(self) -> None:
        self._finished()

    def pause(self) -> None:
        self.connection.pause(may_leave=False)

    def resume(self) -> None:
        self.connection.resume()

    def close(self, reason: str) -> None:
        self.connection.close(reason)

    def _finished(self) -> None:
        assert self._deadline is not None, "a handshake ends once"
        self._deadline.cancel()
        self._deadline = None
        self._server.finished(self._address)

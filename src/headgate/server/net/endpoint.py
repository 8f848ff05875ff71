"""An endpoint: a listener, with TLS if it has a certificate, and a bound on clients that have not
shown who they are."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

from headgate.core.facts import Fact, HandshakeFailed
from headgate.core.login.pending_logins import PendingLogins, network_of_peer
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.errors import LimitReached
from headgate.server.config.sections import Tls
from headgate.server.net.connection import SocketPipe
from headgate.server.net.listener import Listener, address_text, bind
from headgate.server.net.pump import Pipe
from headgate.server.net.tls import Handshakes, Secured, TlsPipe, server_context
from headgate.server.router_port import NOBODY

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
P = TypeVar("P", bound=Secured)

Knock: TypeAlias = Callable[[socket.socket, str], None]
"""Called with a new connection and its address."""


class ClientSource(Protocol):
    """The source of new connections."""

    @property
    def address(self) -> tuple[str, int]: ...

    def close(self) -> None: ...


Listen: TypeAlias = Callable[[str, str, int, Knock], ClientSource]
"""Makes the source for a section of the configuration, a host and a port."""

HANDSHAKE_SECONDS = 10.0

MADE_ROOM = "made room for another"


class EndpointServer(Protocol):
    """The server of an endpoint: what an endpoint calls."""

    @property
    def limits(self) -> Limits: ...

    @property
    def clock(self) -> Callable[[], float]: ...

    def announce(self, facts: Sequence[Fact]) -> None:
        """Record facts."""
        ...

    def recording_limits(self, session: SessionId) -> AbstractContextManager[None]:
        """A context in which a limit that is reached is recorded as a fact."""
        ...

    def expect(self, wire: str) -> None:
        """Reserve room for clients of this wire, for which an endpoint listens."""
        ...


class Guest:
    """A client from its connection until it is known, or gone."""

    __slots__ = ("_endpoint", "leave", "local", "network", "peer")

    def __init__(self, endpoint: Endpoint[S], peer: str, local: str) -> None:
        self._endpoint = endpoint
        self.peer = peer
        """The address of the client, with the port."""
        self.local = local
        """The address that it connected to."""
        self.network = network_of_peer(peer)
        """The part of its address that clients from one place have in common."""
        self.leave: Callable[[str], None] | None = None
        """Sends it away, with a reason, while it is a stranger."""

    def known(self) -> None:
        """Stop counting it as a stranger: it has shown who it is, is gone, or need not show
        anything."""
        self._endpoint.forget(self)


class Attempt(Protocol):
    """A pipe that is being made."""

    def give_up(self, reason: str) -> None: ...


class Opening(Protocol[S_co]):
    """Makes pipes of sockets."""

    def begin(
        self, connected: socket.socket, done: Callable[[S_co | None], None]
    ) -> Attempt | None:
        """Begin with a socket; `done` is called with the pipe, or None."""
        ...

    def close(self) -> None:
        """Abandon all attempts."""
        ...


class Plain:
    """Opening without TLS, which is ready at once."""

    def begin(self, connected: socket.socket, done: Callable[[Pipe | None], None]) -> None:
        done(SocketPipe(connected))

    def reload(self) -> None:
        pass

    def close(self) -> None:
        pass


class Sealed:
    """Opening with TLS, by the certificate that was read last."""

    def __init__(
        self, server: EndpointServer, wire: str, context: Callable[[], ssl.SSLContext]
    ) -> None:
        self._read = context
        self._context = context()
        self._handshakes = handshakes(server, wire, self._secure, HANDSHAKE_SECONDS)

    def begin(
        self, connected: socket.socket, done: Callable[[Pipe | None], None]
    ) -> Attempt | None:
        return self._handshakes.begin(connected, done)

    def reload(self) -> None:
        """Read the certificate again, for later clients."""
        self._context = self._read()

    def close(self) -> None:
        self._handshakes.close()

    def _secure(self, connected: socket.socket) -> TlsPipe:
        return TlsPipe(self._context, connected)


class Endpoint(Generic[S]):
    """A listener, and its clients that have not shown who they are.

    Owned by the wire's server, which it calls with every client that is ready. Handshakes and
    strangers are bounded, together and by address.
    """

    def __init__(
        self,
        server: EndpointServer,
        wire: str,
        host: str,
        port: int,
        opening: Opening[S],
        welcome: Callable[[S, Guest], None],
        *,
        check: Callable[[], None] = lambda: None,
        full: bytes = b"",
        listen: Listen | None = None,
    ) -> None:
        """`welcome` is called with a client's pipe and its guest, which it takes over. `check`
        raises if there is no room, before anything is done for a new client; that client is sent
        `full`, if it would understand. `listen` is the source of clients, if another process
        accepts them."""
        self._server = server
        self._opening = opening
        self._welcome = welcome
        self._check = check
        self._full = full
        self._loop = asyncio.get_running_loop()
        self.is_draining = False
        """Whether new clients are sent away, before the router stops."""
        limits = server.limits
        # Where few sessions are possible, strangers may have half of them: if they had all, a new
        # client would be refused before one of them makes room.
        self._strangers: PendingLogins[Guest] = PendingLogins(
            max(1, min(limits.handshakes, limits.sessions // 2)), limits.handshakes_per_address
        )
        server.expect(wire)
        section = f"listen.{wire}"
        self._listener: ClientSource
        if listen is None:
            self._listener = Listener(self._loop, bind(section, host, port), self._knock)
        else:
            self._listener = listen(section, host, port, self._knock)

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    def close(self) -> None:
        """Accept no more clients."""
        self._listener.close()
        self._opening.close()

    def admit(self, guest: Guest) -> None:
        """Count a stranger; if there are too many, send another away or raise."""
        with self._server.recording_limits(NOBODY):
            going = self._strangers.add(guest.network, guest, self._loop.time())
        if going is not None:
            self._send_away(*going)

    def forget(self, guest: Guest) -> None:
        self._strangers.remove(guest)

    def _knock(self, connected: socket.socket, peer: str) -> None:
        if self.is_draining:
            connected.close()
            return
        guest = Guest(self, peer, address_text(connected.getsockname()))
        try:
            with self._server.recording_limits(NOBODY):
                self._check()
            self.admit(guest)
        except LimitReached:
            with suppress(OSError):
                connected.send(self._full)
            connected.close()
            return

        def done(pipe: S | None) -> None:
            if pipe is None:
                self.forget(guest)
            else:
                self._welcome(pipe, guest)

        handshake = self._opening.begin(connected, done)
        if handshake is not None and guest.leave is None:
            guest.leave = handshake.give_up

    def _send_away(self, guest: Guest, reached: LimitReached) -> None:
        with suppress(LimitReached), self._server.recording_limits(NOBODY):
            raise reached
        assert guest.leave is not None, "whoever is at the endpoint can be sent away"
        guest.leave(MADE_ROOM)


def handshakes(
    server: EndpointServer, wire: str, secure: Callable[[socket.socket], P], seconds: float
) -> Handshakes[P]:
    """The TLS handshakes of a listener, whose failures are recorded."""
    return Handshakes(
        asyncio.get_running_loop(),
        secure,
        seconds,
        lambda reason: server.announce([HandshakeFailed(server.clock(), wire, reason)]),
    )


def opening(
    server: EndpointServer,
    wire: str,
    tls: Tls | None,
    directory: Path,
    *,
    needs_certificate: bool = True,
) -> Plain | Sealed:
    """The opening of pipes, with TLS if there is a certificate. With certificates of authorities
    for clients, each client needs one of theirs, or may have one."""
    if tls is None:
        return Plain()
    context = partial(
        server_context,
        directory / tls.certificate,
        directory / tls.key,
        None if tls.client_ca is None else directory / tls.client_ca,
        needs_certificate=needs_certificate,
    )
    return Sealed(server, wire, context)

"""TLS on the non-blocking socket itself.

A memory buffer between OpenSSL and the socket, as asyncio has it, never shrinks: 277 KB for an idle
session. Here OpenSSL reads and writes the socket, and buffers nothing between records.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from headgate.errors import ConfigError


def server_context(
    certificate: Path, key: Path, client_ca: Path | None = None, *, needs_certificate: bool = True
) -> ssl.SSLContext:
    """TLS 1.2 or newer with this certificate. With certificates of authorities for clients, each
    client needs one of theirs, or may have one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {certificate} cannot be used: {error}") from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the certificates {client_ca} cannot be used: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED if needs_certificate else ssl.CERT_OPTIONAL
    return context


class Secured(Protocol):
    """A pipe with TLS. Its handshake raises ssl's errors when it has to wait."""

    def fileno(self) -> int: ...
    def do_handshake(self) -> None: ...
    def close(self) -> None: ...


S = TypeVar("S", bound=Secured)


class TlsPipe:
    """A socket with TLS, from its handshake on."""

    __slots__ = ("_socket", "do_handshake", "fileno", "pending")

    def __init__(self, context: ssl.SSLContext, connected: socket.socket) -> None:
        secured = context.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
        self._socket = secured
        self.do_handshake = secured.do_handshake
        self.fileno = secured.fileno
        self.pending = secured.pending

    def recv(self, size: int) -> bytes:
        try:
            return self._socket.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            return b""

    def send(self, data: bytes | memoryview) -> int:
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    @property
    def peer_name(self) -> str:
        """The common name in the client's certificate; None if it has none that is valid."""
        found = self._socket.getpeercert() or {}
        subject: Any = found.get("subject", ())
        names = [text for part in subject for kind, text in part if kind == "commonName"]
        return names[-1] if names else ""

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            self._socket.unwrap()  # sends the closing alert; the answer is not awaited
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class Handshake(Generic[S]):
    """A handshake under way, with a deadline. `done` is called with the pipe, or with the reason of
    the failure."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipe: S,
        seconds: float,
        done: Callable[[S | None, str], None],
    ) -> None:
        self._loop = loop
        self._pipe = pipe
        self._done = done
        self._timer = loop.call_later(seconds, self.give_up, "took too long")

    def step(self) -> None:
        self._stop_looking()
        try:
            self._pipe.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.add_reader(self._pipe, self.step)
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._pipe, self.step)
        except OSError:
            self.give_up("failed")
        else:
            self._end(self._pipe, "")

    def give_up(self, reason: str) -> None:
        self._stop_looking()
        self._pipe.close()
        self._end(None, reason)

    def _end(self, secured: S | None, reason: str) -> None:
        """Call `done` once, and drop the reference that it has to the handshake."""
        self._timer.cancel()
        done = self._done
        del self._done
        done(secured, reason)

    def _stop_looking(self) -> None:
        self._loop.remove_reader(self._pipe)
        self._loop.remove_writer(self._pipe)


class Handshakes(Generic[S]):
    """Handshakes of a listener. `failed` is called with the reason of a failure."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        secure: Callable[[socket.socket], S],
        seconds: float,
        failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._secure = secure
        self._seconds = seconds
        self._failed = failed
        self._under_way: set[Handshake[S]] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(
        self, connected: socket.socket, done: Callable[[S | None], None]
    ) -> Handshake[S] | None:
        """Begin TLS with a client; `done` is called with the pipe, or None."""
        try:
            connected.getpeername()  # wrapping a reset socket would leak it
            pipe = self._secure(connected)
        except OSError:  # it was reset in the meantime
            connected.close()
            self._failed("failed")
            done(None)
            return None

        def ended(secured: S | None, reason: str) -> None:
            self._under_way.discard(handshake)
            if secured is None:
                self._failed(reason)
            done(secured)

        handshake = Handshake(self._loop, pipe, self._seconds, ended)
        self._under_way.add(handshake)
        handshake.step()
        return handshake

    def close(self) -> None:
        """Abandon the handshakes under way."""
        for handshake in list(self._under_way):
            handshake.give_up("the router stops")

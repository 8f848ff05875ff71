"""TLS on the non-blocking socket itself.

A memory buffer between OpenSSL and the socket, as asyncio has it, never shrinks: 277 KB for an
idle session. Here OpenSSL reads and writes the socket, and keeps nothing between records.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headgate.errors import ConfigError


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer, with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {certificate} cannot be used: {error}") from error
    return context


class TlsPipe:
    """A socket with TLS, once its handshake is done."""

    __slots__ = ("_socket", "fileno", "pending")

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self._socket = secured
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

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            self._socket.unwrap()  # says goodbye; the answer is not waited for
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class Handshake:
    """A handshake under way, with a deadline. `done` is told the pipe, or nothing if it failed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connected: socket.socket,
        context: ssl.SSLContext,
        seconds: float,
        done: Callable[[TlsPipe | None], None],
    ) -> None:
        self._loop = loop
        self._done = done
        try:
            connected.getpeername()  # of one that was reset already, wrapping would leave a rest
            self._socket = context.wrap_socket(
                connected, server_side=True, do_handshake_on_connect=False
            )
        except OSError:  # it was reset before anybody looked
            connected.close()
            done(None)
            return
        self._timer = loop.call_later(seconds, self._fail)
        self._step()

    def _step(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.add_reader(self._socket, self._step)
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._socket, self._step)
        except OSError:
            self._fail()
        else:
            self._timer.cancel()
            self._done(TlsPipe(self._socket))

    def _fail(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._done(None)

"""Accepting connections: bounded, and one by one."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from headgate.errors import ConfigError
from headgate.server.net.passed_sockets import passed_sockets

log = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTED_AT_ONCE = 64
"""Connections accepted before others get a turn."""
PAUSE_SECONDS = 0.5
"""Seconds without accepting after the process ran out of file descriptors."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def bind(section: str, host: str, port: int) -> socket.socket:
    """A listening socket for a section of the configuration: the one passed for it, or a new one;
    raise with one line about the reason if there is none."""
    passed = passed_sockets().take(section, host)
    if passed is not None:
        return passed
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen on {host} port {port}: {reason}; change [{section}] host or port"
        ) from error
    return listening


class Listener:
    """Calls `welcome` with every new connection, until it is closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        welcome: Callable[[socket.socket, str], None],
    ) -> None:
        self._loop = loop
        self._socket = listening
        self._welcome = welcome
        self._is_open = True
        self._accept_soon()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _accept_soon(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connected, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    log.error("cannot accept connections: %s", error.strerror)
                    self._loop.remove_reader(self._socket)
                    self._loop.call_later(PAUSE_SECONDS, self._accept_soon)
                    return
                raise
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._welcome(connected, address_text(address))


def address_text(address: tuple[object, ...]) -> str:
    """An address as people write it."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"

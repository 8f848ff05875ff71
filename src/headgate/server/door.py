"""Where clients come in: a listener, with TLS if it has a certificate."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headgate.core.facts import HandshakeFailed
from headgate.errors import LimitReached
from headgate.server.config.sections import Tls
from headgate.server.connection import Pipe, SocketPipe
from headgate.server.listener import Listener, address_text, bind
from headgate.server.router import NOBODY, Router
from headgate.server.tls import Handshakes, TlsPipe, server_context

HANDSHAKE_SECONDS = 10.0

Welcome = Callable[[Pipe, str, str], None]
"""Told a client's pipe, its address and the address that it came to."""


class Door:
    def __init__(
        self,
        router: Router,
        wire: str,
        host: str,
        port: int,
        tls: Tls | None,
        directory: Path,
        welcome: Welcome,
    ) -> None:
        self._router = router
        self._welcome = welcome
        self._handshakes: Handshakes[TlsPipe] | None = None
        loop = asyncio.get_running_loop()
        if tls is not None:
            context = server_context(directory / tls.certificate, directory / tls.key)
            self._handshakes = Handshakes(
                loop,
                lambda connected: TlsPipe(context, connected),
                HANDSHAKE_SECONDS,
                lambda reason: router.announce([HandshakeFailed(router.clock(), wire, reason)]),
            )
        self._listener = Listener(loop, bind(f"listen.{wire}", host, port), self._knock)

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    def close(self) -> None:
        """Let nobody in any more."""
        self._listener.close()
        if self._handshakes is not None:
            self._handshakes.close()

    def _knock(self, connected: socket.socket, peer: str) -> None:
        local = address_text(connected.getsockname())
        if self._handshakes is None:
            self._welcome(SocketPipe(connected), peer, local)
            return
        most = self._router.limits.handshakes
        if len(self._handshakes) >= most:
            with suppress(LimitReached), self._router.telling_limits(NOBODY):
                raise LimitReached("handshakes", most)
            connected.close()
            return

        def done(pipe: TlsPipe | None) -> None:
            if pipe is not None:
                self._welcome(pipe, peer, local)

        self._handshakes.begin(connected, done)

"""The shell of a session, as far as those of all wires have it in common."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.server.net.connection import Connection
from headgate.server.net.endpoint import Guest
from headgate.server.router_port import RouterPort

log = logging.getLogger(__name__)


class SessionShell:
    """Between a connection and the session that speaks a wire's protocol on it: the clock, and the
    ends of the connection that the session asks for."""

    __slots__ = ("active_at", "connection", "guest", "router")

    connection: Connection

    def __init__(self, router: RouterPort, guest: Guest) -> None:
        self.router = router
        self.guest = guest
        self.active_at = router.clock()
        """When the client was heard last."""

    def now(self) -> float:
        return self.router.clock()

    def pause(self) -> None:
        self.connection.pause(may_leave=False)

    def resume(self) -> None:
        self.connection.resume()

    def close(self, reason: str) -> None:
        self.connection.close(reason)

    @contextmanager
    def safely(self) -> Iterator[None]:
        """A mistake of ours costs the client that met it its session, and nobody else."""
        try:
            yield
        except Exception:
            log.exception("a session failed")
            self.connection.close("internal error", at_once=True)

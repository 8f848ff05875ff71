"""The shell of a session: the part that all wires have in common."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.server.net.connection import Connection
from headgate.server.net.endpoint import Guest
from headgate.server.router_port import RouterPort

log = logging.getLogger(__name__)


class SessionShell:
    """Between a connection and its wire's session: the clock, and the session's calls to the
    connection."""

    __slots__ = ("active_at", "connection", "guest", "router")

    connection: Connection

    def __init__(self, router: RouterPort, guest: Guest) -> None:
        self.router = router
        self.guest = guest
        self.active_at = router.clock()
        """When data of the client last came."""

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
        """A context in which an error of ours costs the client that met it its session, and no
        other."""
        try:
            yield
        except Exception:
            log.exception("a session failed")
            self.connection.close("internal error", at_once=True)

"""The HTTP server behind an admin port, in the event loop of whoever it is about.

It is small on purpose: so many connections and no more, and a connection that does not get to a
request is closed, so that nobody can take file descriptors away from the sessions.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 104
"""Open connections of the admin port: more than can be at work or look at a stream (48, 32 and 4),
so that there always is one for ``/healthz``."""

IDLE_SECONDS = 10.0
"""A connection without a request for this long is closed, and one whose peer reads nothing."""

LINGER_SECONDS = 2.0
"""How long the rest of a request that was answered is read away: who is still sending it would not
see the answer."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on a connection that is closed when it does nothing, or makes room for a newer one.

    A request without the token is over as soon as its head has come, and there are fewer requests
    under way than connections: so there always is a connection that can make room.
    """

    is_leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        self._lingering: asyncio.TimerHandle | None = None
        self._look_again()
        self._make_room()

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Close the connection that has been idle for longest, if this one is too many."""
        here = [each for each in self.connections if isinstance(each, BoundedProtocol)]
        staying = [each for each in here if not each.is_leaving]
        if len(staying) > CONNECTIONS:
            idle = [each for each in staying if each.is_idle and each is not self]
            min(idle, key=lambda each: each.since, default=self).leave()

    def leave(self) -> None:
        self.is_leaving = True  # it is among the connections until the loop comes to it
        self.transport.abort()

    def _look_again(self) -> None:
        now = (self.cycle, self.transport.get_write_buffer_size())
        self._idle = self.loop.call_later(IDLE_SECONDS, self._close_if_idle, *now)

    def _close_if_idle(self, cycle: object, unread: int) -> None:
        # The same request as last time: it is over, or nobody reads its answer.
        is_stuck = unread > 0 and unread == self.transport.get_write_buffer_size()
        if self.cycle is cycle and (self.is_idle or is_stuck):
            self.leave()
        else:
            self._look_again()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.since = self.loop.time()
        if self.conn.their_state is h11.SEND_BODY:
            self._lingering = self.loop.call_later(LINGER_SECONDS, self._end_request, self.cycle)

    def _end_request(self, cycle: object) -> None:
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.cancel()
        if self._lingering is not None:
            self._lingering.cancel()
        super().connection_lost(exc)


class QuietServer(uvicorn.Server):
    """Leaves the signals to `serve.py`, which owns the order of the shutdown."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Serve an application on a socket. The task ends early only if the server fails."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    server = QuietServer(config)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="admin")
    starting = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait([task, starting], return_when=asyncio.FIRST_COMPLETED)
        yield task
    finally:
        starting.cancel()
        server.should_exit = True
        await asyncio.wait([task])

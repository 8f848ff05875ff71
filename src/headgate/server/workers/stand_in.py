"""Answers on the admin port while worker 0, which owns it, is being started again.

They say only that the router is there and not ready; a probe of `/healthz` must not end it for
that.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

CONNECTIONS = 64
HEAD_BYTES = 16 * 1024
SECONDS = 2.0
"""Seconds for a request to come, and for its answer to be taken."""

HEALTHY = b'{"status":"ok"}'
AWAY = b'{"error":"worker 0 is being started again","code":"not_ready","hint":"ask again"}'


class StandIn:
    """The stand-in for worker 0 on the admin port, owned by the supervisor, with the socket that
    worker 0 listens on, too."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False

    def stand_in(self, *, is_needed: bool) -> None:
        """Answer from now on, or leave it to worker 0."""
        if is_needed == self._is_open:
            return
        self._is_open = is_needed
        if is_needed:
            self._loop.add_reader(self._listening, self._accept)
        else:
            self._loop.remove_reader(self._listening)

    def close(self) -> None:
        self.stand_in(is_needed=False)
        for task in self._tasks:
            task.cancel()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            connected, _ = self._listening.accept()
            connected.setblocking(False)
            if len(self._tasks) >= CONNECTIONS:
                connected.close()
                return
            task = self._loop.create_task(self._serve(connected))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connected: socket.socket) -> None:
        with connected, suppress(OSError, TimeoutError):
            async with asyncio.timeout(SECONDS):
                head = b""
                while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES:
                    more = await self._loop.sock_recv(connected, HEAD_BYTES)
                    if not more:
                        return
                    head += more
                await self._loop.sock_sendall(connected, answer(head))


def answer(head: bytes) -> bytes:
    """The answer to a request."""
    is_health = head.split(b" ", 2)[1:2] == [b"/healthz"]
    status = b"200 OK" if is_health else b"503 Service Unavailable"
    body = HEALTHY if is_health else AWAY
    return (
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"retry-after: 1\r\nconnection: close\r\n\r\n%s" % (status, len(body), body)
    )

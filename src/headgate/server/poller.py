"""Many sockets behind one entry of the event loop.

asyncio makes two objects and half a dozen calls for each socket that is ready, which is more than
the rest of what a small command costs. So connections have an epoll of their own, and the loop
watches that one: whatever is ready is then one list, made in C.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import Callable
from typing import TypeAlias

log = logging.getLogger(__name__)

READ = select.EPOLLIN
HUNG_UP = select.EPOLLRDHUP
"""The peer will send nothing more; told only to who asks for it, as reading tells it too."""
WRITE = select.EPOLLOUT
GONE = HUNG_UP | select.EPOLLHUP | select.EPOLLERR
"""The peer will send nothing more, or the socket is broken."""

AT_ONCE = 512
"""Sockets that are served before the rest of the loop gets its turn."""

ROUNDS = 3
"""How often it is looked who is ready. What was ready stays on the kernel's list until somebody
looks again, and would wake the loop once more for nothing."""

Ready: TypeAlias = Callable[[int], None]
"""Told what a socket is ready for."""


class Poller:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._ready: dict[int, Ready] = {}
        self._is_serving = False
        self._calls: list[Callable[[], None]] = []
        loop.add_reader(self._epoll.fileno(), self._serve)

    def add(self, fileno: int, ready: Ready, events: int) -> None:
        self._ready[fileno] = ready
        self._epoll.register(fileno, events)

    def change(self, fileno: int, events: int) -> None:
        self._epoll.modify(fileno, events)

    def remove(self, fileno: int) -> None:
        """Forget a socket, before it is closed."""
        del self._ready[fileno]
        self._epoll.unregister(fileno)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def soon(self, call: Callable[[], None]) -> None:
        """Call it when everybody who is ready was served, which is now at the latest."""
        if self._is_serving:
            self._calls.append(call)
        else:
            self._loop.call_soon(call)

    def _serve(self) -> None:
        self._is_serving = True
        try:
            self._look()
        finally:
            self._is_serving = False
            calls, self._calls = self._calls, []
            for call in calls:
                try:
                    call()
                except Exception:
                    log.exception("what was to be done soon failed")

    def _look(self) -> None:
        ready, poll = self._ready.get, self._epoll.poll
        for _ in range(ROUNDS):
            found = poll(0, AT_ONCE)
            if not found:
                return
            for fileno, events in found:
                call = ready(fileno)
                if call is not None:  # not one that somebody before it in the list closed
                    call(events)

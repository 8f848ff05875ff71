"""Many sockets, found and served in one step of the event loop.

asyncio makes two objects and half a dozen calls for each socket that is ready, which is more than
the rest of what a small command costs. So connections bypass asyncio: the selector of its loop is
this one. It serves them as it finds them, and returns the other ready sockets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import selectors
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import FileIO
from time import monotonic
from typing import Any, TypeAlias

from headgate.server.net.pump import Pump, let_go_all, serve

log = logging.getLogger(__name__)

READ = select.EPOLLIN
HUNG_UP = select.EPOLLRDHUP
"""The peer will send nothing more; only reported if asked for, as reading shows it too."""
WRITE = select.EPOLLOUT
GONE = HUNG_UP | select.EPOLLHUP | select.EPOLLERR
"""The peer will send nothing more, or the socket is broken."""

AT_ONCE = 128
"""Sockets served before the rest of the loop gets a turn. Each may be one that hung up, which takes
a tenth of a millisecond: a crowd that vanishes at once takes many passes, not one."""

RING = (1).to_bytes(8, sys.byteorder)
"""What adds one to the number that an eventfd holds."""

Ready: TypeAlias = Callable[[int], None]
"""Called with the events that a socket is ready for."""

Selected: TypeAlias = list[tuple[selectors.SelectorKey, int]]


class Poller(selectors.BaseSelector):
    """The event loop's selector, which serves connections itself as soon as they are ready.

    One for each loop; connections add themselves, and the hub has its flush called after them. The
    rest of the loop gets a turn after a bounded number of sockets.
    """

    def __init__(self) -> None:
        self._ready: dict[int, Ready] = {}
        self._others = selectors.EpollSelector()
        """Sockets that the loop watches besides: listeners, pipes, the admin port."""
        self._epoll = select.epoll()
        self._epoll.register(self._others.fileno(), READ)
        self.answering: list[Pump] = []
        """Connections that hold answers until all ready ones were served."""
        self.calls: list[Callable[[], None]] = []
        """Calls to make after these answers."""
        self.is_serving = False
        self.is_selector = False
        """Whether a loop uses it as its selector, in every pass."""
        self._later: list[Callable[[], None]] = []
        """Calls to make in the next pass."""
        self.loop: Any = None
        """A loop that says of itself whether it has something else to do."""

    # For connections.

    def add(self, fileno: int, ready: Ready, events: int) -> None:
        self._ready[fileno] = ready
        self._epoll.register(fileno, events)

    def change(self, fileno: int, events: int) -> None:
        self._epoll.modify(fileno, events)

    def remove(self, fileno: int) -> None:
        """Forget a socket before it is closed."""
        del self._ready[fileno]
        self._epoll.unregister(fileno)

    def soon(self, call: Callable[[], None]) -> None:
        """Call it when all ready connections were served, which is now at the latest."""
        if self.is_serving:
            self.calls.append(call)
        else:
            asyncio.get_running_loop().call_soon(call)

    def later(self, call: Callable[[], None]) -> None:
        """Call it in the next pass, after the connections that are ready by then."""
        if self.is_selector:
            self._later.append(call)
        else:
            asyncio.get_running_loop().call_soon(call)

    # For the loop.

    def select(self, timeout: float | None = None) -> Selected:
        """Wait, serve the connections that are ready, and return what else is. While that is
        nothing, and nothing but connections wants its turn, it waits and serves again."""
        later = None
        if self._later:
            later, self._later, timeout = self._later, [], 0
        loop = self.loop
        if loop is None or timeout == 0:
            return self._others.select(0) if self._serve(timeout, later) else []
        ready, timers = loop._ready, loop._scheduled
        known = len(timers)
        end = None if timeout is None else monotonic() + timeout
        while not self._serve(timeout, None):
            # What was asked of the loop meanwhile is not kept waiting.
            if ready or len(timers) != known or self._later or loop._stopping:
                return []
            if end is not None and (timeout := end - monotonic()) <= 0:
                return []
        return self._others.select(0)

    def _serve(self, timeout: float | None, later: list[Callable[[], None]] | None) -> bool:
        """Wait once, and serve who is ready; return whether something else is, too."""
        found = self._epoll.poll(timeout, AT_ONCE)
        self.is_serving = True
        has_others = serve(found, self._ready, _failed)
        if later is not None:
            self.calls += later
        self.is_serving = False
        if self.answering:
            # Before what was published: the next commands may come while that is written.
            answering, self.answering = self.answering, []
            let_go_all(answering, _failed)
        calls, self.calls = self.calls, []
        for each in calls:
            try:
                each()
            except Exception:
                log.exception("what was to be done soon failed")
        return has_others

    def fileno(self) -> int:
        return self._epoll.fileno()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: ANN401
        return self._others.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:  # noqa: ANN401
        return self._others.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: ANN401
        return self._others.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._others.get_map()

    def close(self) -> None:
        self._epoll.close()
        self._others.close()


def _failed(error: Exception) -> None:
    log.error("serving a connection failed", exc_info=error)


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop with a poller as its selector."""

    def __init__(self) -> None:
        self.poller = Poller()
        self.poller.is_selector = True
        self._bell = FileIO(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC), "r+")
        self.poller.add(self._bell.fileno(), self._rung, READ)
        super().__init__(self.poller)
        # asyncio's own names, which no version had others for. Its pass costs more than ours.
        if all(hasattr(self, name) for name in ("_ready", "_scheduled", "_stopping")):
            self.poller.loop = self

    # Other threads ring a bell that the poller watches itself: this costs half of what asyncio's
    # pair of sockets does. That pair remains, for signals.

    def _write_to_self(self) -> None:
        with suppress(OSError, ValueError):  # the loop was closed meanwhile
            self._bell.write(RING)

    def _rung(self, events: int) -> None:
        self._bell.read(len(RING))

    def close(self) -> None:
        super().close()
        self._bell.close()


def poller_of(loop: asyncio.AbstractEventLoop) -> Poller:
    """The poller of a loop. A loop of another kind watches the poller like any other descriptor."""
    if isinstance(loop, Loop):
        return loop.poller
    poller = Poller()
    loop.add_reader(poller.fileno(), poller.select, 0)
    return poller

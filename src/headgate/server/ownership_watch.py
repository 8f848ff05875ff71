"""The right of a running router to its store: kept, doubted, given up.

The store is asked a small question at least once a second, which is how others learn that its owner
is alive. How long ago it last heard us decides whether the effects of a turn may leave: somebody
else may own it by now, and what this router remembers may be old.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from contextlib import suppress

from headgate.errors import StoreError
from headgate.store.ownership import Ownership

BEATS = 3
"""Questions within the time in which one has to be answered."""
BEAT_SECONDS_MAX = 1.0
LOOK_SECONDS = 0.1
"""How often it is looked whether there is doubt."""
GIVE_UP_SECONDS = 30.0
"""An owner that was not heard for so long closes its clients, who may find another."""


class OwnershipWatch:
    """Keeps a router the owner of its store, and says when it is none any more.

    The router has one if its store can be lost to another. `lost` is called once, with the reason;
    after that nothing is assured any more, and whoever waits for it waits in vain.
    """

    def __init__(
        self,
        ownership: Ownership,
        probe: Callable[[], Awaitable[None]],
        current_term: Callable[[], Awaitable[int | None]],
        lost: Callable[[str], None],
        doubted: Callable[[float], None],
    ) -> None:
        self.ownership = ownership
        self._probe = probe
        self._current_term = current_term
        self._lost = lost
        self._doubted = doubted
        """Told for how long the store had not heard us, when it has again."""
        self._is_over = False
        self._hang_up = HangUp()
        self._hung_up = asyncio.Event()
        """The server has closed the connection."""
        self._asking: asyncio.Task[None] | None = None
        self._doubt = 0.0
        """The longest silence since the router was last heard in time."""

    @property
    def is_assured(self) -> bool:
        """Whether nobody else can own the store at this moment."""
        ownership = self.ownership
        return (
            ownership.lost is None
            and not self.is_late
            and not self._hang_up.is_closed(ownership.socket)
        )

    @property
    def is_late(self) -> bool:
        """Whether the store has not heard us for too long; the cheap half of `is_assured`."""
        return self.ownership.silence >= self.ownership.timeout

    @property
    def problem(self) -> str | None:
        """Why it may be that another owns the store, if it may."""
        if not self.is_late:
            return None
        seconds = self.ownership.silence
        return f"it has not heard this router for {seconds:.0f} s, and another may have taken over"

    async def assured(self) -> None:
        """Return when it is sure that nobody else owns the store; never, if somebody does."""
        while not self.is_assured:
            if self.ownership.lost is not None:
                self.give_up(self.ownership.lost)
                await asyncio.get_running_loop().create_future()
            try:
                await self._probe()
            except StoreError:
                await asyncio.sleep(LOOK_SECONDS)

    async def run(self) -> None:
        """Ask, and look at what comes of it, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            tasks.create_task(self._look())

    def give_up(self, why: str) -> None:
        """Note, once, that the database is another router's, or may be."""
        if not self._is_over:
            self._is_over = True
            self.ownership.lost = why
            self._lost(why)

    async def _beat(self) -> None:
        pause = min(BEAT_SECONDS_MAX, self.ownership.timeout / BEATS)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hung_up.wait()
            self._hung_up.clear()
            with suppress(StoreError):
                await self._probe()

    async def _look(self) -> None:
        ownership = self.ownership
        while not self._is_over:
            await asyncio.sleep(LOOK_SECONDS)
            silence = ownership.silence
            if self._hang_up.is_closed(ownership.socket):
                self._hung_up.set()  # who is quick gets the lock back
            if ownership.lost is not None:
                self.give_up(ownership.lost)
            elif silence >= GIVE_UP_SECONDS:
                self.give_up(f"the database has not heard this router for {silence:.0f} s")
            elif silence >= ownership.timeout:
                self._doubt = max(self._doubt, silence)
                self._ask_others()
            elif self._doubt:
                doubt, self._doubt = self._doubt, 0.0
                self._doubted(doubt)

    def _ask_others(self) -> None:
        """The connection may be dead while the server is not: ask on another who owns it. One
        question at a time, since that one may have no answer either."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        assert self.ownership.taken is not None, "who is an owner has become one"
        term = await self._current_term()
        if term is not None and term != self.ownership.taken.term:
            self.give_up("another router has taken it over")
        await asyncio.sleep(BEAT_SECONDS_MAX)
        self._asking = None


class HangUp:
    """A watch on whether the other end of a connection is known to have closed it."""

    def __init__(self) -> None:
        self._socket: int | None = None
        self._poll = select.poll()

    def is_closed(self, socket: int | None) -> bool:
        if socket != self._socket:
            if self._socket is not None:
                self._poll.unregister(self._socket)
            if socket is not None:
                self._poll.register(socket, select.POLLRDHUP)
            self._socket = socket
        return socket is None or bool(self._poll.poll(0))

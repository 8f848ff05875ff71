"""Viewers of a live stream. Each holds two ticks at most: whoever sleeps loses old ones, and costs
nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from headgate.server.admin.responses import Refusal

VIEWERS_MAX = 32
TICKS_MAX = 2
RETRY = b"retry: 2000\n\n"
"""A stream that was cut is asked for again after two seconds."""


class Viewers:
    """The streams of all viewers. An event goes to all of them at once."""

    def __init__(self, most: int = VIEWERS_MAX) -> None:
        self._most = most
        self._queues: dict[asyncio.Queue[bytes | None], bool] = {}
        """And whether each wants facts."""
        self.last = b""
        """The newest tick, for who comes between two."""
        self.is_over = False

    def __len__(self) -> int:
        return len(self._queues)

    def check_room(self) -> None:
        if self.is_over:
            raise Refusal(503, "the router stops", "stopping", "ask again later")
        if len(self._queues) >= self._most:
            raise Refusal(
                503, f"{self._most} look already", "too_many_viewers", "close a page, or ask later"
            )

    @property
    def want_facts(self) -> bool:
        """Whether anybody does."""
        return any(self._queues.values())

    def send(self, tick: bytes, facts: bytes = b"") -> None:
        """Send the bytes of a tick to all viewers; those who want facts have them first."""
        self.last = tick
        with_facts = facts + tick if facts else tick
        for queue, wants_facts in self._queues.items():
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(with_facts if wants_facts else tick)

    def end(self) -> None:
        """End all streams."""
        self.is_over = True
        for queue in self._queues:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None)

    async def stream(self, *, wants_facts: bool = False) -> AsyncIterator[bytes]:
        """The events for one viewer, until it goes or the router stops."""
        mine: asyncio.Queue[bytes | None] = asyncio.Queue(TICKS_MAX)
        self._queues[mine] = wants_facts
        try:
            yield RETRY + self.last
            while (tick := await mine.get()) is not None:
                yield tick
        finally:
            del self._queues[mine]
            if not self._queues:
                self.last = b""  # it grows old

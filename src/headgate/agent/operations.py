"""Operations that an agent has under way, so that it can be suspended when there are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Operations:
    """The number of operations under way. While suspended none begins, and those begun finish.

    Receiving and sending share one; their agent suspends and resumes it.
    """

    def __init__(self) -> None:
        self._is_allowed = asyncio.Event()
        self._is_allowed.set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._count = 0

    @property
    def is_suspended(self) -> bool:
        return not self._is_allowed.is_set()

    @asynccontextmanager
    async def operation(self) -> AsyncIterator[None]:
        """A context for one operation. It waits here while the agent is suspended."""
        await self.allowed()
        self._count += 1
        self._is_idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._is_idle.set()

    async def allowed(self) -> None:
        """Wait while the agent is suspended."""
        while self.is_suspended:
            await self._is_allowed.wait()

    async def suspend(self) -> None:
        """Let no operation begin, and wait for those under way. If the wait is cancelled it stays
        suspended."""
        # S000-71: operations under way finish, and no message is received.
        self._is_allowed.clear()
        await self._is_idle.wait()

    def resume(self) -> None:
        self._is_allowed.set()

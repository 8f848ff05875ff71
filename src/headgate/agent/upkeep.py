"""Upkeep of an agent's records: traces of old messages are removed now and then."""

from __future__ import annotations

import asyncio
from typing import Final

from headgate.agent.clock import AgentClock, SystemClock
from headgate.agent.operations import Operations
from headgate.agent.records import Records, received
from headgate.agent.tasks import Tasks
from headgate.errors import StoreError

PERIOD_SECONDS: Final = 3600.0


class Upkeep:
    """Removes messages acknowledged so long ago that no router can deliver them again. Owned by an
    agent, which starts it once; the first time is at once."""

    def __init__(
        self,
        records: Records,
        *,
        operations: Operations | None = None,
        clock: AgentClock | None = None,
    ) -> None:
        self._records = records
        self._operations = operations or Operations()
        self._clock = clock or SystemClock()
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.run(self._work(), "upkeep")

    async def close(self) -> None:
        await self._tasks.close()

    async def _work(self) -> None:
        while True:
            try:
                # A page for each transaction, so that other jobs do not wait long for the writer.
                while await self._prune() == received.PAGE:
                    pass
            except StoreError:
                pass  # the disk is full or locked: the next time is soon enough
            # By the loop's clock: this wait must not advance a simulated time.
            await asyncio.sleep(PERIOD_SECONDS)

    async def _prune(self) -> int:
        async with self._operations.operation():
            return await self._records.write(received.prune, self._clock.now())

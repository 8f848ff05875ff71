"""The stream of `events()`: events in their order, and messages with their bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from headgate.agent.connections.announcing import Announcement
from headgate.agent.event_queue import EventQueue
from headgate.agent.events import (
    ConnectionEvent,
    DeliveryEvent,
    Skipped,
    SubscriptionEvent,
)
from headgate.agent.tickets import Ticket
from headgate.errors import StoreError

AgentEvent: TypeAlias = SubscriptionEvent | DeliveryEvent | ConnectionEvent | Skipped
"""Everything that an application is given."""

Kept: TypeAlias = Ticket | Announcement
"""Stands among the events for one that is in the records until the application comes to it."""


class EventStream:
    """The reading end of the events of one agent. It may be left and taken up again, by whomever:
    an event is gone from the queue only when it is given."""

    def __init__(
        self,
        queue: EventQueue[SubscriptionEvent | DeliveryEvent | Kept],
        retry_seconds: float,
        failed: Callable[[Exception], None],
    ) -> None:
        self._queue = queue
        self._retry_seconds = retry_seconds
        self._failed = failed
        self._turn = asyncio.Lock()
        """What is in the records is loaded one at a time."""
        self.loading: Kept | None = None
        """What is about to be given."""

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> AgentEvent:
        async with self._turn:
            while True:
                event = await self._queue.head()
                if not isinstance(event, Kept):
                    self._queue.take(event)
                    return event
                self.loading = event
                try:
                    found = await event.load()
                except StoreError as error:
                    # It is on a disk that cannot be read now, and keeps its place.
                    self._failed(error)
                    await asyncio.sleep(self._retry_seconds)
                    continue
                finally:
                    self.loading = None
                self._queue.take(event)
                if found is not None:
                    return found

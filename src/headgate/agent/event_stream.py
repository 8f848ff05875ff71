"""The stream of `events()`: events in order, and messages with their bodies."""

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
"""All events of an agent for an application."""

Kept: TypeAlias = Ticket | Announcement
"""Stands for an event in the records until the application reaches it."""


class EventStream:
    """The reading end of an agent's events. The iteration may be left and resumed by any reader: an
    event leaves the queue only when it is given."""

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
        """Events in the records are loaded one at a time."""
        self.loading: Kept | None = None
        """The event about to be given."""

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

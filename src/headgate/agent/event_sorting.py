"""Sorting events: all into one queue, except the messages of connections that are read
separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headgate.agent.event_queue import EventQueue
from headgate.agent.event_stream import EventStream, Kept
from headgate.agent.events import DeliveryEvent, Message, Skipped, SubscriptionEvent, Suspended
from headgate.agent.model import ConnectionId
from headgate.agent.openers import RECEIPT
from headgate.agent.tickets import Ticket

Waiting: TypeAlias = SubscriptionEvent | DeliveryEvent | Kept
"""An event that waits for the application."""


class MessageStream:
    """The messages of one connection. The iteration may be left and resumed, as `events()`."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> Message:
        event = await anext(self._stream)
        assert isinstance(event, Message), "nothing else is sorted here"
        return event


class EventSorting:
    """Unread events, sorted. Owned by an agent.

    What must hold: each event is in one queue; the messages of a connection keep their order; all
    queues are held, released and closed together.
    """

    def __init__(self, retry_seconds: float, failed: Callable[[Exception], None]) -> None:
        self._retry_seconds = retry_seconds
        self._failed = failed
        self._all: EventQueue[Waiting] = EventQueue()
        self.events = EventStream(self._all, retry_seconds, failed)
        self._apart: dict[ConnectionId, EventQueue[Waiting]] = {}
        self._streams: dict[ConnectionId, MessageStream] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues()))

    def put(self, event: Waiting) -> None:
        """Add an event for the application."""
        self._place_of(event).put(event)

    def messages(self, connection: ConnectionId) -> MessageStream:
        """The messages of a connection, which from now on come here only. One that `events` is
        about to give stays there."""
        known = self._streams.get(connection)
        if known is not None:
            return known
        queue: EventQueue[Waiting] = EventQueue()
        self._apart[connection] = queue
        for event in self._all.pull(lambda each: self._goes_to(queue, each)):
            queue.put(event)
        stream = EventStream(queue, self._retry_seconds, self._failed)
        made = self._streams[connection] = MessageStream(stream)
        if self._all.is_held:
            queue.hold()
        if self._all.is_closed:
            queue.close()
        return made

    def hold(self) -> None:
        """Give no more events."""
        for queue in self._queues():
            queue.hold()

    def suspended(self) -> None:
        """Give readers of `events` a `Suspended` before all others."""
        self._all.put_first(Suspended())

    def release(self) -> None:
        """Give events again."""
        for queue in self._queues():
            queue.release()

    def close(self) -> None:
        """Accept no more events."""
        for queue in self._queues():
            queue.close()

    def _queues(self) -> list[EventQueue[Waiting]]:
        return [self._all, *self._apart.values()]

    def _place_of(self, event: Waiting | Skipped) -> EventQueue[Waiting]:
        if isinstance(event, Ticket) and event.message.kind != RECEIPT:
            return self._apart.get(event.origin.connection, self._all)
        return self._all

    def _goes_to(self, queue: EventQueue[Waiting], event: Waiting | Skipped) -> bool:
        return event is not self.events.loading and self._place_of(event) is queue

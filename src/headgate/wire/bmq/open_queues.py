"""The queues that a session has open, by the numbers of the wire and by the names of the core.

A client numbers its queues, and the apps of a queue that it reads. A *stream* is one app of one
open queue. A delivery names the subscription by the client's number of its last configure; a
confirmation names the app by its number.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from headgate.core.model.ids import AppId, MessageId, QueueId
from headgate.wire.bmq.errors import BadRequest

GUID_BYTES = 16

IDS_MAX = 100_000
"""Ids of another length that a stream remembers. No client has so many messages unconfirmed; the
wire does not learn which of them expired."""


class Stream:
    """One app of one open queue, by its client's numbers."""

    __slots__ = ("_ids", "app", "number", "queue", "queue_number", "subscriptions")

    def __init__(self, queue_number: int, number: int, queue: QueueId, app: AppId) -> None:
        self.queue_number = queue_number
        self.number = number
        self.queue = queue
        self.app = app
        self.subscriptions: tuple[int, ...] = ()
        """The client's numbers of its subscriptions, by their position."""
        self._ids: dict[bytes, MessageId] = {}

    def guid(self, message: MessageId) -> bytes:
        """The id of a pushed message on the wire. Messages that came another way, such as by a
        sink, may have ids of any length, and get one of the right length until they are
        confirmed."""
        if len(message) == GUID_BYTES:
            return message
        guid = blake2b(message, digest_size=GUID_BYTES).digest()
        self._ids[guid] = message
        if len(self._ids) > IDS_MAX:
            del self._ids[next(iter(self._ids))]
        return guid

    def confirmed(self, guid: bytes) -> MessageId:
        """The id of a message by that on the wire."""
        return self._ids.pop(guid, None) or MessageId(guid)


class Streams:
    """The apps that a session reads, by number and by name.

    Owned by the session. A queue is known here while one of its apps is open.
    """

    __slots__ = ("_by_app", "_by_number", "_queues", "_uses")

    def __init__(self) -> None:
        self._by_number: dict[tuple[int, int], Stream] = {}
        self._by_app: dict[tuple[QueueId, AppId], Stream] = {}
        self._queues: dict[int, QueueId] = {}
        self._uses: Counter[int] = Counter()
        """Number of streams of each queue."""

    def queue(self, number: int) -> QueueId | None:
        """The queue with this number of the client, which has at least one of its apps open."""
        return self._queues.get(number)

    def find(self, queue_number: int, number: int) -> Stream | None:
        return self._by_number.get((queue_number, number))

    def of_app(self, queue: QueueId, app: AppId) -> Stream | None:
        return self._by_app.get((queue, app))

    def add(self, stream: Stream) -> None:
        """Add a stream; raise if one of its numbers is taken, or the app is open already."""
        number = stream.queue_number
        if self._queues.get(number, stream.queue) != stream.queue:
            raise BadRequest(f"the number {number} is another queue's")
        if (number, stream.number) in self._by_number or (stream.queue, stream.app) in self._by_app:
            raise BadRequest("the queue is open already")
        self._by_number[number, stream.number] = stream
        self._by_app[stream.queue, stream.app] = stream
        self._queues[number] = stream.queue
        self._uses[number] += 1

    def remove(self, stream: Stream) -> None:
        number = stream.queue_number
        del self._by_number[number, stream.number]
        del self._by_app[stream.queue, stream.app]
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number], self._queues[number]

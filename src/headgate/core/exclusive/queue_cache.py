"""A cache of exclusive queues, so that the core does not read back what it just wrote."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from headgate.core.model.ids import QueueId, Seq
from headgate.core.model.limits import Limits
from headgate.core.model.message import Stored
from headgate.core.model.parties import Address, Party, QueueRecord
from headgate.core.model.tally import name_of
from headgate.core.turn.store_requests import Head
from headgate.core.turn.turn import Turn
from headgate.core.turn.undo import Undo


class CachedQueue:
    """A queue's record, its number of messages, and the first few of them.

    Owned by `QueueCache`. A turn changes it together with its batch, and undoes both.
    """

    __slots__ = ("counted", "first", "messages", "name", "record")

    def __init__(self, head: Head) -> None:
        self.name = name_of(head.record.queue)
        self.record: QueueRecord = head.record
        self.messages = head.messages
        self.first: list[Stored] = list(head.first)  # an empty deque is ten times as large
        self.counted = 0
        """The part of these bytes that `QueueCache` has counted."""

    @property
    def is_complete(self) -> bool:
        """Whether the first messages are all of them."""
        return len(self.first) == self.messages

    @property
    def head(self) -> Stored | None:
        if not self.messages:
            return None
        assert self.first, "the head was not loaded"
        return self.first[0]

    def append(self, stored: Stored, undo: Undo) -> None:
        first = self.first
        is_here = len(first) == self.messages
        if is_here:
            first.append(stored)
        self.messages += 1
        undo.note(self._take_out, is_here)

    def _take_out(self, is_here: bool) -> None:
        """Take back an `append`."""
        self.messages -= 1
        if is_here:
            self.first.pop()

    def pop(self, undo: Undo) -> Stored:
        stored = self.first.pop(0)
        self.messages -= 1
        undo.note(self._put_back, stored)
        return stored

    def _put_back(self, stored: Stored) -> None:
        """Take back a `pop`."""
        self.messages += 1
        self.first.insert(0, stored)

    def expire(self, seq: Seq, undo: Undo) -> bool:
        """Remove a message if it is the first, or may be: none of the first are here."""
        if not self.first:
            undo.assign(self, "messages", self.messages - 1)
            return True
        if self.first[0].seq != seq:
            return False
        self.pop(undo)
        return True

    def trim(self, limits: Limits) -> int:
        """Drop messages beyond the bound, which the store has; return the bytes that stay."""
        first = self.first
        while len(first) > limits.heads:
            first.pop()
        size = 0
        for stored in first:
            size += len(stored.message.body)
        while len(first) > 1 and size > limits.heads_bytes:
            size -= len(first.pop().message.body)
        return size


class QueueCache:
    """Exclusive queues used lately; the least recently used are dropped first. The cache is always
    correct, and the store has the other queues."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._cache: OrderedDict[QueueId, CachedQueue] = OrderedDict()
        self._owners: dict[Address, QueueId] = {}
        """The other ids of the cached queues."""
        self.bytes = 0
        """Bytes of all cached messages, about."""

    def find(self, queue: QueueId) -> CachedQueue | None:
        return self._cache.get(queue)

    def owner(self, address: Address) -> QueueId | None:
        """The queue with an address, if it is cached."""
        if address.party is Party.RECIPIENT:
            queue = QueueId(address.id)
            return queue if queue in self._cache else None
        return self._owners.get(address)

    def name_of(self, queue: QueueId) -> bytes:
        """The name of a queue in the journal."""
        cached = self._cache.get(queue)
        return cached.name if cached is not None else name_of(queue)

    def lacks(self, queue: QueueId, first: int) -> bool:
        """Whether a turn that needs so many first messages has to load them."""
        cached = self._cache.get(queue)
        return cached is None or len(cached.first) < min(first, cached.messages)

    def adopt(self, head: Head) -> None:
        """Take over a queue as it was loaded."""
        before = self._cache.get(head.record.queue)
        if before is not None:
            self.bytes -= before.counted
        cached = self._cache[head.record.queue] = CachedQueue(head)
        self._count(cached, sum(len(stored.message.body) for stored in cached.first))
        for address in _addresses(head.record):
            self._owners[address] = head.record.queue

    def make(self, record: QueueRecord, undo: Undo) -> CachedQueue:
        cached = CachedQueue(Head(record, 0, ()))
        undo.put(self._cache, record.queue, cached)
        for address in _addresses(record):
            undo.put(self._owners, address, record.queue)
        return cached

    def amend(self, cached: CachedQueue, record: QueueRecord, turn: Turn) -> None:
        """Replace the record of a queue, here and in the store."""
        for address in _addresses(cached.record):
            turn.undo.pop(self._owners, address)
        turn.undo.assign(cached, "record", record)
        for address in _addresses(record):
            turn.undo.put(self._owners, address, record.queue)
        created = record.queue in turn.batch.create
        (turn.batch.create if created else turn.batch.amend)[record.queue] = record

    def forget(self, queue: QueueId, undo: Undo) -> None:
        cached = undo.pop(self._cache, queue)
        if cached is not None:
            undo.assign(self, "bytes", self.bytes - cached.counted)
            for address in _addresses(cached.record):
                undo.pop(self._owners, address)

    def settle(self, queues: Iterable[QueueId]) -> None:
        """After a turn: its queues are the most recently used; keep within the bounds."""
        limits = self._limits
        for queue in queues:
            cached = self._cache.get(queue)
            if cached is not None:
                if cached.first or cached.counted:
                    self._count(cached, cached.trim(limits))
                self._cache.move_to_end(queue)
        while len(self._cache) > limits.backlogs or self.bytes > limits.backlogs_bytes:
            _, evicted = self._cache.popitem(last=False)
            self.bytes -= evicted.counted
            for address in _addresses(evicted.record):
                del self._owners[address]

    def _count(self, cached: CachedQueue, size: int) -> None:
        self.bytes += size - cached.counted
        cached.counted = size

    def __len__(self) -> int:
        return len(self._cache)


def _addresses(record: QueueRecord) -> list[Address]:
    return record.parties.addresses() if record.parties is not None else []

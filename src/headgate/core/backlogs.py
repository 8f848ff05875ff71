"""What the core remembers of exclusive queues: enough not to read back what it just wrote."""

from __future__ import annotations

from collections import deque

from headgate.core.limits import Limits
from headgate.core.message import Stored
from headgate.core.names import QueueId
from headgate.core.steps import Head, QueueRecord
from headgate.core.tally import name_of
from headgate.core.undo import Undo


class Backlog:
    """A queue's record, how many messages it has, and the first few of them."""

    __slots__ = ("first", "messages", "name", "record")

    def __init__(self, head: Head) -> None:
        self.name = name_of(head.record.queue)
        self.record: QueueRecord = head.record
        self.messages = head.messages
        self.first: deque[Stored] = deque(head.first)

    @property
    def is_complete(self) -> bool:
        """Whether the first messages are all there are."""
        return len(self.first) == self.messages

    @property
    def head(self) -> Stored | None:
        if not self.messages:
            return None
        assert self.first, "the head was not loaded"
        return self.first[0]

    def supply(self, head: Head) -> None:
        """Take the first messages that a sweep read, if there are some and none are here. Then
        nothing was confirmed in this turn, so they are still the first."""
        if self.messages and not self.first:
            self.first.extend(head.first)

    def append(self, stored: Stored, undo: Undo) -> None:
        if self.is_complete:
            self.first.append(stored)
            undo.note(self.first.pop)
        undo.assign(self, "messages", self.messages + 1)

    def pop(self, undo: Undo) -> Stored:
        stored = self.first.popleft()
        undo.note(self.first.appendleft, stored)
        undo.assign(self, "messages", self.messages - 1)
        return stored

    def trim(self, limits: Limits) -> None:
        """Forget messages beyond the bound; they are in the store."""
        while len(self.first) > limits.heads:
            self.first.pop()
        size = sum(len(stored.message.body) for stored in self.first)
        while len(self.first) > 1 and size > limits.heads_bytes:
            size -= len(self.first.pop().message.body)


class Backlogs:
    """Backlogs by queue, the least recently used forgotten first. A cache: what is in it is
    true, and whatever is not is in the store."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._backlogs: dict[QueueId, Backlog] = {}

    def find(self, queue: QueueId) -> Backlog | None:
        return self._backlogs.get(queue)

    def name_of(self, queue: QueueId) -> bytes:
        """What the queue is called in the journal."""
        backlog = self._backlogs.get(queue)
        return backlog.name if backlog is not None else name_of(queue)

    def lacks(self, queue: QueueId, first: int) -> bool:
        """Whether a turn that needs so many first messages has to load them."""
        backlog = self._backlogs.get(queue)
        return backlog is None or len(backlog.first) < min(first, backlog.messages)

    def adopt(self, head: Head) -> None:
        """Take what the store said."""
        self._backlogs[head.record.queue] = Backlog(head)

    def make(self, record: QueueRecord, undo: Undo) -> Backlog:
        backlog = Backlog(Head(record, 0, ()))
        undo.put(self._backlogs, record.queue, backlog)
        return backlog

    def forget(self, queue: QueueId, undo: Undo) -> None:
        undo.pop(self._backlogs, queue)

    def settle(self, queues: list[QueueId]) -> None:
        """After a turn: its queues are the most recently used; keep within the bounds."""
        for queue in queues:
            backlog = self._backlogs.pop(queue, None)
            if backlog is not None:
                backlog.trim(self._limits)
                self._backlogs[queue] = backlog
        while len(self._backlogs) > self._limits.backlogs:
            del self._backlogs[next(iter(self._backlogs))]

    def __len__(self) -> int:
        return len(self._backlogs)

"""Dictionaries: the store of tests and trials, and the model the others are checked against."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, defaultdict
from dataclasses import replace
from itertools import islice

from headgate.core.message import Entry, Stored
from headgate.core.names import QueueId, Seq, ServiceId
from headgate.core.outbox import OutboxRow
from headgate.core.steps import Batch, Head, Load, Loaded, Page, QueueRecord, SinkRecord, Usage
from headgate.core.tally import NOTHING, Tally
from headgate.errors import StoreError


class MemoryStore:
    """Keeps everything in the process, and nothing beyond it.

    There is no promise across a crash or a restart: a receipt means that the message is in
    memory. The methods never wait.
    """

    kind = "memory"
    statements = 0

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._queues: dict[QueueId, QueueRecord] = {}
        # Ordered by number. A plain dictionary would walk over all that was deleted at its
        # front each time somebody asks for its first key.
        self._backlogs: dict[QueueId, OrderedDict[Seq, Stored]] = {}
        self._place: dict[Seq, QueueId] = {}
        self._members: defaultdict[ServiceId, list[QueueId]] = defaultdict(list)
        """The queues of a service, sorted."""
        self._tallies: dict[ServiceId, Tally] = {}
        self._sinks: dict[str, SinkRecord] = {}
        self.outbox: dict[int, OutboxRow] = {}
        """Facts that were not sealed, by the number of the first of a row."""

    async def open(self) -> Seq:
        return max(self._place, default=Seq(0))

    async def unsealed(self) -> tuple[int, int]:
        last = max((row.last for row in self.outbox.values()), default=0)
        return last, sum(row.size for row in self.outbox.values())

    async def close(self) -> None:
        self._forget()

    async def load(self, load: Load) -> Loaded:
        return Loaded(
            heads={q: self._head(q, n) for q, n in load.heads.items() if q in self._queues},
            backlogs={
                queue: (self._queues[queue], [_entry(s) for s in self._backlogs[queue].values()])
                for queue in load.backlogs
                if queue in self._queues
            },
            bodies={
                seq: self._backlogs[self._place[seq]][seq].message.body
                for seq in load.bodies
                if seq in self._place
            },
            services={s: self._tallies[s] for s in load.services if s in self._tallies},
            pages={page: self._page(page) for page in load.pages},
            usage=self._usage(load.usage),
            sinks=dict(self._sinks) if load.sinks else {},
        )

    def _head(self, queue: QueueId, limit: int) -> Head:
        backlog = self._backlogs[queue]
        return Head(self._queues[queue], len(backlog), tuple(islice(backlog.values(), limit)))

    def _page(self, page: Page) -> list[Head]:
        members = self._members.get(page.service, [])
        start = bisect_right(members, page.after)
        return [self._head(queue, 1) for queue in members[start : start + page.limit]]

    def _usage(self, domains: set[str]) -> dict[str, Usage]:
        usage = {domain: Usage() for domain in domains}
        if not usage:
            return usage
        for queue, record in self._queues.items():
            if (known := usage.get(record.domain)) is not None:
                backlog = self._backlogs[queue]
                usage[record.domain] = Usage(
                    known.queues + 1,
                    known.messages + len(backlog),
                    known.bytes + sum(stored.message.size for stored in backlog.values()),
                )
        return usage

    async def apply(self, batch: Batch) -> None:
        self._check(batch)
        for queue in batch.remove:
            if queue in self._queues:
                self._remove(queue)
        for record in batch.create.values():
            self._create(record)
        for stored in batch.append.values():
            self._append(stored)
        for seq, apps in batch.hold.items():
            if seq in self._place:
                backlog = self._backlogs[self._place[seq]]
                backlog[seq] = replace(backlog[seq], apps=apps)
        for seq in batch.delete:
            if seq in self._place:
                del self._backlogs[self._place.pop(seq)][seq]
        for queue, service in batch.associate.items():
            self._associate(queue, service)
        for service, tally in batch.tallies.items():
            self._tallies[service] = self._tallies.get(service, NOTHING).join(tally)
        for sink, landed in batch.sinks.items():
            self._sinks.pop(sink, None)
            if landed is not None:
                self._sinks[sink] = landed
        if batch.outbox is not None:
            self.outbox[batch.outbox.first] = batch.outbox
        if batch.sealed is not None:
            for first in [f for f, row in self.outbox.items() if row.last <= batch.sealed]:
                del self.outbox[first]

    def _check(self, batch: Batch) -> None:
        """Raise for whatever could fail, before anything is changed."""
        for queue in batch.create:
            if queue in self._queues and queue not in batch.remove:
                raise StoreError(f"queue {queue!r} exists already")
        for seq, stored in batch.append.items():
            if seq in self._place and self._place[seq] not in batch.remove:
                raise StoreError(f"message number {seq} is taken already")
            if not self._will_have(stored.queue, batch):
                raise StoreError(f"queue {stored.queue!r} of message {seq} does not exist")
        if batch.outbox is not None and batch.outbox.first in self.outbox:
            raise StoreError(f"fact number {batch.outbox.first} is taken already")
        for queue in batch.associate:
            if not self._will_have(queue, batch):
                raise StoreError(f"queue {queue!r} does not exist and cannot be associated")

    def _will_have(self, queue: QueueId, batch: Batch) -> bool:
        return queue in batch.create or (queue in self._queues and queue not in batch.remove)

    def _create(self, record: QueueRecord) -> None:
        self._queues[record.queue] = record
        self._backlogs[record.queue] = OrderedDict()
        if record.service is not None:
            insort(self._members[record.service], record.queue)

    def _append(self, stored: Stored) -> None:
        backlog = self._backlogs[stored.queue]
        late = stored.seq < next(reversed(backlog), stored.seq)
        backlog[stored.seq] = stored
        self._place[stored.seq] = stored.queue
        if late:  # numbers grow from turn to turn, but a batch may name them in any order
            self._backlogs[stored.queue] = OrderedDict(sorted(backlog.items()))

    def _associate(self, queue: QueueId, service: ServiceId | None) -> None:
        record = self._queues[queue]
        if record.service is not None:
            members = self._members[record.service]
            del members[bisect_left(members, queue)]
            if not members:
                del self._members[record.service]
        if service is not None:
            insort(self._members[service], queue)
        self._queues[queue] = replace(record, service=service)

    def _remove(self, queue: QueueId) -> None:
        self._associate(queue, None)
        del self._queues[queue]
        for seq in self._backlogs.pop(queue):
            del self._place[seq]


def _entry(stored: Stored) -> Entry:
    message = stored.message
    return Entry(
        stored.seq, message.id, message.arrived, message.size, message.properties, stored.apps
    )

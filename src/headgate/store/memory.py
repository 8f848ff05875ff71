"""A store of dictionaries, for tests and trials, and the model for checking the others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from heapq import nsmallest
from itertools import islice

from headgate.core.model.ids import WHOLE, AppId, QueueId, Seq, ServiceId
from headgate.core.model.message import Known, MessageEntry, Stored
from headgate.core.model.parties import Address, Party, QueueRecord
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import (
    Aged,
    Batch,
    Dated,
    GroupRecord,
    Groups,
    Head,
    Listed,
    Listing,
    Load,
    Loaded,
    Overdue,
    Page,
    Past,
    ServiceRecord,
    SinkRecord,
    Swept,
    Usage,
)
from headgate.errors import StoreError
from headgate.store.base import Extent
from headgate.store.blobs import joined


class MemoryStore:
    """Keeps everything in the process, and nothing beyond it.

    Nothing survives a crash or a restart: a receipt means that the message is in memory. The
    methods never wait.
    """

    kind = "memory"
    is_distant = False
    statements = 0
    source = None

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._queues: dict[QueueId, QueueRecord] = {}
        self._owners: dict[Address, QueueId] = {}
        """The queue of each id other than a recipient's."""
        # Ordered by number. A plain dictionary would pass over all items deleted at its front each
        # time its first key is read.
        self._backlogs: dict[QueueId, OrderedDict[Seq, Stored]] = {}
        self._place: dict[Seq, QueueId] = {}
        self._remembered: dict[QueueId, list[Known]] = {}
        """The ids remembered by each batch."""
        self._groups: dict[QueueId, Groups] = {}
        self._members: defaultdict[ServiceId, list[QueueId]] = defaultdict(list)
        """The queues of a service, sorted."""
        self._tallies: dict[ServiceId, Tally] = {}
        self._identities: dict[bytes, ServiceRecord] = {}
        self._sinks: dict[str, SinkRecord] = {}
        self.outbox: dict[int, OutboxRow] = {}
        """Unsealed facts, by the number of the first of a row."""

    async def open(self) -> Seq:
        return max(self._place, default=Seq(0))

    async def probe(self) -> None:
        pass

    async def unsealed(self) -> tuple[int, int]:
        last = max((row.last for row in self.outbox.values()), default=0)
        return last, sum(row.size for row in self.outbox.values())

    async def extent(self) -> Extent:
        return Extent(len(self._queues), len(self._place))

    async def batches(self) -> AsyncIterator[Batch]:
        everything = Batch(
            create=dict(self._queues),
            append={
                stored.seq: stored
                for backlog in self._backlogs.values()
                for stored in backlog.values()
            },
            groups={
                (queue, name): group
                for queue, groups in self._groups.items()
                for name, group in groups.items()
            },
            tallies=dict(self._tallies),
            identities=dict(self._identities),
            sinks=dict(self._sinks),
        )
        if everything:
            yield everything
        for queue, parts in self._remembered.items():
            for part in parts:
                yield Batch(remember={queue: part})
        for row in self.outbox.values():
            yield Batch(outbox=row)

    async def close(self) -> None:
        self._forget()

    async def load(self, load: Load) -> Loaded:
        limits = {queue: n for queue, n in load.heads.items() if queue in self._queues}
        addresses: dict[Address, QueueId] = {}
        for address, n in load.addresses.items():
            if (queue := self._owner(address)) is not None:
                addresses[address] = queue
                limits[queue] = max(n, limits.get(queue, 0))
        return Loaded(
            heads={queue: self._head(queue, n) for queue, n in limits.items()},
            addresses=addresses,
            backlogs={
                q: (self._queues[q], [_entry(s) for s in self._backlogs[q].values()])
                for q in load.backlogs
                if q in self._queues
            },
            remembered=joined(
                (queue, known)
                for queue in load.backlogs
                for known in self._remembered.get(queue, ())
            ),
            groups={q: dict(self._groups[q]) for q in load.backlogs if q in self._groups},
            entries={
                seq: replace(_entry(self._backlogs[self._place[seq]][seq]), apps=())
                for seq in load.entries
                if seq in self._place
            },
            bodies={
                seq: self._backlogs[self._place[seq]][seq].message.body
                for seq in load.bodies
                if seq in self._place
            },
            services={s: self._tallies[s] for s in load.services if s in self._tallies},
            pages={page: self._page(page) for page in load.pages},
            usage=self._usage(load.usage),
            identities={
                fingerprint: self._identities[fingerprint]
                for fingerprint in load.identities
                if fingerprint in self._identities
            },
            aged=self._aged(load.aged) if load.aged is not None else [],
            overdue=self._overdue(load.overdue) if load.overdue is not None else [],
            listings={listing: self._listing(listing) for listing in load.listings},
            sinks=dict(self._sinks) if load.sinks else {},
        )

    def _owner(self, address: Address) -> QueueId | None:
        if address.party is Party.RECIPIENT:
            queue = QueueId(address.id)
            return queue if queue in self._queues else None
        return self._owners.get(address)

    def _head(self, queue: QueueId, limit: int) -> Head:
        backlog = self._backlogs[queue]
        return Head(self._queues[queue], len(backlog), tuple(islice(backlog.values(), limit)))

    def _page(self, page: Page) -> Swept:
        members = self._members.get(page.service, [])
        start = bisect_right(members, page.after)
        queues = members[start : start + page.limit]
        return Swept(queues, [self._head(queue, 1) for queue in queues if self._backlogs[queue]])

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

    def _aged(self, aged: Aged) -> list[Past]:
        old = (
            self._past(seq, queue)
            for seq, queue in self._place.items()
            if seq > aged.after and self._backlogs[queue][seq].message.arrived < aged.before
        )
        return nsmallest(aged.limit, old, key=lambda past: past.seq)

    def _past(self, seq: Seq, queue: QueueId) -> Past:
        message = self._backlogs[queue][seq].message
        domain = self._queues[queue].domain
        return Past(seq, queue, domain, message.id, message.arrived, message.is_marker)

    def _overdue(self, overdue: Overdue) -> list[Dated]:
        before = dict(overdue.domains)
        found: list[Dated] = []
        for queue, record in self._queues.items():
            if record.domain not in before:
                continue
            for stored in self._backlogs[queue].values():
                message = stored.message
                if stored.seq > overdue.after:
                    if message.arrived >= before[record.domain]:
                        break
                    found.append(
                        Dated(
                            stored.seq,
                            queue,
                            record.domain,
                            message.id,
                            message.arrived,
                            message.size,
                            not stored.apps,
                        )
                    )
        return nsmallest(overdue.limit, found, key=lambda dated: dated.seq)

    def _listing(self, listing: Listing) -> list[Listed]:
        queues = (
            queue
            for queue, record in self._queues.items()
            if record.domain == listing.domain and queue > listing.after
        )
        return [self._listed(queue) for queue in nsmallest(listing.limit, queues)]

    def _listed(self, queue: QueueId) -> Listed:
        backlog = self._backlogs[queue]
        first = next((stored for stored in backlog.values() if stored.apps), None)
        return Listed(
            queue,
            len(backlog),
            sum(stored.message.size for stored in backlog.values()),
            None if first is None else first.apps == (WHOLE,),
            len(self._groups.get(queue, ())),
        )

    async def apply(self, batch: Batch) -> None:
        self._check(batch)
        for queue in batch.remove:
            if queue in self._queues:
                self._remove(queue)
        for queue in batch.amend.keys() & self._queues.keys():
            self._let_go(queue)
        for record in batch.create.values():
            self._create(record)
        for queue, record in batch.amend.items():
            self._amend(queue, record)
        for queue in batch.create.keys() | batch.amend.keys():
            self._owners |= dict.fromkeys(_addresses(self._queues[queue]), queue)
        for stored in batch.append.values():
            self._append(stored)
        for seq, apps in batch.hold.items():
            if seq in self._place:
                backlog = self._backlogs[self._place[seq]]
                backlog[seq] = replace(backlog[seq], apps=apps)
        for seq in batch.delete:
            if seq in self._place:
                del self._backlogs[self._place.pop(seq)][seq]
        for queue, before in batch.forget.items():
            parts = self._remembered.pop(queue, [])
            left = [part for part in parts if max(part.values()).at >= before]
            if left:
                self._remembered[queue] = left
        for queue, known in batch.remember.items():
            self._remembered.setdefault(queue, []).append(dict(known))
        for (queue, name), group in batch.groups.items():
            self._put_group(queue, name, group)
        for queue, service in batch.associate.items():
            self._associate(queue, service)
        for service, tally in batch.tallies.items():
            self._tallies[service] = self._tallies.get(service, NOTHING).join(tally)
        self._identities |= batch.identities
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
        """Raise for every possible error, before anything is changed."""
        for queue in batch.create:
            if queue in self._queues and queue not in batch.remove:
                raise StoreError(f"queue {queue!r} exists already")
        for queue in batch.amend:
            if not self._will_have(queue, batch):
                raise StoreError(f"queue {queue!r} does not exist and cannot be amended")
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
        for queue in batch.remember:
            if not self._will_have(queue, batch):
                raise StoreError(f"queue {queue!r} does not exist and has nothing to remember")
        for (queue, _), group in batch.groups.items():
            if group is not None and not self._will_have(queue, batch):
                raise StoreError(f"queue {queue!r} does not exist and has no groups")
        self._check_owners(batch)
        self._check_identities(batch)

    def _check_owners(self, batch: Batch) -> None:
        """Raise if two queues would have the same id of a party after the batch."""
        free = batch.remove | batch.amend.keys()
        owners: dict[Address, QueueId] = {}
        for queue, record in (batch.create | batch.amend).items():
            for address in _addresses(record):
                owner = owners.setdefault(address, queue)
                kept = self._owners.get(address, queue)
                if owner != queue or (kept != queue and kept not in free):
                    raise StoreError(f"{address} is an id of another queue already")

    def _check_identities(self, batch: Batch) -> None:
        if not batch.identities:
            return
        services = {known.service for known in self._identities.values()}
        for fingerprint, identity in batch.identities.items():
            if fingerprint in self._identities or identity.service in services:
                raise StoreError(f"service {identity.service!r} or its certificate is known")
            services.add(identity.service)

    def _will_have(self, queue: QueueId, batch: Batch) -> bool:
        return queue in batch.create or (queue in self._queues and queue not in batch.remove)

    def _create(self, record: QueueRecord) -> None:
        self._queues[record.queue] = record
        self._backlogs[record.queue] = OrderedDict()
        if record.service is not None:
            insort(self._members[record.service], record.queue)

    def _amend(self, queue: QueueId, record: QueueRecord) -> None:
        self._associate(queue, record.service)
        self._queues[queue] = replace(record, queue=queue, domain=self._queues[queue].domain)

    def _let_go(self, queue: QueueId) -> None:
        for address in _addresses(self._queues[queue]):
            del self._owners[address]

    def _append(self, stored: Stored) -> None:
        backlog = self._backlogs[stored.queue]
        late = stored.seq < next(reversed(backlog), stored.seq)
        backlog[stored.seq] = stored
        self._place[stored.seq] = stored.queue
        if late:  # numbers grow from turn to turn, but a batch may have them in any order
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

    def _put_group(self, queue: QueueId, name: AppId, group: GroupRecord | None) -> None:
        groups = self._groups.setdefault(queue, {})
        if group is not None:
            groups[name] = group
        else:
            groups.pop(name, None)
        if not groups:
            del self._groups[queue]

    def _remove(self, queue: QueueId) -> None:
        self._associate(queue, None)
        self._let_go(queue)
        del self._queues[queue]
        self._remembered.pop(queue, None)
        self._groups.pop(queue, None)
        for seq in self._backlogs.pop(queue):
            del self._place[seq]


def _addresses(record: QueueRecord) -> list[Address]:
    return record.parties.addresses() if record.parties is not None else []


def _entry(stored: Stored) -> MessageEntry:
    message = stored.message
    return MessageEntry(
        stored.seq, message.id, message.arrived, message.size, message.properties, stored.apps
    )

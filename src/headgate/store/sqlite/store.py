"""Batches in one SQLite file: one thread, one connection, one transaction per batch.

SQLite has one writer at a time, whatever the number of connections, so there is one thread
that owns the only connection, and load and apply queue up for it. Nobody else writes to the
file (a lock beside it keeps a second router out), hence the statements of a load see one state
without a transaction around them.

What each shape costs, and what else was tried: docs/design/stores.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from headgate.core.message import MARKER
from headgate.core.names import WHOLE, QueueId, Seq, ServiceId
from headgate.core.outbox import OutboxRow
from headgate.core.parties import Address
from headgate.core.steps import (
    Aged,
    Batch,
    Head,
    Load,
    Loaded,
    Page,
    Past,
    ServiceRecord,
    SinkRecord,
    Swept,
    Usage,
)
from headgate.core.tally import NOTHING, Tally
from headgate.errors import StoreError
from headgate.store.base import Extent
from headgate.store.facts import encode_facts, told
from headgate.store.parts import PART_ROWS, cut, in_parts
from headgate.store.records import decode_properties, encode_apps, known_of, known_row
from headgate.store.sqlite import rows, sql
from headgate.store.sqlite.file import File
from headgate.store.sqlite.rows import Row
from headgate.store.worker import Worker

T = TypeVar("T")


class SqliteStore:
    """Keeps batches in a file. What `apply` returned from is on the disk: the write-ahead log
    was synced before (``synchronous=FULL``)."""

    kind = "sqlite"

    def __init__(self, path: Path, *, busy_seconds: float = 5.0) -> None:
        self.path = path.absolute()
        self._file = File(self.path, busy_seconds)
        """Belongs to the worker's thread."""
        self._worker = Worker(str(self.path), self._file.close)

    @property
    def source(self) -> Path:
        return self.path

    @property
    def statements(self) -> int:
        """Statements executed since the beginning; one for many rows counts once."""
        return self._file.statements

    async def open(self) -> Seq:
        return await self._worker.open(self._open)

    async def load(self, load: Load) -> Loaded:
        return await self._run(lambda: self._load(load))

    async def apply(self, batch: Batch) -> None:
        if batch:
            await self._run(lambda: self._apply(batch))

    async def unsealed(self) -> tuple[int, int]:
        [(last, size)] = await self._run(lambda: self._file.all(sql.UNSEALED))
        return last, size

    async def extent(self) -> Extent:
        [(queues, messages)] = await self._run(lambda: self._file.all(sql.EXTENT))
        return Extent(queues, messages)

    def batches(self) -> AsyncIterator[Batch]:
        parts = (self._records, self._messages, self._remembered, self._rest, self._outbox)
        return in_parts(parts, self._run)

    async def close(self) -> None:
        await self._worker.close()

    async def _run(self, job: Callable[[], T]) -> T:
        return await self._worker.run(lambda: self._file.run(job))

    # All below runs in the thread.

    def _open(self) -> Seq:
        self._file.open()
        [(last,)] = self._file.run(lambda: self._file.all(sql.LAST))
        return Seq(last)

    def _load(self, load: Load) -> Loaded:
        ask = self._file.ask
        heads, unreadable, addresses = self._heads(load)
        pages = self._pages(list(load.pages), unreadable)
        return Loaded(
            heads=heads,
            addresses=addresses,
            unreadable=unreadable,
            backlogs=rows.backlogs(ask(sql.BACKLOGS, _each(load.backlogs))),
            remembered=known_of(ask(sql.KNOWN, _each(load.backlogs))),
            bodies=dict(ask(sql.BODIES, _each(load.bodies))),
            services=self._tallies(load.services),
            pages=pages,
            usage={domain: Usage() for domain in load.usage}
            | {
                domain: Usage(queues, messages, size)
                for domain, queues, messages, size in ask(sql.USAGE, _each(load.usage))
            },
            identities={
                fingerprint: ServiceRecord(service, role)
                for fingerprint, service, role in ask(sql.IDENTITIES, _each(load.identities))
            },
            aged=self._aged(load.aged) if load.aged is not None else [],
            sinks={
                sink: SinkRecord(batch, at)
                for sink, batch, at in (self._file.all(sql.SINKS) if load.sinks else ())
            },
        )

    def _tallies(self, services: Iterable[ServiceId]) -> dict[ServiceId, Tally]:
        found = self._file.ask(sql.SERVICES, _each(services))
        return {service: Tally.parse(count, hashed) for service, count, hashed in found}

    def _heads(
        self, load: Load
    ) -> tuple[dict[QueueId, Head], set[QueueId], dict[Address, QueueId]]:
        own, others = load.heads, list(load.addresses)
        wanted: list[Row] = [(n, 0, queue, limit) for n, (queue, limit) in enumerate(own.items())]
        for n, (address, limit) in enumerate(load.addresses.items(), len(own)):
            wanted.append((n, int(address.party), address.id, limit))
        most = max((limit for *_, limit in wanted), default=0)
        found = self._file.ask(sql.HEADS if most <= 1 else sql.HEADS_LONG, wanted, most)
        return (
            *rows.heads(found),
            {others[row[0] - len(own)]: row[1] for row in found if row[0] >= len(own)},
        )

    def _pages(self, pages: list[Page], unreadable: set[QueueId]) -> dict[Page, Swept]:
        found: list[list[Row]] = [[] for _ in pages]
        wanted = ((place, p.service, p.after, p.limit) for place, p in enumerate(pages))
        most = max((page.limit for page in pages), default=0)
        for row in self._file.ask(sql.PAGES, wanted, most):
            found[row[0]].append(row)
        swept = {}
        for page, looked in zip(pages, found, strict=True):
            heads, damaged = rows.heads(row for row in looked if row[6])
            read = [heads[queue] for queue in sorted(heads)]
            swept[page] = Swept(sorted(row[1] for row in looked), read)
            unreadable |= damaged
        return swept

    def _aged(self, aged: Aged) -> list[Past]:
        found = self._file.all(sql.AGED, (aged.before, aged.after, aged.limit))
        if 0 < len(found) < aged.limit:
            last, left = found[-1][0], aged.limit - len(found)
            found += self._file.all(sql.AGED_REST, (aged.before, last, left))
        return [
            Past(seq, queue, domain, id, arrived, decode_properties(encoded).get(MARKER) is True)
            for seq, queue, domain, id, arrived, encoded in found
        ]

    def _apply(self, batch: Batch) -> None:
        many = self._file.many
        with self._file.transaction():
            if batch.remove:
                for text in sql.REMOVE:
                    many(text, _each(batch.remove))
            self._put_records(batch)
            if batch.append:
                many(sql.APPEND, map(rows.message_row, batch.append.values()))
            holds = {
                stored.seq: stored.apps
                for stored in batch.append.values()
                if stored.apps != (WHOLE,)
            } | batch.hold
            if holds:
                many(sql.HOLD, ((encode_apps(apps).decode(), seq) for seq, apps in holds.items()))
            if batch.delete:
                gone = list(_each(sorted(batch.delete)))
                for text in sql.DELETE:
                    many(text, gone)
            if batch.forget:
                many(sql.FORGET_KNOWN, batch.forget.items())
            if batch.remember:
                known = ((queue, *known_row(ids)) for queue, ids in batch.remember.items())
                many(sql.REMEMBER_KNOWN, known)
            if batch.associate:
                moved = ((service, queue) for queue, service in batch.associate.items())
                if many(sql.ASSOCIATE, moved) != len(batch.associate):
                    raise StoreError(f"{self.path}: a queue to associate does not exist")
            if batch.tallies:
                kept = self._tallies(batch.tallies)
                joined = ((s, kept.get(s, NOTHING).join(t)) for s, t in batch.tallies.items())
                many(sql.TALLY, ((s, t.count, t.hash) for s, t in joined))
            if batch.identities:
                new = ((f, r.service, r.role) for f, r in batch.identities.items())
                many(sql.IDENTIFY, new)
            if batch.sinks:
                landed = [(s, r.batch, r.at) for s, r in batch.sinks.items() if r is not None]
                many(sql.REMEMBER, landed)
                many(sql.FORGET, ((s,) for s, r in batch.sinks.items() if r is None))
            if batch.outbox is not None:
                row = batch.outbox
                self._file.all(sql.TELL, (row.first, row.last, encode_facts(row.facts)))
            if batch.sealed is not None:
                self._file.all(sql.SEAL, (batch.sealed,))

    def _put_records(self, batch: Batch) -> None:
        """Create and amend. Whether two queues have the same id is a matter of what they have in
        the end; but SQLite looks after each row. So ids that change are let go of before any is
        taken, and a queue that is amended at once is created as it will be."""
        many = self._file.many
        create = {queue: batch.amend.get(queue, record) for queue, record in batch.create.items()}
        amend = {queue: r for queue, r in batch.amend.items() if queue not in create}
        if amend:
            many(sql.LET_GO, ((queue, *rows.ids(r.parties)) for queue, r in amend.items()))
        if create:
            made = (
                (*rows.record_row(record), queue, batch.create[queue].domain)
                for queue, record in create.items()
            )
            many(sql.CREATE, made)
        if amend:
            amended = ((*rows.record_row(record), queue) for queue, record in amend.items())
            if many(sql.AMEND, amended) != len(amend):
                raise StoreError(f"{self.path}: a queue to amend does not exist")

    # The parts of a copy: what comes after a place, and the place after it, if any.

    def _records(self, after: int) -> tuple[Batch, int | None]:
        found = self._file.all(sql.RECORDS, (after, PART_ROWS))
        records = [rows.record(*row[1:]) for row in found]
        return Batch(create={r.queue: r for r in records}), found[-1][0] if found else None

    def _messages(self, after: int) -> tuple[Batch, int | None]:
        sizes = self._file.all(sql.SIZES, (after, PART_ROWS))
        if not sizes:
            return Batch(), None
        last = cut(sizes)
        found = map(rows.message, self._file.all(sql.MESSAGES, (after, last)))
        return Batch(append={stored.seq: stored for stored in found}), last

    def _remembered(self, after: int) -> tuple[Batch, int | None]:
        found = self._file.all(sql.REMEMBERED, (after,))
        known = known_of((queue, blob) for _, queue, blob in found)
        return Batch(remember=known), found[0][0] if found else None

    def _rest(self, after: int) -> tuple[Batch, int | None]:
        """All that is never much."""
        identities = self._file.all(sql.ALL_IDENTITIES)
        sinks = self._file.all(sql.SINKS)
        return Batch(
            tallies={s: Tally.parse(n, hashed) for s, n, hashed in self._file.all(sql.TALLIES)},
            identities={f: ServiceRecord(service, role) for f, service, role in identities},
            sinks={sink: SinkRecord(batch, at) for sink, batch, at in sinks},
        ), None

    def _outbox(self, after: int) -> tuple[Batch, int | None]:
        found = self._file.all(sql.OUTBOX, (after,))
        if not found:
            return Batch(), None
        [(first, blob)] = found
        return Batch(outbox=OutboxRow(first, told(blob), len(blob))), first


def _each(values: Iterable[object]) -> Iterable[Row]:
    return ((item,) for item in values)

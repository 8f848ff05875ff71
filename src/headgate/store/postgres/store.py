"""Batches in a PostgreSQL database: one thread, one connection, one transaction per batch.

The protocol's work is done in a thread of its own, so the loop is not held up by it. Load and
apply queue up for that thread, hence the statements of a load see one state of the shard without
a transaction around them: nobody else writes to its queues.

What each shape costs, and what else was tried: docs/design/stores.md.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

import msgspec

from headgate.core.names import WHOLE, QueueId, Seq
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
from headgate.core.tally import NOTHING
from headgate.errors import StoreError
from headgate.store.base import Extent
from headgate.store.facts import encode_facts, told
from headgate.store.parts import PART_ROWS, cut, in_parts
from headgate.store.postgres import rows, sql
from headgate.store.postgres.database import Database, Row
from headgate.store.records import encode_apps, known_of, known_row
from headgate.store.worker import Worker

T = TypeVar("T")


class PostgresStore:
    """Keeps batches in a database. What `apply` returned from is on the server's disk, if the
    server's ``fsync`` and ``full_page_writes`` are as they come."""

    kind = "postgresql"

    def __init__(self, url: str, *, shard: int = 0, statement_seconds: float = 30.0) -> None:
        self.url = url
        self.shard = shard
        self.statements = 0
        """Statements executed since the beginning; one for many rows counts once."""
        self._database = Database(url, shard, statement_seconds)
        """Belongs to the worker's thread."""
        self._worker = Worker(self._database.name, self._database.close)

    def __repr__(self) -> str:
        return f"PostgresStore({self._database.name!r}, shard={self.shard})"

    async def open(self) -> Seq:
        return await self._worker.open(self._open)

    async def load(self, load: Load) -> Loaded:
        return await self._run(lambda: self._load(load))

    async def apply(self, batch: Batch) -> None:
        if batch:
            work = lambda: self._apply(batch)  # noqa: E731
            await self._run(lambda: self._database.transaction(work))

    async def unsealed(self) -> tuple[int, int]:
        [(last, size)] = await self._run(lambda: self._database.ask(sql.UNSEALED))
        return last, size

    @property
    def source(self) -> str:
        return self.url

    async def extent(self) -> Extent:
        [(queues, messages)] = await self._run(lambda: self._database.ask(sql.EXTENT))
        return Extent(queues, messages)

    def batches(self) -> AsyncIterator[Batch]:
        parts = (self._records, self._messages, self._remembered, self._rest, self._outbox)
        return in_parts(parts, self._run)

    async def close(self) -> None:
        await self._worker.close()

    async def _run(self, job: Callable[[], T]) -> T:
        return await self._worker.run(lambda: self._do(job))

    # All below runs in the thread.

    def _open(self) -> Seq:
        self._database.open()
        [(last,)] = self._do(lambda: self._database.ask(sql.LAST))
        return Seq(last)

    def _do(self, job: Callable[[], T]) -> T:
        try:
            return self._database.run(job)
        except (OverflowError, ValueError, struct.error, msgspec.MsgspecError) as error:
            raise StoreError(
                f"{self._database.name}: a value cannot be stored or read: {error}"
            ) from error
        finally:
            self.statements = self._database.statements

    def _ask(self, question: str, wanted: Iterable[Row]) -> list[Row]:
        """The answers to a question about these rows, all of one width."""
        asked = rows.columns(wanted)
        return self._database.ask(question, *asked) if asked else []

    def _change(self, text: str, changed: Iterable[Row]) -> None:
        given = rows.columns(changed)
        if given:
            self._database.change(text, *given)

    def _load(self, load: Load) -> Loaded:
        heads, unreadable, addresses = self._heads(load)
        pages = self._pages(list(load.pages), unreadable)
        return Loaded(
            heads=heads,
            addresses=addresses,
            unreadable=unreadable,
            backlogs=rows.backlogs(self._ask(sql.BACKLOGS, _each(load.backlogs))),
            remembered=known_of(self._ask(sql.KNOWN, _each(load.backlogs))),
            bodies=dict(self._ask(sql.BODIES, _each(load.bodies))),
            services=rows.tallies(self._ask(sql.SERVICES, _each(load.services))),
            pages=pages,
            usage={domain: Usage() for domain in load.usage}
            | {
                domain.decode(): Usage(queues, messages, size)
                for domain, queues, messages, size in self._ask(
                    sql.USAGE, ((domain.encode(),) for domain in load.usage)
                )
            },
            identities={
                fingerprint: ServiceRecord(service, role.decode())
                for fingerprint, service, role in self._ask(sql.IDENTITIES, _each(load.identities))
            },
            aged=self._aged(load.aged) if load.aged is not None else [],
            sinks={
                sink.decode(): SinkRecord(batch, at)
                for sink, batch, at in (self._database.ask(sql.SINKS) if load.sinks else ())
            },
        )

    def _heads(
        self, load: Load
    ) -> tuple[dict[QueueId, Head], set[QueueId], dict[Address, QueueId]]:
        own, others = load.heads, list(load.addresses)
        wanted: list[Row] = [(n, 0, queue, limit) for n, (queue, limit) in enumerate(own.items())]
        for n, ((party, id), limit) in enumerate(load.addresses.items(), len(own)):
            wanted.append((n, party.value, id, limit))
        found = self._ask(sql.HEADS, wanted)
        return (
            *rows.heads(found),
            {
                others[place - len(own)]: row[0]
                for row in found
                for place in row[-1]
                if place >= len(own)
            },
        )

    def _pages(self, pages: list[Page], unreadable: set[QueueId]) -> dict[Page, Swept]:
        found: list[list[Row]] = [[] for _ in pages]
        wanted = ((place, p.service, p.after, p.limit) for place, p in enumerate(pages))
        for row in self._ask(sql.PAGES, wanted):
            found[row[-1]].append(row)
        swept = {}
        for page, looked in zip(pages, found, strict=True):
            heads, damaged = rows.heads(row for row in looked if row[5])
            read = [heads[queue] for queue in sorted(heads)]
            swept[page] = Swept(sorted(row[0] for row in looked), read)
            unreadable |= damaged
        return swept

    def _aged(self, aged: Aged) -> list[Past]:
        found = self._database.ask(sql.AGED, aged.before, aged.after, aged.limit)
        return [rows.past(*row) for row in found]

    def _apply(self, batch: Batch) -> None:
        self._change(sql.REMOVE, _each(batch.remove))
        create = batch.create.values()
        self._change(
            sql.CREATE, ((r.queue, r.domain.encode(), *rows.record_row(r)) for r in create)
        )
        amend = ((queue, *rows.record_row(record)) for queue, record in batch.amend.items())
        self._change(sql.AMEND, amend)
        self._change(sql.APPEND, map(rows.message_row, batch.append.values()))
        holds = {
            stored.seq: stored.apps for stored in batch.append.values() if stored.apps != (WHOLE,)
        } | batch.hold
        self._change(sql.HOLD, ((seq, encode_apps(apps)) for seq, apps in holds.items()))
        self._change(sql.DELETE, ((seq, seq) for seq in batch.delete))
        self._change(sql.FORGET_KNOWN, batch.forget.items())
        known = ((queue, *known_row(ids)) for queue, ids in batch.remember.items())
        self._change(sql.REMEMBER_KNOWN, known)
        self._change(sql.ASSOCIATE, batch.associate.items())
        self._tally(batch)
        new = ((f, r.service, r.role.encode()) for f, r in batch.identities.items())
        self._change(sql.IDENTIFY, new)
        sinks = [(sink.encode(), record) for sink, record in batch.sinks.items()]
        self._change(sql.REMEMBER, ((s, r.batch, r.at) for s, r in sinks if r is not None))
        self._change(sql.FORGET, ((s,) for s, r in sinks if r is None))
        if batch.outbox is not None:
            row = batch.outbox
            self._database.change(sql.TELL, row.first, row.last, encode_facts(row.facts))
        if batch.sealed is not None:
            self._database.change(sql.SEAL, batch.sealed, batch.sealed)

    def _tally(self, batch: Batch) -> None:
        """Join to the rows of this shard, which nobody else writes."""
        if not batch.tallies:
            return
        services = sorted(batch.tallies)
        kept = rows.tallies(self._database.ask(sql.KEPT, self.shard, services))
        joined = [kept.get(s, NOTHING).join(batch.tallies[s]) for s in services]
        counts, hashes = [t.count for t in joined], [t.hash for t in joined]
        self._database.change(sql.TALLY, self.shard, services, counts, hashes)

    # The parts of a copy: what comes after a place, and the place after it, if any.

    def _records(self, after: int) -> tuple[Batch, int | None]:
        found = self._database.ask(sql.RECORDS, after, PART_ROWS)
        records = [rows.record(*row[1:]) for row in found]
        return Batch(create={r.queue: r for r in records}), found[-1][0] if found else None

    def _messages(self, after: int) -> tuple[Batch, int | None]:
        sizes: list[tuple[Seq, int]] = self._database.ask(sql.SIZES, after, PART_ROWS)
        if not sizes:
            return Batch(), None
        last = cut(sizes)
        found = map(rows.message, self._database.ask(sql.MESSAGES, after, last))
        return Batch(append={stored.seq: stored for stored in found}), last

    def _remembered(self, after: int) -> tuple[Batch, int | None]:
        found = self._database.ask(sql.REMEMBERED, after)
        known = known_of((queue, blob) for _, queue, blob in found)
        return Batch(remember=known), found[0][0] if found else None

    def _rest(self, after: int) -> tuple[Batch, int | None]:
        """All that is never much."""
        ask = self._database.ask
        identities = ask(sql.ALL_IDENTITIES)
        return Batch(
            tallies=rows.tallies(ask(sql.TALLIES)),
            identities={f: ServiceRecord(s, role.decode()) for f, s, role in identities},
            sinks={sink.decode(): SinkRecord(batch, at) for sink, batch, at in ask(sql.SINKS)},
        ), None

    def _outbox(self, after: int) -> tuple[Batch, int | None]:
        found = self._database.ask(sql.OUTBOX, after)
        if not found:
            return Batch(), None
        [(first, blob)] = found
        return Batch(outbox=OutboxRow(first, told(blob), len(blob))), first


def _each(items: Iterable[object]) -> Iterable[Row]:
    return ((item,) for item in items)

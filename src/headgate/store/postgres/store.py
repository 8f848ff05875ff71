"""Batches in a PostgreSQL database: one thread, one connection, one transaction per batch.

The protocol's work is done in a thread of its own, so that it does not hold up the loop. Load and
apply queue up for that thread, hence the statements of a load see one state of the shard without a
transaction around them: no other program writes to its queues.

The cost of each shape, and what else was tried: docs/design/stores.md.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
import psycopg

from headgate.core.model.ids import WHOLE, QueueId, Seq, ServiceId
from headgate.core.model.parties import Address
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import (
    Aged,
    Batch,
    Dated,
    GroupRecord,
    Head,
    Listed,
    Listing,
    Load,
    Overdue,
    Page,
    Past,
)
from headgate.errors import StoreError
from headgate.journal.codec import encode_facts
from headgate.store.blobs import encode_apps, known_row
from headgate.store.ownership import Ownership
from headgate.store.postgres import rows, sql
from headgate.store.postgres.database import Row
from headgate.store.postgres.owned_database import OwnedDatabase, Unreachable
from headgate.store.sql_store import SqlStore, each

T = TypeVar("T")

LOOK_SECONDS = 0.1
"""Seconds between two looks of a waiting router."""
RETRY_SECONDS = 0.5
"""Seconds between two attempts to reach a server that does not answer."""


class PostgresStore(SqlStore):
    """Keeps batches in a database. Applied batches are on the server's disk, if the server's
    ``fsync`` and ``full_page_writes`` have their default values."""

    kind = "postgresql"
    is_distant = True
    sql = sql
    rows = rows

    def __init__(
        self,
        url: str,
        *,
        shard: int = 0,
        statement_seconds: float = 30.0,
        ownership: Ownership | None = None,
    ) -> None:
        self.url = url
        self.ownership = ownership
        """This router's right to the store; None if it waits for no other."""
        self.shard = shard
        self.statements = 0
        """Statements executed since the beginning; one for many rows counts once."""
        self._database = OwnedDatabase(url, shard, statement_seconds, ownership)
        """Used by the worker's thread only."""
        super().__init__(self._database.name, self._database.close)

    def __repr__(self) -> str:
        return f"PostgresStore({self._database.name!r}, shard={self.shard})"

    @property
    def source(self) -> str:
        return self.url

    async def open(self) -> Seq:
        if self.ownership is None:
            return await super().open()
        await self._worker.open(lambda: None)
        try:
            await self._wait(self.ownership)
            return Seq((await self._run(lambda: self._all(sql.LAST)))[0][0])
        except BaseException:
            await self._worker.close()
            raise

    async def _wait(self, ownership: Ownership) -> None:
        """Wait until no other router has it. Errors at the first look are raised; later ones may
        pass, and so may a server that does not answer."""
        pause = LOOK_SECONDS
        is_first = True
        while True:
            try:
                if await self._worker.run(self._database.claim):
                    return
                pause = LOOK_SECONDS
            except StoreError as error:
                if is_first and not isinstance(error, Unreachable):
                    raise
                ownership.rival = str(error)
                pause = RETRY_SECONDS
            is_first = False
            await asyncio.sleep(pause)

    async def current_term(self) -> int | None:
        """The number of the present term, on a connection of its own: the other may be dead."""
        return await asyncio.to_thread(self._database.current_term)

    # All below runs in the thread.

    def _connect(self) -> None:
        self._database.open()

    def _do(self, job: Callable[[], T]) -> T:
        try:
            return self._database.run(job)
        except (OverflowError, ValueError, struct.error, msgspec.MsgspecError) as error:
            raise StoreError(
                f"{self._database.name}: a value cannot be stored or read: {error}"
            ) from error
        finally:
            self.statements = self._database.statements

    def _probe(self) -> None:
        self._database.probe()

    def _damage(self) -> list[str]:
        found = [f"the index {name} is not valid" for (name,) in self._all(sql.INVALID_INDEXES)]
        for (schema,) in self._all(sql.AMCHECK):
            for name, text in self._all(sql.INDEXES):
                try:
                    self._all(f"SELECT {schema}.bt_index_check({name}::regclass)::text")
                except psycopg.Error as error:
                    found.append(f"the index {text}: {' '.join(str(error).split())}")
        return found

    def _vacuum(self) -> None:
        for table in (name for (name,) in self._all(sql.TABLES)):
            self._database.change(f"VACUUM (ANALYZE) {table}")

    def _disk_bytes(self) -> int:
        size: int = self._all(sql.DISK_BYTES)[0][0]
        return size

    def _unhurried(self, job: Callable[[], T]) -> T:
        self._database.change(sql.UNHURRIED)
        return job()

    def _all(self, question: str, *values: object) -> list[Row]:
        return self._database.ask(question, *values)

    def _ask(self, question: str, wanted: Iterable[Row]) -> list[Row]:
        asked = rows.columns(wanted)
        return self._database.ask(question, *asked) if asked else []

    def _change(self, text: str, changed: Iterable[Row]) -> None:
        given = rows.columns(changed)
        if given:
            self._database.change(text, *given)

    def _encode(self, text: str) -> bytes:
        return text.encode()

    def _decode(self, text: bytes) -> str:
        return text.decode()

    def _tallies(self, found: Iterable[Row]) -> dict[ServiceId, Tally]:
        return rows.tallies(found)

    def _heads(
        self, load: Load
    ) -> tuple[dict[QueueId, Head], set[QueueId], dict[Address, QueueId]]:
        own, others = load.heads, list(load.addresses)
        wanted: list[Row] = [(n, 0, queue, limit) for n, (queue, limit) in enumerate(own.items())]
        for n, (address, limit) in enumerate(load.addresses.items(), len(own)):
            wanted.append((n, int(address.party), address.id, limit))
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

    def _paged(self, pages: list[Page]) -> Iterable[tuple[int, QueueId, bool, Row]]:
        wanted = ((place, p.service, p.after, p.limit) for place, p in enumerate(pages))
        found = self._ask(sql.PAGES, wanted)
        return ((row[-1], row[0], bool(row[5]), row) for row in found)

    def _aged(self, aged: Aged) -> list[Past]:
        found = self._database.ask(sql.AGED, aged.before, aged.after, aged.limit)
        return [rows.past(*row) for row in found]

    def _overdue(self, overdue: Overdue) -> list[Dated]:
        asked = rows.columns(
            (domain.encode(), before, overdue.after, overdue.limit)
            for domain, before in overdue.domains
        )
        found = self._database.ask(sql.OVERDUE, *asked, overdue.limit) if asked else []
        return [Dated(seq, q, domain.decode(), *rest) for seq, q, domain, *rest in found]

    def _listings(self, listings: list[Listing]) -> dict[Listing, list[Listed]]:
        found: dict[Listing, list[Listed]] = {listing: [] for listing in listings}
        wanted = (
            (place, each.domain.encode(), each.after, each.limit)
            for place, each in enumerate(listings)
        )
        for place, *row in self._ask(sql.LISTINGS, wanted):
            found[listings[place]].append(Listed(*row))
        return found

    def _apply(self, batch: Batch) -> None:
        self._database.transaction(lambda: self._write(batch))

    def _write(self, batch: Batch) -> None:
        self._change(sql.REMOVE, each(batch.remove))
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
        groups = [(queue, name.encode(), g) for (queue, name), g in batch.groups.items()]
        self._change(sql.DROP_GROUP, ((q, name) for q, name, g in groups if g is None))
        made = ((q, name, _filter(g)) for q, name, g in groups if g is not None)
        self._change(sql.PUT_GROUP, made)
        self._change(sql.ASSOCIATE, batch.associate.items())
        self._tally(batch)
        new = ((f, r.service, r.role.encode()) for f, r in batch.identities.items())
        self._change(sql.IDENTIFY, new)
        sinks = [(sink.encode(), record) for sink, record in batch.sinks.items()]
        self._change(sql.REMEMBER, ((s, r.batch, r.at) for s, r in sinks if r is not None))
        self._change(sql.FORGET, ((s,) for s, r in sinks if r is None))
        if batch.outbox is not None:
            row = batch.outbox
            self._database.change(sql.ADD_FACTS, row.first, row.last, encode_facts(row.facts))
        if batch.sealed is not None:
            sealed = batch.sealed
            self._database.change(sql.SEAL, sealed, self.shard, sealed, sealed)

    def _tally(self, batch: Batch) -> None:
        """Add to the rows of this shard, which no other program writes."""
        if not batch.tallies:
            return
        services = sorted(batch.tallies)
        kept = rows.tallies(self._database.ask(sql.KEPT, self.shard, services))
        joined = [kept.get(s, NOTHING).join(batch.tallies[s]) for s in services]
        counts, hashes = [t.count for t in joined], [t.hash for t in joined]
        self._database.change(sql.TALLY, self.shard, services, counts, hashes)


def _filter(group: GroupRecord) -> bytes | None:
    return None if group.where is None else group.where.encode()

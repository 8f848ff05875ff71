"""Batches in one SQLite file: one thread, one connection, one transaction per batch.

SQLite has one writer at a time, whatever the number of connections, so there is one thread that
owns the only connection, and load and apply queue up for it. No other program writes to the file (a
lock beside it keeps a second router out), hence the statements of a load see one state without a
transaction around them.

The cost of each shape, and what else was tried: docs/design/stores.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from headgate.core.model.ids import WHOLE, QueueId, ServiceId
from headgate.core.model.message import MARKER
from headgate.core.model.parties import Address
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.store_requests import (
    Aged,
    Batch,
    Dated,
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
from headgate.store.blobs import decode_properties, encode_apps, known_row
from headgate.store.sql_store import SqlStore, each
from headgate.store.sqlite import rows, sql
from headgate.store.sqlite.file import File
from headgate.store.sqlite.rows import Row

T = TypeVar("T")

DAMAGE_MAX = 20
"""Errors reported about a damaged file."""


class SqliteStore(SqlStore):
    """Keeps batches in a file. Applied batches are on the disk: the write-ahead log is synced first
    (``synchronous=FULL``)."""

    kind = "sqlite"
    is_distant = False
    sql = sql
    rows = rows

    def __init__(self, path: Path, *, busy_seconds: float = 5.0) -> None:
        self.path = path.absolute()
        self._file = File(self.path, busy_seconds)
        """Used by the worker's thread only."""
        super().__init__(str(self.path), self._file.close)

    @property
    def source(self) -> str:
        return f"sqlite:{self.path}"

    @property
    def statements(self) -> int:
        """Statements executed since the beginning; one for many rows counts once."""
        return self._file.statements

    # All below runs in the thread.

    def _connect(self) -> None:
        self._file.open()

    def _do(self, job: Callable[[], T]) -> T:
        return self._file.run(job)

    def _probe(self) -> None:
        self._file.probe()

    def _damage(self) -> list[str]:
        found = [text for (text,) in self._file.all(f"PRAGMA integrity_check({DAMAGE_MAX})")]
        return [] if found == ["ok"] else found

    def _vacuum(self) -> None:
        self._file.all("VACUUM")
        self._file.all("PRAGMA optimize")
        self._file.all("PRAGMA wal_checkpoint(TRUNCATE)")

    def _disk_bytes(self) -> int:
        files = (self.path.with_name(self.path.name + end) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _all(self, question: str, *values: object) -> list[Row]:
        return self._file.all(question, values)

    def _ask(self, question: str, wanted: Iterable[Row]) -> list[Row]:
        return self._file.ask(question, wanted)

    def _tallies(self, found: Iterable[Row]) -> dict[ServiceId, Tally]:
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

    def _paged(self, pages: list[Page]) -> Iterable[tuple[int, QueueId, bool, Row]]:
        wanted = ((place, p.service, p.after, p.limit) for place, p in enumerate(pages))
        most = max((page.limit for page in pages), default=0)
        found = self._file.ask(sql.PAGES, wanted, most)
        return ((row[0], row[1], bool(row[6]), row) for row in found)

    def _aged(self, aged: Aged) -> list[Past]:
        found = self._file.all(sql.AGED, (aged.before, aged.after, aged.limit))
        if 0 < len(found) < aged.limit:
            last, left = found[-1][0], aged.limit - len(found)
            found += self._file.all(sql.AGED_REST, (aged.before, last, left))
        return [
            Past(seq, queue, domain, id, arrived, decode_properties(encoded).get(MARKER) is True)
            for seq, queue, domain, id, arrived, encoded in found
        ]

    def _overdue(self, overdue: Overdue) -> list[Dated]:
        wanted = ((domain, before, overdue.after) for domain, before in overdue.domains)
        found = self._file.ask(sql.OVERDUE, wanted, overdue.limit, overdue.limit)
        return [
            Dated(seq, queue, domain, id, arrived, size, bool(is_kept))
            for seq, queue, domain, id, arrived, size, is_kept in found
        ]

    def _listings(self, listings: list[Listing]) -> dict[Listing, list[Listed]]:
        found: dict[Listing, list[Listed]] = {listing: [] for listing in listings}
        wanted = ((n, each.domain, each.after, each.limit) for n, each in enumerate(listings))
        most = max((listing.limit for listing in listings), default=0)
        for place, queue, messages, size, whole, groups in self._file.ask(
            sql.LISTINGS, wanted, most
        ):
            is_whole = None if whole is None else bool(whole)
            found[listings[place]].append(Listed(queue, messages, size, is_whole, groups))
        return found

    def _apply(self, batch: Batch) -> None:
        many = self._file.many
        with self._file.transaction():
            if batch.remove:
                for text in sql.REMOVE:
                    many(text, each(batch.remove))
            self._put_records(batch)
            if batch.append:
                many(sql.APPEND, map(rows.message_row, batch.append.values()))
            held = [
                (encode_apps(stored.apps).decode(), seq)
                for seq, stored in batch.append.items()
                if stored.apps != (WHOLE,) and seq not in batch.hold
            ]
            if held:
                many(sql.HOLD_NEW, held)
            if batch.hold:
                changed = ((encode_apps(apps).decode(), seq) for seq, apps in batch.hold.items())
                many(sql.HOLD, changed)
            if batch.delete:
                gone = rows.runs(batch.delete)
                for text in sql.DELETE:
                    many(text, gone)
            if batch.forget:
                many(sql.FORGET_KNOWN, batch.forget.items())
            if batch.remember:
                known = ((queue, *known_row(ids)) for queue, ids in batch.remember.items())
                many(sql.REMEMBER_KNOWN, known)
            if batch.groups:
                groups = batch.groups.items()
                many(sql.DROP_GROUP, (key for key, group in groups if group is None))
                made = ((*key, g.where) for key, g in groups if g is not None)
                many(sql.PUT_GROUP, made)
            if batch.associate:
                moved = ((service, queue) for queue, service in batch.associate.items())
                if many(sql.ASSOCIATE, moved) != len(batch.associate):
                    raise StoreError(f"{self.path}: a queue to associate does not exist")
            if batch.tallies:
                kept = self._tallies(self._ask(sql.SERVICES, each(batch.tallies)))
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
                self._file.all(sql.ADD_FACTS, (row.first, row.last, encode_facts(row.facts)))
            if batch.sealed is not None:
                self._file.all(sql.SEAL, (batch.sealed,))

    def _put_records(self, batch: Batch) -> None:
        """Create and amend. Two queues must not have the same id in the end; but SQLite checks each
        row. So changed ids are released before any is taken, and a queue that is amended at once is
        created in its final form."""
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

"""Batches in one SQLite file: one thread, one connection, one transaction per batch.

SQLite has one writer at a time, whatever the number of connections, so there is one thread
that owns the only connection, and load and apply queue up for it. Nobody else writes to the
file (a lock beside it keeps a second router out), hence the statements of a load see one state
without a transaction around them.

The number of statements does not depend on how much a call names. What is wanted goes in as
the rows of a ``VALUES`` list, filled up with NULLs to the next power of two: lists of every
length share thirteen texts per question, and sqlite3 finds them in its cache of prepared
statements. A list above `ROWS_MAX` rows is cut; that is the one place where the count grows.

What each shape costs, and what else was tried: docs/design/stores.md.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from headgate.core.message import (
    NO_PROPERTIES,
    Entry,
    Message,
    Properties,
    Stored,
)
from headgate.core.names import WHOLE, AppId, MessageId, QueueId, Seq, ServiceId
from headgate.core.steps import Batch, Head, Load, Loaded, Page, QueueRecord, SinkRecord, Usage
from headgate.core.tally import NOTHING, Tally
from headgate.errors import StoreError
from headgate.store.facts import encode_facts

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

APPLICATION_ID = 0x48474154
"""What migration 0001 writes into the header of the file."""

ROWS_MAX = 4096
"""Rows of one ``VALUES`` list: as many as a turn has commands. With the four columns of a page
this is half of the 32,766 variables that SQLite allows in a statement by default."""

STATEMENTS_CACHED = 256
"""Six questions in thirteen lengths, and one text per kind of change, with room to spare."""

CACHE_BYTES = 16 * 1024 * 1024
"""Pages that SQLite keeps. Its default of 2 MB does not hold the inner pages of the indexes
of a million queues."""

_encode_properties = msgspec.msgpack.Encoder().encode
# msgspec takes no union of str and bytes; msgpack itself tells the four types apart.
_decode_properties = msgspec.msgpack.Decoder(dict[str, Any]).decode
_encode_apps = msgspec.json.Encoder().encode
_decode_apps = msgspec.json.Decoder(tuple[AppId, ...]).decode

# SQLite takes no column as a LIMIT. The largest limit bounds what is walked in the index, and
# the rank what is then read for each queue.
HEADS = """
WITH want(queue, n) AS (VALUES {want}),
found AS MATERIALIZED (
    SELECT number, queues.id, domain, service, n,
        (SELECT count(*) FROM messages WHERE messages.queue = number) AS messages
    FROM want CROSS JOIN queues ON queues.id = want.queue
)
SELECT found.id, domain, service, messages, m.seq, m.id, arrived, properties, body, apps
FROM found
LEFT JOIN messages AS m ON m.seq IN (
    SELECT seq FROM (
        SELECT seq, row_number() OVER (ORDER BY seq) AS rank FROM (
            SELECT seq FROM messages WHERE messages.queue = number ORDER BY seq LIMIT ?
        )
    ) WHERE rank <= n
)
LEFT JOIN holds ON holds.seq = m.seq
"""

PAGES = """
WITH want(place, service, after, n) AS (VALUES {want}),
found AS MATERIALIZED (
    SELECT place, number, queues.id, domain, queues.service,
        (SELECT count(*) FROM messages WHERE messages.queue = number) AS messages
    FROM want CROSS JOIN queues ON number IN (
        SELECT number FROM (
            SELECT number, row_number() OVER (ORDER BY id) AS rank FROM (
                SELECT number, id FROM queues
                WHERE queues.service = want.service AND queues.id > after
                ORDER BY queues.id LIMIT ?
            )
        ) WHERE rank <= n
    )
)
SELECT place, found.id, domain, service, messages, m.seq, m.id, arrived, properties, body, apps
FROM found
LEFT JOIN messages AS m ON m.seq = (
    SELECT seq FROM messages WHERE messages.queue = number ORDER BY seq LIMIT 1
)
LEFT JOIN holds ON holds.seq = m.seq
"""

BACKLOGS = """
WITH want(queue) AS (VALUES {want})
SELECT queues.id, domain, service, m.seq, m.id, arrived, size, properties, apps
FROM want CROSS JOIN queues ON queues.id = want.queue
LEFT JOIN messages AS m ON m.queue = number
LEFT JOIN holds ON holds.seq = m.seq
"""

BODIES = """
WITH want(seq) AS (VALUES {want})
SELECT seq, body FROM want CROSS JOIN messages USING (seq)
"""

SERVICES = """
WITH want(id) AS (VALUES {want})
SELECT id, count, hash FROM want CROSS JOIN services USING (id)
"""

USAGE = """
WITH want(domain) AS (VALUES {want}),
found AS (
    SELECT domain, count(seq) AS messages, coalesce(sum(size), 0) AS bytes
    FROM want CROSS JOIN queues USING (domain)
    LEFT JOIN messages ON queue = number
    GROUP BY domain, number
)
SELECT domain, count(*), sum(messages), sum(bytes) FROM found GROUP BY domain
"""

CREATE = "INSERT INTO queues (id, domain, service) VALUES (?, ?, ?)"

# An unknown queue has no number, and the column takes no NULL.
APPEND = """
INSERT INTO messages (seq, queue, id, arrived, size, properties, body)
VALUES (?, (SELECT number FROM queues WHERE queues.id = ?), ?, ?, ?, ?, ?)
"""

HOLD = """
INSERT INTO holds (apps, seq) SELECT ?, seq FROM messages WHERE seq = ?
ON CONFLICT (seq) DO UPDATE SET apps = excluded.apps
"""

DELETE = (
    "DELETE FROM messages WHERE seq = ?",
    "DELETE FROM holds WHERE seq = ?",
)

ASSOCIATE = "UPDATE queues SET service = ? WHERE id = ?"

TALLY = """
INSERT INTO services (id, count, hash) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET count = excluded.count, hash = excluded.hash
"""

SINKS = "SELECT id, batch, at FROM sinks"

REMEMBER = """
INSERT INTO sinks (id, batch, at) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, at = excluded.at
"""

FORGET = "DELETE FROM sinks WHERE id = ?"

TELL = "INSERT INTO outbox (first, last, facts) VALUES (?, ?, ?)"

SEAL = "DELETE FROM outbox WHERE last <= ?"

UNSEALED = "SELECT coalesce(max(last), 0), coalesce(sum(length(facts)), 0) FROM outbox"

REMOVE = (
    """
    DELETE FROM holds WHERE seq IN (
        SELECT seq FROM messages JOIN queues ON queue = number WHERE queues.id = ?
    )
    """,
    "DELETE FROM messages WHERE queue = (SELECT number FROM queues WHERE queues.id = ?)",
    "DELETE FROM queues WHERE id = ?",
)

ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and the router goes on",
    sqlite3.SQLITE_BUSY: "another program has locked it; end that program's transaction",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the rights of the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk failed; look into the system's log",
    sqlite3.SQLITE_CORRUPT: "it is damaged; put back a copy, or try the sqlite3 shell's .recover",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; name another file",
    sqlite3.SQLITE_CONSTRAINT: "the batch contradicts what is stored",
}
"""What to do next, by the primary code of SQLite's error."""


def migrations() -> list[tuple[int, str]]:
    """The steps from an empty file to the newest schema: version and script, in order."""
    folder = resources.files("headgate.store") / "migrations"
    return sorted(
        (int(file.name[:4]), file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sqlite.sql")
    )


class SqliteStore:
    """Keeps batches in a file. What `apply` returned from is on the disk: the write-ahead log
    was synced before (``synchronous=FULL``)."""

    kind = "sqlite"

    def __init__(self, path: Path, *, busy_seconds: float = 5.0) -> None:
        self.path = path.absolute()
        self.statements = 0
        """Statements executed since the beginning; one for many rows counts once."""
        self._busy_seconds = busy_seconds
        self._executor: ThreadPoolExecutor | None = None
        # What follows belongs to the thread.
        self._db: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._file: os.stat_result | None = None

    async def open(self) -> Seq:
        assert self._executor is None, "open() of a store that is open"
        executor = ThreadPoolExecutor(1, thread_name_prefix="headgate-store")
        try:
            last = await asyncio.get_running_loop().run_in_executor(executor, self._open)
        except BaseException:
            # If it was the caller who was cancelled, the thread may still be at it.
            executor.submit(self._close)
            executor.shutdown(wait=False)
            raise
        self._executor = executor
        return last

    async def load(self, load: Load) -> Loaded:
        return await self._run(lambda db: self._load(db, load))

    async def apply(self, batch: Batch) -> None:
        if batch:
            await self._run(lambda db: self._apply(db, batch))

    async def unsealed(self) -> tuple[int, int]:
        [(last, size)] = await self._run(lambda db: self._all(db, UNSEALED))
        return last, size

    async def close(self) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        closing = asyncio.get_running_loop().run_in_executor(executor, self._close)
        executor.shutdown(wait=False)  # what is queued still runs
        await asyncio.shield(closing)

    async def _run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do it in the thread. A caller that is cancelled meanwhile takes back a job that has
        not begun, and no other."""
        if self._executor is None:
            raise StoreError(f"{self.path}: the store is not open")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._do, job)

    # All below runs in the thread.

    def _do(self, job: Callable[[sqlite3.Connection], T]) -> T:
        assert self._db is not None, "a job in a store that is not open"
        try:
            return job(self._db)
        except sqlite3.Error as error:
            raise self._failure(error) from error
        except (OverflowError, UnicodeError, msgspec.MsgspecError) as error:
            raise StoreError(f"{self.path}: a value cannot be stored or read: {error}") from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        # Errors of the sqlite3 module itself carry no code.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        advice = ADVICE.get(code & 0xFF)  # the rest of the code tells kinds of one error apart
        return StoreError(f"{self.path}: {advice} ({error})" if advice else f"{self.path}: {error}")

    def _open(self) -> Seq:
        try:
            _make_folder(self.path.parent)
            self._lock = self._locked()
            # Only the owner may read messages; SQLite gives its other files the same rights.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._file = os.stat(self.path)
            self._db = sqlite3.connect(
                self.path,
                timeout=self._busy_seconds,
                isolation_level=None,  # transactions are written out
                cached_statements=STATEMENTS_CACHED,
            )
            return self._do(self._prepare)
        except OSError as error:
            self._close()
            raise StoreError(
                f"{self.path}: it cannot be opened; check the rights of the file and its folder"
                f" ({error})"
            ) from error
        except BaseException:
            self._close()
            raise

    def _locked(self) -> int:
        """A descriptor that holds the lock. The system drops the lock with the process, however
        that ends. The file stays: whoever deletes it lets two routers lock two files."""
        path = self.path.with_name(self.path.name + ".lock")
        # Not the database itself: closing any descriptor of it would drop SQLite's own locks.
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 20).decode() or "unknown"
            os.close(lock)
            raise StoreError(
                f"{self.path}: another router uses it (process {owner});"
                " stop that one or name another file"
            ) from None
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        return lock

    def _prepare(self, db: sqlite3.Connection) -> Seq:
        """Find out whose file it is before anything is written to it; then migrate."""
        steps = migrations()
        newest = steps[-1][0]
        version = self._number(db, "PRAGMA user_version")
        if self._number(db, "PRAGMA application_id") != APPLICATION_ID and (
            version or self._number(db, "SELECT count(*) FROM sqlite_master")
        ):
            raise StoreError(f"{self.path}: it is a database of another program; name another file")
        if version > newest:
            raise StoreError(
                f"{self.path}: its schema has version {version}, this headgate knows versions"
                f" up to {newest}; upgrade headgate"
            )
        if self._all(db, "PRAGMA journal_mode = WAL") != [("wal",)]:
            raise StoreError(f"{self.path}: its file system has no shared memory; move it")
        self._all(db, "PRAGMA synchronous = FULL")
        # Debian's SQLite overwrites all that is deleted, which writes a long body twice. FAST
        # overwrites it where the page is written anyway.
        self._all(db, "PRAGMA secure_delete = FAST")
        self._all(db, f"PRAGMA cache_size = -{CACHE_BYTES // 1024}")
        for step, script in steps:
            if step > version:
                self._migrate(db, step, script)
        return Seq(self._number(db, "SELECT coalesce(max(seq), 0) FROM messages"))

    def _migrate(self, db: sqlite3.Connection, version: int, script: str) -> None:
        self.statements += 1
        try:
            # In one text: executescript() would commit a transaction begun outside of it.
            db.executescript(
                f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {version};\nCOMMIT;"
            )
        except sqlite3.Error:
            db.rollback()
            raise

    def _close(self) -> None:
        if self._db is not None:
            # A checkpoint that fails loses nothing: the next open finds the log.
            with suppress(sqlite3.Error):
                self._all(self._db, "PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()
            self._db = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _all(self, db: sqlite3.Connection, text: str, values: Sequence[object] = ()) -> list[Row]:
        self.statements += 1
        return db.execute(text, values).fetchall()

    def _number(self, db: sqlite3.Connection, text: str) -> int:
        number: int = self._all(db, text)[0][0]
        return number

    def _ask(
        self, db: sqlite3.Connection, question: str, rows: Iterable[Row], *more: object
    ) -> list[Row]:
        """The answers to a question about these rows, all of one width.

        A list: a cursor that is left half read, because a row cannot be decoded, would keep its
        view of the log open and end up in the hands of another thread.
        """
        answers: list[Row] = []
        wanted = list(rows)
        for start in range(0, len(wanted), ROWS_MAX):
            chunk = wanted[start : start + ROWS_MAX]
            width, length = len(chunk[0]), _padded(len(chunk))
            values = [item for row in chunk for item in row]
            values += [None] * (width * length - len(values))
            answers += self._all(db, _text(question, width, length), [*values, *more])
        return answers

    def _many(self, db: sqlite3.Connection, text: str, rows: Iterable[Row]) -> int:
        """Change these rows; return how many were changed."""
        self.statements += 1
        return db.executemany(text, rows).rowcount

    def _load(self, db: sqlite3.Connection, load: Load) -> Loaded:
        return Loaded(
            heads={head.record.queue: head for head in self._heads(db, load.heads)},
            backlogs=_backlogs(self._ask(db, BACKLOGS, ((queue,) for queue in load.backlogs))),
            bodies=dict(self._ask(db, BODIES, ((seq,) for seq in load.bodies))),
            services=self._tallies(db, load.services),
            pages=self._pages(db, list(load.pages)),
            usage={domain: Usage() for domain in load.usage}
            | {
                domain: Usage(queues, messages, size)
                for domain, queues, messages, size in self._ask(
                    db, USAGE, ((domain,) for domain in load.usage)
                )
            },
            sinks={
                sink: SinkRecord(batch, at)
                for sink, batch, at in (self._all(db, SINKS) if load.sinks else ())
            },
        )

    def _tallies(
        self, db: sqlite3.Connection, services: Iterable[ServiceId]
    ) -> dict[ServiceId, Tally]:
        rows = self._ask(db, SERVICES, ((service,) for service in services))
        return {service: Tally.parse(count, hashed) for service, count, hashed in rows}

    def _heads(self, db: sqlite3.Connection, wanted: dict[QueueId, int]) -> list[Head]:
        most = max(wanted.values(), default=0)
        return _heads(self._ask(db, HEADS, wanted.items(), most))

    def _pages(self, db: sqlite3.Connection, pages: list[Page]) -> dict[Page, list[Head]]:
        rows: list[list[Row]] = [[] for _ in pages]
        wanted = ((place, p.service, p.after, p.limit) for place, p in enumerate(pages))
        most = max((page.limit for page in pages), default=0)
        for place, *row in self._ask(db, PAGES, wanted, most):
            rows[place].append(tuple(row))
        return {
            page: sorted(_heads(rows[place]), key=lambda head: head.record.queue)
            for place, page in enumerate(pages)
        }

    def _apply(self, db: sqlite3.Connection, batch: Batch) -> None:
        self._check_file()
        with self._transaction(db):
            if batch.remove:
                for text in REMOVE:
                    self._many(db, text, ((queue,) for queue in batch.remove))
            if batch.create:
                self._many(
                    db, CREATE, ((r.queue, r.domain, r.service) for r in batch.create.values())
                )
            if batch.append:
                self._many(db, APPEND, map(_message_row, batch.append.values()))
            holds = {
                stored.seq: stored.apps
                for stored in batch.append.values()
                if stored.apps != (WHOLE,)
            } | batch.hold
            if holds:
                self._many(
                    db, HOLD, ((_encode_apps(apps).decode(), seq) for seq, apps in holds.items())
                )
            if batch.delete:
                gone = [(seq,) for seq in sorted(batch.delete)]
                for text in DELETE:
                    self._many(db, text, gone)
            if batch.associate:
                rows = ((service, queue) for queue, service in batch.associate.items())
                if self._many(db, ASSOCIATE, rows) != len(batch.associate):
                    raise StoreError(f"{self.path}: a queue to associate does not exist")
            if batch.tallies:
                kept = self._tallies(db, batch.tallies)
                joined = ((s, kept.get(s, NOTHING).join(t)) for s, t in batch.tallies.items())
                self._many(db, TALLY, ((s, t.count, t.hash) for s, t in joined))
            if batch.sinks:
                kept_sinks = [(s, r.batch, r.at) for s, r in batch.sinks.items() if r is not None]
                self._many(db, REMEMBER, kept_sinks)
                self._many(db, FORGET, ((s,) for s, r in batch.sinks.items() if r is None))
            if batch.outbox is not None:
                row = batch.outbox
                self._all(db, TELL, (row.first, row.last, encode_facts(row.facts)))
            if batch.sealed is not None:
                self._all(db, SEAL, (batch.sealed,))

    def _check_file(self) -> None:
        """SQLite goes on writing to a file that was deleted or moved, and a receipt for what is
        in it would be worth nothing."""
        assert self._file is not None, "apply() before open()"
        try:
            same = os.path.samestat(self._file, os.stat(self.path))
        except OSError as error:
            raise StoreError(f"{self.path}: the file is gone; put it back ({error})") from error
        if not same:
            raise StoreError(f"{self.path}: another file took its place; restart the router")

    @contextmanager
    def _transaction(self, db: sqlite3.Connection) -> Iterator[None]:
        self._all(db, "BEGIN IMMEDIATE")
        try:
            yield
            self._all(db, "COMMIT")
        except BaseException:
            # SQLite has already rolled back after some errors; then this does nothing.
            db.rollback()
            raise


def _make_folder(folder: Path) -> None:
    """Make it and what is missing above it. SQLite syncs the folder of its files; a folder that
    is new is itself an entry of the one above, and that must be on the disk too."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    above = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)


def _padded(length: int) -> int:
    """The next power of two."""
    return 1 << (length - 1).bit_length()


@cache
def _text(question: str, width: int, length: int) -> str:
    row = f"({', '.join('?' * width)})"
    return question.format(want=", ".join([row] * length))


def _message_row(stored: Stored) -> Row:
    message = stored.message
    # msgspec does not know every Mapping, and no properties are the usual case.
    properties = _encode_properties(dict(message.properties)) if message.properties else b""
    return (
        stored.seq,
        stored.queue,
        message.id,
        message.arrived,
        message.size,
        properties,
        message.body,
    )


def _properties(encoded: bytes) -> Properties:
    return _decode_properties(encoded) if encoded else NO_PROPERTIES


def _apps(encoded: str | None) -> tuple[AppId, ...]:
    return (WHOLE,) if encoded is None else _decode_apps(encoded)


def _heads(rows: Iterable[Row]) -> list[Head]:
    """Heads from rows of a queue and one of its messages, or a queue and NULLs."""
    queues: dict[QueueId, tuple[QueueRecord, int, list[Stored]]] = {}
    for queue, domain, service, messages, seq, id, arrived, properties, body, apps in rows:
        if queue not in queues:
            queues[queue] = QueueRecord(queue, domain, service), messages, []
        if seq is not None:
            message = Message(MessageId(id), body, arrived, _properties(properties))
            queues[queue][2].append(Stored(seq, queue, message, _apps(apps)))
    return [
        # Sorted here: ORDER BY would carry the bodies through SQLite's sorter.
        Head(record, messages, tuple(sorted(first, key=lambda stored: stored.seq)))
        for record, messages, first in queues.values()
    ]


def _backlogs(rows: Iterable[Row]) -> dict[QueueId, tuple[QueueRecord, list[Entry]]]:
    backlogs: dict[QueueId, tuple[QueueRecord, list[Entry]]] = {}
    for queue, domain, service, seq, id, arrived, size, properties, apps in rows:
        if queue not in backlogs:
            backlogs[queue] = QueueRecord(queue, domain, service), []
        if seq is not None:
            entry = Entry(seq, id, arrived, size, _properties(properties), _apps(apps))
            backlogs[queue][1].append(entry)
    for _, entries in backlogs.values():
        entries.sort(key=lambda entry: entry.seq)
    return backlogs

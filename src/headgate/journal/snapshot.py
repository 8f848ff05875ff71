"""A SQLite store at one moment, as Parquet files that an audit can read.

    queues/part-0.parquet ...   service, digest: the queues that are a service's, and the
                                notifiers that are one's, which a tally counts by their own id
    tallies.parquet             service, count, hash: what the router keeps of each service
    unsealed.parquet            number, kind, queue, service: associations that no segment has
                                yet; the last row is only the number that the moment is good for

All of it is read in one transaction, so the three agree with each other. While it lasts, the
router's write-ahead log cannot be shortened; so it only reads, hashes and writes, and skips the
messages. Ids do not leave the store: a queue or a notifier is named by its digest, as in tallies
and facts.

What a check compares with the tables of the pipeline is read likewise, without bodies:

    messages/part-0.parquet ... queue, message, apps: the messages that are stored, and the apps
                                that each waits for, as JSON; none, if it is only history
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.core.facts import Associated
from headgate.core.model.tally import name_of
from headgate.core.model.value import value
from headgate.errors import StoreError
from headgate.journal.codec import decode_facts
from headgate.journal.columns import FIELD_NAMES
from headgate.journal.segments import PART, last_number
from headgate.store.private import FOLDER, make_file
from headgate.store.sqlite.file import ADVICE, APPLICATION_ID, migrations

Row: TypeAlias = tuple[Any, ...]

DIGEST = pa.binary(16)
QUEUES = pa.schema([("service", pa.binary()), ("digest", DIGEST)])
TALLIES = pa.schema([("service", pa.binary()), ("count", pa.int64()), ("hash", DIGEST)])
MESSAGES = pa.schema([("queue", pa.binary()), ("message", pa.binary()), ("apps", pa.string())])
UNSEALED = pa.schema(
    [
        ("number", pa.int64()),
        ("kind", pa.string()),
        ("queue", pa.binary()),
        ("service", pa.binary()),
    ]
)

ONE_APP = '[""]'
"""The apps that a message waits for whose queue has none."""

PAGE_ROWS = 65_536
"""Rows in memory at a time, and in a row group of the files."""
PART_ROWS = 64 * PAGE_ROWS
"""Rows of one file: 70 MB of queues."""

ASSOCIATED = Associated.__name__
QUEUE, SERVICE = (1 + FIELD_NAMES[ASSOCIATED].index(name) for name in ("queue", "service"))
"""Their positions in an encoded fact; its kind comes first."""


@value
class Snapshot:
    """A snapshot of a store, as files of rows."""

    folder: Path
    number: int | None
    """The last fact before the snapshot. Unknown if no facts wait to be sealed and the folder of
    segments was not given."""
    queues: int
    """Queues and notifiers that belong to services."""


def take(
    database: Path,
    folder: Path,
    *,
    journal: Path | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Snapshot:
    """Copy the data for an audit from a store, running or not, to a new folder. `progress` is
    called with the number of queues so far. The folder is made as a whole or not at all."""
    if folder.exists():
        raise StoreError(f"{folder}: it exists already; name a folder that does not")
    with _whole(folder) as part, _moment(database, journal) as (db, number):
        _write(part / "unsealed.parquet", UNSEALED, _unsealed(db, number))
        tallies = db.execute("SELECT id, count, hash FROM services ORDER BY id")
        _write(part / "tallies.parquet", TALLIES, tallies)
        queues = _write_parts(part / "queues", QUEUES, _queues(db), progress)
    return Snapshot(folder, number, queues)


def take_messages(database: Path, folder: Path, *, journal: Path) -> int:
    """Copy to a new folder which messages a store has, running or not; return the number of the
    last fact before that moment."""
    with _whole(folder) as part, _moment(database, journal) as (db, number):
        _write_parts(part / "messages", MESSAGES, _messages(db))
    assert number is not None, "the journal knows it"
    return number


@contextmanager
def _moment(
    database: Path, journal: Path | None
) -> Iterator[tuple[sqlite3.Connection, int | None]]:
    """A store at one moment, and the number of the last fact before it."""
    try:
        with closing(_connected(database)) as db:
            yield db, _begin(db, journal)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        advice = ADVICE.get(code & 0xFF, "it cannot be read")
        raise StoreError(f"{database}: {advice} ({error})") from error
    except pa.ArrowException as error:
        raise StoreError(
            f"{database}: a value cannot be read; put back a copy ({error})"
        ) from error


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder under a temporary name, which gets its own when it is complete."""
    folder.parent.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=PART, dir=folder.parent))
    try:
        yield part
        os.rename(part, folder)
    except BaseException:
        shutil.rmtree(part)
        raise


def _connected(database: Path) -> sqlite3.Connection:
    """A read-only connection to a store of this version's schema."""
    if not database.is_file():
        raise StoreError(f"{database}: there is no such store; check the path")
    db = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        [(owner,)] = db.execute("PRAGMA application_id")
        [(version,)] = db.execute("PRAGMA user_version")
        newest = migrations()[-1][0]
        if owner != APPLICATION_ID:
            raise StoreError(f"{database}: it is a database of another program; name another file")
        if version != newest:
            advice = "upgrade headgate" if version > newest else "start the router on it once"
            raise StoreError(
                f"{database}: its schema has version {version}, not {newest}; {advice}"
            )
    except BaseException:
        db.close()
        raise
    return db


def _begin(db: sqlite3.Connection, journal: Path | None) -> int | None:
    """Begin the transaction, and find the number of the last fact before it.

    It is in the outbox, unless all facts are sealed: then it is in the name of a segment, and only
    certain if no segment came while the transaction began.
    """
    while True:
        sealed = last_number(journal) if journal is not None else None
        db.execute("BEGIN")
        [(last,)] = db.execute("SELECT max(last) FROM outbox")  # from here on nothing changes
        if last is not None or journal is None:
            number: int | None = last
            return number
        if last_number(journal) == sealed:
            return sealed
        db.execute("ROLLBACK")


def _unsealed(db: sqlite3.Connection, number: int | None) -> Iterator[Row]:
    for first, blob in db.execute("SELECT first, facts FROM outbox ORDER BY first"):
        for place, fact in enumerate(decode_facts(blob), first):
            if fact[0] == ASSOCIATED:
                yield place, ASSOCIATED, fact[QUEUE], fact[SERVICE]
    yield number, None, None, None


def _queues(db: sqlite3.Connection) -> Iterator[Row]:
    """The queues by service, from the indexes of services alone. The queues of a service come
    together, so that its id is written once for all of them."""
    queues = db.execute(
        "SELECT service, id FROM queues WHERE service IS NOT NULL ORDER BY service, id"
    )
    notifiers = db.execute(
        "SELECT notifier_service, notifier FROM queues WHERE notifier_service IS NOT NULL"
        " ORDER BY notifier_service, notifier"
    )
    return ((service, name_of(id)) for service, id in chain(queues, notifiers))


def _messages(db: sqlite3.Connection) -> Iterator[Row]:
    """The messages, with the names that queues have in facts."""
    messages = db.execute(
        "SELECT queues.id, domain, messages.id, apps"
        " FROM messages JOIN queues ON number = queue LEFT JOIN holds ON holds.seq = messages.seq"
    )
    for queue, domain, message, apps in messages:
        is_shared = queue.startswith(f"bmq://{domain}/".encode())
        yield queue if is_shared else name_of(queue), message, apps or ONE_APP


def _write_parts(
    folder: Path,
    schema: pa.Schema,
    rows: Iterator[Row],
    progress: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write one file after the other; at least one, even if it is empty."""
    folder.mkdir(mode=FOLDER)
    done = part = 0
    while True:
        before = done
        for count in _written(
            folder / f"part-{part}.parquet", schema, islice(rows, PART_ROWS), done
        ):
            done = count
            progress(done)
        if done - before < PART_ROWS:
            return done
        part += 1


def _write(path: Path, schema: pa.Schema, rows: Iterable[Row]) -> None:
    for _ in _written(path, schema, iter(rows)):
        pass


def _written(path: Path, schema: pa.Schema, rows: Iterator[Row], done: int = 0) -> Iterator[int]:
    """Write the rows page by page; yield the number of rows so far after each."""
    # A digest is random: neither a dictionary nor a compressor helps.
    plain = [field.name for field in schema if field.type == DIGEST]
    others = [name for name in schema.names if name not in plain]
    compression = {name: "NONE" if name in plain else "ZSTD" for name in schema.names}
    os.close(make_file(path))
    with pq.ParquetWriter(path, schema, use_dictionary=others, compression=compression) as writer:
        while page := list(islice(rows, PAGE_ROWS)):
            columns = zip(*page, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            done += len(page)
            yield done

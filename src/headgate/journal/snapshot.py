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
UNSEALED = pa.schema(
    [
        ("number", pa.int64()),
        ("kind", pa.string()),
        ("queue", pa.binary()),
        ("service", pa.binary()),
    ]
)

PAGE_ROWS = 65_536
"""Rows in memory at a time, and in a row group of the files."""
PART_ROWS = 64 * PAGE_ROWS
"""Rows of one file of queues: 70 MB."""

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
    try:
        with _whole(folder) as part, closing(_connected(database)) as db:
            number = _begin(db, journal)
            _write(part / "unsealed.parquet", UNSEALED, _unsealed(db, number))
            tallies = db.execute("SELECT id, count, hash FROM services ORDER BY id")
            _write(part / "tallies.parquet", TALLIES, tallies)
            queues = _write_queues(part / "queues", _queues(db), progress)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        advice = ADVICE.get(code & 0xFF, "it cannot be read")
        raise StoreError(f"{database}: {advice} ({error})") from error
    except pa.ArrowException as error:
        raise StoreError(
            f"{database}: a value cannot be read; put back a copy ({error})"
        ) from error
    return Snapshot(folder, number, queues)


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


def _write_queues(folder: Path, rows: Iterator[Row], progress: Callable[[int], None]) -> int:
    """Write one file after the other; at least one, even if it is empty."""
    folder.mkdir(mode=FOLDER)
    done = part = 0
    while True:
        before = done
        for count in _written(
            folder / f"part-{part}.parquet", QUEUES, islice(rows, PART_ROWS), done
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

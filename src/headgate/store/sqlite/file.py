"""A database file that one process has to itself, used by one thread."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

import msgspec

from headgate.errors import StoreError
from headgate.store.private import FILE, FOLDER, narrow
from headgate.store.sqlite.rows import Row
from headgate.store.sqlite.sql import ROWS_MAX, STATEMENTS_CACHED, padded, text

T = TypeVar("T")

APPLICATION_ID = 0x48474154
"""The id that migration 0001 writes into the header of the file."""

CACHE_BYTES = 16 * 1024 * 1024
"""Bytes of pages that SQLite caches. Its default of 2 MB does not hold the inner pages of the
indexes of a million queues."""

ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and it goes on by itself",
    sqlite3.SQLITE_BUSY: "another program has locked it; end that program's transaction",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the rights of the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk failed; look into the system's log",
    sqlite3.SQLITE_CORRUPT: "it is damaged; put back a copy, or try the sqlite3 shell's .recover",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; name another file",
    sqlite3.SQLITE_CONSTRAINT: "the batch contradicts what is stored",
}
"""Advice by the primary code of SQLite's error."""


@dataclass(frozen=True)
class Owner:
    """The kind of program that a file belongs to: a router, or an agent."""

    name: str
    application_id: int
    """The id that its first migration writes into the header of the file."""
    package: str
    """The package with its folder of migrations."""


ROUTER = Owner("router", APPLICATION_ID, "headgate.store")


def migrations(owner: Owner = ROUTER) -> list[tuple[int, str]]:
    """The steps from an empty file to the newest schema: version and script, in order."""
    folder = resources.files(owner.package) / "migrations"
    return sorted(
        (int(file.name[:4]), file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sqlite.sql")
    )


def lock_of(path: Path) -> Path:
    """The lock file of a database, which names the process that uses it."""
    return path.with_name(path.name + ".lock")


class File:
    """The SQLite file: opened, brought up to date, and used by one thread.

    Owned by the store. No other process writes to it: a lock beside it sees to that.
    """

    def __init__(self, path: Path, busy_seconds: float, owner: Owner = ROUTER) -> None:
        self.path = path
        self.owner = owner
        self.statements = 0
        self._busy_seconds = busy_seconds
        self._db: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._guard: int | None = None
        self._file: os.stat_result | None = None

    def open(self) -> None:
        try:
            _make_folder(self.path.parent)
            self._lock = self._locked()
            # Only the owner may read messages; SQLite gives its other files the same rights. A
            # restored copy may have others.
            self._guard = os.open(self.path, os.O_RDWR | os.O_CREAT, FILE)
            narrow(*(self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm")))
            self._claim(self._lock, self._guard)
            self._file = os.fstat(self._guard)
            self._db = sqlite3.connect(
                self.path,
                timeout=self._busy_seconds,
                isolation_level=None,  # transactions are explicit
                cached_statements=STATEMENTS_CACHED,
            )
            self.run(self._prepare)
        except OSError as error:
            self.close()
            raise StoreError(
                f"{self.path}: it cannot be opened; check the rights of the file and its folder"
                f" ({error})"
            ) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._db is not None:
            # A checkpoint that fails loses nothing: the next open finds the log.
            with suppress(sqlite3.Error):
                self.all("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()
            self._db = None
        # After SQLite has closed it: when a process closes any descriptor of a file, all of
        # SQLite's locks on it are lost.
        for descriptor in (self._lock, self._guard):
            if descriptor is not None:
                os.close(descriptor)
        self._lock = self._guard = None

    def run(self, job: Callable[[], T]) -> T:
        """Do a job; every failure is an error with advice."""
        try:
            return job()
        except sqlite3.Error as error:
            raise self._failure(error) from error
        except (OverflowError, ValueError, msgspec.MsgspecError) as error:
            raise StoreError(f"{self.path}: a value cannot be stored or read: {error}") from error

    def probe(self) -> None:
        """Check that the file is the one that was opened, and can be read."""
        self._check_file()
        self._connection.execute("PRAGMA schema_version").fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._check_file()
        self.all("BEGIN IMMEDIATE")
        try:
            yield
            self.all("COMMIT")
        except BaseException:
            # SQLite has already rolled back after some errors; then this does nothing.
            self._connection.rollback()
            raise

    def all(self, question: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Row]:
        self.statements += 1
        return self._connection.execute(question, values).fetchall()

    def ask(self, question: str, rows: Iterable[Row], *more: object) -> list[Row]:
        """The answers to a question about these rows, all of the same width.

        A list: a cursor left half read, because a row cannot be decoded, would keep its view of the
        log open and be freed in another thread.
        """
        answers: list[Row] = []
        wanted = list(rows)
        for start in range(0, len(wanted), ROWS_MAX):
            chunk = wanted[start : start + ROWS_MAX]
            width, length = len(chunk[0]), padded(len(chunk))
            values = [item for row in chunk for item in row]
            values += [None] * (width * length - len(values))
            answers += self.all(text(question, width, length), [*values, *more])
        return answers

    def many(self, change: str, rows: Iterable[Row]) -> int:
        """Change these rows; return how many were changed."""
        self.statements += 1
        return self._connection.executemany(change, rows).rowcount

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._db is not None, "a job in a store that is not open"
        return self._db

    def _failure(self, error: sqlite3.Error) -> StoreError:
        # Errors of the sqlite3 module itself carry no code.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        advice = ADVICE.get(code & 0xFF)  # the rest of the code distinguishes kinds of one error
        return StoreError(f"{self.path}: {advice} ({error})" if advice else f"{self.path}: {error}")

    def _locked(self) -> int:
        """A descriptor of the lock file. The system drops its lock with the process, however that
        ends."""
        lock = os.open(lock_of(self.path), os.O_RDWR | os.O_CREAT, FILE)
        try:
            self._claim(lock, lock)
        except StoreError:
            os.close(lock)
            raise
        return lock

    def _claim(self, lock: int, descriptor: int) -> None:
        """Lock the lock file and write the process into it. The database is locked too; otherwise,
        if the lock file were deleted, two processes could lock two files. It comes second: a
        refused process must not have opened it, see `close`. It is another kind of lock than
        SQLite's, so neither disturbs the other."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = os.pread(lock, 20, 0).decode() or "unknown"
            raise StoreError(
                f"{self.path}: another {self.owner.name} uses it (process {process});"
                " stop that one or name another file"
            ) from None
        if descriptor != lock:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)

    def _prepare(self) -> None:
        """Check whose file it is before anything is written to it; then migrate."""
        steps = migrations(self.owner)
        newest = steps[-1][0]
        version = self._number("PRAGMA user_version")
        if self._number("PRAGMA application_id") != self.owner.application_id and (
            version or self._number("SELECT count(*) FROM sqlite_master")
        ):
            raise StoreError(f"{self.path}: it is a database of another program; name another file")
        if version > newest:
            raise StoreError(
                f"{self.path}: its schema has version {version}, this headgate knows versions"
                f" up to {newest}; upgrade headgate"
            )
        self._make_durable()
        # Debian's SQLite overwrites all deleted data, which writes a long body twice. FAST
        # overwrites it only where the page is written anyway.
        self.all("PRAGMA secure_delete = FAST")
        self.all(f"PRAGMA cache_size = -{CACHE_BYTES // 1024}")
        for step, script in steps:
            if step > version:
                self._migrate(step, script)

    def _make_durable(self) -> None:
        """Have each COMMIT survive the process and the machine."""
        if self.all("PRAGMA journal_mode = WAL") != [("wal",)]:
            raise StoreError(f"{self.path}: its file system has no shared memory; move it")
        self.all("PRAGMA synchronous = FULL")

    def _migrate(self, version: int, script: str) -> None:
        self.statements += 1
        try:
            # In one text: executescript() would commit a transaction begun outside of it.
            self._connection.executescript(
                f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {version};\nCOMMIT;"
            )
        except sqlite3.Error:
            self._connection.rollback()
            raise

    def _number(self, question: str) -> int:
        number: int = self.all(question)[0][0]
        return number

    def _check_file(self) -> None:
        """Check that the file is still in its place: SQLite goes on writing to a deleted or moved
        one, and its receipts would be worthless."""
        assert self._file is not None, "apply() before open()"
        try:
            same = os.path.samestat(self._file, os.stat(self.path))
        except OSError as error:
            raise StoreError(f"{self.path}: the file is gone; put it back ({error})") from error
        if not same:
            raise StoreError(
                f"{self.path}: another file took its place; restart the {self.owner.name}"
            )


def _make_folder(folder: Path) -> None:
    """Make a folder with its parents. SQLite syncs the folder of its files; a new folder is itself
    an entry of its parent, which must be on the disk too."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=FOLDER, exist_ok=True)
    above = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)

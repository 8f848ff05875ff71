"""One connection to one database: the only one of its shard, and made again when it is lost.

A lock of the session keeps other routers out. It has a second use: the server releases it when the
process behind a connection has ended, with all of its work. So when a new connection has the lock,
no work of a lost one is still under way.

Each transaction raises the shard's mark by one. If the connection is lost at COMMIT, the mark that
the next connection finds shows whether the batch was applied. And if another program wrote
meanwhile, the mark is not the expected one, and this router, whose memory is out of date then,
stops using the store.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper

from headgate.errors import ConfigError, StoreError
from headgate.store.postgres.advice import describe
from headgate.store.postgres.schema import ROUTER, SchemaOwner, prepare
from headgate.store.urls import without_secrets

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Connection: TypeAlias = psycopg.Connection[Row]

RECONNECT_PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds between attempts to reach the server again. Jobs under way wait for it."""

LOCK_SECONDS = 3.0
"""Seconds for the server to notice that the previous owner of the lock is gone."""
LOCK_PAUSE = 0.05

OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,
    # A server that vanished silently is noticed within seconds, not hours.
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "target_session_attrs": "read-write",
}
"""Options of a connection, unless the URL sets others."""

# Plans are made once for arrays of any length, at a time when a table may be empty: without these
# settings they would read whole tables when there are a million rows. And 32 MB hold the arrays of
# a full turn, which would go through a file otherwise.  The others concern connections whose other
# end vanished: the server notices too, and releases their locks.
SETTINGS = """
SET search_path = {schema};
SET statement_timeout = {milliseconds};
SET idle_in_transaction_session_timeout = {milliseconds};
SET default_transaction_isolation = 'read committed';
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET work_mem = '32MB';
SET client_min_messages = error;
SET client_connection_check_interval = 2000;
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3
"""

WHO = """
SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()
"""

# The number of a process may be used again, hence the time.
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"

OWNER = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


CHANGED = "another {owner} wrote to it, or it was put back to an earlier state"


class Lost(Exception):
    """The connection was lost, and nothing was changed."""


class Database:
    """A connection with a PostgreSQL database: opened, brought up to date, asked and changed.

    Owned by the store, and used by its one thread. Every failure is a `StoreError`.
    """

    def __init__(
        self, url: str, shard: int, statement_seconds: float, owner: SchemaOwner = ROUTER
    ) -> None:
        self.name = without_secrets(url)
        self.statements = 0
        self._shard = shard
        self._owner = owner
        self._settings = SETTINGS.format(
            schema=owner.schema, milliseconds=int(statement_seconds * 1000)
        )
        self._options = OPTIONS | options(url)
        self._db: Connection | None = None
        self._backends: list[Row] = []
        """The server's processes behind our connections, one of which may have the lock."""
        self._mark = 0
        """Number of the last applied batch."""
        self._unsettled = False
        """Whether there was one more, of which it is unknown whether it was applied."""
        self._stale: str | None = None
        """The reason why the router's memory does not match the store."""

    def open(self) -> None:
        """Connect, check whose schema it is, and bring it up to date."""
        self._mark = self._connect((), self._prepare)
        self._stale, self._unsettled = None, False

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        self._backends = []

    def run(self, job: Callable[[], T]) -> T:
        """Do a job that reads, or one that is a `transaction`; once more if the connection is lost
        and nothing was changed."""
        try:
            try:
                self._ready()
                return job()
            except Lost:
                self._ready()
                return job()
        except Lost as lost:
            raise StoreError(
                f"{self.name}: the connection was lost, and nothing was done ({lost})"
            ) from lost
        except psycopg.Error as error:
            raise StoreError(describe(self.name, error)) from error

    def ask(self, text: str, *values: object) -> list[Row]:
        return self._execute(text, values).fetchall()

    def change(self, text: str, *values: object) -> int:
        """Change rows; return how many were changed."""
        return self._execute(text, values).rowcount

    def change_many(self, text: str, rows: Sequence[Row]) -> int:
        """Make one change with each of these rows, in one round trip."""
        return self._checked(lambda db: _change_many(db, text, rows))

    def probe(self) -> None:
        """Check that the server answers. Part of a job, which has checked the connection."""
        self._execute("SELECT")
        self.statements -= 1

    def transaction(self, work: Callable[[], None]) -> None:
        """Do the work and commit it, or leave no trace. Part of a job."""
        mark = self._mark + 1
        try:
            self._begin(mark)
            work()
        except BaseException:
            if self._db is not None:
                with suppress(Lost, psycopg.Error):
                    self._execute("ROLLBACK")
            raise
        try:
            ended = self._execute("COMMIT").statusmessage
            assert ended == "COMMIT", f"a transaction ended in {ended}"
        except Lost as lost:
            self._settle(mark, lost)
        self._mark = mark

    def _begin(self, mark: int) -> None:
        """Begin a transaction and raise the mark in one text, since each takes a round trip."""
        cursor = self._execute(
            f"BEGIN; UPDATE marks SET number = {mark:d}"
            f" WHERE shard = {self._shard:d} AND number = {mark - 1:d}"
        )
        cursor.nextset()
        if cursor.rowcount != 1:
            self._refuse(CHANGED)

    def _settle(self, mark: int, lost: Lost) -> None:
        """Return if the batch was applied; raise `Lost` if it was not."""
        self._unsettled = True
        try:
            found = self._connect(RECONNECT_PAUSES)
        except StoreError as error:
            raise StoreError(
                f"{self.name}: the connection was lost while a batch was committed,"
                f" and it is not known whether it was done ({lost}; {error})"
            ) from error
        self._unsettled = False
        if found == mark - 1:
            raise lost
        if found != mark:
            self._refuse(CHANGED)

    def _ready(self) -> None:
        """Have a connection, and the store as this router left it."""
        if self._stale is not None:
            raise StoreError(self._stale)
        if self._db is not None:
            return
        found = self._connect(RECONNECT_PAUSES)
        if found == self._mark + 1 and self._unsettled:
            self._refuse("a batch of unknown outcome was done after all")
        if found != self._mark:
            self._refuse(CHANGED)
        self._unsettled = False

    def _refuse(self, why: str) -> None:
        """Refuse all further jobs: the router's memory does not match the store, which another may
        own."""
        name = self._owner.name
        self._stale = f"{self.name}: {why.format(owner=name)}; restart the {name}"
        self.close()
        raise StoreError(self._stale)

    def _execute(self, text: str, values: Sequence[object] = ()) -> psycopg.Cursor[Row]:
        """Carry out SQL. With values it is prepared; without, it may be several statements."""
        return self._checked(
            lambda db: db.cursor(binary=bool(values)).execute(
                text, values or None, prepare=bool(values)
            )
        )

    def _checked(self, statement: Callable[[Connection], T]) -> T:
        """Carry out a statement; raise `Lost` if the connection was."""
        assert self._db is not None, "a statement without a connection"
        self.statements += 1
        try:
            return statement(self._db)
        except psycopg.Error as error:
            if not _is_lost(self._db, error):
                raise
            self._let_go(self._db)
            raise Lost(str(error).strip()) from error

    def _let_go(self, db: Connection) -> None:
        """Drop a lost connection."""
        db.close()
        self._db = None

    def _connect(
        self,
        pauses: Sequence[float],
        prepare: Callable[[Connection], None] = lambda db: None,
    ) -> int:
        """Connect and take the lock; return the mark. After each failure there is a pause, and
        after the last a `StoreError`."""
        for pause in (*pauses, None):
            db: Connection | None = None
            try:
                db = self._new_connection()
                found = self._take(db, prepare)
            except psycopg.OperationalError as error:
                drop(db)
                if pause is None:
                    raise StoreError(describe(self.name, error)) from error
                time.sleep(pause)
            except psycopg.Error as error:
                drop(db)
                raise StoreError(describe(self.name, error)) from error
            except BaseException:
                drop(db)
                raise
            else:
                self._db = db
                return found
        raise AssertionError("unreachable")

    def _new_connection(self) -> Connection:
        return psycopg.connect(**self._options, autocommit=True, prepare_threshold=None)

    def _prepare(self, db: Connection) -> None:
        """The work of the first connection when it has the lock."""
        prepare(db, self.name, self._shard, self._owner)

    def _set_up(self, db: Connection) -> Row:
        """Configure a connection; return the server's process behind it, and its start."""
        db.adapters.register_dumper(int, Int8BinaryDumper)
        db.execute(self._settings)
        [backend] = db.execute(WHO).fetchall()
        return backend

    def _take(self, db: Connection, prepare: Callable[[Connection], None]) -> int:
        backend = self._set_up(db)
        for old in self._backends:
            db.execute(END, old)
        self._backends.append(backend)
        self._lock(db)
        self._backends = [backend]
        prepare(db)
        found = db.execute("SELECT number FROM marks WHERE shard = %b", (self._shard,)).fetchall()
        if not found:
            raise StoreError(f"{self.name}: its schema was emptied; restart the {self._owner.name}")
        number: int = found[0][0]
        return number

    @property
    def _key(self) -> tuple[int, int]:
        return self._owner.key, self._shard

    def _try_lock(self, db: Connection) -> bool:
        tried = db.execute("SELECT pg_try_advisory_lock(%b::int4, %b::int4)", self._key)
        return tried.fetchall() == [(True,)]

    def _lock(self, db: Connection) -> None:
        end = time.monotonic() + LOCK_SECONDS
        key = self._key
        while not self._try_lock(db):
            if time.monotonic() > end:
                self._backends.pop()
                owners = ", ".join(owner for (owner,) in db.execute(OWNER, key).fetchall())
                raise StoreError(
                    f"{self.name}: another {self._owner.name} uses it ({owners or 'unknown'});"
                    " stop that one or name another database"
                )
            time.sleep(LOCK_PAUSE)


def options(url: str) -> dict[str, Any]:
    """The options in the URL. Errors do not quote it: it may have the password in it."""
    try:
        found: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        raise ConfigError(
            f"store {without_secrets(url)!r} is not of the form postgresql://USER:PASSWORD@HOST/DATABASE;"
            " what is not a letter or a digit in a password is written as %XX"
        ) from None
    return {
        "application_name": f"headgate on {socket.gethostname()}, process {os.getpid()}"
    } | found


def _change_many(db: Connection, text: str, rows: Sequence[Row]) -> int:
    cursor = db.cursor()
    cursor.executemany(text, rows)
    return cursor.rowcount


def _is_lost(db: Connection, error: psycopg.Error) -> bool:
    # An error of the server has a code, one of the connection has none.
    return db.closed or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None)


def drop(db: Connection | None) -> None:
    if db is not None:
        db.close()

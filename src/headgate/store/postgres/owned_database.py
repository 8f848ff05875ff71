"""The database of a router: owned by one at a time, with others waiting.

The lock of `Database` determines the owner. This adds what others have to know of the owner: the
number of its term, its timeout, and its address. A router that takes the database over raises the
mark first, so that no statement of an older connection is ever applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg

from headgate.errors import StoreError
from headgate.store.ownership import RELEASED, Candidate, Holder, Move, Ownership, Taken
from headgate.store.postgres.advice import describe
from headgate.store.postgres.database import END, Connection, Database, Row, drop

HOLDER = """
SELECT application_name, pid, backend_start, state_change,
    coalesce(state = 'active' AND wait_event_type IS DISTINCT FROM 'Client', false)
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

HAS_OWNERS = "SELECT to_regclass('{schema}.owners') IS NOT NULL"

KNOWN = """
SELECT number, sealed, term, name, seconds, fingerprint
FROM marks LEFT JOIN owners USING (shard) WHERE shard = %s
"""

RAISE = "UPDATE marks SET number = number + 1 WHERE shard = %s"

TAKE = """
INSERT INTO owners (shard, term, name, seconds, fingerprint) VALUES (%s, 1, %s, %s, %s)
ON CONFLICT (shard) DO UPDATE
SET term = owners.term + 1, name = excluded.name, since = now(), seconds = excluded.seconds,
    fingerprint = excluded.fingerprint
RETURNING term
"""

RELEASE = "UPDATE owners SET seconds = %s WHERE shard = %s AND term = %s"

TERM = "SELECT term FROM {schema}.owners WHERE shard = %s"

TAKEN_OVER = "another {owner} has taken it over"


class Unreachable(StoreError):
    """The server does not answer a waiting router; it may do so later."""


class OwnedDatabase(Database):
    """A database that one router at a time may change, and that another may take over.

    Owned by the store, and used by its one thread, except for `current_term`. A router whose term
    is over cannot commit.
    """

    def __init__(
        self, url: str, shard: int, statement_seconds: float, ownership: Ownership | None
    ) -> None:
        super().__init__(url, shard, statement_seconds)
        self._ownership = ownership
        self._term = 0
        self._waiting: Connection | None = None
        """Whether another router has the lock."""
        self._backend: Row = ()
        """The server's process behind the waiting connection."""
        self._compared: bytes | None = None
        """The fingerprint that was found to be ours."""
        self._candidate = Candidate(self._now)

    def close(self) -> None:
        self._release()
        drop(self._waiting)
        self._waiting = None
        if self._ownership is not None:
            self._ownership.socket = None
        super().close()

    def _release(self) -> None:
        """Record the orderly end, so that waiting routers need not wait for the timeout."""
        if self._db is not None and self._ownership is not None and self._stale is None:
            with suppress(psycopg.Error):
                self._db.execute(RELEASE, (RELEASED, self._shard, self._term))

    # Becoming the owner.

    def claim(self) -> bool:
        """Try once; return whether it is ours now. A silent owner may be ended."""
        ownership = self._ownership
        assert ownership is not None, "who waits knows whom for"
        try:
            db = self._waiting
            if db is None:
                db = self._wait()
            at = self._now()
            holder, left = self._look(db, ownership)
            move = self._candidate.decide(holder, left)
            if move is Move.END and holder is not None:
                db.execute(END, holder.backend)
            if move is Move.TAKE and self._try_lock(db):
                self._waiting = None
                self._accede(db, at)
                return True
        except psycopg.Error as error:
            drop(self._waiting)
            self._waiting = None
            kind = Unreachable if isinstance(error, psycopg.OperationalError) else StoreError
            raise kind(describe(self.name, error)) from error
        except BaseException:
            drop(self._waiting)
            self._waiting = None
            raise
        return False

    def _wait(self) -> Connection:
        """A connection to wait with."""
        db = self._new_connection()
        try:
            self._backend = self._set_up(db)
        except BaseException:
            db.close()
            raise
        self._candidate.connected()
        self._waiting = db
        return db

    def _accede(self, db: Connection, at: float) -> None:
        """Become the owner with the lock: record it, then use the connection."""
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        self._backends = [self._backend]
        self._db = db
        self._stale, self._unsettled = None, False
        self._adopt(db, at)

    def _prepare(self, db: Connection) -> None:
        super()._prepare(db)
        ownership = self._ownership
        with db.transaction():
            [(mark, sealed, _, name, _, known)] = db.execute(KNOWN, (self._shard,)).fetchall()
            if ownership is not None:
                known = ownership.identify(known, True)
            db.execute(RAISE, (self._shard,))
            own = self._options["application_name"].encode()
            seconds = None if ownership is None else ownership.timeout
            [(self._term,)] = db.execute(TAKE, (self._shard, own, seconds, known)).fetchall()
        self._mark = mark + 1
        if ownership is not None:
            ownership.taken = Taken(
                name=self._options["application_name"],
                term=self._term,
                reason=self._candidate.reason,
                previous=(name or b"").decode(errors="replace"),
                waited=self._candidate.waited,
                mark=mark,
                expected=ownership.mark,
                sealed=sealed,
            )
            ownership.mark, ownership.rival = self._mark, ""

    def _look(self, db: Connection, ownership: Ownership) -> tuple[Holder | None, float | None]:
        """The owner, if any, and the seconds of silence after which it may be ended."""
        found = db.execute(HOLDER, self._key).fetchall()
        timeout = self._known(db, ownership)
        if not found:
            return None, timeout
        name, *backend, changed, works = found[0]
        ownership.rival = name or "a connection of another role"
        return Holder(ownership.rival, tuple(backend), changed, works, timeout), timeout

    def _known(self, db: Connection, ownership: Ownership) -> float | None:
        """The record of the owner: the seconds of silence after which it may be ended."""
        if db.execute(HAS_OWNERS.format(schema=self._owner.schema)).fetchall() != [(True,)]:
            return None  # an older version has it
        known = db.execute(KNOWN, (self._shard,)).fetchall()
        if not known:
            return None
        mark, _, _, name, seconds, fingerprint = known[0]
        if name is not None and not ownership.rival:
            ownership.rival = f"{name.decode(errors='replace')}, which ended without a word"
        if fingerprint not in (None, self._compared):
            ownership.identify(fingerprint, False)
            self._compared = fingerprint
        ownership.mark = max(ownership.mark, mark)
        found: float | None = seconds
        return found

    # Staying the owner.

    def current_term(self) -> int | None:
        """The number of the present term, on a new connection; None if it cannot be read."""
        try:
            with psycopg.connect(**self._options, autocommit=True) as db:
                return self._found_term(db)
        except psycopg.Error:
            return None

    def _found_term(self, db: Connection) -> int | None:
        found = db.execute(TERM.format(schema=self._owner.schema), (self._shard,)).fetchall()
        return found[0][0] if found else None

    def probe(self) -> None:
        sent = self._now()
        super().probe()
        self._hear(sent)

    def transaction(self, work: Callable[[], None]) -> None:
        sent = self._now()
        super().transaction(work)
        self._hear(sent)
        if self._ownership is not None:
            self._ownership.mark = self._mark

    def _now(self) -> float:
        return 0.0 if self._ownership is None else self._ownership.clock()

    def _hear(self, sent: float) -> None:
        """Note the answer to a statement sent at this time. Only the statements that end a turn and
        those sent for this purpose count, which is enough."""
        if self._ownership is not None:
            self._ownership.heard = max(self._ownership.heard, sent)

    def _let_go(self, db: Connection) -> None:
        if self._ownership is not None:
            self._ownership.socket = None
        super()._let_go(db)

    def _connect(
        self,
        pauses: Sequence[float],
        prepare: Callable[[Connection], None] = lambda db: None,
    ) -> int:
        at = self._now()
        found = super()._connect(pauses, prepare)
        assert self._db is not None, "connected"
        self._adopt(self._db, at)
        return found

    def _adopt(self, db: Connection, at: float) -> None:
        """Tell the loop of the connection, which was heard then."""
        self._hear(at)
        if self._ownership is not None:
            self._ownership.socket = db.fileno()

    def _lock(self, db: Connection) -> None:
        # A former owner finds out at once that its term is over.
        if self._ownership is not None and self._term and self._found_term(db) != self._term:
            self._backends.pop()
            self._refuse(TAKEN_OVER)
        super()._lock(db)

    def _refuse(self, why: str) -> None:
        if self._ownership is not None:
            self._ownership.lost = why.format(owner=self._owner.name)
        super()._refuse(why)

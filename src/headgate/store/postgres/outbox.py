"""The outbox of a database as the sealer reads it: through a connection of its own."""

from __future__ import annotations

import psycopg

from headgate.errors import StoreError
from headgate.store.postgres.advice import describe
from headgate.store.postgres.database import OPTIONS, options
from headgate.store.postgres.schema import ROUTER
from headgate.store.urls import without_secrets

ROWS_FETCHED = 32
"""Rows fetched at a time: one has the facts of a turn and may be long."""

STATEMENT_MILLISECONDS = 30_000

ROWS = """
SELECT first, last, facts FROM {schema}.outbox
WHERE first > %b::int8 AND last <= %b::int8 ORDER BY first
"""


class PostgresOutbox:
    """Reads only, and never more than requested: an outbox may be larger than memory."""

    def __init__(self, url: str, schema: str = ROUTER.schema) -> None:
        self._rows = ROWS.format(schema=schema)
        self._name = without_secrets(url)
        try:
            self._db = psycopg.connect(**(OPTIONS | options(url)))
            self._db.execute(
                "SELECT set_config('statement_timeout', %s, false)", (str(STATEMENT_MILLISECONDS),)
            )
            self._db.commit()
        except psycopg.Error as error:
            raise StoreError(describe(self._name, error)) from error

    def rows(self, after: int, upto: int, bytes_max: int) -> list[tuple[int, int, bytes]]:
        """First number, last number and facts of rows, until there are enough bytes."""
        rows: list[tuple[int, int, bytes]] = []
        size = 0
        try:
            with self._db.transaction(), self._db.cursor("outbox", binary=True) as cursor:
                cursor.itersize = ROWS_FETCHED
                for first, last, facts in cursor.execute(self._rows, (after, upto)):
                    rows.append((first, last, facts))
                    size += len(facts)
                    if size >= bytes_max:
                        break
        except psycopg.Error as error:
            raise StoreError(describe(self._name, error)) from error
        return rows

    def close(self) -> None:
        self._db.close()

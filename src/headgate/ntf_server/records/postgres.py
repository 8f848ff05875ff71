"""The tables in a PostgreSQL database, in a schema of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import psycopg

from headgate.errors import StoreError
from headgate.ntf_server.records.places import SCHEMA
from headgate.ntf_server.records.tables import IDS, Row
from headgate.store.postgres.advice import describe
from headgate.store.postgres.database import Database, Lost
from headgate.store.postgres.schema import SchemaOwner

NTF_SCHEMA: Final = SchemaOwner(
    "notification server", SCHEMA, 0x48474E54, "headgate.ntf_server.records"
)
SHARD: Final = 0
"""All is in one."""
STATEMENT_SECONDS: Final = 30.0


class NtfDatabase:
    """A database. If the connection is lost at COMMIT, it is found out whether that was done."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._database = Database(url, SHARD, STATEMENT_SECONDS, NTF_SCHEMA)

    @property
    def name(self) -> str:
        return self._database.name

    @property
    def statements(self) -> int:
        return self._database.statements

    def open(self) -> None:
        self._database.open()

    def close(self) -> None:
        self._database.close()

    def look(self, work: Callable[[], None]) -> None:
        self._database.run(work)

    def commit(self, work: Callable[[], None]) -> None:
        self._database.run(lambda: self._database.transaction(work))

    def probe(self) -> None:
        self._database.probe()

    def do(self, statement: str) -> None:
        self._database.change(statement)

    def ask(self, question: str, values: Sequence[object]) -> list[Row]:
        return self._database.ask(translated(question), *values)

    def ask_about(self, question: str, ids: Sequence[bytes], values: Sequence[object]) -> list[Row]:
        return self._database.ask(translated(question), *values, list(ids))

    def change_many(self, change: str, rows: Sequence[Row]) -> int:
        text = translated(change)
        if len(rows) == 1:
            return self._database.change(text, *rows[0])
        return self._database.change_many(text, rows)

    def described(self, error: Exception) -> Exception:
        if isinstance(error, Lost):
            # The job did nothing wrong; it is done again on another connection.
            raise error
        described: Exception
        if isinstance(error, psycopg.Error):
            described = StoreError(describe(self.name, error))
        elif isinstance(error, OverflowError):
            described = StoreError(f"{self.name}: a number is too large to be stored")
        else:
            return error
        described.__cause__ = error
        return described


@cache
def translated(text: str) -> str:
    return text.replace(IDS, "= ANY(?)").replace("?", "%b")

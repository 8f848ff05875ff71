"""A look into the tables of a database, through a connection that only reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from headgate.errors import StoreError
from headgate.ntf_server.records.places import SCHEMA
from headgate.ntf_server.records.postgres import NTF_SCHEMA, SHARD, NtfDatabase, translated
from headgate.ntf_server.records.tables import Row
from headgate.ntf_server.records.view import UPGRADE
from headgate.store.postgres.advice import describe
from headgate.store.postgres.database import OPTIONS, OWNER, options
from headgate.store.postgres.schema import migrations
from headgate.store.schema_version import check_viewed

BEGIN = f"""
SET search_path = {SCHEMA};
SET statement_timeout = '60s';
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
"""


class ViewedNtfDatabase(NtfDatabase):
    """The database, opened to be read. It takes no lock, so a server may have it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._options: dict[str, Any] = OPTIONS | options(url) | {"target_session_attrs": "any"}
        self._db: psycopg.Connection[Row] | None = None

    def is_used(self) -> bool:
        """Whether a server has the lock of the database; it is looked for and not taken."""
        try:
            with psycopg.connect(**self._options, autocommit=True) as db:
                return bool(db.execute(OWNER, (NTF_SCHEMA.key, SHARD)).fetchall())
        except psycopg.Error as error:
            raise StoreError(describe(self.name, error)) from error

    def open(self) -> None:
        try:
            self._db = psycopg.connect(**self._options, autocommit=True)
            self._db.execute(BEGIN)
            if self.ask(f"SELECT to_regclass('{SCHEMA}.version')::text", ()) == [(None,)]:
                raise StoreError(
                    f"{self.name}: it has no schema {SCHEMA} yet; `{UPGRADE}` makes it"
                )
            [(version,)] = self.ask("SELECT max(number) FROM version", ())
        except psycopg.Error as error:
            self.close()
            raise StoreError(describe(self.name, error)) from error
        except BaseException:
            self.close()
            raise
        check_viewed(self.name, version, migrations(NTF_SCHEMA)[-1][0], UPGRADE)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def ask(self, question: str, values: Sequence[object]) -> list[Row]:
        assert self._db is not None, "a question to a database that is not open"
        try:
            cursor = self._db.cursor(binary=bool(values))
            return cursor.execute(translated(question), values or None).fetchall()
        except psycopg.Error as error:
            raise StoreError(describe(self.name, error)) from error

    def ask_about(self, question: str, ids: Sequence[bytes], values: Sequence[object]) -> list[Row]:
        return self.ask(question, [*values, list(ids)])

"""A file whose tables are changed by the jobs of a `Writer`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress

from headgate.errors import StoreError
from headgate.store.sqlite.file import File


class JobFile(File):
    """The file, as a `store.writer.Writer` uses it."""

    def look(self, work: Callable[[], None]) -> None:
        work()

    def commit(self, work: Callable[[], None]) -> None:
        """Do the work in a transaction, in the file that was opened only."""
        self._check_file()
        self.all("BEGIN IMMEDIATE")
        try:
            work()
            self.all("COMMIT")
        except BaseException:
            # SQLite may have rolled back already; then this does nothing. If it fails, the disk
            # does, and the next transaction will report that.
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise

    def do(self, statement: str) -> None:
        self.all(statement)

    def insert(self, insert: str, values: Sequence[object]) -> int:
        """Insert one row; return its number."""
        self.statements += 1
        return self._connection.execute(insert, values).lastrowid or 0

    def described(self, error: Exception) -> Exception:
        described: Exception
        if isinstance(error, sqlite3.Error):
            described = self._failure(error)
        elif isinstance(error, OverflowError):
            described = StoreError(f"{self.path}: a number is too large to be stored")
        else:
            return error
        described.__cause__ = error
        return described

"""The outbox of an SQLite file as the sealer reads it: through a connection of its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from headgate.errors import StoreError

ROWS = "SELECT first, last, facts FROM outbox WHERE first > ? AND last <= ? ORDER BY first"


class SqliteOutbox:
    """The outbox in an SQLite file, as the sealer reads it beside the router that writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def rows(self, after: int, upto: int, bytes_max: int) -> list[tuple[int, int, bytes]]:
        """First number, last number and facts of rows, until there are enough bytes."""
        rows: list[tuple[int, int, bytes]] = []
        size = 0
        try:
            for first, last, facts in self._db.execute(ROWS, (after, upto)):
                rows.append((first, last, facts))
                size += len(facts)
                if size >= bytes_max:
                    break
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return rows

    def close(self) -> None:
        self._db.close()

    def _failure(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"{self._path}: it cannot be read ({error})")

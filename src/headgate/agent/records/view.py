"""A look into an agent's file, also while an agent uses it: nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from headgate.agent.records.database import Database
from headgate.agent.records.file import AgentFile
from headgate.errors import StoreError
from headgate.store.sqlite.file import migrations


class ViewedFile(AgentFile):
    """The file, opened to be read. It takes no lock, so an agent may have it."""

    def open(self) -> None:
        self.run(self._connect)
        try:
            self.run(self._prepare)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _connect(self) -> None:
        where = f"file:{quote(str(self.path))}?mode=ro"
        self._db = sqlite3.connect(
            where, uri=True, timeout=self._busy_seconds, isolation_level=None
        )

    def _prepare(self) -> None:
        """See that it is an agent's, of the schema that is known, and read one moment of it."""
        self.all("BEGIN")
        if self._number("PRAGMA application_id") != self.owner.application_id:
            raise StoreError(f"{self.path}: it is no file of an agent; name another file")
        newest = migrations(self.owner)[-1][0]
        version = self._number("PRAGMA user_version")
        if version > newest:
            raise StoreError(
                f"{self.path}: its schema has version {version}, this headgate knows versions"
                f" up to {newest}; upgrade headgate"
            )
        if version < newest:
            raise StoreError(
                f"{self.path}: an older headgate wrote it; open it once with this one, for example"
                " with `headgate agent listen`"
            )


@contextmanager
def view(path: Path) -> Iterator[Database]:
    """The tables as they are now. Raises `StoreError` if there is no such file or it is no
    agent's."""
    file = ViewedFile(path)
    file.open()
    try:
        yield Database(file)
    finally:
        file.close()

"""A file that is read, also while its owner uses it, and never written."""

from __future__ import annotations

import sqlite3
from typing import ClassVar
from urllib.parse import quote

from headgate.errors import StoreError
from headgate.store.schema_version import check_viewed
from headgate.store.sqlite.file import migrations
from headgate.store.sqlite.job_file import JobFile


class ViewedFile(JobFile):
    """The file of a program, opened for reading; a mixin for files. It takes no lock, so the
    program may use it, and all reads see one moment."""

    upgrade: ClassVar[str]
    """The command that brings an older file up to date."""

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
        """Check the file's owner and schema, and fix the moment that is read."""
        self.all("BEGIN")
        if self._number("PRAGMA application_id") != self.owner.application_id:
            name = self.owner.name
            whose = f"an {name}" if name[0] in "aeiou" else f"a {name}"
            raise StoreError(f"{self.path}: it is no file of {whose}; name another file")
        newest = migrations(self.owner)[-1][0]
        version = self._number("PRAGMA user_version")
        check_viewed(str(self.path), version, newest, self.upgrade)

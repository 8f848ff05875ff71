"""A look into the records, also while a server uses them: nothing is written, and what is read is
of one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from headgate.errors import StoreError
from headgate.ntf_server.records.places import open_place
from headgate.ntf_server.records.sqlite import NtfFile
from headgate.ntf_server.records.tables import Place, Tables
from headgate.server.state_directory import is_locked
from headgate.store.sqlite.file import lock_of, migrations


class ViewedNtfFile(NtfFile):
    """The file, opened to be read. It takes no lock, so a server may have it."""

    def open(self) -> None:
        if not self.path.exists():
            raise StoreError(
                f"{self.path}: there is no such file yet; `headgate ntf serve` makes it"
            )
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
        self.all("BEGIN")
        if self._number("PRAGMA application_id") != self.owner.application_id:
            raise StoreError(f"{self.path}: it is no file of a notification server; name another")
        check_version(
            str(self.path), self._number("PRAGMA user_version"), migrations(self.owner)[-1][0]
        )


def check_version(name: str, version: int, known: int) -> None:
    if version > known:
        raise StoreError(
            f"{name}: its schema has version {version}, this headgate knows versions up to"
            f" {known}; upgrade headgate"
        )
    if version < known:
        raise StoreError(
            f"{name}: an older headgate wrote it; run `headgate ntf serve` of this one once"
        )


@contextmanager
def view(url: str, directory: Path) -> Iterator[Tables]:
    """The tables as they are now. Raises `StoreError` if there are none, or they cannot be read."""
    place = _viewed(open_place(url, directory))
    place.open()
    try:
        yield Tables(place)
    finally:
        place.close()


def is_used(url: str, directory: Path) -> bool:
    """Whether a server has the records open. Raises `StoreError` if a database cannot be asked."""
    place = _viewed(open_place(url, directory))
    if isinstance(place, NtfFile):
        return is_locked(lock_of(place.path))
    from headgate.ntf_server.records.postgres_view import ViewedNtfDatabase

    assert isinstance(place, ViewedNtfDatabase), "records are in a file or in a database"
    return place.is_used()


def _viewed(place: Place) -> Place:
    if isinstance(place, NtfFile):
        return ViewedNtfFile(place.path)
    from headgate.ntf_server.records.postgres import NtfDatabase
    from headgate.ntf_server.records.postgres_view import ViewedNtfDatabase

    assert isinstance(place, NtfDatabase), "records are in a file or in a database"
    return ViewedNtfDatabase(place.url)

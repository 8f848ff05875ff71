"""A look into the records, also while a server uses them: nothing is written, and what is read is
of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headgate.errors import StoreError
from headgate.ntf_server.records.places import open_place
from headgate.ntf_server.records.sqlite import NtfFile
from headgate.ntf_server.records.tables import Place, Tables
from headgate.server.state_directory import is_locked
from headgate.store.sqlite.file import lock_of
from headgate.store.sqlite.viewed_file import ViewedFile

UPGRADE: Final = "headgate ntf serve"
"""The command that makes records, and brings older ones up to date."""


class ViewedNtfFile(ViewedFile, NtfFile):
    """The file, opened to be read."""

    upgrade = UPGRADE

    def open(self) -> None:
        if not self.path.exists():
            raise StoreError(f"{self.path}: there is no such file yet; `{UPGRADE}` makes it")
        super().open()


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

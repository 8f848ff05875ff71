"""The places of the records of a notification server, by URL."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headgate.errors import ConfigError
from headgate.ntf_server.records.sqlite import NtfFile
from headgate.ntf_server.records.tables import Place
from headgate.store.backends import POSTGRES, SQLITE, backend_of, masked

SCHEMA: Final = "headgate_ntf"
"""Of a database, where the tables are."""


def source_of(url: str, directory: Path) -> str:
    """How another process finds what a URL names."""
    file = backend_of(url).file(url, directory)
    return url if file is None else f"sqlite:{file.absolute()}"


FORMS = f"{SQLITE.form} or {POSTGRES.form}"


def open_place(url: str, directory: Path) -> Place:
    """The place that a URL names, not opened yet. A relative FILE is below the directory."""
    backend = backend_of(url)
    if backend is POSTGRES:
        try:
            from headgate.ntf_server.records.postgres import NtfDatabase
        except ImportError as error:
            raise ConfigError(
                f"store {masked(url)!r}: psycopg is missing ({error});"
                " install it with: pip install 'headgate[postgres]'"
            ) from error
        return NtfDatabase(url)
    file = backend.file(url, directory)
    if file is None:
        raise ConfigError(f"store {masked(url)!r} of a notification server is {FORMS}")
    return NtfFile(file)

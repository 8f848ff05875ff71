"""Where batches are applied: `open_store` picks the store that a configuration names."""

from __future__ import annotations

from pathlib import Path

from headgate.errors import ConfigError
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore
from headgate.store.urls import FORMS, masked

__all__ = ["MemoryStore", "SqliteStore", "Store", "masked", "open_store"]


def open_store(url: str, directory: Path) -> Store:
    """The store that a URL names, not opened yet. A relative FILE is below the directory; its
    folders are made when the store is opened."""
    scheme, colon, rest = url.partition(":")
    match scheme, rest:
        case "memory", "" if colon:
            return MemoryStore()
        case "sqlite", file if file:
            return SqliteStore(directory / file)
        case (("postgresql" | "postgres"), address) if address.startswith("//"):
            return _postgres(url)
        case _:
            raise ConfigError(f"store {masked(url)!r} is not of a known form: {FORMS}")


def _postgres(url: str) -> Store:
    try:
        from headgate.store.postgres import PostgresStore
    except ImportError as error:
        raise ConfigError(
            f"store {masked(url)!r}: psycopg is missing ({error});"
            " install it with: pip install 'headgate[postgres]'"
        ) from error
    return PostgresStore(url)

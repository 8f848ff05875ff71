"""Where batches are applied: `open_store` picks the store that a configuration names."""

from __future__ import annotations

from pathlib import Path

from headgate.errors import ConfigError
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store", "open_store"]

FORMS = '"memory:" or "sqlite:FILE"'


def open_store(url: str, directory: Path) -> Store:
    """The store that a URL names, not opened yet. A relative FILE is below the directory; its
    folders are made when the store is opened."""
    scheme, colon, rest = url.partition(":")
    match scheme, rest:
        case "memory", "" if colon:
            return MemoryStore()
        case "sqlite", file if file:
            return SqliteStore(directory / file)
        case (("postgresql" | "postgres"), _):
            raise ConfigError(f"store {url!r}: this build has the stores {FORMS}")
        case _:
            raise ConfigError(f"store {url!r} is not of a known form: {FORMS}")

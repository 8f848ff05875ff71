"""Where batches are applied: `open_store` opens the store that a configuration names."""

from __future__ import annotations

from headgate.store.backends import BACKENDS, Backend, backend_of, masked, open_store
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore

__all__ = [
    "BACKENDS",
    "Backend",
    "MemoryStore",
    "SqliteStore",
    "Store",
    "backend_of",
    "masked",
    "open_store",
]

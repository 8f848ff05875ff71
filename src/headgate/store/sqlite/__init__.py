"""The store of a router that needs no other program: one SQLite file."""

from __future__ import annotations

from headgate.store.sqlite.outbox import SqliteOutbox
from headgate.store.sqlite.store import SqliteStore

__all__ = ["SqliteOutbox", "SqliteStore"]

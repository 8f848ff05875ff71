"""The store in one SQLite file, for a router that needs no other program."""

from __future__ import annotations

from headgate.store.sqlite.outbox import SqliteOutbox
from headgate.store.sqlite.store import SqliteStore

__all__ = ["SqliteOutbox", "SqliteStore"]

"""The store of a router that needs no other program: one SQLite file."""

from __future__ import annotations

from headgate.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

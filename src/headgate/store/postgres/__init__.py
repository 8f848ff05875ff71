"""The store in PostgreSQL. Importing it needs psycopg."""

from __future__ import annotations

from headgate.store.postgres.outbox import PostgresOutbox
from headgate.store.postgres.store import PostgresStore

__all__ = ["PostgresOutbox", "PostgresStore"]

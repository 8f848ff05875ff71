"""Received messages: stored before they are shown, and recognised when they come again.

A message that was not acknowledged at its router comes again, under the same broker id; a sender
without an answer sends again, with the same sealed bytes. Both are the same message. Its body is
kept until the application acknowledges it; its hashes stay for `HASHES_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, fields
from typing import Final

from headgate.agent.model import ConnectionId, QueueKey
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.errors import StoreError
from headgate.store.sqlite.rows import Row

HASHES_SECONDS: Final = 21 * 24 * 3600.0
"""Seconds that routers keep messages, and so may deliver one again."""
PAGE: Final = 1000

COLUMNS = (
    "id, connection, router, recipient_id, broker_id, broker_seconds, peer_id, hash, prev_hash,"
    " sealed_hash, kind, flags, acked, attempts, first_seconds"
)
"""All columns but the body."""


@value
class Incoming:
    """A message to be stored."""

    connection: ConnectionId
    queue: QueueKey
    broker_id: bytes
    broker_seconds: int
    sealed_hash: bytes
    """SHA-256 of the sealed agent message."""
    kind: str
    body: bytes = field(repr=False)
    flags: int = 0
    peer_id: int | None = None
    hash: bytes | None = None
    prev_hash: bytes | None = None


@value
class ReceivedMessage:
    """A stored message, without its body. Ids grow with arrival."""

    id: int
    connection: ConnectionId
    queue: QueueKey
    broker_id: bytes
    broker_seconds: int
    peer_id: int | None
    hash: bytes | None
    prev_hash: bytes | None
    sealed_hash: bytes
    kind: str
    flags: int
    acked: bool
    attempts: int
    """How often it was shown. The first time counts when it is stored."""
    first_seconds: float
    """When it was first received."""


ACKED = [each.name for each in fields(ReceivedMessage)].index("acked")


def add(tables: Database, message: Incoming, now: float) -> int:
    """Store a new message; return its id."""
    return tables.insert(
        "INSERT INTO received (connection, router, recipient_id, broker_id, broker_seconds,"
        " peer_id, hash, prev_hash, sealed_hash, kind, flags, acked, attempts, first_seconds, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 1, ?, ?)",
        message.connection,
        *message.queue,
        message.broker_id,
        message.broker_seconds,
        message.peer_id,
        message.hash,
        message.prev_hash,
        message.sealed_hash,
        message.kind,
        message.flags,
        now,
        message.body,
    )


def recognise(
    tables: Database,
    connection: ConnectionId,
    queue: QueueKey,
    broker_id: bytes,
    sealed_hash: bytes,
) -> ReceivedMessage | None:
    """The message, if it came before."""
    by_broker_id = "router = ? AND recipient_id = ? AND broker_id = ?"
    row = tables.one(f"SELECT {COLUMNS} FROM received WHERE {by_broker_id}", *queue, broker_id)
    if row is None:
        by_hash = "connection = ? AND sealed_hash = ?"
        row = tables.one(f"SELECT {COLUMNS} FROM received WHERE {by_hash}", connection, sealed_hash)
    return None if row is None else _message(row)


def get(tables: Database, id: int) -> ReceivedMessage | None:
    row = tables.one(f"SELECT {COLUMNS} FROM received WHERE id = ?", id)
    return None if row is None else _message(row)


def body(tables: Database, id: int) -> bytes | None:
    """The body, or None after the message was acknowledged."""
    row = tables.one("SELECT body FROM received WHERE id = ?", id)
    found: bytes | None = None if row is None else row[0]
    return found


def waiting(
    tables: Database, connection: ConnectionId, after: int = 0, limit: int = PAGE
) -> list[ReceivedMessage]:
    """Unacknowledged messages of a connection, in the order of arrival."""
    rows = tables.ask(
        f"SELECT {COLUMNS} FROM received WHERE connection = ? AND acked = 0 AND id > ?"
        " ORDER BY id LIMIT ?",
        connection,
        after,
        limit,
    )
    return [_message(row) for row in rows]


def acknowledge(tables: Database, id: int) -> ReceivedMessage:
    """Mark a message as acknowledged by the application and delete its body. ACK is sent to the
    router after this; if it is lost, the message comes again and is recognised."""
    tables.change("UPDATE received SET acked = 1, body = NULL WHERE id = ? AND acked = 0", id)
    found = get(tables, id)
    if found is None:
        raise StoreError("no such message")
    return found


def count(tables: Database, id: int) -> int:
    """Count that a message is about to be shown again; return how often it was, this time included.
    Counted before, so that a message that ends the process is counted, too."""
    tables.change("UPDATE received SET attempts = attempts + 1 WHERE id = ? AND acked = 0", id)
    found = get(tables, id)
    return 0 if found is None else found.attempts


def uncount(tables: Database, ids: Iterable[int]) -> None:
    """Undo the count of messages that the application never saw."""
    tables.change_many(
        "UPDATE received SET attempts = attempts - 1 WHERE id = ? AND acked = 0",
        [(id,) for id in ids],
    )


def prune(tables: Database, now: float, limit: int = PAGE) -> int:
    """Remove acknowledged messages that are too old to come again, at most so many; return how
    many."""
    return tables.change(
        "DELETE FROM received WHERE id IN (SELECT id FROM received"
        " WHERE acked = 1 AND first_seconds < ? ORDER BY first_seconds LIMIT ?)",
        now - HASHES_SECONDS,
        limit,
    )


def _message(row: Row) -> ReceivedMessage:
    values = list(row)
    values[2:4] = [(values[2], values[3])]  # the key of its queue
    values[ACKED] = bool(values[ACKED])
    return ReceivedMessage(*values)

"""Outgoing messages, and their deliveries to send queues.

A message exists as long as a delivery of it does. Deliveries of a queue are in the order of
sending, and keep their delays, so that a restart does not begin with the shortest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from headgate.agent.model import ConnectionId, QueueKey
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.errors import StoreError
from headgate.store.sqlite.rows import Row

GIVE_UP_SECONDS: Final = 2 * 24 * 3600.0
"""Seconds of temporary errors after which a message is given up."""
GIVE_UP_QUOTA_SECONDS: Final = 7 * 24 * 3600.0
"""Seconds of a full queue after which a message is given up."""
FAST_SECONDS: Final = 2.0
SLOW_SECONDS: Final = 300.0
PAGE: Final = 1000

MessageKey: TypeAlias = tuple[ConnectionId, int]
"""The connection and the number that `send` returned."""


@value
class Sealing:
    """The key and position with which a body becomes the same ciphertext each time it is sent."""

    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    header: bytes = field(repr=False)
    padded_length: int


@value
class OutgoingMessage:
    """A message on its way. Without a sealing the body is sent as it is."""

    connection: ConnectionId
    id: int
    kind: str
    body: bytes = field(repr=False)
    hash: bytes
    created: float
    flags: int = 0
    sealing: Sealing | None = None

    @property
    def key(self) -> MessageKey:
        return self.connection, self.id


@value
class DeliveryRecord:
    """A delivery: one message that waits for one send queue. Numbers grow in the order of
    sending."""

    number: int
    queue: QueueKey
    message: MessageKey
    created: float
    fast: float
    """The delay after a temporary error."""
    slow: float
    """The delay after QUOTA."""


COLUMNS = "number, router, sender_id, connection, id, created, fast, slow"


REMOVE_MESSAGE = (
    "DELETE FROM outgoing WHERE connection = ? AND id = ? AND NOT EXISTS (SELECT 1 FROM deliveries"
    " WHERE deliveries.connection = outgoing.connection AND deliveries.id = outgoing.id)"
)
"""With the last of its deliveries."""


def add(tables: Database, message: OutgoingMessage, queues: Iterable[QueueKey]) -> None:
    """Store a message, and deliveries of it to these queues, behind the others."""
    seal = message.sealing
    parts = (None,) * 4 if seal is None else (seal.key, seal.iv, seal.header, seal.padded_length)
    tables.change(
        "INSERT INTO outgoing (connection, id, kind, flags, hash, created,"
        " seal_key, iv, header, padded_length, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *message.key,
        message.kind,
        message.flags,
        message.hash,
        message.created,
        *parts,
        message.body,
    )
    rows = [(*q, *message.key, message.created, FAST_SECONDS, SLOW_SECONDS) for q in queues]
    if not rows:
        raise StoreError("a message needs a queue to be sent to")
    tables.change_many(
        "INSERT INTO deliveries (router, sender_id, connection, id, created, fast, slow)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def get(tables: Database, key: MessageKey) -> OutgoingMessage | None:
    row = tables.one(
        "SELECT kind, body, hash, created, flags, seal_key, iv, header, padded_length"
        " FROM outgoing WHERE connection = ? AND id = ?",
        *key,
    )
    if row is None:
        return None
    kind, body, hash, created, flags, *sealed = row
    sealing = None if sealed[0] is None else Sealing(*sealed)
    return OutgoingMessage(*key, kind, body, hash, created, flags, sealing)


def waiting(
    tables: Database, queue: QueueKey, after: int = 0, limit: int = PAGE
) -> list[DeliveryRecord]:
    """Deliveries to a queue, in the order of sending."""
    rows = tables.ask(
        f"SELECT {COLUMNS} FROM deliveries"
        " WHERE router = ? AND sender_id = ? AND number > ? ORDER BY number LIMIT ?",
        *queue,
        after,
        limit,
    )
    return [_delivery(row) for row in rows]


def head(tables: Database, queue: QueueKey) -> tuple[DeliveryRecord, OutgoingMessage] | None:
    """The first delivery of a queue, and its message."""
    found = waiting(tables, queue, limit=1)
    if not found:
        return None
    message = get(tables, found[0].message)
    if message is None:
        raise StoreError("a delivery has no message; run `headgate agent check`")
    return found[0], message


def queues_waiting(tables: Database, connections: Sequence[ConnectionId]) -> list[QueueKey]:
    """The send queues of these connections with waiting messages."""
    rows = tables.ask_about(
        "WITH want(wanted) AS (VALUES {want})"
        " SELECT router, sender_id FROM want CROSS JOIN send_queues ON connection = wanted"
        " WHERE EXISTS (SELECT 1 FROM deliveries WHERE deliveries.router = send_queues.router"
        " AND deliveries.sender_id = send_queues.sender_id)",
        [(connection,) for connection in connections],
    )
    return [(router, sender_id) for router, sender_id in rows]


def queues_page(tables: Database, after: QueueKey = (0, b""), limit: int = PAGE) -> list[QueueKey]:
    """The send queues with waiting messages, in the order of their keys. Each is one step in the
    index, however many wait."""
    found: list[QueueKey] = []
    question = (
        "SELECT router, sender_id FROM deliveries WHERE (router, sender_id) > (?, ?)"
        " ORDER BY router, sender_id LIMIT 1"
    )
    while len(found) < limit and (row := tables.one(question, *after)):
        after = (row[0], row[1])
        found.append(after)
    return found


def put_delays(tables: Database, number: int, fast: float, slow: float) -> None:
    """Store the delays."""
    tables.change("UPDATE deliveries SET fast = ?, slow = ? WHERE number = ?", fast, slow, number)


def sent(tables: Database, number: int) -> MessageKey | None:
    """Remove a delivery that the router has, and the message with its last delivery; return the
    message if it was the last."""
    rows = tables.ask(f"SELECT {COLUMNS} FROM deliveries WHERE number = ?", number)
    gone = _remove(tables, [_delivery(row) for row in rows])
    return gone[0] if gone else None


def give_up(
    tables: Database, queue: QueueKey, before: float | None = None, limit: int = PAGE
) -> list[MessageKey]:
    """Remove deliveries to a queue of messages made before this time, or all, but at most so many;
    return the messages removed with them, in the order of sending."""
    found = waiting(tables, queue, limit=limit)
    return _remove(tables, [each for each in found if before is None or each.created < before])


def _remove(tables: Database, deliveries: Sequence[DeliveryRecord]) -> list[MessageKey]:
    if not deliveries:
        return []
    tables.change_many(
        "DELETE FROM deliveries WHERE number = ?", [(each.number,) for each in deliveries]
    )
    return [each.message for each in deliveries if tables.change(REMOVE_MESSAGE, *each.message)]


def _delivery(row: Row) -> DeliveryRecord:
    number, router, sender_id, connection, id, *rest = row
    return DeliveryRecord(number, (router, sender_id), (connection, id), *rest)

"""Connections: two agents, or the two ends of one queue. Queues, keys and messages belong to
them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, fields
from enum import StrEnum
from typing import Final

from headgate.agent.model import ConnectionId, UserId
from headgate.agent.records import receive_queues
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.errors import StoreError
from headgate.store.sqlite.rows import Row

PAGE: Final = 1000


class ConnectionKind(StrEnum):
    """The kind of a connection: the direction of its messages."""

    NEW = "new"
    RECEIVE = "receive"
    SEND = "send"
    DUPLEX = "duplex"
    CONTACT = "contact"


class ConnectionStatus(StrEnum):
    """The status of a connection: the progress of its handshake."""

    NEW = "new"
    INVITED = "invited"
    JOINING = "joining"
    CONFIRMED = "confirmed"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


@value
class ConnectionRecord:
    """A stored connection. The id and hash of the last message in each direction are those that the
    next message refers to."""

    id: ConnectionId
    user: UserId
    kind: ConnectionKind = ConnectionKind.NEW
    status: ConnectionStatus = ConnectionStatus.NEW
    name: str | None = None
    agent_version: int | None = None
    e2e_version: int | None = None
    pq: bool = False
    sent_id: int = 0
    sent_hash: bytes = b""
    received_id: int = 0
    received_hash: bytes = b""
    info: bytes | None = field(default=None, repr=False)
    deleted: bool = False


NAMES = [each.name for each in fields(ConnectionRecord)]
COLUMNS = ", ".join(NAMES)
PLACES = ", ".join("?" * len(NAMES))
CONVERTED: list[tuple[int, type]] = [
    (NAMES.index("kind"), ConnectionKind),
    (NAMES.index("status"), ConnectionStatus),
    (NAMES.index("pq"), bool),
    (NAMES.index("deleted"), bool),
]

GET = f"""
WITH want(wanted) AS (VALUES {{want}})
SELECT {COLUMNS} FROM want CROSS JOIN connections ON id = wanted
"""

OWNED = (
    "DELETE FROM receive_queues WHERE connection = ?",
    "DELETE FROM send_queues WHERE connection = ?",
    "DELETE FROM ratchets WHERE connection = ?",
    "DELETE FROM skipped_keys WHERE connection = ?",
    "DELETE FROM commands WHERE connection = ?",
    "DELETE FROM confirmations WHERE connection = ?",
    "DELETE FROM requests WHERE connection = ?",
    "DELETE FROM connections WHERE id = ?",
)
"""Rows removed together with a connection. Messages may be many and are removed before."""


def add(tables: Database, connection: ConnectionRecord) -> None:
    tables.change(
        f"INSERT INTO connections ({COLUMNS}) VALUES ({PLACES})",
        *(getattr(connection, name) for name in NAMES),
    )


def get(tables: Database, connection: ConnectionId) -> ConnectionRecord | None:
    return get_many(tables, [connection]).get(connection)


def get_many(
    tables: Database, wanted: Iterable[ConnectionId]
) -> dict[ConnectionId, ConnectionRecord]:
    """The existing ones of these connections."""
    rows = tables.ask_about(GET, [(id,) for id in wanted])
    return {row[0]: _connection(row) for row in rows}


def named(tables: Database, user: UserId, name: str) -> ConnectionRecord | None:
    question = f"SELECT {COLUMNS} FROM connections WHERE user = ? AND name = ?"
    row = tables.one(question, user, name)
    return None if row is None else _connection(row)


def page(
    tables: Database, user: UserId, after: ConnectionId = b"", limit: int = PAGE
) -> list[ConnectionRecord]:
    """Connections of a user in the order of their ids, deleted ones included."""
    rows = tables.ask(
        f"SELECT {COLUMNS} FROM connections WHERE user = ? AND id > ? ORDER BY id LIMIT ?",
        user,
        after,
        limit,
    )
    return [_connection(row) for row in rows]


def amend(
    tables: Database,
    connection: ConnectionId,
    *,
    kind: ConnectionKind | None = None,
    status: ConnectionStatus | None = None,
    agent_version: int | None = None,
    e2e_version: int | None = None,
    pq: bool | None = None,
    info: bytes | None = None,
) -> None:
    """Change the given fields, and leave the others."""
    changed = tables.change(
        "UPDATE connections SET kind = ifnull(?, kind), status = ifnull(?, status),"
        " agent_version = ifnull(?, agent_version), e2e_version = ifnull(?, e2e_version),"
        " pq = ifnull(?, pq), info = ifnull(?, info) WHERE id = ?",
        kind,
        status,
        agent_version,
        e2e_version,
        pq,
        info,
        connection,
    )
    if not changed:
        raise StoreError("no such connection")


def count_sent(tables: Database, connection: ConnectionId, id: int, hash: bytes) -> None:
    """Note the id and the hash of the message that is being sent. Ids have no gaps: a second
    message with one id would be sealed with the key of the first."""
    changed = tables.change(
        "UPDATE connections SET sent_id = ?, sent_hash = ? WHERE id = ? AND sent_id = ?",
        id,
        hash,
        connection,
        id - 1,
    )
    if not changed:
        raise StoreError("another message of this connection was sent meanwhile; seal it again")


def count_received(tables: Database, connection: ConnectionId, id: int, hash: bytes) -> None:
    """Note the id and the hash that the peer's next message refers to."""
    tables.change(
        "UPDATE connections SET received_id = ?, received_hash = ? WHERE id = ?",
        id,
        hash,
        connection,
    )


def delete(tables: Database, connection: ConnectionId) -> None:
    """Mark a connection and its receive queues as deleted: they are not subscribed any more. The
    name is free again. `remove` follows when the routers have deleted the queues."""
    tables.change(
        "UPDATE connections SET deleted = 1, status = ?, name = NULL WHERE id = ?",
        ConnectionStatus.DELETING,
        connection,
    )
    receive_queues.delete_of(tables, connection)


def remove(tables: Database, connection: ConnectionId, limit: int = PAGE) -> bool:
    """Remove messages, at most so many, and when there are none the connection with all that
    belongs to it. Returns whether it is gone."""
    receive_queues.delete_of(tables, connection)
    # Deliveries are removed first: one without its message would stop sending to its queue.
    for table in ("deliveries", "outgoing", "received"):
        gone = tables.change(
            f"DELETE FROM {table} WHERE rowid IN"
            f" (SELECT rowid FROM {table} WHERE connection = ? LIMIT ?)",
            connection,
            limit,
        )
        if gone == limit:
            return False
    for text in OWNED:
        tables.change(text, connection)
    return True


def _connection(row: Row) -> ConnectionRecord:
    values = list(row)
    for place, kind in CONVERTED:
        values[place] = kind(values[place])
    return ConnectionRecord(*values)

"""Confirmations and requests of peers that the application has not answered."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Final

from headgate.agent.model import ConnectionId
from headgate.agent.records.database import Database
from headgate.core.model.value import value

PAGE: Final = 1000


class Asked(Enum):
    """The kind of a peer's question, and the table where it waits."""

    CONFIRMATION = "confirmations"
    """To complete a connection that we invited it to."""
    REQUEST = "requests"
    """To connect, at our contact address."""


@value
class Question:
    """A question of a peer. Its content is the data for an answer: keys, reply queues or a link."""

    id: int
    connection: ConnectionId
    content: bytes = field(repr=False)
    info: bytes = field(repr=False)
    created: float


def add(
    tables: Database,
    asked: Asked,
    connection: ConnectionId,
    content: bytes,
    info: bytes,
    created: float,
) -> int:
    return tables.insert(
        f"INSERT INTO {asked.value} (connection, content, info, created) VALUES (?, ?, ?, ?)",
        connection,
        content,
        info,
        created,
    )


def get(tables: Database, asked: Asked, id: int) -> Question | None:
    row = tables.one(
        f"SELECT id, connection, content, info, created FROM {asked.value} WHERE id = ?", id
    )
    return None if row is None else Question(*row)


def waiting(
    tables: Database, asked: Asked, connection: ConnectionId, after: int = 0, limit: int = PAGE
) -> list[Question]:
    """The waiting questions of a connection, in the order of arrival."""
    rows = tables.ask(
        f"SELECT id, connection, content, info, created FROM {asked.value}"
        " WHERE connection = ? AND id > ? ORDER BY id LIMIT ?",
        connection,
        after,
        limit,
    )
    return [Question(*row) for row in rows]


def waiting_ids(
    tables: Database, asked: Asked, connection: ConnectionId, limit: int = PAGE
) -> list[int]:
    """The numbers of a connection's waiting questions, without their contents."""
    rows = tables.ask(
        f"SELECT id FROM {asked.value} WHERE connection = ? ORDER BY id LIMIT ?", connection, limit
    )
    return [id for (id,) in rows]


def page(tables: Database, asked: Asked, after: int = 0, limit: int = PAGE) -> list[Question]:
    """A page of the requests of all connections."""
    rows = tables.ask(
        f"SELECT id, connection, content, info, created FROM {asked.value}"
        " WHERE id > ? ORDER BY id LIMIT ?",
        after,
        limit,
    )
    return [Question(*row) for row in rows]


def answer(tables: Database, asked: Asked, id: int) -> bool:
    """Remove a question that was accepted or rejected. Returns whether it still existed: of two
    answers, one counts."""
    return bool(tables.change(f"DELETE FROM {asked.value} WHERE id = ?", id))

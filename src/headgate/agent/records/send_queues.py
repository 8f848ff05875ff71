"""Send queues: the queues that the agent sends to, with their keys."""

from __future__ import annotations

from dataclasses import field, fields

from headgate.agent.model import ConnectionId, QueueKey, RouterId
from headgate.agent.records.database import Database
from headgate.core.model.value import value
from headgate.errors import StoreError


@value
class SendQueue:
    """A queue that another agent reads. `private_key` is for SKEY: it is stored before SKEY is
    sent, since a repetition must have the same."""

    router: RouterId
    sender_id: bytes
    connection: ConnectionId
    private_key: bytes | None = field(default=None, repr=False)
    e2e_key: bytes | None = field(default=None, repr=False)
    e2e_public: bytes | None = None
    client_version: int = 4
    mode: str = "messaging"
    status: str = "new"

    @property
    def key(self) -> QueueKey:
        return self.router, self.sender_id


NAMES = [each.name for each in fields(SendQueue)]
COLUMNS = ", ".join(NAMES)
PLACES = ", ".join("?" * len(NAMES))


def add(tables: Database, queue: SendQueue) -> SendQueue:
    """Store a queue and return the stored one: a known queue keeps its keys, so that a repeated
    join sends the same SKEY."""
    tables.change(
        f"INSERT INTO send_queues ({COLUMNS}) VALUES ({PLACES})"
        " ON CONFLICT (router, sender_id) DO NOTHING",
        *(getattr(queue, name) for name in NAMES),
    )
    kept = get(tables, queue.key)
    assert kept is not None, "a send queue that was just kept"
    if kept.connection != queue.connection:
        raise StoreError("another connection sends to this queue already")
    return kept


def get(tables: Database, key: QueueKey) -> SendQueue | None:
    question = f"SELECT {COLUMNS} FROM send_queues WHERE router = ? AND sender_id = ?"
    row = tables.one(question, *key)
    return None if row is None else SendQueue(*row)


def of_connection(tables: Database, connection: ConnectionId) -> list[SendQueue]:
    question = f"SELECT {COLUMNS} FROM send_queues WHERE connection = ?"
    return [SendQueue(*row) for row in tables.ask(question, connection)]


def put_status(tables: Database, key: QueueKey, status: str) -> None:
    tables.change(
        "UPDATE send_queues SET status = ? WHERE router = ? AND sender_id = ?", status, *key
    )


def remove(tables: Database, key: QueueKey) -> None:
    tables.change("DELETE FROM send_queues WHERE router = ? AND sender_id = ?", *key)

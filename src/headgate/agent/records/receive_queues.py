"""Receive queues, which the agent subscribes: found by key, by connection, or page by page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, fields

from headgate.agent.model import ConnectionId, QueueKey, RouterId, UserId, Which
from headgate.agent.records import services
from headgate.agent.records.database import Database
from headgate.agent.records.services import PAGE
from headgate.core.model.value import value
from headgate.store.sqlite.rows import Row


@value
class ReceiveQueue:
    """A queue that the agent reads, with all keys for it.

    `assoc` and `deleted` are only changed by `services.change`. `dh_key` is the shared secret of
    the router's layer after HSalsa20, `e2e_key` that of the sender, which is not known before the
    first message.
    """

    router: RouterId
    recipient_id: bytes
    user: UserId
    connection: ConnectionId
    key_kind: str
    private_key: bytes = field(repr=False)
    dh_key: bytes = field(repr=False)
    e2e_private: bytes = field(repr=False)
    e2e_key: bytes | None = field(default=None, repr=False)
    client_version: int = 4
    sender_id: bytes = b""
    mode: str = "messaging"
    status: str = "new"
    assoc: bool = False
    deleted: bool = False
    notice: bytes | None = None
    """The reason of a router that has blocked the queue."""
    notifier_id: bytes | None = None
    notifier_key: bytes | None = field(default=None, repr=False)
    notice_key: bytes | None = field(default=None, repr=False)
    link_id: bytes | None = None
    link_key: bytes | None = field(default=None, repr=False)
    link_root_key: bytes | None = field(default=None, repr=False)
    link_fixed: bytes | None = field(default=None, repr=False)

    @property
    def key(self) -> QueueKey:
        return self.router, self.recipient_id


NAMES = [each.name for each in fields(ReceiveQueue)]
COLUMNS = ", ".join(NAMES)
PLACES = ", ".join("?" * len(NAMES))
ASSOC, DELETED = NAMES.index("assoc"), NAMES.index("deleted")

GET = f"""
WITH want(place, wanted) AS (VALUES {{want}})
SELECT {COLUMNS} FROM want CROSS JOIN receive_queues ON router = place AND recipient_id = wanted
"""
OF_CONNECTIONS = f"""
WITH want(wanted) AS (VALUES {{want}})
SELECT {COLUMNS} FROM want CROSS JOIN receive_queues ON connection = wanted
"""
# By default SQLite takes the primary key, and walks over unwanted queues.
PART = (
    f"SELECT {COLUMNS} FROM receive_queues INDEXED BY receive_queue_pages"
    " WHERE user = :user AND router = :router AND assoc = {assoc} AND deleted = 0"
    " AND recipient_id > :after"
)
SINGLE, ASSOCIATED = PART.format(assoc=0), PART.format(assoc=1)
PAGES = {
    # Each part is in the order of the index, and the two are merged.
    Which.ALL: f"{SINGLE} UNION ALL {ASSOCIATED} ORDER BY recipient_id LIMIT :limit",
    Which.SINGLE: f"{SINGLE} ORDER BY recipient_id LIMIT :limit",
    Which.ASSOCIATED: f"{ASSOCIATED} ORDER BY recipient_id LIMIT :limit",
}


def add(tables: Database, queue: ReceiveQueue) -> None:
    """Store a new queue; if it is associated, its service counts it."""
    values = [getattr(queue, name) for name in NAMES]
    values[ASSOC] = False
    tables.change(f"INSERT INTO receive_queues ({COLUMNS}) VALUES ({PLACES})", *values)
    if queue.assoc:
        services.associate(tables, queue.user, queue.router, [queue.recipient_id])


def get(tables: Database, key: QueueKey) -> ReceiveQueue | None:
    return get_many(tables, [key]).get(key)


def get_many(tables: Database, keys: Iterable[QueueKey]) -> dict[QueueKey, ReceiveQueue]:
    """The existing ones of these queues."""
    found = map(_queue, tables.ask_about(GET, keys))
    return {queue.key: queue for queue in found}


def of_connections(
    tables: Database, connections: Iterable[ConnectionId]
) -> dict[ConnectionId, list[ReceiveQueue]]:
    """The queues of connections, without deleted ones."""
    # S000-52: the store decides what is subscribed.
    wanted = [(connection,) for connection in connections]
    found: dict[ConnectionId, list[ReceiveQueue]] = {connection: [] for (connection,) in wanted}
    for queue in map(_queue, tables.ask_about(OF_CONNECTIONS, wanted)):
        if not queue.deleted:
            found[queue.connection].append(queue)
    return found


def deleted_of(tables: Database, connection: ConnectionId) -> list[ReceiveQueue]:
    """The queues of a connection that is being deleted."""
    found = map(_queue, tables.ask_about(OF_CONNECTIONS, [(connection,)]))
    return [queue for queue in found if queue.deleted]


def page(
    tables: Database,
    user: UserId,
    router: RouterId,
    after: bytes = b"",
    limit: int = PAGE,
    which: Which = Which.ALL,
) -> list[ReceiveQueue]:
    """Queues of a user at a router after a key, in the order of their keys, without deleted
    ones."""
    values = {"user": user, "router": router, "after": after, "limit": limit}
    return [_queue(row) for row in tables.ask_named(PAGES[which], values)]


def put_e2e_key(tables: Database, key: QueueKey, e2e_key: bytes) -> None:
    """Store the secret shared with the sender, from its first message."""
    tables.change(
        "UPDATE receive_queues SET e2e_key = ? WHERE router = ? AND recipient_id = ?",
        e2e_key,
        *key,
    )


def put_notice(tables: Database, key: QueueKey, notice: bytes) -> None:
    """Store the reason why the router has blocked the queue."""
    tables.change(
        "UPDATE receive_queues SET notice = ? WHERE router = ? AND recipient_id = ?", notice, *key
    )


def put_notifier(
    tables: Database, key: QueueKey, notifier_id: bytes, notifier_key: bytes, notice_key: bytes
) -> None:
    """Store the keys for a notification server's subscription, and for opening its notices."""
    tables.change(
        "UPDATE receive_queues SET notifier_id = ?, notifier_key = ?, notice_key = ?"
        " WHERE router = ? AND recipient_id = ?",
        notifier_id,
        notifier_key,
        notice_key,
        *key,
    )


def of_notifier(tables: Database, router: RouterId, notifier_id: bytes) -> ReceiveQueue | None:
    """The queue of a notifier, unless it was deleted."""
    row = tables.one(
        f"SELECT {COLUMNS} FROM receive_queues"
        " WHERE router = ? AND notifier_id = ? AND deleted = 0",
        router,
        notifier_id,
    )
    return None if row is None else _queue(row)


def delete(tables: Database, key: QueueKey) -> None:
    """Mark a queue as deleted: it leaves its service and is not subscribed any more."""
    router, recipient_id = key
    services.change(tables, router, [recipient_id], deleted=True)


def delete_of(tables: Database, connection: ConnectionId) -> None:
    """Mark all queues of a connection as deleted."""
    question = "SELECT router, recipient_id FROM receive_queues WHERE connection = ?"
    for router, recipient_id in tables.ask(question, connection):
        services.change(tables, router, [recipient_id], deleted=True)


def remove(tables: Database, key: QueueKey) -> None:
    """Remove a queue, after the router has deleted it."""
    delete(tables, key)
    tables.change("DELETE FROM receive_queues WHERE router = ? AND recipient_id = ?", *key)


def _queue(row: Row) -> ReceiveQueue:
    values = list(row)
    values[ASSOC], values[DELETED] = bool(values[ASSOC]), bool(values[DELETED])
    return ReceiveQueue(*values)

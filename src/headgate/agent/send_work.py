"""Work at a send queue, and the effects of its results."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from headgate.agent.model import ConnectionId, QueueKey, UserId
from headgate.agent.records import commands, connections, outgoing, send_queues
from headgate.agent.records.connections import ConnectionKind
from headgate.agent.records.database import Database
from headgate.agent.records.outgoing import DeliveryRecord, OutgoingMessage
from headgate.agent.records.send_queues import SendQueue
from headgate.agent.sealers import NEW, READY, SECURED, Sealer
from headgate.core.model.value import value
from headgate.errors import HeadgateError, LinkUsed, RequestRefused

SKEY: Final = "SKEY"
"""The kind of the command that secures a queue; its argument is the sender's id of the queue."""

SENDER_KIND: Final = "ed25519"
"""The kind of the keys with which we secure queues of others."""

AUTH: Final = "AUTH"
ADDRESS: Final = "this address"
LINK: Final = "this link"
"""Names of what another agent may have used first."""


@value
class Work:
    """The next work at a send queue: securing it, or a message."""

    user: UserId
    kind: ConnectionKind
    queue: SendQueue
    delivery: DeliveryRecord | None
    message: OutgoingMessage | None = field(repr=False)

    @property
    def is_securing(self) -> bool:
        return self.queue.status == NEW


def described(failure: HeadgateError, what: str) -> HeadgateError:
    """The error of an address or a link by a router's answer: AUTH means that another agent uses
    it."""
    is_used = isinstance(failure, RequestRefused) and failure.error == AUTH
    return LinkUsed(what) if is_used else failure


# Jobs of the records.


def next_work(tables: Database, key: QueueKey) -> Work | None:
    """The next work at a queue."""
    queue = send_queues.get(tables, key)
    found = outgoing.waiting(tables, key, limit=1)
    delivery = found[0] if found else None
    if queue is None or (delivery is None and queue.status != NEW):
        return None
    record = connections.get(tables, queue.connection)
    if record is None:
        return None
    message = None if delivery is None else outgoing.get(tables, delivery.message)
    return Work(record.user, record.kind, queue, delivery, message)


def queues_with_work(tables: Database, wanted: list[ConnectionId]) -> list[QueueKey]:
    """The queues of these connections that are to be secured, or have messages."""
    found = dict.fromkeys(outgoing.queues_waiting(tables, wanted))
    for waiting in commands.of_connections(tables, wanted).values():
        for command in waiting:
            if command.kind == SKEY:
                found[command.router, command.arguments] = None
    return list(found)


def secured(tables: Database, queue: SendQueue, status: str) -> None:
    """Note the router's answer to SKEY."""
    send_queues.put_status(tables, queue.key, status)
    for command in commands.of_connections(tables, [queue.connection])[queue.connection]:
        if command.kind == SKEY and command.arguments == queue.sender_id:
            commands.remove(tables, command.id)


def sent(
    tables: Database, queue: SendQueue, number: int, message: OutgoingMessage, sealer: Sealer
) -> bool:
    """Note that the router has a message, and with it our key. Returns whether the application is
    notified."""
    if queue.status == SECURED:
        send_queues.put_status(tables, queue.key, READY)
    is_gone = outgoing.sent(tables, number) is not None
    return is_gone and sealer.sent(tables, message)

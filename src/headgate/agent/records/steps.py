"""Transactions that come before something is sent or shown.

Each is one transaction, because a repetition after a crash must be the same bytes. Each function
says what would go wrong without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.agent.model import QueueKey
from headgate.agent.records import (
    commands,
    connections,
    outgoing,
    ratchets,
    receive_queues,
    received,
    send_queues,
)
from headgate.agent.records.database import Database
from headgate.agent.records.outgoing import OutgoingMessage
from headgate.agent.records.ratchets import RatchetRecord, SkippedKey
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.agent.records.received import Incoming, ReceivedMessage
from headgate.agent.records.send_queues import SendQueue
from headgate.core.model.value import value


@value
class RatchetStep:
    """One step of a connection's ratchet, by one message."""

    state: bytes
    skipped: Sequence[SkippedKey] = ()
    used: Sequence[SkippedKey] = ()

    def __repr__(self) -> str:
        return f"RatchetStep(skipped={len(self.skipped)}, used={len(self.used)})"


def before_skey(tables: Database, queue: SendQueue, kind: str, arguments: bytes) -> SendQueue:
    """Store the key of a send queue, and the command that secures it. Otherwise a retry has another
    key, gets AUTH, and the connection is lost."""
    is_known = send_queues.get(tables, queue.key) is not None
    kept = send_queues.add(tables, queue)
    if not is_known:
        commands.add(tables, queue.connection, queue.router, kind, arguments)
    return kept


def before_send(
    tables: Database,
    message: OutgoingMessage,
    queues: Iterable[QueueKey],
    ratchet: bytes | None = None,
) -> None:
    """Store a message and the state of the ratchet that sealed it. Otherwise a crash leads to two
    messages with one key."""
    connections.count_sent(tables, message.connection, message.id, message.hash)
    if ratchet is not None:
        ratchets.step(tables, message.connection, ratchet)
    outgoing.add(tables, message, queues)


def before_confirmation(
    tables: Database,
    reply: ReceiveQueue | None,
    ratchet: RatchetRecord,
    confirmation: OutgoingMessage,
    queue: QueueKey,
) -> None:
    """Store the reply queue, the ratchet and the confirmation that names the queue. Otherwise the
    queue is an orphan, and the peer waits for ever."""
    if reply is not None:
        receive_queues.add(tables, reply)
    ratchets.put(tables, confirmation.connection, ratchet)
    connections.count_sent(tables, confirmation.connection, confirmation.id, confirmation.hash)
    outgoing.add(tables, confirmation, [queue])


def before_showing(
    tables: Database, message: Incoming, now: float, ratchet: RatchetStep | None = None
) -> int:
    """Store a message with its hashes, and the state of the ratchet after it; return its id. It is
    shown after this. Otherwise it is lost, or the ratchet goes back."""
    if ratchet is not None:
        used, skipped = ratchet.used, ratchet.skipped
        ratchets.step(tables, message.connection, ratchet.state, skipped, used)
    if message.peer_id is not None and message.hash is not None:
        connections.count_received(tables, message.connection, message.peer_id, message.hash)
    return received.add(tables, message, now)


def before_ack(tables: Database, id: int) -> ReceivedMessage:
    """Store that the application has acknowledged. Otherwise it is shown twice."""
    return received.acknowledge(tables, id)

"""The sealer of connections, with the effects of sent and given-up messages on them."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.agent.connections.handshake import CONFIRMATION, CONFIRMATION_ID
from headgate.agent.connections.message_sealing import MESSAGE, message_bytes, seal
from headgate.agent.connections.status import Happening, next_status
from headgate.agent.model import ConnectionId
from headgate.agent.records import commands, connections, ratchets, send_queues
from headgate.agent.records.commands import CONNECTED
from headgate.agent.records.database import Database
from headgate.agent.records.outgoing import OutgoingMessage
from headgate.agent.records.send_queues import SendQueue
from headgate.agent.sealers import Outgoing
from headgate.wire.smp.agent.agent_messages import AgentMessage, ApplicationMessage


class RatchetSealer:
    """Seals the messages of a connection."""

    def seal(
        self, tables: Database, queue: SendQueue, message: Outgoing
    ) -> tuple[OutgoingMessage, bytes | None]:
        record = connections.get(tables, message.connection)
        assert record is not None, "whoever asks has found it"
        content: AgentMessage = message.control or ApplicationMessage(message.body)
        return seal(
            record,
            ratchets.get(tables, record.id),
            content,
            message.fresh,
            message.now,
            notify=message.notify,
        )

    def encode(self, queue: SendQueue, message: OutgoingMessage) -> bytes:
        return message_bytes(queue, message)

    def sent(self, tables: Database, message: OutgoingMessage) -> bool:
        if message.kind == CONFIRMATION:
            record = connections.get(tables, message.connection)
            status = record and next_status(record.status, Happening.ANSWERED)
            if status:
                connections.amend(tables, message.connection, status=status)
                [queue, *_] = send_queues.of_connection(tables, message.connection)
                commands.add(tables, message.connection, queue.router, CONNECTED, b"")
        return message.kind == MESSAGE

    def gave_up(
        self, tables: Database, connection: ConnectionId, ids: Sequence[int]
    ) -> tuple[int, ...]:
        if CONFIRMATION_ID in ids:
            refuse(tables, connection)
        # The application did not send the confirmation; the failure of the connection is enough.
        return tuple(id for id in ids if id != CONFIRMATION_ID)


def refuse(tables: Database, connection: ConnectionId) -> None:
    """Note that a router refused our key, confirmation or request: the peer cannot be reached."""
    record = connections.get(tables, connection)
    status = record and next_status(record.status, Happening.REFUSED)
    if status:
        connections.amend(tables, connection, status=status)

"""Sealing messages to send, for each kind of connection in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Protocol

from headgate.agent.model import ConnectionId
from headgate.agent.openers import PLAIN
from headgate.agent.records import outgoing
from headgate.agent.records.database import Database
from headgate.agent.records.outgoing import OutgoingMessage, Sealing
from headgate.agent.records.send_queues import SendQueue
from headgate.agent.taking import NOTIFY
from headgate.core.model.value import value
from headgate.crypto.box import NONCE_BYTES
from headgate.errors import StoreError, TooLong
from headgate.wire.smp.agent.agent_messages import AgentMessage
from headgate.wire.smp.agent.envelope import (
    LATER_PADDED,
    ClientEnvelope,
    EnvelopeContents,
    body_max,
)

NEW: Final = "new"
SECURED: Final = "secured"
READY: Final = "ready"
REFUSED: Final = "refused"
"""The progress of a send queue: its key is stored; the router has the key; the router has accepted
a message with our key of X25519; another agent secured it."""

FRESH_BYTES: Final = NONCE_BYTES


@value
class Outgoing:
    """A message of the application, to be sealed."""

    connection: ConnectionId
    id: int
    body: bytes
    notify: bool
    now: float
    fresh: bytes
    """Random bytes for this message: `FRESH_BYTES`."""
    control: AgentMessage | None = None
    """A message of the agent itself to the peer's, in place of a body."""

    def __repr__(self) -> str:
        return f"Outgoing({self.id})"


class Sealer(Protocol):
    """Seals the messages of one kind of connection."""

    def seal(
        self, tables: Database, queue: SendQueue, message: Outgoing
    ) -> tuple[OutgoingMessage, bytes | None]:
        """The stored form of a message, and the state of the ratchet after it. Runs inside of the
        transaction that stores both, and changes nothing itself. Raises `TooLong`."""
        ...

    def encode(self, queue: SendQueue, message: OutgoingMessage) -> bytes:
        """The body of SEND: the same bytes every time."""
        ...

    def sent(self, tables: Database, message: OutgoingMessage) -> bool:
        """Note that the router has a message, inside of the transaction that removes it. Returns
        whether the application is notified."""
        ...

    def gave_up(
        self, tables: Database, connection: ConnectionId, ids: Sequence[int]
    ) -> tuple[int, ...]:
        """Note that messages were given up, inside of the transaction that removes them. Returns
        those that are reported to the application."""
        ...


class PlainSealer:
    """Seals messages for plain queues: the bytes of the application in a client envelope.

    The envelope has our key until the router has accepted one with it. Only the first message of
    the queue is sent, and only its success changes that; so a message that is sent again is the
    same bytes.
    """

    def seal(
        self, tables: Database, queue: SendQueue, message: Outgoing
    ) -> tuple[OutgoingMessage, bytes | None]:
        is_first = queue.status != READY and not outgoing.waiting(tables, queue.key, limit=1)
        room = body_max(queue.e2e_public if is_first else None)
        if len(message.body) > room:
            raise TooLong(len(message.body), room)
        if queue.e2e_key is None:
            raise StoreError("a queue without a key to seal with; open its address again")
        sealing = Sealing(queue.e2e_key, message.fresh, b"", LATER_PADDED)
        kept = OutgoingMessage(
            message.connection,
            message.id,
            PLAIN,
            message.body,
            sha256(message.body).digest(),
            message.now,
            NOTIFY if message.notify else 0,
            sealing,
        )
        return kept, None

    def encode(self, queue: SendQueue, message: OutgoingMessage) -> bytes:
        assert message.sealing is not None, "sealed when it was stored"
        # After one accepted message the recipient knows our key; before, it has to be sent.
        exchange_key = None if queue.status == READY else queue.e2e_public
        contents = EnvelopeContents(None, message.body)
        return ClientEnvelope.seal(
            queue.client_version,
            message.sealing.key,
            message.sealing.iv,
            contents,
            exchange_key,
        ).encode()

    def sent(self, tables: Database, message: OutgoingMessage) -> bool:
        return True

    def gave_up(
        self, tables: Database, connection: ConnectionId, ids: Sequence[int]
    ) -> tuple[int, ...]:
        return tuple(ids)

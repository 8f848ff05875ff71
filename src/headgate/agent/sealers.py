"""Sealing what is sent, for each kind of connection in its own way."""

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
"""How far a send queue is: its key is kept; the router has the key; the router has taken a message
with our key of X25519; somebody else secured it."""

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
    """Drawn for this message: `FRESH_BYTES`."""
    control: AgentMessage | None = None
    """What the agent itself writes to the peer's, in place of a body."""

    def __repr__(self) -> str:
        return f"Outgoing({self.id})"


class Sealer(Protocol):
    """The sealer of what one kind of connection sends."""

    def seal(
        self, tables: Database, queue: SendQueue, message: Outgoing
    ) -> tuple[OutgoingMessage, bytes | None]:
        """What is stored of a message, and the state of the ratchet after it. This is inside of the
        transaction that stores both, and changes nothing. Raises `TooLong`."""
        ...

    def encode(self, queue: SendQueue, message: OutgoingMessage) -> bytes:
        """The body of SEND: the same bytes every time."""
        ...

    def sent(self, tables: Database, message: OutgoingMessage) -> bool:
        """The router has a message: this is inside of the transaction that removes it. Returns
        whether the application gets to know."""
        ...

    def gave_up(
        self, tables: Database, connection: ConnectionId, ids: Sequence[int]
    ) -> tuple[int, ...]:
        """Messages were given up: this is inside of the transaction that removes them. Returns
        those that the application gets to know of."""
        ...


class PlainSealer:
    """The sealer of messages for plain queues: the bytes of the application in a client envelope.

    The envelope shows our key until the router has taken one that does. Nothing but the message at
    the head of the queue is sent, and only its success changes that; so a message that is sent
    again is the same bytes.
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
        # A queue that took a message knows our key; one that did not has to be shown it.
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

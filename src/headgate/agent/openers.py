"""Opening the messages of queues, for each kind of connection in its own way.

The router's layer is the same for all and already removed. Inside is a client envelope, whose
contents depend on the connection. Nothing here changes tables: an opener only returns the changes
to store with its message, so that a message that cannot be opened leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial
from hashlib import sha256
from typing import Final, Protocol

from headgate.agent.model import ConnectionId, QueueKey
from headgate.agent.records import receive_queues
from headgate.agent.records.database import Database
from headgate.agent.records.receive_queues import ReceiveQueue
from headgate.core.model.value import value
from headgate.crypto.box import shared_key
from headgate.crypto.keys import raw_key
from headgate.errors import Malformed
from headgate.wire.smp.agent.envelope import ClientEnvelope
from headgate.wire.smp.codec.encoding import FieldReader, int64

PLAIN: Final = "plain"
MESSAGE: Final = "message"
RECEIPT: Final = "receipt"
HANDSHAKE: Final = "handshake"
"""Kinds of received messages in the records: of a plain queue; of a connection; receipts of the
peer; and messages for the agent alone."""

INT64_BYTES: Final = 8


@value
class Sealed:
    """An envelope as a sender sent it to a queue, and the hash that identifies a repetition."""

    content: bytes = field(repr=False)
    hash: bytes
    """SHA-256 of the bytes that stay the same when it is sent again."""
    secret: bytes | None = field(default=None, repr=False)
    """The key that sealed it, if it is known already."""


@value
class FollowUp:
    """Work for a connection after a message of it was stored."""

    connection: ConnectionId
    continue_with: QueueKey | None = None
    """The queue in which the peer has room again."""
    was_full: QueueKey | None = None
    """Whether our queue was full, and its sender waits."""


@value
class Opened:
    """The contents of an envelope, and the changes to store with it."""

    kind: str
    body: bytes = field(repr=False)
    peer_id: int | None = None
    hash: bytes | None = None
    prev_hash: bytes | None = None
    changes: Callable[[Database], None] | None = field(default=None, repr=False)
    """In the transaction that stores the message: keys, the state of a ratchet."""
    flags: int = 0
    """Stored with the message, beside whether to notify."""
    is_shown: bool = True
    """Whether the application acknowledges it. Otherwise it is acknowledged when it is stored."""
    follow_up: FollowUp | None = None


class Opener(Protocol):
    """Opens the messages of one kind of connection. Both steps run inside of the transaction that
    stores the message, one message of a connection at a time; they read tables and change none. A
    message that cannot be opened raises `Malformed`, whose text is shown and has no secrets in
    it."""

    def unwrap(self, queue: ReceiveQueue, body: bytes) -> Sealed:
        """Find the bytes that identify a repetition. This may happen several times for one
        message."""
        ...

    def open(self, tables: Database, queue: ReceiveQueue, sealed: Sealed) -> Opened:
        """Open a message that did not come before."""
        ...


class PlainOpener:
    """The opener of messages of plain queues: the bytes of the application in a client envelope.

    The first message brings the key of the sender. Without it nothing can be opened. The same key
    again is the sender's first message again, which its hash recognises, or another one from
    before the sender knew that the first had arrived.
    """

    def unwrap(self, queue: ReceiveQueue, body: bytes) -> Sealed:
        return Sealed(body, sha256(body).digest())

    def open(self, tables: Database, queue: ReceiveQueue, sealed: Sealed) -> Opened:
        envelope = ClientEnvelope.parse(sealed.content)
        secret = secret_of(queue, envelope)
        contents = envelope.open(secret)
        changes = None
        if queue.e2e_key is None:
            changes = partial(_keep_secret, queue=queue, secret=secret)
        return Opened(PLAIN, contents.body, changes=changes)


def secret_of(queue: ReceiveQueue, envelope: ClientEnvelope) -> bytes:
    """The secret that the sender sealed with."""
    if envelope.exchange_key is None:
        if queue.e2e_key is None:
            raise Malformed("a message came before the one with the sender's key")
        return queue.e2e_key
    secret = shared_key(queue.e2e_private, raw_key(envelope.exchange_key))
    if queue.e2e_key not in (None, secret):
        raise Malformed("another sender than the one whose key is known")
    return secret


def _keep_secret(tables: Database, queue: ReceiveQueue, secret: bytes) -> None:
    receive_queues.put_e2e_key(tables, queue.key, secret)


def pack_receipts(ids: Iterable[int]) -> bytes:
    """The numbers of messages, as the stored body of their receipts."""
    return b"".join(int64(id) for id in ids)


def receipt_ids(body: bytes) -> tuple[int, ...]:
    """The numbers in such a body. A peer may have sent any."""
    reader = FieldReader(body)
    return tuple(reader.int64() for _ in range(0, len(body), INT64_BYTES))

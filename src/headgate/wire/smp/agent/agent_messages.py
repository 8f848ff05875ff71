"""Agent messages: what two connected agents write inside the ratchet.

A confirmation holds information for the application, and the joiner's also the queues for answers.
All later messages are numbered and name the hash of the one before, so that the recipient notices
missing and repeated ones, whatever routers do.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.agent.queue_address import QueueInfo
from headgate.wire.smp.codec.encoding import FieldReader, int64, items, large, string
from headgate.wire.smp.codec.router_address import RouterAddress

# Contents of a numbered message.


@value
class PeerHello:
    """The notice that the peer is there: part of an older handshake."""

    def encode(self) -> bytes:
        return b"H"


@value
class ApplicationMessage:
    """The bytes of an application."""

    body: bytes = field(repr=False)

    def encode(self) -> bytes:
        return b"M" + self.body


@value
class MessageReceipt:
    """The receipt that a message has reached the peer's application."""

    id: int
    """Its number."""
    hash: bytes
    info: bytes = b""

    @classmethod
    def read(cls, reader: FieldReader) -> MessageReceipt:
        return cls(reader.int64(), reader.string(), reader.large())

    def encode(self) -> bytes:
        return int64(self.id) + string(self.hash) + large(self.info)


@value
class MessageReceipts:
    """Some receipts in one message."""

    receipts: tuple[MessageReceipt, ...]

    def encode(self) -> bytes:
        return b"V" + items([receipt.encode() for receipt in self.receipts])


@value
class ContinueSending:
    """The notice that a full queue has room again."""

    router: RouterAddress
    sender_id: bytes

    def encode(self) -> bytes:
        return b"QC" + self.router.encode() + string(self.sender_id)


class RotationStep(Enum):
    """A step of a peer that moves a connection to another queue. This agent stays on the old
    one."""

    ADD = b"QA"
    KEY = b"QK"
    USE = b"QU"
    TEST = b"QT"


@value
class QueueRotation:
    """A step of a rotation, not read further."""

    step: RotationStep
    rest: bytes = field(repr=False)

    def encode(self) -> bytes:
        return self.step.value + self.rest


@value
class RatchetReady:
    """The notice that a ratchet was made anew, from this message number on."""

    number: int

    def encode(self) -> bytes:
        return b"E" + int64(self.number)


AgentMessage: TypeAlias = (
    PeerHello
    | ApplicationMessage
    | MessageReceipts
    | ContinueSending
    | QueueRotation
    | RatchetReady
)


# Contents of the ratchet.


@value
class ConnectionInfo:
    """The initiator's confirmation."""

    info: bytes = field(repr=False)

    def encode(self) -> bytes:
        return b"I" + self.info


@value
class ReplyQueues:
    """The joiner's confirmation: its queues for answers."""

    queues: tuple[QueueInfo, ...]
    info: bytes = field(repr=False)

    def encode(self) -> bytes:
        return b"D" + items([queue.encode() for queue in self.queues]) + self.info


@value
class NumberedMessage:
    """A message after the confirmations: its number, the hash of the one before, and its
    content."""

    id: int
    previous_hash: bytes
    message: AgentMessage

    def encode(self) -> bytes:
        return b"M" + int64(self.id) + string(self.previous_hash) + self.message.encode()


AgentContent: TypeAlias = ConnectionInfo | ReplyQueues | NumberedMessage


def parse_content(plaintext: bytes) -> AgentContent:
    """Read what the ratchet decrypted."""
    reader = FieldReader(plaintext)
    kind = reader.char()
    if kind == b"M":
        return NumberedMessage(reader.int64(), reader.string(), _read_message(reader))
    if kind == b"D":
        return ReplyQueues(tuple(reader.some(QueueInfo.read)), reader.rest())
    if kind == b"I":
        return ConnectionInfo(reader.rest())
    raise Malformed("nothing that agents write to one another")


def _read_message(reader: FieldReader) -> AgentMessage:
    kind = reader.char()
    if kind == b"M":
        return ApplicationMessage(reader.rest())
    message: AgentMessage
    if kind == b"Q":
        kind += reader.char()
        if kind != b"QC":
            return QueueRotation(_rotation_step(kind), reader.rest())
        message = ContinueSending(RouterAddress.read(reader), reader.string())
    elif kind == b"V":
        message = MessageReceipts(tuple(reader.some(MessageReceipt.read)))
    elif kind == b"H":
        message = PeerHello()
    elif kind == b"E":
        message = RatchetReady(reader.int64())
    else:
        raise Malformed("no message of an agent")
    reader.finish()
    return message


def _rotation_step(kind: bytes) -> RotationStep:
    try:
        return RotationStep(kind)
    except ValueError:
        raise Malformed("no message of an agent") from None


# Numbers and hashes.


@value
class SkippedIds:
    """The numbers of earlier messages that have not come."""

    first: int
    last: int


class Integrity(Enum):
    """The integrity of a message by its number and hash: whether messages before it are missing."""

    OK = "ok"
    BAD_HASH = "bad hash"
    DUPLICATE = "duplicate"
    BAD_ID = "bad id"


Finding: TypeAlias = Integrity | SkippedIds


@value
class MessageChain:
    """One direction of a connection: the number and the hash of the last message."""

    id: int = 0
    hash: bytes = b""

    def after(self, id: int, plaintext: bytes) -> MessageChain:
        """The chain with this message as the last one. The hash is of the contents of the
        ratchet."""
        return MessageChain(id, content_hash(plaintext))

    def after_next(self, plaintext: bytes) -> MessageChain:
        """The chain with one more message. A confirmation counts as number 1, although it has
        none."""
        return self.after(self.id + 1, plaintext)

    def number(self, message: AgentMessage) -> NumberedMessage:
        """The next message of ours, with its number."""
        return NumberedMessage(self.id + 1, self.hash, message)

    def check(self, message: NumberedMessage) -> Finding:
        """The integrity of a message of the peer as the next one. The application gets it in any
        case."""
        if message.id > self.id + 1:
            return SkippedIds(self.id + 1, message.id - 1)
        if message.id == self.id:
            return Integrity.DUPLICATE
        if message.id < self.id:
            return Integrity.BAD_ID
        fits = compare_digest(message.previous_hash, self.hash)
        return Integrity.OK if fits else Integrity.BAD_HASH


HASH_BYTES: Final = 32


def content_hash(plaintext: bytes) -> bytes:
    return sha256(plaintext).digest()

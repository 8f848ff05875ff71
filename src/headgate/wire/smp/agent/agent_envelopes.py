"""Agent envelopes: the messages between agents, inside the client envelope.

Confirmations and messages hold what the ratchet encrypted, padded so that all of a kind have one
size. An invitation goes to a contact queue, whose owner has no ratchet yet with the sender, and a
ratchet key to a peer whose ratchet is broken: both are sealed by the client envelope alone.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.crypto.padding import LENGTH_BYTES
from headgate.errors import Malformed, TooLong
from headgate.wire.smp.agent.agent_messages import (
    HASH_BYTES,
    AgentContent,
    ApplicationMessage,
    NumberedMessage,
)
from headgate.wire.smp.agent.links import InvitationLink, parse_link
from headgate.wire.smp.agent.ratchet import Ratchet
from headgate.wire.smp.agent.ratchet_parameters import RatchetParameters
from headgate.wire.smp.codec.encoding import FieldReader, large, maybe, word16

CONFIRMATION_PADDED: Final = 14832
CONFIRMATION_PADDED_KEM: Final = 11106
MESSAGE_PADDED: Final = 15840
MESSAGE_PADDED_KEM: Final = 13618
"""Size to which a message is padded before encryption: less where headers have room for a KEM."""

NUMBERED_BYTES: Final = len(NumberedMessage(0, bytes(HASH_BYTES), ApplicationMessage(b"")).encode())
"""Bytes before those of an application."""


@value
class AgentConfirmation:
    """The first message of a party on a queue: it wants, or accepts, the connection."""

    version: int
    parameters: RatchetParameters | None
    """The joiner's, from which the initiator makes its ratchet."""
    encrypted: bytes = field(repr=False)

    def encode(self) -> bytes:
        parameters = None if self.parameters is None else self.parameters.encode()
        return word16(self.version) + b"C" + maybe(parameters) + self.encrypted


@value
class EncryptedMessage:
    """A message of a connection."""

    version: int
    encrypted: bytes = field(repr=False)

    def encode(self) -> bytes:
        return word16(self.version) + b"M" + self.encrypted


@value
class ConnectionRequest:
    """To a contact queue: an invitation for the owner to join."""

    version: int
    link: InvitationLink
    info: bytes = field(repr=False)

    def encode(self) -> bytes:
        return word16(self.version) + b"I" + large(self.link.text.encode()) + self.info


@value
class RatchetKey:
    """The notice that the peer's ratchet is lost, with keys for a new one."""

    version: int
    parameters: RatchetParameters
    info: bytes = field(repr=False)

    def encode(self) -> bytes:
        return word16(self.version) + b"R" + self.parameters.encode() + self.info


AgentEnvelope: TypeAlias = AgentConfirmation | EncryptedMessage | ConnectionRequest | RatchetKey


def parse_envelope(data: bytes) -> AgentEnvelope:
    """Read the body of a client envelope."""
    reader = FieldReader(data)
    version = reader.word16()
    kind = reader.char()
    if kind == b"M":
        return EncryptedMessage(version, reader.rest())
    if kind == b"C":
        return AgentConfirmation(version, reader.maybe(RatchetParameters.read), reader.rest())
    if kind == b"I":
        return ConnectionRequest(version, _read_link(reader), reader.rest())
    if kind == b"R":
        return RatchetKey(version, RatchetParameters.read(reader), reader.rest())
    raise Malformed("no envelope of an agent")


def seal_confirmation(
    version: int, ratchet: Ratchet, content: AgentContent, parameters: RatchetParameters | None
) -> tuple[Ratchet, AgentConfirmation]:
    """The ratchet behind the confirmation, and the confirmation."""
    padded = CONFIRMATION_PADDED_KEM if ratchet.has_kem_room else CONFIRMATION_PADDED
    after, encrypted = ratchet.encrypt(content.encode(), padded)
    return after, AgentConfirmation(version, parameters, encrypted)


def seal_message(
    version: int, ratchet: Ratchet, content: NumberedMessage
) -> tuple[Ratchet, EncryptedMessage]:
    """The ratchet behind the message, and the message; raises `TooLong` before any change."""
    padded = MESSAGE_PADDED_KEM if ratchet.has_kem_room else MESSAGE_PADDED
    if isinstance(content.message, ApplicationMessage):
        check_body(content.message.body, has_kem_room=ratchet.has_kem_room)
    after, encrypted = ratchet.encrypt(content.encode(), padded)
    return after, EncryptedMessage(version, encrypted)


def application_body_max(*, has_kem_room: bool) -> int:
    """The longest body of an application's message."""
    padded = MESSAGE_PADDED_KEM if has_kem_room else MESSAGE_PADDED
    return padded - LENGTH_BYTES - NUMBERED_BYTES


def check_body(body: bytes, *, has_kem_room: bool) -> None:
    """Raise `TooLong` if a message has no room for the body."""
    room = application_body_max(has_kem_room=has_kem_room)
    if len(body) > room:
        raise TooLong(len(body), room)


def _read_link(reader: FieldReader) -> InvitationLink:
    try:
        text = reader.large().decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("a link that is no text") from None
    link = parse_link(text)
    if not isinstance(link, InvitationLink):
        raise Malformed("a request has an invitation")
    return link

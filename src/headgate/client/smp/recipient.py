"""A queue as its recipient knows it, the keys of its parties, and their requests to a router."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.core.model.value import value
from headgate.crypto.box import public_of
from headgate.crypto.keys import KeyKind, SigningKey, encode_key, public_key
from headgate.errors import ProtocolError
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.replies import Ids, Msg, NMsg, Reply
from headgate.wire.smp.codec.sealed import (
    Body,
    QuotaMarker,
    SealedNotice,
    open_message,
    open_notice,
    parse_message,
    parse_notice,
)

Key: TypeAlias = SigningKey | bytes
"""The private key of a party of a queue: one that signs, or a raw one of X25519."""

Kind: TypeAlias = Literal["ed25519", "ed448", "x25519"]


def make_key(kind: Kind = "ed25519") -> Key:
    match kind:
        case "ed25519":
            return Ed25519PrivateKey.generate()
        case "ed448":
            return Ed448PrivateKey.generate()
        case "x25519":
            return secrets.token_bytes(32)


def spki(key: Key) -> bytes:
    """The public half, in the form of the wire."""
    if isinstance(key, bytes):
        return encode_key(KeyKind.X25519, public_of(key))
    return public_key(key)


@value
class Request:
    """One command and its party."""

    command: c.Command | bytes
    """Bytes are sent as they are, and need not be a command."""
    entity: bytes = b""
    key: Key | None = field(default=None, repr=False)
    """The key that authorises it. SUBS and NSUBS need none: the service's session signs them."""
    service_signed: bool | None = None
    """Whether the service signs too. By default, if the command needs it."""
    correlation: bytes | None = None
    """Drawn by default."""


@value
class LinkData:
    """Link data of a new queue; `id` is chosen for a contact only."""

    fixed: bytes
    user: bytes
    id: bytes | None = None


@dataclass
class Queue:
    """A queue as its recipient knows it."""

    ids: Ids
    key: Key = field(repr=False)
    secret: bytes = field(repr=False)
    """The secret that opens messages."""
    notifier_key: Key | None = field(default=None, repr=False)
    notice_secret: bytes = field(default=b"", repr=False)

    @property
    def id(self) -> bytes:
        """The recipient's id."""
        return self.ids.recipient

    @property
    def sender(self) -> bytes:
        return self.ids.sender

    @property
    def notifier(self) -> bytes:
        """The notifier's id, or empty."""
        return b"" if self.ids.notifier is None else self.ids.notifier.notifier

    def open(self, msg: Reply) -> Body | QuotaMarker:
        if not isinstance(msg, Msg):
            raise ProtocolError(f"not a message: {msg}")
        return parse_message(open_message(self.secret, msg.message_id, msg.sealed))

    def open_notice(self, notice: Reply) -> SealedNotice:
        if not isinstance(notice, NMsg):
            raise ProtocolError(f"not a notice: {notice}")
        return parse_notice(open_notice(self.notice_secret, notice.nonce, notice.sealed))

    def asks(self, command: c.Command | bytes) -> Request:
        """A request of the recipient."""
        return Request(command, self.id, self.key)

"""The messages of the handshake, both ways. Each travels alone in a plain padded block.

The router greets with its versions, the session id, its certificates and a key made for this
connection. The client answers with the version it chose and its own key. Only a client that shows
itself as a service is answered once more. Whoever reads a message ignores what follows the fields
it knows, so that later versions may add some.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import (
    FieldReader,
    boolean,
    items,
    large,
    maybe,
    string,
    word16,
)

KEYS_FROM = 7
"""The first version with session keys, and with authenticators made with them."""

ENCRYPTED_FROM = 11
PROXY_FROM = 14
SERVICE_FROM = 16


class Versions(NamedTuple):
    """A range, both ends included."""

    lowest: int
    highest: int

    def common(self, other: Versions) -> int | None:
        """The highest version that both ranges hold: the one that a client chooses."""
        version = min(self.highest, other.highest)
        return version if version >= max(self.lowest, other.lowest) else None


VERSIONS = Versions(7, 19)
"""What this router speaks."""

LEGACY = Versions(6, 6)
"""What is offered to a client without ALPN: it can only be a version that we do not speak."""


class TransportError(Enum):
    """An error below the commands, as a peer sees it."""

    BLOCK = b"BLOCK"
    VERSION = b"VERSION"
    LARGE_MSG = b"LARGE_MSG"
    SESSION = b"SESSION"
    NO_AUTH = b"NO_AUTH"
    PARSE = b"HANDSHAKE PARSE"
    IDENTITY = b"HANDSHAKE IDENTITY"
    BAD_AUTH = b"HANDSHAKE BAD_AUTH"
    BAD_SERVICE = b"HANDSHAKE BAD_SERVICE"


class Role(Enum):
    """The role of a service: what it does with its queues."""

    MESSAGING = b"M"
    NOTIFIER = b"N"
    PROXY = b"P"


@value
class ServerHello:
    """The first message. Below version 7 there are no certificates and no key in it."""

    versions: Versions
    session_id: bytes
    chain: tuple[bytes, ...] = ()
    signed_key: bytes = b""
    """An X25519 key of this connection, signed by the leaf of the chain."""

    def encode(self) -> bytes:
        lowest, highest = self.versions
        head = word16(lowest) + word16(highest) + string(self.session_id)
        if highest < KEYS_FROM:
            return head
        return head + items([large(der) for der in self.chain]) + large(self.signed_key)

    @classmethod
    def parse(cls, data: bytes) -> ServerHello:
        reader = FieldReader(data)
        versions = Versions(reader.word16(), reader.word16())
        session_id = reader.string()
        if versions.highest < KEYS_FROM:
            return cls(versions, session_id)
        return cls(versions, session_id, tuple(reader.some(FieldReader.large)), reader.large())


@value
class ServiceHello:
    """How a client shows itself as a service."""

    role: Role
    chain: tuple[bytes, ...]
    signed_key: bytes
    """An Ed25519 key of this connection, signed by the leaf of the chain."""

    def encode(self) -> bytes:
        chain = items([large(der) for der in self.chain])
        return self.role.value + chain + large(self.signed_key)

    @classmethod
    def read(cls, reader: FieldReader) -> ServiceHello:
        try:
            role = Role(reader.char())
        except ValueError as error:
            raise Malformed("a service of an unknown role") from error
        return cls(role, tuple(reader.some(FieldReader.large)), reader.large())


@value
class ClientHello:
    """The second message. A field that its version does not have is as if it were absent."""

    version: int
    key_hash: bytes
    """The fingerprint of the router that the client means."""
    key: bytes | None = None
    """An X25519 key of this connection, as SPKI."""
    is_proxy: bool = False
    service: ServiceHello | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether the blocks that follow are encrypted, given that the router sent a key."""
        return self.version >= ENCRYPTED_FROM and self.key is not None and not self.is_proxy

    def encode(self) -> bytes:
        # WIRE-8, WIRE-9, WIRE-10: then what the version has, and a key only if there is one.
        data = word16(self.version) + string(self.key_hash)
        if self.version >= KEYS_FROM and self.key is not None:
            data += string(self.key)
        if self.version >= PROXY_FROM:
            data += boolean(self.is_proxy)
        if self.version >= SERVICE_FROM:
            data += maybe(None if self.service is None else self.service.encode())
        return data

    @classmethod
    def parse(cls, data: bytes) -> ClientHello:
        reader = FieldReader(data)
        version = reader.word16()
        key_hash = reader.string()
        key = _optional_key(reader) if version >= KEYS_FROM else None
        is_proxy = reader.boolean() if version >= PROXY_FROM else False
        # S001-4: before version 16 there is no such part.
        service = reader.maybe(ServiceHello.read) if version >= SERVICE_FROM else None
        return cls(version, key_hash, key, is_proxy, service)


@value
class ServiceAccepted:
    """The third message: who the service is, for as long as it has this certificate."""

    service_id: bytes

    def encode(self) -> bytes:
        # WIRE-11: a service is accepted by its id.
        return b"R" + string(self.service_id)


@value
class ServiceRefused:
    """The third message before the router closes."""

    error: TransportError

    def encode(self) -> bytes:
        # WIRE-12: or refused with a word.
        return b"E" + self.error.value


ServiceReply: TypeAlias = ServiceAccepted | ServiceRefused


def parse_service_reply(data: bytes) -> ServiceReply:
    reader = FieldReader(data)
    match reader.char():
        case b"R":
            return ServiceAccepted(reader.string())
        case b"E":
            text = reader.rest()
            for error in TransportError:
                if text.startswith(error.value):
                    return ServiceRefused(error)
    raise Malformed("neither granted nor refused")


def _optional_key(reader: FieldReader) -> bytes | None:
    """A key that no tag announces: what is not one is the next field, and is read again."""
    place = reader.mark()
    try:
        return reader.dh_key()
    except Malformed:
        reader.rewind(place)
        return None

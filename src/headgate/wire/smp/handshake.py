"""The messages of the handshake, in both directions. Each is alone in a plain padded block.

The router sends its versions, the session id, its certificates and a key made for this connection.
The client answers with the version it chose and its own key. Only a client that claims to be a
service gets another message. Fields after the known ones are ignored, so that later versions may
add some.
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
        """The highest version that both ranges have: the one that a client chooses."""
        version = min(self.highest, other.highest)
        return version if version >= max(self.lowest, other.lowest) else None


VERSIONS = Versions(7, 19)
"""The versions that this router supports."""

LEGACY = Versions(6, 6)
"""The versions offered to a client without ALPN: it only supports ones that this router does
not."""


class TransportError(Enum):
    """An error below the level of commands, as a peer sees it."""

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
    """The role of a service: how it uses its queues."""

    MESSAGING = b"M"
    NOTIFIER = b"N"
    PROXY = b"P"


@value
class ServerHello:
    """The first message. Below version 7 it has no certificates and no key."""

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
    """A client's claim to be a service."""

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
    """The second message. Fields that its version does not have count as absent."""

    version: int
    key_hash: bytes
    """The fingerprint of the router that the client expects."""
    key: bytes | None = None
    """An X25519 key of this connection, as SPKI."""
    is_proxy: bool = False
    service: ServiceHello | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether the blocks that follow are encrypted, given that the router sent a key."""
        return self.version >= ENCRYPTED_FROM and self.key is not None and not self.is_proxy

    def encode(self) -> bytes:
        # WIRE-8, WIRE-9, WIRE-10: then the fields of the version, and a key only if there is one.
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
        # S001-4: before version 16 this part is missing.
        service = reader.maybe(ServiceHello.read) if version >= SERVICE_FROM else None
        return cls(version, key_hash, key, is_proxy, service)


@value
class ServiceAccepted:
    """The third message: the id of the service, as long as it has this certificate."""

    service_id: bytes

    def encode(self) -> bytes:
        # WIRE-11: acceptance gives the service's id.
        return b"R" + string(self.service_id)


@value
class ServiceRefused:
    """The third message before the router closes the connection."""

    error: TransportError

    def encode(self) -> bytes:
        # WIRE-12: refusal gives an error.
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
    """A key without a tag: if it is not one, the bytes are the next field, and are read again."""
    place = reader.mark()
    try:
        return reader.dh_key()
    except Malformed:
        reader.rewind(place)
        return None

"""Ratchet messages: the bytes of a message of the double ratchet and of its encrypted header.

A header is encrypted with a key of its own, so that an observer cannot tell whether two messages
belong together. The tag of the message covers it.
"""

from __future__ import annotations

from typing import Final

from headgate.core.model.value import value
from headgate.crypto.gcm import IV_BYTES, TAG_BYTES, Tagged, decrypt, encrypt
from headgate.crypto.padding import pad, unpad
from headgate.errors import Malformed
from headgate.wire.smp.agent.ratchet_parameters import KEM_FROM, KemParameters, read_kem
from headgate.wire.smp.agent.versions import RATCHET_VERSIONS
from headgate.wire.smp.codec.encoding import (
    FieldReader,
    large,
    maybe,
    ratchet_key,
    string,
    word16,
    word32,
)

HEADER_PADDED: Final = 88
HEADER_PADDED_KEM: Final = 2310
"""Size with room for a key and a ciphertext of a KEM, used or not."""

LARGE_FROM: Final = 3
"""The first version with lengths of two bytes. In one byte they are at least 88."""

ONE_BYTE_LEAST: Final = 32


@value
class RatchetHeader:
    """The header of a message: the keys it uses."""

    version_max: int
    """The highest version that the sender supports."""
    public: bytes
    """The sender's present key of X448, raw."""
    kem: KemParameters | None
    previous_count: int
    """Messages in the sender's chain before this one."""
    number: int
    """Number of the message in its chain, from 0."""

    @classmethod
    def parse(cls, plaintext: bytes, version: int) -> RatchetHeader:
        """Parse a header. `version` is the one in the encrypted header."""
        reader = FieldReader(plaintext)
        version_max = reader.word16()
        public = reader.ratchet_key()
        kem = reader.maybe(read_kem) if version >= KEM_FROM else None
        header = cls(version_max, public, kem, reader.word32(), reader.word32())
        reader.finish()
        return header

    def encode(self, version: int) -> bytes:
        kem = b""
        if version >= KEM_FROM:
            kem = maybe(None if self.kem is None else self.kem.encode())
        counts = word32(self.previous_count) + word32(self.number)
        return word16(self.version_max) + ratchet_key(self.public) + kem + counts


@value
class EncryptedHeader:
    """A header on the wire, with the version in which it is written."""

    version: int
    iv: bytes
    tagged: Tagged

    @classmethod
    def seal(
        cls,
        header: RatchetHeader,
        version: int,
        key: bytes,
        iv: bytes,
        associated_data: bytes,
        padded_size: int,
    ) -> EncryptedHeader:
        padded = pad(header.encode(version), padded_size)
        return cls(version, iv, encrypt(key, iv, padded, associated_data))

    def open(self, key: bytes, associated_data: bytes) -> RatchetHeader | None:
        """The header, or None if it was sealed with another key."""
        padded = decrypt(key, self.iv, self.tagged, associated_data)
        return None if padded is None else RatchetHeader.parse(unpad(padded), self.version)

    @classmethod
    def parse(cls, data: bytes) -> EncryptedHeader:
        reader = FieldReader(data)
        version = reader.word16()
        if not RATCHET_VERSIONS.lowest <= version <= RATCHET_VERSIONS.highest:
            raise Malformed("a ratchet of a version that we do not speak")
        iv, tag = reader.take(IV_BYTES), reader.take(TAG_BYTES)
        header = cls(version, iv, Tagged(tag, read_sized(reader)))
        reader.finish()
        return header

    def encode(self) -> bytes:
        body = sized(self.tagged.body, self.version)
        return word16(self.version) + self.iv + self.tagged.tag + body


@value
class RatchetMessage:
    """A message on the wire: its header, and its encrypted contents."""

    header: bytes
    """Encoded, as the tag covers it."""
    tagged: Tagged

    @classmethod
    def parse(cls, data: bytes) -> RatchetMessage:
        reader = FieldReader(data)
        header = read_sized(reader)
        return cls(header, Tagged(reader.take(TAG_BYTES), reader.rest()))

    def encode(self) -> bytes:
        version = int.from_bytes(self.header[:2], "big")
        return sized(self.header, version) + self.tagged.tag + self.tagged.body


def read_sized(reader: FieldReader) -> bytes:
    """Bytes behind a length of one or two bytes: in two, the first is below 32."""
    at = reader.mark()
    is_large = reader.byte() < ONE_BYTE_LEAST
    reader.rewind(at)
    return reader.large() if is_large else reader.string()


def sized(data: bytes, version: int) -> bytes:
    return large(data) if version >= LARGE_FROM else string(data)

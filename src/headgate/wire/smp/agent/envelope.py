"""Client envelope: a body for a queue, sealed for the maker of its address.

The sender makes a key of X25519 for each queue. Its first message has the public half, so that the
recipient can agree on the secret; later ones are sealed with the same secret and have no key. Both
kinds have one size each, whatever they hold. The router seals all of it again for the recipient.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from headgate.core.model.value import value
from headgate.crypto.box import NONCE_BYTES, box, unbox
from headgate.crypto.padding import LENGTH_BYTES, pad, unpad
from headgate.errors import Malformed, TooLong
from headgate.wire.smp.codec.encoding import FieldReader, maybe_string, string, word16
from headgate.wire.smp.handshake import Versions

READABLE: Final = Versions(2, 4)
"""Versions of an envelope that can be read."""

FIRST_PADDED: Final = 15904
LATER_PADDED: Final = 16000
"""Size to which a body is padded before sealing: less in the first message, which has a key."""

NO_KEY: Final = b"_"
WITH_KEY: Final = b"K"


@value
class EnvelopeContents:
    """The contents of an envelope, for its recipient."""

    sender_key: bytes | None
    """The key with which the sender will sign, if the recipient has to set it; None where a sender
    can secure the queue itself."""
    body: bytes = field(repr=False)

    def encode(self) -> bytes:
        return _private_header(self.sender_key) + self.body

    @classmethod
    def parse(cls, plaintext: bytes) -> EnvelopeContents:
        reader = FieldReader(plaintext)
        kind = reader.char()
        if kind == NO_KEY:
            return cls(None, reader.rest())
        if kind == WITH_KEY:
            return cls(reader.queue_key(), reader.rest())
        raise Malformed("no contents of an envelope")


@value
class ClientEnvelope:
    """The body of a SEND."""

    version: int
    exchange_key: bytes | None
    """The sender's key of X25519, in its first message."""
    nonce: bytes
    sealed: bytes = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> ClientEnvelope:
        reader = FieldReader(data)
        version = reader.word16()
        if not READABLE.lowest <= version <= READABLE.highest:
            raise Malformed("an envelope of a version that we do not read")
        key = reader.maybe(FieldReader.dh_key)
        return cls(version, key, reader.take(NONCE_BYTES), reader.rest())

    @classmethod
    def seal(
        cls,
        version: int,
        key: bytes,
        nonce: bytes,
        contents: EnvelopeContents,
        exchange_key: bytes | None = None,
    ) -> ClientEnvelope:
        """Seal an envelope. `key` is `headgate.crypto.box.shared_key` of the sender's and the
        address's keys. With an `exchange_key` it has the form of the first message, and of every
        request to a contact."""
        room = body_max(exchange_key, contents.sender_key)
        if len(contents.body) > room:
            raise TooLong(len(contents.body), room)
        padded = pad(contents.encode(), _padded(exchange_key))
        return cls(version, exchange_key, nonce, box(key, nonce, padded))

    def open(self, key: bytes) -> EnvelopeContents:
        """Open an envelope. `key` is that of `seal`: `shared_key` of the address's private key and
        the sender's `exchange_key`, here or in its first message."""
        return EnvelopeContents.parse(unpad(unbox(key, self.nonce, self.sealed)))

    def encode(self) -> bytes:
        return word16(self.version) + maybe_string(self.exchange_key) + self.nonce + self.sealed


def body_max(exchange_key: bytes | None, sender_key: bytes | None = None) -> int:
    """The longest body of an envelope with these keys."""
    return _padded(exchange_key) - LENGTH_BYTES - len(_private_header(sender_key))


def _padded(exchange_key: bytes | None) -> int:
    return LATER_PADDED if exchange_key is None else FIRST_PADDED


def _private_header(sender_key: bytes | None) -> bytes:
    return NO_KEY if sender_key is None else WITH_KEY + string(sender_key)

"""Ratchet parameters: the public keys that two agents exchange before their first encrypted
message.

The initiator puts an offer into its link, with a range of versions; the joiner answers with
parameters in one version. Either may add a KEM to its two keys of X448: a proposed public key, or a
ciphertext for the peer's and a new public key of its own.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.crypto.kem import KEM_CIPHERTEXT_BYTES, KEM_PUBLIC_BYTES
from headgate.crypto.ratchet_keys import PublicPair
from headgate.crypto.x448 import decode_x448, encode_x448
from headgate.errors import Malformed
from headgate.wire.smp.agent.query import Query
from headgate.wire.smp.agent.versions import (
    encode_versions,
    format_versions,
    parse_versions,
    read_versions,
)
from headgate.wire.smp.codec.encoding import FieldReader, large, maybe, ratchet_key, word16
from headgate.wire.smp.codec.router_address import decode_base64
from headgate.wire.smp.handshake import Versions

KEM_FROM: Final = 3
"""The first version of the ratchet that has a place for a KEM."""


@value
class KemProposal:
    """A public key that the peer may answer with a ciphertext."""

    public: bytes

    def encode(self) -> bytes:
        return b"P" + large(self.public)


@value
class KemAcceptance:
    """A ciphertext for the peer's key, and a new key for the peer's next one."""

    ciphertext: bytes
    public: bytes

    def encode(self) -> bytes:
        return b"A" + large(self.ciphertext) + large(self.public)


KemParameters: TypeAlias = KemProposal | KemAcceptance


@value
class RatchetOffer:
    """The initiator's keys, in an invitation."""

    versions: Versions
    keys: PublicPair
    kem: KemProposal | None = None

    @classmethod
    def read(cls, reader: FieldReader) -> RatchetOffer:
        versions = read_versions(reader)
        keys = _read_pair(reader)
        kem = reader.maybe(read_kem)
        if isinstance(kem, KemAcceptance):
            raise Malformed("an offer that accepts one")
        return cls(versions, keys, kem)

    def encode(self) -> bytes:
        kem = None if self.kem is None else self.kem.encode()
        return encode_versions(self.versions) + _encode_pair(self.keys) + maybe(kem)

    @classmethod
    def parse(cls, text: str) -> RatchetOffer:
        """Parse the parameter of a link."""
        query = Query(text)
        versions = parse_versions(query.need("v"))
        first, comma, second = query.need("x3dh").partition(",")
        if not comma:
            raise Malformed("an offer has two keys")
        keys = PublicPair(decode_x448(decode_base64(first)), decode_x448(decode_base64(second)))
        kem_key = query.find("kem_key")
        if kem_key is None:
            return cls(versions, keys)
        return cls(versions, keys, KemProposal(_kem_public(decode_base64(kem_key))))

    @property
    def text(self) -> str:
        """The text, not escaped: that is done for the parameter as a whole."""
        keys = ",".join(_key_text(encode_x448(raw)) for raw in (self.keys.first, self.keys.second))
        kem = "" if self.kem is None else f"&kem_key={_key_text(self.kem.public)}"
        return f"v={format_versions(self.versions)}&x3dh={keys}{kem}"


@value
class RatchetParameters:
    """The joiner's keys, in its confirmation."""

    version: int
    keys: PublicPair
    kem: KemParameters | None = None

    @classmethod
    def read(cls, reader: FieldReader) -> RatchetParameters:
        version = reader.word16()
        keys = _read_pair(reader)
        return cls(version, keys, reader.maybe(read_kem) if version >= KEM_FROM else None)

    def encode(self) -> bytes:
        encoded = word16(self.version) + _encode_pair(self.keys)
        if self.version < KEM_FROM:
            assert self.kem is None, "a KEM has no place below version 3"
            return encoded
        return encoded + maybe(None if self.kem is None else self.kem.encode())


def read_kem(reader: FieldReader) -> KemParameters:
    kind = reader.char()
    if kind == b"P":
        return KemProposal(_kem_public(reader.large()))
    if kind == b"A":
        ciphertext = reader.large()
        if len(ciphertext) != KEM_CIPHERTEXT_BYTES:
            raise Malformed("no ciphertext of a KEM")
        return KemAcceptance(ciphertext, _kem_public(reader.large()))
    raise Malformed("nothing for a KEM")


def _kem_public(public: bytes) -> bytes:
    if len(public) != KEM_PUBLIC_BYTES:
        raise Malformed("no public key of a KEM")
    return public


def _read_pair(reader: FieldReader) -> PublicPair:
    return PublicPair(reader.ratchet_key(), reader.ratchet_key())


def _encode_pair(keys: PublicPair) -> bytes:
    return ratchet_key(keys.first) + ratchet_key(keys.second)


def _key_text(key: bytes) -> str:
    return urlsafe_b64encode(key).decode()

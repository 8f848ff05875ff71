"""Ratchet start: from an offer and its answer to a ratchet on either side.

The initiator keeps `OfferedKeys` and puts their public halves into its link. The joiner answers
with parameters and can send at once. The initiator makes its own ratchet of them, and can send once
it has decrypted the joiner's first message.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from headgate.core.model.value import value
from headgate.crypto.kem import Kem, KemKeyPair
from headgate.crypto.ratchet_keys import PrivatePair, agree_as_initiator, agree_as_joiner
from headgate.crypto.x448 import RAW_BYTES
from headgate.errors import Malformed
from headgate.wire.smp.agent.ratchet import OwnKem, Ratchet, RatchetVersion
from headgate.wire.smp.agent.ratchet_parameters import (
    KEM_FROM,
    KemAcceptance,
    KemProposal,
    RatchetOffer,
    RatchetParameters,
)
from headgate.wire.smp.agent.versions import RATCHET_VERSIONS
from headgate.wire.smp.codec.encoding import FieldReader, large, maybe
from headgate.wire.smp.handshake import Versions

BLOB_VERSION: Final = 1
"""The first byte of encoded `OfferedKeys`."""


@value
class OfferedKeys:
    """The private keys of an offer, kept until it is answered."""

    keys: PrivatePair
    kem: KemKeyPair | None = None
    """The private key of a KEM, if one is offered."""

    def offer(self, versions: Versions = RATCHET_VERSIONS) -> RatchetOffer:
        kem = None if self.kem is None else KemProposal(self.kem.public)
        return RatchetOffer(versions, self.keys.public, kem)

    def encode(self) -> bytes:
        """The keys as bytes for the store: they are secret."""
        kem = None
        if self.kem is not None:
            kem = large(self.kem.public) + large(self.kem.private)
        return bytes((BLOB_VERSION,)) + self.keys.first + self.keys.second + maybe(kem)

    @classmethod
    def decode(cls, blob: bytes) -> OfferedKeys:
        """Read what `encode` wrote, in this version or an earlier one."""
        reader = FieldReader(blob)
        if reader.byte() != BLOB_VERSION:
            raise Malformed("offered keys in a form that this version does not know")
        keys = PrivatePair(reader.take(RAW_BYTES), reader.take(RAW_BYTES))
        kem = reader.maybe(_read_kem_pair)
        reader.finish()
        return cls(keys, kem)


@value
class JoinedRatchet:
    """A joiner's start: its public keys for the peer, and its ratchet."""

    parameters: RatchetParameters
    ratchet: Ratchet = field(repr=False)


def join_ratchet(
    offer: RatchetOffer,
    keys: PrivatePair,
    fresh: bytes,
    kem: Kem | None = None,
    versions: Versions = RATCHET_VERSIONS,
) -> JoinedRatchet:
    """Answer an offer with two private keys of X448 and a third for the first chain. With a `kem`
    an offered one is accepted, and otherwise one is proposed."""
    current = versions.common(offer.versions)
    if current is None:
        raise Malformed("no version of the ratchet in common")
    own_kem, secret = None, b""
    if kem is not None and current >= KEM_FROM:
        if offer.kem is None:
            own_kem = OwnKem(kem.generate(), None)
        else:
            made = kem.encapsulate(offer.kem.public)
            own_kem, secret = OwnKem(kem.generate(), made.ciphertext), made.secret
    parameters = RatchetParameters(
        current, keys.public, None if own_kem is None else own_kem.parameters
    )
    ratchet = Ratchet.of_joiner(
        RatchetVersion(current, versions.highest),
        agree_as_joiner(keys, offer.keys, secret),
        offer.keys.second,
        fresh,
        has_kem_room=kem is not None,
        kem=own_kem,
        kem_secret=secret,
    )
    return JoinedRatchet(parameters, ratchet)


def answer_ratchet(
    offered: OfferedKeys,
    parameters: RatchetParameters,
    kem: Kem | None = None,
    versions: Versions = RATCHET_VERSIONS,
) -> Ratchet:
    """The initiator's ratchet, from the joiner's parameters. With a `kem` it has room for one."""
    current = parameters.version
    if not versions.lowest <= current <= versions.highest:
        raise Malformed("a version of the ratchet that was not offered")
    secret = b""
    if isinstance(parameters.kem, KemAcceptance):
        if offered.kem is None or kem is None:
            raise Malformed("a KEM was accepted that was not offered")
        secret = kem.decapsulate(offered.kem, parameters.kem.ciphertext)
    return Ratchet.of_initiator(
        RatchetVersion(current, versions.highest),
        agree_as_initiator(offered.keys, parameters.keys, secret),
        offered.keys.second,
        has_kem_room=kem is not None,
        kem=None if offered.kem is None or kem is None else OwnKem(offered.kem, None),
    )


def _read_kem_pair(reader: FieldReader) -> KemKeyPair:
    return KemKeyPair(reader.large(), reader.large())

"""Keys of two who agree on a ratchet, a KEM that draws nothing, and strategies."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import strategies as st

from headgate.crypto.kem import (
    KEM_CIPHERTEXT_BYTES,
    KEM_PUBLIC_BYTES,
    Encapsulation,
    KemKeyPair,
)
from headgate.crypto.ratchet_keys import PrivatePair, PublicPair
from headgate.errors import Malformed
from headgate.wire.smp.agent.ratchet_parameters import (
    KemAcceptance,
    KemProposal,
    RatchetOffer,
    RatchetParameters,
)
from headgate.wire.smp.agent.ratchet_start import OfferedKeys
from headgate.wire.smp.handshake import Versions
from tests.support.agent_examples import versions


def x448(byte: int) -> bytes:
    return bytes((byte,)) * 56


INITIATOR = PrivatePair(x448(0xA1), x448(0xA2))
JOINER = PrivatePair(x448(0xB1), x448(0xB2))
JOINER_FRESH = x448(0xB3)

OFFERED = OfferedKeys(INITIATOR)
OFFER = RatchetOffer(Versions(2, 3), INITIATOR.public)


class CountingKem:
    """A KEM that protects nothing and draws nothing: a ciphertext is its secret in the clear,
    behind the public key that it was made for. It counts instead of drawing."""

    def __init__(self, first: int = 0) -> None:
        self.made = first

    def generate(self) -> KemKeyPair:
        self.made += 1
        seed = sha256(b"key %d" % self.made).digest()
        return KemKeyPair(seed.ljust(KEM_PUBLIC_BYTES, b"\0"), b"private" + seed)

    def encapsulate(self, public: bytes) -> Encapsulation:
        self.made += 1
        secret = sha256(b"secret %d" % self.made).digest()
        return Encapsulation((public[:32] + secret).ljust(KEM_CIPHERTEXT_BYTES, b"\0"), secret)

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytes:
        if ciphertext[:32] != pair.private[7:]:
            raise Malformed("a ciphertext for another key")
        return ciphertext[32:64]


raw_x448 = st.binary(min_size=56, max_size=56)
pairs = st.builds(PublicPair, raw_x448, raw_x448)
kem_publics = st.binary(min_size=32, max_size=32).map(lambda b: b.ljust(KEM_PUBLIC_BYTES, b"p"))
kem_ciphertexts = st.binary(min_size=32, max_size=32).map(
    lambda b: b.ljust(KEM_CIPHERTEXT_BYTES, b"c")
)
proposals = st.builds(KemProposal, kem_publics)
kem_parameters = proposals | st.builds(KemAcceptance, kem_ciphertexts, kem_publics)
offers = st.builds(RatchetOffer, versions, pairs, st.none() | proposals)
parameters = st.builds(RatchetParameters, st.integers(1, 2), pairs) | st.builds(
    RatchetParameters, st.integers(3, 65535), pairs, st.none() | kem_parameters
)

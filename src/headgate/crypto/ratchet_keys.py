"""Keys of the double ratchet: the agreement on the first ones, and the derivation of the others.

All of it is HKDF-SHA512 of X448 exchanges, with the secret of a KEM behind them if there is one.
The initiator made the link, the joiner used it. Everything here is a pure function.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from headgate.core.model.value import value
from headgate.crypto.gcm import IV_BYTES
from headgate.crypto.x448 import exchange, public_of

KEY_BYTES: Final = 32

AGREEMENT: Final = b"SimpleXX3DH"
ROOT: Final = b"SimpleXRootRatchet"
CHAIN: Final = b"SimpleXChainRatchet"
"""Purposes of key derivations."""

NO_SALT: Final = bytes(64)


@value
class PrivatePair:
    """The two private X448 keys, raw, that a party brings to the agreement."""

    first: bytes = field(repr=False)
    second: bytes = field(repr=False)

    @property
    def public(self) -> PublicPair:
        return PublicPair(public_of(self.first), public_of(self.second))


@value
class PublicPair:
    """The public keys of a `PrivatePair`, raw."""

    first: bytes
    second: bytes


@value
class AgreedKeys:
    """The keys that both parties have after the agreement."""

    header_key: bytes = field(repr=False)
    """The key of the joiner's first headers."""
    next_header_key: bytes = field(repr=False)
    """The key of the initiator's first headers."""
    root_key: bytes = field(repr=False)
    associated_data: bytes
    """Authenticated with every header and message: one public key of each party, the joiner's
    first."""


@value
class RootStep:
    """A step of the root key by a new key pair."""

    root_key: bytes = field(repr=False)
    chain_key: bytes = field(repr=False)
    next_header_key: bytes = field(repr=False)


@value
class ChainStep:
    """A step of a chain for one more message."""

    chain_key: bytes = field(repr=False)
    message_key: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    header_iv: bytes = field(repr=False)


def agree_as_joiner(own: PrivatePair, peer: PublicPair, kem_secret: bytes = b"") -> AgreedKeys:
    secrets = (
        exchange(own.second, peer.first),
        exchange(own.first, peer.second),
        exchange(own.second, peer.second),
    )
    return _agreed(b"".join(secrets) + kem_secret, public_of(own.first) + peer.first)


def agree_as_initiator(own: PrivatePair, peer: PublicPair, kem_secret: bytes = b"") -> AgreedKeys:
    secrets = (
        exchange(own.first, peer.second),
        exchange(own.second, peer.first),
        exchange(own.second, peer.second),
    )
    return _agreed(b"".join(secrets) + kem_secret, peer.first + public_of(own.first))


def step_root(root_key: bytes, own: bytes, peer: bytes, kem_secret: bytes = b"") -> RootStep:
    """Advance the root key. `own` is a raw private key, `peer` a raw public one."""
    return RootStep(*_three(root_key, exchange(own, peer) + kem_secret, ROOT))


def step_chain(chain_key: bytes) -> ChainStep:
    next_key, message_key, ivs = _three(None, chain_key, CHAIN)
    return ChainStep(next_key, message_key, ivs[:IV_BYTES], ivs[IV_BYTES:])


def _agreed(secrets: bytes, associated_data: bytes) -> AgreedKeys:
    return AgreedKeys(*_three(NO_SALT, secrets, AGREEMENT), associated_data)


def _three(salt: bytes | None, secret: bytes, purpose: bytes) -> tuple[bytes, bytes, bytes]:
    made = HKDF(SHA512(), 3 * KEY_BYTES, salt, purpose).derive(secret)
    return made[:KEY_BYTES], made[KEY_BYTES : 2 * KEY_BYTES], made[2 * KEY_BYTES :]

"""X448: the key exchange of the double ratchet.

Its keys never authorise commands, so `headgate.crypto.keys` does not have them. Raw keys have 56
bytes; on the wire a public key is DER, like others.
"""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.asymmetric.x448 import X448PrivateKey, X448PublicKey

from headgate.errors import Malformed

X448: Final = bytes.fromhex("3042300506032b656f033900")
"""The beginning of a public key's DER; the raw key follows."""

RAW_BYTES: Final = 56


def public_of(private: bytes) -> bytes:
    """The raw public key of a raw private key."""
    return X448PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def exchange(private: bytes, public: bytes) -> bytes:
    """The secret of two raw keys. A public key for which every secret is the same is refused."""
    try:
        peer = X448PublicKey.from_public_bytes(public)
        return X448PrivateKey.from_private_bytes(private).exchange(peer)
    except ValueError:
        raise Malformed("a public key of low order") from None


def encode_x448(raw: bytes) -> bytes:
    """A raw public key as DER."""
    assert len(raw) == RAW_BYTES, "a raw key of X448 has 56 bytes"
    return X448 + raw


def decode_x448(der: bytes) -> bytes:
    """The raw public key in its DER."""
    if not der.startswith(X448) or len(der) != len(X448) + RAW_BYTES:
        raise Malformed("no key of X448")
    return der[len(X448) :]

"""Encryption with a key that two parties have agreed on.

Everything is NaCl's box: HSalsa20 of a secret, then XSalsa20-Poly1305. The protocol applies
HSalsa20 to symmetric secrets too, so a plain secretbox would not be compatible. Here `box` and
`unbox` take the key *after* HSalsa20: the key of a queue is hashed once and used for every message.
"""

from __future__ import annotations

from nacl.bindings import (
    crypto_box_beforenm,
    crypto_scalarmult,
    crypto_scalarmult_base,
    crypto_secretbox,
    crypto_secretbox_open,
)
from nacl.exceptions import CryptoError

from headgate.errors import Malformed

NONCE_BYTES = 24


def public_of(private: bytes) -> bytes:
    """The raw public key of a raw X25519 private key."""
    return crypto_scalarmult_base(private)


def shared_secret(private: bytes, public: bytes) -> bytes:
    """X25519 of two raw keys. A public key for which every secret is the same is refused."""
    try:
        # WIRE-40, WIRE-44: X25519, of a queue and of a session alike.
        return crypto_scalarmult(private, public)
    except CryptoError as error:
        raise Malformed("a public key of low order") from error


def shared_key(private: bytes, public: bytes) -> bytes:
    """`hsalsa20` of `shared_secret`, in one call."""
    try:
        return crypto_box_beforenm(public, private)
    except CryptoError as error:
        raise Malformed("a public key of low order") from error


def nonce_of(name: bytes) -> bytes:
    """A nonce made of an id of any length: cut, or padded with zeros."""
    return name[:NONCE_BYTES].ljust(NONCE_BYTES, b"\0")


def box(key: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    """The tag, then the ciphertext."""
    return crypto_secretbox(plaintext, nonce, key)


def unbox(key: bytes, nonce: bytes, sealed: bytes) -> bytes:
    try:
        return crypto_secretbox_open(sealed, nonce, key)
    except CryptoError as error:
        raise Malformed("does not decrypt") from error

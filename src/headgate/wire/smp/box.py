"""Encryption: of blocks, of message bodies, of notices.

Everything is NaCl's box: HSalsa20 of a secret, then XSalsa20-Poly1305. The protocol applies
HSalsa20 to symmetric secrets too, so a plain secretbox would not be understood. Here `box` and
`unbox` take the key *after* HSalsa20: the key of a queue is hashed once and used for every
message.
"""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from Crypto.Cipher import Salsa20
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.bindings import (
    crypto_box_beforenm,
    crypto_scalarmult,
    crypto_scalarmult_base,
    crypto_secretbox,
    crypto_secretbox_open,
)
from nacl.exceptions import CryptoError

from headgate.wire.smp.blocks import BLOCK, PADDED
from headgate.wire.smp.bodies import MESSAGE_PADDED, NOTICE_PADDED
from headgate.wire.smp.encoding import Malformed, pad, unpad

NONCE_BYTES = 24

WORDS = Struct("<16I")
KEY = Struct("<8I")
SIGMA = Struct("<4I").unpack(b"expand 32-byte k")


def hsalsa20(secret: bytes) -> bytes:
    """The key that `box` takes, of a secret.

    HSalsa20 of zeros is Salsa20's first block without the final addition: where constants and
    zeros were added, taking them away again gives it.
    """
    words = WORDS.unpack(Salsa20.new(secret, nonce=bytes(8)).encrypt(bytes(64)))
    corners = zip((words[0], words[5], words[10], words[15]), SIGMA, strict=True)
    return KEY.pack(*((word - sigma) & 0xFFFFFFFF for word, sigma in corners), *words[6:10])


def public_of(private: bytes) -> bytes:
    """The raw public key of a raw X25519 private key."""
    return crypto_scalarmult_base(private)


def shared_secret(private: bytes, public: bytes) -> bytes:
    """X25519 of two raw keys. A public key that gives everybody the same secret is refused."""
    try:
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
    """A nonce made of an id of any length: cut, or filled with zeros."""
    return name[:NONCE_BYTES].ljust(NONCE_BYTES, b"\0")


def box(key: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    """The tag, then the ciphertext."""
    return crypto_secretbox(plaintext, nonce, key)


def unbox(key: bytes, nonce: bytes, sealed: bytes) -> bytes:
    try:
        return crypto_secretbox_open(sealed, nonce, key)
    except CryptoError as error:
        raise Malformed("does not decrypt") from error


class Chain:
    """The keys of the blocks of one direction: each step forgets how the last was made."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def step(self) -> tuple[bytes, bytes]:
        """The secret and the nonce of the next block."""
        derived = HKDF(SHA512(), 88, salt=b"", info=b"SimpleXSbChain").derive(self.secret)
        self.secret = derived[:32]
        return derived[32:64], derived[64:]


def chains(secret: bytes, session_id: bytes) -> tuple[Chain, Chain]:
    """The chain that the router sends with, and the one that it receives with."""
    derived = HKDF(SHA512(), 64, salt=session_id, info=b"SimpleXSbChainInit").derive(secret)
    return Chain(derived[:32]), Chain(derived[32:])


class Cipher(Protocol):
    """How payloads become blocks, and blocks payloads, after the handshake."""

    def seal(self, payload: bytes) -> bytes: ...

    def open(self, block: bytes) -> bytes: ...


class PlainCipher:
    """Padding only: for handshakes, below version 11, for proxies, and without session keys."""

    __slots__ = ()

    def seal(self, payload: bytes) -> bytes:
        return pad(payload, BLOCK)

    def open(self, block: bytes) -> bytes:
        _check_size(block)
        return unpad(block)


class BlockCipher:
    """One end's pair of chains. Blocks are opened in the order in which they were sealed."""

    __slots__ = ("_receiving", "_sending")

    def __init__(self, sending: Chain, receiving: Chain) -> None:
        self._sending = sending
        self._receiving = receiving

    def seal(self, payload: bytes) -> bytes:
        secret, nonce = self._sending.step()
        return box(hsalsa20(secret), nonce, pad(payload, PADDED))

    def open(self, block: bytes) -> bytes:
        # The step comes first: after a block that does not open, the next one still may.
        secret, nonce = self._receiving.step()
        _check_size(block)
        return unpad(unbox(hsalsa20(secret), nonce, block))


def router_cipher(private: bytes, public: bytes, session_id: bytes) -> BlockCipher:
    """The router's end, from its own private and the client's public session key."""
    sending, receiving = chains(shared_secret(private, public), session_id)
    return BlockCipher(sending, receiving)


def client_cipher(private: bytes, public: bytes, session_id: bytes) -> BlockCipher:
    """The client's end, from its own private and the router's public session key."""
    receiving, sending = chains(shared_secret(private, public), session_id)
    return BlockCipher(sending, receiving)


def seal_message(key: bytes, message_id: bytes, plaintext: bytes) -> bytes:
    """The body of a MSG: of the same size for all, and the same bytes at every delivery."""
    return box(key, nonce_of(message_id), pad(plaintext, MESSAGE_PADDED))


def open_message(key: bytes, message_id: bytes, body: bytes) -> bytes:
    return unpad(unbox(key, nonce_of(message_id), body))


def seal_notice(key: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    """The metadata of an NMSG, for the recipient's eyes and not the notifier's."""
    return box(key, nonce, pad(plaintext, NOTICE_PADDED))


def open_notice(key: bytes, nonce: bytes, metadata: bytes) -> bytes:
    return unpad(unbox(key, nonce, metadata))


def _check_size(block: bytes) -> None:
    if len(block) != BLOCK:
        raise Malformed(f"a block of {len(block)} bytes")

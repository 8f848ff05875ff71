"""Ciphers: payloads become blocks after the handshake, padded and sealed with a key for each
block."""

from __future__ import annotations

from typing import Protocol

from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from headgate.crypto.box import box, shared_secret, unbox
from headgate.crypto.hsalsa20 import hsalsa20
from headgate.crypto.padding import pad, unpad
from headgate.errors import Malformed
from headgate.wire.smp.codec.blocks import BLOCK, PADDED


class Chain:
    """The block keys of one direction: a step cannot be reversed."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def step(self) -> tuple[bytes, bytes]:
        """The secret and the nonce of the next block."""
        # WIRE-46: the next secret of the chain, then key and nonce of the block.
        derived = HKDF(SHA512(), 88, salt=b"", info=b"SimpleXSbChain").derive(self.secret)
        self.secret = derived[:32]
        return derived[32:64], derived[64:]


def chains(secret: bytes, session_id: bytes) -> tuple[Chain, Chain]:
    """The chains of the router for sending and for receiving."""
    # WIRE-45: the first half is for the router's blocks.
    derived = HKDF(SHA512(), 64, salt=session_id, info=b"SimpleXSbChainInit").derive(secret)
    return Chain(derived[:32]), Chain(derived[32:])


class Cipher(Protocol):
    """Turns payloads into blocks, and blocks into payloads, after the handshake."""

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
        # The step comes first: after a block that cannot be opened, the next one still can.
        secret, nonce = self._receiving.step()
        _check_size(block)
        return unpad(unbox(hsalsa20(secret), nonce, block))


def router_cipher(private: bytes, public: bytes, session_id: bytes) -> BlockCipher:
    """The router's cipher, from its own private and the client's public session key."""
    sending, receiving = chains(shared_secret(private, public), session_id)
    return BlockCipher(sending, receiving)


def client_cipher(private: bytes, public: bytes, session_id: bytes) -> BlockCipher:
    """The client's cipher, from its own private and the router's public session key."""
    receiving, sending = chains(shared_secret(private, public), session_id)
    return BlockCipher(sending, receiving)


def _check_size(block: bytes) -> None:
    if len(block) != BLOCK:
        raise Malformed(f"a block of {len(block)} bytes")

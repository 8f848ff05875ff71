"""Chains of a ratchet: each step gives the key of one message, and cannot be reversed.

A ratchet has one for sending and one for receiving, each made anew when the other side changes its
key. Like a ratchet they are values: a step returns another chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from headgate.core.model.value import value
from headgate.crypto.ratchet_keys import KEY_BYTES, step_chain
from headgate.crypto.x448 import RAW_BYTES
from headgate.errors import AlreadyDecrypted, TooManySkipped
from headgate.wire.smp.agent.skipped_keys import GAP_MAX, SkippedKey
from headgate.wire.smp.codec.encoding import FieldReader


@value
class SendingChain:
    """The chain that encrypts the next message."""

    peer: bytes
    """The peer's public key that the chain was made with, raw."""
    chain_key: bytes = field(repr=False)
    header_key: bytes = field(repr=False)

    @classmethod
    def read(cls, reader: FieldReader) -> SendingChain:
        return cls(reader.take(RAW_BYTES), reader.take(KEY_BYTES), reader.take(KEY_BYTES))

    def encode(self) -> bytes:
        return self.peer + self.chain_key + self.header_key


@value
class ReceivingChain:
    """The chain that decrypts the peer's next message."""

    chain_key: bytes = field(repr=False)
    header_key: bytes = field(repr=False)

    @classmethod
    def read(cls, reader: FieldReader) -> ReceivingChain:
        return cls(reader.take(KEY_BYTES), reader.take(KEY_BYTES))

    def encode(self) -> bytes:
        return self.chain_key + self.header_key

    def skip(self, received: int, number: int) -> tuple[ReceivingChain, Sequence[SkippedKey]]:
        """The chain at the message of this number, and the keys of the skipped messages before it.
        `received` is the number that the chain is at now."""
        if number < received:
            raise AlreadyDecrypted("a message of this number has come before")
        if number > received + GAP_MAX:
            raise TooManySkipped(f"{number - received} messages are missing, over {GAP_MAX}")
        added = []
        chain_key = self.chain_key
        for missing in range(received, number):
            step = step_chain(chain_key)
            added.append(SkippedKey(self.header_key, missing, step.message_key, step.iv))
            chain_key = step.chain_key
        return replace(self, chain_key=chain_key), added

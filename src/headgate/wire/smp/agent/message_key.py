"""The key of one message to send, independent of the ratchet that it came from.

The ratchet has advanced when it returns a key. If the key is stored with the message, that can be
sealed again after a restart, with the same bytes.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from headgate.core.model.value import value
from headgate.crypto.gcm import encrypt
from headgate.crypto.padding import LENGTH_BYTES, pad
from headgate.crypto.x448 import RAW_BYTES
from headgate.errors import TooLong
from headgate.wire.smp.agent.ratchet_messages import RatchetMessage

ASSOCIATED_BYTES: Final = 2 * RAW_BYTES


@value
class MessageKey:
    """The key of one message. The ratchet has advanced, and no other key opens the message."""

    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    header: bytes = field(repr=False)
    """Encrypted and encoded."""
    associated_data: bytes = field(repr=False)

    def seal(self, plaintext: bytes, padded_size: int) -> bytes:
        """Seal the message. A key must not be used for two."""
        check_room(plaintext, padded_size)
        beside = self.associated_data + self.header
        tagged = encrypt(self.key, self.iv, pad(plaintext, padded_size), beside)
        return RatchetMessage(self.header, tagged).encode()


def check_room(plaintext: bytes, padded_size: int) -> None:
    room = padded_size - LENGTH_BYTES
    if len(plaintext) > room:
        raise TooLong(len(plaintext), room)

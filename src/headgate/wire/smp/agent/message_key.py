"""The key of one message that is sent, apart from the ratchet that it came from.

The ratchet has moved on when it gives a key away. Whoever stores the key with the message can seal
it again after a restart, and gets the same bytes.
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
    """The key of one message: the ratchet has moved on, and nothing else opens it."""

    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    header: bytes = field(repr=False)
    """Encrypted and encoded."""
    associated_data: bytes = field(repr=False)

    def seal(self, plaintext: bytes, padded_size: int) -> bytes:
        """The message. It must not be used for two."""
        check_room(plaintext, padded_size)
        beside = self.associated_data + self.header
        tagged = encrypt(self.key, self.iv, pad(plaintext, padded_size), beside)
        return RatchetMessage(self.header, tagged).encode()


def check_room(plaintext: bytes, padded_size: int) -> None:
    room = padded_size - LENGTH_BYTES
    if len(plaintext) > room:
        raise TooLong(len(plaintext), room)

"""Blocks: the units of the network, all of one size, each with a batch of transmissions.

A block is cut out of the stream (`BlockFrames`), opened elsewhere, and its payload split into
transmissions (`unpack`). In the other direction `pack` fills as few payloads as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.errors import BadMessage, Malformed
from headgate.wire.smp.codec.encoding import BYTE

BLOCK: Final = 16384
"""Bytes written and read at once, in both directions."""

TAG: Final = 16
"""Bytes that sealing adds to a block."""

PADDED: Final = BLOCK - TAG
"""Bytes in a sealed block, its payload padded to it."""

PAYLOAD: Final = PADDED - 2
"""The longest payload. That of a plain block is no longer, so that the limit does not depend on the
version."""

BATCH: Final = PAYLOAD - 1
"""Room for transmissions with their lengths; one byte of the payload is their number."""

BATCH_COUNT: Final = 255

TRANSMISSION: Final = BATCH - 2
"""The longest transmission."""


class LargeMessage(BadMessage):
    """A transmission that fits no block. `position` is its position in the batch."""

    def __init__(self, position: int) -> None:
        super().__init__("larger than a block")
        self.position = position


class BlockFrames:
    """Whole blocks of a stream that may be cut anywhere."""

    __slots__ = ("_held", "_size")

    def __init__(self, size: int = BLOCK) -> None:
        self._held = bytearray()
        self._size = size

    @property
    def held(self) -> int:
        """Bytes of an incomplete block. A stream that ends here was cut off."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The blocks that are complete now. A chunk that is a block is returned as it is."""
        held, size = self._held, self._size
        if not held and len(chunk) == size:
            return [chunk]
        blocks: list[bytes] = []
        at = 0
        if held:
            at = size - len(held)
            held += chunk[:at]
            if len(held) < size:
                return blocks
            blocks.append(bytes(held))
            held.clear()
        while at + size <= len(chunk):
            blocks.append(chunk[at : at + size])
            at += size
        held += chunk[at:]
        return blocks


def pack(transmissions: Sequence[bytes], batch_bytes: int = BATCH) -> list[bytes]:
    """Payloads for these transmissions, in order. Nothing is packed if one is too large.

    `batch_bytes` is the room in a payload, as `BATCH`.
    """
    payloads = []
    batch: list[bytes] = []
    room = batch_bytes
    for position, transmission in enumerate(transmissions):
        length = len(transmission)
        # ACC-93: a transmission that fits no block is an error of its own.
        if length + 2 > batch_bytes:
            raise LargeMessage(position)
        # ACC-91, ACC-92, ACC-93: a block takes as many as fit, and the rest starts another.
        if room < length + 2 or len(batch) == 2 * BATCH_COUNT:
            payloads.append(_payload(batch))
            batch = []
            room = batch_bytes
        batch.append(length.to_bytes(2, "big"))
        batch.append(transmission)
        room -= length + 2
    if batch:
        payloads.append(_payload(batch))
    return payloads


def _payload(batch: Sequence[bytes]) -> bytes:
    """The payload of alternating lengths and transmissions."""
    # WIRE-28..WIRE-31: their number, then each behind its length.
    return BYTE[len(batch) // 2] + b"".join(batch)


def unpack(payload: bytes) -> list[bytes]:
    """The transmissions of a payload, at least one."""
    if not payload or not payload[0]:
        raise Malformed("a block without transmissions")
    transmissions = []
    at = 1
    size = len(payload)
    for _ in range(payload[0]):
        start = at + 2
        at = start + int.from_bytes(payload[start - 2 : start], "big")
        if at > size:
            raise Malformed("a transmission is cut off")
        transmissions.append(payload[start:at])
    if at != size:
        raise Malformed("bytes are left behind the transmissions")
    return transmissions

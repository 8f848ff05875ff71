"""Blocks: everything crosses the network in units of one size, and each carries a batch.

A block is cut out of the stream (`BlockFrames`), unsealed elsewhere, and its payload split into
transmissions (`unpack`). In the other direction `pack` fills as few payloads as it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.errors import BadMessage, Malformed
from headgate.wire.smp.codec.encoding import BYTE

BLOCK: Final = 16384
"""What is written and read at once, in both directions."""

TAG: Final = 16
"""What sealing a block adds to it."""

PADDED: Final = BLOCK - TAG
"""What a sealed block holds, its payload padded to it."""

PAYLOAD: Final = PADDED - 2
"""The longest payload. One of a block that is not sealed is not longer, so that what fits does
not depend on the version."""

BATCH: Final = PAYLOAD - 1
"""Transmissions with their lengths; one byte of the payload is their number."""

BATCH_COUNT: Final = 255

TRANSMISSION: Final = BATCH - 2
"""The longest transmission."""


class LargeMessage(BadMessage):
    """A transmission fits no block. `position` is its place among those to be packed."""

    def __init__(self, position: int) -> None:
        super().__init__("larger than a block")
        self.position = position


class BlockFrames:
    """Whole blocks out of a stream that is cut anywhere."""

    __slots__ = ("_held", "_size")

    def __init__(self, size: int = BLOCK) -> None:
        self._held = bytearray()
        self._size = size

    @property
    def held(self) -> int:
        """Bytes of a block that is not whole yet. A stream that ends here was cut off."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The blocks that are whole now. A chunk that is a block is returned as it is."""
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
    """Payloads for these transmissions, in their order. Nothing is packed if one is too large.

    `batch_bytes` is what a payload has room for, as `BATCH`.
    """
    payloads = []
    batch: list[bytes] = []
    room = batch_bytes
    for position, transmission in enumerate(transmissions):
        length = len(transmission)
        # ACC-93: what fits no block is an error of its own.
        if length + 2 > batch_bytes:
            raise LargeMessage(position)
        # ACC-91, ACC-92, ACC-93: a block takes what fits, and the rest starts another.
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
    """The payload of lengths and transmissions in turn."""
    # WIRE-28..WIRE-31: how many, then each behind its length.
    return BYTE[len(batch) // 2] + b"".join(batch)


def unpack(payload: bytes) -> list[bytes]:
    """The transmissions of a payload, of which there is at least one."""
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

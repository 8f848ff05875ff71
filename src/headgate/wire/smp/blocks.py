"""Blocks: everything crosses the network in units of one size, and each carries a batch.

A block is cut out of the stream (`Frames`), unsealed elsewhere, and its payload taken apart into
transmissions (`unpack`). In the other direction `pack` fills as few payloads as it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.errors import BadMessage
from headgate.wire.smp.encoding import BYTE, Malformed

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


class Frames:
    """Whole blocks out of a stream that is cut anywhere."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def held(self) -> int:
        """Bytes of a block that is not whole yet. A stream that ends here was cut off."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The blocks that are whole now. A chunk that is a block is returned as it is."""
        held = self._held
        if not held and len(chunk) == BLOCK:
            return [chunk]
        blocks: list[bytes] = []
        at = 0
        if held:
            at = BLOCK - len(held)
            held += chunk[:at]
            if len(held) < BLOCK:
                return blocks
            blocks.append(bytes(held))
            held.clear()
        while at + BLOCK <= len(chunk):
            blocks.append(chunk[at : at + BLOCK])
            at += BLOCK
        held += chunk[at:]
        return blocks


def pack(transmissions: Sequence[bytes]) -> list[bytes]:
    """Payloads for these transmissions, in their order. Nothing is packed if one is too large."""
    payloads = []
    batch: list[bytes] = []
    room = BATCH
    for position, transmission in enumerate(transmissions):
        length = len(transmission)
        if length > TRANSMISSION:
            raise LargeMessage(position)
        if room < length + 2 or len(batch) == 2 * BATCH_COUNT:
            payloads.append(_payload(batch))
            batch = []
            room = BATCH
        batch.append(length.to_bytes(2, "big"))
        batch.append(transmission)
        room -= length + 2
    if batch:
        payloads.append(_payload(batch))
    return payloads


def _payload(batch: Sequence[bytes]) -> bytes:
    """Of lengths and transmissions in turn."""
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

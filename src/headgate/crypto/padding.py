"""Padding: as many bytes whatever the payload, so that nobody sees how long it is."""

from __future__ import annotations

from typing import Final

from headgate.errors import Malformed

FILLER: Final = b"#"
LENGTH_BYTES: Final = 2


def pad(payload: bytes, size: int) -> bytes:
    """The length of the payload, itself, and as much filler as it takes."""
    assert len(payload) <= size - LENGTH_BYTES, "the payload fits"
    # WIRE-6: length, payload, filler.
    return (len(payload).to_bytes(LENGTH_BYTES, "big") + payload).ljust(size, FILLER)


def unpad(padded: bytes) -> bytes:
    """The payload again. What it was padded with does not matter."""
    end = LENGTH_BYTES + int.from_bytes(padded[:LENGTH_BYTES], "big")
    if len(padded) < max(end, LENGTH_BYTES):
        raise Malformed("the padding is cut off")
    return padded[LENGTH_BYTES:end]

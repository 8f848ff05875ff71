"""Padding to a fixed size, so that a payload's length is hidden."""

from __future__ import annotations

from typing import Final

from headgate.errors import Malformed

FILLER: Final = b"#"
LENGTH_BYTES: Final = 2


def pad(payload: bytes, size: int) -> bytes:
    """The length of the payload, the payload, and filler up to the size."""
    assert len(payload) <= size - LENGTH_BYTES, "the payload fits"
    # WIRE-6: length, payload, filler.
    return (len(payload).to_bytes(LENGTH_BYTES, "big") + payload).ljust(size, FILLER)


def unpad(padded: bytes) -> bytes:
    """The payload. The filler does not matter."""
    end = LENGTH_BYTES + int.from_bytes(padded[:LENGTH_BYTES], "big")
    if len(padded) < max(end, LENGTH_BYTES):
        raise Malformed("the padding is cut off")
    return padded[LENGTH_BYTES:end]

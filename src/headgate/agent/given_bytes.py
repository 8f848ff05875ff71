"""Bytes from the application: a body, or its information about itself."""

from __future__ import annotations


def own_bytes(given: object, what: str) -> bytes:
    """An immutable copy. Raises `TypeError` for a text, which would only fail later, in the records
    or when sealing."""
    if not isinstance(given, bytes | bytearray | memoryview):
        raise TypeError(f"{what} is bytes, not {type(given).__name__}; a text has to be encoded")
    return bytes(given)

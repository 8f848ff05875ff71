"""Bytes that an application hands over: a body, or what it writes of itself."""

from __future__ import annotations


def own_bytes(given: object, what: str) -> bytes:
    """A copy that nobody changes. Raises `TypeError` for a text, which would only fail later, in
    the records or in what is sealed."""
    if not isinstance(given, bytes | bytearray | memoryview):
        raise TypeError(f"{what} is bytes, not {type(given).__name__}; a text has to be encoded")
    return bytes(given)

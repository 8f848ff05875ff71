"""The values an expression works on, and the order of text.

A property is a boolean, a signed 64-bit integer or text; bytes (a binary property) can be carried
by a message but not read by an expression. Text is compared by its UTF-8 bytes. Text with bytes
that are not UTF-8 is expected as Python decodes it with ``errors="surrogateescape"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

Value: TypeAlias = bool | int | str | bytes
Properties: TypeAlias = Mapping[str, Value]


# S003-48: there are three types.
class Kind(StrEnum):
    """The three types of the language."""

    INTEGER = "integer"
    STRING = "string"
    BOOLEAN = "boolean"


KIND_OF_CLASS = {int: Kind.INTEGER, str: Kind.STRING, bool: Kind.BOOLEAN}


def is_readable(value: object) -> bool:
    """Whether an expression can use the value: not bytes, and no integer of over 64 bits."""
    cls = value.__class__
    if cls is int:
        return INT64_MIN <= value <= INT64_MAX  # type: ignore[operator]
    # BMQ-14: bytes can be carried, not read.
    return cls is str or cls is bool


def precedes(left: int | str, right: int | str) -> bool:
    """Whether left < right, both integers or both text."""
    # The order of code points is that of UTF-8 bytes, except for the surrogates that stand for
    # invalid bytes. They matter only if both texts leave ASCII at the same place.
    if left.__class__ is str and not (left.isascii() or right.isascii()):  # type: ignore[union-attr]
        # S003-74: strings are ordered by their bytes.
        return octets(left) < octets(right)  # type: ignore[arg-type]
    # BMQ-12: ISO 8601 dates are ordered as texts.
    return left < right  # type: ignore[operator]


def octets(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # A surrogate that stands for no byte. No wire can bring one; it has an order all the same.
        return text.encode("utf-8", "surrogatepass")

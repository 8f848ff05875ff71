"""Values of properties as the command line and JSON lines write them, by the name of their type."""

from __future__ import annotations

import re

from headgate.core.model.property_type import BY_LABEL, FORMS
from headgate.expr.types import Value

INTEGER_BITS = {type.label: form.bits for type, form in FORMS.items() if form.bits is not None}
TYPES = tuple(BY_LABEL)
INTEGER = re.compile(r"-?[0-9]+")
DIGITS_MAX = 40
"""A longer number is out of range, however it begins."""


def property_value(type_name: object, value: object) -> Value:
    """The value of a property of a type; a ValueError says what is wrong."""
    if type_name == "bool":
        if isinstance(value, bool):
            return value
        raise ValueError("a bool is true or false")
    if type_name == "string" and isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError("a string is UTF-8 text, without lone surrogates") from None
    if type_name == "binary" and isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            raise ValueError("a binary value is written in hex, two digits per byte") from None
    if type_name in ("string", "binary"):
        raise ValueError(f"a {type_name} value is a text")
    if isinstance(type_name, str) and type_name in INTEGER_BITS:
        return _integer(type_name, value)
    raise ValueError(f"the type is one of {', '.join(TYPES)}")


def _integer(type_name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{type_name} is an integer, written in decimal digits")
    high = 2 ** (INTEGER_BITS[type_name] - 1)
    if not -high <= value < high:
        raise ValueError(f"{type_name} is from {-high} to {high - 1}")
    return value


def from_text(type_name: str, written: str) -> object:
    """The value of a text for `property_value`; if it is wrong, the text, for that to refuse."""
    if type_name == "bool" and written in ("true", "false"):
        return written == "true"
    if type_name in INTEGER_BITS and INTEGER.fullmatch(written) and len(written) <= DIGITS_MAX:
        return int(written)
    return written

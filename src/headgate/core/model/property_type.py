"""The types of properties: one table for wires, journal and commands.

A property is a boolean, a signed integer of some width, text or bytes. The width of an integer is
kept beside the value, since receivers get the width that was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headgate.errors import BadMessage
from headgate.expr.types import Kind, Value


class PropertyType(IntEnum):
    """A type of properties, by the number that BlazingMQ has for it."""

    BOOL = 1
    CHAR = 2
    SHORT = 3
    INT32 = 4
    INT64 = 5
    STRING = 6
    BINARY = 7

    @property
    def label(self) -> str:
        """Its name in commands and on pages."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class PropertyForm:
    """The form of a type of properties in each layer."""

    python: type[Value]
    kind: Kind | None
    """Its type in expressions; bytes can be carried, not read."""
    column: str | None
    """The field of the journal's struct that holds it; the journal has no bytes."""
    struct: str | None = None
    """The `struct` code of a value, if values have one size."""
    bits: int | None = None
    """Bits of an integer."""


FORMS: Final[Mapping[PropertyType, PropertyForm]] = {
    PropertyType.BOOL: PropertyForm(bool, Kind.BOOLEAN, "b", "?"),
    PropertyType.CHAR: PropertyForm(int, Kind.INTEGER, "i", "b", 8),
    PropertyType.SHORT: PropertyForm(int, Kind.INTEGER, "i", "h", 16),
    PropertyType.INT32: PropertyForm(int, Kind.INTEGER, "i", "i", 32),
    PropertyType.INT64: PropertyForm(int, Kind.INTEGER, "i", "q", 64),
    PropertyType.STRING: PropertyForm(str, Kind.STRING, "s"),
    PropertyType.BINARY: PropertyForm(bytes, None, None),
}

BY_LABEL: Final = {type.label: type for type in PropertyType}

WIDEST: Final[dict[type[Value], PropertyType]] = {form.python: type for type, form in FORMS.items()}
"""For a Python class the type that holds all of its values."""


def type_of(value: Value) -> PropertyType:
    """The type of a value whose width was not declared: the widest. Raise if there is none."""
    found = WIDEST.get(value.__class__)
    if found is not None:
        return found
    for python, type in WIDEST.items():
        if isinstance(value, python):  # a subclass, such as an enumeration
            return type
    what = value.__class__.__name__
    raise BadMessage(f"a property is a boolean, an integer, text or bytes, not {what}")

"""Fields of a control message, read once from its class for both encodings.

The place of a field in its class is its number in BER. Its name in camel case is that in JSON,
unless the annotation has another as a string. So the classes of `control` are the only schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from enum import IntEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from headgate.core.model.value import EMPTY, value
from headgate.expr.types import INT64_MAX, INT64_MIN
from headgate.wire.bmq.codec.frames import Malformed

T = TypeVar("T")

INT64: Final = range(INT64_MIN, INT64_MAX + 1)
INT32: Final = range(-(2**31), 2**31)
"""Annotation of a number that becomes part of a message header."""


class Omitted:
    """Annotation of a field that is not written while it is empty."""


@value
class Words:
    """Annotation of numbers that JSON writes as words. Other numbers stay as they are."""

    by_number: Mapping[int, str]


@value
class Field:
    """A field of a control message: its name, its tag and its type."""

    name: str
    label: str
    """Its name in JSON."""
    type: Any
    """``bool``, ``int``, ``str``, an enumeration, or the class of a part."""
    default: Any
    """`MISSING` if the field is required."""
    is_many: bool = False
    is_omitted: bool = False
    """Whether it is left out while it is empty."""
    is_value: bool = True
    """Whether it is a text, a boolean or a number, and not one part or several."""
    numbers: range = INT64
    words: Mapping[int, str] = EMPTY

    def number(self, found: int) -> int:
        """The number, as a member of the enumeration if the field has one."""
        if found not in self.numbers:
            raise Malformed(f"{self.label} of {found}")
        if self.type is int:
            return found
        if found not in self.words:
            raise Malformed(f"no {self.label} has the number {found}")
        member: int = self.type(found)
        return member


Shape: TypeAlias = tuple[Field, ...]


_shapes: dict[type, Shape] = {}


def shape(cls: type) -> Shape:
    found = _shapes.get(cls)
    if found is None:
        hints = get_type_hints(cls, include_extras=True)
        found = tuple(_field(each.name, hints[each.name], each.default) for each in fields(cls))
        _shapes[cls] = found
    return found


def make(cls: type[T], found: Mapping[str, object]) -> T:
    """A value of a class, from the fields that were read, by name."""
    missing = {}
    for field in shape(cls):
        if field.name not in found:
            if field.default is MISSING:
                raise Malformed(f"{cls.__name__} without {field.label}")
            missing[field.name] = field.default
    return cls(**found, **missing)


def _field(name: str, hint: Any, default: object) -> Field:  # noqa: ANN401
    first, *rest = name.split("_")
    label = first + "".join(map(str.capitalize, rest))
    numbers = INT64
    words: Mapping[int, str] = EMPTY
    is_omitted = is_many = False
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        for note in notes:
            match note:
                case str():
                    label = note
                case range():
                    numbers = note
                case Words(by_number):
                    words = by_number
                case _:
                    assert isinstance(note, Omitted), "an annotation has a meaning"
                    is_omitted = True
    if get_origin(hint) is UnionType:
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
        default, is_omitted = None, True
    elif get_origin(hint) is tuple:
        hint, _ = get_args(hint)
        default, is_many = (), True
    if issubclass(hint, IntEnum):
        words = {int(member): f"E_{member.name}" for member in hint}
    is_value = not is_many and (hint in (str, bool, int) or issubclass(hint, IntEnum))
    return Field(name, label, hint, default, is_many, is_omitted, is_value, numbers, words)

"""Values of the core: commands, effects, facts, messages."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform

import msgspec

T = TypeVar("T")


class Empty(dict[Any, Any]):
    """An empty mapping for the default of a field: dataclasses reject defaults without a hash,
    read-only mappings included."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]


EMPTY = Empty()

OF_CLASS = frozenset(("__dict__", "__weakref__", "__match_args__"))
"""Attributes that belong to a class itself, and are not copied."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass that is made in C.

    A durable message makes a dozen values on its way. Python's dataclass sets each field by an
    instruction of its own, and through ``object.__setattr__`` if it is frozen at run time; a Struct
    of msgspec is filled in one call, a fifth of the time (``make bench-core`` prints them). All
    else is as in a dataclass: equality, hash, `repr`, and the functions of `dataclasses` such as
    `fields` and `replace`. A value does not inherit fields.
    """
    assert not isinstance(cls, type(msgspec.Struct)), "a value cannot add fields to another one"
    plain: Any = dataclass(init=False, unsafe_hash=True)(cls)
    found = fields(plain)
    namespace = {name: item for name, item in vars(cls).items() if name not in OF_CLASS}
    for each in found:
        namespace.pop(each.name, None)
        if each.default_factory is not MISSING:
            namespace[each.name] = msgspec.field(default_factory=each.default_factory)
        elif each.default is not MISSING:
            namespace[each.name] = each.default
    if all(map(_is_compared, found)):
        # A Struct's own methods are equal, and faster.
        del namespace["__eq__"], namespace["__hash__"]
    namespace["__qualname__"] = cls.__qualname__
    bases = (msgspec.Struct, *(base for base in cls.__bases__ if base is not object))
    meta: Any = type(msgspec.Struct)
    made = meta(cls.__name__, bases, namespace, frozen=True)
    made.__slots__ = tuple(each.name for each in found)
    return cast("type[T]", made)


def _is_compared(each: Field[Any]) -> bool:
    return each.compare and each.hash is None

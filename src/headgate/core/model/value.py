"""How the core writes down a value: commands, effects, facts, messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


class Empty(dict[Any, Any]):
    """A mapping of nothing that may be the default of a field: dataclasses take what has no
    hash for something that would be shared and changed, read-only mappings included."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]


EMPTY = Empty()


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A slotted dataclass that only the type checker freezes.

    A dataclass frozen at run time sets its fields through ``object.__setattr__`` and costs
    three times as much to make (``make bench-core`` prints both). A durable message makes
    half a dozen values on its way, so the check that mypy makes once is not made again for
    each of them.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)

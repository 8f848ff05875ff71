"""A picture of memory, to see whether a failed turn left a trace."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Container, Mapping
from enum import Enum
from typing import Any

from headgate.expr.predicate import Predicate

CACHES = frozenset(
    {
        "added",
        "cache",
        "_cache",
        "bodies",
        "_bodies",
        "chores",
        "_deadlines",
        "_index",
        "latest",
        "newest",
        "statistics",
        "numbers",
        "_numbers",
    }
)
"""Attributes that may keep traces of a failed turn: they only save work, or leave gaps."""

ORDERED = {"consumers", "entries", "times"}
"""Dictionaries whose order means something: who came first, what arrived first, what is
forgotten first."""


def snapshot(root: object, passed_over: Container[str] = CACHES) -> Any:  # noqa: ANN401
    """Everything reachable from an object, as nested tuples that can be compared.

    An object that is met again is told by its number, so cycles end.
    """
    numbers: dict[int, int] = {}

    def look(item: object, name: str = "") -> Any:  # noqa: ANN401
        if item is None or isinstance(item, bool | int | float | str | bytes | Enum):
            return item
        if isinstance(item, Predicate):
            return ("predicate", item.text)
        if isinstance(item, tuple | frozenset):
            parts = item if isinstance(item, tuple) else sorted(item, key=repr)
            return (type(item).__name__, *(look(part) for part in parts))
        if id(item) in numbers:
            return ("seen", numbers[id(item)])
        numbers[id(item)] = len(numbers)
        if isinstance(item, Mapping):
            pairs = list(item.items())
            if name not in ORDERED:
                pairs.sort(key=lambda pair: repr(pair[0]))
            return ("dict", *((look(key), look(value)) for key, value in pairs))
        if isinstance(item, set):
            return ("set", *(look(part) for part in sorted(item, key=repr)))
        if isinstance(item, list | deque | array):
            return (type(item).__name__, *(look(part) for part in item))
        if callable(item):
            return "callable"
        fields = [(name, value) for name, value in _fields(item) if name not in passed_over]
        return (type(item).__name__, *((name, look(value, name)) for name, value in fields))

    return look(root)


def _fields(item: object) -> list[tuple[str, object]]:
    names: list[str] = []
    for cls in type(item).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    names += getattr(item, "__dict__", {})
    return [
        (name, getattr(item, _asked_by(item, name)))
        for name in names
        if name not in ("__weakref__", "__dict__") and hasattr(item, name)
    ]


def _asked_by(item: object, name: str) -> str:
    """What is made when it is asked for is told as whoever asks sees it."""
    public = name.removeprefix("_")
    is_made = public != name and isinstance(getattr(type(item), public, None), property)
    return public if is_made else name


def differences(before: Any, after: Any, path: str = "") -> list[str]:  # noqa: ANN401
    """Where two pictures differ, for a message that can be read."""
    if before == after:
        return []
    if (
        isinstance(before, tuple)
        and isinstance(after, tuple)
        and len(before) == len(after)
        and before[:1] == after[:1]
    ):
        name = before[0] if before and isinstance(before[0], str) else ""
        return [
            line
            for place, (one, two) in enumerate(zip(before, after, strict=True))
            for line in differences(one, two, f"{path}/{name}[{place}]")
        ]
    return [f"{path}: {before!r} became {after!r}"]

"""Undo: takes back in memory what a failed turn changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, MutableSet
from operator import delitem, setitem
from typing import Any, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")
N = TypeVar("N", bound=int)

Note: TypeAlias = tuple[Callable[..., Any], *tuple[Any, ...]]
"""A function to call, and its arguments."""

FORGOTTEN = 4096
"""Steps dropped in a row."""


class Undo:
    """The inverse of every change that a turn made to memory, last first.

    A turn changes the live state as it goes, so that its commands see one another's results, and
    nothing else reads that state before the turn ends. If the store refuses the turn, `take_back`
    restores memory as it was. The alternative, working on copies of what is touched, costs a copy
    of a queue's backlog per turn.
    """

    __slots__ = ("_sorted", "_steps")

    def __init__(self) -> None:
        self._sorted: set[int] = set()
        self._steps: list[Note] = []

    def note(self, *step: *Note) -> None:
        """Remember what to call if the turn does not happen."""
        self._steps.append(step)

    def put(self, mapping: MutableMapping[K, V], key: K, item: V) -> None:
        if key in mapping:
            self._steps.append((setitem, mapping, key, mapping[key]))
        else:
            self._steps.append((delitem, mapping, key))
        mapping[key] = item

    def pop(self, mapping: MutableMapping[K, V], key: K) -> V | None:
        if key not in mapping:
            return None
        item = mapping.pop(key)
        self._steps.append((setitem, mapping, key, item))
        return item

    def sort_after(self, mapping: dict[N, V]) -> None:
        """Note that an item was removed from a dictionary with ascending keys. Restored items come
        last, so the dictionary is sorted again, once, after all are back."""
        if id(mapping) not in self._sorted:
            self._sorted.add(id(mapping))
            self._steps.append((_sort, mapping))

    def add(self, members: MutableSet[K], member: K) -> None:
        if member not in members:
            members.add(member)
            self._steps.append((members.discard, member))

    def discard(self, members: MutableSet[K], member: K) -> None:
        if member in members:
            members.discard(member)
            self._steps.append((members.add, member))

    def assign(self, owner: object, name: str, item: object) -> None:
        self._steps.append((setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, item)

    def forget(self) -> Iterator[None]:
        """Drop the steps of a turn that was committed, some at a time. A long turn has some hundred
        thousand."""
        steps = self._steps
        while len(steps) > FORGOTTEN:
            del steps[-FORGOTTEN:]
            yield
        steps.clear()

    def take_back(self) -> None:
        while self._steps:
            action, *args = self._steps.pop()
            action(*args)


def _sort(mapping: dict[N, V]) -> None:
    items = sorted(mapping.items())
    mapping.clear()
    mapping.update(items)

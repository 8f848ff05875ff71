"""Work in slices: a generator that yields how much it did, and returns what came of it.

Whoever carries it out decides when others have their turn. A unit is what it takes to make a row of
a few numbers, some microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[int, None, T]

GLANCES = 1000
"""Things that are looked at in one slice, without making rows of them."""

GLANCE_UNITS = 200
"""What that counts for."""


def at_once(slices: Slices[T]) -> T:
    """All of the work, for those who may take their time."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def parts(items: Iterable[T]) -> Iterator[list[T]]:
    """The things in lists of as many as are looked at in one slice."""
    rest = iter(items)
    while part := list(islice(rest, GLANCES)):
        yield part


def best(
    items: Iterable[T], most: int, choose: Callable[[int, Iterable[T]], list[T]]
) -> Slices[list[T]]:
    """The best of many, by `heapq.nlargest` or a function like it."""
    found: list[T] = []
    for part in parts(list(items)):
        found = choose(most, [*found, *part])
        yield GLANCE_UNITS
    return found

"""Work in slices: a generator that yields the amount done and returns the result.

Its caller decides when others get a turn. A unit is the work of making a row of a few numbers, some
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[int, None, T]

GLANCES = 1000
"""Items looked at in one slice, if no rows are made of them."""

GLANCE_UNITS = 200
"""Units that such a slice counts for."""


def at_once(slices: Slices[T]) -> T:
    """Run all of the work in one go and return its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def parts(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of one slice each."""
    rest = iter(items)
    while part := list(islice(rest, GLANCES)):
        yield part


def best(
    items: Iterable[T], most: int, choose: Callable[[int, Iterable[T]], list[T]]
) -> Slices[list[T]]:
    """The best of many items, by `heapq.nlargest` or a function like it."""
    found: list[T] = []
    for part in parts(list(items)):
        found = choose(most, [*found, *part])
        yield GLANCE_UNITS
    return found

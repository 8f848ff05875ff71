"""Long work on one message, done in parts.

It is a generator that yields where others may get a turn, and returns the result. `finished` runs
it in one go.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

STEP_ITEMS: Final = 256
"""Elements or members handled in a row: a fraction of a millisecond."""


def finished(steps: Steps[T]) -> T:
    """The result after all steps."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        found: T = done.value
        return found

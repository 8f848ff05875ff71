"""Work on one message that takes long, done a part at a time.

It is a generator that yields where others may have their turn, and returns what came of it. Who has
the time runs it to its end.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

STEP_ITEMS: Final = 256
"""Elements, members or the like that are handled in a row: a fraction of a millisecond."""


def finished(steps: Steps[T]) -> T:
    """The result of all steps, taken at once."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        found: T = done.value
        return found

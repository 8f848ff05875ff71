"""Reading a whole store part by part, for a copy of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import TypeAlias

from headgate.core.model.ids import Seq
from headgate.core.model.limits import MiB
from headgate.core.turn.store_requests import Batch

PART_ROWS = 4096
PART_BYTES = 8 * MiB
"""Bytes of one batch of a copy; a single larger message is a batch of its own."""

Part: TypeAlias = Callable[[int], tuple[Batch, int | None]]
"""The part of a store after a position, and the next position, if there may be more."""


async def in_parts(
    parts: Iterable[Part],
    run: Callable[[Callable[[], tuple[Batch, int | None]]], Awaitable[tuple[Batch, int | None]]],
) -> AsyncIterator[Batch]:
    """All parts of a store, one after another; `run` does the reading."""
    for part in parts:
        after: int | None = 0
        while after is not None:
            batch, after = await run(partial(part, after))
            if batch:
                yield batch


def cut(sizes: Iterable[tuple[Seq, int]]) -> Seq:
    """The number of the last message in a part, given the sizes of those that could be."""
    total, last = 0, Seq(0)
    for seq, size in sizes:
        if last and total + size > PART_BYTES:
            break
        total, last = total + size, seq
    return last

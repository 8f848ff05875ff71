"""A copy of a store in another, of the same kind or not.

A store gives itself away as batches, and the other applies them. Whoever copies has both to
itself: a store that a router uses cannot be opened.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.errors import StoreError
from headgate.store.base import Extent, Store


async def copy(
    source: Store, target: Store, progress: Callable[[Extent], None] = lambda copied: None
) -> Extent:
    """Put everything of one open store into another, which has to be empty. `progress` is told
    what came with each batch."""
    async for _ in target.batches():
        raise StoreError("the store to copy to is not empty; name another")
    copied = Extent()
    async for batch in source.batches():
        await target.apply(batch)
        more = Extent(len(batch.create), len(batch.append))
        copied = Extent(copied.queues + more.queues, copied.messages + more.messages)
        progress(more)
    return copied

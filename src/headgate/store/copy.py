"""Copies of a store in another, of the same kind or not.

One store exports itself as batches, and the other applies them. The copying process needs both for
itself: a store that a router uses cannot be opened.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.errors import StoreError
from headgate.store.base import Extent, Store


async def copy(
    source: Store, target: Store, progress: Callable[[Extent], None] = lambda copied: None
) -> Extent:
    """Copy one open store to another, which has to be empty. `progress` is called with the contents
    of each batch."""
    async for _ in target.batches():
        raise StoreError("the store to copy to is not empty; name another")
    copied = Extent()
    async for batch in source.batches():
        await target.apply(batch)
        more = Extent(len(batch.create), len(batch.append))
        copied = Extent(copied.queues + more.queues, copied.messages + more.messages)
        progress(more)
    return copied

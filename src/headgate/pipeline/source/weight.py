"""The weight of a part of the journal: how much it is in memory, looked at before it is read.

A light part may be held by one process at once. A file says little of that: equal bodies are stored
once, and zeros take no room.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.core.facts import Accepted
from headgate.core.model.limits import MiB
from headgate.pipeline.source.feed import Feed

LIGHT_FACTS = 20_000
"""A fact is about half a kilobyte, besides its message."""
LIGHT_BYTES = 8 * MiB
"""Of segments, and of messages with their properties."""


def is_light(feed: Feed, after: int, upto: int) -> bool:
    """Whether the facts after a number, up to another, are known to be light."""
    if upto - after > LIGHT_FACTS:
        return False
    found = [each for each in feed.segments() if each.last > after and each.first <= upto]
    if sum(segment.bytes for segment in found) > LIGHT_BYTES:
        return False
    size = 0
    for segment in found:
        try:
            with pq.ParquetFile(feed.open(segment)) as file:
                facts = file.read(["number", "kind", "size"], use_threads=False)
            numbers, kinds, sizes = facts["number"], facts["kind"], facts["size"]
        except (OSError, pa.ArrowException, KeyError):
            return False  # whoever reads it will find out what is the matter
        is_meant = pc.and_(pc.greater(numbers, after), pc.less_equal(numbers, upto))
        is_message = pc.and_(is_meant, pc.equal(kinds.cast(pa.string()), Accepted.__name__))
        size += pc.sum(sizes.filter(is_message)).as_py() or 0
    return bool(size <= LIGHT_BYTES)

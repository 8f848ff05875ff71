"""The id by which readers know a message: its time of arrival, and its number."""

from __future__ import annotations

from typing import NamedTuple

from headgate.core.model.message import MessageEntry


class StreamId(NamedTuple):
    """Milliseconds since the epoch, and the number of the message in its shard. Within a queue
    later messages have larger ids: no message arrives before the one before it."""

    milliseconds: int
    number: int


FIRST = StreamId(0, 0)


def stream_id(arrived: float, number: int) -> StreamId:
    """The id of a message. Both parts are stored with it, so it has the same id after a restart."""
    return StreamId(int(arrived * 1000), number)


def id_of(entry: MessageEntry) -> StreamId:
    return stream_id(entry.arrived, entry.seq)

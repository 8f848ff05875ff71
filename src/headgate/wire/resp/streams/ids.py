"""The ids of stream entries as clients write them: ``1700000000000-7``."""

from __future__ import annotations

import re

from headgate.core.model.stream_id import StreamId
from headgate.wire.resp.codec.replies import CommandError

ID = re.compile(rb"([0-9]{1,20})(?:-([0-9]{1,20}))?")
HALF_MAX = 2**64 - 1
SMALLEST = StreamId(0, 0)
LARGEST = StreamId(HALF_MAX, HALF_MAX)

INVALID = "ERR Invalid stream ID specified as stream command argument"


def read_id(text: bytes, number: int = 0) -> StreamId:
    """Parse an id; without a number it gets this one."""
    found = ID.fullmatch(text)
    if found is None:
        raise CommandError(INVALID)
    first, second = int(found[1]), number if found[2] is None else int(found[2])
    if first > HALF_MAX or second > HALF_MAX:
        raise CommandError(INVALID)
    return StreamId(first, second)


def read_bound(text: bytes, *, is_end: bool) -> StreamId:
    """Parse an end of an interval: ``-``, ``+``, an id, or ``(`` and an excluded id."""
    if text == b"-":
        return SMALLEST
    if text == b"+":
        return LARGEST
    if not text.startswith(b"("):
        return read_id(text, HALF_MAX if is_end else 0)
    id = read_id(text[1:], HALF_MAX if is_end else 0)
    edge = SMALLEST if is_end else LARGEST
    if id == edge:
        raise CommandError(f"ERR invalid {'end' if is_end else 'start'} ID for the interval")
    return _before(id) if is_end else _after(id)


def _after(id: StreamId) -> StreamId:
    first, second = id
    return StreamId(first, second + 1) if second < HALF_MAX else StreamId(first + 1, 0)


def _before(id: StreamId) -> StreamId:
    first, second = id
    return StreamId(first, second - 1) if second else StreamId(first - 1, HALF_MAX)


def write_id(id: StreamId) -> bytes:
    return b"%d-%d" % id

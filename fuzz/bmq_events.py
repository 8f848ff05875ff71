"""Throws bytes at the events of BlazingMQ and at the messages in them.

``python -m fuzz.bmq_events fuzz/corpus/bmq_events`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from headgate.errors import LimitReached
from headgate.wire.bmq.codec.frames import Event, EventFrames, Malformed, event, pad, unpad
from headgate.wire.bmq.codec.messages import (
    HAS_PROPERTIES,
    Put,
    encode_acks,
    encode_confirms,
    encode_pushes,
    encode_puts,
    parse_acks,
    parse_confirms,
    parse_pushes,
    parse_puts,
)
from headgate.wire.bmq.codec.payload import BadData, Compression, close_data, open_data

BYTES_MAX = 1000
"""Of an event and of what is inflated."""


def check(data: bytes) -> None:
    """What can be read means the same when it is written again; what cannot is refused in the way
    that it should."""
    check_frames(data)
    check_messages(data)
    check_messages(data[8:])  # as if the data were one event
    check_data(data)
    with suppress(Malformed):
        assert pad(unpad(data))[: len(unpad(data))] == unpad(data)


def check_frames(data: bytes) -> None:
    """However the stream is cut, its events are the same."""
    expected = read(data, len(data) or 1)
    for size in (1, 7, 1 + len(data) // 3):
        assert read(data, size) == expected
    if expected is not None:
        events, held = expected
        whole = b"".join(event(each.type, bytes(each.body), each.encoding) for each in events)
        assert read(whole, len(whole) or 1) == (events, 0)
        assert held <= len(data)


def read(data: bytes, size: int) -> tuple[list[Event], int] | None:
    """The events in a stream that comes in pieces of a size, and what is left of it."""
    frames = EventFrames(BYTES_MAX)
    events = []
    try:
        for at in range(0, len(data), size):
            events += frames.feed(data[at : at + size])
    except Malformed:
        return None
    return events, frames.held


def check_messages(body: bytes) -> None:
    with suppress(Malformed):
        puts = parse_puts(body)
        assert parse_puts(encode_puts(puts)) == puts
        assert parse_puts(memoryview(body)) == puts
        for put in puts:
            check_put(put)
    with suppress(Malformed):
        pushes = parse_pushes(body)
        assert parse_pushes(encode_pushes(pushes)) == pushes
    with suppress(Malformed):
        acks = parse_acks(body)
        assert parse_acks(encode_acks(acks)) == acks
    with suppress(Malformed):
        confirms = parse_confirms(body)
        assert parse_confirms(encode_confirms(confirms)) == confirms


def check_data(data: bytes) -> None:
    """As the data of a message of every kind."""
    for compression in (*Compression, 7):
        for schema in (0, 1):
            check_put(Put(0, bytes(16), HAS_PROPERTIES, data, 0, compression, schema))


def check_put(put: Put) -> None:
    try:
        properties, body = open_data(
            put.data,
            has_properties=bool(put.flags & HAS_PROPERTIES),
            compression=put.compression,
            schema=put.schema,
            bytes_max=BYTES_MAX,
        )
    except (BadData, LimitReached):
        return
    assert len(body) <= max(BYTES_MAX, len(put.data))
    for compression in Compression:
        data = close_data(properties, body, compression)
        again, same = open_data(
            data,
            has_properties=bool(properties),
            compression=compression,
            schema=0,
            bytes_max=len(put.data) + 2 * BYTES_MAX,
        )
        assert list(again.items()) == list(properties.items())
        assert getattr(again, "types", b"") == getattr(properties, "types", b"")
        assert same == body


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""The PUBLISHes that a read begins with, taken apart at once: all channels, all bodies.

Nothing else is what busy publishers send, and those who wait for each answer. There are three ways,
by what is in the read; each gives up where it is not sure, and then `requests.py` takes the read
apart, which is exact about everything.

* One alone has eight lines.
* Many on one channel with bodies of one size, as readings are, differ in nothing but their bodies:
  what comes between two bodies is always the same, and one `split` finds them all.
* Any others are cut at every line end, up to another command, and the lengths have to be right.

Compiled there is one way: byte by byte, while they follow one another.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TypeAlias

from headgate.compiled import part
from headgate.core.model.limits import KiB
from headgate.wire.resp.codec.requests import CRLF, HEADERS, SIZES

PUBLISH = frozenset((b"PUBLISH", b"publish"))
"""As nearly all clients spell it; other spellings go the ordinary way."""
STARTS = tuple([b"*3\r\n$7\r\n%b\r\n$" % name for name in PUBLISH])
"""How a read begins that is worth a look."""
LINES = 7
"""Of one PUBLISH."""
NAME_BYTES = len(HEADERS) - 1
"""The longest name that is taken apart here."""
MANY_BYTES = 2 * KiB
"""In shorter reads are few, and a look at whether they are alike takes longer than it saves."""

Run: TypeAlias = tuple[list[bytes], list[bytes], int]
"""Channels, bodies, and how many bytes of the read they were."""


def pure_run_in(data: bytes) -> Run | None:
    """The PUBLISHes that a read begins with, up to something else. None if one of them is not as
    plain."""
    if len(data) >= MANY_BYTES:
        first = data.split(CRLF, LINES - 1)
        size = SIZES.get(first[5]) if len(first) == LINES else None
        if size is None or len(first[6]) < size + len(CRLF):
            return None  # the first one is large or not whole: not worth a look at all of it
        if SIZES.get(first[3]) != len(first[4]):
            return None
        alike = _alike(data, len(data) - len(first[6]), size)
        if alike is not None:
            return [first[4]] * len(alike[0]), *alike
    lines = data.split(CRLF)
    try:
        if len(lines) == LINES + 1:
            _, _, _, named, channel, filled, body, rest = lines
            if named == HEADERS[len(channel)] and filled == HEADERS[len(body)] and not rest:
                return [channel], [body], len(data)
            return None
        count = (len(lines) - 1) // LINES
        if not count:
            return None
        end = count * LINES
        starts, marks, names = lines[:end:LINES], lines[1:end:LINES], lines[2:end:LINES]
        if not count == starts.count(lines[0]) == marks.count(lines[1]) == names.count(lines[2]):
            heads = zip(starts, marks, names, strict=True)
            count = sum(1 for _ in takewhile(tuple(lines[:3]).__eq__, heads))
        rests = lines[count * LINES :]
        del lines[count * LINES :]
        channels, bodies = lines[4::LINES], lines[6::LINES]
        header = HEADERS.__getitem__
        if list(map(header, map(len, channels))) != lines[3::LINES]:
            return None
        if list(map(header, map(len, bodies))) != lines[5::LINES]:
            return None
    except IndexError:  # longer than any header that is at hand
        return None
    size = len(data) - sum(map(len, rests)) - len(CRLF) * (len(rests) - 1)
    return channels, bodies, size


run_in = part("headgate.wire.resp.codec._requests", "run_in", pure_run_in)
"""The PUBLISHes that a read begins with; nothing if that is left to the exact way."""


def _alike(data: bytes, start: int, size: int) -> tuple[list[bytes], int] | None:
    """The bodies and where they end, if nothing else differs; the first is known."""
    head, length = data[:start], start + size + len(CRLF)
    if not data.startswith(head, length):
        return None
    bodies = data[start:].split(CRLF + head)
    # If bytes of a body look like the head, the lengths say so. Behind the last one may be the
    # beginning of another head; or it is not whole itself.
    last = bodies.pop()
    if {*map(len, bodies)} != {size} or not head.startswith(last[size + len(CRLF) :]):
        return None
    if len(last) >= size + len(CRLF):
        bodies.append(last[:size])
    return bodies, len(bodies) * length

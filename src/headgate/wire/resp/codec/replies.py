"""Replies to commands, and their bytes in both versions of the protocol.

A handler returns plain values and does not know which version its client speaks: RESP2 has no
maps, sets, pushes or verbatim texts, and gets the nearest thing it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from headgate.errors import Refused


class Simple(str):
    """A status, such as ``OK``."""

    __slots__ = ()


class Verbatim(str):
    """A text for people, in several lines."""

    __slots__ = ()


class Flags(tuple[str, ...]):
    """A set of simple strings."""

    __slots__ = ()


class Unordered(tuple["Reply", ...]):
    """A set."""

    __slots__ = ()


class PushReply(tuple["Reply", ...]):
    """A frame that is no answer: a client of RESP3 tells it apart by its first byte."""

    __slots__ = ()


class Several(tuple["Reply", ...]):
    """Several frames in a row. Without any the command has no answer."""

    __slots__ = ()


class NoArray(tuple[()]):
    """Nothing, where an array was to be expected."""

    __slots__ = ()


class Pairs(tuple[tuple["Reply", "Reply"], ...]):
    """Names and what belongs to them, in order: a map, or an array of pairs in RESP2."""

    __slots__ = ()


class Deferred:
    """An answer that is not there yet: see `streams/awaited.py`."""

    __slots__ = ()


class Encoded(bytes):
    """A reply, or a part of one, as it is sent."""

    __slots__ = ()


class Pieces(tuple[bytes, ...]):
    """The pieces of a reply as they are sent. They are not joined, since each may be megabytes."""

    __slots__ = ()


class Decided(Pieces):
    """The same, to be sent whatever CLIENT REPLY says: it has been asked about each of them."""

    __slots__ = ()


class Parts:
    """An answer in parts: work that others get their turn in the midst of.

    Each part is made when the one before it was handed over, and not before the client took enough
    of those. An error instead of a part is the last one.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterator[Reply]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Reply]:
        return self._parts


class CommandError(Refused):
    """The answer is an error; the text begins with its code."""


Reply: TypeAlias = (
    bool
    | int
    | float
    | bytes
    | str
    | CommandError
    | Sequence["Reply"]
    | Mapping[str, "Reply"]
    | Parts
    | Deferred
    | None
)

OK = Simple("OK")
QUEUED = Simple("QUEUED")
NOTHING = Several()

NILS = {2: b"$-1\r\n", 3: b"_\r\n"}
INTEGERS = [b":%d\r\n" % n for n in range(1024)]
"""Most integers are small, and made often."""


def encode(reply: Reply, protocol: int) -> bytes:
    return ENCODERS[type(reply)](reply, protocol)


def pieces_of(reply: Reply, protocol: int) -> Sequence[bytes]:
    """A reply as it is sent, in pieces if it has some, or its parts do."""
    if isinstance(reply, Pieces):
        return reply
    if type(reply) is list and reply:
        found, parts = [bytes(array_of(len(reply)))], reply
    elif type(reply) is Pairs and protocol == 3:
        found = [b"%%%d\r\n" % len(reply)]
        parts = [part for pair in reply for part in pair]
    elif type(reply) is Pairs:
        found = [array_of(len(reply))]
        parts = [part for pair in reply for part in (array_of(len(pair)), *pair)]
    else:
        return (encode(reply, protocol),)
    for part in parts:
        if type(part) is Pieces:
            found += part
        else:
            found.append(encode(part, protocol))
    return found


def array_of(count: int) -> Encoded:
    """The head of an array; so many replies make it whole."""
    return Encoded(b"*%d\r\n" % count)


def integer_reply(number: int) -> bytes:
    return INTEGERS[number] if 0 <= number < len(INTEGERS) else b":%d\r\n" % number


def integers(counts: Iterable[int]) -> bytes:
    """Many integer replies, one after another."""
    try:
        return b"".join(map(INTEGERS.__getitem__, counts))
    except IndexError:
        return b"".join([b":%d\r\n" % count for count in counts])


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def error(text: str) -> bytes:
    """An error on one line, whatever is quoted in it."""
    line = text.replace("\r", " ").replace("\n", " ")
    return b"-%b\r\n" % line.encode(errors="surrogateescape")


def text_of(name: bytes) -> str:
    """Bytes of a client as part of a text; `error` gives the same bytes back."""
    return name.decode(errors="surrogateescape")


def _sequence(mark: bytes) -> Callable[[Sequence[Reply], int], bytes]:
    def encoded(reply: Sequence[Reply], protocol: int) -> bytes:
        head = b"%b%d\r\n" % (mark, len(reply))
        return head + b"".join([encode(item, protocol) for item in reply])

    return encoded


_array = _sequence(b"*")
_push = _sequence(b">")
_set = _sequence(b"~")


def _map(reply: Mapping[str, Reply], protocol: int) -> bytes:
    head = b"%%%d\r\n" % len(reply) if protocol == 3 else b"*%d\r\n" % (2 * len(reply))
    items = [head]
    for key, item in reply.items():
        items += (_name(key), ENCODERS[type(item)](item, protocol))
    return b"".join(items)


@lru_cache
def _name(key: str) -> bytes:
    """A key of a map. There are few, and each is written often."""
    return bulk(key.encode())


def _pairs(reply: Pairs, protocol: int) -> bytes:
    if protocol == 2:
        return _array(reply, protocol)
    items = [encode(item, protocol) for pair in reply for item in pair]
    return b"%%%d\r\n" % len(reply) + b"".join(items)


def _flags(reply: Flags, protocol: int) -> bytes:
    head = (b"~%d\r\n" if protocol == 3 else b"*%d\r\n") % len(reply)
    return head + b"".join([b"+%b\r\n" % flag.encode() for flag in reply])


def _verbatim(reply: Verbatim, protocol: int) -> bytes:
    text = reply.encode(errors="surrogateescape")
    return b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text) if protocol == 3 else bulk(text)


def _bool(reply: bool, protocol: int) -> bytes:
    return (b"#t\r\n" if reply else b"#f\r\n") if protocol == 3 else INTEGERS[reply]


def _float(reply: float, protocol: int) -> bytes:
    text = b"%.17g" % reply
    return b",%b\r\n" % text if protocol == 3 else bulk(text)


ENCODERS: dict[type, Callable[..., bytes]] = {
    type(None): lambda reply, protocol: NILS[protocol],
    bool: _bool,
    int: lambda reply, protocol: integer_reply(reply),
    float: _float,
    bytes: lambda reply, protocol: bulk(reply),
    str: lambda reply, protocol: bulk(reply.encode(errors="surrogateescape")),
    Simple: lambda reply, protocol: b"+%b\r\n" % reply.encode(),
    Verbatim: _verbatim,
    Flags: _flags,
    CommandError: lambda reply, protocol: error(str(reply)),
    list: _array,
    tuple: _array,
    dict: _map,
    NoArray: lambda reply, protocol: b"*-1\r\n" if protocol == 2 else NILS[3],
    Unordered: lambda reply, protocol: (_set if protocol == 3 else _array)(reply, protocol),
    Pairs: _pairs,
    PushReply: lambda reply, protocol: (_push if protocol == 3 else _array)(reply, protocol),
    Several: lambda reply, protocol: b"".join([encode(frame, protocol) for frame in reply]),
    Encoded: lambda reply, protocol: bytes(reply),
    Pieces: lambda reply, protocol: b"".join(reply),
    Decided: lambda reply, protocol: b"".join(reply),
    # Inside of a transaction nobody gets a turn.
    Parts: lambda reply, protocol: b"".join([encode(part, protocol) for part in reply]),
}

"""Events: the frames of the network, which give their length and type.

A header of eight bytes is followed by the messages of one kind. `EventFrames` cuts events out of a
stream; other modules read their contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.errors import ProtocolError

Buffer: TypeAlias = bytes | memoryview

WORD: Final = 4
"""Lengths are counted in words, and data is padded to whole words."""

HEADER: Final = Struct(">IBBBx")
"""The fragment bit and the length; the version and the type; the words of the header; a byte for
the type."""

LENGTH_MAX: Final = 0x7FFF_FFFF
"""The longest event; above it is the bit of a fragment, which no program sends."""

VERSION: Final = 1
"""The only version, in the upper two bits of the byte that it shares with the type."""

PADDING: Final = (b"\4\4\4\4", b"\3\3\3", b"\2\2", b"\1")
"""Padding by the bytes in the last word. A full word is followed by a word of padding, so that the
last byte always gives its length."""


class Malformed(ProtocolError):
    """The bytes are not what the protocol demands; the session closes."""


class EventType(IntEnum):
    """The type of an event: the kind of its messages."""

    CONTROL = 1
    PUT = 2
    CONFIRM = 3
    PUSH = 4
    ACK = 5
    HEARTBEAT_REQ = 11
    HEARTBEAT_RSP = 12


class Encoding(IntEnum):
    """The encoding of a control message. Other types of events have only one."""

    BER = 0
    JSON = 1


CONTROL: Final = int(EventType.CONTROL)
JSON: Final = int(Encoding.JSON)


@value
class Event:
    """An event, without its header."""

    type: int
    """One of `EventType`, or a number that this wire does not know."""
    body: Buffer
    """A long one is a view of the data it came in, not a copy."""
    encoding: Encoding = Encoding.BER


class EventFrames:
    """Whole events of a stream that may be cut anywhere.

    Owned by a session, or by a client's link. An event larger than the limit is refused when its
    header is there.
    """

    __slots__ = ("_held", "_length", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """The longest event. It may change while the stream goes on."""
        self._held = bytearray()
        self._length = 0
        """Length of the incomplete event, once its header is there."""

    @property
    def held(self) -> int:
        """Bytes of an incomplete event."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Event]:
        """The events that are complete now."""
        return list(self.cut(data))

    def cut(self, data: bytes) -> Iterator[Event]:
        """Like `feed`, but lazily: events before a malformed one are still yielded."""
        at = self._complete(data) if self._held else 0
        if self._length and len(self._held) == self._length:
            held, self._held, self._length = self._held, bytearray(), 0
            length, start, type, encoding = self._header(held, 0)
            yield Event(type, memoryview(held)[start:length], encoding)
        size = len(data)
        while size - at >= HEADER.size:
            length, start, type, encoding = self._header(data, at)
            if length > size - at:
                self._length = length
                break
            yield Event(type, data[at + start : at + length], encoding)
            at += length
        if at < size:
            self._held += memoryview(data)[at:]

    def _complete(self, data: bytes) -> int:
        """Add the missing bytes to the incomplete event. Return how many were taken."""
        held = self._held
        at = 0
        if not self._length:
            at = HEADER.size - len(held)
            held += data[:at]
            if len(held) < HEADER.size:
                return len(data)
            self._length = self._header(held, 0)[0]
        end = at + self._length - len(held)
        held += memoryview(data)[at:end]
        return min(end, len(data))

    def _header(self, data: bytes | bytearray, at: int) -> tuple[int, int, int, Encoding]:
        """The length of an event by its header, where its body begins, its type and its
        encoding."""
        length, type, words, specific = HEADER.unpack_from(data, at)
        if length > LENGTH_MAX:
            raise Malformed("a fragment of an event")
        if type >> 6 != VERSION:
            raise Malformed(f"version {type >> 6} of the protocol")
        start = words * WORD
        if not HEADER.size <= start <= length:
            raise Malformed("an event that does not hold its header")
        if length > self.bytes_max:
            raise Malformed(f"an event of {length} bytes, over the limit of {self.bytes_max}")
        type &= 0x3F
        if type != CONTROL:
            return length, start, type, Encoding.BER
        if specific >> 5 > JSON:
            raise Malformed("an encoding that nobody knows")
        return length, start, type, Encoding(specific >> 5)


def event(type: int, body: bytes, encoding: Encoding = Encoding.BER) -> bytes:
    """The bytes of an event."""
    return HEADER.pack(HEADER.size + len(body), VERSION << 6 | type, 2, encoding << 5) + body


HEARTBEAT_REQUEST: Final = event(EventType.HEARTBEAT_REQ, b"")
HEARTBEAT_RESPONSE: Final = event(EventType.HEARTBEAT_RSP, b"")


def pad(data: bytes) -> bytes:
    """Up to the end of a word, by at least a byte."""
    return data + PADDING[len(data) & 3]


def unpad(data: Buffer) -> bytes:
    """The data without its padding. Only the last byte of the padding is checked, as in
    BlazingMQ."""
    return bytes(data[: unpadded(data, len(data))])


def unpadded(data: Buffer, end: int) -> int:
    """The place where the padding of data that ends here begins."""
    count = data[end - 1] if end else 0
    if not 1 <= count <= min(WORD, end):
        raise Malformed("padding of a wrong length")
    return end - count

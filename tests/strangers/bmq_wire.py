"""BMQP's frames as a client sees them, on a blocking socket.

A client of its own, because the one for users hides what has to be seen here: the order of frames,
the numbers of subscriptions, acknowledgements that nobody asked for.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c

PATIENCE = 60.0
"""Seconds that a frame may take before the router is called dead."""

CONTROL, PUT, CONFIRM, PUSH, ACK, PING, PONG = 1, 2, 3, 4, 5, 11, 12
READ, WRITE = 2, 4

CLIENT_IDENTITY, DISCONNECT = 0, 1
OPEN, CLOSE, CONFIGURE_OLD, CONFIGURE = 10, 12, 14, 16

BOOL, CHAR, SHORT, INT32, INT64, STRING, BINARY = range(1, 8)
NUMBERS = {BOOL: ">b", CHAR: ">b", SHORT: ">h", INT32: ">i", INT64: ">q"}

NOTHING = -(2**31)
"""The priority by which the older configure says that it wants nothing."""

Value = bool | int | str | bytes
Properties = Mapping[str, tuple[int, Value]]
"""By name, the type on the wire and the value."""


class Gone(Exception):
    """The router closed the connection, or says nothing any more."""


@dataclass(frozen=True)
class Pushed:
    queue: int
    guid: bytes
    subscriptions: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Acked:
    queue: int
    guid: bytes
    status: int


@dataclass(frozen=True)
class Answered:
    request: int
    what: str
    """The name of the answer; ``status`` is a refusal."""
    category: str
    text: str


Frame = Pushed | Acked | Answered


# -- BER, as much of it as a client writes


def _length(size: int) -> bytes:
    if size < 128:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def text(field: int, value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return bytes([0x80 | field]) + _length(len(data)) + data


def number(field: int, value: int) -> bytes:
    size = 1
    while not -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
        size += 1
    return bytes([0x80 | field, size]) + value.to_bytes(size, "big", signed=True)


def group(field: int, *parts: bytes) -> bytes:
    return bytes([0xA0 | field, 0x80]) + b"".join(parts) + b"\0\0"


def item(*parts: bytes) -> bytes:
    return b"\x30\x80" + b"".join(parts) + b"\0\0"


# -- events


def event(kind: int, body: bytes) -> bytes:
    return struct.pack(">IBBBB", 8 + len(body), 0x40 | kind, 2, 0, 0) + body


def padded(data: bytes) -> bytes:
    missing = 4 - len(data) % 4
    return data + bytes([missing]) * missing


def request(number_of_it: int, selection: int, *fields: bytes) -> bytes:
    body = item(number(0, number_of_it), group(1, group(selection, *fields)))
    return event(CONTROL, padded(body))


def hello(name: str, client: bytes) -> bytes:
    identity = group(
        CLIENT_IDENTITY,
        number(0, 1),
        number(1, 999999),
        number(2, 1),
        text(3, name),
        number(4, 1),
        number(5, 1),
        text(6, ""),
        text(7, "PROTOCOL_ENCODING:JSON"),
        text(8, ""),
        number(9, -1),
        number(10, 1),
        group(11, text(0, client.hex().upper()), number(1, 1)),
    )
    return event(CONTROL, padded(item(group(0, identity))))


def handle(uri: str, queue: int, sub_id: int, app: str | None, flags: int) -> bytes:
    """The parameters of an open or a close."""
    parts = [text(0, uri), number(1, queue)]
    if app is not None:
        parts.append(group(2, number(0, sub_id), text(1, app)))
    parts += [
        number(3, flags),
        number(4, int(bool(flags & READ))),
        number(5, int(bool(flags & WRITE))),
        number(6, 0),
    ]
    return group(0, *parts)


@dataclass(frozen=True)
class Wanted:
    """One subscription of a configure."""

    number: int
    text: str | None
    priority: int
    messages: int
    bytes: int


def configure(queue: int, app: str | None, wanted: Sequence[Wanted]) -> tuple[bytes, ...]:
    items = [
        item(
            number(0, one.number),
            group(1, number(0, 0 if one.text is None else 1), text(1, one.text or "")),
            group(
                2,
                item(
                    number(0, one.messages),
                    number(1, one.bytes),
                    number(2, one.priority),
                    number(3, 1),
                ),
            ),
        )
        for one in wanted
    ]
    name = "__default" if app is None else app
    return number(0, queue), group(1, text(0, name), group(1, *items))


def configure_old(
    queue: int, sub_id: int, app: str | None, one: Wanted | None
) -> tuple[bytes, ...]:
    """The configure of clients without expressions; None wants nothing."""
    parts = [] if app is None else [group(0, number(0, sub_id), text(1, app))]
    messages, size, priority, count = (
        (0, 0, NOTHING, 0) if one is None else (one.messages, one.bytes, one.priority, 1)
    )
    parts += [number(1, messages), number(2, size), number(3, priority), number(4, count)]
    return number(0, queue), group(1, *parts)


def size_of(kind: int, value: Value) -> int:
    """Bytes that the router counts for a value: numbers and booleans are eight, however short."""
    return 8 if kind in NUMBERS else len(_bytes_of(kind, value))


def _bytes_of(kind: int, value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return struct.pack(NUMBERS[kind], int(value))


def application_data(properties: Properties, body: bytes) -> bytes:
    if not properties:
        return body
    heads, pairs = b"", b""
    for name, (kind, value) in properties.items():
        data = _bytes_of(kind, value)
        heads += struct.pack(
            ">HHH", kind << 10 | len(data) >> 16, len(data) & 0xFFFF, len(name.encode())
        )
        pairs += name.encode() + data
    size = 6 + len(heads) + len(pairs)
    words = size // 4 + 1
    first = bytes([0x1B]) + words.to_bytes(3, "big") + bytes([0, len(properties)])
    return padded(first + heads + pairs) + body


def put(queue: int, guid: bytes, data: bytes, has_properties: bool, ack: bool) -> bytes:
    """One message of a PUT event."""
    flags = int(ack) | int(has_properties) << 1
    checksum = google_crc32c.value(data)
    whole = padded(data)
    return (
        struct.pack(">IIi", flags << 28 | 9 + len(whole) // 4, 9, queue)
        + guid
        + struct.pack(">II", checksum, 0)
        + whole
    )


def confirms(entries: Iterable[tuple[int, bytes, int]]) -> bytes:
    """A CONFIRM event of (queue, guid, sub id)."""
    body = b"".join(
        struct.pack(">i", queue) + guid + struct.pack(">I", sub_id)
        for queue, guid, sub_id in entries
    )
    return event(CONFIRM, b"\x16\0\0\0" + body)


# -- what comes back


def _acks(body: bytes) -> list[Frame]:
    step = (body[0] & 15) * 4
    return [
        Acked(
            int.from_bytes(body[at + 20 : at + 24], "big", signed=True),
            body[at + 4 : at + 20],
            body[at] & 15,
        )
        for at in range((body[0] >> 4) * 4, len(body), step)
    ]


def _pushes(body: bytes) -> list[Frame]:
    frames: list[Frame] = []
    at = 0
    while at < len(body):
        first, second, queue = struct.unpack_from(">IIi", body, at)
        end = at + (first & 0xFFFFFFF) * 4
        options_at = at + (second & 31) * 4
        data_at = options_at + (second >> 8) * 4
        if second >> 5 & 7:
            raise AssertionError("a push is compressed")
        numbers: list[int] = []
        while options_at < data_at:
            (option,) = struct.unpack_from(">I", body, options_at)
            kind, words = option >> 26, option & 0x1FFFFF
            if kind == 1:
                numbers += struct.unpack_from(f">{words - 1}I", body, options_at + 4)
            elif kind == 3 and not option >> 25 & 1:
                numbers += struct.unpack_from(f">{(words - 1) // 2 * 2}I", body, options_at + 4)[
                    ::2
                ]
            elif kind == 3:
                numbers.append(0)
                words = 1
            options_at += words * 4
        frames.append(
            Pushed(
                queue, body[at + 12 : at + 28], tuple(numbers), body[data_at : end - body[end - 1]]
            )
        )
        at = end
    return frames


def _answer(body: bytes) -> Answered:
    said: dict[str, Any] = json.loads(body[: -body[-1]])
    number_of_it = said.pop("rId", -1)
    ((what, content),) = said.items()
    if what == "brokerResponse":
        content = content["result"]
    return Answered(
        number_of_it,
        what,
        content.get("category", "E_SUCCESS"),
        content.get("message", ""),
    )


class Line:
    """One connection."""

    def __init__(self, port: int, name: str, client: bytes) -> None:
        self.name = name
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = b""
        self._requests = 0
        self.send(hello(name, client))
        (welcome,) = self.frames()
        if not isinstance(welcome, Answered) or welcome.category != "E_SUCCESS":
            raise Gone(f"{name} is not welcome: {welcome}")

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Gone(f"{self.name}: {error}") from error

    def request(self, selection: int, *fields: bytes) -> tuple[int, bytes]:
        """The number of the next request, and its bytes."""
        self._requests += 1
        return self._requests, request(self._requests, selection, *fields)

    def frames(self) -> list[Frame]:
        """The frames of the next event."""
        while True:
            while len(self._input) < 8 or len(self._input) < self._wanted():
                try:
                    more = self._socket.recv(1 << 18)
                except OSError as error:
                    raise Gone(f"{self.name}: {error}") from error
                if not more:
                    raise Gone(f"{self.name}: the router closed the connection")
                self._input += more
            size = self._wanted()
            whole, self._input = self._input[:size], self._input[size:]
            kind, body = whole[4] & 63, whole[whole[5] * 4 :]
            if kind == PING:
                self.send(event(PONG, b""))
            elif kind == CONTROL:
                return [_answer(body)]
            elif kind == PUSH:
                return _pushes(body)
            elif kind == ACK:
                return _acks(body)
            else:
                raise AssertionError(f"an event of type {kind} came to {self.name}")

    def _wanted(self) -> int:
        return int.from_bytes(self._input[:4], "big") & 0x7FFFFFFF

    def close(self, reset: bool = False) -> None:
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

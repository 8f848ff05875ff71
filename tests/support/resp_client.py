"""A client that hides nothing: commands as bytes, replies as values whose kinds are told apart."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self, TypeAlias

TIMEOUT_SECONDS = 30.0
"""Generous: what takes longer does not come at all."""


@dataclass(frozen=True)
class Simple:
    """A simple string: ``+OK``."""

    text: str


@dataclass(frozen=True)
class Error:
    """An error reply; its text starts with the code."""

    text: str

    @property
    def code(self) -> str:
        return self.text.split(" ", 1)[0]


@dataclass(frozen=True)
class Verbatim:
    """A text with a format of three letters, as RESP3 has it."""

    kind: str
    text: bytes


@dataclass(frozen=True)
class Boolean:
    value: bool


@dataclass(frozen=True)
class BigNumber:
    value: int


@dataclass(frozen=True)
class NilArray:
    """``*-1``, which RESP2 has beside the nil of bulks."""


class Push(list["Frame"]):
    """Items that came in a push frame; never equal to those of an array."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Push) and super().__eq__(other)

    def __repr__(self) -> str:
        return f"Push({super().__repr__()})"


class Members(list["Frame"]):
    """Items that came in a set frame, in the order of the wire."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Members) and super().__eq__(other)

    def __repr__(self) -> str:
        return f"Members({super().__repr__()})"


class Pairs(list[tuple["Frame", "Frame"]]):
    """What came in a map frame, in the order of the wire."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pairs) and super().__eq__(other)

    def __repr__(self) -> str:
        return f"Pairs({super().__repr__()})"


Frame: TypeAlias = (
    bytes
    | int
    | float
    | Simple
    | Error
    | Verbatim
    | Boolean
    | BigNumber
    | NilArray
    | Push
    | Members
    | Pairs
    | list["Frame"]
    | None
)
"""A bulk is ``bytes``, an array a plain list, and both nils but ``*-1`` are None."""

Word: TypeAlias = bytes | str | int

OK = Simple("OK")
PONG = Simple("PONG")
QUEUED = Simple("QUEUED")

_fences = itertools.count(1)


class HungUp(Exception):
    """The server closed the connection before the frame was complete."""


def encoded(*words: Word) -> bytes:
    """A command as an array of bulks."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


class FrameReader:
    """Frames from a stream of bytes, each with the bytes that it was made of."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._raw = bytearray()

    @property
    def raw(self) -> bytes:
        """The bytes of the frame that was read last."""
        return bytes(self._raw)

    def read(self) -> Frame:
        self._raw.clear()
        return self._frame()

    def close(self) -> None:
        self._file.close()

    def _frame(self) -> Frame:
        line = self._take_line()
        kind, rest = line[:1], line[1:]
        match kind:
            case b"+":
                return Simple(rest.decode("latin-1"))
            case b"-":
                return Error(rest.decode("latin-1"))
            case b":":
                return int(rest)
            case b"$":
                return None if rest == b"-1" else self._take(int(rest))
            case b"*":
                return NilArray() if rest == b"-1" else self._items(rest)
            case b">":
                return Push(self._items(rest))
            case b"~":
                return Members(self._items(rest))
            case b"%":
                return Pairs((self._frame(), self._frame()) for _ in range(int(rest)))
            case b"_":
                assert rest == b"", line
                return None
            case b"#":
                return Boolean({b"t": True, b"f": False}[rest])
            case b",":
                return float(rest)
            case b"(":
                return BigNumber(int(rest))
            case b"=":
                text = self._take(int(rest))
                assert text[3:4] == b":", text
                return Verbatim(text[:3].decode(), text[4:])
        raise AssertionError(f"not the start of a frame: {line!r}")

    def _items(self, count: bytes) -> list[Frame]:
        return [self._frame() for _ in range(int(count))]

    def _take_line(self) -> bytes:
        line = self._file.readline()
        if not line.endswith(b"\n"):
            raise HungUp(line)
        self._raw += line
        assert line.endswith(b"\r\n"), f"a line feed alone: {line!r}"
        return line[:-2]

    def _take(self, size: int) -> bytes:
        data = self._file.read(size + 2)
        if len(data) < size + 2:
            raise HungUp(data)
        self._raw += data
        assert data.endswith(b"\r\n"), data[-10:]
        return data[:-2]


class Client:
    """One connection. Every read has a timeout; nothing is read ahead of being asked for."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        protocol: int = 2,
        timeout: float = TIMEOUT_SECONDS,
        receive_buffer: int | None = None,
        fence: str = "PING",
    ) -> None:
        self._fence = fence
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader(self._socket.makefile("rb"))
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.protocol = 2
        if protocol != 2:
            self.hello(protocol)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def hello(self, protocol: int) -> Frame:
        reply = self.ask("HELLO", protocol)
        self.protocol = protocol
        return reply

    def timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    # Asking

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, *words: Word) -> None:
        self.send_raw(encoded(*words))

    def ask(self, *words: Word) -> Frame:
        """Send a command and read one frame."""
        self.send(*words)
        return self.read()

    def pipeline(
        self, commands: Sequence[Sequence[Word]], frames: int | None = None
    ) -> list[Frame]:
        """Send all at once and read as many frames, or as many as there are commands.

        The writer has a thread of its own: a server may stop reading while it is not read.
        """
        data = b"".join(encoded(*words) for words in commands)
        writer = threading.Thread(target=self.send_raw, args=(data,))
        writer.start()
        try:
            return self.read_many(len(commands) if frames is None else frames)
        finally:
            writer.join()

    # Reading

    def is_answered(self, seconds: float) -> bool:
        """Whether something comes within so long. Nothing is to be under way that was not read."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def read(self) -> Frame:
        """The next frame."""
        return self._reader.read()

    def read_many(self, count: int) -> list[Frame]:
        return [self.read() for _ in range(count)]

    def read_raw(self, frames: int = 1) -> bytes:
        """The bytes of the next frames, exactly as they came."""
        parts = []
        for _ in range(frames):
            self.read()
            parts.append(self._reader.raw)
        return b"".join(parts)

    def read_raw_of(self, *words: Word) -> bytes:
        """The bytes that a command is answered with."""
        self.send(*words)
        return self.read_raw()

    def available(self) -> bytes:
        """What has come by now, unparsed; not to be mixed with the other ways of reading."""
        parts = []
        before = self._socket.gettimeout()
        self._socket.settimeout(0)
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while data := self._socket.recv(1 << 20):
                parts.append(data)
        self._socket.settimeout(before)
        return b"".join(parts)

    def before_fence(self) -> list[Frame]:
        """Everything that the server sends before it answers a PING sent now. Of several workers
        what others published is waited for, too: they are asked with an UNSUBSCRIBE of nothing."""
        word = b"fence-%d" % next(_fences)
        self.send(self._fence, word)
        frames: list[Frame] = []
        while (frame := self.read()) != word and not (isinstance(frame, list) and word in frame):
            frames.append(frame)
        return frames

    def until_closed(self) -> list[Frame]:
        """The frames up to the end of the stream, however it is ended."""
        frames: list[Frame] = []
        while True:
            try:
                frames.append(self.read())
            except (HungUp, ConnectionResetError):
                return frames

    def pushed(self, *items: Frame) -> Frame:
        """What a message or confirmation of these items looks like in this protocol."""
        return Push(items) if self.protocol == 3 else list(items)

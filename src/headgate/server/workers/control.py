"""The control socket between the supervisor and a worker: messages, some with a socket attached.

Each message is one packet, so that it arrives whole, with its socket. The kernel buffers few; the
others wait here.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import msgspec

PACKET_BYTES = 64 * 1024
AT_ONCE = 64
"""Messages taken before others get a turn."""


class Welcome(msgspec.Struct, tag="welcome"):
    """The first message to a worker: the workers it will be linked to before it is ready. Worker 0
    gets the socket of the admin port with it."""

    linked: list[int]


class Listening(msgspec.Struct, tag="listening"):
    """To a worker: the addresses where the supervisor listens for each wire, which it does once
    worker 0 has the store."""

    addresses: dict[str, tuple[str, int]]


class Link(msgspec.Struct, tag="link"):
    """To a worker, with a socket: the link to the worker of this number, in its life of this
    number."""

    worker: int
    start: int


class Client(msgspec.Struct, tag="client"):
    """To a worker, with a socket: a client of this wire, from this address."""

    wire: str
    peer: str


class Ping(msgspec.Struct, tag="ping"):
    """To a worker, which answers with its load."""

    number: int


class Go(msgspec.Struct, tag="go"):
    """To worker 0: all workers are ready."""


class Worker(msgspec.Struct):
    """The status of a worker, as the supervisor knows it."""

    number: int
    process: int
    start: int
    """Number of times that it was started."""
    clients: int
    is_ready: bool


class State(msgspec.Struct, tag="state"):
    """To worker 0, which reports it on the admin port."""

    workers: list[Worker]
    problems: list[str]


class Ready(msgspec.Struct, tag="ready"):
    """From a worker: it accepts clients."""


class Load(msgspec.Struct, tag="load"):
    """From a worker: its clients now, and the clients it was handed since its start."""

    ping: int
    clients: int
    given: int


class Opened(msgspec.Struct, tag="opened"):
    """From worker 0: it has the store."""


class Notify(msgspec.Struct, tag="notify"):
    """From worker 0: a state of the router for systemd."""

    state: str


class Lost(msgspec.Struct, tag="lost"):
    """From a worker: a link to another one ended, or holds more than it may."""

    worker: int
    start: int
    reason: str


class Drain(msgspec.Struct, tag="drain"):
    """From worker 0: accept no new clients, or accept them again."""

    is_draining: bool


Message: TypeAlias = (
    Welcome
    | Listening
    | Link
    | Client
    | Ping
    | Go
    | State
    | Ready
    | Load
    | Opened
    | Notify
    | Lost
    | Drain
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a control socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Control:
    """One end of a control socket. `handle` is called with each message and its socket, if it has
    one; `ended` once, when the other end is gone."""

    def __init__(
        self,
        end: socket.socket,
        handle: Callable[[Message, socket.socket | None], None],
        ended: Callable[[], None],
    ) -> None:
        end.setblocking(False)
        self._end = end
        self._handle = handle
        self._ended = ended
        self._waiting: deque[tuple[bytes, socket.socket | None]] = deque()
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(end, self._read)

    def __len__(self) -> int:
        """Number of messages that the other end did not take yet."""
        return len(self._waiting)

    def send(self, message: Message, passed: socket.socket | None = None) -> None:
        """Send a message. Its socket is closed here once it is sent."""
        if not self._is_open:
            if passed is not None:
                passed.close()
            return
        if not self._waiting:
            self._loop.add_writer(self._end, self._write)
        self._waiting.append((_encode(message), passed))
        self._write()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._end)
            self._loop.remove_writer(self._end)
            self._end.close()
            for _, passed in self._waiting:
                if passed is not None:
                    passed.close()
            self._waiting.clear()

    def _write(self) -> None:
        while self._waiting:
            blob, passed = self._waiting[0]
            ancillary = []
            if passed is not None:
                descriptors = array.array("i", [passed.fileno()])
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
            try:
                self._end.sendmsg([blob], ancillary)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                return  # the other end is gone, which reading will show
            self._waiting.popleft()
            if passed is not None:
                passed.close()
        self._loop.remove_writer(self._end)

    def _read(self) -> None:
        for _ in range(AT_ONCE):
            if not self._is_open:
                return
            try:
                blob, descriptors, _, _ = socket.recv_fds(self._end, PACKET_BYTES, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                blob, descriptors = b"", []
            if not blob:
                self.close()
                self._ended()
                return
            self._handle(_decode(blob), _socket_of(descriptors))


def _socket_of(descriptors: list[int]) -> socket.socket | None:
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
        with suppress(OSError):
            passed = socket.socket(fileno=descriptor)
            passed.setblocking(False)
            return passed
    return None

"""The usual work of a connection: reading and passing on, and sending while the socket takes it.

Every message and command goes through it, so it exists in C as well: `_pump.c`. Rare events are
methods of the connection, the same for both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headgate.compiled import part
from headgate.core.channels.publish_pass import Blob
from headgate.core.delivery.mailbox import ANSWER
from headgate.core.model.ids import SessionId

if TYPE_CHECKING:
    from headgate.server.net.poller import Poller

READ_BYTES = 64 * 1024
HELD_BYTES = 4096
"""Bytes of answers held until all ready connections were served."""
READABLE = 1
"""The usual event of a socket: READ of the poller, which is epoll's EPOLLIN."""

Deliver: TypeAlias = Callable[[bytes, int], None]
"""Takes a blob for one session and its number of messages."""


class Pipe(Protocol):
    """A non-blocking socket, or TLS over one. `recv` and `send` raise BlockingIOError when they
    have to wait."""

    def fileno(self) -> int: ...
    def recv(self, size: int, /) -> bytes: ...
    def send(self, data: bytes | memoryview, /) -> int: ...
    def pending(self) -> int:
        """Bytes already read from the socket, of which the loop does not know."""
        ...

    def finish(self) -> None:
        """Announce that nothing more will be written."""
        ...

    def close(self) -> None: ...


class Reader(Protocol):
    """The wire's side of a session."""

    def receive(self, data: bytes) -> None: ...

    @property
    def owes_answers(self) -> bool:
        """Whether a client that sends nothing more still waits for answers."""
        ...

    def go_on(self) -> None:
        """Go on: the client took its answers."""
        ...

    def let_go(self) -> None:
        """Drop all references when the connection is gone. Objects that refer to each other must be
        parted: Python seldom looks for such cycles among older objects."""
        ...


class PurePump:
    """A socket that is read and written. Base of the connection, which decides what it may do, and
    handles unsent data, the end and all errors."""

    __slots__ = (
        "_held",
        "_is_direct",
        "_is_ending",
        "_is_reading",
        "_is_writing",
        "_pipe",
        "_poller",
        "_recv",
        "_send",
        "bytes_in",
        "bytes_out",
        "fileno",
        "heard",
        "reader",
    )

    _pipe: Pipe
    _poller: Poller
    _recv: Callable[[int], bytes]
    _send: Callable[[bytes | memoryview], int]
    fileno: int
    bytes_in: int
    bytes_out: int
    heard: float
    reader: Reader
    _is_direct: bool
    _is_reading: bool
    _is_writing: bool
    _is_ending: bool
    _held: bytes

    # Calls of the wire.

    def write(self, blob: bytes) -> None:
        """Write answers, behind the data that waits already."""
        poller, held = self._poller, self._held
        if poller.is_serving and len(held) + len(blob) <= HELD_BYTES:
            if not held:
                poller.answering.append(self)
            self._held = held + blob
        else:
            self.deliver(blob, ANSWER)

    def deliver(self, blob: bytes, messages: int) -> None:
        """Write messages; the mailbox is charged if the socket does not take them."""
        if self._held:
            self._let_go()
        if self._is_ending:
            return
        if self._is_writing:
            self._keep(blob, messages)
            return
        try:
            sent = self._send(blob)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._broken(error)
            return
        self.bytes_out += sent
        if sent < len(blob):
            self._fell_short(blob, sent, messages)

    def _let_go(self) -> None:
        """Send the answers that were held."""
        if self._held:
            held, self._held = self._held, b""
            self.deliver(held, ANSWER)

    # Calls of the poller.

    def _ready(self, events: int) -> None:
        if events != READABLE:
            self._unusual(events)
            return
        if not self._is_reading:
            return
        try:
            data = self._recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._unreadable(error)
            return
        if not data:
            self._hung_up()
            return
        self.bytes_in += len(data)
        self.heard = monotonic()
        if self._is_ending:
            return
        try:
            self.reader.receive(data)
        except Exception as error:
            self._failed(error)
            return
        if not self._is_direct:
            self._look_again()

    # Decisions of the connection.

    @abstractmethod
    def _keep(self, blob: bytes | memoryview, messages: int) -> None:
        """Put a blob in line behind the data that waits already."""

    @abstractmethod
    def _fell_short(self, blob: bytes, sent: int, messages: int) -> None:
        """Keep the rest of a blob of which the socket took only so many bytes."""

    @abstractmethod
    def _broken(self, error: OSError) -> None:
        """Handle an error of writing. The caller may be in the middle of something."""

    @abstractmethod
    def _unreadable(self, error: OSError) -> None:
        """Handle an error of reading."""

    @abstractmethod
    def _hung_up(self) -> None:
        """Note that the client will send nothing more."""

    @abstractmethod
    def _unusual(self, events: int) -> None:
        """Handle other events than data to read."""

    @abstractmethod
    def _failed(self, error: Exception) -> None:
        """Handle an error of the reader."""

    @abstractmethod
    def _look_again(self) -> None:
        """Note that there may be more to read that the poller does not know of."""


def pure_serve(
    found: Sequence[tuple[int, int]],
    calls: Mapping[int, Callable[[int], None]],
    failed: Callable[[Exception], None],
) -> bool:
    """Serve connections by their events; return whether other sockets are ready, too. An earlier
    connection may have closed a later one."""
    has_others = False
    for fileno, events in found:
        call = calls.get(fileno)
        if call is None:
            has_others = True
            continue
        try:
            call(events)
        except Exception as error:
            failed(error)
    return has_others


def pure_let_go_all(pumps: Sequence[PurePump], failed: Callable[[Exception], None]) -> None:
    """Have connections send the answers that they hold."""
    for pump in pumps:
        try:
            pump._let_go()
        except Exception as error:
            failed(error)


def pure_deliver_all(
    blobs: Iterable[Blob], calls: Mapping[SessionId, Deliver], room: int
) -> list[Blob]:
    """Hand each blob to its receivers that are there, before the next one is made. After so many
    deliveries no more blobs are begun; the rest is returned."""
    rest: list[Blob] = []
    for each in blobs:
        blob, sessions, messages = each
        room -= len(sessions)
        if room < 0:
            rest.append(each)
            continue
        for session in sessions:
            # S002-9: a session that is gone is skipped.
            if session in calls:
                calls[session](blob, messages)
    return rest


if TYPE_CHECKING:
    Pump = PurePump
else:
    Pump = part("headgate.server.net._pump", "Pump", PurePump)
serve = part("headgate.server.net._pump", "serve", pure_serve)
let_go_all = part("headgate.server.net._pump", "let_go_all", pure_let_go_all)
deliver_all = part("headgate.server.net._pump", "deliver_all", pure_deliver_all)

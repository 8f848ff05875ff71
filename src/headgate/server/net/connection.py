"""The connection of one session: bytes in, mailbox out. One class for all wires.

Data is written to the socket at once, and only the rest goes into the mailbox. So a healthy session
has no buffer of its own, and a blob for a thousand sessions exists once: a transport of asyncio
would copy it for each.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from headgate.core.delivery.mailbox import ANSWER, PART, Mailbox, Pressure
from headgate.core.model.ids import SessionId
from headgate.server.net.poller import GONE, HUNG_UP, READ, WRITE, Poller
from headgate.server.net.pump import Pipe, Pump, PurePump, Reader

log = logging.getLogger(__name__)

LINGER_SECONDS = 2.0
"""Seconds that a finished socket stays open for the client to read the last bytes. Closed at once,
with data of the client's unread, it would be reset, and the client might never see them."""


class SocketPipe:
    """A plain socket. Its methods are those of the socket, without a layer in between."""

    __slots__ = ("_socket", "close", "fileno", "recv", "send")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.fileno = connected.fileno
        self.recv = connected.recv
        self.send = connected.send
        self.close = connected.close

    def pending(self) -> int:
        return 0

    def finish(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)


class Owner(Protocol):
    """The object that made a connection, and is called when its state changes."""

    def pressed(self, connection: Connection) -> None:
        """Its mailbox grew, and is over its soft limit."""
        ...

    def eased(self, connection: Connection, before: Pressure) -> None:
        """Its mailbox shrank, since the socket took data."""
        ...

    def gone(self, connection: Connection, reason: str) -> None:
        """The session is over. Called once."""
        ...

    def ended(self, connection: Connection) -> None:
        """The socket is closed, which may be a while after the session."""
        ...


class Connection(Pump):
    """A socket with a mailbox: data waits there until the socket takes it.

    The listener of a wire makes it. It reads only while its reader keeps up, and calls its owner
    when the mailbox fills and drains, and once when the session is over.
    """

    __slots__ = (
        "_is_done",
        "_is_waiting",
        "_linger",
        "_loop",
        "_may_leave",
        "_owner",
        "_reason",
        "_watched",
        "answers_max",
        "clock",
        "has_hung_up",
        "id",
        "is_full",
        "mailbox",
        "quota",
    )

    # Attributes of a pipe that is not a plain socket, which only Python can read and write.
    _ready_by_pipe = PurePump._ready
    _deliver_by_pipe = PurePump.deliver

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        poller: Poller,
        pipe: Pipe,
        owner: Owner,
        id: SessionId,
        mailbox: Mailbox,
        clock: Callable[[], float],
        quota: int,
        answers_max: int,
    ) -> None:
        self._loop = loop
        self._poller = poller
        self._pipe = pipe
        self._recv = pipe.recv
        self._send = pipe.send
        self._is_direct = type(pipe) is SocketPipe
        """Whether it is a plain socket."""
        self.fileno = pipe.fileno()
        self._owner = owner
        self.id = id
        self.mailbox = mailbox
        self.clock = clock
        self.quota = quota
        """Items of the mailbox written in a row; then others get a turn, and the client's data is
        read."""
        self.answers_max = answers_max
        """Bytes of unread answers above which no more commands are read."""
        self.bytes_in = self.bytes_out = 0
        """Bytes read from the socket, and written to it."""
        self.heard = monotonic()
        """When data was last read."""
        self._is_reading = False
        self.has_hung_up = False
        """Whether the client will send nothing more; it is answered before the connection
        closes."""
        self._watched = 0
        """The events that the poller watches for."""
        self._may_leave = True
        self._is_waiting = False
        """Whether the wire wants no more data for now."""
        self.is_full = False
        """Whether the client left too many answers unread."""
        self._held = b""
        """Answers held until the end of this pass, with those of all other sessions: sent one by
        one, each would wake a process that sleeps again before the next."""
        self._is_writing = False
        self._is_ending = False
        self._is_done = False
        self._reason = ""
        self._linger: asyncio.TimerHandle | None = None

    def start(self, reader: Reader) -> None:
        self.reader = reader
        self._is_reading = True
        self._watched = READ
        self._poller.add(self.fileno, self._ready, READ)

    # Calls of the wire.

    def pause(self, *, may_leave: bool = True) -> None:
        """Read no more from the client until `resume`. If it hangs up meanwhile, the session ends,
        unless commands sent before are still to be carried out."""
        self._is_waiting = True
        self._may_leave = may_leave
        self._follow()

    def resume(self) -> None:
        if not self._is_done:
            self._is_waiting = False
            self._follow()

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """End the session after the waiting data was written, or at once."""
        if self._is_done:
            return
        self._let_go()
        if not self._is_ending:
            self._is_ending = True
            self._reason = reason
            self._linger = self._loop.call_later(LINGER_SECONDS, self._end)
        if at_once:
            self._end()
        elif not len(self.mailbox):
            self._write_last()

    # Calls of the poller.

    def _hung_up(self) -> None:
        """Note that the client will send nothing more. It may still read the answers it waits
        for."""
        if self.reader.owes_answers and not self._is_ending:
            self.has_hung_up = True
            self.pause(may_leave=False)
        else:
            self.lose("closed by the client")

    def _unusual(self, events: int) -> None:
        if events & GONE and not events & READ and not self._is_reading:
            # While it is not read, only this shows that it hung up.
            self.lose("closed by the client")
        elif events & (READ | GONE):
            self._ready(READ)
        if events & WRITE and self._is_writing:
            self._writable()

    def _writable(self) -> None:
        mailbox, send = self.mailbox, self._send
        before = mailbox.pressure
        now = self.clock()
        try:
            # S002-43, S002-44, RESP-57, RESP-58: some in a row, then others get a turn.
            for _ in range(self.quota or len(mailbox)):
                item = mailbox.first()
                if item is None:
                    break
                assert isinstance(item, bytes | memoryview), "a connection holds bytes"
                sent = self._sent(send, item)
                self.bytes_out += sent
                if sent < len(item):
                    if sent:
                        rest = memoryview(item)[sent:]
                        mailbox.shorten(rest, len(rest), now)
                    break
                mailbox.take(now)
        except OSError as error:
            self.lose(f"lost: {error.strerror or type(error).__name__}")
            return
        if not len(mailbox):
            self._is_writing = False
            self._watch()
        if self.is_full and mailbox.answers <= self.answers_max:
            self.is_full = False
            self._follow()
            self._go_on()
        self._owner.eased(self, before)
        if self._is_ending and not len(mailbox):
            self._write_last()

    # Inside.

    def _fell_short(self, blob: bytes, sent: int, messages: int) -> None:
        """Keep the rest of a blob of which the socket took only so many bytes."""
        self._is_writing = True
        self._watch()
        self._keep(memoryview(blob)[sent:], PART if messages else ANSWER)

    def _broken(self, error: OSError) -> None:
        # Not now: the caller may be in the middle of something.
        self._loop.call_soon(self.lose, f"lost: {error.strerror or 'broken'}")

    def _unreadable(self, error: OSError) -> None:
        self.lose(f"lost: {error.strerror or type(error).__name__}")

    def _failed(self, error: Exception) -> None:
        # An error of ours costs the client that met it its session, and no other client.
        log.error("a session failed", exc_info=error)
        self.close("internal error", at_once=True)

    def _look_again(self) -> None:
        """Note that there may be more to read that the poller does not know of."""
        if not self._is_done and self._pipe.pending():
            self._loop.call_soon(self._ready, READ)

    def _keep(self, blob: bytes | memoryview, messages: int) -> None:
        """Put data that the socket does not take now into the mailbox."""
        mailbox = self.mailbox
        # S002-39: it waits here, and no other session waits for it.
        mailbox.offer(blob, len(blob), self.clock(), messages=messages)
        if mailbox.answers > self.answers_max and not self.is_full:
            self.is_full = True
            self._follow()
        if mailbox.pressure is not Pressure.EASY:
            self._owner.pressed(self)

    def _go_on(self) -> None:
        try:
            self.reader.go_on()
        except Exception as error:
            self._failed(error)

    def _follow(self) -> None:
        """Read, or stop reading, as the flags say. A closing session reads to the end."""
        before = self._is_reading
        self._is_reading = not self._is_done and (
            self._is_ending or not (self._is_waiting or self.is_full)
        )
        self._watch()
        if self._is_reading and not before and self._pipe.pending():
            self._loop.call_soon(self._ready, READ)

    def _watch(self) -> None:
        """Change what the poller watches for, if needed."""
        events = (READ if self._is_reading else 0) | (WRITE if self._is_writing else 0)
        # A waiting client is gone when it hangs up; one with unread answers may still send.
        if self._is_waiting and self._may_leave:
            events |= HUNG_UP
        if events != self._watched and not self._is_done:
            self._watched = events
            self._poller.change(self.fileno, events)

    def _sent(self, send: Callable[[bytes | memoryview], int], item: bytes | memoryview) -> int:
        """Send an item; return the bytes that the socket took."""
        try:
            return send(item)
        except (BlockingIOError, InterruptedError):
            return 0

    def _write_last(self) -> None:
        """Close after everything is written. The client may read it before the socket goes."""
        self._report_gone()
        try:
            self._pipe.finish()
        except OSError:
            self._end()
            return
        self._follow()

    def lose(self, reason: str) -> None:
        """End the session of a client that is gone."""
        if not self._is_ending:
            self._reason = reason
        self._end()

    def _end(self) -> None:
        if self._is_done:
            return
        self._is_ending = self._is_done = True
        if self._linger is not None:
            self._linger.cancel()
        self._is_reading = self._is_writing = False
        self._poller.remove(self.fileno)
        self._pipe.close()
        self._report_gone()
        self._owner.ended(self)
        # The session and its connection refer to each other; this frees both now.
        reader = self.reader
        del self.reader
        reader.let_go()

    def _report_gone(self) -> None:
        reason, self._reason = self._reason, ""
        if reason:
            self._owner.gone(self, reason)

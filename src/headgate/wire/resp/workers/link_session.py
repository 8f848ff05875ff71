"""One end of a link between two workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from headgate.core.channels.audience import Kind
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import KiB, Limits
from headgate.errors import ProtocolError
from headgate.wire.resp.codec.publish_runs import STARTS, run_in
from headgate.wire.resp.codec.requests import RequestParser
from headgate.wire.resp.workers import link_frames as frames
from headgate.wire.resp.workers.link_runs import deliver_each, deliver_run

if TYPE_CHECKING:
    from headgate.wire.resp.workers.relay import Relay

NO_LIMIT = 2**31
"""No limit: another worker is trusted, and its data was within the limits when clients sent it."""

SLICE_SECONDS = 0.005
"""After so long others get a turn, between two frames."""

CUT_BYTES = 64 * KiB
"""The longest beginning of a message that is kept; the parser keeps a longer one, without copying
it again for each read."""


class LinkPort(Protocol):
    """The server's end of a link: a socket to another worker, with a mailbox."""

    @property
    def id(self) -> SessionId:
        """The number of its mailbox among those of sessions."""
        ...

    @property
    def unwritten(self) -> int:
        """Bytes of what was sent that the other worker has not taken."""
        ...

    def write(self, frame: bytes) -> None:
        """Send a frame behind those sent before."""
        ...

    def deliver(self, blob: bytes, messages: int) -> None:
        """Send messages, for which its mailbox is charged."""
        ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self, reason: str) -> None:
        """End the link at once."""
        ...


class LinkSession:
    """The session of a link to another worker, frame by frame. The server calls `receive`; the
    relay owns it and handles the frames."""

    def __init__(self, relay: Relay, port: LinkPort, worker: int, start: int) -> None:
        self.relay = relay
        self.port = port
        self.id = port.id
        self.worker = worker
        """The number of the other worker, by the supervisor."""
        self.start = start
        self.is_known = False
        """Whether it has sent its hello."""
        self.is_synced = False
        """Whether its subscriptions are known."""
        limits: Limits = relay.hub.broker.limits
        self._requests = RequestParser(
            replace(limits, bulk_bytes=NO_LIMIT, request_bytes=NO_LIMIT, arguments=NO_LIMIT)
        )
        self._requests.is_trusted = True
        self.unanswered: deque[Callable[[], None]] = deque()
        """Questions of the other worker that wait until it takes the answers to earlier ones."""
        self.slice_end: float | None = None
        """The time until which its questions are answered in this pass."""
        self._waiting: list[list[bytes]] = []
        """Frames that came while there was no room for messages, or that took too long."""
        self._cut = b""
        """The beginning of a message whose rest has not come. Nothing waits then, and the parser
        has nothing."""

    owes_answers = False

    def let_go(self) -> None:
        """Drop what waits: the link is over."""
        self._waiting = []

    def receive(self, data: bytes) -> None:
        """Take data of the other worker."""
        if self._waiting:
            self._waiting += self._requests.feed(data)
            return
        if self._cut:
            data, self._cut = self._cut + data, b""
        if self._is_run(data):
            end, is_cut = self._deliver_run(data)
            data = data[end:]
            if is_cut and len(data) <= CUT_BYTES:
                self._cut = data
                return
        if data:
            self._take(self._requests.feed(data))

    def _is_run(self, data: bytes) -> bool:
        """Whether data begins with messages that can be delivered now."""
        return (
            self.is_known
            and data.startswith(STARTS)
            and self._requests.is_idle(len(data))
            and not self.relay.is_full
        )

    def _deliver_run(self, data: bytes) -> tuple[int, bool]:
        if self.relay.is_calm:
            done = deliver_run(self.relay.hub.channels, data)
            self.relay.delivered(self, Kind.EXACT, ())
            return done
        run = run_in(data)
        if run is None:
            return 0, False
        names, bodies, end = run
        self._publish(Kind.EXACT, names, bodies)
        return end, False

    def go_on(self) -> None:
        """Go on with waiting frames: there is room for messages again, or others had a turn."""
        waiting, self._waiting = self._waiting, []
        self._take(waiting)
        if not self._waiting:
            self.port.resume()

    def _take(self, commands: list[list[bytes]]) -> None:
        position, clock = 0, self.relay.hub.shell.clock
        end = clock() + SLICE_SECONDS
        for kind, run in groupby(commands, _kind_of):
            if kind is not None and self.relay.is_full:
                self._wait(commands[position:])
                self.relay.call_when_written(self.go_on)
                return
            try:
                if kind is not None and self.is_known:
                    position += self._publish_all(kind, list(run))
                    continue
                for words in run:
                    self._handle(words)
                    position += 1
                    if clock() > end and position < len(commands):
                        self._wait(commands[position:])
                        self.relay.hub.shell.soon(self.go_on)
                        return
            except ProtocolError as wrong:
                self.port.close(f"not the words of a worker: {wrong}")
                return
        if self._requests.error is not None:
            self.port.close(f"not the words of a worker: {self._requests.error}")

    def _wait(self, commands: list[list[bytes]]) -> None:
        self._waiting = commands
        self.port.pause()

    def _publish_all(self, kind: Kind, commands: list[list[bytes]]) -> int:
        if any(len(words) != 3 for words in commands):
            raise ProtocolError("a message has a channel and a body")
        _, names, bodies = zip(*commands, strict=True)
        self._publish(kind, names, bodies)
        return len(commands)

    def _handle(self, words: list[bytes]) -> None:
        if not self.is_known:
            self._greet(words)
            return
        handle = HANDLERS.get(words[0])
        if handle is None:
            raise ProtocolError("an unknown word")
        handle(self, words)

    def _greet(self, words: list[bytes]) -> None:
        hello = frames.read_hello(words)
        if hello != (frames.VERSION, self.worker, self.start):
            raise ProtocolError(
                f"worker {self.worker} of start {self.start} and version {frames.VERSION} was"
                f" expected, and this is worker {hello.worker} of start {hello.start} and version"
                f" {hello.version}"
            )
        self.is_known = True

    def _publish(self, kind: Kind, names: Sequence[bytes], bodies: Sequence[bytes]) -> None:
        deliver_each(self.relay.hub.channels, kind, names, bodies)
        self.relay.delivered(self, kind, names)

    # Frames of single words.

    def hear(self, words: list[bytes]) -> None:
        announced, changes = frames.read_hear(words)
        self.relay.heard(self, announced, changes)

    def know(self, words: list[bytes]) -> None:
        self.relay.known(self, _only_number(words))

    def block(self, words: list[bytes]) -> None:
        self.relay.blocked(self, *frames.read_block(words))

    def ease(self, words: list[bytes]) -> None:
        self.relay.eased(SessionId(_only_number(words)))

    def beat(self, words: list[bytes]) -> None:
        """Do nothing: receiving it is enough."""

    def listen(self, words: list[bytes]) -> None:
        self.relay.listening(self, bool(_only_number(words)))

    def overheard(self, words: list[bytes]) -> None:
        self.relay.overheard(words[1])

    def ask(self, words: list[bytes]) -> None:
        if len(words) < 3:
            raise ProtocolError("ASK has a number and a question")
        self.relay.asked(self, frames.number(words[1]), words[2], words[3:])

    def answer(self, words: list[bytes]) -> None:
        if len(words) != 3:
            raise ProtocolError("ANSWER has a number and an answer")
        self.relay.answered(self, frames.number(words[1]), words[2])

    def lane(self, words: list[bytes]) -> None:
        if len(words) != 2 or self.relay.lane is None:
            raise ProtocolError("LANE has what a lane carries, between a front and worker 0")
        self.relay.lane.receive(self, words[1])


HANDLERS: dict[bytes, Callable[[LinkSession, list[bytes]], None]] = {
    frames.HEAR: LinkSession.hear,
    frames.KNOW: LinkSession.know,
    frames.BLOCK: LinkSession.block,
    frames.EASE: LinkSession.ease,
    frames.BEAT: LinkSession.beat,
    frames.LISTEN: LinkSession.listen,
    frames.OVERHEARD: LinkSession.overheard,
    frames.ASK: LinkSession.ask,
    frames.ANSWER: LinkSession.answer,
    frames.LANE: LinkSession.lane,
}


def _kind_of(words: list[bytes]) -> Kind | None:
    """The kind of channel that a frame publishes on."""
    return frames.PUBLISHED.get(words[0])


def _only_number(words: list[bytes]) -> int:
    if len(words) != 2:
        raise ProtocolError("there is one number")
    return frames.number(words[1])

"""Sessions of Redis clients, drawn, given to redis-server and to the router, and compared.

    python -m tests.strangers.resp_sequences --count 200000 --seed 1

Three or four connections say the same bytes to both. After each step who made it, and whoever it
concerns, is asked for a sign of life, an UNSUBSCRIBE of a name that nobody has: Redis confirms it
in every state, also to those who switched replies off, and in a transaction it is queued. So
whatever a step caused has arrived, without a pause, and each chunk of each connection is compared:
equal bytes, or equal frames but for what has to differ.

What is not compared frame by frame, and why:

* ``server``, ``version`` and ``id`` of HELLO; addresses, ages and sizes of CLIENT LIST and INFO.
* Numbers from 5,000 on are times here, and agree within 1 %.
* Names that come out of a hash table are sorted: KEYS, SCAN, PUBSUB CHANNELS, leaving all
  channels, the copies of one message for several patterns.
* A push to oneself stands before the reply in redis-server 7.0 and after it in 7.2 and here: in a
  step that publishes, pushes and replies of its connection are two streams. 7.0 writes such a
  push into the array of EXEC, so only a connection that never subscribes publishes in one.

What is not drawn, as the documents name it as a difference: COMMAND (arity and flags of PUBSUB),
values of ``notify-keyspace-events`` other than ``Ex`` and nothing, ends of connections without
replies (7.0 forgets to close them), NULs where an error quotes them, data types beyond strings.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.strangers.resp_draw import (
    ENDING,
    PAST,
    SUBSCRIBER_FREE,
    USERS,
    Command,
    Step,
    draw,
    multibulk,
)
from tests.strangers.resp_frames import Frame, agree, complete, first, shown
from tests.strangers.seeds import play_seeds, seed_options
from tests.support.resp_servers import Server, start_redis, start_workers

TIMEOUT_SECONDS = 60.0
TRIES_OF_A_SHRINK = 300
PUBLISHING = (b"PUBLISH", b"SPUBLISH")
EVERYBODY = 4
"""Of so many steps after one everybody is heard."""
UNORDERED = {
    (b"KEYS",), (b"SCAN",), (b"PUBSUB", b"CHANNELS"), (b"PUBSUB", b"SHARDCHANNELS"),
    (b"CONFIG", b"GET"),
}  # fmt: skip


_sources = itertools.count(1)


class Silence(Exception):
    """A server did not say what was waited for."""


class Line:
    """One connection to one server, and what came over it that nobody has looked at."""

    def __init__(
        self,
        address: tuple[str, int],
        receive_bytes: int | None = None,
        source: str = "127.0.0.1",
    ) -> None:
        self._socket = socket.socket()
        self._socket.bind((source, 0))
        if receive_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.settimeout(TIMEOUT_SECONDS)
        self._socket.connect(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = bytearray()
        self.ended = False

    def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def read(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        except TimeoutError:
            raise Silence(shown(bytes(self.data))) from None
        self.data += data
        self.ended = not data

    def take(self, size: int) -> bytes:
        data = bytes(self.data[:size])
        del self.data[:size]
        return data

    def until_end(self) -> bytes:
        while not self.ended:
            self.read()
        return self.take(len(self.data))

    def until_fence(self, nonce: bytes, simple: int | None) -> tuple[bytes, bool]:
        """What came up to the answer of the fence, and whether that was queued.

        In a transaction every command has one simple answer, so it is the one with the number
        ``simple``; elsewhere it has the nonce in it.
        """
        mark = b"unsubscribe\r\n$%d\r\n%s\r\n:" % (len(nonce), nonce)
        while True:
            at = self.data.find(mark)
            if at >= 0:
                end = self.data.find(b"\r\n", at + len(mark))
                if end >= 0:
                    return self.take(end + 2), False
            elif simple is not None:
                frames = complete(bytes(self.data))
                if sum(kind in "+-" for kind, _ in frames) >= simple:
                    return self.take(len(self.data)), True
            if self.ended:
                return self.take(len(self.data)), False
            self.read()

    def ask(self, *command: bytes) -> bytes:
        """The one reply to a command, as bytes, of a connection that nobody pushes to."""
        self.send(multibulk(command))
        while not complete(bytes(self.data)):
            if self.ended:
                raise Silence("hung up")
            self.read()
        return self.take(len(self.data))

    def frame(self) -> Frame | None:
        """The next frame, or nothing at the end."""
        while (found := first(bytes(self.data))) is None:
            if self.ended:
                return None
            self.read()
        self.take(found[1])
        return found[0]

    def end(self) -> None:
        """Break off, also under a thread that reads or writes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class Wire:
    """One connection of a sequence, to both servers."""

    def __init__(self, servers: list[Server]) -> None:
        # The router lets an address wait that sends wrong passwords: each connection has its own.
        number = next(_sources)
        source = f"127.{1 + (number >> 16) % 250}.{(number >> 8) % 256}.{number % 256}"
        self.lines = [
            Line(server.address) if server.is_redis else Line(server.address, source=source)
            for server in servers
        ]
        for line in self.lines:
            line.ask(b"PING")  # Whoever is asked for all clients has accepted this one.
        self.queueing = False
        self.queued: tuple[Command, ...] = ()
        """What its transaction has so far."""
        self.maybe_silent = False
        self.maybe_a_user = False

    @property
    def ended(self) -> bool:
        return any(line.ended for line in self.lines)

    def close(self) -> None:
        for line in self.lines:
            line.close()


@dataclass(frozen=True)
class Difference:
    """Where two servers parted: the steps so far, whose stream it was, and both of it."""

    steps: list[Step]
    connection: int
    expected: bytes
    found: bytes
    silent: bool = False

    def __str__(self) -> str:
        lines = [f"  {step}" for step in self.steps]
        return "\n".join(
            [
                *lines,
                f"connection {self.connection} then hears",
                f"  of redis   : {shown(self.expected)}",
                f"  of headgate: {shown(self.found)}",
                *["  (within the time that a test waits)"] * self.silent,
            ]
        )


class Arena:
    """Two servers, and one connection to each that outlives all sequences."""

    def __init__(self, redis: Server, headgate: Server, workers: int = 1) -> None:
        self.servers = [redis, headgate]
        self.workers = workers
        self.controls = [Line(server.address) for server in self.servers]
        self.avoid = True
        """Whether steps are left out whose end is unclear."""
        self.steps = 0
        """That were played."""
        self._fences = 0

    def close(self) -> None:
        for control in self.controls:
            control.close()

    def run(self, steps: list[Step]) -> Difference | None:
        """Play a sequence; the first difference, if there is one."""
        for control in self.controls:
            control.ask(b"CONFIG", b"SET", b"notify-keyspace-events", b"")
            control.ask(b"FLUSHALL")
            control.ask(b"ACL", b"DELUSER", *USERS)
        wires: dict[int, Wire] = {}
        done: list[Step] = []
        try:
            for which in range(max((step.connection for step in steps), default=0) + 1):
                wires[which] = Wire(self.servers)
            for step in steps:
                if wires[step.connection].ended:
                    wires[step.connection].close()
                    wires[step.connection] = Wire(self.servers)
                wire = wires[step.connection]
                if self.avoid and _is_out_of_reach(step, wire):
                    continue
                if self.workers > 1 and _asks_everybody(step, wire):
                    continue
                done.append(step)
                self.steps += 1
                if difference := self._play(step, wires, done):
                    return difference
        finally:
            for wire in wires.values():
                wire.close()
        return self._all_left(done)

    def _play(self, step: Step, wires: dict[int, Wire], done: list[Step]) -> Difference | None:
        """Who acts is heard first: then all that it caused is under way to the others. They are
        heard when it concerns them, and every so often because it should not have."""
        others: list[int] = []
        if _concerns_others(step) or len(done) % EVERYBODY == 0:
            others = [which for which in wires if which != step.connection]
        for those, said in (([step.connection], step), (others, None)):
            asked: dict[int, bytes] = {}
            for which in those:
                if not wires[which].ended:
                    self._fences += 1
                    asked[which] = b"fence-%d" % self._fences
                    fence = multibulk((b"UNSUBSCRIBE", asked[which]))
                    for line, control in zip(wires[which].lines, self.controls, strict=True):
                        self._write(line, control, said, fence)
            for which, nonce in asked.items():
                if difference := self._hear(said, which, wires[which], nonce, done):
                    return difference
        return None

    def _hear(
        self, step: Step | None, which: int, wire: Wire, nonce: bytes, done: list[Step]
    ) -> Difference | None:
        """Compare what came over both lines of a connection."""
        chunks: list[bytes] = []
        kinds: list[bool] = []
        for line in wire.lines:
            try:
                if step is not None and step.last:
                    chunks.append(line.until_end())
                    kinds.append(False)
                else:
                    chunk, queued = line.until_fence(nonce, _simple(step, queueing=wire.queueing))
                    chunks.append(chunk)
                    kinds.append(queued)
            except Silence:
                chunks.append(line.take(len(line.data)))
                kinds.append(False)
                if line is wire.lines[0]:
                    raise Silence(f"of redis itself: {done}, {chunks}") from None
                return Difference(done, which, chunks[0], chunks[1], silent=True)
        unordered, in_streams = False, False
        if step is not None:
            unordered = any(map(_tells_a_table, (*wire.queued, *step.commands)))
            in_streams = step.says(*PUBLISHING) or _kills_a_key(step)
            _learn(step, wire, chunks[0], queueing=kinds[0])
        ends = [line.ended for line in wire.lines]
        fits = agree(*chunks, unordered=unordered, in_streams=in_streams)
        if fits and kinds[0] == kinds[1] and ends[0] == ends[1]:
            return None
        told = [chunk + b"+(and ends)\r\n" * end for chunk, end in zip(chunks, ends, strict=True)]
        return Difference(done, which, told[0], told[1])

    def _write(self, line: Line, control: Line, step: Step | None, fence: bytes) -> None:
        if step is None:
            line.send(fence)
            return
        data = step.wire()
        at = 0
        for cut in step.cuts:
            line.send(data[at:cut])
            at = cut
            # CLIENT LIST shows what the control asked last, and may come before or after this.
            if step.apart and not step.says(b"CLIENT"):
                control.ask(b"PING")
        line.send(data[at:] + (b"" if step.last else fence))

    def _all_left(self, done: list[Step]) -> Difference | None:
        """Wait until the servers know that everybody has left, and look for what stayed."""
        questions = [
            (b"PUBSUB", b"CHANNELS"), (b"PUBSUB", b"SHARDCHANNELS"), (b"PUBSUB", b"NUMPAT"),
        ]  # fmt: skip
        end = time.monotonic() + TIMEOUT_SECONDS
        for control in self.controls:
            while (left := control.ask(b"CLIENT", b"LIST")).count(b"id=") > 1:
                if time.monotonic() > end:
                    return Difference(done, -1, b"", left, silent=True)
            answers = b"".join(control.ask(*question) for question in questions)
            if answers != b"*0\r\n*0\r\n:0\r\n":
                return Difference(done, -1, b"*0\r\n*0\r\n:0\r\n", answers)
        return None


def _is_out_of_reach(step: Step, wire: Wire) -> bool:
    """Whether there is no saying what to wait for after this step, or Redis 7.0 errs in it."""
    names = [command[0].upper() for command in step.commands]
    opens = b"MULTI" in names and not {b"EXEC", b"DISCARD"}.intersection(names)
    if opens and not step.last and (len(names) > 1 or wire.maybe_silent):
        return True
    said = Step(step.connection, (*wire.queued, *step.commands))
    silent = wire.maybe_silent or any(command[1:2] == (b"REPLY",) for command in said.commands)
    if (b"RESET",) in step.commands and step.last:
        return False
    ends = step.last or any(command[1:2] in ENDING for command in said.commands)
    # What is published just before the end of who hears it may reach it or not, and Redis still
    # lists who has been ended.
    lists = said.says(b"PUBSUB") or any(c[1:2] == (b"LIST",) for c in said.commands)
    if ends and (silent or lists or said.says(*PUBLISHING)):
        return True
    # What a transaction answers behind the end of its own connection, 7.0 drops but for the heads
    # of some arrays.
    behind = [c for c in said.commands if c[0].upper() not in (b"MULTI", b"EXEC")]
    if (wire.queueing or b"MULTI" in names) and any(c[1:2] in ENDING for c in behind[:-1]):
        return True
    # Who takes its own channels away while it listens ends redis-server 7.0, and not only itself.
    if (wire.maybe_a_user or _names_a_user(step)) and any(
        c[1:2] == (b"SETUSER",) for c in step.commands
    ):
        return True
    if not wire.queueing:
        return False
    if step.connection != SUBSCRIBER_FREE and (step.says(*PUBLISHING) or _kills_a_key(step)):
        return True
    return any(len(c) == 1 and c[0].upper().endswith(b"UNSUBSCRIBE") for c in step.commands)


def _asks_everybody(step: Step, wire: Wire) -> bool:
    """Whether a transaction asks what several workers are not asked in the midst of one."""
    if not wire.queueing and not step.says(b"MULTI"):
        return False
    asking = (b"CLIENT", b"LIST"), (b"CLIENT", b"KILL")
    said = [tuple(word.upper() for word in command[:2]) for command in step.commands]
    return step.says(b"INFO") or any(words in asking for words in said)


def _concerns_others(step: Step) -> bool:
    """Whether other connections may be told of it, or end by it."""
    return (
        step.last
        or step.says(*PUBLISHING, b"EXEC")
        or _kills_a_key(step)
        or any(command[1:2] in ENDING for command in step.commands)
    )


def _simple(step: Step | None, *, queueing: bool) -> int | None:
    """The number of the simple answer that is the fence's, if it may be queued."""
    if step is None:
        return 1 if queueing else None
    if any(command in ((b"EXEC",), (b"DISCARD",)) for command in step.commands):
        return None
    if any(command[0].upper() == b"RESET" and len(command) == 1 for command in step.commands):
        return None
    if queueing or step.commands == ((b"MULTI",),):
        return len(step.commands) + 1
    return None


def _learn(step: Step, wire: Wire, heard: bytes, *, queueing: bool) -> None:
    """What can be known of a connection after its step."""
    for command in step.commands:
        if tuple(word.upper() for word in command) == (b"CLIENT", b"REPLY", b"OFF"):
            wire.maybe_silent = True
    wire.maybe_a_user |= _names_a_user(step)
    last = step.commands[-1] if step.commands else ()
    if last == (b"CLIENT", b"REPLY", b"ON") and b"+OK\r\n" in heard and not queueing:
        wire.maybe_silent = not heard.rpartition(b"+OK\r\n")[2][4:].startswith(b"$11\r\nunsub")
    elif b"+RESET\r\n" in heard and not step.says(b"CLIENT"):
        wire.maybe_silent = False
    wire.queueing = queueing
    wire.queued = (*wire.queued, *step.commands) if queueing else ()


def _tells_a_table(command: Command) -> bool:
    words = tuple(word.upper() for word in command)
    return (
        words[:1] in UNORDERED
        or words[:2] in UNORDERED
        or (len(words) == 1 and words[0].endswith(b"UNSUBSCRIBE"))
    )


def _names_a_user(step: Step) -> bool:
    return any(b"AUTH" in command or command[0] == b"auth" for command in step.commands)


def _kills_a_key(step: Step) -> bool:
    return any(PAST in command for command in step.commands)


def shrunk(arena: Arena, found: Difference) -> Difference:
    """The same trouble, or another one, with as few steps and commands as can be found."""
    tries = TRIES_OF_A_SHRINK
    size = max(1, len(found.steps) // 2)
    while size and not found.silent:
        at = 0
        while at < len(found.steps) and tries:
            tries -= 1
            smaller = arena.run(found.steps[:at] + found.steps[at + size :])
            if smaller is None:
                at += size
            else:
                found = smaller
        size //= 2
    for at in reversed(range(len(found.steps))):
        for which in reversed(range(len(found.steps[at].commands))):
            step = found.steps[at]
            if len(step.commands) < 2 or step.raw or not tries or found.silent:
                continue
            tries -= 1
            commands = step.commands[:which] + step.commands[which + 1 :]
            fewer = Step(step.connection, commands, inline=step.inline, last=step.last)
            smaller = arena.run([*found.steps[:at], fewer, *found.steps[at + 1 :]])
            if smaller is not None and len(smaller.steps) == len(found.steps):
                found = smaller
    return found


@contextlib.contextmanager
def arena(folder: Path, workers: int = 1) -> Iterator[Arena]:
    """Fresh servers."""
    with start_redis(folder) as redis, start_workers(folder, workers) as headgate:
        both = Arena(redis, headgate, workers)
        try:
            yield both
        finally:
            both.close()


def check(both: Arena, seed: int) -> str | None:
    """Play one seed; what went wrong, shrunk, if anything did."""
    try:
        found = both.run(draw(seed))
    except Silence as silence:
        raise Silence(f"seed {seed}: {silence}") from silence
    return None if found is None else f"seed {seed}:\n{shrunk(both, found)}"


def main() -> int:
    parser = seed_options(__doc__)
    parser.add_argument("--workers", type=int, default=1, help="processes of the router")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, arena(Path(folder), options.workers) as both:
        return play_seeds(options, lambda seed: check(both, seed), lambda: both.steps)


if __name__ == "__main__":
    sys.exit(main())

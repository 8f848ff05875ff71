"""Connections of both ways with the same sockets, blobs and reads: the same comes of both.

What a pump asks its connection to decide is written down here, with what the clients got.
"""

from __future__ import annotations

import random
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headgate.compiled import PARTS
from headgate.core.channels.audience import Framing, PureFrameGroup, PureLine
from headgate.core.channels.publish_pass import PurePass
from headgate.server.net.pump import (
    HELD_BYTES,
    READABLE,
    PurePump,
    pure_deliver_all,
    pure_let_go_all,
    pure_serve,
)

if TYPE_CHECKING:
    from headgate.server.net.poller import Poller

BLOBS = (b"", b"a", b"b" * 100, b"c" * (HELD_BYTES - 1), b"d" * (HELD_BYTES + 1))
STATES = ("open", "open", "open", "full", "writing", "ending", "holding", "gone", "by pipe")
MORE = READABLE | 16
"""Ready to be read, and the client hung up."""


class PumpWay(NamedTuple):
    """The types and the functions of one way: of pumps, and of the passes whose blobs they send."""

    pump: Any
    serve: Any
    let_go_all: Any
    deliver_all: Any
    log: Any
    group: Any
    line: Any


PURE = PumpWay(
    PurePump, pure_serve, pure_let_go_all, pure_deliver_all, PurePass, PureFrameGroup, PureLine
)
BARE = Framing(lambda size: b"", b"")


def way_of(module: ModuleType) -> PumpWay:
    passes = import_module(PARTS[0])
    functions = module.Pump, module.serve, module.let_go_all, module.deliver_all
    return PumpWay(*functions, passes.Pass, passes.FrameGroup, passes.Line)


def passed(way: PumpWay, frames: Sequence[tuple[tuple[int, ...], bytes]]) -> Iterator[Any]:
    """The blobs of a pass in which these sessions hear these frames."""
    groups = {sessions: way.group(BARE, sessions) for sessions, _ in frames}
    log, lines = way.log(1, 1000, 1 << 30), defaultdict[int, Any](way.line)
    for sessions, frame in frames:
        log.add((groups[sessions],), frame)
    found: Iterator[Any] = log.blobs(lines.__getitem__)
    return found


class QuietPoller:
    """Whether everybody is being served, and who answers after it."""

    def __init__(self) -> None:
        self.is_serving = False
        self.answering: list[Any] = []


class Refusing(list[tuple[Any, ...]]):
    """What a connection was told, if it copes with nothing."""

    def append(self, told: tuple[Any, ...]) -> None:
        raise RuntimeError(told[0])


class Heard:
    """The reader of a connection. What begins with a b it cannot cope with."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def receive(self, data: bytes) -> None:
        self.received.append(data)
        if data.startswith(b"b"):
            raise ValueError(data[:1])


def written_down(base: Any) -> Any:  # noqa: ANN401
    """A pump that writes down what it would have decided."""

    class Written(base):  # type: ignore[misc]
        __slots__ = ("told",)

        def _keep(self, blob: bytes, messages: int) -> None:
            self.told.append(("keep", blob, messages))

        def _fell_short(self, blob: bytes, sent: int, messages: int) -> None:
            self._is_writing = True  # type: ignore[misc]
            self.told.append(("fell short", blob, sent, messages))

        def _broken(self, error: OSError) -> None:
            self.told.append(("broken", error.errno))

        def _unreadable(self, error: OSError) -> None:
            self.told.append(("unreadable", error.errno))

        def _hung_up(self) -> None:
            self.told.append(("hung up",))

        def _unusual(self, events: int) -> None:
            self.told.append(("unusual", events))

        def _failed(self, error: Exception) -> None:
            self.told.append(("failed", repr(error)))

        def _look_again(self) -> None:
            self.told.append(("look again",))

        _ready_by_pipe = PurePump._ready
        _deliver_by_pipe = PurePump.deliver

    return Written


@contextmanager
def pump(
    way: PumpWay, poller: QuietPoller | Poller, state: str
) -> Iterator[tuple[Any, socket.socket]]:
    """A pump in some state, and its client."""
    ours, client = socket.socketpair()
    with ours, client:
        ours.setblocking(False)
        client.setblocking(False)
        made = written_down(way.pump)()
        made.told = []
        made.reader = Heard()
        made.fileno, made._recv, made._send = ours.fileno(), ours.recv, ours.send
        made._poller, made._held = poller, b"held" if state == "holding" else b""
        made.bytes_in = made.bytes_out = 0
        made.heard = 0.0
        made._is_direct = state != "by pipe"
        made._is_reading = state != "writing"
        made._is_writing = state == "writing"
        made._is_ending = state == "ending"
        if state == "full":
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            fill(ours)
        if state == "gone":
            client.close()
        yield made, client


def fill(ours: socket.socket) -> None:
    """Send until not a byte is taken."""
    for size in (65536, 1024, 1):
        try:
            while True:
                ours.send(b"." * size)
        except BlockingIOError:
            pass


def came(client: socket.socket) -> bytes:
    """What a client got, but what filled its socket."""
    parts = []
    try:
        while client.fileno() >= 0 and (part := client.recv(1 << 20)):
            parts.append(part)
    except BlockingIOError:
        pass
    return b"".join(parts).replace(b".", b"")


def deliveries(way: PumpWay, draw: random.Random, *, is_of_pass: bool = False) -> object:
    """Blobs for drawn connections, or frames that each hears, and what came of them."""
    with ExitStack() as stack:
        poller, strange = QuietPoller(), list[tuple[bytes, int]]()
        made = [
            stack.enter_context(pump(way, poller, draw.choice(STATES)))
            for _ in range(draw.choice((1, 2, 2, 3, 5, 40)))
        ]
        calls: dict[int, Any] = {place: each.deliver for place, (each, _) in enumerate(made)}
        calls[100] = lambda blob, messages: strange.append((blob, messages))
        everybody = [*calls, 200]
        blobs = []
        for _ in range(draw.randint(0, 6)):
            sessions = draw.sample(everybody, draw.randint(0, len(everybody)))
            blobs.append((draw.choice(BLOBS), tuple(sessions), draw.randint(0, 3)))
        given = iter(blobs)
        if is_of_pass:
            given = passed(way, [(sessions, blob) for blob, sessions, _ in blobs])
        rest = way.deliver_all(given, calls, draw.choice((0, 5, 60, 1000)))
        return rest, strange, [seen(each, client) for each, client in made]


def frames(way: PumpWay, draw: random.Random) -> object:
    return deliveries(way, draw, is_of_pass=True)


def answers(way: PumpWay, draw: random.Random) -> object:
    """Answers and messages in turns, while everybody is served and while not."""
    with ExitStack() as stack:
        poller, failed = QuietPoller(), list[str]()
        made = [
            stack.enter_context(pump(way, poller, draw.choice(STATES)))
            for _ in range(draw.choice((1, 1, 2, 4)))
        ]
        for _ in range(draw.randint(1, 8) * len(made)):
            one, _ = draw.choice(made)
            poller.is_serving = draw.random() < 0.7
            if draw.random() < 0.7:
                one.write(draw.choice(BLOBS))
            else:
                one.deliver(draw.choice(BLOBS), 1)
            if draw.random() < 0.2:
                one._let_go()
        for one, _ in made:
            if draw.random() < 0.1:
                one.told = Refusing(one.told)
        places = {id(one): place for place, (one, _) in enumerate(made)}
        order = [places[id(each)] for each in poller.answering]
        way.let_go_all(poller.answering, lambda error: failed.append(repr(error)))
        return order, failed, [(one._held, seen(one, client)) for one, client in made]


def reads(way: PumpWay, draw: random.Random) -> object:
    """What clients sent, found by the poller."""
    with ExitStack() as stack:
        poller, failed = QuietPoller(), list[str]()
        made = [
            stack.enter_context(pump(way, poller, draw.choice(STATES)))
            for _ in range(draw.randint(1, 5))
        ]
        calls: dict[int, Any] = {place: each._ready for place, (each, _) in enumerate(made)}

        def close_others(events: int) -> None:
            calls.clear()
            raise RuntimeError(events)

        if draw.random() < 0.2:
            calls[draw.randrange(6)] = close_others
        for _, client in made:
            if client.fileno() >= 0 and draw.random() < 0.8:
                client.send(draw.choice((b"a", b"b", b"c" * 70_000))[: 1 << 16])
            if draw.random() < 0.2:
                client.close()
        found = [(draw.randrange(7), draw.choice((READABLE, READABLE, MORE))) for _ in range(6)]
        has_others = way.serve(found, calls, lambda error: failed.append(repr(error)))
        return has_others, failed, [seen(each, client) for each, client in made]


def seen(one: Any, client: socket.socket) -> object:  # noqa: ANN401
    return one.told, one.bytes_in, one.bytes_out, one.heard > 0, one.reader.received, came(client)


def check_pumps(seed: int, other: ModuleType) -> None:
    """One scene of each kind, played in both ways."""
    for scene in (deliveries, frames, answers, reads):
        pure, found = (scene(way, random.Random(seed)) for way in (PURE, way_of(other)))
        assert pure == found, (scene.__name__, pure, found)
    if seed % 20 == 0:
        for is_of_pass in (False, True):
            check_long(400_000, 1 + seed % 7, way_of(other), is_of_pass=is_of_pass)


def check_long(size: int, others: int, way: PumpWay, *, is_of_pass: bool = False) -> None:
    """A blob that no socket takes whole: the client has what was taken, and the rest is told, also
    where somebody asks for something of the one while the other is told."""
    with ExitStack() as stack:
        poller = QuietPoller()
        made = [stack.enter_context(pump(way, poller, "open")) for _ in range(others)]
        pumps = [each for each, _ in made]

        class Meddling(list[tuple[Any, ...]]):
            def append(self, told: tuple[Any, ...]) -> None:
                super().append(told)
                if told[0] == "fell short" and told[1] == blob:
                    for each in pumps:
                        each.deliver(b"next", 1)

        for each in pumps:
            each.told = Meddling()
        blob = b"x" * size
        calls = {place: each.deliver for place, each in enumerate(pumps)}
        blobs = [(blob, tuple(calls), 1)]
        # Who hears something else as well, if only nothing, is sent frames of its own.
        given = passed(way, [(blobs[0][1], blob), ((0, 99), b"")]) if is_of_pass else blobs
        assert not way.deliver_all(given, calls, 1000)
        for each, client in made:
            got, stream = came(client), b""
            assert len(got) == each.bytes_out
            for told in each.told:
                stream += told[1][cast("int", told[2]) :] if told[0] == "fell short" else told[1]
            whole = (got + stream).replace(b"next", b"")
            assert whole == blob
            assert (got + stream).count(b"next") == others
            # Nothing came between the parts of the blob.
            assert blob in got + stream

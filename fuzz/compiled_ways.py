"""Throws reads and passes at what is compiled and at its twin in Python: the same comes of both.

``python -m fuzz.compiled_ways SECONDS [SEED]`` draws inputs itself, so that it runs with what the
address sanitizer is built into (see docs/design/compiled.md). The tests play some of them without.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from fuzz.compiled_pumps import check_pumps
from fuzz.compiled_sessions import check_sessions
from headgate.compiled import PARTS
from headgate.core.channels.audience import Framing, PureFrameGroup, PureHeard, PureLine
from headgate.core.channels.publish_pass import PureOpenPass, PurePass
from headgate.core.model.ids import SessionId
from headgate.wire.resp.codec import publish_runs, requests

MOST_FRAMES, MOST_BYTES = 12, 300
NAMES = (b"a", b"b", b"news", b"", b"\r\n", b"$1")
PIECES = (
    b"*3\r\n$7\r\nPUBLISH\r\n$", b"*3\r\n$7\r\npublish\r\n$", b"*1\r\n$4\r\nPING\r\n", b"PING\r\n",
    b"*0\r\n", b"*-1\r\n", b"$", b"*", b"\r\n", b"1\r\n", b"00", b"999999999", b"9999999999",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n", b"$4096\r\n", b"*1000000\r\n",
)  # fmt: skip


class Ways(NamedTuple):
    """The types of one way."""

    line: Any
    group: Any
    heard: Any
    log: Any
    open: Any


PURE = Ways(PureLine, PureFrameGroup, PureHeard, PurePass, PureOpenPass)


def compiled() -> tuple[Ways, ModuleType, ModuleType] | None:
    """The compiled types and functions, whatever runs; nothing if they are not built."""
    try:
        passes, pumps, _, codec = map(import_module, PARTS)
    except ImportError:
        return None
    types = passes.Line, passes.FrameGroup, passes.Heard, passes.Pass, passes.OpenPass
    return Ways(*types), codec, pumps


class World:
    """Audiences, passes and what sessions were given, made with the types of one way."""

    def __init__(self, ways: Ways, audiences: Sequence[Sequence[tuple[Framing, tuple[int, ...]]]]):
        self._ways = ways
        self._lines: dict[int, Any] = {}
        self.known: dict[bytes, Any] = {}
        for name, groups in zip(NAMES, audiences, strict=False):
            heard = self.known[name] = ways.heard()
            heard.moment = 1
            heard.receivers = sum(len(sessions) for _, sessions in groups)
            heard.frame_groups = tuple(ways.group(framing, each) for framing, each in groups)
        self.log = ways.log(1, MOST_FRAMES, MOST_BYTES)
        self.passes = [self.log]
        self.counts: list[int] = []

    def publish(self, names: list[bytes], bodies: list[bytes]) -> int:
        at = 0
        while at < len(names):
            at = self.log.run(self.known, 1, names, bodies, at, self.counts)
            if not self._next():
                break
        return at

    def add(self, name: bytes, bodies: list[bytes]) -> None:
        groups = self.known[name].frame_groups
        if len(groups) == 1 and bodies:
            self.log.add_all(groups[0], bodies)
        else:
            for body in bodies:
                self.log.add(groups, body)
        self._next()

    def _next(self) -> bool:
        """Begin another pass if this one is full."""
        if not self.log.is_full:
            return False
        self.log = self._ways.log(self.log.number + 1, MOST_FRAMES, MOST_BYTES)
        self.passes.append(self.log)
        return True

    def line(self, session: SessionId) -> Any:  # noqa: ANN401
        return self._lines.setdefault(session, self._ways.line())

    def blobs(self) -> Iterator[tuple[bytes, tuple[int, ...], int]]:
        for each in self.passes:
            if len(each):
                yield from each.blobs(self.line)

    def counted(self) -> list[tuple[int, int]]:
        return [(heard.published, heard.size) for heard in self.known.values()]


def opened(world: World, ways: Ways) -> Any:  # noqa: ANN401
    """A pass of a world that is open, as channels have one."""

    class Open(ways.open):  # type: ignore[misc, name-defined]
        def _line(self, session: SessionId) -> Any:  # noqa: ANN401
            return world.line(session)

        def _all_blobs(self, passes: Sequence[Any]) -> Iterator[Any]:
            return chain.from_iterable(each.blobs(self._line) for each in passes)

    made = Open()
    made._pass, made._passes, made.is_unwritten = world.log, [], False
    return made


def framings(draw: random.Random) -> Framing:
    head = draw.choice((b"", b"*3\r\n", b"%", b"x" * 40))
    lead, tail = head.replace(b"%", b"%%") + b"$%d\r\n", draw.choice((b"", b"\r\n"))
    return Framing(lead.__mod__, tail, draw.choice((None, (head + b"$", b"\r\n"))))


Audiences: TypeAlias = list[list[tuple[Framing, tuple[int, ...]]]]


def drawn_audiences(draw: random.Random) -> Audiences:
    some = [tuple(draw.sample(range(1, 8), draw.randint(1, 4))) for _ in range(draw.randint(1, 4))]
    return [
        [(framings(draw), draw.choice(some)) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
        for _ in NAMES[: draw.randint(1, len(NAMES))]
    ]


def check_open(draw: random.Random, other: Ways) -> None:
    """What is published to an open pass, which is ended and taken: the same blobs each time."""
    audiences = drawn_audiences(draw)
    worlds = [World(ways, audiences) for ways in (PURE, other)]
    both = [opened(world, ways) for world, ways in zip(worlds, (PURE, other), strict=True)]
    for _ in range(draw.randint(1, 12)):
        what = draw.random()
        name, body = draw.choice(list(worlds[0].known)), draw.randbytes(draw.choice((0, 9, 200)))
        taken: list[Any] = []
        for world, each in zip(worlds, both, strict=True):
            if what < 0.6:
                each._pass.add(world.known[name].frame_groups, body)
            elif what < 0.8:
                each.flush()
            else:
                taken.append(list(each.take()))
        assert taken[:1] == taken[1:]
        first, second = (
            (each.is_unwritten, each._pass.number, each._pass.is_full, list(map(len, each._passes)))
            for each in both
        )
        assert first == second


def check_passes(draw: random.Random, other: Ways) -> None:
    """The same audiences and messages: the same blobs to the same sessions, and counts."""
    audiences = drawn_audiences(draw)
    worlds = [World(ways, audiences) for ways in (PURE, other)]
    for _ in range(draw.randint(1, 6)):
        names = draw.choices(NAMES, k=draw.randint(0, 8))
        bodies = [draw.randbytes(draw.choice((0, 1, 9, 10, 99, 100))) for _ in names]
        ends = {world.publish(names, bodies) for world in worlds}
        assert len(ends) == 1
        if draw.random() < 0.5:
            name = draw.choice(list(worlds[0].known))
            for world in worlds:
                world.add(name, bodies)
        if draw.random() < 0.2:
            for world in worlds:
                for each in world.passes[:-1]:  # the last one is open
                    each.prepare(world.line)
    assert worlds[0].counts == worlds[1].counts
    assert worlds[0].counted() == worlds[1].counted()
    pure, found = (list(world.blobs()) for world in worlds)
    assert pure == found
    assert not any(map(len, worlds[1]._lines.values()))


def read(draw: random.Random) -> bytes:
    """Something that a client may send: requests, pieces of them, and bytes changed."""
    parts = []
    for _ in range(draw.randint(0, 12)):
        if draw.random() < 0.7:
            words = [draw.choice((b"PUBLISH", b"publish", b"SET")), draw.choice(NAMES)]
            words.append(draw.randbytes(draw.choice((0, 1, 10, 600))))
            parts.append(b"*3\r\n" + b"".join([b"$%d\r\n%b\r\n" % (len(w), w) for w in words]))
        else:
            parts.append(draw.choice(PIECES))
    data = bytearray(b"".join(parts))
    for _ in range(draw.choice((0, 0, 1, 3))):
        at = draw.randint(0, len(data))
        data[at : at + draw.randint(0, 3)] = draw.choice((b"", b"\r", b"\n", b"0", b"$", b"*"))
    return bytes(data[: draw.randint(0, len(data))] if draw.random() < 0.4 else data)


def check_read(data: bytes, codec: ModuleType) -> None:
    """What was taken is what the exact way finds in the same bytes, and stops where that does."""
    from fuzz.resp_requests import outcome
    from headgate.core.model.limits import Limits

    expected = outcome([data[at : at + 1] for at in range(len(data))], Limits(), is_trusted=True)
    whole, end = codec.pipeline(data)
    assert whole == expected.requests[: len(whole)]
    assert outcome([data[:end]], Limits(), is_trusted=True) == (whole, None, 0)
    runs = [codec.run_in(data)]
    if data.startswith(publish_runs.STARTS):
        runs.append(publish_runs.pure_run_in(data))  # which may end earlier
    for names, bodies, end in filter(None, runs):
        pairs = list(map(list, zip(names, bodies, strict=True)))
        assert pairs == [each[1:] for each in expected.requests[: len(pairs)]]
        taken = outcome([data[:end]], Limits(), is_trusted=True)
        assert (len(taken.requests), taken.held) == (len(pairs), 0)
    few, end = requests.pure_short(data)
    if end:
        assert (few, end) == codec.pipeline(data)


def check(seed: int) -> None:
    """One input of each kind."""
    both = compiled()
    assert both is not None, "build it first: python hatch_build.py"
    ways, codec, pumps = both
    draw = random.Random(seed)
    check_passes(draw, ways)
    check_open(draw, ways)
    check_read(read(draw), codec)
    check_pumps(seed, pumps)
    check_sessions(seed)


def main(seconds: float, seed: int) -> None:
    end, first = time.monotonic() + seconds, seed
    while time.monotonic() < end:
        try:
            check(seed)
        except BaseException:
            print(f"seed {seed}")
            raise
        seed += 1
    print(f"{seed - first} inputs, from seed {first}: both ways agree")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)

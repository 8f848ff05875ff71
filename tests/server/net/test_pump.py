"""What connections do nearly always: both ways write and read the same, and tell the same."""

from __future__ import annotations

import os
import socket

import pytest

from fuzz.compiled_pumps import PURE, PumpWay, check_long, check_pumps, way_of
from fuzz.compiled_ways import compiled
from headgate.server.net.poller import READ
from headgate.server.net.pump import READABLE

BOTH = compiled()
EACH = [pytest.param(PURE, id="pure")]
if BOTH is not None:
    EACH.append(pytest.param(way_of(BOTH[2]), id="compiled"))
needs_compiled = pytest.mark.skipif(BOTH is None, reason="there was no compiler")


@needs_compiled
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_both_ways_send_and_tell_the_same(first: int) -> None:
    assert BOTH is not None
    for seed in range(first, first + 100):
        check_pumps(seed, BOTH[2])


@pytest.mark.parametrize("way", EACH)
@pytest.mark.parametrize("sessions", [1, 3, 40])
@pytest.mark.parametrize("is_of_pass", [False, True])
def test_nothing_comes_between_the_parts_of_a_blob(
    way: PumpWay, sessions: int, is_of_pass: bool
) -> None:
    """Not even where somebody who is told that one socket is full writes to all the others."""
    check_long(3_000_000, sessions, way, is_of_pass=is_of_pass)


@pytest.mark.parametrize("way", EACH)
def test_after_so_many_deliveries_the_rest_is_given_back(way: PumpWay) -> None:
    got: list[tuple[bytes, int]] = []
    blobs = [(b"a", (1, 2), 1), (b"b", (1, 9), 2), (b"c", (1,), 3)]
    calls = {n: lambda blob, messages: got.append((blob, messages)) for n in (1, 2)}
    assert way.deliver_all(iter(blobs), calls, 4) == [(b"c", (1,), 3)]
    assert got == [(b"a", 1), (b"a", 1), (b"b", 2)]


@pytest.mark.parametrize("way", EACH)
def test_a_blob_is_written_before_the_next_is_made(way: PumpWay) -> None:
    steps: list[str] = []

    def blobs() -> object:
        for name in "ab":
            steps.append(f"made {name}")
            yield name.encode(), (1,), 1

    way.deliver_all(blobs(), {1: lambda blob, messages: steps.append("written")}, 10)
    assert steps == ["made a", "written", "made b", "written"]


@pytest.mark.parametrize("way", EACH)
def test_a_mistake_while_delivering_ends_it(way: PumpWay) -> None:
    def fail(blob: bytes, messages: int) -> None:
        raise RuntimeError(blob)

    with pytest.raises(RuntimeError):
        way.deliver_all([(b"a", (1,), 1)], {1: fail}, 10)


@needs_compiled
def test_what_is_compiled_checks_what_it_is_given() -> None:
    assert BOTH is not None
    way = way_of(BOTH[2])
    one = way.pump()
    for wrong in (
        lambda: way.deliver_all([(b"a", [1], 1)], {}, 10),
        lambda: way.deliver_all([b"a"], {}, 10),
        lambda: way.deliver_all([], [], 10),
        lambda: way.serve((), {}, print),
        lambda: way.serve([1], {}, print),
        lambda: way.let_go_all((), print),
        lambda: way.let_go_all([1], print),
        lambda: way.let_go_all([]),
        lambda: one.write("text"),
        lambda: one.deliver(b"a"),
        lambda: one._ready("read"),
        lambda: setattr(one, "_held", "text"),
    ):
        with pytest.raises(TypeError):
            wrong()


@needs_compiled
def test_who_is_gone_before_all_are_sent_to_has_no_socket_any_more() -> None:
    """Its number may be that of another socket by then."""
    assert BOTH is not None
    way = way_of(BOTH[2])
    pairs = [socket.socketpair() for _ in range(3)]
    pumps = [way.pump(), way.pump()]
    for pump, (left, _) in zip(pumps, pairs, strict=False):
        pump.fileno, pump._is_direct, pump._is_ending = left.fileno(), True, False
        pump._is_writing = False

    def end(blob: bytes, messages: int) -> None:
        pumps[0]._is_ending = True
        os.dup2(pairs[2][0].fileno(), pumps[0].fileno)

    calls = {1: pumps[0].deliver, 2: end, 3: pumps[1].deliver}
    assert way.deliver_all([(b"a", (1, 2, 3), 1)], calls, 10) == []
    for _, right in pairs:
        right.setblocking(False)
    assert pairs[1][1].recv(9) == b"a"
    with pytest.raises(BlockingIOError):
        pairs[2][1].recv(9)
    for pair in pairs:
        for end_of in pair:
            end_of.close()


def test_both_mean_the_same_by_readable() -> None:
    assert READABLE == READ

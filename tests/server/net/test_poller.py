"""Many sockets, found and served in one step of the loop."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from threading import Thread
from typing import TypeAlias

import pytest

from fuzz.compiled_pumps import PURE, came, pump
from headgate.server.net.poller import AT_ONCE, GONE, READ, WRITE, Loop, Poller, poller_of
from headgate.server.net.pump import Pump

Run: TypeAlias = Callable[[Callable[[Poller], Awaitable[None]]], None]


@pytest.fixture(params=[Loop, asyncio.new_event_loop], ids=["our loop", "any loop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a scene with the poller of a loop."""
    with asyncio.Runner(loop_factory=request.param) as runner:

        def play(scene: Callable[[Poller], Awaitable[None]]) -> None:
            async def played() -> None:
                async with asyncio.timeout(10):
                    await scene(poller_of(asyncio.get_running_loop()))

            runner.run(played())

        yield play


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(3)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


def test_sockets_are_told_what_they_are_ready_for(
    run: Run, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    ours, theirs = pairs[0]

    async def scene(poller: Poller) -> None:
        told: asyncio.Queue[int] = asyncio.Queue()
        poller.add(ours.fileno(), told.put_nowait, READ | WRITE)
        assert await told.get() == WRITE
        poller.change(ours.fileno(), READ)
        while not told.empty():
            told.get_nowait()
        theirs.send(b"x")
        assert await told.get() & READ
        ours.recv(1)
        poller.change(ours.fileno(), 0)
        while not told.empty():
            told.get_nowait()
        theirs.close()
        assert await told.get() & GONE
        poller.remove(ours.fileno())

    run(scene)


def test_a_socket_that_another_one_closed_is_not_called(
    run: Run, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    called: list[int] = []

    async def scene(poller: Poller) -> None:
        def ready(number: int) -> None:
            called.append(number)
            for other, (ours, _) in enumerate(pairs):
                if other != number and ours.fileno() >= 0:
                    poller.remove(ours.fileno())
                    ours.close()

        for number, (ours, theirs) in enumerate(pairs):
            theirs.send(b"x")
            poller.add(ours.fileno(), lambda events, n=number: ready(n), READ)  # type: ignore[misc]
        await asyncio.sleep(0.02)

    run(scene)
    assert len(set(called)) == 1


def test_what_is_to_be_done_soon_is_done_when_all_were_served(
    run: Run, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    order: list[str] = []

    async def scene(poller: Poller) -> None:
        def ready(ours: socket.socket) -> None:
            ours.recv(10)
            order.append("served")
            poller.soon(lambda: order.append("soon"))

        for ours, theirs in pairs:
            theirs.send(b"x")
            poller.add(ours.fileno(), lambda events, s=ours: ready(s), READ)  # type: ignore[misc]
        await asyncio.sleep(0.02)
        assert order == ["served"] * 3 + ["soon"] * 3
        poller.soon(lambda: order.append("outside"))
        assert order[-1] == "soon"
        await asyncio.sleep(0)
        assert order[-1] == "outside"

    run(scene)


def test_answers_are_sent_before_what_is_to_be_done_soon(
    run: Run, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    """What was published is written soon: a publisher that has its answer may go on meanwhile."""

    async def scene(poller: Poller) -> None:
        seen: asyncio.Queue[bytes] = asyncio.Queue()
        with pump(PURE._replace(pump=Pump), poller, "open") as (publisher, client):

            def ready(events: int) -> None:
                pairs[0][0].recv(10)
                poller.soon(lambda: seen.put_nowait(came(client)))
                publisher.write(b":1")

            pairs[0][1].send(b"x")
            poller.add(pairs[0][0].fileno(), ready, READ)
            assert await seen.get() == b":1"
            poller.remove(pairs[0][0].fileno())

    run(scene)


def test_what_is_to_be_done_later_is_done_in_the_next_pass(
    run: Run, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    """From wherever it was asked for, and though nothing else happens."""
    order: list[str] = []

    async def scene(poller: Poller) -> None:
        done = asyncio.Event()

        def again(left: int) -> None:
            order.append(f"later {left}")
            if left:
                poller.later(lambda: again(left - 1))
                asyncio.get_running_loop().call_soon(order.append, "others")
            else:
                done.set()

        def ready(events: int) -> None:
            pairs[0][0].recv(10)
            poller.later(lambda: again(2))
            asyncio.get_running_loop().call_soon(order.append, "others")

        pairs[0][1].send(b"x")
        poller.add(pairs[0][0].fileno(), ready, READ)
        await done.wait()

    run(scene)
    assert [each for each in order if each != "others"] == ["later 2", "later 1", "later 0"]
    if order[0] == "others":  # our loop: all others come in between
        assert order == ["others", "later 2", "others", "later 1", "others", "later 0"]


def test_a_mistake_costs_nobody_else_anything(
    run: Run,
    pairs: list[tuple[socket.socket, socket.socket]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    served: list[int] = []

    async def scene(poller: Poller) -> None:
        def ready(ours: socket.socket) -> None:
            served.append(len(ours.recv(10)))
            poller.soon(lambda: served.append(1 // 0))
            poller.soon(lambda: served.append(0))
            raise RuntimeError("a mistake of ours")

        for ours, theirs in pairs:
            theirs.send(b"x")
            poller.add(ours.fileno(), lambda events, s=ours: ready(s), READ)  # type: ignore[misc]
        await asyncio.sleep(0.02)

    run(scene)
    assert served == [1, 1, 1, 0, 0, 0]
    assert [record.getMessage() for record in caplog.records] == [
        *["serving a connection failed"] * 3,
        *["what was to be done soon failed"] * 3,
    ]


def test_the_rest_of_the_loop_gets_its_turn_beside_a_busy_socket(
    run: Run, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    """Timers, other threads, processes and asyncio's own connections, while one is always ready."""
    ours, theirs = pairs[0]

    async def scene(poller: Poller) -> None:
        theirs.send(b"x")
        served = [0]

        def ready(events: int) -> None:
            served[0] += 1

        poller.add(ours.fileno(), ready, READ)
        await asyncio.sleep(0.01)
        assert await asyncio.to_thread(time.thread_time) >= 0
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print('done')", stdout=asyncio.subprocess.PIPE
        )
        told, _ = await process.communicate()
        assert told == b"done\n"
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
        server.close()
        before = served[0]
        await asyncio.sleep(0.01)
        assert served[0] > before
        poller.remove(ours.fileno())

    run(scene)


def test_a_crowd_is_served_in_several_passes() -> None:
    """Others have their turn in between, and everybody is served in the end."""
    poller = Poller()
    crowd = [socket.socketpair() for _ in range(2 * AT_ONCE + 1)]
    gone: list[int] = []

    def leave(ours: socket.socket) -> Callable[[int], None]:
        def left(events: int) -> None:
            gone.append(ours.fileno())
            poller.remove(ours.fileno())

        return left

    for ours, theirs in crowd:
        poller.add(ours.fileno(), leave(ours), READ)
        theirs.close()
    passes = []
    while len(gone) < len(crowd):
        before = len(gone)
        poller.select(1)
        passes.append(len(gone) - before)
    assert passes == [AT_ONCE, AT_ONCE, 1]
    for ours, _ in crowd:
        ours.close()
    poller.close()


def test_another_thread_wakes_a_loop_that_waits() -> None:
    """A call from a thread is made at once, each time, and the loop waits again after it."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        for number in range(3):
            waiting: asyncio.Future[int] = loop.create_future()
            thread = Thread(
                target=lambda: loop.call_soon_threadsafe(waiting.set_result, number)  # noqa: B023
            )
            loop.call_soon(thread.start)
            async with asyncio.timeout(10):
                assert await waiting == number

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(scene())


def test_a_thread_that_is_too_late_for_a_loop_rings_nobody() -> None:
    """Its number may be another file's by now, which is not written to."""
    loop = Loop()
    loop.close()
    first, second = socket.socketpair()
    with first, second:
        loop._write_to_self()
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.recv(1)

"""Many who come and go, and the signals of whoever runs the router."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable

from tests.hold.case import Case, Play, Stage
from tests.hold.clients import described, local_addresses, request, reset_on_close
from tests.hold.router import CONFIG, FEEDS

SIZES = (1000, 2000, 4000, 8000, 16_000)
PER_ADDRESS = 4000
IP_BIND_ADDRESS_NO_PORT = 24
"""linux/in.h; Python has no name for it."""
WAIT_SECONDS = 60.0


class Crowd:
    """Sockets without a loop: there may be many."""

    def __init__(self, place: tuple[str, int], count: int) -> None:
        self._place = place
        self._addresses = local_addresses(count, PER_ADDRESS)
        self._sockets: list[socket.socket] = []

    def come(self, said: bytes, answer: int) -> int:
        """Connect one after another, and say this; how many were answered so many bytes."""
        for address in self._addresses:
            connected = socket.socket()
            self._sockets.append(connected)
            connected.settimeout(WAIT_SECONDS)
            connected.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connected.bind((address, 0))
            try:
                connected.connect(self._place)
                connected.sendall(said)
            except OSError:
                continue
        return sum(self._is_answered(connected, answer) for connected in self._sockets)

    def _is_answered(self, connected: socket.socket, count: int) -> bool:
        try:
            while count > 0:
                data = connected.recv(65536)
                if not data:
                    return False
                count -= len(data)
        except OSError:
            return False
        return True

    def vanish(self) -> None:
        for connected in self._sockets:
            reset_on_close(connected)
            connected.close()
        self._sockets.clear()


SUBSCRIBE = request(b"SUBSCRIBE", b"crowd")
SUBSCRIBED = len(b"*3\r\n$9\r\nsubscribe\r\n$5\r\ncrowd\r\n:1\r\n")


def subscribers(count: int) -> Play:
    """So many subscribe to one channel; they vanish together when it is over."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        crowd = Crowd(stage.router.address("resp"), count)
        stage.on_leaving(crowd.vanish)
        yield
        came = await asyncio.to_thread(crowd.come, SUBSCRIBE, SUBSCRIBED)
        stage.outcome = f"{came:,} came"

    return play


def to_crowd(count: int, *arguments: bytes, times: int = 1) -> Play:
    """A command of one, while so many hear one channel."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        crowd = Crowd(stage.router.address("resp"), count)
        stage.on_leaving(crowd.vanish)
        client = await stage.resp()
        await asyncio.to_thread(crowd.come, SUBSCRIBE, SUBSCRIBED)
        yield
        stage.outcome = await client.outcome(request(*arguments) * times, times)

    return play


def silent(wire: str, count: int, said: bytes = b"") -> Play:
    """Connections that come, say this and go."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        yield
        crowd = Crowd(stage.router.address(wire), count)
        stage.on_leaving(crowd.vanish)
        await asyncio.to_thread(crowd.come, said, 0)
        crowd.vanish()
        stage.outcome = "gone"

    return play


def domains(count: int, first: int = 0) -> str:
    return (
        CONFIG
        + FEEDS
        + "".join(
            f'[domains.d{n}]\nmode = "fanout"\napps = ["a", "b"]\n'
            f'subscriptions = {{ a = ["x == {n}"] }}\n'
            for n in range(first, first + count)
        )
    )


def reloaded(config: Callable[[], str], times: int = 1) -> Play:
    """SIGHUP; several times with the same file."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        router = stage.router
        router.configure(config())
        for _ in range(times - 1):
            await _hang_up(stage)
        yield
        stage.outcome = await _hang_up(stage)

    return play


async def _hang_up(stage: Stage) -> str:
    before = stage.router.log.count('"configuration ')
    stage.router.signal(signal.SIGHUP)
    end = time.monotonic() + WAIT_SECONDS
    while stage.router.log.count('"configuration ') == before:
        assert time.monotonic() < end, stage.router.log[-2000:]
        await asyncio.sleep(0.05)
    return "not reloaded" if '"configuration not reloaded' in stage.router.log else "reloaded"


def looked(count: int) -> Play:
    """CLIENT LIST among a crowd."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        crowd = Crowd(stage.router.address("resp"), count)
        stage.on_leaving(crowd.vanish)
        client = await stage.resp()
        await asyncio.to_thread(crowd.come, SUBSCRIBE, SUBSCRIBED)
        yield
        stage.outcome = described(await client.ask(b"CLIENT", b"LIST"))

    return play


def case(
    name: str, sent: str, play: Play, *covers: str, quick: bool = False, crowd: bool = False
) -> Case:
    return Case("all", name, sent, play, frozenset(covers), crowd, is_quick=quick)


CASES = [
    *(
        Case(
            "all",
            f"a crowd of {size:,}",
            "subscribes to one channel, and vanishes",
            subscribers(size),
            is_crowd=True,
            crowd=size,
            is_quick=size == SIZES[0],
        )
        for size in SIZES
    ),
    case(
        "PUBLISH to a crowd",
        "1 message to 10,000 subscribers",
        to_crowd(10_000, b"PUBLISH", b"crowd", b"x"),
    ),
    case(
        "PUBLISH in a row to a crowd",
        "100 messages to 2,000 subscribers",
        to_crowd(2000, b"PUBLISH", b"crowd", b"x", times=100),
    ),
    case(
        "CLIENT KILL of a crowd",
        "5,000 subscribers",
        to_crowd(5000, b"CLIENT", b"KILL", b"TYPE", b"pubsub"),
    ),
    case("CLIENT LIST of a crowd", "5,000 subscribers", looked(5000)),
    *(
        case(
            f"connections without a word, {wire}",
            "2,000 that come and go",
            silent(wire, 2000),
            crowd=True,
        )
        for wire in ("resp", "bmq", "smp", "admin")
    ),
    case(
        "halves of requests, resp",
        "2,000 that come and go",
        silent("resp", 2000, b"*2\r\n$3\r\nGE"),
        crowd=True,
    ),
    case(
        "halves of hellos, bmq",
        "2,000 that come and go",
        silent("bmq", 2000, b"\0\0\1\0\x41"),
        crowd=True,
    ),
    case("SIGHUP", "1,000 domains more", reloaded(lambda: domains(1000)), quick=True),
    case("SIGHUP, nothing changed", "1,000 domains", reloaded(lambda: domains(1000), 2)),
    case(
        "SIGHUP, a wrong file",
        "1,000 domains and a mistake",
        reloaded(lambda: domains(1000) + "[domains.x]\nsubscriptions = { '' = ['x = 1'] }\n"),
    ),
]

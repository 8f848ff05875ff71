"""What it costs that somebody looks: the sample of the desk and a scrape, by how much the router
has; and a publish with 30 viewers against one without.

    python -m bench.desk            some minutes
    python -m bench.desk --quick    a tenth of the queues, and fewer publishes

A sample and a scrape are made in the router's own thread, so their time is time in which nobody is
served. Each is the median of many, in one process, on a router in memory that does nothing else;
the CPU of it says what is left of that where other programs want the machine too.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.servers import describe, pin_load, router
from headgate.core.commands import Create, Open, Send
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.server.admin.metrics import Metrics
from headgate.server.desk.sampler import Sampler
from headgate.server.router import VERSION, Router
from headgate.server.status import domain_gauges
from headgate.store.memory import MemoryStore
from headgate.testing.rig import Rig

SESSIONS = (58, 10_000)
SHARED = (3, 10_000)
EXCLUSIVE = (0, 1_000_000)
VIEWERS = (0, 10, 32)
SAMPLES = 60
AT_ONCE = 4000
"""Commands of one turn."""
WATCHERS = 30
ROUNDS = 7
PUBLISHES = 4000
SAMPLE_MS_MOST = 2.0
RATIO_MOST = 1.1


@dataclass(frozen=True, slots=True)
class Size:
    """What a router has."""

    sessions: int
    shared: int
    exclusive: int


async def filled(size: Size) -> Router:
    """A router with sessions, shared queues that all have a message, and exclusive queues that all
    have a subscriber."""
    domains = {
        "orders": Domain("orders", Mode.PRIORITY, max_queues=0),
        "smp": Domain("smp", Mode.EXCLUSIVE),
    }
    made = Router(store=MemoryStore(), domains=domains, limits=Limits(sessions=200_000))
    await made.start()
    rig = Rig(store=made.store)
    rig.broker = made.broker
    sessions = [rig.session(f"127.0.0.1:{n} client-{n}") for n in range(size.sessions)]
    producer = rig.session("producer")
    for part in _parts(size.shared):
        names = [QueueId(b"bmq://orders/%d" % n) for n in part]
        rig.do(*(Open(producer, None, q, "orders", read=False, write=True) for q in names))
        rig.do(*(Send(producer, None, q, _message(q)) for q in names))
    for part in _parts(size.exclusive):
        rig.turn([_exclusive(sessions, n) for n in part])
        rig.facts.clear()
        rig.asked.clear()
    for number, session in enumerate(made.broker.sessions):
        if number % 100 == 0:  # some are slow
            session.mailbox.offer(b"", 10_000 + number, 0.0)
    return made


def _exclusive(sessions: list[SessionId], n: int) -> Create:
    return Create(sessions[n % len(sessions)], None, QueueId(b"%24d" % n), "smp", subscribe=True)


def _message(queue: QueueId) -> Message:
    return Message(MessageId(queue[-16:].rjust(16, b"0")), b"body", 0.0, {"kind": "express"})


def _parts(count: int) -> Iterator[range]:
    for first in range(0, count, AT_ONCE):
        yield range(first, min(count, first + AT_ONCE))


async def sampled(size: Size) -> list[str]:
    """Rows of the table: a sample with so many viewers, and a scrape."""
    made = await filled(size)
    metrics = Metrics()
    made.watch(metrics.observe)
    sampler = Sampler(made, metrics, version=VERSION, stage=str, recent=500)
    rows = []
    name = f"{size.sessions:>8,} {size.shared:>8,} {size.exclusive:>11,}"
    streams: list[AsyncIterator[bytes]] = []
    for viewers in VIEWERS:
        while len(streams) < viewers:
            streams.append(sampler.viewers.stream())
            await anext(streams[-1])
        rows.append(f"{name}   sample, {viewers:>2} viewers   {_timed(sampler.sample)}")
    scrape = _timed(lambda: metrics.exposition(made.gauges(), domain_gauges(made.broker.shard)))
    rows.append(f"{name}   /metrics             {scrape}")
    rows.append(f"{name}   gauges               {_timed(made.gauges)}")
    await made.stop()
    return rows


def _timed(work: Callable[[], object]) -> str:
    times, cpu = [], []
    for _ in range(SAMPLES):
        began, used = time.perf_counter(), time.thread_time()
        work()
        cpu.append((time.thread_time() - used) * 1000)
        times.append((time.perf_counter() - began) * 1000)
    median = statistics.median(times)
    verdict = "" if median <= SAMPLE_MS_MOST else f"   above {SAMPLE_MS_MOST:g} ms"
    return f"{median:7.3f} ms   CPU {statistics.median(cpu):7.3f}   most {max(times):7.3f}{verdict}"


# A publish with viewers, and without.


def watched() -> Iterator[str]:
    """The 99th percentile of a publish, with viewers and without, in turns."""
    with router() as server, ExitStack() as stack:
        admin, token = _admin(server.pid)
        heard = stack.enter_context(socket.create_connection(server.address))
        heard.sendall(b"SUBSCRIBE ticks\r\n")
        heard.recv(1000)
        threading.Thread(target=_read_away, args=(heard,), daemon=True).start()
        sender = stack.enter_context(socket.create_connection(server.address))
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _published(sender, PUBLISHES // 4)
        without, with_them = [], []
        for _ in range(ROUNDS):
            without.append(_published(sender, PUBLISHES))
            with viewers(admin, token, WATCHERS):
                with_them.append(_published(sender, PUBLISHES))
    for label, found in (("without viewers", without), (f"with {WATCHERS} viewers", with_them)):
        p50, p99 = (statistics.median(each) for each in zip(*found, strict=True))
        yield f"publish, {label:<16}  p50 {p50:6.3f} ms   p99 {p99:6.3f} ms"
    ratio = statistics.median(p for _, p in with_them) / statistics.median(p for _, p in without)
    verdict = "" if ratio <= RATIO_MOST else f", above {RATIO_MOST:g}"
    yield f"p99 with viewers is {ratio:.2f} times that without{verdict}"


def _admin(pid: int) -> tuple[int, str]:
    """The admin port of the router that was started, and its token."""
    line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    folder = Path(line[line.index(b"--config") + 1].decode()).parent
    ready = json.loads((folder / "ready.json").read_text())["admin"]
    return ready["port"], Path(ready["token_file"]).read_text().strip()


def _read_away(heard: socket.socket) -> None:
    try:
        while heard.recv(65_536):
            pass
    except OSError:
        return


def _published(sender: socket.socket, count: int) -> tuple[float, float]:
    """Milliseconds of the median and the 99th percentile, one publish after another."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        sender.sendall(b"PUBLISH ticks 0123456789abcdef\r\n")
        sender.recv(100)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


@contextmanager
def viewers(port: int, token: str, count: int) -> Iterator[None]:
    """So many live streams that are read."""
    with ExitStack() as stack:
        for _ in range(count):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/api/v1/live", headers={"authorization": f"Bearer {token}"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            stack.callback(connection.close)
            threading.Thread(target=_read_events, args=(response,), daemon=True).start()
        yield


def _read_events(response: http.client.HTTPResponse) -> None:
    try:
        while response.readline():
            pass
    except (OSError, ValueError, AttributeError):
        return  # it was closed


def main() -> None:
    global PUBLISHES
    is_quick = "--quick" in sys.argv[1:]
    print(describe())
    exclusive = (0, 100_000) if is_quick else EXCLUSIVE
    sizes = [Size(s, q, 0) for s in SESSIONS for q in SHARED]
    sizes += [Size(SESSIONS[-1], SHARED[-1], n) for n in exclusive if n]
    print("sessions   shared   exclusive")
    for size in sizes:
        for row in asyncio.run(sampled(size)):
            print(row, flush=True)
    pin_load()
    if is_quick:
        PUBLISHES //= 4
    for row in watched():
        print(row)


if __name__ == "__main__":
    main()

"""Several workers against one process: what the hop between them costs.

    make bench-workers
    python -m bench.workers --quick
    python -m bench.workers --smp

CPU of all processes of a router for each delivery, and for each SMP cycle (SEND, MSG, ACK with both
OKs), with two workers over one process, in turns and in one run. Publishers and subscribers of a
channel are spread evenly, so of a single subscriber every other one is on another worker. What the
processes take when nobody is connected is measured first and subtracted: on a busy machine a load
makes few deliveries a second, and timers are no part of them. The load is a process of its own: on
two cores it takes its part of them, so cycles a second are computed from the CPU of the worker that
is the busiest, as if each had a core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.queues_load import pairs
from bench.queues_store import Crowd, Place, place
from bench.redis_load import command, connect, delivery, publish, read_exactly, subscribe
from bench.servers import Server, _running, _wait, describe, headgate_program

BODY = b"x" * 64
PIPELINE = 100
CHANNELS = 8
START_SECONDS = 1.0
IDLE_SECONDS = 2.0
"""Seconds in which a router is idle, once the work of its start is done."""


@dataclass(frozen=True, slots=True)
class Router:
    """A router of so many workers. With one, the process itself is the worker."""

    process: Server
    workers: list[Server]
    ready: dict[str, dict[str, str | int]]
    idle_us: list[float]
    """CPU of each worker a second while nobody is connected."""

    def meter(self) -> Meter:
        return Meter(self)

    @property
    def resp(self) -> tuple[str, int]:
        found = self.ready["resp"]
        return str(found["host"]), int(found["port"])


def cpu_us(workers: Sequence[Server]) -> list[float]:
    """Of each worker, since its start."""
    return [each.cpu_ns() / 1e3 for each in workers]


class Meter:
    """The CPU of a router for its load since a moment."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._before, self._began = cpu_us(router.workers), time.perf_counter()

    def spent_us(self) -> list[float]:
        """Of each worker, without what it takes when it is idle."""
        seconds = time.perf_counter() - self._began
        now = cpu_us(self._router.workers)
        each = zip(self._before, now, self._router.idle_us, strict=True)
        return [after - before - idle * seconds for before, after, idle in each]


@contextmanager
def running(count: int, found: Place) -> Iterator[Router]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, ready = folder / "headgate.toml", folder / "ready.json"
        config.write_text(
            f"directory = {json.dumps(str(found.folder))}\n"
            f"[store]\nurl = {json.dumps(found.url)}\n"
            "[journal]\nenabled = false\n[admin]\nport = 0\n"
            '[log]\nlevel = "warning"\n'
            f"[workers]\ncount = {count}\n[listen.resp]\nport = 0\n[listen.smp]\nport = 0\n"
        )
        line = [str(headgate_program()), "serve", "--config", str(config)]
        line += ["--ready-file", str(ready)]
        with _running(line, folder) as process:
            _wait(process, folder, ready.exists)
            server = Server("headgate", process.pid, "", 0)
            workers = [server]
            if count > 1:
                workers = [Server("worker", each, "", 0) for each in children(process.pid)]
                for number, worker in enumerate(workers):
                    os.sched_setaffinity(worker.pid, {number % (os.cpu_count() or 1)})
            time.sleep(START_SECONDS)
            before = cpu_us(workers)
            time.sleep(IDLE_SECONDS)
            idle = zip(before, cpu_us(workers), strict=True)
            idle_us = [(after - since) / IDLE_SECONDS for since, after in idle]
            yield Router(server, workers, json.loads(ready.read_text()), idle_us)


def children(process: int) -> list[int]:
    """The processes that one started, in the order of their start."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return sorted(map(int, text.split()))


class Crew:
    """Publishers, each with a channel, and the subscribers of it, spread over the workers."""

    def __init__(self, stack: ExitStack, router: Router, fan_out: int) -> None:
        self.channels = [b"channel-%d" % number for number in range(CHANNELS)]
        workers = len(router.workers)

        def client(worker: int) -> socket.socket:
            spare: list[socket.socket] = []
            while True:
                found = stack.enter_context(connect(router.resp))
                found.sendall(command(b"CLIENT", b"ID"))
                id = int(found.recv(64)[1:-2])
                if id % workers == worker % workers:
                    for each in spare:
                        each.close()
                    return found
                spare.append(found)

        self.publishers = [client(number) for number in range(CHANNELS)]
        self.subscribers = [
            [client(number // 2 + each) for each in range(fan_out)] for number in range(CHANNELS)
        ]
        for channel, members in zip(self.channels, self.subscribers, strict=True):
            for member in members:
                subscribe(member, channel)

    def round(self, fan_out: int, pipeline: int = PIPELINE) -> int:
        """Publish on each channel once; return how many deliveries that were."""
        answers = (b":%d\r\n" % fan_out) * pipeline
        for channel, publisher in zip(self.channels, self.publishers, strict=True):
            publisher.sendall(publish(channel, BODY) * pipeline)
        for publisher in self.publishers:
            assert read_exactly(publisher, len(answers)) == answers, "everybody is counted"
        for channel, members in zip(self.channels, self.subscribers, strict=True):
            size = len(delivery(channel, BODY)) * pipeline
            for member in members:
                read_exactly(member, size)
        return fan_out * pipeline * CHANNELS


def deliveries(router: Router, fan_out: int, seconds: float) -> float:
    """CPU of all workers for each delivery."""
    with ExitStack() as stack:
        crew = Crew(stack, router, fan_out)
        crew.round(fan_out)
        meter, end, count = router.meter(), time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            count += crew.round(fan_out)
        return sum(meter.spent_us()) / count


def alone(router: Router, seconds: float) -> float:
    """CPU of all workers for a PUBLISH that nobody hears, one by one."""
    with ExitStack() as stack:
        client = stack.enter_context(connect(router.resp))
        blob = publish(b"nobody", BODY)
        meter, end, count = router.meter(), time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            for _ in range(100):
                client.sendall(blob)
                assert read_exactly(client, 4) == b":0\r\n"
            count += 100
        return sum(meter.spent_us()) / count


async def cycle(router: Router, crowd: Crowd, clients: int, seconds: float) -> list[float]:
    """CPU of each worker for each SMP cycle."""
    smp = router.ready["smp"]
    fingerprint = urlsafe_b64decode(str(smp["fingerprint"]) + "=")
    address = str(smp["host"]), int(smp["port"]), fingerprint
    async with pairs(address, crowd, clients) as found:
        await asyncio.gather(*(p.cycle_until(time.perf_counter() + seconds / 4) for p in found))
        meter, cycled = router.meter(), sum(p.cycles for p in found)
        await asyncio.gather(*(p.cycle_until(time.perf_counter() + seconds) for p in found))
        count = sum(p.cycles for p in found) - cycled
        return [each / count for each in meter.spent_us()]


def main(arguments: Sequence[str]) -> None:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m bench.workers", None, __doc__, formatter_class=shown
    )
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--smp", action="store_true", help="only SMP cycles")
    parser.add_argument("--clients", type=int, default=50, metavar="N", help="of the SMP cycles")
    options = parser.parse_args(arguments)
    rounds, seconds = (1, 1.0) if options.quick else (3, 4.0)
    print(describe())
    print(f"{'what':<58} {'one':>8} {'two':>8} {'ratio':>7}  goal")
    crowd = Crowd("pairs", options.clients)
    ones: dict[str, list[float]] = {}
    twos: dict[str, list[float]] = {}
    cycles = Cycles([], [])
    with place("sqlite", crowd) as found:
        for _ in range(rounds):
            for count, into in ((1, ones), (2, twos)):
                with running(count, found) as router:
                    if not options.smp:
                        measure_channels(router, into, seconds)
                    cycles.add(asyncio.run(cycle(router, crowd, options.clients, seconds)))
    for (name, one), goal in zip(ones.items(), (1.6, 1.3, 1.1, 1.05), strict=False):
        print_row(name, one, twos[name], f"at most {goal}")
    cycles.print()


@dataclass(frozen=True, slots=True)
class Cycles:
    """CPU of SMP cycles in each round: of one process, and of each of two workers."""

    one: list[float]
    two: list[list[float]]

    def add(self, each: list[float]) -> None:
        if len(each) == 1:
            self.one.append(each[0])
        else:
            self.two.append(each)

    def print(self) -> None:
        print_row(
            "us an SMP cycle, all workers", self.one, list(map(sum, self.two)), "at most 1.15"
        )
        # Worker 0 has a third of the clients, and of the other cycles a part.
        parts = [(home - one / 3) * 1.5 for one, (home, _) in zip(self.one, self.two, strict=True)]
        name = "us of worker 0, an SMP cycle of another worker's clients"
        print_row(name, self.one, parts, "at most 0.35")
        first, second = statistics.median(self.one), statistics.median(map(max, self.two))
        name = "SMP cycles/s, if each worker has a core"
        rates = f"{1e6 / first:>8.0f} {1e6 / second:>8.0f} {first / second:>7.2f}"
        print(f"{name:<58} {rates}  at least 1.5")


def measure_channels(router: Router, into: dict[str, list[float]], seconds: float) -> None:
    for fan_out in (1, 10, 100):
        name = f"us a delivery, fan-out {fan_out}"
        into.setdefault(name, []).append(deliveries(router, fan_out, seconds))
    name = "us a PUBLISH one by one that nobody hears"
    into.setdefault(name, []).append(alone(router, seconds))


def print_row(name: str, one: list[float], two: list[float], goal: str) -> None:
    a, b = statistics.median(one), statistics.median(two)
    print(f"{name:<58} {a:>8.2f} {b:>8.2f} {b / a:>7.2f}  {goal}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

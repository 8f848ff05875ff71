"""Durable streams against redis-server with `appendfsync always`: rate, and CPU of the server.

    make bench-streams                           all cells, three minutes
    python -m bench.streams --quick              one short round of each: a look, not a result
    python -m bench.streams --cells cycle        some; an unknown name prints the list

Both have every entry on the disk before they answer: redis-server with `appendfsync always`, the
router with SQLite, `synchronous = FULL`. Redis also writes down what is pending, which the router
does not. Within a round they take turns on fresh servers, and a ratio is the median of the ratios
of the rounds. Entries have a field with a number, and a body of 100 bytes.

cycle       XADD, XREADGROUP COUNT 1, XACK, one after the other
flow-100    100 XADDs in one write, one XREADGROUP, one XACK of 100
flow-1000   the same by 1,000
add-100     XADDs alone, 100 in one write
predicates  100 consumers that want one entry in 100 each, which are added by 100 or by 1,000: here
            one group with an expression for each, in Redis a group for each, which reads
            everything; filtering at the client is not counted
fed-100     PUBLISH on a channel that feeds a domain, 100 in one write, against our own add-100
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import hiredis

from bench.servers import Server, Start, describe, pin_load, redis_server, router

DOMAINS = """
[domains.bench]
mode = "fanout"
apps = ["g"]
streams = ["s"]
max_messages = 1000000
[[domains.bench.feeds]]
channels = ["fed"]
queue = "fed"
channel_property = ""
"""
BODY = b"x" * 100
CONSUMERS = 100
GROUPS = [b"g%d" % n for n in range(CONSUMERS)]
WARM = 1000
"""Messages that are sent before it counts."""


class Load:
    """One connection that writes commands and counts their answers."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(server.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def ask(self, *commands: bytes) -> list[Any]:
        """Write commands in one go, and read all answers."""
        self.socket.sendall(b"".join(commands))
        found: list[Any] = []
        while len(found) < len(commands):
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self.socket.recv(1 << 20))
            elif isinstance(reply, hiredis.ReplyError):
                raise SystemExit(f"refused: {reply}")
            else:
                found.append(reply)
        return found


Work: TypeAlias = Callable[[Load, int], None]
"""Sends so many messages through."""


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def add(number: int) -> bytes:
    return command(b"XADD", b"s", b"*", b"n", b"%d" % number, b"data", BODY)


def read(count: int, group: bytes = b"g", consumer: bytes = b"c") -> bytes:
    return command(
        b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", b"%d" % count, b"STREAMS", b"s", b">"
    )


def cycle(load: Load, messages: int) -> None:
    one, fetch = add(1), read(1)
    for _ in range(messages):
        [id] = load.ask(one)
        load.ask(fetch)
        load.ask(command(b"XACK", b"s", b"g", id))


def flow(by: int) -> Work:
    adds, fetch = [add(n) for n in range(by)], read(by)

    def run(load: Load, messages: int) -> None:
        for _ in range(messages // by):
            ids = load.ask(*adds)
            load.ask(fetch)
            [done] = load.ask(command(b"XACK", b"s", b"g", *ids))
            assert done == by, done

    return run


def adding(load: Load, messages: int) -> None:
    adds = [add(n) for n in range(100)]
    for _ in range(messages // 100):
        load.ask(*adds)


def feeding(load: Load, messages: int) -> None:
    published = [command(b"PUBLISH", b"fed", BODY)] * 100
    for _ in range(messages // 100):
        assert load.ask(*published) == [1] * 100


def by_predicate(by: int) -> Work:
    adds = [add(n % CONSUMERS) for n in range(by)]
    reads = [read(by, b"g", b"c%d?where=n == %d" % (n, n)) for n in range(CONSUMERS)]

    def run(load: Load, messages: int) -> None:
        for _ in range(messages // by):
            load.ask(*adds)
            left = by
            while left:  # a turn may give fewer than there are
                acks = []
                for found in load.ask(*reads):
                    if found is not None:
                        ids = [id for id, _ in found[0][1]]
                        left -= len(ids)
                        acks.append(command(b"XACK", b"s", b"g", *ids))
                load.ask(*acks)

    return run


def by_group(by: int) -> Work:
    adds = [add(n % CONSUMERS) for n in range(by)]
    reads = [read(by, group) for group in GROUPS]

    def run(load: Load, messages: int) -> None:
        for _ in range(messages // by):
            ids = load.ask(*adds)
            load.ask(*reads)
            load.ask(*[command(b"XACK", b"s", group, *ids) for group in GROUPS])

    return run


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured, of how many messages, and what it should come to."""

    name: str
    ours: Work
    theirs: Work
    messages: int
    rate: float
    """At least so much of the other's rate."""
    cpu: float
    """At most so many times its CPU."""
    is_own: bool = False
    """Whether the other is the router as well."""
    groups: Sequence[bytes] = (b"g",)
    """Of the stream in Redis."""


CELLS = (
    Cell("cycle", cycle, cycle, 1500, 0.85, 2.5),
    Cell("flow-100", flow(100), flow(100), 20_000, 0.35, 6.0),
    Cell("flow-1000", flow(1000), flow(1000), 20_000, 0.15, 10.0),
    Cell("add-100", adding, adding, 20_000, 0.35, 6.0),
    Cell("predicates-100", by_predicate(100), by_group(100), 5_000, 3.0, 0.5, groups=GROUPS),
    Cell("predicates-1k", by_predicate(1000), by_group(1000), 5_000, 3.0, 0.5, groups=GROUPS),
    Cell("fed-100", feeding, adding, 20_000, 0.9, 1.1, is_own=True),
)


def measure(start: Start, run: Work, messages: int, groups: Sequence[bytes]) -> tuple[float, float]:
    """Messages a second, and microseconds of the server's CPU for each."""
    with start() as server:
        load = Load(server)
        with closing(load.socket):
            if server.name == "redis":
                for group in groups:
                    load.ask(command(b"XGROUP", b"CREATE", b"s", group, b"$", b"MKSTREAM"))
            run(load, WARM)
            cpu, began = server.cpu_ns(), time.perf_counter()
            run(load, messages)
            seconds = time.perf_counter() - began
            return messages / seconds, (server.cpu_ns() - cpu) / messages / 1000


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cells", default="")
    options = parser.parse_args(arguments)
    wanted = options.cells.split(",") if options.cells else [cell.name for cell in CELLS]
    known = {cell.name: cell for cell in CELLS}
    if not {*wanted} <= known.keys():
        raise SystemExit(f"cells are {', '.join(known)}")
    rounds, scale = (1, 4) if options.quick else (5, 1)
    pin_load()
    print(describe())
    print(f"medians of {rounds} rounds; redis with appendfsync always, headgate with SQLite FULL\n")
    print(f"{'cell':15}{'redis/s':>10}{'ours/s':>10}{'ratio':>7}{'goal':>6}", end="")
    print(f"{'redis us':>11}{'ours us':>9}{'ratio':>7}{'goal':>6}")

    def ours() -> Any:  # noqa: ANN401
        return router(store="sqlite:queues.db", domains=DOMAINS)

    def redis() -> Any:  # noqa: ANN401
        return redis_server("--appendonly", "yes", "--appendfsync", "always")

    for name in wanted:
        cell = known[name]
        messages = max(cell.messages // scale // 1000, 1) * 1000
        pairs = []
        for _ in range(rounds):
            other = measure(ours if cell.is_own else redis, cell.theirs, messages, cell.groups)
            pairs.append((other, measure(ours, cell.ours, messages, ())))
        rate = statistics.median(mine[0] / other[0] for other, mine in pairs)
        cpu = statistics.median(mine[1] / other[1] for other, mine in pairs)
        (rate_a, cpu_a), (rate_b, cpu_b) = (
            tuple(statistics.median(pair[side][n] for pair in pairs) for n in (0, 1))
            for side in (0, 1)
        )
        print(f"{name:15}{rate_a:10,.0f}{rate_b:10,.0f}{rate:7.2f}{cell.rate:6.2f}", end="")
        print(f"{cpu_a:11.1f}{cpu_b:9.1f}{cpu:7.2f}{cell.cpu:6.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

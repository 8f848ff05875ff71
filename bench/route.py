"""Routing by properties, end to end: the BMQP wire against RabbitMQ's headers exchange.

    make bench-route                                all of it, about nine minutes
    python -m bench.route --quick                   one short round of each: a look, not a result
    python -m bench.route --sizes 100,10000         some numbers of subscriptions
    python -m bench.route --only routing|durable    one part
    python -m bench.route --against PROGRAM         another checkout's `headgate` in its place

Routing: one queue and N subscriptions `customer == "cI"`, held by a few consumers that confirm
what they get; for RabbitMQ a headers exchange and N bindings `customer = cI, x-match = all` to a
queue for each consumer. A message has two properties and 100 bytes, and one subscription wants
it. Nothing is stored: the router has its store in memory, and posts without acks; RabbitMQ has
transient queues and messages, without confirms. Beside it what both promise when they store:
SQLite with acks, persistent messages with confirms; and what N does to neither: a direct
exchange, which compares a key instead of properties.

CPU is the server's, of all its threads and children, until it rests again. The router is warmed
up until it forgets ids of messages as fast as it learns new ones; RabbitMQ knows none. Each server
is a fresh process on one core, the load is another on the other. Within a round the servers take
turns; numbers are medians of the rounds, ratios the medians of the ratios of the rounds. After the
rounds one more is looked at: every message was where it was wanted, once.

Durable: one queue is filled while nobody consumes, one message at a time and with many under way,
each acked when it is stored; then one consumer takes and confirms it all.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import truediv
from pathlib import Path

from bench.queues_store import sync_us
from bench.rabbit import RabbitBacklog, RabbitRoute, rabbit_server, version
from bench.route_load import (
    BATCH,
    DOMAIN,
    UNCONFIRMED_MAX,
    WINDOW,
    Backlog,
    BmqBacklog,
    BmqRoute,
    Route,
    Shape,
    Work,
)
from bench.servers import Server, Start, _running, _wait, describe, headgate_program, pin_load
from headgate.core.model.limits import Limits

SHAPES = (
    Shape(1, 1),
    Shape(100, 10),
    Shape(1_000, 10),
    Shape(10_000, 10),
    Shape(10_000, 100),
)
FLAT_FROM, FLAT_TO = SHAPES[1], SHAPES[3]
"""Between these the cost of a message may grow by `FLAT_GOAL`."""
FLAT_GOAL = 2.0
PEER_GOAL = 30.0
"""How many times our CPU RabbitMQ takes for a message, at `FLAT_TO`."""

ROUNDS = 3
MESSAGES = 20_000
"""Of a round."""
RABBIT_WORK = 3_000_000
"""Bindings that RabbitMQ may look at in a round: among 10,000 one message takes it 12 ms."""
RABBIT_WARM_UP = 0.25
"""Of a round."""
WARM_UP = Limits().remembered_ids + MESSAGES
"""Messages until a queue of ours has as many ids as it remembers."""
QUICK_SHARE = 0.1
CHECKED = 300
"""Messages that are looked at."""
REST_SECONDS, REST_SHARE, REST_TRIES = 0.05, 0.05, 40
"""A server rests when it takes less than this share of a core for so long."""
LOAD_BUSY = 0.85
"""Of a core, from where on the load may be slower than the server."""

POSTED, POSTED_SINGLY = 20_000, 1_000
UNDER_WAY = 1_000
MB = 1 << 20


# Servers.


@contextmanager
def router(
    store: str, program: Path | None = None, domain: str = 'mode = "priority"\n'
) -> Iterator[Server]:
    """A fresh router with the BMQP wire and without a journal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, ready = folder / "headgate.toml", folder / "ready.json"
        config.write_text(
            f"directory = {json.dumps(name)}\n"
            f"[store]\nurl = {json.dumps(store.format(folder=folder))}\n"
            "[journal]\nenabled = false\n"
            "[admin]\nport = 0\n"
            '[log]\nlevel = "warning"\n'
            "[listen.bmq]\nport = 0\nheartbeats_missed = 1000\n"
            f"[domains.{DOMAIN}]\n{domain}"
        )
        program = program or headgate_program()
        line = [str(program), "serve", "--config", str(config), "--ready-file", str(ready)]
        with _running(line, folder) as process:
            _wait(process, folder, ready.exists)
            address = json.loads(ready.read_text())["bmq"]
            yield Server("headgate", process.pid, address["host"], address["port"])


MEMORY, SQLITE = "memory:", "sqlite:{folder}/headgate.db"


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to route."""

    name: str
    start: Start
    connect: Callable[[Server, Shape], Route]
    shapes: Sequence[Shape] = SHAPES
    messages: Callable[[Shape], int] = lambda shape: MESSAGES
    """Of a round."""
    warm_up: Callable[[Shape], int] = lambda shape: WARM_UP


def ours(
    name: str,
    store: str,
    *,
    is_acked: bool,
    together: int = BATCH,
    program: Path | None = None,
) -> Contender:
    def connect(server: Server, shape: Shape) -> Route:
        return BmqRoute(server.address, shape, is_acked=is_acked, together=together)

    shapes = SHAPES if together == BATCH else (FLAT_TO,)
    return Contender(name, partial(router, store, program), connect, shapes=shapes)


def theirs(name: str, *, is_durable: bool, exchange: str = "headers") -> Contender:
    def connect(server: Server, shape: Shape) -> Route:
        return RabbitRoute(server.address, shape, exchange, is_durable=is_durable)

    def messages(shape: Shape) -> int:
        is_keyed = exchange == "direct"
        return MESSAGES if is_keyed else min(MESSAGES, RABBIT_WORK // shape.subscriptions)

    def warm_up(shape: Shape) -> int:
        return round(messages(shape) * RABBIT_WARM_UP)

    shapes = SHAPES if exchange == "headers" else (FLAT_TO,)
    return Contender(name, rabbit_server, connect, shapes, messages, warm_up)


OURS = ours("headgate, memory", MEMORY, is_acked=False)
OURS_STORED = ours("headgate, SQLite, acks", SQLITE, is_acked=True)
OURS_SINGLY = ours("headgate, memory, an event each", MEMORY, is_acked=False, together=1)
THEIRS = theirs("rabbitmq, transient", is_durable=False)
THEIRS_STORED = theirs("rabbitmq, persistent, confirms", is_durable=True)
THEIRS_BY_KEY = theirs("rabbitmq, transient, direct", is_durable=False, exchange="direct")
# Who takes longest to set up comes first: a router expects to hear from its clients meanwhile.
CONTENDERS = (THEIRS_STORED, THEIRS, THEIRS_BY_KEY, OURS_STORED, OURS, OURS_SINGLY)
PAIRS = ((THEIRS, OURS), (THEIRS_STORED, OURS_STORED), (THEIRS, OURS_STORED))
"""Whose costs are set against whose."""


def another(program: Path) -> tuple[Contender, Contender]:
    """Another checkout's router, as ours and as ours that stores."""
    return (
        ours("another, memory", MEMORY, is_acked=False, program=program),
        ours("another, SQLite, acks", SQLITE, is_acked=True, program=program),
    )


# Measuring.


@dataclass(slots=True)
class Measured:
    """The rounds of one contender."""

    messages: int = 0
    setup_s: float = 0.0
    rss: int = 0
    rates: list[float] = field(default_factory=list)
    """Messages a second."""
    cpu: list[float] = field(default_factory=list)
    """Microseconds of the server for a message."""
    load: list[float] = field(default_factory=list)
    """The share of a core that the load took."""

    def add(self, work: Work, cpu_ns: int) -> None:
        self.messages = work.messages
        self.rates.append(work.messages / work.seconds)
        self.cpu.append(cpu_ns / work.messages / 1e3)
        self.load.append(work.load_s / work.seconds)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def timed(server: Server, run: Callable[[], Work], seen: Measured) -> None:
    gc.collect()
    before = rested(server)
    work = run()
    seen.add(work, rested(server) - before)


def rested(server: Server) -> int:
    """The server's CPU once it has nothing more to do: confirms are not answered."""
    seen = server.cpu_ns()
    for _ in range(REST_TRIES):
        time.sleep(REST_SECONDS)
        now = server.cpu_ns()
        if now - seen < REST_SECONDS * REST_SHARE * 1e9:
            return now
        seen = now
    return seen


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    pin_load()
    gc.disable()  # nothing here makes cycles, and a collection would be time of the load
    print(describe())
    if options.against is None:
        print(version())
    print(f"a small write takes {sync_us():.0f} us to be on this disk")
    began = time.monotonic()
    if options.only in (None, "routing"):
        routing(options, began)
    if options.only in (None, "durable"):
        durable(options, began)
    progress(began, "done")


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.route", None, __doc__, formatter_class=shown)
    parser.add_argument("--sizes", metavar="N,...", help="of 1, 100, 1000, 10000")
    parser.add_argument("--only", choices=["routing", "durable"])
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against", type=Path, metavar="PROGRAM")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")] if options.sizes else None
    options.shapes = [s for s in SHAPES if sizes is None or s.subscriptions in sizes]
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    options.share = QUICK_SHARE if options.quick else 1.0
    options.contenders, options.pairs = CONTENDERS, PAIRS
    if options.against is not None:
        plain, stored = another(options.against)
        options.contenders = (stored, plain, OURS_STORED, OURS)
        options.pairs = ((plain, OURS), (stored, OURS_STORED))
    return options


# Routing.


def routing(options: argparse.Namespace, began: float) -> None:
    print(
        f"\nRouting, medians of {options.rounds} rounds: {WINDOW} messages under way, {BATCH}"
        " posted together;\nset up: seconds until all subscribe; load: its share of a core"
    )
    print(
        f"{'subscriptions':>13} {'consumers':>9} {'server':<32} {'a round':>8} {'messages/s':>10}"
        f" {'range':>15} {'CPU us':>9} {'range':>17} {'load':>5} {'set up':>7} {'MB':>5}"
    )
    tables = {}
    for shape in options.shapes:
        progress(began, f"{shape.subscriptions} subscriptions, {shape.consumers} consumers")
        tables[shape] = table = routed(shape, options)
        for name, seen in table.items():
            print_row(shape, name, seen)
    print_verdicts(tables, options.pairs)


def routed(shape: Shape, options: argparse.Namespace) -> dict[str, Measured]:
    with ExitStack() as stack:
        sides = []
        for contender in options.contenders:
            if shape not in contender.shapes:
                continue
            server = stack.enter_context(contender.start())
            started = time.perf_counter()
            route = stack.enter_context(closing(contender.connect(server, shape)))
            seen = Measured(setup_s=time.perf_counter() - started)
            sides.append((contender, server, route, seen))
        for contender, _, route, _ in sides:
            route.prepare(shortened(contender.warm_up(shape), options))
            route.run()
        for turn in range(options.rounds):
            # Who comes first takes turns, too.
            for contender, server, route, seen in sides if turn % 2 else reversed(sides):
                route.prepare(shortened(contender.messages(shape), options))
                timed(server, route.run, seen)
        for _, server, route, seen in sides:
            seen.rss = server.rss()
            route.check(CHECKED)
        return {contender.name: seen for contender, _, _, seen in sides}


def shortened(messages: int, options: argparse.Namespace) -> int:
    share: float = options.share
    return max(BATCH, round(messages * share))


def print_row(shape: Shape, name: str, seen: Measured) -> None:
    load = statistics.median(seen.load)
    note = "  the load may be what limits" if load > LOAD_BUSY else ""
    print(
        f"{shape.subscriptions:>13} {shape.consumers:>9} {name:<32} {seen.messages:>8}"
        f" {seen.rate:>10.0f} {f'{min(seen.rates):.0f} - {max(seen.rates):.0f}':>15}"
        f" {statistics.median(seen.cpu):>9.1f}"
        f" {f'{min(seen.cpu):.1f} - {max(seen.cpu):.1f}':>17} {load:>5.0%} {seen.setup_s:>7.2f}"
        f" {seen.rss / MB:>5.0f}{note}",
        flush=True,
    )


def print_verdicts(
    tables: dict[Shape, dict[str, Measured]], pairs: Sequence[tuple[Contender, Contender]]
) -> None:
    if FLAT_FROM in tables and FLAT_TO in tables:
        print(f"\nfrom {FLAT_FROM.subscriptions} to {FLAT_TO.subscriptions} subscriptions")
        few, many = tables[FLAT_FROM], tables[FLAT_TO]
        for name in few:
            cpu = statistics.median(many[name].cpu) / statistics.median(few[name].cpu)
            slower = few[name].rate / many[name].rate
            verdict = ""
            if name in (OURS.name, OURS_STORED.name):
                verdict = f"  goal {FLAT_GOAL:.0f}: {met(max(cpu, slower) <= FLAT_GOAL)}"
            print(f"  {name:<32} {cpu:>6.2f} x the CPU, {slower:>6.2f} x slower{verdict}")
    print("\nThe other's over ours, CPU for a message and messages a second")
    for shape, table in tables.items():
        for peer, own in pairs:
            a, b = table[peer.name], table[own.name]
            ratios = list(map(truediv, a.cpu, b.cpu))
            ratio = statistics.median(ratios)
            verdict = ""
            if shape == FLAT_TO and pairs is PAIRS:
                verdict = f"  goal {PEER_GOAL:.0f}: {met(ratio >= PEER_GOAL)}"
            print(
                f"  {shape.subscriptions:>6} {shape.consumers:>4}  {peer.name:<30} over"
                f" {own.name:<24} CPU {ratio:>7.2f} ({min(ratios):.2f} - {max(ratios):.2f}),"
                f" rate {statistics.median(map(truediv, a.rates, b.rates)):.4f}{verdict}"
            )


def met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


# Storing.


def durable(options: argparse.Namespace, began: float) -> None:
    posted, singly = shortened(POSTED, options), shortened(POSTED_SINGLY, options)
    warm_ups = 1 if options.quick else -(-WARM_UP // POSTED)
    print(
        f"\nDurable, medians of {options.rounds} rounds; post: until acked; consume: one consumer"
        f" with at most\n{UNCONFIRMED_MAX} unconfirmed"
    )
    print(
        f"{'server':<24} {'what':<32} {'a round':>8} {'messages/s':>10} {'range':>15}"
        f" {'CPU us':>9} {'load':>5}"
    )
    peers: list[tuple[str, Start, Callable[[Server], Backlog]]] = [
        ("headgate, SQLite", partial(router, SQLITE), lambda s: BmqBacklog(s.address)),
        ("rabbitmq, persistent", rabbit_server, lambda s: RabbitBacklog(s.address)),
    ]
    if options.against is not None:
        other = partial(router, SQLITE, options.against)
        peers[1:] = [("another, SQLite", other, lambda s: BmqBacklog(s.address))]
    table: dict[tuple[str, str], Measured] = {}
    with ExitStack() as stack:
        sides = []
        for name, start, connect in peers:
            server = stack.enter_context(start())
            sides.append((name, server, connect(server)))
        for turn in range(-warm_ups, options.rounds):
            progress(began, f"durable, {'warming up' if turn < 0 else f'round {turn + 1}'}")
            for name, server, backlog in sides if turn % 2 else reversed(sides):
                for what, run in (
                    ("post, one at a time", partial(backlog.post, singly, 1)),
                    (f"post, {UNDER_WAY} under way", partial(backlog.post, posted, UNDER_WAY)),
                    ("consume and confirm", partial(backlog.consume, posted + singly)),
                ):
                    seen = table.setdefault((name, what), Measured())
                    timed(server, run, Measured() if turn < 0 else seen)
    for (name, what), seen in table.items():
        load = statistics.median(seen.load)
        note = "  the load may be what limits" if load > LOAD_BUSY else ""
        print(
            f"{name:<24} {what:<32} {seen.messages:>8} {seen.rate:>10.0f}"
            f" {f'{min(seen.rates):.0f} - {max(seen.rates):.0f}':>15}"
            f" {statistics.median(seen.cpu):>9.1f} {load:>5.0%}{note}"
        )


def progress(began: float, text: str) -> None:
    print(f"{time.monotonic() - began:4.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Queues with apps on loads that look like real use, against RabbitMQ: `make bench-bmq-mix`.

    python -m bench.bmq_mix --quick                 one short round of each: a look, not a result
    python -m bench.bmq_mix --cells orders          some; an unknown name prints the list
    python -m bench.bmq_mix --against PROGRAM       another checkout's `headgate` in its place

Each cell is drawn from a seed: properties of three types, bodies log-normal, pipelines of drawn
length, several apps, slow and fast consumers that want regions and kinds. What RabbitMQ has for
it: a topic exchange, which looks at a key that the publisher makes of the properties, and a headers
exchange, which looks at the properties. Rounds in turns, the median of the ratios; after them one
more is looked at: every message came once to each app, to the consumer that wants it.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from operator import truediv
from pathlib import Path

from bench.bmq_mix_load import BmqMix, MixRoute, MixShape, RabbitMix
from bench.queues_store import sync_us
from bench.rabbit import rabbit_server, version
from bench.route import MEMORY, SQLITE, Measured, progress, router, timed
from bench.servers import Server, Start, describe, pin_load

CELLS = (
    # A shop's events, which three departments work on.
    MixShape("orders", apps=3, each=4, regions=12),
    # One kind of workers, many of them, each with a share of the work; larger bodies.
    MixShape("workers", apps=1, each=16, regions=16, body_median=2_000),
    # Everything to everybody, small bodies.
    MixShape("audit", apps=8, each=1, regions=8, body_median=80, body_spread=0.4),
)
ROUNDS = 3
MESSAGES = 12_000
WARM_UP = 4_000
QUICK_SHARE = 0.1
CHECKED = 500


@dataclass(frozen=True, slots=True)
class Side:
    """A way to do it."""

    name: str
    start: Callable[[MixShape], Start]
    connect: Callable[[Server, MixShape], MixRoute]


def ours(name: str, store: str, *, is_acked: bool, program: Path | None = None) -> Side:
    def start(shape: MixShape) -> Start:
        domain = f'mode = "fanout"\napps = {shape.app_names}\n'.replace("'", '"')
        return partial(router, store, program, domain)

    return Side(name, start, lambda s, shape: BmqMix(s.address, shape, is_acked=is_acked))


def theirs(name: str, exchange: str, *, is_durable: bool) -> Side:
    def connect(server: Server, shape: MixShape) -> MixRoute:
        return RabbitMix(server.address, shape, exchange, is_durable=is_durable)

    return Side(name, lambda _: rabbit_server, connect)


OURS = ours("headgate, memory", MEMORY, is_acked=False)
STORED = ours("headgate, SQLite, acks", SQLITE, is_acked=True)
TOPIC = theirs("rabbitmq, topic", "topic", is_durable=False)
HEADERS = theirs("rabbitmq, headers", "headers", is_durable=False)
PERSISTENT = theirs("rabbitmq, headers, persistent", "headers", is_durable=True)
PAIRS = ((TOPIC, OURS), (HEADERS, OURS), (PERSISTENT, STORED))
"""Whose cost is divided by whose: the second by the first."""


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    pin_load()
    gc.disable()  # nothing here makes cycles, and a collection would be time of the load
    print(describe())
    sides: Sequence[Side] = (PERSISTENT, HEADERS, TOPIC, STORED, OURS)
    pairs: Sequence[tuple[Side, Side]] = PAIRS
    if options.against is not None:
        other = ours("another, memory", MEMORY, is_acked=False, program=options.against)
        kept = ours("another, SQLite, acks", SQLITE, is_acked=True, program=options.against)
        sides, pairs = (kept, other, STORED, OURS), ((other, OURS), (kept, STORED))
    else:
        print(version())
    print(f"a small write takes {sync_us():.0f} us to be on this disk")
    began = time.monotonic()
    print(
        f"\nmedians of {options.rounds} rounds; us: CPU of the server for a message, all its"
        " deliveries included"
    )
    print(
        f"{'cell':<8} {'server':<30} {'deliveries':>10} {'messages/s':>10} {'CPU us':>7}"
        f" {'range':>15} {'load':>5} {'MB':>5}"
    )
    for shape in options.cells:
        progress(began, shape.name)
        table = measured(shape, sides, options)
        for name, seen in table.items():
            print(
                f"{shape.name:<8} {name:<30} {shape.apps:>10} {seen.rate:>10.0f}"
                f" {statistics.median(seen.cpu):>7.1f}"
                f" {f'{min(seen.cpu):.1f} - {max(seen.cpu):.1f}':>15}"
                f" {statistics.median(seen.load):>5.0%} {seen.rss >> 20:>5}",
                flush=True,
            )
        for peer, own in pairs:
            a, b = table[peer.name], table[own.name]
            ratios = list(map(truediv, b.cpu, a.cpu))
            print(
                f"{shape.name:<8} {own.name} over {peer.name}:"
                f" CPU {statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f}),"
                f" rate {statistics.median(map(truediv, b.rates, a.rates)):.2f}",
                flush=True,
            )
    progress(began, "done")


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("bench.bmq_mix", None, __doc__, formatter_class=shown)
    known = {shape.name: shape for shape in CELLS}
    parser.add_argument("--cells", metavar="NAME,...")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against", type=Path, metavar="PROGRAM")
    options = parser.parse_args(arguments)
    names = options.cells.split(",") if options.cells else list(known)
    if unknown := set(names) - set(known):
        parser.error(f"no cell {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options.cells = [known[name] for name in names]
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    options.share = QUICK_SHARE if options.quick else 1.0
    return options


def measured(
    shape: MixShape, sides: Sequence[Side], options: argparse.Namespace
) -> dict[str, Measured]:
    with ExitStack() as stack:
        running = []
        for side in sides:
            server = stack.enter_context(side.start(shape)())
            route = stack.enter_context(closing(side.connect(server, shape)))
            running.append((side.name, server, route, Measured()))
        for _, _, route, _ in running:
            route.prepare(round(WARM_UP * options.share))
            route.run()
        for turn in range(options.rounds):
            # Who comes first takes turns, too.
            for _, server, route, seen in running if turn % 2 else reversed(running):
                route.prepare(round(MESSAGES * options.share))
                timed(server, route.run, seen)
        for _, server, route, seen in running:
            seen.rss = server.rss()
            route.check(CHECKED)
        return {name: seen for name, _, _, seen in running}


if __name__ == "__main__":
    main(sys.argv[1:])

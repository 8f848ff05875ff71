"""The router's Redis wire against redis-server: CPU of the server per delivery and per PUBLISH.

    make bench-redis                             all cells, five to ten minutes
    python -m bench.redis --quick                two short rounds of each: a look, not a result
    python -m bench.redis --cells fan-1,fan-10   some; an unknown name prints the list
    python -m bench.redis --control              redis-server on both sides: the noise alone
    python -m bench.redis --against PROGRAM      another checkout's `headgate` in Redis's place

For each cell both servers are started anew, since Redis 7.0 does not shrink its pattern table
and would pay for patterns of an earlier cell. Within a round they take turns, and a ratio is
the median of the ratios of the rounds, which cancels what the machine did meanwhile. A ratio
below 1 is a win; from ten times on it is written as 1/10. After the rounds a slow one compares
contents and order.

Batches are shared only by messages that arrive together: the ratios of a pipelined publisher
say nothing about one that waits for each answer, so both are here.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from operator import truediv
from pathlib import Path

from bench.redis_load import FanOut, Latency, Patterns, Scene, Shape
from bench.servers import Server, Start, describe, pin_load, redis_server, router

ROUNDS = 5
QUICK_ROUNDS = 2
QUICK_SHARE = 0.25
WARM_UP_ROUNDS = 1
PATTERN_PUBLISHES = 8_190
"""In one round. Audiences of 8,192 channels are remembered, and then counted and forgotten at once:
with as many new channels that happens once in each round, not in every second one."""
REDIS_PATTERN_WORK = 2_000_000
"""Patterns that Redis may ask in one round: at 100,000 one PUBLISH takes it 12 ms."""


@dataclass(frozen=True, slots=True)
class Cell:
    name: str
    unit: str
    make: Callable[[Server, float], Scene]
    """Connect to a server, for rounds of this share of the full size."""
    goal: float | None = None
    """The most that we may take of what Redis takes."""
    beyond: float | None = None
    by_wall: bool = False
    """Whether time is compared, not CPU."""
    p99_goal: float | None = None
    """The same of the slowest hundredth of the operations, where each is timed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One server's rounds of a cell, microseconds per operation."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)


def fan_out(
    name: str, shape: Shape, goal: float | None = None, beyond: float | None = None
) -> Cell:
    unit = "delivery" if shape.subscribers else "PUBLISH"

    def make(server: Server, share: float) -> Scene:
        least = shape.depth * shape.publishers
        messages = max(least, int(shape.messages * share) // shape.depth * shape.depth)
        return FanOut(server.address, replace(shape, messages=messages))

    return Cell(name, unit, make, goal, beyond)


def matching(size: int, name: str, repeated: bool, goal: float) -> Cell:
    def make(server: Server, share: float) -> Scene:
        publishes = int(PATTERN_PUBLISHES * share)
        if server.name == "redis" and size:
            publishes = min(publishes, REDIS_PATTERN_WORK // size)
        return Patterns(server.address, size, publishes, repeated=repeated)

    return Cell(f"patterns-{name}-{'repeated' if repeated else 'distinct'}", "PUBLISH", make, goal)


CELLS = (
    fan_out("fan-1", Shape(subscribers=1, depth=100, messages=150_000), 1.6, 1.0),
    fan_out("fan-10", Shape(subscribers=10, depth=100, messages=60_000), 1.0, 0.6),
    fan_out("fan-100", Shape(subscribers=100, depth=100, messages=15_000), 0.5, 0.35),
    fan_out("fan-1000", Shape(subscribers=1000, depth=100, messages=2_000), 0.5, 0.35),
    fan_out("single-50-clients", Shape(subscribers=0, publishers=50, messages=30_000), 1.6, 1.0),
    fan_out("single-fan-1", Shape(subscribers=1, messages=12_000), 1.6, 1.0),
    fan_out("single-fan-100", Shape(subscribers=100, messages=1_500), 1.6, 1.0),
    fan_out("channels-10", Shape(subscribers=100, channels=10, depth=100, messages=50_000), 1.5),
    fan_out("kilobyte-100", Shape(subscribers=100, depth=100, body_bytes=1024, messages=3_000)),
    Cell(
        "latency", "p50", lambda server, share: Latency(server.address, int(10_000 * share)),
        1.5, by_wall=True, p99_goal=1.3,
    ),
    *(
        matching(size, name, repeated, goals[repeated])
        for size, name, goals in (
            (0, "0", (1.5, 1.5)),
            (10, "10", (1.5, 1.5)),
            (100, "100", (1.5, 1.5)),
            (1_000, "1k", (1 / 2.5, 1 / 2.5)),
            (10_000, "10k", (1 / 35, 1 / 80)),
            (100_000, "100k", (1 / 400, 1 / 400)),
        )
        for repeated in (False, True)
    ),
)  # fmt: skip


def main(
    arguments: Sequence[str],
    cells: Sequence[Cell] = CELLS,
    name: str = "bench.redis",
    about: str | None = __doc__,
) -> None:
    options = parsed(arguments, cells, name, about)
    pin_load()
    gc.disable()  # nothing here makes cycles, and a collection would be time of the load
    print(describe())
    print(f"\nus per operation, medians of {options.rounds} rounds; a ratio is second over first")
    first = "other" if options.against else "Redis"
    second = "control" if options.control else "headgate"
    head = f"{'cell':<25} {'per':<8} {'CPU ' + first:>10} {second:>9} {'ratio':>6} {'range':>13}"
    print(f"{head} {'goal':>6}  {'':<7} {'wall ' + first:>10} {second:>9} {'ratio':>6}")
    began, lost = time.monotonic(), []
    for cell in options.cells:
        progress(f"{time.monotonic() - began:4.0f} s  {cell.name}")
        redis, ours = measured(cell, options)
        ratio = print_row(cell, redis, ours)
        if ratio > 1 or ratio > (cell.goal or ratio):
            lost.append((ratio, cell))
    if not options.against:
        print_losses(lost)
    progress(f"{time.monotonic() - began:4.0f} s  done")


def parsed(
    arguments: Sequence[str], cells: Sequence[Cell], name: str, about: str | None
) -> argparse.Namespace:
    known = {cell.name: cell for cell in cells}
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"python -m {name}", None, about, formatter_class=shown)
    parser.add_argument("--cells", metavar="NAME,...", help=" ".join(known))
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--against", type=Path, metavar="PROGRAM")
    options = parser.parse_args(arguments)
    names = options.cells.split(",") if options.cells else list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no such cell: {', '.join(unknown)}; there are {', '.join(known)}")
    options.cells = [known[name] for name in names]
    if options.against:  # the goals are about Redis
        options.cells = [
            replace(cell, goal=None, beyond=None, p99_goal=None) for cell in options.cells
        ]
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    return options


def measured(cell: Cell, options: argparse.Namespace) -> tuple[Measured, Measured]:
    """The rounds of a cell: Redis's and ours."""
    share = QUICK_SHARE if options.quick else 1.0
    with ExitStack() as stack:
        sides = []
        first: Start = redis_server
        if options.against:
            first = partial(router, program=options.against)
        second: Start = redis_server if options.control else router
        for start in (first, second):
            server = stack.enter_context(start())
            scene = stack.enter_context(closing(cell.make(server, share)))
            sides.append((server, scene, Measured()))
        for turn in range(WARM_UP_ROUNDS + options.rounds):
            # Who comes first takes turns, too.
            for server, scene, seen in sides if turn % 2 else reversed(sides):
                gc.collect()
                before = server.cpu_ns()
                work = scene.round()
                cpu = (server.cpu_ns() - before) / work.operations / 1000
                if turn >= WARM_UP_ROUNDS:
                    seen.cpu.append(cpu)
                    seen.wall.append(work.wall_us)
                    seen.p99.append(work.p99_us)
        (_, theirs, redis), (_, own, ours) = sides
        assert own.check() == theirs.check(), "the servers delivered different things"
    return redis, ours


def print_row(cell: Cell, redis: Measured, ours: Measured) -> float:
    """A line of the table; return the ratio that counts."""
    cpu = sorted(map(truediv, ours.cpu, redis.cpu))
    wall = statistics.median(map(truediv, ours.wall, redis.wall))
    ratio = float(wall if cell.by_wall else statistics.median(cpu))
    verdict = ""
    if cell.goal is not None:
        verdict = "met" if ratio <= cell.goal else "MISSED"
    if cell.beyond is not None and ratio <= cell.beyond:
        verdict = "beyond"
    a, b, c, d = map(statistics.median, (redis.cpu, ours.cpu, redis.wall, ours.wall))
    print(
        f"{cell.name:<25} {cell.unit:<8} {a:>10.3f} {b:>9.3f} {times(statistics.median(cpu)):>6} "
        f"{times(cpu[0]) + ' - ' + times(cpu[-1]):>13} {times(cell.goal):>6}  {verdict:<7} "
        f"{c:>10.3f} {d:>9.3f} {times(wall):>6}",
        flush=True,
    )
    if all(redis.p99):
        print_p99(cell, redis, ours)
    return ratio


def print_p99(cell: Cell, redis: Measured, ours: Measured) -> None:
    """A line for the slowest hundredth of the operations, in time."""
    ratios = sorted(map(truediv, ours.p99, redis.p99))
    ratio = statistics.median(ratios)
    verdict = ""
    if cell.p99_goal is not None:
        verdict = "met" if ratio <= cell.p99_goal else "MISSED"
    span = f"{times(ratios[0])} - {times(ratios[-1])}"
    theirs, own = map(statistics.median, (redis.p99, ours.p99))
    print(
        f"{cell.name:<25} {'p99':<8} {'':>10} {'':>9} {'':>6} {span:>13} {times(cell.p99_goal):>6}"
        f"  {verdict:<7} {theirs:>10.3f} {own:>9.3f} {times(ratio):>6}",
        flush=True,
    )


def print_losses(lost: list[tuple[float, Cell]]) -> None:
    print("\nwhere Redis takes less, or a goal is missed:" if lost else "\nno cell is lost")
    for ratio, cell in sorted(lost, key=lambda pair: -pair[0]):
        what = "time" if cell.by_wall else f"CPU per {cell.unit}"
        print(
            f"  {cell.name}: {times(ratio)} x the {what} of Redis, goal {times(cell.goal) or '-'}"
        )


def times(ratio: float | None) -> str:
    """How many times as much; a tenth and less as a fraction."""
    if ratio is None:
        return ""
    return f"1/{1 / ratio:.0f}" if ratio <= 0.1 else f"{ratio:.2f}"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

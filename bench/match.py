"""Cost of routing by expressions: the index against asking every compiled predicate in turn.

    make bench-match           both mixes, N = 100 to 100,000, about three minutes
    python -m bench.match indexable|mixed [N ...]

Microseconds of CPU for the first match by priority, means over fresh messages, medians of
rounds. The first columns are of messages as drawn, of which about half match something; "miss"
are those that nothing matches, for which linear evaluation must ask everybody. "Asked" is how
many predicates the index finds for a message.

The distinct values grow with N, so that what a message matches does not. A predicate costs
linear evaluation more when there are many, for they do not fit into the processor's caches.
The ratio that is held against the goals does not profit from that: N predicates are taken to
cost N times what one of 100 costs, if that is less than what was measured.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import sysconfig
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

from headgate.expr.compiled_chunks import Entry, Pile
from headgate.expr.index import PredicateIndex
from headgate.expr.index_keys import Equal, Present, keys_of
from headgate.expr.predicate import Matches, Predicate, compile_expression
from headgate.expr.types import Value

SIZES = (100, 1_000, 10_000, 100_000)
GOALS = {"indexable": {10_000: 50, 100_000: 200}, "mixed": {10_000: 35, 100_000: 50}}
FLAT = 1.2
"""The most by which "asked" of the indexable mix may grow from N = 1,000 to 100,000."""

ROUNDS = 5
MESSAGES = 2_000
LINEAR_EVALUATIONS = 3_000_000
"""Of one round. It bounds how many of the messages are also routed linearly."""
WARM = 1_000
"""Messages before the first round: what is compiled together is compiled by then."""
CHANGES = 1_000
PRIORITIES = 10
KINDS = 4

Message = dict[str, Value]
Table = list[tuple[Matches, int]]


def main(arguments: Sequence[str]) -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"built with {sysconfig.get_config_var('CONFIG_ARGS')}")
    mixes = [name for name in arguments if name in GOALS] or list(GOALS)
    sizes = [int(size) for size in arguments if size.isdigit()] or SIZES
    for mix in mixes:
        print(f"\n{TITLES[mix]}")
        print(HEADER)
        rows = []
        for size in sizes:
            rows.append(measured(mix, size))
            print(rows[-1])
        verdicts(mix, rows)


# What is routed.

TITLES = {
    "indexable": "Indexable mix: 50 % two equalities, 15 % narrow ranges, 10 % or with !=, "
    "10 % arithmetic,\n10 % negation, 4 % or with a missing property, 1 % more equalities",
    "mixed": "Mixed: the same, but the last 1 % give no key, or none that tells messages apart",
}


def expression(mix: str, size: int, random: Random) -> str:
    """One of a mix; each property has about `size` values, prices ten times as many."""
    number, other = random.randrange(size), random.randrange(size)
    kind = f'"k{random.randrange(KINDS)}"'
    share = random.randrange(100)
    if share < 50 or (share == 99 and mix == "indexable"):
        return f'kind == {kind} && customer == "c{number}"'
    if share < 65:
        low = random.randrange(10 * size)
        return f"price >= {low} && price < {low + random.randint(5, 15)}"
    if share < 75:
        return f'(route == "r{number}" || route == "r{other}") && kind != {kind}'
    if share < 85:
        return f"volume * 2 + 7 == {2 * number + 7}"
    if share < 95:
        return f"!(account != {number} || urgent)"
    if share < 97:
        return f"batch == {number} || missing == {other}"
    if share < 99:
        return f"missing == {other} || batch == {number}"
    rest = random.randrange(10 * size)
    return random.choice(
        (
            f"price % {10 * size} == {rest} && !urgent",
            f"price - volume == {rest}",
            f"!exists(price) || volume + account == {rest}",
        )
    )


def message(size: int, random: Random) -> Message:
    return {
        "customer": f"c{random.randrange(size)}",
        "kind": f"k{random.randrange(KINDS)}",
        "price": random.randrange(10 * size),
        "route": f"r{random.randrange(size)}",
        "volume": random.randrange(size),
        "account": random.randrange(size),
        "urgent": random.random() < 0.5,
        "batch": random.randrange(size),
    }


def distinct(mix: str, size: int, count: int, random: Random) -> list[Predicate]:
    """So many predicates of different texts: the router merges equal ones."""
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[expression(mix, size, random)] = None
    return [compile_expression(text) for text in texts]


# What it costs.

HEADER = (
    f"{'N':>7} {'linear us':>10} {'index us':>9} {'ratio':>6} {'miss: linear':>13} {'index':>7} "
    f"{'ratio':>6} {'asked':>6} {'add us':>7} {'remove':>7} {'bytes':>6} {'no key':>7} "
    f"{'routes':>7} {'mismatches':>11}"
)


class Row(NamedTuple):
    size: int
    linear: float
    indexed: float
    ratio: float
    linear_miss: float
    indexed_miss: float
    ratio_miss: float
    asked: float
    add: float
    remove: float
    bytes: float
    keyless: int
    routes: int
    mismatches: int

    def __str__(self) -> str:
        return (
            f"{self.size:>7} {self.linear:>10.1f} {self.indexed:>9.2f} {self.ratio:>6.0f} "
            f"{self.linear_miss:>13.1f} {self.indexed_miss:>7.2f} {self.ratio_miss:>6.0f} "
            f"{self.asked:>6.1f} {self.add:>7.1f} {self.remove:>7.1f} {self.bytes:>6.0f} "
            f"{self.keyless:>7} {self.routes:>7} {self.mismatches:>11}"
        )


def measured(mix: str, size: int) -> Row:
    random = Random(size)
    drawn = distinct(mix, size, size + CHANGES, random)
    predicates, later = drawn[:size], drawn[size:]
    priorities = [random.randrange(PRIORITIES) for _ in predicates]
    numbered = sorted(range(size), key=lambda number: -priorities[number])
    table: Table = [(predicates[number].matches, number) for number in numbered]
    index: PredicateIndex[int] = PredicateIndex()
    held = _bytes_held(lambda: _fill(index, predicates, priorities))
    for _ in range(WARM):
        next(index.matching(message(size, random)), None)

    asked = statistics.fmean(_asked(index, message(size, random)) for _ in range(MESSAGES))
    gc.collect()
    gc.freeze()
    rounds = [_round(index, table, size, random) for _ in range(ROUNDS)]
    linear, indexed, linear_miss, indexed_miss = (
        statistics.median(times[column] for times, _, _ in rounds) for column in range(4)
    )
    add, remove = _changes(index, later, random)
    gc.unfreeze()
    return Row(
        size,
        linear,
        indexed,
        statistics.median(times[0] / times[1] for times, _, _ in rounds),
        linear_miss,
        indexed_miss,
        statistics.median(times[2] / times[3] for times, _, _ in rounds),
        asked,
        add,
        remove,
        held / size,
        sum(map(_is_keyless, predicates)),
        sum(routes for _, routes, _ in rounds),
        sum(mismatches for _, _, mismatches in rounds),
    )


def _round(
    index: PredicateIndex[int], table: Table, size: int, random: Random
) -> tuple[tuple[float, float, float, float], int, int]:
    """Linear and indexed, all messages and misses; routes compared, and how many differ."""
    messages = [message(size, random) for _ in range(MESSAGES)]
    compared = messages[: max(20, LINEAR_EVALUATIONS // size)]

    def first_of_all(properties: Message) -> int | None:
        for matches, number in table:
            if matches(properties):
                return number
        return None

    def first_indexed(properties: Message) -> int | None:
        return next(index.matching(properties), None)

    linear, wanted = _timed(first_of_all, compared)
    indexed, found = _timed(first_indexed, messages)
    misses = [
        properties for properties, number in zip(messages, found, strict=True) if number is None
    ]
    linear_miss, nobody = _timed(first_of_all, misses[: max(10, len(compared) // 2)])
    indexed_miss, _ = _timed(first_indexed, misses)
    mismatches = sum(a != b for a, b in zip(wanted, found, strict=False))
    mismatches += sum(number is not None for number in nobody)
    # The whole list, not only its first, for some.
    for properties in compared[:10]:
        everybody = [number for matches, number in table if matches(properties)]
        mismatches += everybody != list(index.matching(properties))
    times = linear, indexed, linear_miss, indexed_miss
    return times, len(compared) + len(nobody) + len(compared[:10]), mismatches


def _timed(
    route: Callable[[Message], int | None], messages: Sequence[Message]
) -> tuple[float, list[int | None]]:
    """Microseconds of CPU per message, and where they went."""
    before = time.process_time()
    found = [route(properties) for properties in messages]
    return (time.process_time() - before) / len(messages) * 1e6, found


def _changes(
    index: PredicateIndex[int], later: Sequence[Predicate], random: Random
) -> tuple[float, float]:
    """Microseconds to add and to remove one of some that come and go."""
    numbers = [len(index) + number for number in range(len(later))]
    priorities = [random.randrange(PRIORITIES) for _ in later]
    before = time.process_time()
    for predicate, number, priority in zip(later, numbers, priorities, strict=True):
        index.add(predicate, number, priority)
    between = time.process_time()
    random.shuffle(numbers)
    for number in numbers:
        index.remove(number)
    after = time.process_time()
    return (between - before) / len(later) * 1e6, (after - between) / len(later) * 1e6


def _fill(
    index: PredicateIndex[int], predicates: Iterable[Predicate], priorities: Sequence[int]
) -> None:
    for number, predicate in enumerate(predicates):
        index.add(predicate, number, priorities[number])


def _bytes_held(fill: Callable[[], None]) -> int:
    gc.collect()
    tracemalloc.start()
    fill()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


def _asked(index: PredicateIndex[int], properties: Message) -> int:
    line: list[Entry[int]] = []
    piles: list[Pile[int]] = []
    index._collect(properties, line, piles)
    return len(line) + sum(map(len, piles))


def _is_keyless(predicate: Predicate) -> bool:
    """Whether nothing tells messages apart: no key, or a property that all of them have, or a
    boolean that half of them have."""
    keys = keys_of(predicate.tree)
    return keys is None or any(
        isinstance(key, Present) or (isinstance(key, Equal) and isinstance(key.value, bool))
        for key in keys
    )


def verdicts(mix: str, rows: Sequence[Row]) -> None:
    cached = rows[0].linear_miss / rows[0].size
    for row in rows:
        goal = GOALS[mix].get(row.size)
        if goal is not None:
            most = row.size * cached
            ratio = min(row.ratio, row.ratio_miss, most / row.indexed, most / row.indexed_miss)
            print(f"N = {row.size}: {ratio:.0f}x, goal at least {goal}x: {_met(ratio >= goal)}")
    by_size = {row.size: row for row in rows}
    if mix == "indexable" and {1_000, 100_000} <= by_size.keys():
        few, many = by_size[1_000], by_size[100_000]
        growth = many.asked / few.asked
        print(
            f"flat: from N = 1,000 to 100,000 asked {growth:.2f}x, goal at most {FLAT}x: "
            f"{_met(growth <= FLAT)}; time, with the caches, {many.indexed / few.indexed:.1f}x"
        )
    mismatches = sum(row.mismatches for row in rows)
    routes = sum(row.routes for row in rows)
    print(f"exact: {mismatches} mismatches in {routes} routes: {_met(mismatches == 0)}")


def _met(yes: bool) -> str:
    return "met" if yes else "MISSED"


if __name__ == "__main__":
    main(sys.argv[1:])

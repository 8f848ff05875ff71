"""Indexed routing against asking every predicate, at length.

``python -m tests.expr.route --count 1000000 --seed 7``

A world is an index and a plain list with the same items, which come and go between messages.
Its expressions are of two sorts: trees drawn at random, with values where things go wrong, and
the shapes that subscriptions have in practice, over few values so that much matches.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import cycle, product
from random import Random, SystemRandom

from headgate.expr.compiled_chunks import Tuning
from headgate.expr.index import PredicateIndex
from headgate.expr.index_keys import keys_of
from headgate.expr.nodes import text_of
from headgate.expr.predicate import Predicate, compile_expression
from headgate.expr.types import Value
from tests.expr import draw

ROUTES_PER_WORLD = 1_000
PREDICATES = 200
TUNINGS = (
    Tuning(),
    Tuning(scanned=0, heat=20),
    Tuning(scanned=0, bucket=0, chunk=4, heat=2, bounds=0),
    Tuning(scanned=3, bucket=2, chunk=1, heat=0, bounds=1),
    Tuning(scanned=0, bucket=8, chunk=16, heat=5, bounds=2),
)
"""The usual one, and some that let a small world see what otherwise takes a large one."""
SIZES = (0, 3, 20, 60, 150)
CHANGES = (0.01, 0.2)
"""With how many items a world begins, and how often they come and go; the worlds take turns, so
that every run of some worlds has messages for many and messages for nobody."""


def shaped(random: Random) -> str:
    """An expression as people write them."""
    a, b, c = random.randrange(12), random.randrange(12), random.choice(("x", "y", "s", "b"))
    text = f'"{random.choice(("a", "ab", "b", "1"))}"'
    return random.choice(
        (
            f"x == {a} && s == {text}",
            f"y == {a} && x == {b}",
            f"x >= {min(a, b)} && x < {max(a, b)}",
            f"y > {-a} && y <= {b} && s == {text}",
            f"(x == {a} || x == {b}) && s != {text}",
            f"x * 2 + 1 == {a}",
            f"y / 3 == {a - 6}",
            f"y / -3 <= {a - 6}",
            f"10 - y < {a}",
            f"-y * 2 >= {a}",
            f"!(x != {a} || b)",
            f"!(y < {a})",
            f"!(s >= {text})",
            f"Missing == {a} || x == {b}",
            f"x == {a} || Missing == {b}",
            f"s >= {text} && s < {text}",
            f's >= "a" && s <= {text}',
            f"exists({c}) && y > {a}",
            f"!exists({c})",
            f"!exists({c}) || x == {a}",
            f"x % 7 == {a - 3}",
            "x == y",
            "b",
            f"b && x < {a}",
        )
    )


def message(random: Random) -> dict[str, Value]:
    if random.random() < 0.02:
        return {}
    drawn = draw.properties(random)
    if random.random() < 0.7:
        drawn["x"] = random.randrange(12)
        drawn["s"] = random.choice(("a", "ab", "b", "1", "zz"))
    return drawn


class World:
    """The same items in an index and, for comparison, in a list."""

    def __init__(self, random: Random, tuning: Tuning) -> None:
        self.random = random
        self.index: PredicateIndex[int] = PredicateIndex(tuning)
        self.linear: list[tuple[int, int, Predicate | None]] = []
        """Priority with its sign turned, item, predicate; items are numbered as they come."""
        self.items = 0
        self.predicates: list[Predicate | None] = [None]
        for _ in range(PREDICATES):
            if random.random() < 0.5:
                self.predicates.append(compile_expression(shaped(random)))
            else:
                tree = draw.tree(random, random.randint(0, 6))
                self.predicates.append(Predicate(text_of(tree), tree))
        self.priorities = random.choice((1, 3, 1_000_000))

    def add(self) -> None:
        predicate = self.random.choice(self.predicates)
        priority = self.random.randrange(self.priorities) - self.priorities // 2
        self.items += 1
        self.index.add(predicate, self.items, priority)
        self.linear.append((-priority, self.items, predicate))
        self.linear.sort(key=lambda entry: entry[:2])

    def remove(self) -> None:
        if self.linear:
            place = self.random.randrange(len(self.linear))
            removed = self.index.remove(self.linear[place][1])
            if self.random.random() < 0.2:
                self.index.restore(removed)
            else:
                del self.linear[place]

    def matching(self, properties: dict[str, Value]) -> list[int]:
        """By asking everybody."""
        return [
            item
            for _, item, predicate in self.linear
            if predicate is None or predicate.matches(properties)
        ]

    def disagreement(self, properties: dict[str, Value], wanted: list[int]) -> str | None:
        """What is wrong with the index for a message, if anything is."""
        found = list(self.index.matching(properties))
        first = next(self.index.matching(properties), None)
        if found == wanted and first == (wanted[0] if wanted else None):
            return None
        texts = [str(predicate) for _, _, predicate in self.linear]
        return f"{properties!r}: {wanted}, but {found} and first {first}, of {texts}"


def compare(count: int, seed: int) -> Counter[str]:
    """Route so many messages both ways; how many matched how much, and gave which keys."""
    random = Random(seed)
    outcomes: Counter[str] = Counter()
    routed = 0
    for size, change in cycle(product(SIZES, CHANGES)):
        if routed >= count:
            break
        world = World(random, random.choice(TUNINGS))
        for predicate in world.predicates:
            keys = keys_of(predicate.tree) if predicate is not None else None
            outcomes["keys: none" if keys is None else f"keys: {len(keys)}"] += 1
        for _ in range(size):
            world.add()
        for _ in range(min(ROUTES_PER_WORLD, count - routed)):
            while random.random() < change:
                random.choice((world.add, world.remove))()
            properties = message(random)
            wanted = world.matching(properties)
            problem = world.disagreement(properties, wanted)
            assert problem is None, f"seed {seed}: {problem}"
            outcomes["matched" if wanted else "nobody"] += 1
            routed += 1
        for _, item, _ in world.linear:
            world.index.remove(item)
        assert is_bare(world.index), f"seed {seed}: something is left behind"
    return outcomes


def is_bare(index: PredicateIndex[int]) -> bool:
    """Whether an index holds nothing at all, as a new one does."""
    return not (len(index) or index._present or any(index._shelves.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    options = parser.parse_args()
    started = time.monotonic()
    outcomes = compare(options.count, options.seed)
    seconds = time.monotonic() - started
    print(f"seed {options.seed}: {options.count} routes agree, {seconds:.0f} s")
    for outcome, times in outcomes.most_common():
        print(f"{outcome:>12} {times}")


if __name__ == "__main__":
    main()

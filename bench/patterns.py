"""Cost of the pattern index: lookups, changes and memory, against asking every pattern.

    make bench-patterns        or python -m bench.patterns; about a minute

The mix is 40 % `a.N.*`, 20 % `u:*:eN`, and 10 % each of `h[ae]lloN?`, `*sN`, `*mN*` and
`r:N:*:m:?`. Half of the channels are made for a pattern of the mix, half match nothing. The scan
it is compared with asks regular expressions, compiled before the clock starts; at the end its
answers to further channels must be those of the index.
"""

from __future__ import annotations

import gc
import os
import platform
import re
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from operator import truediv
from random import Random

from headgate.core.channels.pattern_index import PatternIndex

SIZES = (1, 10, 30, 100, 1_000, 10_000, 100_000)
ROUNDS = 5
LOOKUPS = 4_000
REPEATED = 16
CHANGES = 2_000
SCAN_WORK = 400_000
"""Patterns asked per round of a scan, at most; a long scan is measured with fewer channels."""
CHECK_WORK = 20_000_000
GOAL_FLAT = 2.0
GOAL_REPEATED = 1.0


def main() -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"CPU us, medians of {ROUNDS} rounds; distinct: {LOOKUPS} new channels per round,")
    print(f"repeated: {REPEATED} channels in turn; change: a pattern removed or added\n")
    sets = {size: Set(size) for size in SIZES}
    # All sizes in each round: ratios within a round cancel what the machine did meanwhile.
    for _ in range(ROUNDS):
        for each in sets.values():
            each.measure()
    print(
        f"{'patterns':>9} {'scan':>10} {'distinct':>9} {'ratio':>8} {'repeated':>9} {'change':>7} "
        f"{'MB':>6} {'B/pattern':>9}  exact"
    )
    for each in sets.values():
        each.print()
    flat = max(
        statistics.median(map(truediv, sets[size].distinct, sets[1_000].distinct))
        for size in SIZES
        if size >= 1_000
    )
    repeated = max(statistics.median(each.repeated) for each in sets.values())
    print(f"\nflat: from 1,000 up at most {flat:.2f}x 1,000 (goal: at most {GOAL_FLAT})")
    print(f"repeated: at most {repeated:.2f} us (goal: at most {GOAL_REPEATED})")
    for size in SIZES:
        if size <= 100:
            print(f"{size}: {sets[size].ratio:.2f}x as fast as a scan (goal: not slower)")


class Set:
    """So many patterns, and what was measured with them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.random = Random(size)
        self.patterns = [pattern(n) for n in range(size)]
        self.random.shuffle(self.patterns)
        self.index, self.memory = weighed(self.patterns)
        self.scanned = [
            (each, re.compile(translated(each), re.DOTALL).fullmatch) for each in self.patterns
        ]
        self.scan: list[float] = []
        self.distinct: list[float] = []
        self.repeated: list[float] = []
        self.change: list[float] = []

    @property
    def ratio(self) -> float:
        return float(statistics.median(map(truediv, self.scan, self.distinct)))

    def channels(self, count: int) -> list[bytes]:
        return [channel(self.random, self.size) for _ in range(count)]

    def measure(self) -> None:
        new = self.channels(LOOKUPS)
        few = new[: max(20, SCAN_WORK // self.size)]
        self.scan.append(cost(lambda c: [p for p, match in self.scanned if match(c)], few))
        self.distinct.append(cost(self.index.matching, new))
        # As from a wire: equal bytes, each time another object.
        again = [bytes(bytearray(c)) for c in self.channels(REPEATED) * (LOOKUPS // REPEATED)]
        self.repeated.append(cost(self.index.matching, again))
        self.change.append(changed(self.index, self.random.choices(self.patterns, k=CHANGES)))

    def print(self) -> None:
        scan, distinct, repeated, change = map(
            statistics.median, (self.scan, self.distinct, self.repeated, self.change)
        )
        print(
            f"{self.size:>9} {scan:>10.2f} {distinct:>9.2f} {self.ratio:>8.2f} {repeated:>9.2f} "
            f"{change:>7.2f} {self.memory / 1e6:>6.1f} {self.memory / self.size:>9.0f}  "
            f"{exact(self)}"
        )


def pattern(n: int) -> bytes:
    forms: tuple[bytes, ...] = (b"a.%d.*",) * 4 + (b"u:*:e%d",) * 2
    forms += (b"h[ae]llo%d?", b"*s%d", b"*m%d*", b"r:%d:*:m:?")
    return forms[n % len(forms)] % n


def channel(random: Random, size: int) -> bytes:
    """A channel that some pattern of so many is likely to match, or one that none does."""
    n = random.randrange(size)
    tail = random.randrange(1_000_000)
    if random.random() < 0.5:
        return b"q/%d/%d.x" % (n, tail)
    made: tuple[bytes, ...] = (b"a.%d.%d",) * 4 + (b"u:%d:e%d",) * 2
    made += (b"hello%d%d", b"x%ds%d", b"x%dm%dy", b"r:%d:%d:m:x")
    form = made[n % len(made)]
    if form[:1] in b"ux":
        return form % (tail, n)
    return form % (n, tail % 10 if form[:1] == b"h" else tail)


def translated(pattern: bytes) -> bytes:
    """The regular expression of a pattern of the mix, as anybody would write it."""
    parts = re.split(rb"(\*|\?|\[ae\])", pattern)
    known = {b"*": rb".*", b"?": rb".", b"[ae]": rb"[ae]"}
    return b"".join(known.get(part) or re.escape(part) for part in parts)


def cost(call: Callable[[bytes], object], channels: Sequence[bytes]) -> float:
    """Microseconds of CPU per call."""
    started = time.process_time_ns()
    for each in channels:
        call(each)
    return (time.process_time_ns() - started) / len(channels) / 1000


def weighed(patterns: Sequence[bytes]) -> tuple[PatternIndex, int]:
    """An index of these patterns, and its bytes without the texts, which others hold too."""
    gc.collect()
    tracemalloc.start()
    index = PatternIndex()
    for each in patterns:
        index.add(each)
    gc.collect()
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return index, memory


def changed(index: PatternIndex, patterns: Sequence[bytes]) -> float:
    """Microseconds of CPU per change: patterns taken out and put back, one by one."""
    started = time.process_time_ns()
    for each in patterns:
        index.remove(each)
        index.add(each)
    return (time.process_time_ns() - started) / (2 * len(patterns)) / 1000


def exact(measured: Set) -> str:
    """Ask every pattern, in the order of the index; how many answers were the same."""
    known = dict(measured.scanned)
    order = [(each, known[each]) for each in measured.index]
    channels = measured.channels(min(LOOKUPS, CHECK_WORK // measured.size))
    for each in channels:
        wanted = tuple([p for p, match in order if match(each)])
        found = measured.index.matching(each)
        assert found == wanted, f"{each!r}: {found}, not {wanted}"
    return f"{len(channels)} of {len(channels)}"


if __name__ == "__main__":
    main()

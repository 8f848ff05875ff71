"""Producers and consumers of streams while they and their router are killed, and what they saw.

    python -m tests.crash.streams --rounds 100 --seed 1

One stream has the group of its domain; the other keeps a history, and clients made its groups. Each
consumer is a process. What is killed in a round is drawn: the router, a consumer, which comes back
under its own name or another one, or both.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import redis

from tests.crash.stream_worker import LOST, PAUSE_SECONDS, client
from tests.support.stream_router import StreamRouter

FIXED: Final = "w"
"""A stream whose only group is that of its domain, without a history."""
KEPT: Final = "k"
"""A stream that keeps a history, with groups that clients make."""
GROUPS: Final = ((FIXED, "team"), (KEPT, "one"), (KEPT, "two"))
NAMES: Final = ("ann", "bob")
"""Consumers of each group."""
PATIENCE_SECONDS: Final = 300.0
"""A crash test may run beside others."""
DOMAINS: Final = """
[domains.work]
mode = "priority"
streams = ["w"]
group = "team"
consumer_grace = "1s"

[domains.log]
mode = "fanout"
groups = "open"
streams = ["k"]
keep_messages = 100000
consumer_grace = "1s"
"""


@dataclass
class Group:
    """What is known of one group of a stream, by what is in the entries."""

    delivered: Counter[str] = field(default_factory=Counter)
    asked: dict[str, float] = field(default_factory=dict)
    """When it was last asked for what was then given."""
    done: dict[str, float] = field(default_factory=dict)
    """When the router had first answered that the group is done with it."""

    def risen(self) -> list[str]:
        """What was given to somebody who asked for it after it was acknowledged."""
        return [each for each, at in self.done.items() if self.asked.get(each, 0.0) > at]


@dataclass
class Seen:
    """What clients know."""

    added: dict[str, list[str]] = field(default_factory=lambda: {FIXED: [], KEPT: []})
    """What the router has answered that it has, of each stream, in order."""
    groups: dict[tuple[str, str], Group] = field(
        default_factory=lambda: {each: Group() for each in GROUPS}
    )
    kept: list[str] = field(default_factory=list)
    """The history, at the end."""
    late: list[str] = field(default_factory=list)
    """What a group is given that is made at the end, from the beginning."""
    wrong: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)

    def is_told(self, of: tuple[str, str]) -> bool:
        """Whether a group was given all that was added."""
        return self.groups[of].delivered.keys() >= set(self.added[of[0]])

    def troubles(self) -> list[str]:
        """What must not be."""
        found = list(self.wrong)
        for (stream, name), group in self.groups.items():
            added = set(self.added[stream])
            found += [f"{each} is lost to {name}" for each in added - group.delivered.keys()]
            found += [f"{each} came again to {name}" for each in group.risen()]
        missing = set(self.added[KEPT]) - set(self.kept)
        found += [f"{each} is not in the history" for each in missing]
        if len(set(self.kept)) < len(self.kept):
            found.append("the history has something twice")
        if self.kept != sorted(self.kept, key=int):
            found.append("the history is not in order")
        if self.late != self.kept:
            found.append("a group that begins in the past was not given the history")
        return found


class Consumer:
    """A process that reads, and a thread that notes what it says."""

    def __init__(self, ready: Path, seen: Seen, of: tuple[str, str], name: str) -> None:
        self.of = of
        self.name = name
        self._group = seen.groups[of]
        self._seen = seen
        program = [sys.executable, "-m", "tests.crash.stream_worker", str(ready), *of, name]
        self._process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        self._process.kill()
        self._thread.join()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        with self._process.stdout as lines:
            for line in lines:
                kind, _, rest = line.rstrip("\n").partition(" ")
                if not line.endswith("\n"):
                    return  # it was killed while it wrote
                if kind == "wrong":
                    self._seen.wrong.append(f"{self.of} came with {rest}")
                    continue
                number, _, at = rest.partition(" ")
                group = self._group
                if kind == "got":
                    group.delivered[number] += 1
                    group.asked[number] = max(group.asked.get(number, 0.0), float(at))
                else:
                    group.done[number] = min(group.done.get(number, float("inf")), float(at))


class Producer:
    """A thread that adds to both streams, and goes on whatever happens."""

    def __init__(self, ready: Path, seen: Seen) -> None:
        self._ready = ready
        self._added = seen.added
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(30)

    def _produce(self) -> None:
        number = 0
        while not self._is_over.is_set():
            with suppress(*LOST):
                router = client(self._ready)
                while not self._is_over.is_set():
                    for stream, added in self._added.items():
                        number += 1
                        router.xadd(stream, {"n": str(number), "data": f"body {number}"})
                        added.append(str(number))
            self._is_over.wait(PAUSE_SECONDS)


def run(folder: Path, rounds: int, entries: int, seed: int) -> Seen:
    """Kill somebody so many times, each time after so many entries more; then let everybody come to
    rest, and look at what is there."""
    draw = random.Random(seed)
    router = StreamRouter(folder, domains=DOMAINS)
    router.start()
    seen = Seen()
    with client(router.ready) as first:
        for stream, group in GROUPS:
            if stream == KEPT:
                first.xgroup_create(stream, group, "$", mkstream=True)
    consumers = [Consumer(router.ready, seen, of, name) for of in GROUPS for name in NAMES]
    producer = Producer(router.ready, seen)
    try:
        for number in range(rounds):
            enough = len(seen.added[KEPT]) + entries
            _wait_for(lambda enough=enough: len(seen.added[KEPT]) >= enough, "more is added")  # type: ignore[misc]
            what = draw.choice(("router", "consumer", "both"))
            seen.kills[what] += 1
            if what != "consumer":
                router.kill()
            if what != "router":
                lost = consumers.pop(draw.randrange(len(consumers)))
                lost.kill()
                name = lost.name if draw.random() < 0.5 else f"c{number}"
                consumers.append(Consumer(router.ready, seen, lost.of, name))
            if what != "consumer":
                router.start()
        producer.stop()
        _come_to_rest(router, seen)
    finally:
        producer.stop()
        for consumer in consumers:
            consumer.kill()
        router.stop()
    return seen


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(PAUSE_SECONDS)


def _come_to_rest(router: StreamRouter, seen: Seen) -> None:
    with client(router.ready) as last:
        _wait_for(lambda: all(_is_done(last, *of) for of in GROUPS), "every group is done")
        _wait_for(lambda: all(map(seen.is_told, GROUPS)), "everything is told")
        if last.xlen(FIXED) != 0:
            seen.wrong.append("something is left of a stream without a history")
        history: Any = last.xrange(KEPT)
        seen.kept = [fields["n"] for _, fields in history]
        last.xgroup_create(KEPT, "late", "0")
        found: Any = last.xreadgroup("late", "ann", {KEPT: ">"}, count=len(seen.kept) + 1)
        while found:
            seen.late += [fields["n"] for _, entries in found for _, fields in entries]
            found = last.xreadgroup("late", "ann", {KEPT: ">"}, count=len(seen.kept) + 1)


def _is_done(router: redis.Redis, stream: str, group: str) -> bool:
    groups: Any = router.xinfo_groups(stream)
    [found] = [each for each in groups if each["name"] == group]
    return bool(found["pending"] == 0 and found["lag"] == 0)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a router of streams, and its consumers.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--entries", type=int, default=40, help="that are added before each kill")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen = run(Path(folder), options.rounds, options.entries, options.seed)
    print(*seen.troubles(), sep="\n")
    print(f"kills: {dict(seen.kills)}; added: {sum(map(len, seen.added.values()))}")
    for (stream, name), group in seen.groups.items():
        given = sum(group.delivered.values())
        print(f"{stream} {name}: given {given}, acknowledged {len(group.done)}")
    print(f"history {len(seen.kept)}; {time.monotonic() - started:.0f} s")
    return 1 if seen.troubles() else 0


if __name__ == "__main__":
    sys.exit(main())

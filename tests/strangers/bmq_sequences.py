"""Plays drawn sequences against a router over the BMQP wire, and holds it to its documents.

``python -m tests.strangers.bmq_sequences --count 200000 --seed 1`` plays many. What fails is made
as short as it can be, and printed with its seed; ``--only SEED`` plays one of them again.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from tests.strangers.bmq_fleet import Fleet
from tests.strangers.bmq_model import Difference
from tests.strangers.bmq_play import Play
from tests.strangers.bmq_steps import Configure, Confirm, Post, Rush, Sequence, Step, sequence
from tests.strangers.bmq_wire import Gone


@dataclass(frozen=True)
class Failure:
    seed: str
    what: str
    script: Sequence
    told: tuple[str, ...]
    log: str

    def __str__(self) -> str:
        again = f"python -m tests.strangers.bmq_sequences --only {self.seed}"
        lines = [f"sequence {self.seed} fails: {self.what}", again, *self.told]
        if self.log.strip():
            lines += ["the router's log:", *self.log.strip().splitlines()[-30:]]
        return "\n".join(lines)


class Stage:
    """Plays sequences, and has a new router whenever one broke."""

    def __init__(self, limits: dict[str, int] | None = None) -> None:
        self._limits = limits
        self._fleet: Fleet | None = None
        self._names = itertools.count()
        self._logged = 0

    def play(self, seed: str, script: Sequence, fresh: bool = False) -> Failure | None:
        """What is wrong, if something is; ``fresh`` has queues that nobody used before."""
        if self._fleet is None:
            self._fleet = Fleet(self._limits)
        taken: Counter[str] = Counter()
        names = []
        for domain in script.domains:
            names.append(f"f{next(self._names)}" if fresh else f"q{taken[domain]}")
            taken[domain] += 1
        play = Play(self._fleet, script, tuple(names))
        try:
            play.run()
        except (Difference, Gone) as error:
            log = self._fleet.router.log()[self._logged :]
            self._recover(fresh)
            return Failure(seed, str(error), script, tuple(play.told), log)
        return None

    def _recover(self, fresh: bool) -> None:
        """After a failure: new sessions on new queues will do, unless they do not."""
        assert self._fleet is not None
        self._logged = len(self._fleet.router.log())
        try:
            if fresh:
                self._fleet.connect()
                return
        except (Difference, Gone, OSError):
            pass
        self.close()

    @property
    def late(self) -> int:
        return self._fleet.late if self._fleet else 0

    def shorten(self, failure: Failure) -> Failure:
        """The same failure, or another, with as few steps as can be found."""
        best = failure
        attempts = 0
        again = True
        while again and attempts < 400:
            again = False
            for script in _shorter(best.script):
                attempts += 1
                found = self.play(failure.seed, script, fresh=True)
                if found is not None:
                    best, again = found, True
                    break
        return best

    def close(self) -> None:
        if self._fleet is not None:
            self._fleet.stop()
            self._fleet = None
            self._logged = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _shorter(script: Sequence) -> Iterator[Sequence]:
    """Sequences that are a little shorter, the shortest first."""
    steps = script.steps
    size = len(steps) // 2
    while size:
        for at in range(0, len(steps), size):
            yield replace(script, steps=steps[:at] + steps[at + size :])
        size //= 2
    for at, step in enumerate(steps):
        for less in _less(step):
            yield replace(script, steps=(*steps[:at], less, *steps[at + 1 :]))


def _less(step: Step) -> Iterator[Step]:
    if isinstance(step, Configure):
        wants = step.wants
        size = len(wants) // 2
        while size:
            for at in range(0, len(wants), size):
                yield replace(step, wants=wants[:at] + wants[at + size :])
            size //= 2
    elif isinstance(step, Post) and len(step.drafts) > 1:
        size = len(step.drafts) // 2
        while size:
            for at in range(0, len(step.drafts), size):
                yield replace(step, drafts=step.drafts[:at] + step.drafts[at + size :])
            size //= 2
    elif isinstance(step, Rush):
        for at, part in enumerate(step.parts):
            yield replace(step, parts=step.parts[:at] + step.parts[at + 1 :])
            for less in _less(part):
                yield replace(step, parts=(*step.parts[:at], less, *step.parts[at + 1 :]))
    elif isinstance(step, Confirm) and step.places is not None and len(step.places) > 1:
        for at in range(len(step.places)):
            yield replace(step, places=step.places[:at] + step.places[at + 1 :])


def play(
    seeds: Iterable[str], limits: dict[str, int] | None = None, progress: int = 0
) -> Iterator[Failure]:
    """Play the sequences of these seeds; those that fail come out, shortened."""
    began = time.monotonic()
    steps = 0
    with Stage(limits) as stage:
        for count, seed in enumerate(seeds, 1):
            script = sequence(seed)
            steps += len(script.steps)
            failure = stage.play(seed, script)
            if failure is not None:
                yield stage.shorten(failure)
            if progress and count % progress == 0:
                rate = count / (time.monotonic() - began)
                played = f"{count} sequences of {steps} steps"
                print(f"{played}, {rate:.1f} a second, {stage.late} late", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", metavar="SEED", help="play one sequence, as it was printed")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--progress", type=int, default=500)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the router is stopped
    seeds = (
        [options.only] if options.only else (f"{options.seed}/{at}" for at in range(options.count))
    )
    limits = {name: int(value) for name, value in (one.split("=") for one in options.limit)}
    found = 0
    for failure in play(seeds, limits, options.progress):
        print(failure, flush=True)
        found += 1
        if found == options.failures:
            break
    print(f"{found} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

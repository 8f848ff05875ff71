"""The long counts, by hand: `make soak` plays 20,000 worlds and kills a router 200 times, and
writes docs/soak.md."""

from __future__ import annotations

import argparse
import platform
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from headgate.testing.sealing import SealingActor
from headgate.testing.trace import Violation
from headgate.testing.world import Operator, Ticker, play
from tests.crash.rounds import Ledger
from tests.crash.rounds import play as play_round

REPORT = """# Soak

What `make soak` found when it was last run: {when}, Python {python}, {machine}.

## Kills

| what | result |
|---|---|
| rounds of kill -9 under load, on one database and one journal | {rounds} |
| first seed | {seed} |
| receipts given | {receipts} |
| confirms answered | {confirms} |
| receipts lost | {lost} |
| confirmed messages that came back | {risen} |
| facts that differ from the store, or are there twice | {untold} |
| seconds | {kill_seconds:.0f} |

A round starts a router on SQLite (WAL, synchronous=FULL) with five exclusive queues and one
fanout queue under load, kills its sealer now and then and itself at a random moment, reopens the
database and compares it with every receipt and every answered confirm of all rounds so far, and
with what the facts of the journal say. CI runs 10 rounds.

## Worlds

| what | result |
|---|---|
| seeds | 0 to {last_world}; every fourth has a journal |
| steps each | {steps} |
| violations | {violations} |
| seconds | {world_seconds:.0f} |

CI runs 300 seeds, and 60 with a journal.
{rest}"""

STEPS = 600
CHUNK = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--report", type=Path, default=Path("docs/soak.md"))
    options = parser.parse_args()
    kills, is_unharmed = kill(options.rounds, options.seed)
    worlds, are_at_peace = simulate(options.worlds)
    before = options.report.read_text() if options.report.exists() else ""
    _, found, rest = before.partition("\n## Fuzzing")
    options.report.write_text(
        REPORT.format(
            rest=found + rest,
            when=datetime.now(UTC).strftime("%Y-%m-%d"),
            python=platform.python_version(),
            machine=platform.machine(),
            **kills,
            **worlds,
        )
    )
    return 0 if is_unharmed and are_at_peace else 1


def kill(rounds: int, seed: int) -> tuple[dict[str, float], bool]:
    ledger = Ledger()
    confirms, lost, risen, untold = 0, 0, 0, 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            result = play_round(Path(folder), ledger, seed + number)
            confirms += result.confirms
            lost, risen = lost + len(result.lost), risen + len(result.risen)
            untold += len(result.untold)
            print(
                f"round {number + 1}/{rounds} seed {seed + number}: {result.receipts} receipts,"
                f" {len(result.lost)} lost, {len(result.untold)} facts wrong",
                file=sys.stderr,
            )
    told = {
        "rounds": rounds,
        "seed": seed,
        "receipts": len(ledger.receipts),
        "confirms": confirms,
        "lost": lost,
        "risen": risen,
        "untold": untold,
        "kill_seconds": time.monotonic() - began,
    }
    return told, not (lost or risen or untold)


def simulate(count: int) -> tuple[dict[str, float], bool]:
    began = time.monotonic()
    done, violations = 0, 0
    with ProcessPoolExecutor() as pool:
        for found in pool.map(play_chunk, range(0, count, CHUNK)):
            done += CHUNK
            violations += len(found)
            for line in found:
                print(line, file=sys.stderr)
            print(f"{done}/{count} worlds, {violations} violations", file=sys.stderr)
    told = {
        "last_world": count - 1,
        "steps": STEPS,
        "violations": violations,
        "world_seconds": time.monotonic() - began,
    }
    return told, not violations


def play_chunk(first: int) -> list[str]:
    """The violations of so many worlds, a line each."""
    found = []
    for seed in range(first, first + CHUNK):
        settings = {}
        if seed % 4 == 3:
            actor = SealingActor()
            settings = {"actors": [Ticker(), Operator(), actor], "build": actor.build}
        try:
            play(seed, STEPS, **settings)
        except Violation as violation:
            found.append(f"seed {seed}: {violation.checker}: {violation.what}")
    return found


if __name__ == "__main__":
    sys.exit(main())

"""The long count, by hand: `make soak` plays 200 rounds and writes docs/soak.md."""

from __future__ import annotations

import argparse
import platform
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.crash.rounds import Ledger, play

REPORT = """# Soak

What `make soak` found when it was last run. CI runs {ci} rounds of the same.

| what | result |
|---|---|
| when | {when} |
| where | Python {python}, {machine} |
| rounds of kill -9 under load, on one database | {rounds} |
| first seed | {seed} |
| receipts given | {receipts} |
| confirms answered | {confirms} |
| receipts lost | {lost} |
| confirmed messages that came back | {risen} |
| facts that differ from the store, or are there twice | {untold} |
| seconds | {seconds:.0f} |

A round starts a router on SQLite (WAL, synchronous=FULL) with five exclusive queues and one
fanout queue under load, kills its sealer now and then and itself at a random moment, reopens the
database and compares it with every receipt and every answered confirm of all rounds so far, and
with what the facts of the journal say.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--report", type=Path, default=Path("docs/soak.md"))
    options = parser.parse_args()
    ledger = Ledger()
    confirms, lost, risen, untold = 0, 0, 0, 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            result = play(Path(folder), ledger, options.seed + number)
            confirms += result.confirms
            lost, risen = lost + len(result.lost), risen + len(result.risen)
            untold += len(result.untold)
            print(
                f"round {number + 1}/{options.rounds} seed {options.seed + number}:"
                f" {result.receipts} receipts, {len(result.lost)} lost",
                file=sys.stderr,
            )
    options.report.write_text(
        REPORT.format(
            ci=10,
            when=datetime.now(UTC).strftime("%Y-%m-%d"),
            python=platform.python_version(),
            machine=platform.machine(),
            rounds=options.rounds,
            seed=options.seed,
            receipts=len(ledger.receipts),
            confirms=confirms,
            lost=lost,
            risen=risen,
            untold=untold,
            seconds=time.monotonic() - began,
        )
    )
    return 1 if lost or risen or untold else 0


if __name__ == "__main__":
    sys.exit(main())

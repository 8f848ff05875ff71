"""Drawn sequences by their seeds, from the command line: how many, which, and what came of them."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable


def seed_options(description: str | None) -> argparse.ArgumentParser:
    """What every generator is asked."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000, help="sequences to play")
    parser.add_argument("--seed", type=int, default=1, help="the first of their seeds")
    parser.add_argument("--most", type=int, default=20, help="differences to tell before the end")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped
    return parser


def play_seeds(
    options: argparse.Namespace, check: Callable[[int], str | None], steps: Callable[[], int]
) -> int:
    """Play them one by one, and print what differs, and how far it is; return the exit code."""
    return tell(options, map(check, range(options.seed, options.seed + options.count)), steps)


def tell(
    options: argparse.Namespace,
    troubles: Iterable[str | None],
    steps: Callable[[], int] | None = None,
) -> int:
    """Print what differs in sequences as they end, and how far it is; return the exit code."""
    differ = 0
    started = time.monotonic()
    for done, trouble in enumerate(troubles, 1):
        if trouble:
            differ += 1
            print(trouble, flush=True)
            if differ >= options.most:
                break
        if done % 100 == 0 or done == options.count:
            rate = done / (time.monotonic() - started)
            of = f" of {steps()} steps" if steps is not None else ""
            print(f"{done} sequences{of}, {differ} differ, {rate:.1f} a second", flush=True)
    return 1 if differ else 0

"""Plays drawn histories of queues, services and notifiers over TLS, and compares every frame that
any session gets with `smp_model`.

    python -m tests.strangers.smp_sequences --count 200000 --seed 1

A sequence is 8 to 20 steps, each one block of one session or its leaving, and a closing in which
services are subscribed as a whole, everything is read, and every queue is deleted. A sequence that
fails is made shorter for as long as it still fails.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.strangers.smp_drawing import SERVICES, Script
from tests.strangers.smp_model import Act
from tests.strangers.smp_play import Play
from tests.strangers.smp_world import Difference, World

SOON = 1.5
"""Seconds that a sequence which is being shrunk waits for what does not come."""


async def play_many(
    seeds: Iterable[str], folder: Path, url: str = "memory:", progress: int = 0
) -> int:
    """All of them in one world; how many steps they had. Raises `Difference` with the seed, the
    transcript, and what is left of it after shrinking."""
    world = await World.start(folder, SERVICES, url)
    began = time.monotonic()
    try:
        for number, seed in enumerate(seeds, 1):
            await _play(world, seed)
            if progress and number % progress == 0:
                rate = number / (time.monotonic() - began)
                print(f"{number} sequences, {world.steps} steps, {rate:.1f}/s", flush=True)
    finally:
        await world.stop()
    return world.steps


async def _play(world: World, seed: str) -> None:
    script, play = Script.begin(seed), Play(world)
    try:
        await play.draw(script)
    except Difference as difference:
        whole = transcript(f"sequence {seed}: {difference}", play.acts)
        raise Difference(f"{whole}\n{await shrink(script.sessions, play.acts)}") from None


def transcript(title: str, acts: Iterable[Act]) -> str:
    return "\n".join([title, *(f"  {act}" for act in acts)])


async def difference_of(sessions: list[str], acts: list[Act]) -> str | None:
    """What differs when these are played in a world of their own, with all that was played."""
    with tempfile.TemporaryDirectory() as folder:
        world = await World.start(Path(folder), SERVICES, patience=SOON)
        play = Play(world)
        try:
            await play.replay(sessions, acts)
        except Difference as difference:
            return transcript(str(difference), play.acts)
        finally:
            await world.stop()
    return None


async def shrink(sessions: list[str], acts: list[Act], seconds: float = 60.0) -> str:
    """The fewest steps and commands that were found to fail, and how."""
    found = await difference_of(sessions, acts)
    if found is None:
        return "in a world of its own it does not fail"
    deadline = time.monotonic() + seconds
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in shorter(acts):
            if time.monotonic() > deadline:
                break
            again = await difference_of(sessions, candidate)
            if again is not None:
                acts, found, is_smaller = candidate, again, True
                break
    return f"shrunk: {found}"


def shorter(acts: list[Act]) -> Iterator[list[Act]]:
    """The same without some steps, and without some commands of its blocks."""
    for size in sorted({len(acts) // 2, len(acts) // 4, 1} - {0}, reverse=True):
        for at in range(len(acts) - size, -1, -size):
            yield acts[:at] + acts[at + size :]
    for at, act in enumerate(acts):
        if len(act.commands) > 1:
            for gone in range(len(act.commands)):
                rest = act.commands[:gone] + act.commands[gone + 1 :]
                yield [*acts[:at], Act(act.session, rest), *acts[at + 1 :]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="the number of the first sequence")
    parser.add_argument("--store", default="memory:", help="or sqlite:NAME.db")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.count)
    seeds = (f"{options.seed}:{number}" for number in numbers)
    with tempfile.TemporaryDirectory() as folder:
        try:
            steps = asyncio.run(play_many(seeds, Path(folder), options.store, progress=100))
        except Difference as difference:
            print(difference)
            return 1
    print(f"{options.count} sequences of {steps} steps: no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())

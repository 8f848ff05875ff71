"""Kill -9 under load, then see what the store still has."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.turn.store_requests import Load
from headgate.journal import reader
from headgate.journal.sealer import Bounds, Sealer
from headgate.store.sqlite import SqliteStore
from tests.crash.worker import FAN, LINES

APPS = frozenset("ab")


@dataclass
class Ledger:
    """What the router said before it was killed, over all rounds on one database."""

    receipts: set[str] = field(default_factory=set)
    asked: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    done: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def note(self, line: str) -> None:
        kind, _, message = line.split()
        if kind == "R":
            self.receipts.add(message)
        else:
            book = self.asked if kind[0] == "A" else self.done
            book[message].add(kind[1:])


@dataclass
class Round:
    receipts: int = 0
    confirms: int = 0
    lost: list[str] = field(default_factory=list)
    """Receipted, never asked to be confirmed by everybody, and not in the store."""
    risen: list[str] = field(default_factory=list)
    """Confirmed by everybody, answered, and still in the store."""
    untold: list[str] = field(default_factory=list)
    """What the facts of the journal say differs from what the store has."""


def play(folder: Path, ledger: Ledger, seed: int) -> Round:
    """One round: start, load, kill at a random moment, reopen, compare."""
    before = len(ledger.receipts), sum(map(len, ledger.done.values()))
    draw = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.worker", str(folder), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        # Reading goes on while it runs, or the pipe would fill and hold it up.
        end = time.monotonic() + draw.uniform(0.05, 0.6)
        for line in worker.stdout:
            if time.monotonic() > end:
                worker.kill()
                end = float("inf")
            if line.endswith("\n"):
                ledger.note(line)
    stored = stored_in(folder)
    result = Round(
        len(ledger.receipts) - before[0], sum(map(len, ledger.done.values())) - before[1]
    )
    for message in ledger.receipts:
        everybody = APPS if message.startswith(FAN.decode()) else {""}
        if message not in stored:
            if not ledger.asked[message] >= everybody:
                result.lost.append(message)
        elif ledger.done[message] >= everybody:
            result.risen.append(message)
    result.untold = _compare_facts(folder, ledger, stored)
    return result


def _compare_facts(folder: Path, ledger: Ledger, stored: set[str]) -> list[str]:
    """Seal what is left, as a new sealer would, and play the facts back."""
    sealer = Sealer(f"sqlite:{folder}/queues.db", folder / "journal", Bounds())
    while sealer.seal(2**62):
        pass
    sealer.close()
    wrong = []
    numbers: set[int] = set()
    left: dict[str, set[str]] = {}
    for fact in reader.facts(folder / "journal"):
        if fact["number"] in numbers:
            wrong.append(f"number {fact['number']} is there twice")
        numbers.add(fact["number"])
        message = fact.get("message", b"").decode()
        if fact["kind"] == "Accepted":
            if message in left:
                wrong.append(f"{message} was accepted twice")
            left[message] = set(APPS if message.startswith(FAN.decode()) else {""})
        elif fact["kind"] == "Confirmed":
            if fact["app"] not in left.get(message, ()):
                wrong.append(f"{message} was confirmed without need")
            else:
                left[message].discard(fact["app"])
    wrong += [f"{m} has a receipt and no fact" for m in ledger.receipts - left.keys()]
    told = {message for message, apps in left.items() if apps}
    wrong += [f"{m} is stored or told, not both" for m in told ^ stored]
    return wrong


def stored_in(folder: Path) -> set[str]:
    """The ids of the messages in a store."""
    return asyncio.run(_stored(folder))


async def _stored(folder: Path) -> set[str]:
    store = SqliteStore(folder / "queues.db")
    await store.open()
    loaded = await store.load(Load(heads=dict.fromkeys(LINES, 10**6), backlogs={FAN}))
    await store.close()
    found = {s.message.id.decode() for head in loaded.heads.values() for s in head.first}
    for _, entries in loaded.backlogs.values():
        found |= {entry.id.decode() for entry in entries}
    return found

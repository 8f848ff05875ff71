"""What the journal costs: the outbox in the turn, and the sealing beside it.

    make bench-journal

Durable sends, 100 asked for at once, with and without the outbox, in alternating rounds; then
how fast a sealer turns rows into segments, and what a fact takes there.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.core import BODY, DOMAIN
from headgate.core.commands import Create, Send
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import Batch
from headgate.journal.sealer import Bounds, Sealer
from headgate.journal.sealer_process import JournalSettings
from headgate.journal.segments import segments
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore

ROUNDS = 9
SECONDS = 1.5
TOGETHER = 100
GOAL = 0.05
FACTS = 500_000


def main() -> None:
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    runs: dict[str, list[tuple[float, float]]] = {"without": [], "outbox": [], "and a sealer": []}
    for _ in range(ROUNDS):
        for name, seen in runs.items():
            with tempfile.TemporaryDirectory() as folder:
                seen.append(asyncio.run(_sends(Path(folder), name)))
    print(f"\ndurable sends, {TOGETHER} at once, medians of {ROUNDS} rounds")
    print(f"{'':>14} {'sends/s':>8} {'slower':>7} {'CPU us':>7} {'more':>6}")
    for name, seen in runs.items():
        pairs = list(zip(seen, runs["without"], strict=True))
        slower = 1 - statistics.median(a[0] / b[0] for a, b in pairs)
        more = statistics.median(a[1] / b[1] for a, b in pairs) - 1
        rate, cpu = (statistics.median(run[place] for run in seen) for place in (0, 1))
        print(f"{name:>14} {rate:>8.0f} {slower:>7.1%} {cpu * 1e6:>7.1f} {more:>6.1%}")
    print(f"goal: the outbox costs at most {GOAL:.0%} of the throughput")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_fill(Path(folder)))
        sealer = Sealer(f"sqlite:{folder}/q.db", Path(folder) / "journal", Bounds())
        began = time.perf_counter()
        while sealer.seal(2**62):
            pass
        seconds = time.perf_counter() - began
        sealer.close()
        size = sum(segment.bytes for segment in segments(Path(folder) / "journal"))
    print(f"\nsealing: {FACTS / seconds:,.0f} facts/s, {size / FACTS:.1f} bytes a fact")
    day = 86_400 * 1000 * size / FACTS
    bound = Bounds().keep_bytes
    print(f"a day of 1,000 facts/s: {day / 1e9:.1f} GB; the bound is {bound / 1e9:.1f} GB")


async def _sends(folder: Path, name: str) -> tuple[float, float]:
    """Sends per second, and seconds of the router's CPU per send."""
    settings = JournalSettings(folder / "journal", 64 << 20, None, None)
    router = Router(
        store=SqliteStore(folder / "q.db"),
        domains={"bench": DOMAIN},
        limits=Limits(),
        journal=settings if name == "and a sealer" else None,
    )
    await router.start()
    router.broker.shard.journal = name != "without"
    session = InProcessSession(router, "")
    queue = QueueId(b"queue")
    await session.ask(Create, queue, "bench")
    sent = 0
    began, spent = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < SECONDS:
        messages = [Message(MessageId(b"%d" % (sent + n)), BODY, began) for n in range(TOGETHER)]
        await asyncio.gather(*(session.ask(Send, queue, message) for message in messages))
        sent += TOGETHER
    rate = sent / (time.perf_counter() - began)
    spent = time.process_time() - spent
    await router.stop()
    return rate, spent / sent


async def _fill(folder: Path) -> None:
    """Rows as turns of a hundred messages write them, with ids that do not compress."""
    store = SqliteStore(folder / "q.db")
    await store.open()
    number = 1
    draw = random.Random(1)
    names = [draw.randbytes(16) for _ in range(1000)]
    apply: Callable[[Batch], Awaitable[None]] = store.apply
    while number < FACTS:
        told = []
        at = 1.8e9 + number / 1000
        for n in range(100):
            name, message = names[draw.randrange(1000)], draw.randbytes(24)
            told += [
                ("Accepted", at, name, message, draw.randrange(10_000), {}, None),
                ("Delivered", at, name, "", message, n, 0),
                ("Confirmed", at, name, "", message, n, draw.random()),
            ]
        await apply(Batch(outbox=OutboxRow(number, told, 0)))
        number += len(told)
    await store.close()


if __name__ == "__main__":
    main()

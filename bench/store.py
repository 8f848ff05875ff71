"""What the SQLite store costs: commits by size of batch, and the questions of a turn.

    make bench-store

1,000 queues, bodies of 1 KB. A batch appends its messages and deletes those of the one before.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from headgate.core.model.ids import WHOLE, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Message, Stored
from headgate.core.model.parties import QueueRecord
from headgate.core.turn.store_requests import Batch, Load, Page
from headgate.store.sqlite import SqliteStore

QUEUES = [QueueId(b"queue %d" % n) for n in range(1000)]
SERVICE = ServiceId(b"service")
LONG = QueueId(b"long")
BODY = bytes(1024)
ROUNDS = 9
SECONDS = 2.0


async def main() -> None:
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version},"
        f" {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "bench.db")
        await store.open()
        records = {queue: QueueRecord(queue, "bench", SERVICE) for queue in QUEUES}
        await store.apply(Batch(create={**records, LONG: QueueRecord(LONG, "bench")}))
        await commits(store)
        await questions(store)
        await store.close()


def stored(seq: int, queue: QueueId) -> Stored:
    message = Message(MessageId(b"%d" % seq), BODY, 0.0)
    return Stored(Seq(seq), queue, message, (WHOLE,))


async def commits(store: SqliteStore) -> None:
    print(f"\n{'batches of':>12} {'commits/s':>10} {'messages/s':>11}")
    seq = 0
    for size in (1, 100, 500):
        rates = []
        for _ in range(3):
            before: set[Seq] = set()
            began, count = time.perf_counter(), 0
            while time.perf_counter() - began < SECONDS:
                append = {
                    Seq(seq + n): stored(seq + n, QUEUES[n % 1000]) for n in range(1, size + 1)
                }
                await store.apply(Batch(append=append, delete=before))
                before = set(append)
                seq += size
                count += 1
            rates.append(count / (time.perf_counter() - began))
            await store.apply(Batch(delete=before))
        rate = statistics.median(rates)
        print(f"{size:>12} {rate:>10.0f} {rate * size:>11.0f}")


async def questions(store: SqliteStore) -> None:
    seq = 10**9
    for _ in range(100):
        await store.apply(
            Batch(append={Seq(seq + n): stored(seq + n, q) for n, q in enumerate(QUEUES)})
        )
        seq += len(QUEUES)
    for _ in range(20):
        await store.apply(Batch(append={Seq(seq + n): stored(seq + n, LONG) for n in range(5000)}))
        seq += 5000
    some = QUEUES[:135]

    async def one_by_one() -> None:
        for queue in some:
            await store.load(Load(heads={queue: 1}))

    print(f"\n{'question, 100 messages in each queue':>40} {'ms, median':>11}")
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "heads of 135 queues, one load": lambda: store.load(Load(heads=dict.fromkeys(some, 1))),
        "heads of 135 queues, 135 loads": one_by_one,
        "first 8 messages of 135 queues": lambda: store.load(Load(heads=dict.fromkeys(some, 8))),
        "page of 500 queues of a service": lambda: store.load(
            Load(pages={Page(SERVICE, QueueId(b""), 500)})
        ),
        "head of a queue of 100,000 messages": lambda: store.load(Load(heads={LONG: 1})),
        "backlog of 100,000 entries": lambda: store.load(Load(backlogs={LONG})),
    }
    for name, ask in asked.items():
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await ask()
            times.append(time.perf_counter() - began)
        print(f"{name:>40} {statistics.median(times) * 1e3:>11.1f}")


if __name__ == "__main__":
    asyncio.run(main())

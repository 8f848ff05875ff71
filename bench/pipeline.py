"""Facts to tables: how fast the pipeline catches up, and how long a fact takes to its row.

    python -m bench.pipeline [--facts N] [--seconds N] [--quick]

Catching up: a journal of so many facts, as a router with shared queues makes them, into all
tables, with `pipeline run --once`. Latency: a router in a process of its own makes about 1,000
facts a second while the stream runs; a row is there when the manifest of its batch is put.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.batches import cpu_seconds
from headgate.core.commands import Confirm, Interest, Open, Send
from headgate.core.effects import Deliver
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import Batch
from headgate.journal.sealer import Bounds, Sealer
from headgate.journal.sealer_process import JournalSettings
from headgate.pipeline.session import open_session
from headgate.pipeline.source.format import register
from headgate.pipeline.tables import keeper
from headgate.pipeline.tables.archive import Archive
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore

FACTS = 2_000_000
QUICK_FACTS = 200_000
SECONDS = 60
QUICK_SECONDS = 15
REAL_TIME = 1_000
"""Facts per second that catching up is held against."""
GOAL = 20
SETTLED = 15
"""The first batches pay for starting; they are not counted in the latency."""

QUEUE = QueueId(b"bmq://bench.orders/q")
DOMAIN = Domain("bench.orders", Mode.PRIORITY, max_messages=10**6, max_bytes=1 << 33)
TOGETHER = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--facts", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    facts = options.facts or (QUICK_FACTS if options.quick else FACTS)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    print(f"built with {sysconfig.get_config_var('CONFIG_ARGS')}")
    session = register(open_session())
    print(f"Spark {session.version}, local[*]\n")
    with tempfile.TemporaryDirectory() as folder:
        catch_up(session, Path(folder), facts)
    with tempfile.TemporaryDirectory() as folder:
        latency(session, Path(folder), seconds)
    session.stop()


def catch_up(session: SparkSession, folder: Path, facts: int) -> None:
    made = time.perf_counter()
    count = asyncio.run(_history(folder, facts))
    made = time.perf_counter() - made
    size = sum(path.stat().st_size for path in (folder / "journal").glob("*.parquet"))
    print(f"{count:,} facts in a journal of {size / 1e6:.0f} MB, made in {made:.0f} s")
    source = {"path": str(folder / "journal")}
    with keeper.keeping(session, source, f"{folder}/warm", once=True) as query:
        query.awaitTermination()
    started, cpu = time.perf_counter(), cpu_seconds(session)
    with keeper.keeping(session, source, f"{folder}/tables", once=True) as query:
        query.awaitTermination()
    took, spent = time.perf_counter() - started, cpu_seconds(session) - cpu
    rate = count / took
    kept = sum(batch.facts for batch in Archive(f"{folder}/tables").state().recent)
    assert kept == count, "every fact is in the tables"
    met = "met" if rate >= GOAL * REAL_TIME else "MISSED"
    print(
        f"into all tables in {took:.1f} s: {rate:,.0f} facts/s,"
        f" {rate / REAL_TIME:.0f}x real time at {REAL_TIME:,} facts/s; goal {GOAL}x: {met};"
        f" {spent:.1f} s of CPU, {count / spent:,.0f} facts for a second of it\n"
    )


async def _history(folder: Path, facts: int) -> int:
    """A journal, written as the router and its sealer write it, only faster."""
    store = SqliteStore(folder / "queues.db")
    await store.open()
    (folder / "journal").mkdir()
    sealer = Sealer(f"sqlite:{folder}/queues.db", folder / "journal", Bounds(merge_files=1 << 30))
    number, at = 1, 1_790_000_000.0
    while number <= facts:
        told = [fact for n in range(5_000) for fact in _told(number // 3 + n, at + n * 0.002)]
        row = OutboxRow(number, told, 64 * len(told))
        await store.apply(Batch(outbox=row))
        number, at = row.last + 1, at + 10
        if number % 10 == 1:
            sealer.seal(row.last)
    while sealer.seal(number):
        pass
    sealer.close()
    await store.close()
    return number - 1


def _told(message: int, at: float) -> Iterator[tuple[object, ...]]:
    identity = b"%016d" % message
    queue = b"bmq://bench.orders/q%d" % (message % 10)
    properties = {"kind": "express" if message % 5 else "bulk", "amount": message % 10_000}
    yield "Accepted", at, queue, identity, 120, properties, None
    yield "Delivered", at, queue, "", identity, message % 50, 0
    yield "Confirmed", at + 0.2, queue, "", identity, message % 50, 0.1 + message % 7, 0.3


def latency(session: SparkSession, folder: Path, seconds: float) -> None:
    spawned = get_context("spawn")
    load = spawned.Process(target=_load, args=(folder, SETTLED + seconds))
    load.start()
    while not list((folder / "journal").glob("*.parquet")):
        time.sleep(0.1)
    root = str(folder / "tables")
    cpu = cpu_seconds(session)
    with keeper.keeping(session, {"path": str(folder / "journal")}, root, seconds=0.1):
        load.join()
        time.sleep(5)
    spent = cpu_seconds(session) - cpu
    archive = Archive(root)
    state = archive.state()
    begin = state.recent[0].started + SETTLED
    whole = {batch.upto: batch.started + batch.seconds for batch in state.recent}
    waits: list[float] = []
    for file in state.table("facts"):
        table = pq.ParquetFile(archive.storage.uri(file.path)).read(columns=["at"])
        waits += [whole[file.upto] - at for at in table["at"].to_pylist() if at >= begin]
    if not waits:
        sys.exit("no facts came after the first batches; give it more --seconds")
    cuts = statistics.quantiles(waits, n=100)
    batches = [each.seconds for each in state.recent if each.started >= begin and each.facts]
    print(
        f"{len(waits):,} facts at {len(waits) / seconds:,.0f} a second: from a fact to its row"
        f" p50 {cuts[49]:.2f} s, p95 {cuts[94]:.2f} s; {len(batches)} batches,"
        f" median {statistics.median(batches):.2f} s; {spent / len(state.recent):.2f} s of CPU for"
        " each, the first ones included"
    )


def _load(folder: Path, seconds: float) -> None:
    asyncio.run(_run_load(folder, seconds))


async def _run_load(folder: Path, seconds: float) -> None:
    """A router that accepts, delivers and has confirmed about 330 messages a second."""
    router = Router(
        store=SqliteStore(folder / "queues.db"),
        domains={DOMAIN.name: DOMAIN},
        limits=Limits(),
        journal=JournalSettings(folder / "journal", 64 << 20, None, None),
    )
    await router.start()
    shop, reader = InProcessSession(router, "shop"), InProcessSession(router, "reader")
    await shop.ask(Open, QUEUE, DOMAIN.name, read=False, write=True)
    interest = Interest("amount >= 0", 1, Window(1000))
    await reader.ask(Open, QUEUE, DOMAIN.name, interests=(interest,))
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        started = time.monotonic()
        for _ in range(TOGETHER):
            number += 1
            identity = MessageId(b"%016d" % number)
            message = Message(identity, b"x" * 100, router.clock(), {"amount": number % 1000})
            await shop.ask(Send, QUEUE, message)
            delivery = await reader.delivery()
            assert isinstance(delivery, Deliver), "what is sent is delivered"
            await reader.ask(Confirm, QUEUE, (delivery.message.id,))
        await asyncio.sleep(max(0.0, TOGETHER * 3 / REAL_TIME - (time.monotonic() - started)))
    await router.stop()


if __name__ == "__main__":
    main()

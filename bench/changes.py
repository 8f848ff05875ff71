"""A batch with many changes of subscriptions, as when a router starts anew: the memory it takes.

    python -m bench.changes [--changes N] [--conf spark.NAME=VALUE]...

A journal has a router's start and one subscription for each of so many sessions, in as many queues
as there are hundreds of them; then messages for ten queues. All of it is one batch. Java is driver
and executor in one. Its memory is the most that was resident (VmHWM), then by kind: the peaks of
its pools, which need not have been at once, and what of its heap was alive in the end. What Java
is by itself: ``--conf spark.driver.defaultJavaOptions=``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.batches import cpu_seconds
from headgate.core.facts import Accepted, Fact, Interested, RouterStarted
from headgate.core.model.ids import AppId, MessageId, QueueId, SessionId
from headgate.core.model.limits import MiB
from headgate.pipeline.session import open_session
from headgate.pipeline.tables import keeper
from headgate.pipeline.tables.archive import Archive
from tests.support.journals import write_journal

CHANGES = 100_000
SESSIONS_OF_QUEUE = 100
QUEUES_WITH_MESSAGES = 10
GOAL = 600 * MiB
AT = 1_790_000_000.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--changes", type=int, default=CHANGES)
    parser.add_argument("--conf", action="append", default=[], metavar="spark.NAME=VALUE")
    options = parser.parse_args()
    settings = dict(each.split("=", 1) for each in options.conf)
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal"
        write_journal(journal, list(told(options.changes)), per_segment=10_000)
        session = open_session(settings=settings)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Spark {session.version}")
        print(", ".join(f"{name} {value}" for name, value in settings.items()) or "as it comes")
        print("Java after its start:", _java(session))
        began, cpu = time.perf_counter(), cpu_seconds(session)
        with keeper.keeping(
            session, {"path": str(journal)}, f"{folder}/tables", once=True
        ) as query:
            query.awaitTermination()
        took, spent = time.perf_counter() - began, cpu_seconds(session) - cpu
        state = Archive(f"{folder}/tables").state()
        assert state.batch is not None, "there was a batch"
        assert state.batch.number == 0, "and one only"
        print(f"{options.changes:,} changes in one batch: {took:.1f} s, {spent:.1f} s of CPU")
        print("Java at the end:", _java(session))
        for name, used in _pools(session).items():
            print(f"  {name}: {used / MiB:.0f} MB")
        gateway = session.sparkContext._gateway
        assert gateway is not None, "Spark runs here"
        most = resident(gateway.proc.pid)
        met = "met" if most < GOAL else "MISSED"
        print(
            f"Java {most / MiB:.0f} MB at most, goal {GOAL // MiB} MB: {met};"
            f" Python {resident(os.getpid()) / MiB:.0f} MB"
        )
        session.stop()


def told(changes: int) -> Iterator[Fact]:
    """A router's start, everybody who subscribes, and some messages."""
    yield RouterStarted(AT, "0.1")
    for n in range(changes):
        queue = QueueId(b"bmq://bench.orders/q%d" % (n // SESSIONS_OF_QUEUE))
        expression = f'amount >= {n % 500} && region == "r{n % 7}"'
        yield Interested(AT + n / 1e5, queue, AppId(""), SessionId(n), 0, 1, expression, 1)
    for n in range(QUEUES_WITH_MESSAGES):
        queue = QueueId(b"bmq://bench.orders/q%d" % n)
        yield Accepted(AT + 2, queue, MessageId(b"%d" % n), 100, {"amount": 400, "region": "r1"})


def resident(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def _java(session: SparkSession) -> str:
    gateway = session.sparkContext._gateway
    assert gateway is not None, "Spark runs here"
    beans: Any = gateway.jvm
    memory = beans.java.lang.management.ManagementFactory.getMemoryMXBean()
    heap, other = memory.getHeapMemoryUsage(), memory.getNonHeapMemoryUsage()
    return (
        f"{resident(gateway.proc.pid) / MiB:.0f} MB at most; heap"
        f" {heap.getCommitted() / MiB:.0f} MB of {heap.getMax() / MiB:.0f},"
        f" {other.getCommitted() / MiB:.0f} MB beside it"
    )


def _pools(session: SparkSession) -> dict[str, int]:
    """The peaks of Java's memory, by pool, and what is alive of its heap."""
    gateway = session.sparkContext._gateway
    assert gateway is not None, "Spark runs here"
    beans: Any = gateway.jvm
    factory = beans.java.lang.management.ManagementFactory
    found = {
        f"peak of {pool.getName()}": pool.getPeakUsage().getUsed()
        for pool in factory.getMemoryPoolMXBeans()
    }
    kind = beans.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    for pool in factory.getPlatformMXBeans(kind):
        found[f"buffers, {pool.getName()}"] = pool.getMemoryUsed()
    beans.java.lang.System.gc()
    found["alive of the heap"] = factory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return found


if __name__ == "__main__":
    main()

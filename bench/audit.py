"""The audit of many queues: how fast digests of ids are XORed on Spark, and in how much memory.

    python -m bench.audit [--rows N] [--quick]

Rows are ids of 24 bytes of 1,000 services, made by `spark.range` while they are counted. Two forms
in turns: through hexadecimal text and `conv`, as everybody writes it, and `audit.tally`, which
takes digests as CRCs. Then the same queues as a snapshot has them, where nothing is left to be
hashed. "Rows" alone is what making them costs either form.

Rates are by the clock; microseconds are of the processor, per row, of the JVM and whatever Python
workers there are. On a machine with other work the second are to be trusted.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core.model.ids import QueueId
from headgate.core.model.limits import MiB
from headgate.core.model.tally import Tally
from headgate.pipeline.jobs import audit
from headgate.pipeline.session import open_session

ROWS = 100_000_000
QUICK_ROWS = 2_000_000
WARM_ROWS = 1_000_000
SERVICES = 1_000
ROUNDS = 3
LONG_ROWS = 20_000_000
"""Above it a round is long enough to be the only one."""
GOAL = 2.0
HEAP = "1g"
RSS_MAX = 2 * 1024 * MiB
"""What everything together may take, whatever the number of rows: twice the heap."""
SAMPLE_SECONDS = 0.2

Found = dict[bytes, Tally]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, one round")
    options = parser.parse_args()
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    rounds = 1 if options.quick or rows > LONG_ROWS else ROUNDS
    spark = open_session(settings={"spark.driver.memory": HEAP})
    try:
        _measure(spark, rows, rounds)
    finally:
        spark.stop()


def _measure(spark: SparkSession, rows: int, rounds: int) -> None:
    java = spark.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    print(
        f"Python {platform.python_version()}, Spark {spark.version}, Java {java}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    print(f"\n{rows:,} queues of {SERVICES:,} services, {rounds} rounds, a heap of {HEAP}")
    with tempfile.TemporaryDirectory() as folder:
        forms: dict[str, Callable[[int], Found]] = {
            "rows": lambda n: _only_rows(made(spark, n)),
            "conv": lambda n: _by_conv(made(spark, n)),
            "tally": lambda n: _by_tally(made(spark, n)),
        }
        for form in forms.values():
            form(WARM_ROWS)
        runs: dict[str, list[Run]] = {name: [] for name in forms}
        for _ in range(rounds):
            for name, form in forms.items():
                runs[name].append(run(form, rows))
        queues = made(spark, rows).select("service", audit.digest_of(F.col("id")).alias("digest"))
        queues.write.parquet(f"{folder}/queues")
        runs["snapshot"] = [
            run(lambda _: _found(audit.from_snapshot(spark, folder)), rows) for _ in range(rounds)
        ]
    report(rows, runs)


# What is counted, and how.


def made(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).select(
        F.expr(f"cast(concat('service-', cast(id % {SERVICES} as string)) as binary) service"),
        F.expr("cast(concat('queue-of-24-b', cast(10000000000 + id as string)) as binary) id"),
    )


def ids_of(service: int, rows: int) -> Iterable[QueueId]:
    """The same ids, made here."""
    return (
        QueueId(b"queue-of-24-b%d" % (10_000_000_000 + n)) for n in range(service, rows, SERVICES)
    )


def _only_rows(queues: DataFrame) -> Found:
    queues.groupBy("service").agg(F.bit_xor(F.length("id"))).collect()
    return {}


def _by_conv(queues: DataFrame) -> Found:
    """Two halves of 16 hexadecimal digits, each as a signed integer."""
    halves = [
        F.bit_xor(F.conv(F.substring(F.md5("id"), start, 16), 16, -10).cast("bigint"))
        for start in (1, 17)
    ]
    sums = queues.groupBy("service").agg(F.count("*"), *halves)
    mask = 2**64 - 1
    return {
        bytes(service): Tally(count, (upper & mask) << 64 | (lower & mask))
        for service, count, upper, lower in sums.collect()
    }


def _by_tally(queues: DataFrame) -> Found:
    digests = queues.select("service", audit.digest_of(F.col("id")).alias("digest"))
    return _found(audit.tally(digests))


def _found(tallies: DataFrame) -> Found:
    return {
        bytes(service): Tally.parse(count, bytes(hashed))
        for service, count, hashed in tallies.select("service", "count", "hash").collect()
    }


# What it costs.


class Run(NamedTuple):
    seconds: float
    cpu: float
    java: int
    """The most bytes that the JVM had while it ran, and the Python workers."""
    workers: int
    found: Found


def run(form: Callable[[int], Found], rows: int) -> Run:
    with Watch() as watch:
        cpu, began = _cpu(), time.perf_counter()
        found = form(rows)
        seconds, cpu = time.perf_counter() - began, _cpu() - cpu
    return Run(seconds, cpu, watch.java, watch.workers, found)


class Watch:
    """Looks at the memory of the processes below this one, until it is left."""

    def __init__(self) -> None:
        self.java = self.workers = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            java = workers = 0
            for process in _below(os.getpid()):
                fields = _read(f"/proc/{process}/statm").split()
                size = int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0
                if "java" in _read(f"/proc/{process}/comm"):
                    java += size
                else:
                    workers += size
            self.java, self.workers = max(self.java, java), max(self.workers, workers)


def _cpu() -> float:
    """Seconds of processor that the processes below this one have had."""
    ticks = 0
    for process in _below(os.getpid()):
        fields = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _below(parent: int) -> list[int]:
    """All processes that come from this one and are still there."""
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*"):
        for child in _read(f"{task}/children").split():
            found += [int(child), *_below(int(child))]
    return found


def _read(path: str) -> str:
    """A file of a process or a thread; nothing, if that is over."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def report(rows: int, runs: dict[str, list[Run]]) -> None:
    print(f"{'':>10} {'rows/s':>12} {'CPU us':>7} {'JVM MiB':>8} {'Python MiB':>11}")
    for name, seen in runs.items():
        rate = rows / statistics.median(run.seconds for run in seen)
        cpu = statistics.median(run.cpu for run in seen) / rows * 1e6
        java, workers = (max(run.java for run in seen), max(run.workers for run in seen))
        print(f"{name:>10} {rate:>12,.0f} {cpu:>7.2f} {java // MiB:>8} {workers // MiB:>11}")
    pairs = list(zip(runs["conv"], runs["tally"], strict=True))
    faster = statistics.median(a.seconds / b.seconds for a, b in pairs)
    cheaper = statistics.median(a.cpu / b.cpu for a, b in pairs)
    print(
        f"tally against conv: {faster:.1f}x as fast, {cheaper:.1f}x by the processor; "
        f"goal at least {GOAL:.0f}x: {_met(faster >= GOAL)}"
    )
    most = max(run.java + run.workers for seen in runs.values() for run in seen)
    print(
        f"memory: at most {most // MiB} MiB, goal at most {RSS_MAX // MiB} MiB whatever the "
        f"number of rows: {_met(most <= RSS_MAX)}"
    )
    results = [run.found for name, seen in runs.items() if name != "rows" for run in seen]
    same = all(found == results[0] for found in results)
    here = results[0][b"service-7"] == Tally.of(ids_of(7, rows))
    print(
        f"exact: {len(results)} results equal, and one service counted here: {_met(same and here)}"
    )


def _met(yes: bool) -> str:
    return "met" if yes else "MISSED"


if __name__ == "__main__":
    main()

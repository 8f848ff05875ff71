"""What small batches, merging and matches cost on Spark.

    python -m bench.batches [--quick] [--ages]

Batches of four facts, in turns, into tables that had 100 and 10,000 batches before: the log is
real, the files that it names are not looked at. Merging: rows of messages in 16 files into one.
Matches: 1,000 expressions of five shapes and 5,000 messages, against the same with the router's own
evaluator. CPU is that of this process, of Java and of Spark's Python workers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.tables import aged
from headgate.core.facts import Accepted, Confirmed, Delivered, Fact
from headgate.core.model.ids import AppId, MessageId, QueueId, SessionId
from headgate.journal.codec import encode_facts
from headgate.journal.sealer import _table
from headgate.pipeline.session import open_session
from headgate.pipeline.source.schema import ARROW
from headgate.pipeline.tables import match_counts, upkeep
from headgate.pipeline.tables.archive import Archive, attempt_of
from headgate.pipeline.tables.keeper import keeping
from headgate.pipeline.tables.tables import TABLES
from headgate.pipeline.tables.wishes import Change, Wishes
from tests.support.journals import told, write_journal

AGES = (100, 10_000)
REPEATS, QUICK_REPEATS = 15, 6
ROUNDS = 3
WARM = 5
"""Batches that are not counted."""
ROWS, QUICK_ROWS = 2_000_000, 200_000
QUEUE, APP = QueueId(b"bmq://bench.orders/q"), AppId("")
SHAPES = (
    "amount >= {0}",
    "amount >= {0} && amount < {1}",
    'region == "r{0}" && amount > {1}',
    'region == "eu" || amount == {0}',
    "amount % 7 == 3 && amount > {0}",
)
EXPRESSIONS, MESSAGES = 1_000, 5_000
GOAL_SECONDS = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="Fewer batches and rows.")
    parser.add_argument("--ages", action="store_true", help="Small batches at both ages only.")
    options = parser.parse_args()
    session = open_session()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Spark {session.version}")
    if not options.ages:
        judging(session)
    small(session, QUICK_REPEATS if options.quick else REPEATS)
    if not options.ages:
        merging(session, QUICK_ROWS if options.quick else ROWS)
    session.stop()


def frame(session: SparkSession, facts: list[Fact], first: int) -> DataFrame:
    rows = [(n, n, encode_facts([told(fact)])) for n, fact in enumerate(facts, first)]
    return session.createDataFrame(_table(rows).cast(ARROW))


def small(session: SparkSession, repeats: int) -> None:
    message = MessageId(b"m" * 16)
    four: list[Fact] = [
        Accepted(1_790_000_000.0, QUEUE, message, 100, {"amount": 1}),
        Delivered(1_790_000_000.0, QUEUE, APP, message, SessionId(1), 0),
        Confirmed(1_790_000_000.1, QUEUE, APP, message, SessionId(1), 0.1, 0.1),
        Accepted(1_790_000_000.2, QUEUE, message, 100, {"amount": 2}),
    ]

    def clocked(folder: str, batches: int) -> tuple[float, float]:
        """Seconds of a batch, and of its CPU."""
        archive, journal = Archive(f"{folder}/tables"), Path(folder) / "journal"
        first = archive.state().upto + 1
        write_journal(journal, batches * four, per_segment=len(four), first=first)
        began, cpu = time.perf_counter(), cpu_seconds(session)
        source = {"path": str(journal), "maxFacts": str(len(four))}
        with keeping(session, source, archive.storage.root, once=True) as query:
            query.awaitTermination()
        took, spent = time.perf_counter() - began, cpu_seconds(session) - cpu
        return took / batches, spent / batches

    with ExitStack() as stack:
        folders = {age: stack.enter_context(tempfile.TemporaryDirectory()) for age in AGES}
        for age, folder in folders.items():
            aged(Archive(f"{folder}/tables"), age)
            clocked(folder, WARM)
        # In turns, since Java gets faster for minutes.
        rounds = [
            {age: clocked(folder, repeats) for age, folder in folders.items()}
            for _ in range(ROUNDS)
        ]
    for age in AGES:
        times = [turn[age] for turn in rounds]
        took, spent = (statistics.median(each) for each in zip(*times, strict=True))
        print(
            f"4 facts after {age:,} batches: {took:.2f} s, {spent:.2f} s of CPU (median of"
            f" {ROUNDS} turns of {repeats}), Spark's own share included"
        )
    ratios = [turn[AGES[1]][1] / turn[AGES[0]][1] for turn in rounds]
    told_ratios = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"CPU after {AGES[1]:,} over {AGES[0]:,} batches, turn by turn: {told_ratios}")


def merging(session: SparkSession, rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive, table = Archive(folder), TABLES["messages"]
        made = session.range(0, rows, 1, 16).select(
            F.col("id").alias("number"),
            F.timestamp_seconds(F.lit(1_790_000_000) + F.col("id") / 100_000).alias("time"),
            F.concat(F.lit("bmq://bench.orders/q"), F.col("id") % 10).alias("address"),
            F.lit("bench.orders").alias("domain"),
            F.md5(F.col("id").cast("string")).cast("binary").alias("message"),
            F.lit(120).cast("bigint").alias("size"),
            F.expr("cast(null as map<string,struct<i:bigint,s:string,b:boolean>>)").alias(
                "properties"
            ),
            F.lit(None).cast("binary").alias("body"),
            F.to_date(F.lit("2026-09-21")).alias("day"),
        )
        attempt = attempt_of(0)
        archive.write(table, attempt, made)
        files = archive.written(table, attempt, 0, rows)
        archive.commit({table.name: files})
        began, cpu = time.perf_counter(), cpu_seconds(session)
        assert upkeep.compact(session, archive, upkeep.Group(table, files)), "nobody was faster"
        took, spent = time.perf_counter() - began, cpu_seconds(session) - cpu
        size = sum(file.bytes for file in files) / 1e6
        print(
            f"merging {rows:,} rows of {len(files)} files, {size:.0f} MB: {took:.1f} s,"
            f" {spent:.1f} s of CPU, {rows / took:,.0f} rows/s in one task"
        )


def judging(session: SparkSession) -> None:
    facts: list[Fact] = [
        Accepted(
            3600.0 + n,
            QUEUE,
            MessageId(b"%d" % n),
            1,
            {"amount": n % 1000, "region": "eu" if n % 3 else "us", "express": n % 5 == 0},
        )
        for n in range(MESSAGES)
    ]
    messages = frame(session, facts, 10_000).cache()
    messages.count()
    wishes = Wishes()
    wishes.follow(
        Change(n, "Interested", QUEUE, "", n, 0, SHAPES[n % len(SHAPES)].format(n, n + 50))
        for n in range(1, EXPRESSIONS + 1)
    )
    subjects = {bytes(QUEUE): [(app, text, it) for (_, app, text), it in wishes.spans.items()]}
    for label, counted in (
        ("by shape, cold", lambda: match_counts.count(messages, wishes)),
        ("by shape", lambda: match_counts.count(messages, wishes)),
        ("in Python", lambda: match_counts._asked(messages, subjects)),
    ):
        spent, rows = _counted(session, counted)
        met = "" if label != "by shape" else " met" if spent <= GOAL_SECONDS else " MISSED"
        print(
            f"{EXPRESSIONS:,} expressions x {MESSAGES:,} messages {label}: {spent:.1f} s of CPU,"
            f" {rows} rows{met}"
        )


def _counted(session: SparkSession, counted: Callable[[], DataFrame]) -> tuple[float, int]:
    began = cpu_seconds(session)
    found: pa.Table = counted().toArrow()
    assert sum(sum(found[name].to_pylist()) for name in match_counts.RESULTS) == (
        EXPRESSIONS * MESSAGES
    ), "every pair has an answer"
    return cpu_seconds(session) - began, found.num_rows


def cpu_seconds(session: SparkSession) -> float:
    """Of this process, and of Java with all that it started."""
    gateway = session.sparkContext._gateway
    assert gateway is not None, "Spark runs here"
    ticks = os.sysconf("SC_CLK_TCK")
    return time.process_time() + sum(map(_ticks, _family(gateway.proc.pid))) / ticks


def _family(pid: int) -> Iterator[int]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            yield from _family(int(child))


def _ticks(pid: int) -> int:
    """Of a process, and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


if __name__ == "__main__":
    main()

"""The data path at a hundredth of a day of 1,000,000,000 facts, and what a day would take.

    python -m bench.hundredth [--of N]

A journal of 10,000,000 facts, as a router with shared queues tells them at 11,600 a second: a
message accepted, delivered and confirmed, in ten queues. It goes into all tables in batches of a
million, as `pipeline run --once` does it, and then upkeep merges files until there is nothing to
merge. What a day takes is these figures times a hundred, which holds as far as a batch costs the
same at any age (`python -m bench.batches`) and the log of so many batches is short (`python -m
bench.tables --billion`). CPU is of the driver, of Java and of Spark's Python workers. `--of 1000`
is a thousandth.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.batches import cpu_seconds
from bench.changes import resident
from bench.pipeline import _told
from headgate.core.model.limits import MiB
from headgate.journal.codec import encode_facts
from headgate.journal.columns import VERSION, VERSION_KEY
from headgate.journal.sealer import _table
from headgate.journal.segments import name_of
from headgate.pipeline.session import open_session
from headgate.pipeline.tables import keeper, upkeep
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.manifests import State

DAY = 1_000_000_000
RATE = DAY / 86_400
"""Facts a second."""
MESSAGES = 100_000
"""Of a segment of the journal, each with three facts."""
BEGAN = 1_790_000_000.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--of", type=int, default=100, help="Which part of a day.")
    part = parser.parse_args().of
    with tempfile.TemporaryDirectory() as folder:
        facts = -(-DAY // part // (3 * MESSAGES)) * 3 * MESSAGES
        # Elsewhere, so that the memory of this process is that of a driver.
        writing = get_context("spawn").Process(target=write, args=(Path(folder) / "journal", facts))
        writing.start()
        writing.join()
        assert writing.exitcode == 0, "there is a journal"
        session = open_session()
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Spark {session.version}")
        run(session, Path(folder), facts)
        session.stop()


def write(folder: Path, facts: int) -> None:
    """A journal of so many facts, in segments as a router seals and merges them."""
    folder.mkdir()
    told = [fact for n in range(MESSAGES) for fact in _told(n, BEGAN + n * 3 / RATE)]
    first = _table([(n, n, encode_facts([each])) for n, each in enumerate(told, 1)])
    count, size = 0, 0
    while count < facts:
        number = pc.add(first["number"], count)
        message = pc.cast(pc.floor(pc.divide(pc.subtract(number, 1), 3)), pa.int64())
        identity = pc.utf8_lpad(pc.cast(message, pa.string()), 16, "0")
        table = first
        for name, column in (
            ("number", number),
            ("at", pc.add(first["at"], count / RATE)),
            ("message", pc.cast(identity, first.schema.field("message").type)),
        ):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), column)
        path = folder / name_of(count + 1, count + len(told))
        table = table.replace_schema_metadata({VERSION_KEY: str(VERSION)})
        pq.write_table(table, path, compression="zstd", row_group_size=50_000)
        count += len(told)
        size += path.stat().st_size
    print(f"{count:,} facts in a journal of {size / 1e6:.0f} MB", flush=True)


def run(session: SparkSession, folder: Path, facts: int) -> None:
    archive, source = Archive(f"{folder}/tables"), {"path": f"{folder}/journal"}
    began, cpu = time.perf_counter(), cpu_seconds(session)
    with keeper.keeping(session, source, archive.storage.root, once=True) as query:
        query.awaitTermination()
    took, spent = time.perf_counter() - began, cpu_seconds(session) - cpu
    state = archive.state()
    assert sum(batch.facts for batch in state.recent) == facts, "every fact is in the tables"
    times = DAY / facts
    batches = [batch.seconds for batch in state.recent]
    print(
        f"into all tables in {len(batches)} batches, median {statistics.median(batches):.1f} s:"
        f" {took:.0f} s, {facts / took:,.0f} facts/s; {spent:.0f} s of CPU,"
        f" {1e6 * spent / facts:.1f} s for a million"
    )
    _sizes(state, facts)
    merging, cpu, files = time.perf_counter(), cpu_seconds(session), _count(state)
    made = 0
    while (done := upkeep.tidy(session, archive)).made:
        made += done.made
    merging, merged = time.perf_counter() - merging, cpu_seconds(session) - cpu
    state = archive.state()
    print(
        f"upkeep made {files} files into {_count(state)}, {made} of them new:"
        f" {merging:.0f} s, {merged:.0f} s of CPU"
    )
    rows = sum(pq.read_metadata(archive.storage.uri(f.path)).num_rows for f in state.table("facts"))
    assert rows == facts, "and still is"
    gateway = session.sparkContext._gateway
    assert gateway is not None, "Spark runs here"
    print(
        f"Java had {resident(gateway.proc.pid) / MiB:.0f} MB at most,"
        f" the driver's Python {resident(os.getpid()) / MiB:.0f} MB"
    )
    size = sum(file.bytes for table in state.files.values() for file in table.values())
    hours = times * (spent + merged) / 3600
    print(
        f"extrapolated to a day of {DAY:,}, times {times:.0f}: {hours:.1f} hours of CPU, that is"
        f" {hours / 24:.2f} cores all day, and {times * size / 1e9:.0f} GB of tables"
    )


def _sizes(state: State, facts: int) -> None:
    told = {
        name: sum(file.bytes for file in files.values()) / facts
        for name, files in state.files.items()
    }
    found = ", ".join(f"{name} {each:.1f}" for name, each in told.items() if each >= 0.05)
    print(f"bytes in files for a fact: {found}")


def _count(state: State) -> int:
    return sum(map(len, state.files.values()))


if __name__ == "__main__":
    main()

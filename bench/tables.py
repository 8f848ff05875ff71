"""The log of the tables, and its mirror in Iceberg, without Spark: what a batch costs at any age.

    python -m bench.tables [--batches N] [--mirrored N] [--billion]

Every batch adds two files to each of ten tables; every 60 are compacted, as upkeep plans it, and
what counts no more is cleaned. Milliseconds are of CPU, the mean of the last ten batches. The
mirror has real Parquet files, the log alone has none. With --billion a day of 1,000,000,000 facts
is simulated: 1,000 batches of a million facts, whose files have the sizes that they would have.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.pipeline.tables import upkeep
from headgate.pipeline.tables.archive import Archive, attempt_of
from headgate.pipeline.tables.manifests import Batch, File
from headgate.pipeline.tables.mirrors import Settings, turn_on
from headgate.pipeline.tables.tables import TABLES

TODAY = "2026-11-15"
AT_ONCE = 10
"""Tables that a batch has rows for."""
TIDY_EVERY = 60
SHOWN = (10, 100, 1_000, 2_500, 5_000, 10_000)
BILLION = 1_000
"""Batches of a million facts."""
BYTES_OF_FACT = 15
"""In a file, as `make bench-journal` measures it."""
TYPES = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--mirrored", type=int, default=100)
    parser.add_argument("--billion", action="store_true")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; milliseconds of CPU")
    with tempfile.TemporaryDirectory() as folder:
        _log(Path(folder), options.batches)
    if options.mirrored:
        with tempfile.TemporaryDirectory() as folder:
            _mirror(Path(folder), options.mirrored)
    if options.billion:
        with tempfile.TemporaryDirectory() as folder:
            _billion(Path(folder))


class Clocked:
    """Times of the last runs of something."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def run(self, what: Callable[[], object]) -> None:
        began = time.process_time()
        what()
        self.times.append(time.process_time() - began)

    def __str__(self) -> str:
        last = self.times[-10:]
        return f"{1000 * sum(last) / max(1, len(last)):.1f}"


def _file(table: str, number: int, place: int, size: int) -> File:
    path = f"_data/{table}/batches={attempt_of(number)}/on={TODAY}/{place}.parquet"
    return File(path, size, number, number + 1)


def _batch(number: int, facts: int = 1000) -> Batch:
    return Batch(number, "q", "", number, number + 1, facts, 1.0, 1.0, 1.0)


def _compacted(archive: Archive, number: int, made: Callable[[str, int, int], File]) -> int:
    """As upkeep does it, but for the rows; say how many files were written."""
    groups = upkeep.plan(archive.state(), TODAY)
    for group in groups:
        whole = made(group.table.name, number, sum(file.bytes for file in group.files))
        archive.commit(
            {group.table.name: [whole]}, {group.table.name: [file.path for file in group.files]}
        )
    return len(groups)


def _log(folder: Path, batches: int) -> None:
    archive, names = Archive(str(folder)), [*TABLES][:AT_ONCE]
    commit, read, plan = Clocked(), Clocked(), Clocked()
    for number in range(batches):
        added = {name: [_file(name, number, n, 20_000) for n in range(2)] for name in names}
        commit.run(partial(archive.commit, added, batch=_batch(number)))
        if number % TIDY_EVERY == TIDY_EVERY - 1:
            _compacted(archive, number, lambda table, n, size: _file(table, n, 9, size))
            upkeep.clean(archive)
        if number + 1 in SHOWN:
            state = archive.state()
            for _ in range(10):
                read.run(archive.state)
                plan.run(partial(upkeep.plan, state, TODAY))
            count = sum(map(len, state.files.values()))
            print(
                f"log, {number + 1:,} batches, {count} files: commit {commit}, state {read},"
                f" plan {plan}"
            )


def aged(archive: Archive, batches: int) -> None:
    """A log of so many batches, compacted as upkeep does it."""
    for number in range(batches):
        added = {name: [_file(name, number, n, 20_000) for n in range(2)] for name in TABLES}
        archive.commit(added, batch=_batch(number))
        if number % TIDY_EVERY == TIDY_EVERY - 1:
            _compacted(archive, number, lambda table, n, size: _file(table, n, 9, size))
            upkeep.clean(archive)


def _mirror(folder: Path, batches: int) -> None:
    archive, names = Archive(str(folder)), [*TABLES][:AT_ONCE]
    mirror, commit, follow = turn_on(archive, Settings()), Clocked(), Clocked()
    contents = {name: _parquet(name) for name in names}

    def put(table: str, number: int, place: int) -> File:
        file = _file(table, number, place, len(contents[table]))
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[table])
        return file

    for number in range(batches):
        added = {name: [put(name, number, n) for n in range(2)] for name in names}
        commit.run(partial(archive.commit, added, batch=_batch(number)))
        if number % 15 == 14:
            _compacted(archive, number, lambda table, n, size: put(table, n, 9))
        follow.run(mirror.follow)
        if number + 1 in SHOWN:
            count = sum(map(len, archive.state().files.values()))
            print(f"mirror, {number + 1:,} batches, {count} files: log {commit}, mirror {follow}")


def _parquet(name: str) -> bytes:
    rows = 100
    held = {
        column: pa.nulls(rows, TYPES[type_])
        for column, type_ in TABLES[name].stored_types.items()
        if type_ in TYPES
    }
    held["day"] = pa.array([date.fromisoformat(TODAY)] * rows)
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(held), file)
    found: bytes = file.getvalue().to_pybytes()
    return found


def _billion(folder: Path) -> None:
    """Manifests and files' sizes of a day; no rows."""
    archive = Archive(str(folder))
    shares = {"facts": 1.0, "messages": 0.4, "deliveries": 0.4, "minutes": 0.05, "matches": 0.01}
    commit, read, plan = Clocked(), Clocked(), Clocked()
    written = total = groups = 0
    for number in range(BILLION):
        added = {}
        for name, share in shares.items():
            size = int(1_000_000 * BYTES_OF_FACT * share / 8)
            added[name] = [_file(name, number, place, size) for place in range(8)]
            total += 8 * size
        commit.run(partial(archive.commit, added, batch=_batch(number, 10**6)))
        if number % 5 == 4:
            before = {name: archive.state().table(name) for name in shares}
            groups += _compacted(archive, number, lambda table, n, size: _file(table, n, 9, size))
            after = archive.state()
            kept = {file.path for name in shares for file in after.table(name)}
            written += sum(
                file.bytes for files in before.values() for file in files if file.path not in kept
            )
            upkeep.clean(archive)
    for _ in range(10):
        state = archive.state()
        read.run(archive.state)
        plan.run(partial(upkeep.plan, state, TODAY))
    count = sum(map(len, state.files.values()))
    size = sum(path.stat().st_size for path in (folder / "_log").iterdir())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"a simulated billion: {BILLION:,} batches, {count} files of {total / 1e9:.1f} GB, log of"
        f" {size / 1e6:.1f} MB; commit {commit}, state {read}, plan {plan}; {groups} compactions"
        f" wrote each byte {written / total:.2f} times; {peak:.0f} MB of memory"
    )


if __name__ == "__main__":
    main()

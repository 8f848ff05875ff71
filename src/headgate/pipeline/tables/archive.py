"""Where the tables are: Parquet in a folder, by batch and by day.

    messages/batches=0-63/day=2026-11-15/part-….parquet
    messages/batches=64-64/day=2026-11-15/part-….parquet

A part holds the rows of one batch, or of a run of batches that were merged. It exists once its
``_SUCCESS`` is there, which Spark writes last; so nothing is ever renamed, and a folder in an
object store will do. A batch that is repeated replaces its part. Where parts overlap, the widest
counts: those that it replaced stay for a while, for queries that were planned with them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import PipelineError
from headgate.pipeline.tables.tables import Table
from headgate.store.private import make_folder

PART = re.compile(r"batches=(\d+)-(\d+)")
DAY = re.compile(r"day=(\d{4}-\d\d-\d\d)")
MERGED = 64
"""So many small parts of a table become one."""
GRACE_SECONDS = 600.0
"""How long parts that were replaced stay."""
PROGRESS = "_progress"
"""What each batch did, in a file each: names with a line in front are not tables."""
WISHES = "_wishes"
"""Who wanted what after each batch that changed it."""
PROGRESS_KEPT = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a table, by the batch that wrote it."""

    first: int
    last: int
    path: str
    written: float

    def covers(self, other: Part) -> bool:
        return self.first <= other.first and other.last <= self.last


class Archive:
    """The tables on disk: written by batch, merged, and read as views."""

    def __init__(self, root: str, clock: Callable[[], float] = time.time) -> None:
        self.root = root.rstrip("/")
        self._clock = clock

    # Writing.

    def make(self) -> None:
        """Make the folder of the tables, for its owner alone, if it is one of this machine."""
        path = self.root.removeprefix("file://")
        if not re.match("[A-Za-z][A-Za-z0-9+.-]*:", path):
            make_folder(Path(path))

    def write(self, table: Table, batch: int, rows: DataFrame) -> None:
        """Make these rows the part of the batch, whatever was there before."""
        self._save(rows, self._path(table, batch, batch))

    def _save(self, rows: DataFrame, path: str) -> None:
        rows.write.mode("overwrite").partitionBy("day").option("compression", "zstd").parquet(path)

    def note(self, batch: int, fields: Mapping[str, object]) -> None:
        """Keep what a batch did, and forget what long past ones did."""
        files, base = self._files()
        files.create_dir(f"{base}/{PROGRESS}", recursive=True)
        with files.open_output_stream(f"{base}/{PROGRESS}/{batch:012}.json") as out:
            out.write(json.dumps({"batch": batch, **fields}).encode())
        if batch % 20 == 0:
            for path in self._listed(PROGRESS)[:-PROGRESS_KEPT]:
                files.delete_file(path)

    def wish(self, batch: int, rows: Sequence[Sequence[object]]) -> None:
        """Keep who wants what after a batch."""
        files, base = self._files()
        files.create_dir(f"{base}/{WISHES}", recursive=True)
        with files.open_output_stream(f"{base}/{WISHES}/{batch:012}.json") as out:
            out.write(json.dumps(rows).encode())
        for path in self._listed(WISHES)[:-PROGRESS_KEPT]:
            files.delete_file(path)

    # Reading.

    def wishes(self, before: int) -> list[list[Any]]:
        """Who wanted what before a batch."""
        files, _ = self._files()
        known = [p for p in self._listed(WISHES) if int(p.rpartition("/")[2][:12]) < before]
        if not known:
            return []
        with files.open_input_stream(known[-1]) as file:
            found: list[list[Any]] = json.loads(file.read())
            return found

    def exists(self, name: str) -> bool:
        files, base = self._files()
        (info,) = files.get_file_info([f"{base}/{name}"])
        return bool(info.type != fs.FileType.NotFound)

    def read(self, session: SparkSession, table: Table) -> DataFrame:
        """A table as its readers see it."""
        rows = self.stored(session, table, self.parts(table.name))
        return table.view(rows) if table.view is not None else rows

    def part(self, session: SparkSession, table: Table, batch: int) -> DataFrame:
        """What a batch has just written."""
        return self.stored(session, table, [Part(batch, batch, self._path(table, batch, batch), 0)])

    def stored(self, session: SparkSession, table: Table, parts: Iterable[Part]) -> DataFrame:
        paths = [part.path for part in parts]
        if not paths:
            return session.createDataFrame([], table.stored_schema)
        reader = session.read.schema(table.stored_schema)
        rows = reader.option("basePath", f"{self.root}/{table.name}").parquet(*paths)
        return rows.drop("batches")

    def notes(self, most: int = PROGRESS_KEPT) -> list[dict[str, Any]]:
        """What the latest batches did, oldest first."""
        files, _ = self._files()
        found = []
        for path in self._listed(PROGRESS)[-most:]:
            with files.open_input_stream(path) as file:
                found.append(json.loads(file.read()))
        return found

    def parts(self, name: str) -> list[Part]:
        """The parts to read: each row is in exactly one of them."""
        chosen: list[Part] = []
        for part in self._parts(name):
            if not chosen or part.last > chosen[-1].last:
                chosen.append(part)
        return chosen

    @property
    def is_empty(self) -> bool:
        return not self._listed(PROGRESS)

    # Upkeep.

    def merge(self, session: SparkSession, table: Table, before: int) -> bool:
        """Make one part of a run of single batches, all before this one; whether there was one.
        Then the run of merged parts may itself be long enough, and so on: every row is written
        again only as often as the logarithm of the number of batches."""
        for run in _runs([part for part in self.parts(table.name) if part.last < before]):
            rows = self.stored(session, table, run)
            days = max(1, rows.select("day").distinct().count())
            self._save(rows.coalesce(days), self._path(table, run[0].first, run[-1].last))
            return True
        return False

    def clean(self, name: str, keep_days: int | None) -> None:
        """Remove parts that were replaced, after their grace, and days that are too old."""
        files, _ = self._files()
        kept = self.parts(name)
        for part in self._parts(name):
            if part in kept:
                continue
            replaced = min(each.written for each in kept if each.covers(part))
            if self._clock() - replaced > GRACE_SECONDS:
                files.delete_dir(self._local(part.path))
        if keep_days is None:
            return
        oldest = datetime.fromtimestamp(self._clock(), UTC).date() - timedelta(keep_days)
        for part in kept:
            for info in files.get_file_info(fs.FileSelector(self._local(part.path))):
                match = DAY.fullmatch(info.base_name)
                if match and date.fromisoformat(match[1]) < oldest:
                    files.delete_dir(info.path)

    # Inside.

    def _files(self) -> tuple[fs.FileSystem, str]:
        """The file system, and the folder in its own words. Made anew each time: it cannot
        travel to where Spark runs a batch."""
        try:
            if "://" in self.root:
                found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(self.root)
                return found
        except (OSError, ValueError) as error:
            raise PipelineError(f"cannot keep tables in {self.root}: {error}") from error
        return fs.LocalFileSystem(), self.root

    def _path(self, table: Table, first: int, last: int) -> str:
        return f"{self.root}/{table.name}/batches={first}-{last}"

    def _local(self, path: str) -> str:
        return self._files()[1] + path.removeprefix(self.root)

    def _parts(self, name: str) -> list[Part]:
        """Every part that is whole, replaced ones included, in the order of their batches."""
        files, base = self._files()
        selector = fs.FileSelector(f"{base}/{name}", allow_not_found=True)
        found = {}
        for info in files.get_file_info(selector):
            match = PART.fullmatch(info.base_name)
            if match:
                found[info.base_name] = int(match[1]), int(match[2])
        marks = files.get_file_info([f"{base}/{name}/{each}/_SUCCESS" for each in found])
        parts = [
            Part(first, last, f"{self.root}/{name}/{folder}", (mark.mtime_ns or 0) / 1e9)
            for (folder, (first, last)), mark in zip(found.items(), marks, strict=True)
            if mark.type != fs.FileType.NotFound
        ]
        return sorted(parts, key=lambda part: (part.first, -part.last))

    def _listed(self, folder: str) -> list[str]:
        files, base = self._files()
        selector = fs.FileSelector(f"{base}/{folder}", allow_not_found=True)
        return sorted(info.path for info in files.get_file_info(selector))


def _runs(parts: list[Part]) -> Iterable[list[Part]]:
    """Runs of parts of one size, counted in batches, that are long enough to be merged."""
    run: list[Part] = []
    for part in parts:
        if run and _size(part) != _size(run[-1]):
            run = []
        run.append(part)
        if len(run) == MERGED:
            yield run
            run = []


def _size(part: Part) -> int:
    """How often it was merged: parts of 1, 64, 4,096 batches are of sizes 0, 1, 2."""
    batches, size = part.last - part.first + 1, 0
    while batches >= MERGED:
        batches //= MERGED
        size += 1
    return size

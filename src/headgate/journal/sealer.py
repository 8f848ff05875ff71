"""The sealer: outbox rows to Parquet segments, in a process of its own.

    python -m headgate.journal.sealer SOURCE DIRECTORY [--segment-bytes N] [--keep SECONDS] ...

SOURCE is the URL of the store, or ``-`` for the one in the environment (`URL_VARIABLE`): all users
of the machine can read the arguments of a process, and a URL may have a password in it.

On standard input it reads lines with the number up to which it may seal, the time, and a time that
has certainly passed: ``seal 4096 1794802757.3 1794802757.3``. Files have the router's time, which
also decides about their age: the machine's clock may be wrong for a while. On standard output it
writes its results: ``sealed LAST``, ``expired LAST BYTES``, and ``done``. It ends when its input
does. pyarrow is imported here and nowhere in the router.
"""

from __future__ import annotations

import argparse
import fcntl
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.core.model.limits import MiB
from headgate.core.model.property_type import FORMS, type_of
from headgate.errors import StoreError
from headgate.journal.codec import decode_facts
from headgate.journal.columns import COLUMNS, FIELD_NAMES, SCHEMA
from headgate.journal.identity import KEY, identified
from headgate.journal.sealer_process import URL_VARIABLE
from headgate.journal.segments import PART, Segment, all_files, clean, current, name_of
from headgate.store.backends import ROUTER_SCHEMA, open_outbox
from headgate.store.private import make_file, make_folder

ROWS_TOGETHER = 1 << 17
"""Rows of a group, the least that one task of a reader reads."""

BYTES_TOGETHER = 32 * MiB
"""Bytes in memory that end a group of rows, however few rows they are: equal bodies are small in a
file, but not in memory."""

LOCK_PAUSE = 0.05
LOCK = "sealer.lock"
"""Held by the sealer of a folder, and released when its process ends, however it ends. A killed
router leaves its sealer at work for a moment, while the next router starts another."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the journal: how many bytes it may take, and how long it keeps facts."""

    segment_bytes: int = 64 * MiB
    """Bytes of rows that are sealed at once, and the size up to which segments are merged."""
    keep_seconds: float = 7 * 86_400.0
    keep_bytes: int = 10 * 1024 * MiB
    merge_files: int = 60
    """Small segments that are merged into one."""
    grace_seconds: float = 3600.0
    """Seconds that replaced files are kept, for queries that were planned with them."""


class Sealer:
    """The work of the sealer, without its pipes. `at_step` is called between the steps of a seal,
    so that tests can stop exactly there."""

    def __init__(
        self,
        source: str,
        directory: Path,
        bounds: Bounds,
        at_step: Callable[[str], None] = lambda step: None,
        patience: float = 10.0,
        schema: str = ROUTER_SCHEMA,
    ) -> None:
        self._directory = directory
        self._bounds = bounds
        self._at_step = at_step
        self.now = time.time()
        """The router's time, for files."""
        self.sure = -math.inf
        """A time that has certainly passed, by which segments are too old."""
        make_folder(directory)
        self._lock = _locked(directory / LOCK, patience)
        clean(directory)
        try:
            self._outbox = open_outbox(source, schema)
        except BaseException:
            os.close(self._lock)
            raise
        self.last = max((segment.last for segment in all_files(directory)), default=0)
        self._metadata = {**SCHEMA.metadata, KEY: identified(directory)}
        self._broken: set[Path] = set()
        """Segments that cannot be read; ``journal verify`` names them."""

    def close(self) -> None:
        self._outbox.close()
        os.close(self._lock)

    def seal(self, watermark: int) -> bool:
        """Seal one segment of unsealed facts, up to the watermark; return whether there were
        any."""
        rows = self._outbox.rows(self.last, watermark, self._bounds.segment_bytes)
        if not rows:
            return False
        first, last = rows[0][0], rows[-1][1]
        self._write([_table(rows)], first, last)
        self.last = last
        return True

    def merge(self) -> bool:
        """Merge the oldest run of small segments, or find that one of them cannot be read; return
        whether there is more to do."""
        run: list[Segment] = []
        for segment in current(all_files(self._directory)):
            small = segment.bytes < self._bounds.segment_bytes // 4
            small = small and segment.path not in self._broken
            size = sum(s.bytes for s in run) + segment.bytes
            if small and size <= self._bounds.segment_bytes:
                run.append(segment)
                if len(run) == self._bounds.merge_files:
                    break
            elif len(run) < self._bounds.merge_files:
                run = [segment] if small else []
        if len(run) < self._bounds.merge_files:
            return False
        try:
            self._write(_merged(run), run[0].first, run[-1].last)
        except Unreadable as error:
            self._leave(error.segment, error)
        return True

    def _leave(self, segment: Segment, error: Exception) -> None:
        print(f"{segment.path.name} is left as it is: {error}", file=sys.stderr)
        self._broken.add(segment.path)

    def expire(self) -> tuple[int, int] | None:
        """Remove segments that are too old or too many, oldest first, and replaced files after
        their grace period. Return the last number removed for good, and the bytes."""
        files = all_files(self._directory)
        kept = current(files)
        for replaced in [segment for segment in files if segment not in kept]:
            if self.sure - replaced.path.stat().st_mtime > self._bounds.grace_seconds:
                replaced.path.unlink(missing_ok=True)
        size = sum(segment.bytes for segment in kept)
        last, removed = 0, 0
        for segment in kept[:-1]:  # the newest has the last number, and stays
            is_old = self.sure - segment.path.stat().st_mtime > self._bounds.keep_seconds
            if not is_old and size <= self._bounds.keep_bytes:
                break
            for covered in files:
                if covered.last <= segment.last:
                    covered.path.unlink(missing_ok=True)
            size -= segment.bytes
            last, removed = segment.last, removed + segment.bytes
        return (last, removed) if last else None

    def _write(self, tables: Iterable[pa.Table], first: int, last: int) -> None:
        """Write under a temporary name, sync, rename, sync the folder: the file exists as a whole,
        or not at all. One group of rows is in memory at a time."""
        path = self._directory / name_of(first, last)
        part = path.with_name(path.name + PART)
        os.close(make_file(part))
        schema = SCHEMA.with_metadata(self._metadata)
        try:
            with pq.ParquetWriter(part, schema, compression="zstd") as writer:
                for group in _groups(tables):
                    writer.write_table(group.cast(schema), ROWS_TOGETHER)
        except Unreadable:
            part.unlink()
            raise
        os.utime(part, (self.now, self.now))
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        self._at_step("written")
        part.replace(path)
        folder = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._at_step("renamed")


class Unreadable(Exception):
    """A segment for a merge cannot be read."""

    def __init__(self, segment: Segment, error: Exception) -> None:
        super().__init__(str(error))
        self.segment = segment


def _merged(run: Iterable[Segment]) -> Iterator[pa.Table]:
    """The facts of segments, a group of rows at a time."""
    for segment in run:
        try:
            with pq.ParquetFile(segment.path) as file:
                for index in range(file.num_row_groups):
                    yield _as_now(file.read_row_group(index))
        except (OSError, pa.ArrowException) as error:
            raise Unreadable(segment, error) from error


def _as_now(table: pa.Table) -> pa.Table:
    """The table with the columns of this version; those of newer versions are null in older
    segments."""
    columns = [
        table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(columns, names=SCHEMA.names).cast(SCHEMA)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in groups that are neither too long nor too large."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        for part in _parts(table):
            if waiting and (
                rows + len(part) > ROWS_TOGETHER or size + part.nbytes > BYTES_TOGETHER
            ):
                yield pa.concat_tables(waiting).unify_dictionaries().combine_chunks()
                waiting, rows, size = [], 0, 0
            waiting.append(part)
            rows, size = rows + len(part), size + part.nbytes
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries().combine_chunks()


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """The table cut into halves, and those into halves, until each is within the limit."""
    if len(table) > 1 and (table.nbytes > BYTES_TOGETHER or len(table) > ROWS_TOGETHER):
        middle = len(table) // 2
        yield from _parts(table.slice(0, middle))
        yield from _parts(table.slice(middle))
    else:
        yield table


def _table(rows: Iterable[tuple[int, int, bytes]]) -> pa.Table:
    """A table of facts. A kind that this version does not know keeps its number and its name."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for number, fact in _numbered(rows):
        columns["number"].append(number)
        columns["kind"].append(fact[0])
        values = dict(zip(FIELD_NAMES.get(fact[0], ()), fact[1:], strict=False))
        for name in COLUMNS:
            columns[name].append(values.get(name))
    columns["properties"] = [_properties(found) for found in columns["properties"]]
    arrays = [
        pa.array(columns[field.name], pa.string()).dictionary_encode()
        if field.name == "kind"
        else pa.array(columns[field.name], field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _numbered(rows: Iterable[tuple[int, int, bytes]]) -> Iterator[tuple[int, Sequence[Any]]]:
    for first, _, blob in rows:
        yield from enumerate(decode_facts(blob), first)


def _properties(found: dict[str, Any] | None) -> list[tuple[str, dict[str, Any]]] | None:
    if not found:
        return None
    typed: list[tuple[str, dict[str, Any]]] = []
    for name, item in found.items():
        column = FORMS[type_of(item)].column
        if column is not None:
            typed.append((name, {column: item}))
    return typed


def _locked(path: Path, patience: float) -> int:
    """The descriptor that holds the lock, after at most so many seconds of waiting."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(descriptor)
                raise StoreError(f"another sealer works in {path.parent}") from None
            time.sleep(LOCK_PAUSE)
        else:
            return descriptor


def main() -> None:
    parser = argparse.ArgumentParser(description="Seal the outbox of a router into segments.")
    parser.add_argument("source", help=f"the URL of a store, or - for the one in {URL_VARIABLE}")
    parser.add_argument("directory", type=Path)
    defaults = Bounds()
    parser.add_argument("--segment-bytes", type=int, default=defaults.segment_bytes)
    parser.add_argument("--keep-seconds", type=float, default=defaults.keep_seconds)
    parser.add_argument("--keep-bytes", type=int, default=defaults.keep_bytes)
    parser.add_argument("--schema", default=ROUTER_SCHEMA)
    options = parser.parse_args()
    bounds = Bounds(
        segment_bytes=options.segment_bytes,
        keep_seconds=options.keep_seconds,
        keep_bytes=options.keep_bytes,
    )
    source = os.environ[URL_VARIABLE] if options.source == "-" else options.source
    try:
        _serve(Sealer(source, options.directory, bounds, schema=options.schema))
    except StoreError as error:
        sys.exit(str(error))
    except BrokenPipeError:
        # The router is gone. Sealed facts are safe, the next sealer finds them; and the rest of the
        # buffer must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, pa.ArrowException) as error:
        sys.exit(
            f"{options.directory}: segments cannot be written; check the folder's rights and the"
            f" room on its disk ({error})"
        )


def _serve(sealer: Sealer) -> None:
    """Seal as the lines of standard input allow, and report."""
    print(f"sealed {sealer.last}", flush=True)
    for line in sys.stdin:
        _, watermark, now, sure = line.split()
        sealer.now, sealer.sure = float(now), float(sure)
        while sealer.seal(int(watermark)):
            print(f"sealed {sealer.last}", flush=True)
        while sealer.merge():
            pass
        expired = sealer.expire()
        if expired is not None:
            print(f"expired {expired[0]} {expired[1]}", flush=True)
        print("done", flush=True)
    sealer.close()


if __name__ == "__main__":
    main()

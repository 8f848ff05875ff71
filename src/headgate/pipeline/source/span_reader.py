"""The facts of a span as batches of Arrow, in a task of Spark.

A planned segment may be gone by then: a segment was merged into another, expired, or is broken.
`read` looks again for what covers the rest of the span now, so that each fact comes once; whether
facts that expired meanwhile are left out or are an error, the options of the query say. It has a
bounded number of rows and of bytes of messages in memory, whatever they are in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.core.model.limits import MiB
from headgate.errors import PipelineError
from headgate.journal.columns import VERSION, VERSION_KEY
from headgate.journal.segments import Segment
from headgate.pipeline.source.feed import Feed, Listing
from headgate.pipeline.source.options import Options
from headgate.pipeline.source.row_groups import message_sizes, number_bounds
from headgate.pipeline.source.schema import ARROW
from headgate.pipeline.source.spans import Span

BATCH_ROWS = 16_384
"""Rows that are in memory at once, for each task."""

BATCH_BYTES = 16 * MiB
"""And bytes of messages among them: what is a few bytes in a file may be gigabytes here."""

LOOKS = 10
"""How often in a row a segment may be gone that was there a moment ago."""


def read(
    feed: Feed, span: Span, options: Options, kinds: frozenset[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The facts of a span, whatever became of its segments."""
    after, waiting, looks = span.after, list(span.segments), 0
    unreadable: set[Path] = set()
    while waiting:
        segment = waiting.pop(0)
        if segment.last <= after:
            continue
        try:
            for reached, batch in _facts(feed, segment, after, span.upto, options.columns):
                after = reached
                batch = _of_kinds(batch, kinds)
                if batch.num_rows:
                    yield _as_rows(batch)
            after, looks = min(segment.last, span.upto), 0
            continue
        except FileNotFoundError:
            looks += 1
            if looks > LOOKS:
                raise PipelineError(
                    f"{segment.path.name} is listed and cannot be opened; see whether all machines"
                    " see the same journal"
                ) from None
        except (OSError, pa.ArrowException) as error:
            if _is_no_fault_of_the_file(error):
                raise PipelineError(f"{segment.path.name} cannot be read: {error}") from error
            feed.quarantine(segment, str(error))
            unreadable.add(segment.path)
        now = feed.look()
        lost = [] if options.skip_expired else _not_in(now, [segment, *waiting])
        if lost:
            last = min(lost[-1].last, span.upto)
            raise PipelineError(facts_expired(max(after + 1, lost[0].first), last))
        waiting = [
            each
            for each in now.segments
            if each.last > after and each.first <= span.upto and each.path not in unreadable
        ]


def _facts(
    feed: Feed, segment: Segment, after: int, upto: int, columns: Sequence[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The facts of a segment after a number and up to another, and how far each batch goes."""
    after, upto = max(after, segment.first - 1), min(upto, segment.last)
    with pq.ParquetFile(feed.open(segment)) as file:
        written_by = int((file.schema_arrow.metadata or {}).get(VERSION_KEY, b"0"))
        if written_by > VERSION:
            raise PipelineError(
                f"{segment.path.name} is of journal version {written_by}, and this Headgate knows"
                f" {VERSION}: upgrade the headgate that Spark runs with"
            )
        known = set(file.schema_arrow.names)
        if not {"number", "kind"} <= known:
            raise pa.ArrowInvalid("it has no columns number and kind")
        groups = []
        for index in range(file.num_row_groups):
            bounds = number_bounds(file.metadata.row_group(index))
            if bounds is None or (bounds[1] > after and bounds[0] <= upto):
                groups.append(index)
        wanted = [name for name in columns if name in known]
        rows = _rows_at_once(file, groups) if "body" in wanted else BATCH_ROWS
        for batch in file.iter_batches(rows, groups, wanted, use_threads=False):
            numbers = batch.column("number")
            first, last = numbers[0].as_py(), numbers[-1].as_py()
            if last > after and first <= upto:
                if first <= after or last > upto:
                    within = pc.and_(pc.greater(numbers, after), pc.less_equal(numbers, upto))
                    batch = batch.filter(within)
                yield min(last, upto), batch
            if last >= upto:
                break


def _rows_at_once(file: pq.ParquetFile, groups: list[int]) -> int:
    """So many rows that the messages among them are within the bound wherever one begins; one, if
    a single message is beyond it."""
    sums = np.cumsum([0, *message_sizes(file, groups)])
    rows = BATCH_ROWS
    while rows > 1:
        ends = sums[np.minimum(np.arange(rows, len(sums) + rows - 1, rows), len(sums) - 1)]
        if np.diff(ends, prepend=0).max(initial=0) <= BATCH_BYTES:
            break
        rows //= 2
    return rows


def _of_kinds(batch: pa.RecordBatch, kinds: frozenset[str] | None) -> pa.RecordBatch:
    if kinds is None:
        return batch
    kind = batch.column("kind").cast(pa.string())
    return batch.filter(pc.is_in(kind, value_set=pa.array(sorted(kinds), pa.string())))


def _as_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As Spark wants it: every column, no dictionaries."""
    columns = []
    for field in ARROW:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            column = batch.column(field.name)
            columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def _is_no_fault_of_the_file(error: Exception) -> bool:
    """A broken file is told by Arrow; what the system tells has a number."""
    has_number = isinstance(error, OSError) and error.errno is not None
    return has_number or isinstance(error, pa.ArrowMemoryError | pa.ArrowCancelled)


def _not_in(now: Listing, planned: Iterable[Segment]) -> list[Segment]:
    """The segments whose facts are no longer there; what cannot be read has not expired."""
    return [
        segment
        for segment in planned
        if not any(first <= segment.first and segment.last <= last for first, last in now.ranges)
    ]


def facts_expired(first: int, last: int) -> str:
    """Why a query that must not leave these out ends, and what to do."""
    return (
        f"the facts from {first} to {last} expired before they were read; to go on without them,"
        " set the option onExpired to skip (`pipeline run --on-expired skip`); to begin anew, use"
        " another checkpoint"
    )

"""The journal as a source: facts in the order of their numbers, read with Arrow.

An offset is the number of the last fact that was read. Numbers increase and have gaps, so an
offset means the same after a merge, and a gap is not a loss. What is planned is a span of numbers
together with the segments that have them at that moment; if one of these is gone when its turn
comes, whoever reads looks again for what covers the span now.

A batch reads what is there. A stream promises not to leave anything out: facts that expired
before they were read end it, unless ``onExpired`` says to skip them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import datasource as spark
from pyspark.sql.streaming import datasource as limits

from headgate.core.facts import Accepted
from headgate.core.model.limits import MiB
from headgate.errors import PipelineError
from headgate.journal.columns import VERSION, VERSION_KEY
from headgate.journal.segments import Segment
from headgate.pipeline.source.feed import Feed, Listing, feed_of
from headgate.pipeline.source.schema import ARROW

MAX_FACTS = 1_000_000
"""Facts of one micro batch, unless the option says otherwise."""

SPAN_BYTES = 2 * MiB
"""Small segments are read together up to this size, larger ones are split by their row groups."""

BATCH_ROWS = 16_384
"""Rows that are in memory at once, for each task."""

BATCH_BYTES = 16 * MiB
"""And bytes of messages among them: what is a few bytes in a file may be gigabytes here."""

MAX_BYTES = 1024 * MiB
"""Bytes of messages of one micro batch, unless the option says otherwise."""

IDLE_SECONDS = 0.2
"""A stream without news is asked again and again; so long it takes to answer."""

LOOKS = 10
"""How often in a row a segment may be gone that was there a moment ago."""

END = 2**63 - 1

Offset: TypeAlias = dict[str, Any]
"""What Spark keeps of a stream: a number, and of which journal it is."""

STARTS = {"earliest": 0, "latest": None}
"""Where a query can begin, besides with the fact of a number."""


@dataclass(frozen=True)
class Options:
    """What can be said about a query, besides where the journal is."""

    start: int | None
    """The number after which to begin; None is the end of the journal as it is now."""
    moment: float | None
    """Begin with the first fact at or after this time instead."""
    end: int
    """The last fact that is read, if it ever comes."""
    max_facts: int
    max_bytes: int | None
    """Of messages; if nothing is said, `MAX_BYTES` where files can be looked into."""
    columns: tuple[str, ...]
    """Those that are read; the others are null. Spark never says which it needs."""
    skip_expired: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        given = {name.lower(): text.strip() for name, text in options.items()}
        start = given.get("startingoffset", "earliest")
        first = STARTS[start] if start in STARTS else _whole("startingOffset", start, *STARTS)
        moment = given.get("startingtimestamp")
        if moment is not None and "startingoffset" in given:
            raise PipelineError("keep one of startingOffset and startingTimestamp")
        names = [name.strip() for name in given.get("columns", "").split(",") if name.strip()]
        for name in set(names).difference(ARROW.names):
            known = ", ".join(ARROW.names)
            raise PipelineError(f"facts have no column {name!r}; they have {known}")
        heavy, expired = given.get("maxbytes"), given.get("onexpired", "fail")
        if expired not in ("fail", "skip"):
            raise PipelineError(f"onExpired is fail or skip, not {expired!r}")
        return cls(
            start=None if first is None else max(0, first - 1),
            moment=_moment(moment) if moment is not None else None,
            end=_whole("endingOffset", given["endingoffset"]) if "endingoffset" in given else END,
            max_facts=max(1, _whole("maxFacts", given.get("maxfacts", str(MAX_FACTS)))),
            max_bytes=max(1, _whole("maxBytes", heavy)) if heavy is not None else None,
            columns=tuple(dict.fromkeys(["number", "kind", *names]) if names else ARROW.names),
            skip_expired=expired == "skip",
        )


def _whole(name: str, text: str, *words: str) -> int:
    if not text.isdecimal():
        raise PipelineError(f"{name} is {' or '.join([*words, 'a number'])}, not {text!r}")
    return int(text)


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"startingTimestamp is a moment such as 2026-11-15T12:00:00Z, not {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# Planning.


@dataclass(frozen=True)
class Span(spark.InputPartition):
    """Facts after a number and up to another, and the segments that had them."""

    after: int
    upto: int
    segments: tuple[Segment, ...]


def plan(feed: Feed, found: Sequence[Segment], after: int, upto: int) -> list[Span]:
    """The facts in between as spans of about the same size."""
    spans: list[Span] = []
    waiting: list[Segment] = []
    begin, size = after, 0
    for segment in found:
        if segment.last <= after or segment.first > upto:
            continue
        for last, part in _parts(feed, segment):
            if last <= begin:
                continue
            if not waiting or waiting[-1] is not segment:
                waiting.append(segment)
            size += part
            if size >= SPAN_BYTES:
                spans.append(Span(begin, min(last, upto), tuple(waiting)))
                begin, size, waiting = last, 0, []
            if last >= upto:
                break
    if waiting:
        spans.append(Span(begin, upto, tuple(waiting)))
    return spans


def _parts(feed: Feed, segment: Segment) -> list[tuple[int, int]]:
    """The last numbers and the sizes of the parts that a segment can be read in."""
    whole = [(segment.last, segment.bytes)]
    if segment.bytes <= SPAN_BYTES or not feed.is_near:
        return whole
    try:
        footer = pq.read_metadata(feed.open(segment))
    except (OSError, pa.ArrowException):
        return whole  # whoever reads it will find out what is the matter
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    bounds = [_bounds(group) for group in groups]
    if None in bounds:
        return whole
    sizes = [segment.bytes * group.num_rows // max(1, footer.num_rows) for group in groups]
    return [(each[1], size) for each, size in zip(bounds, sizes, strict=True) if each]


def _bounds(group: pq.RowGroupMetaData) -> tuple[int, int] | None:
    """The least and the largest number of a row group, if it says so."""
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == "number":
            statistics = column.statistics
            return (
                (statistics.min, statistics.max)
                if statistics is not None and statistics.has_min_max
                else None
            )
    return None


def _since(feed: Feed, found: Sequence[Segment], moment: float) -> int:
    """The number after which facts are at or after a moment. It is looked for from the newest on,
    so that no segment is fetched that is not read anyway."""
    after = found[-1].last if found else 0
    for segment in reversed(found):
        try:
            table = pq.read_table(feed.open(segment), columns=["number", "at"])
        except (OSError, pa.ArrowException):
            continue  # whoever reads it will find out what is the matter
        is_later = pc.greater_equal(table["at"], moment)
        if not pc.any(is_later).as_py():
            break
        after = table["number"][pc.index(is_later, True).as_py()].as_py() - 1
    return after


# Reading.


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
            raise PipelineError(_expired(max(after + 1, lost[0].first), last))
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
            bounds = _bounds(file.metadata.row_group(index))
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
    sums = np.cumsum([0, *_sizes(file, groups)])
    rows = BATCH_ROWS
    while rows > 1:
        ends = sums[np.minimum(np.arange(rows, len(sums) + rows - 1, rows), len(sums) - 1)]
        if np.diff(ends, prepend=0).max(initial=0) <= BATCH_BYTES:
            break
        rows //= 2
    return rows


def _sizes(file: pq.ParquetFile, groups: list[int]) -> np.ndarray[Any, Any]:
    """The bytes of body and properties of each row; 0 where no row has a body. How they are stored
    says little of that: equal bodies are stored once."""
    sizes = [np.zeros(0, np.int64)]
    for index in groups:
        group = file.metadata.row_group(index)
        if _has_bodies(group):
            table = file.read_row_group(index, ["kind", "size"], use_threads=False)
            is_message = pc.equal(table["kind"].cast(pa.string()), Accepted.__name__)
            sizes.append(pc.if_else(is_message, table["size"], 0).to_numpy())
        else:
            sizes.append(np.zeros(group.num_rows, np.int64))
    return np.concatenate(sizes)


def _has_bodies(group: pq.RowGroupMetaData) -> bool:
    columns = [group.column(index) for index in range(group.num_columns)]
    found = {column.path_in_schema: column for column in columns}
    if not {"body", "size"} <= found.keys():
        return False
    statistics = found["body"].statistics
    return statistics is None or statistics.null_count < group.num_rows


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


def _expired(first: int, last: int) -> str:
    return (
        f"the facts from {first} to {last} expired before they were read; to go on without them,"
        " set the option onExpired to skip (`pipeline run --on-expired skip`); to begin anew, use"
        " another checkpoint"
    )


# What Spark asks for.


class JournalReader(spark.DataSourceReader):
    """The facts that are there, once."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._feed = feed_of(options)
        self._options = replace(Options.of(options), skip_expired=True)
        self._after, self._upto = self._options.start, self._options.end
        self._kinds: frozenset[str] | None = None

    def pushFilters(self, filters: list[spark.Filter]) -> Iterable[spark.Filter]:
        for each in filters:
            if not self._takes(each):
                yield each

    def partitions(self) -> Sequence[Span]:
        found = [] if self._after is None else self._feed.segments()
        if self._options.moment is not None:
            self._between(_since(self._feed, found, self._options.moment), END)
        upto = min([self._upto, *(segment.last for segment in found[-1:])])
        # Of no spans at all, Spark would make one of its own.
        return plan(self._feed, found, self._after or 0, upto) or [Span(0, 0, ())]

    def read(self, partition: spark.InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span), "that is what was planned"
        return read(self._feed, partition, self._options, self._kinds)

    def _takes(self, asked: spark.Filter) -> bool:
        """Narrow what is read. Whether nothing is left for Spark to check."""
        match asked:
            case spark.IsNotNull(("number",)) | spark.IsNotNull(("kind",)):
                return True  # no fact is without them
            case spark.EqualTo(("kind",), str(kind)):
                self._only({kind})
            case spark.In(("kind",), kinds):
                self._only({kind for kind in kinds if kind is not None})
            case spark.EqualTo(("number",), int(number)):
                self._between(number - 1, number)
            case spark.GreaterThan(("number",), int(number)):
                self._between(number, END)
            case spark.GreaterThanOrEqual(("number",), int(number)):
                self._between(number - 1, END)
            case spark.LessThan(("number",), int(number)):
                self._between(0, number - 1)
            case spark.LessThanOrEqual(("number",), int(number)):
                self._between(0, number)
            case _:
                return False
        return True

    def _only(self, kinds: set[str]) -> None:
        self._kinds = frozenset(kinds if self._kinds is None else self._kinds & kinds)

    def _between(self, after: int, upto: int) -> None:
        if self._after is not None:
            self._after = max(self._after, after)
        self._upto = min(self._upto, upto)


class JournalStream(spark.DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """Facts as they come. An offset is ``{"number": N, "journal": ID}``: everything up to there was
    read, of this journal. One from before journals had an identity fits any."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._feed = feed_of(options)
        self._options = Options.of(options)
        self._target: int | None = None

    def initialOffset(self) -> Offset:
        now = self._feed.look()
        if self._options.moment is not None:
            return _offset(_since(self._feed, now.segments, self._options.moment), now)
        first = min((segment.first - 1 for segment in now.segments[:1]), default=0)
        start = self._options.start
        return _offset(_last(now) if start is None else start or first, now)

    def getDefaultReadLimit(self) -> limits.ReadLimit:
        return limits.ReadMaxRows(self._options.max_facts)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = _last(self._feed.look())

    def latestOffset(self, start: Offset, limit: limits.ReadLimit) -> Offset:
        after = int(start["number"])
        now = self._looked(start)
        end = _last(now)
        if end < after and after != self._options.start:
            raise PipelineError(
                f"the journal ends with fact {end}, and this query has read up to {after}: it is"
                " another journal; name the right one, or begin anew with another checkpoint"
            )
        if self._target is not None:
            end = min(end, self._target)
        end = min(end, self._options.end)
        if end <= after:
            if self._target is None:
                time.sleep(IDLE_SECONDS)
            return start
        if isinstance(limit, limits.ReadAllAvailable):
            return _offset(end, now)
        most = limit.max_rows if isinstance(limit, limits.ReadMaxRows) else self._options.max_facts
        end = min(end, _bounded(now.segments, after, most))
        heavy = self._options.max_bytes or (MAX_BYTES if self._feed.is_near else None)
        if heavy is not None:
            end = _lighter(self._feed, now.segments, after, end, heavy)
        return _offset(end, now)

    def reportLatestOffset(self) -> Offset:
        now = self._feed.look()
        return _offset(_last(now), now)

    def partitions(self, start: Offset, end: Offset) -> Sequence[Span]:
        after, upto = int(start["number"]), int(end["number"])
        now = self._looked(end)
        oldest = min((first for first, _ in now.ranges), default=END)
        # Who begins with the first fact that there ever was has lost none yet.
        if 0 < after < oldest - 1 and not self._options.skip_expired:
            raise PipelineError(_expired(after + 1, min(oldest - 1, upto)))
        return plan(self._feed, now.segments, after, upto)

    def _looked(self, offset: Offset) -> Listing:
        """What there is, if it is the journal that the offset is of."""
        now, known = self._feed.look(), offset.get("journal", "")
        if known and now.identity and now.identity != known:
            raise PipelineError(
                f"this query has read the journal {known}, and this is {now.identity}: name the"
                " right one, or begin anew with another checkpoint"
            )
        return now

    def read(self, partition: spark.InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span), "that is what was planned"
        return read(self._feed, partition, self._options)


def _offset(number: int, now: Listing) -> Offset:
    return {"number": number, **({"journal": now.identity} if now.identity else {})}


def _last(now: Listing) -> int:
    """Where the journal ends; a segment that cannot be read counts too."""
    return max((last for _, last in now.ranges), default=0)


def _bounded(found: Iterable[Segment], after: int, most: int) -> int:
    """How far a micro batch goes: to the end of a segment if that is near enough, so that each
    is read once."""
    coming = [segment for segment in found if segment.last > after]
    if not coming:
        return after + most
    end = max(after, coming[0].first - 1) + most
    whole = [segment.last for segment in coming if segment.last <= end]
    return whole[-1] if whole else end


def _lighter(feed: Feed, found: Iterable[Segment], after: int, upto: int, most: int) -> int:
    """How far a micro batch goes so that its messages have so many bytes at most; one fact at
    least, whatever it has."""
    left = most
    for segment in found:
        if segment.last <= after or segment.first > upto:
            continue
        try:
            with pq.ParquetFile(feed.open(segment)) as file:
                sizes = _sizes(file, list(range(file.num_row_groups)))
                if not sizes.any():
                    continue
                numbers = file.read(["number"], use_threads=False)["number"].to_numpy()
        except (OSError, pa.ArrowException):
            continue  # whoever reads it will find out what is the matter
        is_wanted = (numbers > after) & (numbers <= upto)
        numbers, sizes = numbers[is_wanted], sizes[is_wanted]
        fitting = int(np.searchsorted(np.cumsum(sizes), left, side="right"))
        if fitting < len(numbers):
            is_first = left == most and fitting == 0
            return int(numbers[0] if is_first else numbers[fitting] - 1)
        left -= int(sizes.sum())
    return upto

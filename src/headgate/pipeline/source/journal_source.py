"""The journal as a source: facts in the order of their numbers, once or as they come.

An offset is the number of the last fact that was read. Numbers increase and have gaps, so an offset
means the same after a merge, and a gap is not a loss. The calls of Spark are answered here: `spans`
plans what its tasks read, `span_reader` reads it there.

A batch reads what is there. A stream promises not to leave anything out: facts that expired
before they were read end it, unless ``onExpired`` says to skip them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import datasource as spark
from pyspark.sql.streaming import datasource as limits

from headgate.core.model.limits import MiB
from headgate.errors import PipelineError
from headgate.journal.segments import Segment
from headgate.pipeline.source.feed import Feed, Listing, feed_of
from headgate.pipeline.source.options import END, Options
from headgate.pipeline.source.row_groups import message_sizes
from headgate.pipeline.source.span_reader import facts_expired, read
from headgate.pipeline.source.spans import Span, number_before, plan

MAX_BYTES = 1024 * MiB
"""Bytes of messages of one micro batch, unless the option says otherwise."""

IDLE_SECONDS = 0.2
"""A stream without news is asked again and again; so long it takes to answer."""

Offset: TypeAlias = dict[str, Any]
"""The offset that Spark keeps of a stream: a number, and of which journal it is."""


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
            self._between(number_before(self._feed, found, self._options.moment), END)
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
            return _offset(number_before(self._feed, now.segments, self._options.moment), now)
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
            raise PipelineError(facts_expired(after + 1, min(oldest - 1, upto)))
        return plan(self._feed, now.segments, after, upto)

    def _looked(self, offset: Offset) -> Listing:
        """The segments, if they are of the journal that the offset is of."""
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
                sizes = message_sizes(file, list(range(file.num_row_groups)))
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

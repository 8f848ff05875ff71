"""Spans: the parts of a journal that Spark's tasks read, planned before any of them runs.

A span is facts after a number and up to another, together with the segments that had them when it
was planned. Spans of one plan follow one another without a gap and do not overlap, so that each
fact is read once, whatever becomes of the segments meanwhile (`span_reader`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from headgate.core.model.limits import MiB
from headgate.journal.segments import Segment
from headgate.pipeline.source.feed import Feed
from headgate.pipeline.source.row_groups import number_bounds

SPAN_BYTES = 2 * MiB
"""Small segments are read together up to this size, larger ones are split by their row groups."""


@dataclass(frozen=True)
class Span(InputPartition):
    """A span of the journal: facts after a number and up to another, and the segments that had
    them."""

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
    bounds = [number_bounds(group) for group in groups]
    if None in bounds:
        return whole
    sizes = [segment.bytes * group.num_rows // max(1, footer.num_rows) for group in groups]
    return [(each[1], size) for each, size in zip(bounds, sizes, strict=True) if each]


def number_before(feed: Feed, found: Sequence[Segment], moment: float) -> int:
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

"""Reading a journal: facts as dictionaries, and a check of its files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.core.model.value import value
from headgate.journal.segments import Segment, segments


@value
class Finding:
    """An error that `verify` found in a segment."""

    segment: Segment
    facts: int
    problem: str | None


def facts(directory: Path, after: int = 0) -> Iterator[dict[str, Any]]:
    """Facts in the order of their numbers, each with the fields it has."""
    for segment in segments(directory):
        if segment.last > after:
            for batch in pq.ParquetFile(segment.path).iter_batches():
                for row in batch.to_pylist():
                    if row["number"] > after:
                        yield {name: item for name, item in row.items() if item is not None}


def verify(directory: Path) -> Iterator[Finding]:
    """Check every segment: readable, and numbered as its name says."""
    before = 0
    for segment in segments(directory):
        count, problem = 0, None
        try:
            numbers = pq.read_table(segment.path, columns=["number"])["number"].to_pylist()
            count = len(numbers)
            if not numbers or [numbers[0], numbers[-1]] != [segment.first, segment.last]:
                problem = "its facts are not those of its name"
            elif any(a >= b for a, b in pairwise(numbers)):
                problem = "its numbers do not increase"
            elif segment.first <= before:
                problem = f"it overlaps with the one before, which ends at {before}"
        except (OSError, pa.ArrowException) as error:
            problem = f"it cannot be read: {error}"
        before = segment.last
        yield Finding(segment, count, problem)

"""The facts of one batch, and rows made of them.

The source is read once. The facts of a light batch are held here then, and so are the rows that
Spark makes of them: a job that writes files takes Spark longer than the facts of a second. The
facts of a heavy one are written first, and Spark makes the rows of the files, each table reading
the columns and the kinds that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.core import facts as f
from headgate.pipeline.tables import match_counts, wishes
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.tables import TABLES, Table
from headgate.pipeline.tables.wishes import Change, Wishes

FACTS = TABLES["facts"]
ACCEPTED = f.Accepted.__name__


class Kind(NamedTuple):
    """Counts for one kind of fact: how many, first and last number, latest time."""

    facts: int
    first: int
    last: int
    at: float


class BatchFacts(Protocol):
    """Facts that are read, and written as a table of their own."""

    kinds: dict[str, Kind]
    """The kinds among them."""
    frame: DataFrame

    def changes(self) -> Iterator[Change]:
        """Changes of wishes, in the order of their numbers."""

    def matches(self, wanted: Wishes) -> DataFrame:
        """The outcomes of the messages among them."""

    def write(self, table: Table, rows: DataFrame) -> None:
        """Write rows that are made of them."""


class HeldFacts(BatchFacts):
    """Light facts, held in memory."""

    def __init__(self, archive: Archive, attempt: str, facts: DataFrame) -> None:
        self._archive, self._attempt = archive, attempt
        self._held: pa.Table = t.facts(facts).toArrow()
        archive.write(FACTS, attempt, self._held)
        self.kinds = _kinds_of(self._held)
        # In one part, so that counting takes no exchange.
        self.frame = facts.sparkSession.createDataFrame(self._held).coalesce(1)

    def changes(self) -> Iterator[Change]:
        return wishes.changes_of(self._held)

    def matches(self, wanted: Wishes) -> DataFrame:
        accepted = self._held.filter(pc.equal(self._held["kind"], ACCEPTED))
        return match_counts.count_few(accepted, t.of_kinds(self.frame, [ACCEPTED]), wanted)

    def write(self, table: Table, rows: DataFrame) -> None:
        self._archive.write(table, self._attempt, rows.toArrow())


class WrittenFacts(BatchFacts):
    """Heavy facts, or facts of unknown weight: written to their table, and read back from it."""

    def __init__(self, archive: Archive, attempt: str, facts: DataFrame) -> None:
        self._archive, self._attempt = archive, attempt
        archive.write(FACTS, attempt, t.facts(facts))
        files = archive.written(FACTS, attempt, 0, 0)
        self.frame = archive.stored(facts.sparkSession, FACTS, files)
        counted = self.frame.groupBy("kind").agg(
            F.count("*"), F.min("number"), F.max("number"), F.max("at")
        )
        self.kinds = {kind: Kind(*rest) for kind, *rest in counted.collect()}

    def changes(self) -> Iterator[Change]:
        return wishes.changes_in(self.frame)

    def matches(self, wanted: Wishes) -> DataFrame:
        return match_counts.count(t.of_kinds(self.frame, [ACCEPTED]), wanted)

    def write(self, table: Table, rows: DataFrame) -> None:
        self._archive.write(table, self._attempt, rows)


def _kinds_of(facts: pa.Table) -> dict[str, Kind]:
    asked = [("number", "count"), ("number", "min"), ("number", "max"), ("at", "max")]
    table = facts.group_by("kind").aggregate(asked)
    columns = (table[name].to_pylist() for name in ("kind", *("_".join(each) for each in asked)))
    return {kind: Kind(*rest) for kind, *rest in zip(*columns, strict=True)}

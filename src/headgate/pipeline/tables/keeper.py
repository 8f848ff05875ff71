"""Keeping the tables: one streaming query that turns each batch of facts into rows of all of them.

A batch is written table by table, each replacing what an earlier attempt at the same batch had
written; then Spark notes the batch as done. Whatever dies in between, the batch is repeated with
the same facts, and the tables come out the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headgate.core import facts as f
from headgate.errors import PipelineError
from headgate.pipeline.source.format import register
from headgate.pipeline.tables import match_counts
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.match_counts import Wishes
from headgate.pipeline.tables.tables import TABLES

FACTS = TABLES["facts"]
UPKEEP = 64
"""Batches between two rounds of merging and cleaning."""
AT_ONCE = 3
"""Tables that are written at the same time: much of a small write is waiting."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """What is done with a batch. It travels to wherever Spark calls it."""

    root: str
    keep_days: int | None = None

    def __call__(self, facts: DataFrame, batch: int) -> None:
        started = time.time()
        archive, session = Archive(self.root), facts.sparkSession
        # The source is read once. Everything else is made of the part that this leaves, of which
        # each table reads the columns and the kinds that it needs.
        archive.write(FACTS, batch, t.facts(facts))
        kept = archive.part(session, FACTS, batch)
        kinds = kept.groupBy("kind").agg(
            F.count("*").alias("facts"), F.max("number").alias("last"), F.max("at").alias("at")
        )
        found = {row.kind: row for row in kinds.collect()}
        self._write(archive, kept, batch, found)
        archive.note(
            batch,
            {
                "facts": sum(row.facts for row in found.values()),
                "last": max((row["last"] for row in found.values()), default=None),
                "at": max((row["at"] for row in found.values()), default=None),
                "started": started,
                "seconds": round(time.time() - started, 3),
            },
        )
        if batch % UPKEEP == UPKEEP - 1:
            tidy(session, archive, batch, self.keep_days)

    def _write(
        self, archive: Archive, facts: DataFrame, batch: int, found: Mapping[str, Row]
    ) -> None:
        rows = {
            name: table.make(facts.where(F.col("kind").isin(*table.kind_names)))
            for name, table in TABLES.items()
            if table.make is not None and table.kind_names & found.keys()
        }
        judged = self._judged(archive, facts, batch, found)
        if judged is not None:
            rows["matches"] = judged
        with ThreadPoolExecutor(AT_ONCE) as pool:
            writes = [pool.submit(archive.write, TABLES[name], batch, rows[name]) for name in rows]
            for write in writes:
                write.result()

    def _judged(
        self, archive: Archive, facts: DataFrame, batch: int, found: Mapping[str, Row]
    ) -> DataFrame | None:
        """How the expressions of the moment judged the messages of the batch."""
        wishes = Wishes.read(archive.wishes(before=batch))
        changes = {kind.__name__ for kind in match_counts.CHANGES} & found.keys()
        if changes:
            wishes.follow(facts.where(F.col("kind").isin(*changes)).orderBy("number").collect())
            archive.wish(batch, wishes.rows())
        if not wishes.spans or f.Accepted.__name__ not in found:
            return None
        return match_counts.count(facts.where(F.col("kind") == f.Accepted.__name__), wishes)


def tidy(session: SparkSession, archive: Archive, before: int, keep_days: int | None) -> None:
    """Merge small parts, remove what was replaced or is too old."""
    for table in TABLES.values():
        while archive.merge(session, table, before):
            pass
        archive.clean(table.name, keep_days)


def start(
    session: SparkSession,
    source: Mapping[str, str],
    root: str,
    *,
    once: bool = False,
    keep_days: int | None = None,
    seconds: float = 1.0,
) -> StreamingQuery:
    """Start the query that keeps the tables under `root` up to date. With `once` it ends when
    it has caught up with the facts that are there."""
    archive, checkpoint = Archive(root), f"{root}/_checkpoint"
    if not archive.is_empty and not archive.exists("_checkpoint/metadata"):
        raise PipelineError(
            f"the tables in {root} are there and their checkpoint is not, so nobody knows which"
            " facts they hold: restore the folder _checkpoint, or begin with an empty folder (the"
            " facts are read again from the journal)"
        )
    archive.make()
    facts = register(session).readStream.format("headgate").options(**source).load()
    writer = facts.writeStream.option("checkpointLocation", checkpoint).queryName("headgate")
    writer = writer.foreachBatch(Keeper(root, keep_days))
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds").start()

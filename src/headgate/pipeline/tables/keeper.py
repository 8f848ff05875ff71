"""Keeping the tables: one streaming query that turns each batch of facts into rows of all of them.

An attempt at a batch writes its rows where nobody looks, and then commits one manifest that names
them all. Whatever dies in between, the batch is repeated with the same facts, and finds that it is
there, or that it is not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headgate.core import facts as f
from headgate.core.model.limits import MiB
from headgate.errors import PipelineError
from headgate.pipeline.source.feed import feed_of
from headgate.pipeline.source.format import register
from headgate.pipeline.source.starting import started
from headgate.pipeline.tables import checkpoint, lease, match_counts, stopping
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.archive import Archive, attempt_of
from headgate.pipeline.tables.checkpoint import Checkpoint
from headgate.pipeline.tables.manifests import Batch, File, State
from headgate.pipeline.tables.match_counts import Wishes
from headgate.pipeline.tables.tables import TABLES

FACTS = TABLES["facts"]
AT_ONCE = 4
"""Tables that are written at the same time: much of a small write is waiting."""
LOOKED_AT_BYTES = 8 * MiB
"""A batch with so many bytes of facts is small."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """What is done with a batch. It travels to wherever Spark calls it."""

    root: str
    journal: str = ""
    """The identity of the journal that the facts are of."""
    since: float = float("inf")
    """When the pipeline started. One that was asked to stop after that does no more batches."""

    def __call__(self, facts: DataFrame, batch: int) -> None:
        started = time.time()
        archive, session = Archive(self.root), facts.sparkSession
        stopping.check(archive.storage, self.since)
        state, marks = archive.state(), Checkpoint(archive.storage)
        query = marks.query or ""
        if state.has(query, batch):
            return  # it died after the manifest, and before Spark noted that
        attempt = attempt_of(batch)
        # The source is read once. Everything else is made of the part that this leaves, of which
        # each table reads the columns and the kinds that it needs.
        archive.write(FACTS, attempt, t.facts(facts))
        files = archive.written(FACTS, attempt, 0, 0)
        found = _kinds(archive, session, files)
        first = min((kind.first for kind in found.values()), default=state.upto + 1)
        last = max((kind.last for kind in found.values()), default=state.upto)
        after = min(first - 1, state.upto)
        upto = max(last, marks.offset(batch) or 0)
        wishes = self._write(archive, session, attempt, files, found, state)
        archive.commit(
            {table.name: archive.written(table, attempt, after, upto) for table in TABLES.values()},
            batch=Batch(
                number=batch,
                query=query,
                journal=self.journal,
                after=after,
                upto=upto,
                facts=sum(kind.facts for kind in found.values()),
                at=max((kind.at for kind in found.values()), default=None),
                started=started,
                seconds=round(time.time() - started, 3),
                wishes=wishes,
            ),
        )

    def _write(
        self,
        archive: Archive,
        session: SparkSession,
        attempt: str,
        files: list[File],
        found: Mapping[str, Kind],
        state: State,
    ) -> str | None:
        """Write the tables that are made of the facts in these files; return where it says who
        wants what after them."""
        facts = archive.stored(session, FACTS, files)
        rows = {
            name: table.make(facts.where(F.col("kind").isin(*table.kind_names)))
            for name, table in TABLES.items()
            if table.make is not None and table.kind_names & found.keys()
        }
        kept = state.batch.wishes if state.batch is not None else None
        wishes = KNOWN.taken(archive, kept)
        if {kind.__name__ for kind in match_counts.CHANGES} & found.keys():
            wishes.follow(match_counts.changes_in(facts))
            kept = archive.wish(attempt, wishes.table())
        if wishes.spans and f.Accepted.__name__ in found:
            accepted = facts.where(F.col("kind") == f.Accepted.__name__)
            rows["matches"] = match_counts.count(accepted, wishes)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            writes = [
                pool.submit(archive.write, TABLES[name], attempt, rows[name]) for name in rows
            ]
            for write in writes:
                write.result()
        KNOWN.put(archive, kept, wishes)
        return kept


class Known:
    """Who wants what as of the last batch, if this process has written it: to read it again costs
    more than a small batch. It is by the file that says so, which is never written twice."""

    def __init__(self) -> None:
        self._path = ""
        self._wishes = Wishes()
        self._lock = threading.Lock()

    def taken(self, archive: Archive, path: str | None) -> Wishes:
        """What a file says, for whoever changes it now."""
        with self._lock:
            wishes, self._wishes = self._wishes, Wishes()
            known, self._path = self._path, ""
        if path is not None and known == archive.storage.uri(path):
            wishes.go_on()
            return wishes
        return Wishes.read(archive.wishes(path))

    def put(self, archive: Archive, path: str | None, wishes: Wishes) -> None:
        if path is not None:
            with self._lock:
                self._path, self._wishes = archive.storage.uri(path), wishes


KNOWN = Known()


class Kind(NamedTuple):
    """How many facts of a kind there are, their first and last number, and their latest time."""

    facts: int
    first: int
    last: int
    at: float


def _kinds(archive: Archive, session: SparkSession, files: list[File]) -> dict[str, Kind]:
    """What is in a batch. A small one is looked at here: a job of Spark takes longer."""
    if sum(file.bytes for file in files) > LOOKED_AT_BYTES:
        facts = archive.stored(session, FACTS, files).select("kind", "number", "at")
        counted = facts.groupBy("kind").agg(
            F.count("*"), F.min("number"), F.max("number"), F.max("at")
        )
        return {kind: Kind(*rest) for kind, *rest in counted.collect()}
    parts = [archive.storage.columns(file.path, ["kind", "number", "at"]) for file in files]
    if not parts:
        return {}
    asked = [("number", "count"), ("number", "min"), ("number", "max"), ("at", "max")]
    table = pa.concat_tables(parts).group_by("kind").aggregate(asked)
    columns = (table[name].to_pylist() for name in ("kind", *("_".join(each) for each in asked)))
    return {kind: Kind(*rest) for kind, *rest in zip(*columns, strict=True)}


@contextmanager
def keeping(
    session: SparkSession,
    source: Mapping[str, str],
    root: str,
    *,
    once: bool = False,
    seconds: float = 1.0,
) -> Iterator[StreamingQuery]:
    """The query that keeps the tables under `root` up to date, which is stopped in the end. With
    `once` it ends by itself when it has caught up with the facts that are there."""
    archive = Archive(root)
    archive.storage.make()
    with lease.held(archive.storage, lease.WRITER):
        state = archive.state()
        Checkpoint(archive.storage).check(state)
        journal = _journal(source, root, state)
        reader = register(session).readStream.format("headgate").options(**source)
        if state.upto:
            reader = reader.option("startingOffset", str(state.upto + 1))
        writer = (
            reader.load()
            .writeStream.option("checkpointLocation", f"{root}/{checkpoint.FOLDER}")
            .queryName("headgate")
            .foreachBatch(Keeper(root, journal, time.time()))
        )
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds")
        query = started(writer.start)
        try:
            yield query
        finally:
            query.stop()


def _journal(source: Mapping[str, str], root: str, state: State) -> str:
    """The identity of the journal, if it is the one that the tables are made of."""
    found = feed_of(source).look().identity
    known = state.batch.journal if state.batch is not None else ""
    if found and known and found != known:
        raise PipelineError(
            f"the tables in {root} are made of the journal {known}, and this is {found}: name the"
            " right journal, or keep the tables of this one in a folder of their own"
        )
    return found or known

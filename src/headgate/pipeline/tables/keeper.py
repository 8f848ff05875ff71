"""Keeping the tables: one streaming query that turns each batch of facts into rows of all of them.

An attempt at a batch writes its rows where nobody looks, and then commits one manifest that names
them all. If anything dies in between, the batch is repeated with the same facts, and finds that it
is there, or that it is not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import PipelineError
from headgate.pipeline.source.feed import feed_of
from headgate.pipeline.source.format import register
from headgate.pipeline.source.starting import started
from headgate.pipeline.source.weight import is_light
from headgate.pipeline.tables import checkpoint, lease, stopping
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.archive import Archive, attempt_of
from headgate.pipeline.tables.batch_facts import (
    ACCEPTED,
    FACTS,
    BatchFacts,
    HeldFacts,
    WrittenFacts,
)
from headgate.pipeline.tables.checkpoint import Checkpoint
from headgate.pipeline.tables.manifests import Batch, State
from headgate.pipeline.tables.tables import TABLES
from headgate.pipeline.tables.wishes import CHANGES, Wishes, changes_since_start

AT_ONCE = 4
"""Tables that are written at the same time: much of a small write is waiting."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """The keeper of the tables, which Spark calls with each batch. It travels to wherever Spark
    calls it."""

    root: str
    journal: str = ""
    """The identity of the journal that the facts are of."""
    since: float = float("inf")
    """When the pipeline started. One that was asked to stop after that does no more batches."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Where the facts are read from, to see whether a batch is light; without it none is."""

    def __call__(self, facts: DataFrame, batch: int) -> None:
        started = time.time()
        archive = Archive(self.root)
        stopping.check(archive.storage, self.since)
        state, marks = archive.state(), Checkpoint(archive.storage)
        query = marks.query or ""
        if state.has(query, batch):
            return  # it died after the manifest, and before Spark noted that
        attempt, offset = attempt_of(batch), marks.offset(batch)
        found: BatchFacts
        if (
            offset is not None
            and self.source
            and is_light(feed_of(self.source), state.upto, offset)
        ):
            found = HeldFacts(archive, attempt, facts)
        else:
            found = WrittenFacts(archive, attempt, facts)
        kinds = found.kinds.values()
        first = min((kind.first for kind in kinds), default=state.upto + 1)
        last = max((kind.last for kind in kinds), default=state.upto)
        after, upto = min(first - 1, state.upto), max(last, offset or 0)
        wanted = _write(archive, attempt, found, state)
        archive.commit(
            {table.name: archive.written(table, attempt, after, upto) for table in TABLES.values()},
            batch=Batch(
                number=batch,
                query=query,
                journal=self.journal,
                after=after,
                upto=upto,
                facts=sum(kind.facts for kind in kinds),
                at=max((kind.at for kind in kinds), default=None),
                started=started,
                seconds=round(time.time() - started, 3),
                wishes=wanted,
                seen=state.number,
            ),
        )


def _write(archive: Archive, attempt: str, found: BatchFacts, state: State) -> str | None:
    """Write the tables that are made of these facts; return where it says who wants what after
    them."""
    rows = {
        name: table.make(t.of_kinds(found.frame, table.kind_names))
        for name, table in TABLES.items()
        if table.make is not None and table.kind_names & found.kinds.keys()
    }
    kept = state.batch.wishes if state.batch is not None else None
    wishes = KNOWN.taken(archive, kept)
    if state.is_revised:
        stored = archive.stored(found.frame.sparkSession, FACTS, state.table(FACTS.name))
        wishes.follow(changes_since_start(stored, state.upto))
        wishes.go_on()
    if found.kinds.keys() & CHANGES:
        wishes.follow(found.changes())
    if state.is_revised or found.kinds.keys() & CHANGES:
        kept = archive.wish(attempt, wishes.table())
    if wishes.spans and ACCEPTED in found.kinds:
        rows["matches"] = found.matches(wishes)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        writes = [pool.submit(found.write, TABLES[name], rows[name]) for name in rows]
        for write in writes:
            write.result()
    KNOWN.put(archive, kept, wishes)
    return kept


class Known:
    """A cache of who wants what as of the last batch, if this process has written it: to read it
    again costs more than a small batch. It is by the file that says so, which is never written
    twice."""

    def __init__(self) -> None:
        self._path = ""
        self._wishes = Wishes()
        self._lock = threading.Lock()

    def taken(self, archive: Archive, path: str | None) -> Wishes:
        """The contents of a file, for a change of it."""
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


def check(source: Mapping[str, str], root: str) -> None:
    """Raise what would stand in the way of keeping the tables, as far as it is seen without
    Spark."""
    feed_of(source).look()  # nothing is made for a journal that is not there
    archive = Archive(root)
    archive.storage.make()
    with lease.held(archive.storage, lease.WRITER):
        _agreed(archive, source)


@contextmanager
def keeping(
    session: SparkSession,
    source: Mapping[str, str],
    root: str,
    *,
    once: bool = False,
    seconds: float = 0.2,
) -> Iterator[StreamingQuery]:
    """The query that keeps the tables under `root` up to date, which is stopped in the end. With
    `once` it ends by itself when it has caught up with the facts that are there."""
    archive = Archive(root)
    archive.storage.make()
    with lease.held(archive.storage, lease.WRITER):
        state, journal = _agreed(archive, source)
        reader = register(session).readStream.format("headgate").options(**source)
        if state.upto:
            reader = reader.option("startingOffset", str(state.upto + 1))
        writer = (
            reader.load()
            .writeStream.option("checkpointLocation", f"{root}/{checkpoint.FOLDER}")
            .queryName("headgate")
            .foreachBatch(Keeper(root, journal, time.time(), source))
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


def _agreed(archive: Archive, source: Mapping[str, str]) -> tuple[State, str]:
    """The state of the tables and the identity of the journal, if the checkpoint fits the one and
    the tables are made of the other."""
    state = archive.state()
    Checkpoint(archive.storage).check(state)
    listing = feed_of(source).look()
    found = listing.identity
    known = state.journal
    if found and known and found != known:
        raise PipelineError(
            f"the tables in {archive.storage.root} are made of the journal {known}, and this is"
            f" {found}: name the right journal, or keep the tables of this one in a folder of their"
            " own"
        )
    last = max((last for _, last in listing.ranges), default=state.upto)
    if last < state.upto:  # as one from before journals had identities
        raise PipelineError(
            f"the journal ends with fact {last}, and the tables in {archive.storage.root} hold the"
            f" facts up to {state.upto}: it is not the journal that they are made of; name the"
            " right one, or keep the tables of this one in a folder of their own"
        )
    return state, found or known

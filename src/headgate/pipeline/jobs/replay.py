"""History sent again: messages of the journal, through the sink, once.

A replay is a job: what an expression chooses of a domain, for a queue. Each run of it is for a
window of time, up to the fact that was the last when it began, and leaves out what earlier runs
were for. A run is a stream with a checkpoint of its own; one that was interrupted goes on where it
was.

    _replays/JOB/0/run.json       what the run is for
    _replays/JOB/0/checkpoint/    Spark's
    _replays/JOB/0/done.json      it has sent everything
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headgate.core import facts as f
from headgate.core.model.limits import MiB
from headgate.errors import PipelineError
from headgate.expr.predicate import Predicate
from headgate.pipeline.jobs.sink import TOO_LARGE
from headgate.pipeline.routing.columns import in_map, matches
from headgate.pipeline.source.feed import feed_of
from headgate.pipeline.source.format import register
from headgate.pipeline.source.starting import started
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.storage import Storage

FACTS_AT_ONCE = 20_000
"""Facts of one batch: it becomes one transaction of the router."""

BYTES_AT_ONCE = 16 * MiB
"""And bytes of its messages: half of what a router takes unless it is told otherwise."""

SMALLER = 8
"""A batch that the router finds too large is tried again as so many."""

FOLDER = "_replays"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The messages to send again, and where to."""

    domain: str
    to: str
    predicate: Predicate | None = None
    since: float = 0.0
    until: float | None = None

    @property
    def job(self) -> str:
        """Its name: the same expression and the same queue are the same replay, from whenever. So
        if "the last 7 days" are replayed twice, six of them do not come twice."""
        text = self.predicate.text if self.predicate is not None else ""
        parts = (self.domain, self.to, text)
        return "replay-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class Run(msgspec.Struct, frozen=True):
    """One run of a job: a window of time, up to a fact."""

    since: float
    until: float | None
    upto: int

    def covers(self) -> Column:
        """Whether a fact is in it."""
        is_in = (F.col("at") >= self.since) & (F.col("number") <= self.upto)
        return is_in if self.until is None else is_in & (F.col("at") < self.until)


@dataclass(frozen=True, slots=True)
class Found:
    """Counts of the messages that the journal has for a run."""

    messages: int
    """In its window."""
    bodiless: int
    """Of those, without a body: they cannot be sent."""
    before: int
    """Of the others, what earlier runs of the job were for."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of a call of `play`: what it found, and how much it sent."""

    found: Found
    sent: int
    resumed: int = 0
    """Sent besides, for an earlier run that had been interrupted."""

    @property
    def missing(self) -> int:
        """Messages that should have been sent and were not."""
        return self.found.messages - self.found.bodiless - self.found.before - self.sent


def chosen(facts: DataFrame, wanted: Wanted, run: Run, earlier: Sequence[Run] = ()) -> DataFrame:
    """The messages of a run, with those whose body was not kept; `before` says whether an earlier
    run was for them."""
    rows = facts.where((F.col("kind") == f.Accepted.__name__) & run.covers())
    rows = rows.where(t.domain_of(F.col("queue")) == wanted.domain)
    if wanted.predicate is not None:
        rows = rows.where(matches(wanted.predicate.tree, in_map()))
    before = F.lit(False)
    for each in earlier:
        before = before | each.covers()
    return rows.select("body", "properties", before.alias("before"))


class Job:
    """The runs of a job, on disk."""

    def __init__(self, root: str, name: str) -> None:
        self.storage = Storage(root)
        self.name = name
        self.folder = f"{FOLDER}/{name}"
        if self.storage.read(f"{self.folder}/metadata") is not None:
            raise PipelineError(
                f"{self.storage.uri(self.folder)} is of a replay by an older Headgate, which does"
                " not say what it was for: name another with --job, or remove it to send all again"
            )

    def runs(self) -> list[Run]:
        """All runs that were ever begun, oldest first."""
        found: list[Run] = []
        while (data := self.storage.read(f"{self.folder}/{len(found)}/run.json")) is not None:
            found.append(msgspec.json.decode(data, type=Run))
        return found

    def begin(self, number: int, run: Run) -> None:
        if not self.storage.put(f"{self.folder}/{number}/run.json", msgspec.json.encode(run)):
            raise PipelineError(f"another replay of {self.name} has just begun: let it end first")

    def is_done(self, number: int) -> bool:
        return self.storage.read(f"{self.folder}/{number}/done.json") is not None

    def end(self, number: int, sent: int) -> None:
        self.storage.put(f"{self.folder}/{number}/done.json", msgspec.json.encode({"sent": sent}))

    def checkpoint(self, number: int) -> str:
        return self.storage.uri(f"{self.folder}/{number}/checkpoint")

    def unplan(self, number: int) -> None:
        """Have Spark plan the last batch of a run anew, which the router has refused."""
        offsets = f"{self.folder}/{number}/checkpoint/offsets"
        batch = max(int(name) for name in self.storage.names(offsets) if name.isdecimal())
        for name in (f"{batch}", f".{batch}.crc"):
            self.storage.delete(f"{offsets}/{name}")


class Tally:
    """A count of the messages that a query has sent. Spark tells of the latest batches only, so it
    is asked again and again."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._sent: dict[int, int] = {}

    def total(self) -> int:
        for progress in self._query.recentProgress:
            observed = progress.observedMetrics.get("replay")
            if observed is not None:
                self._sent[progress.batchId] = observed.sent
        return sum(self._sent.values())


Follow: TypeAlias = Callable[[StreamingQuery, Tally], None]
"""Wait for a query to end, and raise what ended it; the tally is looked at now and then."""


def play(
    session: SparkSession,
    source: Mapping[str, str],
    sink: Mapping[str, str],
    root: str,
    wanted: Wanted,
    follow: Follow,
    job: str | None = None,
) -> Sent:
    """Send what is wanted and was not sent before. An earlier run that was interrupted is brought
    to its end first. `source` and `sink` say where the journal and the router are; what was sent
    is kept under `root`."""
    kept = Job(root, job or wanted.job)
    kept.storage.make()
    runs = kept.runs()
    resumed = 0
    if runs and not kept.is_done(len(runs) - 1):
        resumed = _ran(session, source, sink, wanted, kept, len(runs) - 1, follow)
    last = max((end for _, end in feed_of(source).look().ranges), default=0)
    run = Run(wanted.since, wanted.until, last)
    found = look(session, source, wanted, run, runs)
    if found.messages == found.bodiless + found.before:
        return Sent(found, 0, resumed)
    kept.begin(len(runs), run)
    sent = _ran(session, source, sink, wanted, kept, len(runs), follow)
    return Sent(found, sent, resumed)


def look(
    session: SparkSession,
    source: Mapping[str, str],
    wanted: Wanted,
    run: Run,
    earlier: Sequence[Run] = (),
) -> Found:
    """How many messages there are for a run; raises if none of them has a body."""
    facts = register(session).read.format("headgate").options(**source).load()
    is_bodiless = F.col("body").isNull()
    (row,) = (
        chosen(facts, wanted, run, earlier)
        .agg(
            F.count("*").alias("messages"),
            F.count_if(is_bodiless).alias("bodiless"),
            F.count_if(~is_bodiless & F.col("before")).alias("before"),
        )
        .collect()
    )
    if row.messages and row.messages == row.bodiless:
        raise PipelineError(
            f"the journal has {row.messages} of these messages and no body of any: bodies are kept"
            f' from the moment that [domains."{wanted.domain}"] says journal_bodies = true'
        )
    return Found(row.messages, row.bodiless, row.before)


def _ran(
    session: SparkSession,
    source: Mapping[str, str],
    sink: Mapping[str, str],
    wanted: Wanted,
    kept: Job,
    number: int,
    follow: Follow,
) -> int:
    """Bring a run to its end, in smaller batches if the router takes no larger ones; say how many
    messages that sent."""
    *earlier, run = kept.runs()[: number + 1]
    facts_most, bytes_most = FACTS_AT_ONCE, BYTES_AT_ONCE
    sent = 0
    while True:
        reader = register(session).readStream.format("headgate").options(**source)
        facts = reader.options(maxFacts=str(facts_most), maxBytes=str(bytes_most)).load()
        rows = chosen(facts, wanted, run, earlier)
        rows = rows.where(F.col("body").isNotNull() & ~F.col("before")).drop("before")
        writer = (
            rows.observe("replay", F.count("*").alias("sent"))
            .writeStream.format("headgate")
            .options(**sink)
            .option("queue", wanted.to)
            .option("checkpointLocation", kept.checkpoint(number))
            .trigger(availableNow=True)
        )
        query = started(writer.start)
        tally = Tally(query)
        try:
            follow(query, tally)
            break
        except StreamingQueryException as error:
            if TOO_LARGE not in str(error) or facts_most == 1:
                raise
            kept.unplan(number)
            facts_most, bytes_most = max(1, facts_most // SMALLER), bytes_most // SMALLER
        finally:
            query.stop()
            sent += tally.total()
    kept.end(number, sent)
    return sent

"""History sent again: messages of the journal, through the sink, once.

A replay is a stream with a name and a checkpoint. One that was interrupted goes on where it was;
one that is run again finds nothing to do but what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headgate.core import facts as f
from headgate.errors import PipelineError
from headgate.expr.predicate import Predicate
from headgate.pipeline.routing.columns import in_map, matches
from headgate.pipeline.source.format import register
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.storage import Storage

FACTS_AT_ONCE = 20_000
"""Facts of one batch: it becomes one transaction of the router."""

FOLDER = "_replays"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages, and where to."""

    domain: str
    to: str
    predicate: Predicate | None = None
    since: float = 0.0
    until: float | None = None

    @property
    def job(self) -> str:
        """A name for it: what the same expression chooses for the same queue is the same replay,
        since whenever. Who runs "the last 7 days" twice does not want six of them twice."""
        text = self.predicate.text if self.predicate is not None else ""
        parts = (self.domain, self.to, text)
        return "replay-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def chosen(facts: DataFrame, wanted: Wanted) -> DataFrame:
    """The messages to send, with those whose body was not kept."""
    rows = facts.where((F.col("kind") == f.Accepted.__name__) & (F.col("at") >= wanted.since))
    if wanted.until is not None:
        rows = rows.where(F.col("at") < wanted.until)
    rows = rows.where(t.domain_of(F.col("queue")) == wanted.domain)
    if wanted.predicate is not None:
        rows = rows.where(matches(wanted.predicate.tree, in_map()))
    return rows.select("body", "properties")


def check(session: SparkSession, source: Mapping[str, str], wanted: Wanted) -> tuple[int, int]:
    """How many messages there are, and how many of them lack a body; raises if all do."""
    facts = register(session).read.format("headgate").options(**source).load()
    (row,) = (
        chosen(facts, wanted)
        .agg(F.count("*").alias("found"), F.count_if(F.col("body").isNull()).alias("bodiless"))
        .collect()
    )
    if row.found and row.found == row.bodiless:
        raise PipelineError(
            f"the journal has {row.found} of these messages and no body of any: bodies are kept"
            f' from the moment that [domains."{wanted.domain}"] says journal_bodies = true'
        )
    return row.found, row.bodiless


def start(
    session: SparkSession,
    source: Mapping[str, str],
    sink: Mapping[str, str],
    root: str,
    wanted: Wanted,
    job: str | None = None,
) -> StreamingQuery:
    """Start sending; the query ends when everything is sent. `source` and `sink` say where the
    journal and the router are; the checkpoint is kept under `root`."""
    Storage(root).make()
    reader = register(session).readStream.format("headgate").options(**source)
    facts = reader.option("maxFacts", str(FACTS_AT_ONCE)).load()
    rows = chosen(facts, wanted).where(F.col("body").isNotNull())
    writer = rows.observe("replay", F.count("*").alias("sent")).writeStream.format("headgate")
    return (
        writer.options(**sink)
        .option("queue", wanted.to)
        .option("checkpointLocation", f"{root}/{FOLDER}/{job or wanted.job}")
        .trigger(availableNow=True)
        .start()
    )


def sent(query: StreamingQuery) -> int:
    """How many messages a query has sent so far."""
    observed = (progress.observedMetrics.get("replay") for progress in query.recentProgress)
    return sum(row.sent for row in observed if row is not None)

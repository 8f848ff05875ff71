"""Checks of the tables: each fact once, each row of its fact, each end of a message that came.

A check is a row: what was expected, what was found, and an address to look at first if they differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core import facts as f
from headgate.core.model.drift import Drift
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.manifests import State
from headgate.pipeline.tables.tables import TABLES

SCHEMA = "`check` string, `table` string, expected bigint, found bigint, example string"

ENDS = ("confirmed", "auto-confirmed", "poisoned", "expired", "purged")
"""Outcomes after which an app, or everybody, has done with a message."""


TOGETHER = (f.QueueDeleted, f.AppRemoved, f.GroupDropped, f.Skipped, f.Trimmed)
"""Facts after which messages are gone that have no end of their own."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The messages of a store at a moment, for comparison with the tables."""

    rows: DataFrame
    """Queue, message, and the apps that it waits for, as `take_messages` of the snapshot has
    them."""
    upto: int
    """The last fact before that moment."""


def checks(
    session: SparkSession, archive: Archive, unreadable: int = 0, kept: Kept | None = None
) -> DataFrame:
    """A row for each check: its name, the table, what was expected and found, whether that is
    right, and an address if not. `unreadable` are segments of the journal that were left out;
    `kept` is what the router's store has, if the tables are as far as that."""
    state = archive.state()
    frames = {name: archive.read(session, table, state) for name, table in TABLES.items()}
    rows = [
        session.createDataFrame(
            [
                ("no segment was left out", "facts", 0, unreadable, None),
                ("batches follow each other", "facts", 0, _gaps(state), None),
            ],
            SCHEMA,
        ),
        _once(frames["facts"]),
        *(_of_facts(frames, name) for name in ("messages", "deliveries")),
        _minutes(frames),
        _ended_once(frames["deliveries"]),
        _drift(frames["services"]),
    ]
    is_whole = _is_from_the_beginning(state)
    if is_whole:
        rows.append(_ended_after_it_came(frames))
    if kept is not None:
        rows += _of_store(frames, kept, is_whole)
    both = reduce(DataFrame.unionByName, rows)
    is_right = F.col("expected") == F.col("found")
    return both.withColumn("is_right", is_right).orderBy("table", "check")


def _gaps(state: State) -> int:
    """Batches that do not begin where the one before them ended; of the latest ones."""
    return sum(one.upto != other.after for one, other in pairwise(state.recent))


def _is_from_the_beginning(state: State) -> bool:
    """Whether messages that ended can be expected to be there."""
    return min((file.after for file in state.table("facts")), default=1) == 0


def _row(
    found: DataFrame, check: str, table: str, expected: Column, counted: Column, example: Column
) -> DataFrame:
    return found.agg(
        F.lit(check).alias("check"),
        F.lit(table).alias("table"),
        expected.cast("bigint").alias("expected"),
        counted.cast("bigint").alias("found"),
        example.cast("string").alias("example"),
    )


def _none(found: DataFrame, check: str, table: str) -> DataFrame:
    """There should be none of these, which have an address."""
    return _row(found, check, table, F.lit(0), F.count("*"), F.min("address"))


def _once(facts: DataFrame) -> DataFrame:
    numbers = F.count_distinct("number")
    return _row(facts, "each fact is there once", "facts", numbers, F.count("*"), F.lit(None))


def _of_facts(frames: dict[str, DataFrame], name: str) -> DataFrame:
    kinds = TABLES[name].kind_names
    wanted = frames["facts"].agg(F.count_if(F.col("kind").isin(*kinds)).alias("wanted"))
    rows = frames[name].agg(F.count("*").alias("rows")).crossJoin(wanted)
    expected, found = F.first("wanted"), F.first("rows")
    return _row(rows, "a row for each fact", name, expected, found, F.lit(None))


def _minutes(frames: dict[str, DataFrame]) -> DataFrame:
    kinds = TABLES["minutes"].kind_names
    wanted = frames["facts"].agg(F.count_if(F.col("kind").isin(*kinds)).alias("wanted"))
    total = reduce(Column.__add__, (F.col(name) for name in t.COUNTED))
    counted = frames["minutes"].agg(F.coalesce(F.sum(total), F.lit(0)).alias("counted"))
    rows = counted.crossJoin(wanted)
    expected, found = F.first("wanted"), F.first("counted")
    return _row(rows, "the counts of minutes add up", "minutes", expected, found, F.lit(None))


def _ended(deliveries: DataFrame) -> DataFrame:
    return deliveries.where(F.col("outcome").isin(*ENDS))


def _ended_once(deliveries: DataFrame) -> DataFrame:
    ends = _ended(deliveries).groupBy("address", "app", "message").agg(F.count("*").alias("ends"))
    return _none(ends.where(F.col("ends") > 1), "a message ends once", "deliveries")


def _ended_after_it_came(frames: dict[str, DataFrame]) -> DataFrame:
    """Then what was accepted is what has ended and what waits."""
    came = frames["messages"].select("address", "message")
    lost = _ended(frames["deliveries"]).join(came, ["address", "message"], "left_anti")
    return _none(lost, "what ended was accepted", "deliveries")


def _of_store(frames: dict[str, DataFrame], kept: Kept, is_whole: bool) -> Iterator[DataFrame]:
    """What was accepted is in the store, or has ended: in each queue, message by message."""
    stored = kept.rows.select(
        t.address_of(F.col("queue")).alias("address"),
        "message",
        F.from_json("apps", "array<string>").alias("apps"),
    )
    before = F.col("number") <= kept.upto
    came = frames["messages"].where(before).select("address", "message", "number")
    ended = _ended(frames["deliveries"]).where(before)
    both = ["address", "message"]
    if is_whole:
        unknown = stored.join(came, both, "left_anti")
        yield _none(unknown, "what the store has was accepted", "messages")
    gone = came.join(stored, both, "left_anti").join(ended, both, "left_anti")
    kinds = frozenset(kind.__name__ for kind in TOGETHER)
    together = t.of_kinds(frames["facts"], kinds).select(
        t.address_of(F.col("queue")).alias("address")
    )
    lost = gone.join(together, "address", "left_anti")
    yield _none(lost, "what is accepted is stored until it ends", "messages")
    # Of queues with apps, a group may be moved back to what it has had.
    waiting = stored.where(F.array_contains("apps", ""))
    last = came.groupBy(*both).agg(F.max("number").alias("came"))  # one may come again
    done = ended.where(F.coalesce("app", F.lit("")) == "").join(last, both)
    risen = done.where(F.col("number") > F.col("came")).join(waiting, both, "left_semi")
    yield _none(risen, "what has ended does not wait", "messages")


def _drift(services: DataFrame) -> DataFrame:
    drifted = services.where(F.col("drift") != Drift.NONE.value)
    found = drifted.withColumn("address", F.col("service"))
    return _none(found, "tallies of services agree", "services")

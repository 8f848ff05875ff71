"""Facts to rows: one function for each table. A transform takes the facts of its kinds.

Times are seconds in the journal and timestamps here; days are days in UTC, whatever the time
zone of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headgate.core import facts as f
from headgate.core import ntf_facts as n
from headgate.core.facts import Fact

SECONDS_OF_DAY = 86_400

Columns: TypeAlias = tuple[Column, ...]
Step: TypeAlias = Callable[[DataFrame], DataFrame]


def once(make: Callable[[], Columns]) -> Callable[[], Columns]:
    """Columns that are written once for each Java that has them: to write them takes longer than a
    small batch takes to be worked out."""

    @lru_cache(maxsize=1)
    def made(java: int) -> Columns:
        return make()

    return lambda: made(id(SparkContext._gateway))


@lru_cache(maxsize=64)
def _among(kinds: frozenset[str], java: int) -> Column:
    return F.col("kind").isin(*sorted(kinds))


def of_kinds(facts: DataFrame, kinds: Iterable[str]) -> DataFrame:
    """The facts of some kinds."""
    return facts.where(_among(frozenset(kinds), id(SparkContext._gateway)))


def time_of(at: Column) -> Column:
    return F.timestamp_seconds(at)


def day_of(at: Column) -> Column:
    return F.date_from_unix_date(F.floor(at / SECONDS_OF_DAY).cast("int"))


def address_of(queue: Column) -> Column:
    text = queue.cast("string")
    return F.when(text.startswith("bmq://"), F.make_valid_utf8(text)).otherwise(
        F.lower(F.hex(queue))
    )


def domain_of(queue: Column) -> Column:
    found = F.regexp_extract(F.make_valid_utf8(queue.cast("string")), "^bmq://([^/]+)/", 1)
    return F.when(found != "", found)


def _rows(columns: Callable[[], Columns]) -> Step:
    """A row for each fact: its number, time and day, and these columns."""

    @once
    def made() -> Columns:
        at = F.col("at")
        return F.col("number"), time_of(at).alias("time"), *columns(), day_of(at).alias("day")

    return lambda facts: facts.select(*made())


def _event(names: Mapping[Any, str]) -> Column:
    """The event in the words of a table, by kind of fact, of a router or another server."""
    chosen = F.lit(None).cast("string")
    for kind, name in names.items():
        chosen = F.when(F.col("kind") == kind.__name__, F.lit(name)).otherwise(chosen)
    return chosen.alias("event")


# Facts and messages.


@once
def _moments() -> Columns:
    return F.col("*"), time_of(F.col("at")).alias("time"), day_of(F.col("at")).alias("day")


def facts(facts: DataFrame) -> DataFrame:
    return facts.select(*_moments())


@_rows
def messages() -> Columns:
    return (
        address_of(F.col("queue")).alias("address"),
        domain_of(F.col("queue")).alias("domain"),
        F.col("message"),
        F.col("size"),
        F.col("properties"),
        F.col("body"),
    )


OUTCOMES: Mapping[type[Fact], str] = {
    f.Confirmed: "confirmed",
    f.AutoConfirmed: "auto-confirmed",
    f.Returned: "returned",
    f.Poisoned: "poisoned",
    f.Expired: "expired",
    f.Purged: "purged",
}


@_rows
def deliveries() -> Columns:
    is_end = F.col("kind") == f.Confirmed.__name__
    age = F.when(is_end, F.col("age")).when(F.col("kind") == f.Expired.__name__, F.col("seconds"))
    return (
        address_of(F.col("queue")).alias("address"),
        domain_of(F.col("queue")).alias("domain"),
        F.col("app"),
        F.col("message"),
        F.col("session"),
        _event(OUTCOMES).alias("outcome"),
        age.alias("seconds_in_queue"),
        F.when(is_end, F.col("seconds")).alias("seconds_to_confirm"),
    )


# Subscriptions over time.

CHANGES: Mapping[type[Fact], str] = {
    f.RouterStarted: "restart",
    f.Subscribed: "began",
    f.Interested: "wants",
    f.Unsubscribed: "ended",
    f.ChannelSubscribed: "began",
    f.ChannelUnsubscribed: "ended",
}


@_rows
def subscriptions() -> Columns:
    is_channel = F.col("kind").startswith("Channel")
    channel = F.make_valid_utf8(F.col("channel").cast("string"))
    return (
        F.when(is_channel, F.col("family")).otherwise(F.lit("queue")).alias("family"),
        F.when(is_channel, channel).otherwise(address_of(F.col("queue"))).alias("address"),
        F.coalesce(F.col("app"), F.lit("")).alias("app"),
        F.col("session"),
        _event(CHANGES),
        F.coalesce(F.col("place"), F.lit(0)).alias("place"),
        F.coalesce(F.col("places"), F.lit(1)).alias("places"),
        F.col("expression"),
        F.col("priority"),
        F.lit(None).cast("timestamp").alias("until"),
    )


OVER = "over"
"""The event of a row that is a whole subscription, with its end; see `folded`."""


def _lives(rows: DataFrame) -> DataFrame:
    """The event that began each subscription, and when it ended: the session changed or ended its
    subscriptions of this address, or the router started anew. Subscriptions that a session sets at
    once begin and end together."""
    restart = F.struct("number", "time")
    restarts = rows.where(F.col("event") == "restart").agg(
        F.sort_array(F.collect_list(restart)).alias("restarts")
    )
    # A queue's "began" is followed by what the session wants of it.
    is_shown = ((F.col("event") == "began") & (F.col("family") != "queue")) | F.col("event").isin(
        "wants", "ended"
    )
    shown = rows.where(is_shown).crossJoin(F.broadcast(restarts))
    life = F.size(F.filter("restarts", lambda each: each["number"] < F.col("number")))
    who = Window.partitionBy("life", "session", "family", "address", "app")
    is_first = (F.col("event") != "wants") | (F.col("place") == 0)
    sets = shown.withColumn("life", life).withColumn(
        "set", F.sum(is_first.cast("int")).over(who.orderBy("number"))
    )
    ended = F.min("time").over(who.orderBy("set").rangeBetween(1, 1))
    restarted = F.get("restarts", F.col("life"))["time"]
    return sets.withColumn("until", F.coalesce(ended, restarted)).where(
        (F.col("event") != "ended") & (F.col("places") > 0)
    )


def _events(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("event") != OVER).drop("until")


def spans(rows: DataFrame) -> DataFrame:
    """Each subscription with its end: those that are over as they are, the others out of events."""
    over = rows.where(F.col("event") == OVER)
    both = over.unionByName(_lives(_events(rows)).select(rows.columns))
    return both.select(
        F.col("time").alias("since"),
        "until",
        "family",
        "address",
        "app",
        "session",
        "expression",
        "priority",
        "day",
    )


def lasting(rows: DataFrame) -> DataFrame:
    """The events of subscriptions that have not ended."""
    return _lives(_events(rows)).where(F.col("until").isNull()).select(rows.columns)


def folded(rows: DataFrame) -> DataFrame:
    """Subscriptions that have ended, as rows that need no other event any more."""
    ended = _lives(_events(rows)).where(F.col("until").isNotNull())
    return ended.withColumn("event", F.lit(OVER)).select(rows.columns)


# Counts by minute.

COUNTED: Mapping[str, type[Fact]] = {
    "accepted": f.Accepted,
    "repeated": f.Repeated,
    "refused": f.Refused,
    "delivered": f.Delivered,
    "confirmed": f.Confirmed,
    "auto_confirmed": f.AutoConfirmed,
    "returned": f.Returned,
    "expired": f.Expired,
    "poisoned": f.Poisoned,
    "put_aside": f.PutAside,
}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@once
def _minute() -> Columns:
    at = F.col("at")
    return (
        time_of(F.floor(at / 60) * 60).alias("minute"),
        address_of(F.col("queue")).alias("address"),
        day_of(at).alias("day"),
    )


@once
def _counts() -> Columns:
    counts = [
        F.count_if(F.col("kind") == kind.__name__).alias(name) for name, kind in COUNTED.items()
    ]
    is_again = (F.col("kind") == f.Delivered.__name__) & (F.col("attempts") > 0)
    size = F.when(F.col("kind") == f.Accepted.__name__, F.col("size")).otherwise(0)
    seconds = F.when(F.col("kind") == f.Confirmed.__name__, F.col("seconds"))
    return (
        *counts,
        F.count_if(is_again).alias("redelivered"),
        F.sum(size).alias("bytes"),
        F.kll_sketch_agg_double(seconds).alias("sketch"),
    )


def minutes(facts: DataFrame) -> DataFrame:
    """The share of a batch in each minute. The times to confirm are a sketch, since quantiles
    of parts do not add up and sketches do."""
    return facts.groupBy(*_minute()).agg(*_counts())


def whole_minutes(parts: DataFrame) -> DataFrame:
    sums = [F.sum(name).alias(name) for name in (*COUNTED, "redelivered", "bytes")]
    whole = parts.groupBy("minute", "address", "day").agg(
        *sums, F.kll_merge_agg_double("sketch").alias("sketch")
    )
    quantiles = [
        F.when(
            F.col("confirmed") > 0, F.kll_sketch_get_quantile_double("sketch", F.lit(rank))
        ).alias(name)
        for name, rank in QUANTILES.items()
    ]
    return whole.select("minute", "address", *COUNTED, "redelivered", "bytes", *quantiles, "day")


# Channels, displacements, pressure, services.


@_rows
def channels() -> Columns:
    return (
        F.make_valid_utf8(F.col("channel").cast("string")).alias("channel"),
        F.col("channels"),
        F.col("published"),
        F.col("size").alias("bytes"),
        F.col("deliveries"),
        F.col("receivers_max"),
    )


@_rows
def displacements() -> Columns:
    return (
        address_of(F.col("queue")).alias("address"),
        F.lower(F.hex("service")).alias("service"),
        F.col("session"),
        F.col("by"),
        F.col("count").alias("queues"),
    )


PRESSURE: Mapping[type[Fact], str] = {
    f.SessionSlowed: "slowed",
    f.SessionEased: "eased",
    f.PublisherWaited: "publisher waited",
    f.SessionEvicted: "evicted",
    f.MessagesDiscarded: "discarded",
    f.CapacityChanged: "capacity",
    f.QueueStuck: "stuck",
    f.QueueMoved: "moved",
    f.LimitReached: "limit",
}


@_rows
def pressure() -> Columns:
    return (
        _event(PRESSURE),
        address_of(F.col("queue")).alias("address"),
        F.col("app"),
        F.col("session"),
        F.col("by"),
        F.col("name"),
        F.coalesce(F.col("state"), F.col("reason")).alias("state"),
        F.coalesce(F.col("count"), F.col("size"), F.col("limit")).alias("amount"),
        F.col("seconds"),
        F.col("detail"),
    )


SERVICES: Mapping[type[Fact], str] = {
    f.ServiceSubscribed: "subscribed",
    f.ServiceDisplaced: "displaced",
    f.Associated: "associated",
    f.SweepEnded: "sweep ended",
}


@_rows
def services() -> Columns:
    return (
        _event(SERVICES),
        F.lower(F.hex("service")).alias("service"),
        address_of(F.col("queue")).alias("address"),
        F.col("session"),
        F.col("by"),
        F.col("count").alias("queues"),
        F.col("drift"),
    )


# Facts of a notification server.

TOKENS: Mapping[type[n.NtfFact], str] = {
    n.TokenRegistered: "registered",
    n.TokenChanged: "changed",
    n.TokenRemoved: "removed",
}


@_rows
def tokens() -> Columns:
    return (
        _event(TOKENS),
        F.lower(F.hex("token")).alias("token"),
        F.col("provider"),
        F.col("status"),
        F.col("count").alias("notifiers"),
    )


NOTIFIERS: Mapping[type[n.NtfFact], str] = {
    n.NotifierAdded: "added",
    n.NotifierEnded: "ended",
    n.NotifierRemoved: "removed",
    n.NotifiersActive: "active",
    n.NotifiersLost: "lost",
    n.ServiceForgotten: "service forgotten",
}


@_rows
def notifiers() -> Columns:
    return (
        _event(NOTIFIERS),
        F.col("router"),
        F.lower(F.hex("notifier")).alias("notifier"),
        F.lower(F.hex("token")).alias("token"),
        F.col("status"),
        F.coalesce(F.col("count"), F.lit(1)).alias("notifiers"),
    )


@_rows
def notices() -> Columns:
    return F.col("fate").alias("outcome"), F.col("count").alias("notices")


@_rows
def pushes() -> Columns:
    return (
        F.col("provider"),
        F.col("push"),
        F.col("outcome"),
        F.col("count").alias("pushes"),
    )

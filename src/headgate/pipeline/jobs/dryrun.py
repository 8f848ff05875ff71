"""A dry run of an expression: which messages of the journal it would have matched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.core import facts as f
from headgate.expr.predicate import Failure, Predicate
from headgate.pipeline.routing.columns import condition, failure, in_map
from headgate.pipeline.routing.routing import matching
from headgate.pipeline.routing.subscriptions import Subscription, Subscriptions
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.match_counts import plain

SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Question:
    """A subscription that is tried: its expression, domain, app and priority."""

    predicate: Predicate
    domain: str
    app: str | None = None
    """The app whose consumers it would compete with; without one, all of the queue's."""
    priority: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a dry run: how many messages the expression would have matched."""

    messages: int
    matched: int
    undecided: Mapping[str, int]
    """Errors by kind."""
    samples: list[dict[str, Any]]
    """Some that matched, the latest first."""
    others: list[dict[str, Any]]
    """The effect on each subscription that is there: `both` match, `only_this` and `only_new`; of
    those that it gets today (`gets`) it would lose some (`loses`) and have to share others
    (`shares`)."""


def ask(facts: DataFrame, question: Question, samples: int = SAMPLES) -> Answer:
    """Evaluate the expression over the messages that the domain accepted."""
    tree, lookup = question.predicate.tree, in_map()
    accepted = facts.where((F.col("kind") == f.Accepted.__name__) & (F.col("at") >= question.since))
    messages = (
        t.messages(accepted)
        .where(F.col("domain") == question.domain)
        .withColumns({"verdict": condition(tree, lookup), "failure": failure(tree, lookup)})
    ).persist()
    try:
        counted = messages.groupBy("verdict", "failure").count().collect()
        chosen = messages.where("verdict").orderBy(F.desc("number")).limit(samples)
        return Answer(
            messages=sum(row["count"] for row in counted),
            matched=sum(row["count"] for row in counted if row.verdict),
            undecided={
                kind.value: sum(row["count"] for row in counted if row.failure == kind.value)
                for kind in Failure
            },
            samples=[_sample(row.asDict(recursive=True)) for row in chosen.collect()],
            others=_others(facts, messages, question),
        )
    finally:
        messages.unpersist()


def _sample(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "number": row["number"],
        "time": row["time"].isoformat(sep=" ", timespec="seconds"),
        "address": row["address"],
        "properties": plain((row["properties"] or {}).items()),
    }


def present(facts: DataFrame, domain: str) -> DataFrame:
    """The subscriptions that consumers of the domain have now, as far as the journal tells."""
    names = [kind.__name__ for kind in t.CHANGES]
    spans = t.spans(t.subscriptions(facts.where(F.col("kind").isin(*names))))
    return spans.where(
        F.col("until").isNull()
        & (F.col("family") == "queue")
        & F.col("address").startswith(f"bmq://{domain}/")
    )


def _others(facts: DataFrame, messages: DataFrame, question: Question) -> list[dict[str, Any]]:
    """How the new one meets each that is there. A message goes to the matching ones of the
    highest priority: a new one above them takes it, one beside them has a share in it."""
    found = present(facts, question.domain)
    if question.app is not None:
        found = found.where(F.col("app") == question.app)
    rows = {
        str(place): row for place, row in enumerate(found.orderBy("since", "session").collect())
    }
    if not rows:
        return []
    wanted = Subscriptions(
        consumers=tuple(
            Subscription(place, row.app, row.expression, row.priority)
            for place, row in rows.items()
        )
    )
    owners = messages.sparkSession.createDataFrame(
        [(place, row.address) for place, row in rows.items()], "id string, address string"
    )
    own = matching(messages, wanted).join(F.broadcast(owners), "id")
    verdicts = messages.select(
        "number", "address", F.coalesce("verdict", F.lit(False)).alias("new")
    )
    # Beside the messages that it matches, each must know how many the new one matches at all.
    hit = verdicts.join(own, ["number", "address"])
    top = hit.groupBy("number", "address", "app").agg(F.max("priority").alias("top"))
    gets = F.col("priority") == F.col("top")
    counted = (
        hit.join(top, ["number", "address", "app"])
        .groupBy("id")
        .agg(
            F.count_if("new").alias("both"),
            F.count_if(~F.col("new")).alias("only_this"),
            F.count_if(gets).alias("gets"),
            F.count_if(gets & F.col("new") & (F.col("top") < question.priority)).alias("loses"),
            F.count_if(gets & F.col("new") & (F.col("top") == question.priority)).alias("shares"),
        )
    )
    counts = {row.id: row.asDict() for row in counted.collect()}
    new = {
        row.address: row["count"]
        for row in verdicts.where("new").groupBy("address").count().collect()
    }
    answers = []
    for place, row in rows.items():
        each = counts.get(place, {})
        both = each.get("both", 0)
        answers.append(
            {
                "address": row.address,
                "app": row.app,
                "session": row.session,
                "expression": row.expression,
                "priority": row.priority,
                "both": both,
                "only_this": each.get("only_this", 0),
                "only_new": new.get(row.address, 0) - both,
                "gets": each.get("gets", 0),
                "loses": each.get("loses", 0),
                "shares": each.get("shares", 0),
            }
        )
    return answers

"""What each subscription made of the messages of its queue: matched, missed, or undecided.

The router asks only those who may match, so it cannot tell. Here every message is evaluated
against every expression that somebody had on its queue when it was accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from headgate.core import facts as f
from headgate.errors import ExpressionError
from headgate.expr.predicate import Failure, Predicate, compile_expression
from headgate.expr.types import Properties
from headgate.pipeline.tables import transforms as t

EXPRESSIONS_MAX = 1_000
"""Expressions of one queue that every message is evaluated against; the first ones told."""

CHANGES = (f.RouterStarted, f.Interested, f.Unsubscribed)
"""The facts that say who wants what."""

Who: TypeAlias = tuple[bytes, str, int]
"""Queue, app and session."""

Subject: TypeAlias = tuple[bytes, str, str]
"""Queue, app and expression: those who want the same are counted together."""

Subjects: TypeAlias = dict[bytes, list[tuple[str, str, list[tuple[int, int | None]]]]]
"""By queue: app, expression, and the spans of numbers in which it was wanted."""

RESULTS = ("matched", "missed", "no_property", "wrong_type", "no_result")
COLUMN_OF: Mapping[bool | Failure, str] = {
    True: "matched",
    False: "missed",
    Failure.NAME: "no_property",
    Failure.TYPE: "wrong_type",
    Failure.ARITHMETIC: "no_result",
}

COUNTED = pa.schema(
    [
        ("hour", pa.int64()),
        ("queue", pa.binary()),
        ("app", pa.string()),
        ("expression", pa.string()),
        *((name, pa.int64()) for name in RESULTS),
    ]
)
COUNTED_DDL = "hour bigint, queue binary, app string, expression string, " + ", ".join(
    f"{name} bigint" for name in RESULTS
)


@dataclass(slots=True)
class Wishes:
    """Who wants what, as of a fact; and in which spans of numbers an expression was wanted."""

    wanted: dict[Who, tuple[str, ...]] = field(default_factory=dict)
    spans: dict[Subject, list[tuple[int, int | None]]] = field(default_factory=dict)
    """From a number on, and up to one; closed spans are those of this batch."""
    _holders: Counter[Subject] = field(default_factory=Counter)
    """How many sessions want it."""

    @classmethod
    def read(cls, rows: Iterable[Sequence[Any]]) -> Wishes:
        """What `rows` gave."""
        wishes = cls()
        for queue, app, session, expressions in rows:
            who = bytes.fromhex(queue), app, session
            wishes._set(who, tuple(expressions), 0)
        return wishes

    def rows(self) -> list[list[Any]]:
        """What is wanted now, as plain values."""
        return [
            [queue.hex(), app, session, list(expressions)]
            for (queue, app, session), expressions in self.wanted.items()
        ]

    def follow(self, changes: Iterable[Row]) -> None:
        """Facts in the order of their numbers."""
        for fact in changes:
            match fact.kind:
                case "RouterStarted":
                    for who in list(self.wanted):
                        self._set(who, (), fact.number)
                case "Unsubscribed":
                    self._set((bytes(fact.queue), fact.app, fact.session), (), fact.number)
                case "Interested":
                    who = bytes(fact.queue), fact.app, fact.session
                    before = self.wanted.get(who, ()) if fact.place else ()
                    expressions = (fact.expression,) if fact.expression is not None else ()
                    self._set(who, (*before, *expressions), fact.number)

    def _set(self, who: Who, expressions: tuple[str, ...], number: int) -> None:
        queue, app, _ = who
        before = self.wanted.pop(who, ())
        if expressions:
            self.wanted[who] = expressions
        for text in {*expressions} - {*before}:
            subject = queue, app, text
            if not self._holders[subject]:
                self.spans.setdefault(subject, []).append((number, None))
            self._holders[subject] += 1
        for text in {*before} - {*expressions}:
            subject = queue, app, text
            self._holders[subject] -= 1
            if not self._holders[subject]:
                spans = self.spans[subject]
                spans[-1] = spans[-1][0], number


def count(messages: DataFrame, wishes: Wishes) -> DataFrame:
    """How each expression judged the messages that were accepted while it was wanted: a row for
    each hour and subscription, of each task."""
    by_queue: Subjects = {}
    for (queue, app, text), spans in wishes.spans.items():
        subjects = by_queue.setdefault(queue, [])
        if len(subjects) < EXPRESSIONS_MAX:
            subjects.append((app, text, spans))

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judged(batches, by_queue)

    wanted = messages.select("number", "at", "queue", "properties")
    counted = wanted.mapInArrow(judge, COUNTED_DDL)
    at = F.col("hour") * 3600
    return (
        counted.groupBy("hour", "queue", "app", "expression")
        .agg(*(F.sum(name).alias(name) for name in RESULTS))
        .select(
            t.time_of(at).alias("hour"),
            t.address_of(F.col("queue")).alias("address"),
            "app",
            "expression",
            *RESULTS,
            t.day_of(at).alias("day"),
        )
    )


def judged(batches: Iterable[pa.RecordBatch], by_queue: Subjects) -> Iterator[pa.RecordBatch]:
    """The counts of a task. What costs is what is done for each pair of message and expression."""
    predicates: dict[str, Predicate | None] = {}
    counts: dict[tuple[int, bytes, str, str], Counter[str]] = {}
    for batch in batches:
        for number, at, queue, properties in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            subjects = by_queue.get(queue, ())
            given = plain(properties) if subjects else {}
            for app, text, spans in subjects:
                if not any(a <= number and (z is None or number < z) for a, z in spans):
                    continue
                if text not in predicates:
                    predicates[text] = _compiled(text)
                predicate = predicates[text]
                if predicate is None:
                    continue
                key = int(at // 3600), queue, app, text
                answer = predicate.evaluate(given)
                counts.setdefault(key, Counter())[COLUMN_OF[answer]] += 1
    rows = [[*key, *(counter[name] for name in RESULTS)] for key, counter in counts.items()]
    yield pa.RecordBatch.from_arrays(
        [pa.array([row[place] for row in rows], each.type) for place, each in enumerate(COUNTED)],
        schema=COUNTED,
    )


def whole(parts: DataFrame) -> DataFrame:
    """The counts of all batches together."""
    return (
        parts.groupBy("hour", "address", "app", "expression", "day")
        .agg(*(F.sum(name).alias(name) for name in RESULTS))
        .select("hour", "address", "app", "expression", *RESULTS, "day")
    )


def plain(properties: Iterable[tuple[str, Mapping[str, Any]]] | None) -> Properties:
    """A map of structs, as Arrow gives it, as the properties of a message."""
    return {
        name: next(value for value in kinds.values() if value is not None)
        for name, kinds in properties or ()
    }


def _compiled(text: str) -> Predicate | None:
    """Expressions of the journal were accepted by a router; one with other limits, maybe."""
    try:
        return compile_expression(text)
    except ExpressionError:
        return None

"""Counts of how each subscription judged the messages of its queue: matched, missed, or undecided.

The router asks only those who may match, so it cannot tell. Here every message is evaluated
against every expression that somebody had on its queue when it was accepted. Expressions of one
shape are one column of Spark, with their literals from a table (`routing/shapes.py`); those of rare
shapes are left to the router's own evaluator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.errors import ExpressionError
from headgate.expr.nodes import Text, Tree, names_of, walk
from headgate.expr.parser import parse
from headgate.expr.predicate import Failure, Predicate, compile_expression
from headgate.expr.types import Kind, Properties
from headgate.pipeline.routing.columns import FIELDS, Lookup, Operand, condition, failure, in_map
from headgate.pipeline.routing.shapes import (
    CODE_BASE,
    CODE_MAX,
    CODE_NODE,
    Slots,
    is_unicode,
    slot_kind,
)
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.wishes import Spans, Wishes

EXPRESSIONS_MAX = 1_000
"""Expressions of one queue that every message is evaluated against; the first ones told."""

SUBJECTS_MANY = 2_000
"""So many subjects are worth a look at which queues have messages at all."""

PAIRS_FEW = 20_000
"""So many pairs of a message and an expression are asked where they are."""

FORMS = 20_000
"""Expressions whose shape is remembered."""

CODE_ANSWER = 4 * CODE_NODE
"""Bytes of Java's code for each node of a tree: an answer is a condition, and why it has none."""

Subjects: TypeAlias = dict[bytes, list[tuple[str, str, Spans]]]
"""By queue: app, expression, and the spans of numbers in which it was wanted."""

RESULTS = ("matched", "missed", "no_property", "wrong_type", "no_result")
COLUMN_OF: Mapping[bool | Failure, str] = {
    True: "matched",
    False: "missed",
    Failure.NAME: "no_property",
    Failure.TYPE: "wrong_type",
    Failure.ARITHMETIC: "no_result",
}
CODE_OF: Mapping[str, int] = {
    name: ord(answer.value[0]) if isinstance(answer, Failure) else int(not answer)
    for answer, name in COLUMN_OF.items()
}
"""An answer as a number: 0 and 1, or the first letter of why there is none."""

ASKED = ["number", "at", "queue", "properties"]
"""The columns of a message that are read."""

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


def count(messages: DataFrame, wishes: Wishes) -> DataFrame:
    """How each expression judged the messages that were accepted while it was wanted: counts for
    each hour and subscription, as rows that add up."""
    asked = _queues_of(messages) if len(wishes.spans) > SUBJECTS_MANY else None
    by_queue = _subjects(wishes, asked)
    shapes = _shapes(Counter(text for each in by_queue.values() for _, text, _ in each))
    known = {shape: place for place, shape in enumerate(shapes)}

    def part(is_known: bool) -> Subjects:
        parts = {
            queue: [each for each in subjects if (_shape(each[1]) in known) is is_known]
            for queue, subjects in by_queue.items()
        }
        return {queue: subjects for queue, subjects in parts.items() if subjects}

    others = part(False)
    counted = [_asked(messages, others)] if others or not shapes else []
    if shapes:
        counted.append(_joined(messages, part(True), known))
    return _shown(reduce(DataFrame.unionByName, counted))


def count_few(messages: pa.Table, frame: DataFrame, wishes: Wishes) -> DataFrame:
    """The same of messages that are here, and of which there also is a frame. Few pairs of a
    message and an expression are asked here: to have Spark ask them takes longer."""
    queues = pc.value_counts(messages["queue"])
    times = {each["values"].as_py(): each["counts"].as_py() for each in queues}
    by_queue = _subjects(wishes, times.keys())
    if sum(times[queue] * len(subjects) for queue, subjects in by_queue.items()) > PAIRS_FEW:
        return count(frame, wishes)
    wanted = messages.select(ASKED).to_batches()
    counted = pa.Table.from_batches(judged(wanted, by_queue), schema=COUNTED)
    return _shown(frame.sparkSession.createDataFrame(counted))


def _subjects(wishes: Wishes, queues: Collection[bytes] | None) -> Subjects:
    """The expressions for messages, by queue: of these queues, or of all."""
    by_queue: Subjects = {}
    for (queue, app, text), spans in wishes.spans.items():
        if queues is None or queue in queues:
            subjects = by_queue.setdefault(queue, [])
            if len(subjects) < EXPRESSIONS_MAX and _form(text) is not None:
                subjects.append((app, text, spans))
    return by_queue


@t.once
def _columns() -> t.Columns:
    at = F.col("hour") * 3600
    return (
        t.time_of(at).alias("hour"),
        t.address_of(F.col("queue")).alias("address"),
        *(F.col(name) for name in ("app", "expression", *RESULTS)),
        t.day_of(at).alias("day"),
    )


def _shown(counted: DataFrame) -> DataFrame:
    return counted.select(*_columns())


# Expressions by shape, on Spark.


class Form(NamedTuple):
    """An expression as its shape, and its literals."""

    shape: Tree | None
    """None if Spark has no such literals."""
    integers: tuple[int, ...]
    texts: tuple[str, ...]


@lru_cache(maxsize=FORMS)
def _form(text: str) -> Form | None:
    """Expressions of the journal were accepted by a router; one with other limits, maybe."""
    try:
        tree = parse(text)
    except ExpressionError:
        return None
    if any(not is_unicode(each.value) for each in walk(tree) if isinstance(each, Text)):
        return Form(None, (), ())
    slots = Slots()
    return Form(slots.taken(tree), tuple(slots.integers), tuple(slots.texts))


def _shape(text: str) -> Tree | None:
    form = _form(text)
    return form.shape if form is not None else None


def _queues_of(messages: DataFrame) -> set[bytes]:
    """The shared queues that messages are of; others have no expressions."""
    is_shared = F.col("queue").cast("string").startswith("bmq://")
    found = messages.where(is_shared).select("queue").distinct().toArrow()
    return set(found["queue"].to_pylist())


def _shapes(texts: Counter[str]) -> list[Tree]:
    """The most frequent shapes, as many as the code has room for."""
    found: Counter[Tree] = Counter()
    for text, times in texts.items():
        shape = _shape(text)
        if shape is not None:
            found[shape] += times
    chosen, room = [], CODE_MAX - CODE_BASE
    for shape, _ in found.most_common():
        code = CODE_ANSWER * sum(1 for _ in walk(shape))
        if code <= room:
            chosen.append(shape)
            room -= code
    return chosen


def _joined(messages: DataFrame, by_queue: Subjects, shapes: Mapping[Tree, int]) -> DataFrame:
    """Each message with each subject of its queue, and the answers counted."""
    rows = [
        (queue, app, text, since, until)
        for queue, subjects in by_queue.items()
        for app, text, spans in subjects
        for since, until in spans
    ]
    forms = [form for row in rows if (form := _form(row[2])) is not None]
    named = pa.table(
        {
            "subject": pa.array(range(len(rows)), pa.int32()),
            "queue": pa.array([row[0] for row in rows], pa.binary()),
            "app": pa.array([row[1] for row in rows], pa.string()),
            "expression": pa.array([row[2] for row in rows], pa.string()),
        }
    )
    columns = {
        "subject": named["subject"],
        "queue": named["queue"],
        "shape": pa.array([shapes[form.shape] for form in forms if form.shape], pa.int32()),
        "since": pa.array([row[3] for row in rows], pa.int64()),
        "until": pa.array([row[4] for row in rows], pa.int64()),
    }
    for letter, kind, lists in (
        ("i", pa.int64(), [form.integers for form in forms]),
        ("s", pa.string(), [form.texts for form in forms]),
    ):
        for place in range(max(map(len, lists), default=0)):
            held = [each[place] if place < len(each) else None for each in lists]
            columns[f"{letter}{place}"] = pa.array(held, kind)
    session, source, flat = messages.sparkSession, in_map(), _flat(tuple(shapes))
    flattened = messages.select(
        "number",
        F.floor(F.col("at") / 3600).cast("bigint").alias("hour"),
        "queue",
        *(
            source(name)[kind].alias(column)
            for name, kinds in flat.items()
            for kind, column in kinds.items()
        ),
    )
    wanted = F.broadcast(session.createDataFrame(pa.table(columns)))
    is_open = F.col("until").isNull() | (F.col("number") < F.col("until"))
    pairs = flattened.join(wanted, "queue").where((F.col("number") >= F.col("since")) & is_open)
    answer = _answered(tuple(shapes), id(SparkContext._gateway))
    answers = pairs.select("hour", "subject", answer.alias("answer"))
    counts = answers.groupBy("hour", "subject").agg(
        *(F.count_if(F.col("answer") == CODE_OF[name]).alias(name) for name in RESULTS)
    )
    return counts.join(F.broadcast(session.createDataFrame(named)), "subject").drop("subject")


def _flat(shapes: tuple[Tree, ...]) -> dict[str, dict[Kind, str]]:
    """The properties that shapes read, and the columns that they are in."""
    names = dict.fromkeys(name for shape in shapes for name in names_of(shape))
    return {
        name: {kind: f"p{place}_{letter}" for kind, letter in FIELDS.items()}
        for place, name in enumerate(name for name in names if slot_kind(name) is None)
    }


def _lookup(flat: Mapping[str, Mapping[Kind, str]]) -> Lookup:
    def find(name: str) -> Operand:
        kind = slot_kind(name)
        if kind is not None:
            return {kind: F.col(name[1:])}
        return {each: F.col(column) for each, column in flat[name].items()}

    return find


@lru_cache(maxsize=8)
def _answered(shapes: tuple[Tree, ...], java: int) -> Column:
    """The answer of a message and a subject, as a number. A column is as good as long as the Java
    that has it, and takes longer to write than a small batch to count."""
    chosen, lookup = F.lit(None).cast("int"), _lookup(_flat(shapes))
    for place, shape in enumerate(shapes):
        answer = F.coalesce(
            (~condition(shape, lookup)).cast("int"), F.ascii(failure(shape, lookup))
        )
        chosen = F.when(F.col("shape") == place, answer).otherwise(chosen)
    return chosen


# The others, in Python.


def _asked(messages: DataFrame, by_queue: Subjects) -> DataFrame:
    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judged(batches, by_queue)

    counted = messages.select(*ASKED).mapInArrow(judge, COUNTED_DDL)
    return counted.groupBy("hour", "queue", "app", "expression").agg(
        *(F.sum(name).alias(name) for name in RESULTS)
    )


def judged(batches: Iterable[pa.RecordBatch], by_queue: Subjects) -> Iterator[pa.RecordBatch]:
    """The counts of a task. The cost is that of each pair of message and expression."""
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
                predicate = _compiled(text)
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


@lru_cache(maxsize=2 * EXPRESSIONS_MAX)
def _compiled(text: str) -> Predicate | None:
    try:
        return compile_expression(text)
    except ExpressionError:
        return None

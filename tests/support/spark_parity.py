"""The router's evaluator and Catalyst on the same expressions and messages, at length.

``python -m tests.support.spark_parity --pairs 1000000 --seed 7``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import cycle
from pathlib import Path
from random import Random, SystemRandom
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from headgate.errors import ExpressionError
from headgate.expr.nodes import Binary, Integer, Property, Tree, Unary, text_of, walk
from headgate.expr.predicate import Predicate, compile_expression
from headgate.expr.types import INT64_MAX, INT64_MIN, Value, is_readable
from headgate.pipeline.routing.columns import condition, failure, in_map, matches
from headgate.pipeline.session import open_session
from headgate.pipeline.source.schema import ARROW, PROPERTIES
from tests.expr import draw

Message: TypeAlias = dict[str, Value]
Shape: TypeAlias = Callable[[Random], Tree]

MESSAGES = 400
"""In a batch; every expression of the batch meets all of them."""

OPERATORS = 300
"""In the expressions of a batch: Spark compiles all of them in one plan."""

FILTERED = 4
"""Expressions of a batch that are asked as filters too, unless it says otherwise: other rules of
the optimiser apply."""

SCHEMA = StructType([StructField("row", LongType()), StructField("properties", PROPERTIES)])


EQUALITIES = ("==", "!=")
COMPARISONS = (*EQUALITIES, "<", "<=", ">", ">=")
JUNCTIONS = ("&&", "||")
OPERATIONS = "+-*/%"

# Drawing.


def expression(random: Random, shape: Shape) -> Predicate:
    """One that the router would take, drawn as text."""
    while True:
        try:
            return compile_expression(text_of(shape(random)))
        except ExpressionError:
            pass  # too long, or without a property


def _usual(random: Random) -> Tree:
    return draw.tree(random, random.randint(0, 10))


def _by_a_literal(random: Random) -> Tree:
    """Some number divided by the literals where division is special."""
    divisor = Integer(random.choice((0, -1, 1, 2, -2, INT64_MIN, INT64_MAX)))
    number = Binary(random.choice("/%"), _number(random), divisor)
    return Binary(random.choice(COMPARISONS), number, _number(random))


def _chain(random: Random) -> Tree:
    """A sum or a product: Spark would like to bring its operands into another order."""
    op = random.choice("+*")
    tree = _number(random)
    for _ in range(random.randint(2, 4)):
        edge = random.choice((INT64_MIN, INT64_MAX, INT64_MAX - 2, 2, -1, 1, 2**62))
        other = Integer(edge) if random.random() < 0.5 else _number(random)
        tree = Binary(op, tree, other) if random.random() < 0.8 else Binary(op, other, tree)
    return Binary(random.choice(COMPARISONS), tree, _number(random))


def _deep(random: Random) -> Tree:
    """As much as the limits on an expression allow, nested in one way, or in any."""
    if random.random() < 0.5:
        return _grown(_truth(random), random.choice(TRUTH_STEPS), random)
    tree = _grown(_number(random), random.choice(NUMBER_STEPS), random, room=20)
    compared = Binary(random.choice(COMPARISONS), tree, _number(random))
    return random.choice((compared, tree, Unary("!", compared)))


Step: TypeAlias = Callable[[Tree, Random], Tree]


def _grown(tree: Tree, step: Step, random: Random, room: int = 0) -> Tree:
    while True:
        larger = step(tree, random)
        if len(text_of(larger)) + room > 128 or sum(map(_is_operator, walk(larger))) > 60:
            return tree
        tree = larger


def _is_operator(tree: Tree) -> bool:
    return isinstance(tree, Unary | Binary)


def _number(random: Random) -> Tree:
    if random.random() < 0.8:
        return Property(random.choice("xymnmn"))
    return Integer(random.choice((0, 1, -1, 2, 7, INT64_MIN, INT64_MAX)))


def _truth(random: Random) -> Tree:
    if random.random() < 0.2:
        return Binary(random.choice(COMPARISONS), _number(random), _number(random))
    return Property(random.choice("bpqb"))


TRUTH_STEPS: tuple[Step, ...] = (
    lambda tree, random: Binary(random.choice(JUNCTIONS), tree, _truth(random)),
    lambda tree, random: Binary(random.choice(JUNCTIONS), _truth(random), tree),
    lambda tree, random: Binary(random.choice(EQUALITIES), tree, _truth(random)),
    lambda tree, random: Binary(random.choice(EQUALITIES), _truth(random), tree),
    lambda tree, random: Unary("!", tree),
    lambda tree, random: random.choice(TRUTH_STEPS[:-1])(tree, random),
)
NUMBER_STEPS: tuple[Step, ...] = (
    lambda tree, random: Binary("+", tree, Property("m")),
    lambda tree, random: Binary(random.choice(OPERATIONS), tree, _number(random)),
    lambda tree, random: Binary(random.choice(OPERATIONS), _number(random), tree),
    lambda tree, random: Binary("/", _number(random), tree),
    lambda tree, random: Binary("%", _number(random), tree),
    lambda tree, random: Unary("-", tree),
    lambda tree, random: random.choice(NUMBER_STEPS[:-1])(tree, random),
)

TEXTS = ("e\u0301", "E\u0301", "a\x00", "a\x00b", "\uffff", "\U0010ffff", "İ", "ß", "ﬁ", " a", "A")


def message(random: Random) -> Message:
    """What the journal can tell: no bytes, no text that is not UTF-8, no larger integers."""
    drawn = draw.properties(random) | {
        "m": random.randint(-3, 9),
        "n": random.choice((1, 2, -1, 3, 0, INT64_MIN, INT64_MAX)),
        "p": random.random() < 0.5,
        "q": random.random() < 0.5,
        "X": random.choice(draw.NUMBERS),
    }
    if random.random() < 0.3:
        drawn["s"] = random.choice(TEXTS)
    if random.random() < 0.1:
        drawn[random.choice("xybsmnpq")] = random.choice((1, 0, "1", "true", "", True, False))
    if random.random() < 0.1:
        del drawn[random.choice("mnpq")]
    return {name: value for name, value in drawn.items() if _is_told(value)}


def _is_told(value: Value) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return is_readable(value)


# Messages as the journal has them.


def as_table(messages: Sequence[Message]) -> pa.Table:
    rows = [
        {"row": row, "properties": [(name, _field(value)) for name, value in each.items()]}
        for row, each in enumerate(messages)
    ]
    properties = ARROW.field("properties")
    return pa.Table.from_pylist(rows, pa.schema([("row", pa.int64()), properties]))


def _field(value: Value) -> dict[str, Value]:
    if isinstance(value, bool):
        return {"b": value}
    return {"i": value} if isinstance(value, int) else {"s": value}


@contextmanager
def as_frame(spark: SparkSession, messages: Sequence[Message], way: str) -> Iterator[DataFrame]:
    """The messages from a file, from memory, or as a part of the plan: that is evaluated without
    compilation, while the plan is optimised."""
    table = as_table(messages)
    if way == "plan":
        yield spark.createDataFrame(table, SCHEMA)
        return
    with tempfile.TemporaryDirectory(prefix="headgate-parity-") as folder:
        pq.write_table(table, Path(folder) / "messages.parquet")
        frame = spark.read.schema(SCHEMA).parquet(folder)
        if way == "cache":
            frame = frame.cache()
        yield frame
        frame.unpersist()


@contextmanager
def ansi(spark: SparkSession, is_on: bool) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", str(is_on).lower())
    yield
    spark.conf.set("spark.sql.ansi.enabled", before or "true")


# Comparing.


Outcomes: TypeAlias = list[list[str]]
"""For each expression and each message: ``True``, ``False`` or the name of the failure."""


def of_router(predicates: Sequence[Predicate], messages: Sequence[Message]) -> Outcomes:
    return [[str(predicate.evaluate(each)) for each in messages] for predicate in predicates]


@lru_cache(maxsize=1000)
def columns_of(predicate: Predicate) -> tuple[Column, Column]:
    """Its value and its failure. A column is resolved where it is used, so it serves both modes."""
    lookup = in_map()
    return condition(predicate.tree, lookup), failure(predicate.tree, lookup)


def of_spark(predicates: Sequence[Predicate], frame: DataFrame) -> Outcomes:
    columns = [F.col("row")]
    for number, predicate in enumerate(predicates):
        value, why = columns_of(predicate)
        columns += [value.alias(f"value{number}"), why.alias(f"failure{number}")]
    table = frame.select(*columns).toArrow().sort_by("row")
    return [
        [
            _outcome(value, why)
            for value, why in zip(
                table[f"value{number}"].to_pylist(),
                table[f"failure{number}"].to_pylist(),
                strict=True,
            )
        ]
        for number in range(len(predicates))
    ]


def _outcome(value: bool | None, why: str | None) -> str:
    if (value is None) == (why is None):
        return f"value {value} with failure {why}"
    return why or str(value)


def matched_by_spark(predicates: Sequence[Predicate], frame: DataFrame) -> list[set[int]]:
    """For each expression the messages that a filter lets through."""
    found: list[set[int]] = [set() for _ in predicates]
    parts = [
        frame.where(matches(predicate.tree, in_map())).select(F.lit(number).alias("number"), "row")
        for number, predicate in enumerate(predicates)
    ]
    for record in reduce(DataFrame.union, parts).collect():
        found[record["number"]].add(record["row"])
    return found


BATCHES: tuple[tuple[Shape, str], ...] = (
    (_usual, "file"),
    (_by_a_literal, "file"),
    (_chain, "file"),
    (_deep, "file"),
    (_usual, "plan"),
    (_usual, "cache"),
    (_by_a_literal, "plan"),
    (_usual, "file"),
    (_deep, "plan"),
    (_usual, "file"),
)
"""What successive batches draw, and where their messages come from. Deep expressions are among
themselves, because Spark goes through a plan as often as its deepest part needs."""


@dataclass(frozen=True)
class Batch:
    predicates: Sequence[Predicate]
    messages: Sequence[Message]
    wanted: Outcomes
    """Of the router."""
    filtered: int = FILTERED


@dataclass
class Comparison:
    pairs: int = 0
    expressions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def ask(self, spark: SparkSession, batch: Batch, way: str) -> None:
        with as_frame(spark, batch.messages, way) as frame:
            for is_on in (True, False):
                with ansi(spark, is_on):
                    where = f"ANSI {'on' if is_on else 'off'}, messages from {way}"
                    self.values(batch, frame, where)
                    self.filters(batch, frame, where)
        self.pairs += len(batch.predicates) * len(batch.messages)
        self.expressions += len(batch.predicates)
        self.outcomes.update(outcome for row in batch.wanted for outcome in row)

    def values(self, batch: Batch, frame: DataFrame, where: str) -> None:
        try:
            found = of_spark(batch.predicates, frame)
        except Exception as error:
            if len(batch.predicates) == 1:
                answer = repr(error)[:2000]
                self.differs(batch.predicates[0], "any message", where, "an answer", answer)
                return
            for predicate, row in zip(batch.predicates, batch.wanted, strict=True):
                self.values(Batch([predicate], batch.messages, [row]), frame, where)
            return
        for predicate, row, answers in zip(batch.predicates, batch.wanted, found, strict=True):
            for message, one, other in zip(batch.messages, row, answers, strict=True):
                if one != other:
                    self.differs(predicate, repr(message), where, one, other)

    def filters(self, batch: Batch, frame: DataFrame, where: str) -> None:
        predicates = batch.predicates[: batch.filtered]
        found = matched_by_spark(predicates, frame)
        for predicate, row, passed in zip(predicates, batch.wanted, found, strict=False):
            for number, one in enumerate(row):
                if (one == "True") is not (number in passed):
                    answer = "passed the filter" if number in passed else "was filtered out"
                    self.differs(predicate, repr(batch.messages[number]), where, one, answer)

    def differs(
        self, predicate: Predicate, message: str, where: str, router: str, spark: str
    ) -> None:
        self.differences.append(
            f"{predicate.text!r} for {message} ({where}): router {router}, Spark {spark}"
        )


def compare(
    spark: SparkSession,
    pairs: int,
    seed: int,
    messages: int = MESSAGES,
    report: Callable[[Comparison], None] = lambda comparison: None,
) -> Comparison:
    """Draw at least so many pairs of an expression and a message, and ask both engines."""
    random = Random(seed)
    comparison = Comparison()
    for shape, way in cycle(BATCHES):
        predicates: list[Predicate] = []
        operators = 0
        while operators < OPERATORS and comparison.pairs + len(predicates) * messages < pairs:
            predicates.append(expression(random, shape))
            operators += 2 + sum(map(_is_operator, walk(predicates[-1].tree)))
        drawn = [message(random) for _ in range(messages)]
        comparison.ask(spark, Batch(predicates, drawn, of_router(predicates, drawn)), way)
        report(comparison)
        if comparison.pairs >= pairs:
            break
    return comparison


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    options = parser.parse_args()
    started = time.monotonic()
    told = 0

    def report(comparison: Comparison) -> None:
        nonlocal told
        seconds = time.monotonic() - started
        for line in comparison.differences[told:]:
            print(line)
        told = len(comparison.differences)
        progress = f"{comparison.pairs:,} of {options.pairs:,} pairs, {seconds:.0f} s"
        print(f"{progress}, {told} differences", file=sys.stderr, flush=True)

    spark = open_session(master="local[2]", settings={"spark.driver.memory": "2g"})
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    comparison = compare(spark, options.pairs, options.seed, report=report)
    spark.stop()
    print(
        f"seed {options.seed}: {comparison.pairs:,} pairs, {comparison.expressions:,} expressions,"
        f" {len(comparison.differences)} differences, {time.monotonic() - started:.0f} s"
    )
    for outcome, times in comparison.outcomes.most_common():
        print(f"{outcome:>12} {times:,}")
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main())

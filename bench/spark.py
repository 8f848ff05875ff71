"""Cost of routing on Spark, by the number of subscriptions.

    make bench-spark           N = 100 to 100,000
    python -m bench.spark [--quick] [--messages M] [N ...]

Wall microseconds per message: reading Parquet, Spark's planning, the broadcast of the expressions,
the join, the decision. Each cell is run once to warm up and then some rounds, of which the median
counts. What is done once for a set of subscriptions is "plan": keys and shapes.

Ten shapes of expressions in equal parts, all of which have keys; distinct values grow with N, so
that what a message matches does not.

* *route*, *matching*: what the pipeline offers;
* *matcher*: the same route, with every expression left to the Arrow matcher and its index;
* *UDF*: a plain Python UDF that asks all compiled expressions in turn and tells who matches. It
  sees few messages, with its expressions compiled before, and the cost per message is taken
  for that of many. Where even that would take too long, N expressions are taken to cost as
  much each as those of the largest measured N, and the number is marked with a ~.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.expr.predicate import Matches, compile_expression
from headgate.expr.types import Value
from headgate.pipeline.routing.routing import matching, route
from headgate.pipeline.routing.shapes import planned
from headgate.pipeline.routing.subscriptions import Subscription, Subscriptions
from headgate.pipeline.session import open_session

ROOT = Path(__file__).parent.parent
SIZES = (100, 1_000, 10_000, 100_000)
MESSAGES = 2_000_000
MATCHER_MESSAGES = 300_000
UDF_EVALUATIONS = 10_000_000
UDF_SIZE_MAX = 10_000
COMPARED = 20_000
"""Messages whose matches are counted both ways."""
ROUNDS = 3
FLAT = 3.0
FASTER = 10.0
UNINDEXABLE = 0.05
KINDS = 4
PRIORITIES = 10


class Scale(NamedTuple):
    """How much is run."""

    messages: int = MESSAGES
    matcher: int = MATCHER_MESSAGES
    evaluations: int = UDF_EVALUATIONS
    rounds: int = ROUNDS


QUICK = Scale(100_000, 20_000, 500_000, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.spark")
    parser.add_argument("sizes", type=int, nargs="*", metavar="N")
    parser.add_argument("--quick", action="store_true", help="a smoke run; its numbers say little")
    parser.add_argument("--messages", type=int, help=f"per cell, {MESSAGES} unless said")
    options = parser.parse_args(arguments)
    scale = QUICK if options.quick else Scale()
    if options.messages:
        scale = scale._replace(messages=options.messages)
    sizes = options.sizes or (SIZES[:3] if options.quick else SIZES)
    # Workers import this module, to keep what the UDF compiled.
    os.environ["PYTHONPATH"] = str(ROOT)
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"built with {sysconfig.get_config_var('CONFIG_ARGS')}")
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        routing(folder, sizes, scale)
    finally:
        shutil.rmtree(folder)


def opened(cores: int) -> SparkSession:
    spark = open_session(master=f"local[{cores}]", settings={"spark.driver.memory": "2g"})
    java = spark._jvm.java.lang.System.getProperty("java.version")  # type: ignore[union-attr]
    print(f"\nPySpark {pyspark.__version__}, Java {java}, local[{cores}]")
    return spark


# What is routed.


def expression(shape: int, size: int, random: Random) -> str:
    """One of a shape of which there are `size`; a message matches a third of one."""
    values = 4 * size
    number, other = random.randrange(values), random.randrange(values)
    kind = f'"k{random.randrange(KINDS)}"'
    low = random.randrange(10 * values)
    match shape:
        case 0:
            return f'kind == {kind} && customer == "c{number // KINDS}"'
        case 1:
            return f"zone == {number % KINDS} && price >= {low // 4} && price < {low // 4 + 10}"
        case 2:
            return f"weight >= {low} && weight < {low + random.randint(5, 15)}"
        case 3:
            return f'route == "r{number}" || route == "r{other}"'
        case 4:
            return f"urgent && account == {number // 2}"
        case 5:
            return f'name == "n{number}"'
        case 6:
            return f"volume * 2 + 7 == {2 * number + 7}"
        case 7:
            return f"!(batch != {number})"
        case 8:
            return f'code >= "{low:08d}" && code < "{low + 10:08d}"'
        case _:
            return f'origin == {number} || target == "t{other}"'


SHAPES = 10
SHOWN = (
    "two equalities; equality and range; range; set of two; boolean and equality; text equality;\n"
    "arithmetic; negation; text range; either of two properties"
)


def unindexable(size: int, random: Random) -> str:
    number = random.randrange(20 * size)
    return random.choice(
        (
            f"price - volume == {number}",
            f"volume % {20 * size} == {number} && !urgent",
            f"!exists(weight) || volume + account == {number}",
        )
    )


def drawn(count: int, share: float = 0.0) -> Subscriptions:
    """So many subscriptions of different texts, a share of them without keys."""
    random = Random(count)
    per_shape = max(1, count // SHAPES)
    texts: dict[str, None] = {}
    while len(texts) < count:
        if len(texts) < count * share:
            texts[unindexable(per_shape, random)] = None
        else:
            texts[expression(random.randrange(SHAPES), per_shape, random)] = None
    return Subscriptions(
        Subscription(f"s{number}", "", text, random.randrange(PRIORITIES))
        for number, text in enumerate(texts)
    )


def written(folder: Path, subscriptions: int, count: int) -> str:
    """Messages for so many subscriptions, flat, as a Parquet file."""
    random = np.random.default_rng(subscriptions)
    values = 4 * max(1, subscriptions // SHAPES)

    def numbers(high: int) -> npt.NDArray[np.int64]:
        return random.integers(0, max(1, high), count)

    def texts(prefix: str, high: int) -> pa.Array:
        return pa.array([f"{prefix}{number}" for number in numbers(high).tolist()])

    table = pa.table(
        {
            "number": np.arange(count),
            "kind": texts("k", KINDS),
            "customer": texts("c", values // KINDS + 1),
            "zone": numbers(KINDS),
            "price": numbers(10 * values // 4),
            "weight": numbers(10 * values),
            "route": texts("r", values),
            "urgent": numbers(2).astype(bool),
            "account": numbers(values // 2),
            "name": texts("n", values),
            "volume": numbers(values),
            "batch": numbers(values),
            "code": pa.array([f"{number:08d}" for number in numbers(10 * values).tolist()]),
            "origin": numbers(values),
            "target": texts("t", values),
        }
    )
    path = folder / f"{subscriptions}.parquet"
    pq.write_table(table, path, row_group_size=max(1, count // 8))
    return str(path)


def as_journal(messages: DataFrame) -> DataFrame:
    """The same messages with a map of their properties."""
    kinds = {"bigint": "i", "string": "s", "boolean": "b"}
    types = {field: name for name, field in kinds.items()}

    def value(name: str, held: str) -> Column:
        return F.struct(
            *(
                (F.col(name) if kinds[held] == field else F.lit(None).cast(types[field])).alias(
                    field
                )
                for field in "isb"
            )
        )

    pairs = [
        part
        for name, held in messages.dtypes
        if name != "number"
        for part in (F.lit(name), value(name, held))
    ]
    return messages.select("number", F.create_map(*pairs).alias("properties"))


# The plain UDF.


@lru_cache(maxsize=2)
def compiled(texts: tuple[str, ...]) -> list[Matches]:
    return [compile_expression(text).matches for text in texts]


def linear(messages: DataFrame, subscriptions: Subscriptions) -> DataFrame:
    texts = tuple(each.expression or "" for each in subscriptions.consumers)
    names = [name for name in messages.columns if name != "number"]

    def told(*values: Value | None) -> list[int]:
        pairs = zip(names, values, strict=True)
        properties = {name: value for name, value in pairs if value is not None}
        return [n for n, matches in enumerate(compiled(texts)) if matches(properties)]

    ask = F.udf(told, "array<int>")
    return messages.select("number", ask(*names).alias("found"))


# What it costs.


def seconds(frame: Callable[[], DataFrame]) -> float:
    started = time.perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def cost(frame: Callable[[DataFrame], DataFrame], messages: DataFrame, scale: Scale) -> float:
    """Microseconds per message."""
    count = messages.count()
    seconds(lambda: frame(messages))
    taken = [seconds(lambda: frame(messages)) for _ in range(scale.rounds)]
    return statistics.median(taken) / count * 1e6


HEADER = (
    f"{'N':>7} {'plan s':>7} {'scan us':>8} {'route us':>9} {'matching':>9} {'matcher':>9} "
    f"{'UDF us':>10} {'UDF/route':>9} {'matches':>8} {'differ':>7}"
)


class Row(NamedTuple):
    size: int
    plan: float
    scan: float
    route: float
    matching: float
    matcher: float
    udf: float
    guessed: bool
    matches: float
    differ: int

    def __str__(self) -> str:
        udf = f"{'~' if self.guessed else ''}{self.udf:.0f}"
        return (
            f"{self.size:>7} {self.plan:>7.1f} {self.scan:>8.2f} {self.route:>9.2f} "
            f"{self.matching:>9.2f} {self.matcher:>9.2f} {udf:>10} "
            f"{self.udf / self.route:>9.0f} {self.matches:>8.2f} {self.differ:>7}"
        )


def measured(spark: SparkSession, folder: Path, size: int, scale: Scale, before: Row | None) -> Row:
    subscriptions = drawn(size)
    started = time.perf_counter()
    plan = planned(subscriptions.trees)
    planning = time.perf_counter() - started
    assert not plan.rest, "every shape has keys"
    messages = spark.read.parquet(written(folder, size, scale.messages))
    some = messages.where(F.col("number") < COMPARED)
    found = {
        tuple(row)
        for row in matching(some, subscriptions, properties=None).select("number", "id").collect()
    }
    alone = matching(some, subscriptions, properties=None, code_max=0)
    wanted = {tuple(row) for row in alone.select("number", "id").collect()}
    guessed = size > UDF_SIZE_MAX and before is not None
    if guessed and before is not None:
        udf = before.udf * size / before.size
    else:
        few = messages.where(F.col("number") < max(20, scale.evaluations // size))
        udf = cost(lambda m: linear(m, subscriptions), few, scale)
    fewer = messages.where(F.col("number") < scale.matcher)
    return Row(
        size,
        planning,
        cost(lambda m: m, messages, scale),
        cost(lambda m: route(m, subscriptions, properties=None), messages, scale),
        cost(lambda m: matching(m, subscriptions, properties=None), messages, scale),
        cost(lambda m: route(m, subscriptions, properties=None, code_max=0), fewer, scale),
        udf,
        guessed,
        len(found) / some.count(),
        len(found ^ wanted),
    )


def routing(folder: Path, sizes: Sequence[int], scale: Scale) -> None:
    spark = opened(2)
    print(f"{scale.messages} messages per cell, {scale.matcher} for the matcher; shapes: {SHOWN}")
    print(HEADER)
    rows: list[Row] = []
    for size in sizes:
        rows.append(measured(spark, folder, size, scale, rows[-1] if rows else None))
        print(rows[-1], flush=True)
    verdicts(rows)
    size = 10_000 if 10_000 in sizes else sizes[-1]
    plain, mixed = drawn(size), drawn(size, UNINDEXABLE)
    messages = spark.read.parquet(str(folder / f"{size}.parquet"))
    two = next(row.route for row in rows if row.size == size)
    journal = cost(lambda m: route(as_journal(m), plain), messages, scale)
    print(f"\nN = {size}, properties in a map: {journal:.2f} us, flat {two:.2f} us")
    rest = len(planned(mixed.trees).rest)
    fewer = messages.where(F.col("number") < scale.matcher)
    few = cost(lambda m: route(m, plain, properties=None), fewer, scale)
    apart = cost(lambda m: route(m, mixed, properties=None), fewer, scale)
    print(
        f"N = {size}, {rest} of them unindexable: {apart:.2f} us, without {few:.2f} us:"
        f" they cost {apart - few:.2f} us, {(apart - few) / rest * 1e3:.1f} ns each"
    )
    spark.stop()
    spark = opened(1)
    messages = spark.read.parquet(str(folder / f"{size}.parquet"))
    one = cost(lambda m: route(m, plain, properties=None), messages, scale)
    print(f"N = {size}: local[1] {one:.2f} us, local[2] {two:.2f} us, {one / two:.2f}x")
    spark.stop()


def verdicts(rows: Sequence[Row]) -> None:
    costs = [row.route for row in rows]
    growth = max(costs) / min(costs)
    print(
        f"flat: {growth:.1f}x between the cheapest and the dearest N, goal at most {FLAT:.0f}x:"
        f" {_met(growth <= FLAT)}"
    )
    for row in rows:
        if row.size == 10_000:
            ratio = row.udf / row.route
            print(
                f"N = {row.size}: {ratio:.0f}x faster than the UDF, goal {FASTER:.0f}x:"
                f" {_met(ratio >= FASTER)}; {row.matcher / row.route:.1f}x faster than the matcher"
            )
    differ = sum(row.differ for row in rows)
    print(f"exact: {differ} differences in the matches of {COMPARED} messages: {_met(not differ)}")


def _met(yes: bool) -> str:
    return "met" if yes else "MISSED"


if __name__ == "__main__":
    from bench.spark import main as run

    run()

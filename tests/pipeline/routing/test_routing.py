"""Routing on Spark is the router's own. At length: ``python -m tests.support.spark_routes``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import PipelineError
from headgate.pipeline.routing.routing import matching, route
from headgate.pipeline.routing.shapes import CODE_MAX, planned
from headgate.pipeline.routing.subscriptions import Filter, Subscription, Subscriptions
from tests.support.spark_routes import (
    Message,
    Router,
    differences,
    drawn_message,
    drawn_subscriptions,
    framed,
)

ANSI = "spark.sql.ansi.enabled"


@contextmanager
def ansi(spark: SparkSession, value: str) -> Iterator[None]:
    before = spark.conf.get(ANSI)
    spark.conf.set(ANSI, value)
    yield
    spark.conf.set(ANSI, before or "true")


@pytest.mark.parametrize(
    ("seed", "mode", "code"),
    [(1, "true", CODE_MAX), (2, "false", CODE_MAX), (3, "true", 2_000), (4, "false", 0)],
)
def test_drawn_messages_go_where_the_router_sends_them(
    spark: SparkSession, seed: int, mode: str, code: int
) -> None:
    random = Random(seed)
    subscriptions = drawn_subscriptions(random, 150, values=40)
    messages = [drawn_message(random, values=40) for _ in range(400)]
    with ansi(spark, mode):
        rows = route(framed(spark, messages), subscriptions, code_max=code).collect()
    wrong, seen = differences(messages, subscriptions, rows)
    assert wrong == []
    assert seen["routed"] > 100


INDEXABLE = Subscriptions(
    [
        *(Subscription(f"x{n}", "", f"x == {n} && s == \"t{n % 3}\"", n % 2) for n in range(12)),
        *(Subscription(f"r{n}", "", f"x >= {n} && x < {n + 3}", 0) for n in range(12)),
        *(Subscription(f"o{n}", "", f'x == {n} || s == "t{n}"', 1) for n in range(6)),
    ],
    [Filter("audit", "x == 3"), Filter("audit", "x == 4")],
)  # fmt: skip
FEW: list[Message] = [{"x": n, "s": f"t{n % 3}"} for n in range(14)]


def test_without_a_rest_nothing_is_left_to_python_but_the_decision(spark: SparkSession) -> None:
    assert planned(INDEXABLE.trees).rest == ()
    wrong, seen = differences(FEW, INDEXABLE, route(framed(spark, FEW), INDEXABLE).collect())
    assert wrong == []
    assert seen.keys() == {"routed", "put-aside", "auto-confirmed", "winners"}


def physical(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_messages_are_read_once_and_not_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    framed(spark, FEW).write.parquet(str(tmp_path / "messages"))
    messages = spark.read.parquet(str(tmp_path / "messages"))
    drawn = drawn_subscriptions(Random(6), 100, values=20)
    assert planned(drawn.trees).rest, "some are left to the matcher"
    for frame in (route(messages, drawn), matching(messages, drawn)):
        plan = physical(frame)
        assert plan.count("FileScan parquet") == 1
        assert "hashpartitioning" not in plan
        assert "BroadcastHashJoin" in plan


METHOD_BYTES = 8_000
"""Java does not compile longer ones."""


def test_the_condition_is_small_enough_for_java_to_compile(spark: SparkSession) -> None:
    for seed in range(3):
        drawn = drawn_subscriptions(Random(seed), 400, values=100)
        plan = matching(framed(spark, FEW), drawn)._jdf.queryExecution().executedPlan()
        debug = getattr(spark._jvm.org.apache.spark.sql.execution.debug, "package$")  # type: ignore[union-attr]
        text = getattr(debug, "MODULE$").codegenString(plan)
        sizes = [int(size) for size in re.findall(r"maxMethodCodeSize:(\d+)", text)]
        assert 3_000 < max(sizes) < METHOD_BYTES


@pytest.mark.parametrize("code", [CODE_MAX, 0])
def test_matching_tells_every_subscription_that_matches(spark: SparkSession, code: int) -> None:
    random = Random(7)
    subscriptions = drawn_subscriptions(random, 80, values=20)
    messages = [drawn_message(random, values=20) for _ in range(150)]
    found = matching(framed(spark, messages), subscriptions, code_max=code).collect()
    router = Router(subscriptions)
    priorities = {each.id: each.priority for each in subscriptions.consumers}
    wanted = [
        (number, name, app, priorities[name])
        for number, message in enumerate(messages)
        for app in router.apps
        for name in router.matching(message, app)
    ]
    assert sorted(map(tuple, found)) == sorted(wanted)


# Where messages come from.

MIXED = Subscriptions(
    [
        Subscription("one", "", "x == 1"),
        Subscription("text", "", 'x == "1"'),
        Subscription("true", "", "x == true"),
        Subscription("set", "", "exists(x)", -1),
        Subscription("unset", "", "!exists(x)", -1),
    ]
)


def winners(frame: DataFrame) -> list[tuple[object, list[str]]]:
    return sorted((row[0], row["winners"]) for row in frame.collect())


def test_properties_may_be_a_map_of_texts(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1, {"x": "1"}), (2, {"x": "2"}), (3, {}), (4, None)],
        "number int, properties map<string, string>",
    )
    found = winners(route(frame, MIXED))
    assert found == [(1, ["text"]), (2, ["set"]), (3, ["unset"]), (4, ["unset"])]


def test_properties_may_be_the_columns_themselves(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(b"a", 1), (b"b", 2), (b"c", None)], "id binary, x int")
    routed = route(frame, MIXED, properties=None, key="id")
    assert routed.columns == ["id", "app", "outcome", "priority", "winners"]
    assert winners(routed) == [(b"a", ["one"]), (b"b", ["set"]), (b"c", ["unset"])]
    texts = frame.select("id", F.col("x").cast("string"))
    assert winners(route(texts, MIXED, properties=None, key="id"))[0] == (b"a", ["text"])
    neither = frame.select("id", F.col("x").cast("double"))
    assert winners(route(neither, MIXED, properties=None, key="id"))[0] == (b"a", ["unset"])


def test_two_messages_with_one_key_are_two_messages(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(7, 1), (7, 2), (None, 1)], "id int, x int")
    found = route(frame, MIXED, properties=None, key="id").collect()
    assert [(row["id"], row["winners"]) for row in found] == [
        (7, ["one"]),
        (7, ["set"]),
        (None, ["one"]),
    ]


def test_a_frame_without_properties_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a")], "number int, properties string")
    with pytest.raises(PipelineError, match="holds string, no properties"):
        route(frame, MIXED)
    with pytest.raises(PipelineError, match="no column 'headers', but number, properties"):
        route(frame, MIXED, properties="headers")


def test_no_subscriptions_and_no_messages_give_no_rows(spark: SparkSession) -> None:
    frame = framed(spark, FEW)
    assert route(frame, Subscriptions()).collect() == []
    assert matching(frame, Subscriptions()).collect() == []
    assert route(frame.where("number < 0"), INDEXABLE).collect() == []


def test_a_stream_is_routed_as_a_table_is(spark: SparkSession, tmp_path: Path) -> None:
    framed(spark, FEW).write.parquet(str(tmp_path / "messages"))
    table = spark.read.parquet(str(tmp_path / "messages"))
    stream = spark.readStream.schema(table.schema).parquet(str(tmp_path / "messages"))
    routed = route(stream, INDEXABLE)
    query = (
        routed.writeStream.format("memory")
        .queryName("routed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    wrong, _ = differences(FEW, INDEXABLE, spark.table("routed").collect())
    assert wrong == []

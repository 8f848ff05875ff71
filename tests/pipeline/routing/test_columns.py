"""An expression means the same to Spark as to the router."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headgate.expr.nodes import Binary, Integer, Property, Tree, Unary
from headgate.expr.predicate import Failure, compile_expression
from headgate.expr.types import INT64_MAX, INT64_MIN, Kind, Value
from headgate.pipeline.routing.columns import Lookup, condition, failure, in_map, matches
from tests.support import spark_parity

NAME, TYPE, ARITHMETIC = Failure.NAME, Failure.TYPE, Failure.ARITHMETIC
MIN, MAX = INT64_MIN, INT64_MAX

Case = tuple[str, dict[str, Value], bool | Failure]


def check(spark: SparkSession, *cases: Case) -> None:
    """Each case in both engines: in Spark with ANSI mode on and off, compiled and not, as a
    value and as a filter."""
    predicates = [compile_expression(text.encode("utf-8", "surrogateescape")) for text, *_ in cases]
    messages = [message for _, message, _ in cases]
    wanted = [str(outcome) for *_, outcome in cases]
    by_router = spark_parity.of_router(predicates, messages)
    assert [by_router[number][number] for number in range(len(cases))] == wanted
    comparison = spark_parity.Comparison()
    for way in ("file", "plan"):
        comparison.ask(spark, spark_parity.Batch(predicates, messages, by_router), way)
    assert comparison.differences == []


def test_nothing_is_converted(spark: SparkSession) -> None:
    check(
        spark,
        ("x == 1", {"x": "1"}, TYPE),
        ('x == "1"', {"x": 1}, TYPE),
        ("x == true", {"x": "true"}, TYPE),
        ("x == 1", {"x": True}, TYPE),
        ("x < 2", {"x": "1"}, TYPE),
        ("x + 1 == 2", {"x": "1"}, TYPE),
        ("x && y", {"x": 1, "y": True}, TYPE),
        ("!x", {"x": 0}, TYPE),
        ("x == y", {"x": 1, "y": "1"}, TYPE),
    )


def test_an_error_on_the_left_is_an_error_whatever_is_on_the_right(spark: SparkSession) -> None:
    check(
        spark,
        ("missing || x", {"x": True}, NAME),
        ("missing && x", {"x": False}, NAME),
        ("x || missing", {"x": True}, True),
        ("x || missing", {"x": False}, NAME),
        ("x && missing", {"x": False}, False),
        ("x && missing", {"x": True}, NAME),
        ("(x || y) && (missing || true)", {"x": False, "y": True}, NAME),
        ("((x || y) && y) || missing", {"x": True, "y": True}, True),
        ("x && 10 / y > 1", {"x": False, "y": 0}, False),
        ("x && 10 / y > 1", {"x": True, "y": 0}, ARITHMETIC),
    )


def test_neither_an_error_nor_its_negation_matches(spark: SparkSession) -> None:
    check(
        spark,
        ("a == 5", {"b": 5}, NAME),
        ("!(a == 5)", {"b": 5}, NAME),
        ("a != 5", {"b": 5}, NAME),
        ("!(a == 5)", {"a": 5}, False),
        ("!(a == 5)", {"a": "5"}, TYPE),
    )
    with spark_parity.as_frame(spark, [{}, {"a": 5}, {"a": 6}, {"a": "5"}], "file") as frame:
        tree = compile_expression("!(a == 5)").tree
        found = frame.select(matches(tree, in_map()).alias("it")).toArrow()["it"].to_pylist()
        assert found == [False, False, True, False]


def test_division_is_towards_zero_and_the_remainder_has_the_sign_of_the_left(
    spark: SparkSession,
) -> None:
    check(
        spark,
        ("x / 2 == -3", {"x": -7}, True),
        ("x % 2 == -1", {"x": -7}, True),
        ("x / y == -3", {"x": 7, "y": -2}, True),
        ("x % y == 1", {"x": 7, "y": -2}, True),
        ("x / (y + 0) == 3", {"x": -7, "y": -2}, True),
        ("x % (y + 0) == -1", {"x": -7, "y": -2}, True),
        (f"x / {MAX} == -1", {"x": MIN}, True),
        (f"x % {MIN} == {MAX}", {"x": MAX}, True),
    )


@pytest.mark.parametrize("op", ["/", "%"])
def test_division_by_zero_and_of_the_least_number_by_minus_one_are_errors(
    spark: SparkSession, op: str
) -> None:
    check(
        spark,
        (f"x {op} 0 == 0", {"x": 1}, ARITHMETIC),
        (f"x {op} y == 0", {"x": 1, "y": 0}, ARITHMETIC),
        (f"x {op} (y - 1) == 0", {"x": 1, "y": 1}, ARITHMETIC),
        (f"x {op} -1 == 0", {"x": MIN}, ARITHMETIC),
        (f"x {op} y == 0", {"x": MIN, "y": -1}, ARITHMETIC),
        (f"(x + 0) {op} (y + 0) == 0", {"x": MIN, "y": -1}, ARITHMETIC),
        (f"x {op} -1 != 7", {"x": MIN + 1}, True),
        (f"x {op} y != 7", {"x": MIN, "y": 1}, True),
        (f"{MIN} {op} y == 0", {"y": -1}, ARITHMETIC),
    )


def test_a_number_of_more_than_64_bits_is_an_error(spark: SparkSession) -> None:
    check(
        spark,
        ("x + 1 > 0", {"x": MAX}, ARITHMETIC),
        ("x - 1 > 0", {"x": MIN}, ARITHMETIC),
        ("x * 2 > 0", {"x": MAX}, ARITHMETIC),
        ("x * -1 > 0", {"x": MIN}, ARITHMETIC),
        ("-x > 0", {"x": MIN}, ARITHMETIC),
        ("-x > 0", {"x": MIN + 1}, True),
        (f"x == {MIN}", {"x": MIN}, True),
        (f"x <= {MAX}", {"x": MAX}, True),
    )


def test_sums_and_products_keep_their_order(spark: SparkSession) -> None:
    """Spark would put literals last, and not overflow where the router does."""
    check(
        spark,
        (f"x + {MAX} + y > 0", {"x": 1, "y": -1}, ARITHMETIC),
        (f"x + y + {MAX} > 0", {"x": 1, "y": -1}, True),
        (f"x + {MAX} + -5 > 0", {"x": 1}, ARITHMETIC),
        (f"y * {MIN} * x < 0", {"x": -1, "y": -1}, ARITHMETIC),
        (f"y * x * {MIN} < 0", {"x": -1, "y": -1}, True),
        (f"x * 0 * {MAX} * 2 == 0", {"x": 5}, True),
        (f"{MAX} * 2 * (x - x) == 0", {"x": 5}, ARITHMETIC),
        (f"x % -1 * {MIN} * 2 == 0", {"x": 5}, True),
        ("x + y + z > 0 || x + z + y > 0", {"x": MAX, "y": 1, "z": -1}, ARITHMETIC),
        ("x + z + y > 0 && x + y + z > 0", {"x": MAX, "y": 1, "z": -1}, ARITHMETIC),
    )


def test_names_are_compared_letter_by_letter(spark: SparkSession) -> None:
    check(
        spark,
        ("ask == 1", {"ask": 1, "Ask": 2}, True),
        ("Ask == 1", {"ask": 1, "Ask": 2}, False),
        ("ASK == 1", {"ask": 1, "Ask": 2}, NAME),
        ("a.b == 1", {"a.b": 1, "a": 2}, True),
    )


def test_text_is_compared_by_its_bytes(spark: SparkSession) -> None:
    check(
        spark,
        ('s < "a"', {"s": "B"}, True),
        ('s == "é"', {"s": "e\u0301"}, False),
        ('s < "é"', {"s": "e\u0301"}, True),
        ('s < "\U0001f600"', {"s": "\uffff"}, True),
        ('s == "a"', {"s": "a "}, False),
        ('s == ""', {"s": ""}, True),
        ('s < "a"', {"s": ""}, True),
        ('s > "a"', {"s": "a\x00"}, True),
        ('s == "\x00"', {"s": "\x00"}, True),
        ('s == "\\"\\\\\n"', {"s": '"\\\n'}, True),
        ("s < t", {"s": "\ue000", "t": "\U00010000"}, True),
    )


def test_text_that_is_not_utf8_is_compared_too(spark: SparkSession) -> None:
    check(
        spark,
        ('s < "\udcff"', {"s": "\U0010ffff"}, True),
        ('s != "\udcc3"', {"s": "é"}, True),
        ('s > "\udcc3"', {"s": "é"}, True),
        ('s + "\udcff" == 1', {"s": 1}, TYPE),
    )


def test_exists_asks_for_a_value_of_any_type(spark: SparkSession) -> None:
    check(
        spark,
        ("exists(x)", {"x": 0}, True),
        ("exists(x)", {"x": ""}, True),
        ("exists(x)", {"x": False}, True),
        ("exists(x)", {"X": 1}, False),
        ("exists(x) && x > 1", {}, False),
        ("exists == 1", {"exists": 1}, True),
    )


def test_a_comparison_compares_what_it_is_given(spark: SparkSession) -> None:
    check(
        spark,
        ("a < b < c", {"a": 1, "b": 2, "c": 3}, TYPE),
        ("a == b == c", {"a": 1, "b": 1, "c": True}, True),
        ("a == b", {"a": True, "b": True}, True),
        ("a != b", {"a": True, "b": False}, True),
        ("a < b", {"a": False, "b": True}, TYPE),
        ("a >= true", {"a": True}, TYPE),
        ("(a && b) == (b || c)", {"a": True, "b": True, "c": False}, True),
    )


def test_the_first_error_counts_and_operands_come_before_their_types(spark: SparkSession) -> None:
    check(
        spark,
        ("s + missing > 1", {"s": "a"}, NAME),
        ("missing + s > 1", {"s": "a"}, NAME),
        ("x / 0 + missing > 1", {"x": 1}, ARITHMETIC),
        ("missing + x / 0 > 1", {"x": 1}, NAME),
        ("s * 2 + x / 0 > 1", {"x": 1, "s": "a"}, TYPE),
        ("(x / 0 > 1) == (s > 1)", {"x": 1, "s": "a"}, ARITHMETIC),
        ("-s > missing", {"s": "a"}, TYPE),
        ("x", {"x": 1}, TYPE),
        ("x", {}, NAME),
        ("x + 33", {"x": MAX}, ARITHMETIC),
        ("!(x + 33)", {"x": 1}, TYPE),
    )


def test_a_property_may_have_a_column_of_one_type(spark: SparkSession) -> None:
    """As in data that is not ours: there is no value of another type."""
    frame = spark.sql("select * from values (0, 5L), (1, 6L), (2, null) as t(row, price)")
    columns = {"price": {Kind.INTEGER: F.col("price")}}
    for text, wanted in (
        ("price > 5", [False, True, "NAME"]),
        ("price == 5 || exists(price)", [True, True, "NAME"]),
        ('price == "5"', ["TYPE", "TYPE", "NAME"]),
        ("price && true", ["TYPE", "TYPE", "NAME"]),
    ):
        tree = compile_expression(text).tree
        value, why = condition(tree, columns.__getitem__), failure(tree, columns.__getitem__)
        rows = frame.select("row", value.alias("value"), why.alias("why")).sort("row").collect()
        assert [row.why if row.value is None else row.value for row in rows] == wanted


def nested(shape: str, depth: int) -> Tree:
    tree: Tree = Property("b" if shape in ("!", "junction", "equal") else "x")
    for level in range(depth):
        match shape:
            case "!" | "-":
                tree = Unary(shape, tree)
            case "junction":
                tree = Binary("&&" if level % 2 else "||", tree, Property("b"))
            case "equal":
                tree = Binary("==", Property("b"), tree)
            case "right":
                tree = Binary("/" if level % 2 else "%", Property("x"), tree)
            case _:
                tree = Binary(shape, tree, Property("x") if level % 3 else Integer(3))
    return tree if shape in ("!", "junction", "equal") else Binary(">", tree, Property("x"))


@pytest.mark.parametrize("shape", ["!", "-", "junction", "equal", "right", "+", "/", "%"])
@pytest.mark.parametrize("compiled", [condition, failure])
def test_a_column_grows_no_faster_than_its_expression(
    spark: SparkSession, shape: str, compiled: Callable[[Tree, Lookup], Column]
) -> None:
    sizes = [len(str(compiled(nested(shape, depth), in_map()))) for depth in (12, 24, 48)]
    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])
    assert sizes[2] < 48 * 1500


@pytest.mark.parametrize(
    "text",
    [
        "-" * 63 + "x > y",
        "+".join("x" * 63) + ">y",
        "x" + "/x" * 60 + ">y",
        "x%(y+" * 20 + "y" + ")" * 20 + ">1",
        "(" * 24 + "b" + "".join(f"{op}p)" for op in ("||", "&&") * 12),
        "b==(" * 24 + "p" + ")" * 24,
    ],
)
def test_the_deepest_expressions_that_are_allowed_have_answers(
    spark: SparkSession, text: str
) -> None:
    predicates = [compile_expression(text)]
    messages: list[spark_parity.Message] = [
        {"x": x, "y": y, "b": b, "p": p}
        for x in (1, -1, 0, 7, MIN, MAX, "x")
        for y in (1, 0, -1)
        for b in (True, False)
        for p in (True, False, 1)
    ]
    comparison = spark_parity.Comparison()
    wanted = spark_parity.of_router(predicates, messages)
    comparison.ask(spark, spark_parity.Batch(predicates, messages, wanted), "file")
    assert comparison.differences == []
    assert len(comparison.outcomes) > 2


def test_both_engines_agree_on_what_is_drawn(spark: SparkSession) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    comparison = spark_parity.compare(spark, pairs=20_000, seed=seed, messages=100)
    assert comparison.differences == [], f"seed {seed}"
    assert comparison.pairs >= 20_000
    assert set(comparison.outcomes) == {"True", "False", *Failure}
    assert min(comparison.outcomes.values()) > 500, "every outcome is frequent"

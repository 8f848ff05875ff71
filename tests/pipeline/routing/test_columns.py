"""An expression means the same to Spark as to the router."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headgate.expr.nodes import Binary, Integer, Property, Tree, Unary
from headgate.expr.predicate import Failure, Predicate, compile_expression
from headgate.expr.types import INT64_MAX, INT64_MIN, Kind, Value
from headgate.pipeline.routing.columns import Lookup, condition, failure, in_map, matches
from tests.support import spark_parity

NAME, TYPE, ARITHMETIC = Failure.NAME, Failure.TYPE, Failure.ARITHMETIC
MIN, MAX = INT64_MIN, INT64_MAX

Case = tuple[str, dict[str, Value], bool | Failure]


TOGETHER, FILTERED = 3, 16

CASES: dict[str, tuple[Case, ...]] = {
    "nothing is converted": (
        ("x == 1", {"x": "1"}, TYPE),
        ('x == "1"', {"x": 1}, TYPE),
        ("x == true", {"x": "true"}, TYPE),
        ("x == 1", {"x": True}, TYPE),
        ("x < 2", {"x": "1"}, TYPE),
        ("x + 1 == 2", {"x": "1"}, TYPE),
        ("x && y", {"x": 1, "y": True}, TYPE),
        ("!x", {"x": 0}, TYPE),
        ("x == y", {"x": 1, "y": "1"}, TYPE),
    ),
    "an error on the left is an error whatever is on the right": (
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
    ),
    "neither an error nor its negation matches": (
        ("a == 5", {"b": 5}, NAME),
        ("!(a == 5)", {"b": 5}, NAME),
        ("a != 5", {"b": 5}, NAME),
        ("!(a == 5)", {"a": 5}, False),
        ("!(a == 5)", {"a": "5"}, TYPE),
    ),
    "division is towards zero and the remainder has the sign of the left": (
        ("x / 2 == -3", {"x": -7}, True),
        ("x % 2 == -1", {"x": -7}, True),
        ("x / y == -3", {"x": 7, "y": -2}, True),
        ("x % y == 1", {"x": 7, "y": -2}, True),
        ("x / (y + 0) == 3", {"x": -7, "y": -2}, True),
        ("x % (y + 0) == -1", {"x": -7, "y": -2}, True),
        (f"x / {MAX} == -1", {"x": MIN}, True),
        (f"x % {MIN} == {MAX}", {"x": MAX}, True),
    ),
    "division by zero and of the least number by minus one are errors: /": (
        ("x / 0 == 0", {"x": 1}, ARITHMETIC),
        ("x / y == 0", {"x": 1, "y": 0}, ARITHMETIC),
        ("x / (y - 1) == 0", {"x": 1, "y": 1}, ARITHMETIC),
        ("x / -1 == 0", {"x": MIN}, ARITHMETIC),
        ("x / y == 0", {"x": MIN, "y": -1}, ARITHMETIC),
        ("(x + 0) / (y + 0) == 0", {"x": MIN, "y": -1}, ARITHMETIC),
        ("x / -1 != 7", {"x": MIN + 1}, True),
        ("x / y != 7", {"x": MIN, "y": 1}, True),
        (f"{MIN} / y == 0", {"y": -1}, ARITHMETIC),
    ),
    "division by zero and of the least number by minus one are errors: %": (
        ("x % 0 == 0", {"x": 1}, ARITHMETIC),
        ("x % y == 0", {"x": 1, "y": 0}, ARITHMETIC),
        ("x % (y - 1) == 0", {"x": 1, "y": 1}, ARITHMETIC),
        ("x % -1 == 0", {"x": MIN}, ARITHMETIC),
        ("x % y == 0", {"x": MIN, "y": -1}, ARITHMETIC),
        ("(x + 0) % (y + 0) == 0", {"x": MIN, "y": -1}, ARITHMETIC),
        ("x % -1 != 7", {"x": MIN + 1}, True),
        ("x % y != 7", {"x": MIN, "y": 1}, True),
        (f"{MIN} % y == 0", {"y": -1}, ARITHMETIC),
    ),
    "a number of more than 64 bits is an error": (
        ("x + 1 > 0", {"x": MAX}, ARITHMETIC),
        ("x - 1 > 0", {"x": MIN}, ARITHMETIC),
        ("x * 2 > 0", {"x": MAX}, ARITHMETIC),
        ("x * -1 > 0", {"x": MIN}, ARITHMETIC),
        ("-x > 0", {"x": MIN}, ARITHMETIC),
        ("-x > 0", {"x": MIN + 1}, True),
        (f"x == {MIN}", {"x": MIN}, True),
        (f"x <= {MAX}", {"x": MAX}, True),
    ),
    # Spark would put literals last, and not overflow where the router does.
    "sums and products keep their order": (
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
    ),
    "names are compared letter by letter": (
        ("ask == 1", {"ask": 1, "Ask": 2}, True),
        ("Ask == 1", {"ask": 1, "Ask": 2}, False),
        ("ASK == 1", {"ask": 1, "Ask": 2}, NAME),
        ("a.b == 1", {"a.b": 1, "a": 2}, True),
    ),
    "text is compared by its bytes": (
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
    ),
    "text that is not utf8 is compared too": (
        ('s < "\udcff"', {"s": "\U0010ffff"}, True),
        ('s != "\udcc3"', {"s": "é"}, True),
        ('s > "\udcc3"', {"s": "é"}, True),
        ('s + "\udcff" == 1', {"s": 1}, TYPE),
    ),
    "exists asks for a value of any type": (
        ("exists(x)", {"x": 0}, True),
        ("exists(x)", {"x": ""}, True),
        ("exists(x)", {"x": False}, True),
        ("exists(x)", {"X": 1}, False),
        ("exists(x) && x > 1", {}, False),
        ("exists == 1", {"exists": 1}, True),
    ),
    "a comparison compares what it is given": (
        ("a < b < c", {"a": 1, "b": 2, "c": 3}, TYPE),
        ("a == b == c", {"a": 1, "b": 1, "c": True}, True),
        ("a == b", {"a": True, "b": True}, True),
        ("a != b", {"a": True, "b": False}, True),
        ("a < b", {"a": False, "b": True}, TYPE),
        ("a >= true", {"a": True}, TYPE),
        ("(a && b) == (b || c)", {"a": True, "b": True, "c": False}, True),
    ),
    "the first error counts and operands come before their types": (
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
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_the_router_finds(what: str) -> None:
    for text, message, wanted in CASES[what]:
        assert predicate_of(text).evaluate(message) is wanted, text


def predicate_of(text: str) -> Predicate:
    return compile_expression(text.encode("utf-8", "surrogateescape"))


def test_spark_finds_the_same(spark: SparkSession) -> None:
    """With ANSI mode on and off, compiled and not, as a value and as a filter. Many are asked in
    one plan, each of all messages there: to plan takes longer than to answer."""
    comparison = spark_parity.Comparison()
    cases = [case for each in CASES.values() for case in each]
    for first in range(TOGETHER):
        some = cases[first::TOGETHER]  # so that each plan has some of everything
        predicates = [predicate_of(text) for text, *_ in some]
        messages = [message for _, message, _ in some]
        wanted = spark_parity.of_router(predicates, messages)
        for way in ("file", "plan"):
            batch = spark_parity.Batch(predicates, messages, wanted, filtered=FILTERED)
            comparison.ask(spark, batch, way)
    assert comparison.differences == []
    assert comparison.expressions == 2 * len(cases)


def test_an_error_is_no_match_and_neither_is_its_negation(spark: SparkSession) -> None:
    with spark_parity.as_frame(spark, [{}, {"a": 5}, {"a": 6}, {"a": "5"}], "file") as frame:
        tree = compile_expression("!(a == 5)").tree
        found = frame.select(matches(tree, in_map()).alias("it")).toArrow()["it"].to_pylist()
        assert found == [False, False, True, False]


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

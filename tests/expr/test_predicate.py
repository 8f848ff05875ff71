"""What expressions mean."""

from __future__ import annotations

import gc
from random import Random, SystemRandom

import pytest
from hypothesis import given, settings

from headgate.expr.nodes import Tree, text_of
from headgate.expr.predicate import Failure, Predicate, compile_expression
from headgate.expr.types import Properties, Value, precedes
from tests.expr import agree, draw

MIN, MAX = -(2**63), 2**63 - 1
NAME, TYPE, ARITHMETIC = Failure.NAME, Failure.TYPE, Failure.ARITHMETIC


def outcome(text: str, **properties: Value) -> bool | Failure:
    """The value; and a check that `matches` agrees with it."""
    predicate = compile_expression(text)
    result = predicate.evaluate(properties)
    assert predicate.matches(properties) is predicate(properties) is (result is True)
    return result


def test_a_predicate_tells_its_text_tree_and_properties() -> None:
    predicate = compile_expression(b"b == 1 && exists(a) || b < 0")
    assert predicate.text == "b == 1 && exists(a) || b < 0"
    assert text_of(predicate.tree) == predicate.text
    assert predicate.properties == ("b", "a")
    assert repr(predicate) == "<Predicate 'b == 1 && exists(a) || b < 0'>"


def test_an_upper_bound_matches_up_to_the_bound() -> None:
    """BMQ-1 (the routing of it is tested with the queues)"""
    assert [outcome("x <= 1", x=x) for x in (0, 1, 2)] == [True, True, False]


def test_properties_that_are_not_named_do_not_matter() -> None:
    """S003-2"""
    assert outcome("x == 1", x=1, y="anything", z=b"bytes", huge=2**100) is True


def test_a_bare_word_is_a_property_and_not_a_text() -> None:
    """S003-5"""
    assert outcome("OrderType == EXPRESS", OrderType="EXPRESS") is NAME
    assert outcome("OrderType == EXPRESS", OrderType="a", EXPRESS="a") is True
    assert outcome('OrderType == "EXPRESS"', OrderType="EXPRESS") is True


@pytest.mark.parametrize("text", ["x", "x + 33", "-x", '"s"', "5", "x * 2 - 1"])
def test_a_result_that_is_not_boolean_never_matches(text: str) -> None:
    """BMQ-5, S003-49"""
    assert outcome(f"exists(y) && ({text})", x=1, y=1) is TYPE


def test_a_boolean_property_alone_is_an_expression() -> None:
    assert outcome("x", x=True) is True
    assert outcome("x", x=False) is False
    assert outcome("x", x=1) is TYPE


@pytest.mark.parametrize("value", [2**15, 2**31, MAX, MIN, -(2**15), -(2**31)])
def test_integers_of_64_bits_compare_with_their_literals(value: int) -> None:
    """BMQ-6, S003-60"""
    assert outcome(f"x == {value}", x=value) is True


def test_a_missing_property_is_an_error_and_no_match() -> None:
    """BMQ-7"""
    assert outcome("x == 1") is NAME
    assert outcome("x != 1") is NAME
    assert outcome("!(x == 1)") is NAME
    assert outcome("x") is NAME
    assert outcome("-x == 1") is NAME


def test_an_error_on_the_left_of_or_is_not_mended_by_the_right() -> None:
    """BMQ-8"""
    assert outcome("x >= 0 || (y >= 0)", y=1) is NAME
    assert outcome("x >= 0 || (y >= 0)", x=1) is True


@pytest.mark.parametrize(
    "harm", ["missing == 1", "s + 1 == 2", "x / 0 == 1", "s", "x", "bin == 1", "-s == 1"]
)
def test_a_decided_left_side_leaves_the_right_side_alone(harm: str) -> None:
    """BMQ-9, S003-57, S003-76, S003-77"""
    message: Properties = {"x": 1, "s": "text", "bin": b""}
    for text, wanted in ((f"x == 2 && {harm}", False), (f"x == 1 || {harm}", True)):
        assert outcome(text, **message) is wanted
        assert outcome(f"!({text})", **message) is not wanted
    for text in (f"x == 1 && {harm}", f"x == 2 || {harm}"):
        assert isinstance(outcome(text, **message), Failure)
        assert isinstance(outcome(f"!({text})", **message), Failure)


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("i", "s"),
        ("s", "i"),
        ("i", '"1"'),
        ("s", "1"),
        ("b", "1"),
        ("i", "true"),
        ("b", "s"),
        ("i", "(i == 1)"),
        ("i + 1", "s"),
        ('"1"', "1"),
        ("true", "1"),
    ],
)
def test_operands_of_different_types_never_match_nor_does_the_negation(
    op: str, left: str, right: str
) -> None:
    """BMQ-10, S003-72, S003-78"""
    message: Properties = {"i": 1, "s": "1", "b": True}
    assert outcome(f"exists(i) && {left} {op} {right}", **message) is TYPE
    assert outcome(f"!({left} {op} {right}) || exists(i)", **message) is TYPE


@pytest.mark.parametrize("text", ["x / y == 0", "x % y == 0", "x / 0 == 0", "x % 0 == 0"])
def test_division_by_zero_never_matches(text: str) -> None:
    """BMQ-11, S003-68"""
    assert outcome(text, x=1, y=0) is ARITHMETIC
    assert outcome(f"!({text})", x=1, y=0) is ARITHMETIC


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize("wrong", ["s", "b", '"1"', "true", "(i == 1)"])
def test_arithmetic_takes_two_integers(op: str, wrong: str) -> None:
    """S003-66, S003-67"""
    message: Properties = {"i": 6, "s": "1", "b": True, "two": 2}
    results = {"+": 8, "-": 4, "*": 12, "/": 3, "%": 0}
    assert outcome(f"i {op} two == {results[op]}", **message) is True
    assert outcome(f"i {op} {wrong} == 1", **message) is TYPE
    assert outcome(f"{wrong} {op} i == 1", **message) is TYPE


@pytest.mark.parametrize(
    ("a", "b", "quotient", "remainder"),
    [
        (7, 2, 3, 1),
        (-7, 2, -3, -1),
        (7, -2, -3, 1),
        (-7, -2, 3, -1),
        (0, -5, 0, 0),
        (1, 5, 0, 1),
        (MIN, 1, MIN, 0),
        (MIN, 2, -(2**62), 0),
        (MAX, -1, -MAX, 0),
        (MIN, MIN, 1, 0),
        (MIN, MAX, -1, -1),
        (MAX, MIN, 0, MAX),
        (-1, MIN, 0, -1),
        (-6, 3, -2, 0),
    ],
)
def test_division_goes_towards_zero_and_the_remainder_has_the_sign_of_the_left(
    a: int, b: int, quotient: int, remainder: int
) -> None:
    """S003-69"""
    assert outcome("a / b == q && a % b == r", a=a, b=b, q=quotient, r=remainder) is True
    assert outcome(f"a / {b} == q && a % {b} == r", a=a, q=quotient, r=remainder) is True
    for op in "/%":
        assert outcome(f"a {op} zero == 0", a=a, zero=0) is ARITHMETIC
        assert outcome(f"a {op} 0 == 0", a=a) is ARITHMETIC
        assert (outcome(f"a {op} -1 == 0", a=a) is ARITHMETIC) == (a == MIN)


@pytest.mark.parametrize(
    ("text", "fits", "over"),
    [
        ("x + 1 != 0", MAX - 1, MAX),
        ("x - 1 != 0", MIN + 1, MIN),
        ("1 + x != 0", MAX - 1, MAX),
        ("x * 2 != 1", 2**62 - 1, 2**62),
        ("x * -2 != 1", 2**62, 2**62 + 1),
        ("-x != 0", MIN + 1, MIN),
        ("x / -1 != 0", MIN + 1, MIN),
        ("x % -1 == 0", MIN + 1, MIN),
        ("-1 - x != 5", MIN, None),
        ("0 - x != 5", MAX, MIN),
    ],
)
def test_an_integer_over_64_bits_is_an_arithmetic_error(
    text: str, fits: int, over: int | None
) -> None:
    assert outcome(text, x=fits) is True
    if over is not None:
        assert outcome(text, x=over) is ARITHMETIC


def test_iso_dates_compare_in_their_order() -> None:
    """BMQ-12"""
    text = 'date >= "2024-02-01" && date < "2024-03-01"'
    days = ["2024-01-31", "2024-02-01", "2024-02-29", "2024-03-01"]
    assert [outcome(text, date=day) for day in days] == [False, True, True, False]


def test_property_names_are_case_sensitive() -> None:
    """BMQ-13, S003-54, S003-56"""
    assert outcome("ask < Ask", ask=1, Ask=2) is True
    assert outcome("ask == 1", Ask=1) is NAME


def test_booleans_integers_and_strings_work_and_binary_does_not() -> None:
    """BMQ-14, S003-48; the integer types of a wire are all integers here"""
    assert outcome("b", b=True) is True
    assert outcome("i == 127", i=127) is True
    assert outcome('s == "a"', s="a") is True
    for text in ("x == 1", 'x == "a"', "x", "!x", "-x == 1", "x == x", "x != y", "x + nope == 1"):
        assert outcome(text, x=b"a", y=b"b") is TYPE
    assert outcome("exists(x)", x=b"a") is False
    assert outcome("!exists(x)", x=b"a") is True


@pytest.mark.parametrize("huge", [MAX + 1, MIN - 1, 2**1000])
def test_an_integer_property_over_64_bits_is_not_readable(huge: int) -> None:
    for text in ("x == 1", "x != 1", "x < 1", "!(x == 1)", "x == x", "x - 1 != 2", "x"):
        assert outcome(text, x=huge) is TYPE
    assert outcome("exists(x)", x=huge) is False


def test_exists_asks_for_a_property_without_reading_it() -> None:
    """BMQ-15"""
    assert outcome("exists(p)", p=0) is outcome("exists(p)", p="") is True
    assert outcome("exists(p)", p=False) is True
    assert outcome("exists(p)") is False
    text = "!exists(p) || p > 3"
    assert [outcome(text), outcome(text, p=4), outcome(text, p=3)] == [True, True, False]
    assert outcome("exists(p) || p > 3") is NAME
    assert outcome("exists(exists) && exists == 1", exists=1) is True


@pytest.mark.parametrize(
    ("op", "less", "equal", "greater"),
    [
        ("==", False, True, False),
        ("!=", True, False, True),
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
    ],
)
def test_the_six_comparisons_work_on_integers_and_on_strings(
    op: str, less: bool, equal: bool, greater: bool
) -> None:
    """S003-71"""
    wanted = [less, equal, greater]
    assert [outcome(f"x {op} 5", x=x) for x in (4, 5, 6)] == wanted
    assert [outcome(f"5 {op} x", x=x) for x in (6, 5, 4)] == wanted
    assert [outcome(f"x {op} y", x=x, y=5) for x in (4, 5, 6)] == wanted
    assert [outcome(f'x {op} "b"', x=x) for x in ("a", "b", "c")] == wanted
    assert [outcome(f'"b" {op} x', x=x) for x in ("c", "b", "a")] == wanted
    assert [outcome(f"x {op} y", x=x, y="b") for x in ("a", "b", "c")] == wanted
    assert [outcome(f"x {op} y", x=x, y="é") for x in ("è", "é", "ê")] == wanted
    assert [outcome(f'x {op} "é"', x=x) for x in ("è", "é", "ê")] == wanted


def test_two_booleans_compare_for_equality_and_have_no_order() -> None:
    """S003-73, BMQ-20"""
    assert outcome("a == b", a=True, b=True) is True
    assert outcome("a != b", a=True, b=True) is False
    assert outcome("(x == 1) == (y == 2)", x=0, y=0) is True
    assert outcome("x < y == true", x=1, y=2) is True
    assert outcome("x == false", x=False) is True
    assert outcome("x == true", x=1) is TYPE
    for op in ("<", "<=", ">", ">="):
        assert outcome(f"a {op} b", a=True, b=False) is TYPE
        assert outcome(f"a {op} true", a=True) is TYPE
        assert outcome(f"x < y {op} y", x=1, y=2) is TYPE


@pytest.mark.parametrize("number", [0, 1])
def test_a_boolean_is_not_an_integer(number: int) -> None:
    """S003-72; in Python True is 1"""
    assert outcome(f"x == {number}", x=bool(number)) is TYPE
    assert outcome(f"x == {'true' if number else 'false'}", x=number) is TYPE
    assert outcome("x == y", x=number, y=bool(number)) is TYPE
    assert outcome(f"x == {number}", x=number) is True


def test_strings_compare_by_their_bytes() -> None:
    """S003-74"""
    raw = sorted(draw.BYTES)
    texts = [item.decode("utf-8", "surrogateescape") for item in raw]
    for i, a in enumerate(texts):
        for j, b in enumerate(texts):
            assert precedes(a, b) is (i < j)
            assert outcome("a < b", a=a, b=b) is (i < j)
            assert outcome("a == b", a=a, b=b) is (i == j)
            predicate = compile_expression(b"a >= " + _quoted(raw[j]))
            assert predicate.matches({"a": a}) is (i >= j)


def _quoted(raw: bytes) -> bytes:
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def test_a_text_that_utf8_cannot_hold_has_some_order_and_does_no_harm() -> None:
    assert outcome('s > "é"', s="\ud800") is True


@pytest.mark.parametrize("wrong", ["i", "s", "1", '"t"', "i + 1"])
def test_boolean_operators_take_booleans(wrong: str) -> None:
    """S003-75"""
    message: Properties = {"i": 1, "s": "true", "yes": True, "no": False}
    assert outcome("!no && (yes || no)", **message) is True
    for text in (f"yes && {wrong}", f"no || {wrong}", f"({wrong}) && yes", f"({wrong}) || yes"):
        assert outcome(text, **message) is TYPE
    assert outcome(f"exists(i) && !({wrong})", **message) is TYPE


def test_operands_are_evaluated_before_their_types_are_compared() -> None:
    assert outcome("s + nope == 1", s="a") is NAME
    assert outcome("s == 1 / 0", s="a") is ARITHMETIC
    assert outcome("s + 1 == nope", s="a") is TYPE
    assert outcome("nope + 1 / 0 == 1") is NAME


def test_white_space_makes_another_text_and_the_same_tree() -> None:
    """BMQ-22 (groups are formed by text)"""
    one, other = compile_expression("x==1"), compile_expression("x == 1")
    assert one.text != other.text
    assert one.tree == other.tree


def test_the_names_of_python_are_only_names() -> None:
    for name in ("None", "properties", "def", "lambda", "k0", "v1", "MIN", "a.__class__"):
        assert outcome(f"{name} == 42 && {name} < 43", **{name: 42}) is True


def test_compiled_predicates_agree_with_the_reference() -> None:
    seed = SystemRandom().randrange(2**32)
    outcomes = agree.compare(20_000, seed)
    print(f"seed {seed}: {outcomes}")
    assert set(outcomes) == {"True", "False", "NAME", "TYPE", "ARITHMETIC"}


@settings(draw.relaxed, max_examples=300)
@given(draw.shaped_trees | draw.trees, draw.messages)
def test_a_compiled_predicate_agrees_with_the_reference(
    tree: Tree, message: dict[str, Value]
) -> None:
    assert agree.disagreement(tree, Predicate(text_of(tree), tree), message) is None


def test_what_was_drawn_for_one_seed_is_drawn_again() -> None:
    one, other = Random(7), Random(7)
    assert draw.tree(one, 5) == draw.tree(other, 5)
    assert draw.properties(one) == draw.properties(other)


def test_a_predicate_that_nobody_has_is_gone_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        for number in range(10):
            compile_expression(f"who == {number}")
        assert gc.collect() == 0
    finally:
        gc.enable()

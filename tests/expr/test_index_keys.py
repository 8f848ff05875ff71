"""Keys: what a message must have to match."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from headgate.expr.index_keys import Equal, Key, Present, Range, keys_of
from headgate.expr.nodes import Tree
from headgate.expr.parser import parse
from headgate.expr.types import Value
from tests.expr import draw, reference

MIN, MAX = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("x == 5", [Equal("x", 5)]),
        ("5 == x", [Equal("x", 5)]),
        ('s == "a"', [Equal("s", "a")]),
        ("b", [Equal("b", True)]),
        ("!b", [Equal("b", False)]),
        ("b == true", [Equal("b", True)]),
        ("b != true", [Equal("b", False)]),
        ("false == b", [Equal("b", False)]),
        ("x < 5", [Range("x", None, 4)]),
        ("x <= 5", [Range("x", None, 5)]),
        ("x > 5", [Range("x", 6, None)]),
        ("5 > x", [Range("x", None, 4)]),
        ("!(x < 5)", [Range("x", 5, None)]),
        ("!(x != 5)", [Equal("x", 5)]),
        ("x != 5", [Present("x")]),
        ('s != "a"', [Present("s")]),
        ('s < "m"', [Range("s", None, "m")]),
        ('"m" < s', [Range("s", "m", None)]),
        ('!(s < "m")', [Range("s", "m", None)]),
        ('s >= "a" && s < "b"', [Range("s", "a", "b")]),
        ('s >= "a" && s <= "a"', [Equal("s", "a")]),
        ("x >= 1 && x <= 5", [Range("x", 1, 5)]),
        ("x >= 1 && x >= 3", [Range("x", 3, None)]),
        ("x <= 1 && x <= 3", [Range("x", None, 1)]),
        ("x > 1 && x == 7", [Equal("x", 7)]),
        ("x == 1 || x == 2 || y == 3", [Equal("x", 1), Equal("x", 2), Equal("y", 3)]),
        ("x == 1 || x == 1", [Equal("x", 1)]),
        ("x == 1 || x == true", [Equal("x", 1), Equal("x", True)]),
        ("!(x == 1 || y == 2)", [Present("x")]),
        ("!(x != 1 && y != 2)", [Equal("x", 1), Equal("y", 2)]),
        ("x == 1 || true", [Present("x")]),
        ("false || x == 1", [Equal("x", 1)]),
        ("true && x == 1", [Equal("x", 1)]),
        ("exists(x)", [Present("x")]),
        ("exists(x) && x == 1", [Equal("x", 1)]),
        ("a == b", [Present("a")]),
        ("1 + a == b", [Present("a")]),
        ("x % 2 == 0", [Present("x")]),
        ("x + 5 == 10", [Equal("x", 5)]),
        ("5 + x == 10", [Equal("x", 5)]),
        ("x - 5 == 10", [Equal("x", 15)]),
        ("5 - x == 10", [Equal("x", -5)]),
        ("-x == 10", [Equal("x", -10)]),
        ("-x < 10", [Range("x", -9, None)]),
        ("x * 2 == 10", [Equal("x", 5)]),
        ("2 * x > 7", [Range("x", 4, 2**62 - 1)]),
        ("x * -2 > 7", [Range("x", -(2**62) + 1, -4)]),
        ("x / 2 == 5", [Range("x", 10, 11)]),
        ("x / 2 == 0", [Range("x", -1, 1)]),
        ("x / -2 == 5", [Range("x", -11, -10)]),
        ("x / 3 < 0", [Range("x", None, -3)]),
        ("x * 0 == 0", [Present("x")]),
        (f"x <= {MAX}", [Present("x")]),
        (f"x >= {MAX}", [Equal("x", MAX)]),
        ("x == 1 == true", [Equal("x", 1)]),
    ],
)
def test_keys_of_an_expression(text: str, keys: list[Key]) -> None:
    assert keys_of(parse(text)) == tuple(keys)


@pytest.mark.parametrize(
    "text",
    [
        "x * 2 == 11",
        "x < 5 && x > 5",
        'x < 5 && x < "a"',
        f"x < {MIN}",
        "x + 33",
        "x / 0 == 1",
        "x && false",
        "x + 1 == true",
        "a < b < c",
        "x * 0 == 1",
        'x + 1 < "a"',
        "-x",
        "1 == 2 && x",
        f"x + 1 > {MAX}",
        's > "b" && s < "a"',
        '"a" == 1 && x',
    ],
)
def test_no_key_holds_for_an_expression_that_cannot_match(text: str) -> None:
    assert keys_of(parse(text)) == ()


@pytest.mark.parametrize(
    "text", ["!exists(x)", "exists(x) || true", "!exists(x) || x > 3", "1 == 1 || x"]
)
def test_some_expressions_have_no_keys(text: str) -> None:
    assert keys_of(parse(text)) is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Equal("x", 1), "x is 1"),
        (Equal("x", True), "x is true"),
        (Equal("s", "a"), 's is "a"'),
        (Range("x", 1, None), "x is at least 1"),
        (Range("x", None, 5), "x is at most 5"),
        (Range("s", "a", "b"), 's is from "a" to "b"'),
        (Present("x"), "x is present"),
    ],
)
def test_a_key_says_what_it_asks(key: Key, text: str) -> None:
    assert str(key) == text


def test_a_key_holds_for_values_of_its_own_type_only() -> None:
    assert Equal("x", 1).holds({"x": 1})
    assert not Equal("x", 1).holds({"x": True})
    assert not Equal("x", 1).holds({})
    assert Range("x", 1, 3).holds({"x": 3})
    assert not Range("x", 1, 3).holds({"x": 4})
    assert not Range("x", 1, 3).holds({"x": 0})
    assert not Range("x", None, 3).holds({"x": True})
    assert not Range("x", None, 3).holds({"x": MIN - 1})
    assert not Range("s", "a", None).holds({"s": 5})
    assert not Present("x").holds({"x": b""})


@settings(draw.relaxed, max_examples=300)
@given(draw.shaped_trees, draw.messages)
def test_a_message_that_matches_holds_a_key(tree: Tree, message: dict[str, Value]) -> None:
    keys = keys_of(tree)
    if keys is not None and reference.evaluate(tree, message) is True:
        assert any(key.holds(message) for key in keys)


@pytest.mark.parametrize(
    ("day", "later"), [("2024-01-02", True), ("2024-01-01", True), ("2023-12-31", False)]
)
def test_dates_are_kept_in_the_order_of_their_text(day: str, later: bool) -> None:
    """BMQ-12, S003-74: from a day on, and up to it; and what is beyond ASCII by its bytes."""
    assert Range("d", "2024-01-01", None).holds({"d": day}) is later
    assert Range("d", None, "2024-01-01").holds({"d": day}) is (day != "2024-01-02")
    assert Range("d", "é", "é").holds({"d": "é"})
    assert not Range("d", "é", None).holds({"d": "è"})
    assert not Range("d", None, "é").holds({"d": "ê"})

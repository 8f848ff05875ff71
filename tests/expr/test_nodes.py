"""The tree and its way back to text."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from headgate.expr.nodes import (
    Binary,
    Boolean,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
    names_of,
    text_of,
)
from headgate.expr.parser import parse
from tests.expr import draw
from tests.expr.agree import ROOMY

X = Property("x")


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (Binary("-", X, Integer(-2)), "x - -2"),
        (Binary("-", X, Unary("-", Integer(2))), "x - - 2"),
        (Unary("-", Integer(5)), "- 5"),
        (Unary("-", Integer(-5)), "--5"),
        (Integer(-(2**63)), "-9223372036854775808"),
        (Unary("-", Unary("-", X)), "--x"),
        (Unary("!", Unary("-", X)), "!-x"),
        (Binary("-", Binary("-", X, X), X), "x - x - x"),
        (Binary("-", X, Binary("-", X, X)), "x - (x - x)"),
        (Binary("*", Binary("+", X, X), X), "(x + x) * x"),
        (Binary("<", Binary("<", X, X), X), "x < x < x"),
        (Binary("<", X, Binary("<", X, X)), "x < (x < x)"),
        (Unary("!", Binary("==", X, Boolean(True))), "!(x == true)"),
        (Binary("==", Unary("!", X), Text('a"\\')), '!x == "a\\"\\\\"'),
        (Binary("||", Binary("&&", X, X), X), "x && x || x"),
        (Binary("&&", X, Binary("||", X, X)), "x && (x || x)"),
    ],
)
def test_text_has_the_parentheses_it_needs_and_no_more(tree: Tree, text: str) -> None:
    assert text_of(tree) == text
    assert parse(f"x == 1 && ({text})", ROOMY) == Binary("&&", Binary("==", X, Integer(1)), tree)


@draw.relaxed
@given(draw.trees)
def test_parse_after_print_is_identity(tree: Tree) -> None:
    assume(names_of(tree))
    assert parse(text_of(tree), ROOMY) == tree


@draw.relaxed
@given(draw.shaped_trees)
def test_parse_after_print_is_identity_for_sensible_trees(tree: Tree) -> None:
    assume(names_of(tree))
    assert parse(text_of(tree), ROOMY) == tree


def test_literals_of_different_types_are_different_trees() -> None:
    assert parse("x == true") != parse("x == 1")


def test_names_come_once_in_the_order_of_the_text() -> None:
    assert names_of(parse("b == 1 || exists(a) && b < c")) == ("b", "a", "c")

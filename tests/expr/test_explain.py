"""What people are told about their expressions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ExpressionError
from headgate.expr.explain import Traced, caret, drawn, explain, hint, traced
from headgate.expr.index_keys import Equal
from headgate.expr.nodes import Tree, text_of
from headgate.expr.parser import parse
from headgate.expr.predicate import Failure, Predicate
from headgate.expr.types import Value
from tests.expr import draw


def error_of(text: str | bytes) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        explain(text)
    return caught.value


def test_a_tree_is_drawn_with_one_line_per_node() -> None:
    assert drawn(parse('!(x < 1 + y) && s == "a"')) == "\n".join(
        [
            "&&",
            "├─ !",
            "│  └─ <",
            "│     ├─ x",
            "│     └─ +",
            "│        ├─ 1",
            "│        └─ y",
            "└─ ==",
            "   ├─ s",
            '   └─ "a"',
        ]
    )


def test_an_explanation_has_the_keys() -> None:
    explanation = explain("x == 1")
    assert explanation.keys == (Equal("x", 1),)
    assert explanation.warnings == ()
    assert explanation.text == "x == 1"


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("a < b < c", "did you mean a < b && b < c?"),
        ("1 <= x <= 10", "did you mean 1 <= x && x <= 10?"),
        ("a == b == c", "did you mean a == b && b == c?"),
        ("z && a < b+1 < c", "did you mean a < b + 1 && b + 1 < c?"),
    ],
)
def test_a_chain_of_comparisons_is_warned_of(text: str, suggestion: str) -> None:
    """S003-83, BMQ-20"""
    assert any(warning.endswith(suggestion) for warning in explain(text).warnings)


@pytest.mark.parametrize("text", ["z && a < b + 1 && b + 1 < c", "!(a < b) || -x < 1", "a * 2 < b"])
def test_the_comparisons_that_are_suggested_are_not_warned_of(text: str) -> None:
    """S003-83, BMQ-20: nor is what they compare, as far as it can be of the right type."""
    assert explain(text).warnings == ()


@pytest.mark.parametrize("text", ["(x == 1) == (y == 2)", "a < b == true", "(x < 1) == b"])
def test_booleans_compared_on_purpose_are_not_warned_of(text: str) -> None:
    assert explain(text).warnings == ()


def test_every_chain_is_warned_of() -> None:
    warnings = explain("a < b < c < d").warnings
    assert sum("did you mean" in warning for warning in warnings) == 2


def test_a_bare_word_that_looks_like_text_is_warned_of() -> None:
    """S003-5"""
    (warning,) = explain("OrderType == EXPRESS").warnings
    assert "both property names" in warning
    assert 'OrderType == "EXPRESS"' in warning


@pytest.mark.parametrize("word", ["True", "TRUE", "False"])
def test_a_misspelt_boolean_is_warned_of(word: str) -> None:
    (warning,) = explain(f"x == {word}").warnings
    assert warning == f"{word} is a property name; the literal is {word.lower()}"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('x && "a" == 1', '"a" == 1 compares a string with an integer'),
        ("x + 1 == true", "compares an integer with a boolean"),
        ("x < true", "x < true orders booleans"),
        ('x + "a" == 1', '+ needs an integer, and "a" is a string'),
        ("!5 && x", "! needs a boolean, and 5 is an integer"),
        ("-(x == 1) == 1", "- needs an integer, and x == 1 is a boolean"),
        ("x + 33", "the result is an integer, not a boolean: no message can match"),
        ("x < 1 && x > 1", "no message can match"),
    ],
)
def test_what_never_matches_is_warned_of(text: str, part: str) -> None:
    """BMQ-5, S003-49"""
    assert any(part in warning for warning in explain(text).warnings)


@pytest.mark.parametrize("text", ["x", "x == 1", "!x || exists(y)", "x == y + 1", "x < y"])
def test_a_sound_expression_has_no_warning(text: str) -> None:
    assert explain(text).warnings == ()


def test_a_caret_stands_under_the_place() -> None:
    assert caret(error_of("x > > 1")).split("\n") == [
        "x > > 1",
        "    ^",
        "syntax error, unexpected > at offset 4",
    ]


def test_a_caret_counts_characters_where_the_offset_counts_bytes() -> None:
    """Line feeds and tabs take one column each."""
    assert caret(error_of('s == "éé"\n\t&& & x')).split("\n") == [
        's == "éé"  && & x',
        "              ^",
        "syntax error, unexpected invalid character at offset 16",
        "hint: use &&",
    ]


@pytest.mark.parametrize("text", [b'x == "\xff" ?', 'x == "\udcff" ?', '"\ud800"', "é" * 65])
def test_a_caret_is_drawn_for_text_that_is_no_text(text: str | bytes) -> None:
    lines = caret(error_of(text)).split("\n")
    assert len(lines[0]) >= len(lines[1])
    "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("x = 1", "use == to compare"),
        ("x === 1", "use == to compare"),
        ("x <> 1", "use != for unequal"),
        ("x == 1 and y == 2", "use &&"),
        ("x == 1 or y == 2", "use ||"),
        ("not x == 1", "use !"),
        ("x == 1 AND y", "use &&"),
        ("x & y", "use &&"),
        ("x | y", "use ||"),
        ("x == 'a'", 'use " for text'),
        ("== 1", None),
        ("x y", None),
        ("true", None),
    ],
)
def test_habits_of_other_languages_get_a_hint(text: str, advice: str | None) -> None:
    """S003-70, S003-79, BMQ-19"""
    assert hint(error_of(text)) == advice


@draw.relaxed
@given(st.text(max_size=140) | st.binary(max_size=140))
def test_any_text_is_explained_or_pointed_at(text: str | bytes) -> None:
    try:
        explain(text)
    except ExpressionError as error:
        picture = caret(error)
        picture.encode()
        hint(error)


# What every part comes to.


def values_of(text: str, **properties: object) -> list[tuple[str, object]]:
    """The parts that were come to, in the order in which they are written down."""

    def walk(part: Traced) -> Iterator[tuple[str, object]]:
        if part.is_reached:
            yield text_of(part.tree), part.value
        for each in part.parts:
            yield from walk(each)

    return list(walk(traced(explain(text).tree, properties)))  # type: ignore[arg-type]


def test_every_part_has_its_value() -> None:
    assert values_of("a + 1 == 3 && !b", a=2, b=False) == [
        ("a + 1 == 3 && !b", True),
        ("a + 1 == 3", True),
        ("a + 1", 3),
        ("a", 2),
        ("1", 1),
        ("3", 3),
        ("!b", True),
        ("b", False),
    ]


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("a == 1 || b == 2", [("a == 1 || b == 2", True), ("a == 1", True), ("a", 1), ("1", 1)]),
        ("a == 2 && b == 2", [("a == 2 && b == 2", False), ("a == 2", False), ("a", 1), ("2", 2)]),
        ("b == a", [("b == a", Failure.NAME), ("b", Failure.NAME)]),
        ("a / 0 == a", [("a / 0 == a", Failure.ARITHMETIC), ("a / 0", Failure.ARITHMETIC)]),
        ('a == "x"', [('a == "x"', Failure.TYPE), ("a", 1), ('"x"', "x")]),
        ("a", [("a", Failure.TYPE)]),
    ],
)
def test_what_decides_ends_the_evaluation(text: str, reached: list[tuple[str, object]]) -> None:
    assert values_of(text, a=1)[: len(reached)] == reached


@draw.relaxed
@given(draw.shaped_trees | draw.trees, draw.messages)
def test_the_root_is_what_the_predicate_evaluates_to(tree: Tree, message: dict[str, Value]) -> None:
    """Every part as if it were an expression by itself, as far as that may be one."""
    expected = Predicate("", tree).evaluate(message)
    found = traced(tree, message)
    assert found.value is expected or found.value == expected
    line = [found]
    while line:
        part = line.pop()
        line += part.parts
        assert part.is_reached or not any(each.is_reached for each in part.parts)
        if part.is_reached and isinstance(part.value, bool):
            assert Predicate("", part.tree).evaluate(message) is part.value

"""Expressions by shape: what they have in common, and where they are filed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given

from headgate.expr.nodes import Binary, Integer, Property, Text, Tree, Unary, text_of
from headgate.expr.parser import parse
from headgate.expr.predicate import Predicate
from headgate.expr.types import Kind, Properties, Value, is_readable, octets
from headgate.pipeline.routing.shapes import Part, Row, kinds_read, planned, rows_of, slot_kind
from tests.expr import draw
from tests.expr.route import message, shaped

X = Part("x", Kind.INTEGER)


def rows(text: str) -> list[Row]:
    found = rows_of(parse(text))
    assert found is not None
    return list(found)


def row(text: str) -> Row:
    (found,) = rows(text)
    return found


# Where an expression is filed.


@pytest.mark.parametrize(
    ("text", "probe", "values"),
    [
        ("x == 5", (X,), ((5,),)),
        ("x * 2 + 7 == 17", (X,), ((5,),)),
        ("!(x != 5)", (X,), ((5,),)),
        ('s == "é"', (Part("s", Kind.STRING),), ((b"\xc3\xa9",),)),
        ("y == 2 && x == 1", (X, Part("y", Kind.INTEGER)), ((1,), (2,))),
        ("b && x == 1", (Part("b", Kind.BOOLEAN), X), ((1,), (1,))),
        ("x >= 8 && x < 12", (Part("x", Kind.INTEGER, 2),), ((2,),)),
        ("x >= -1 && x <= 6", (Part("x", Kind.INTEGER, 4),), ((0, -1),)),
        (
            "y == 1 && x > 3 && x < 6",
            (Part("x", Kind.INTEGER, 2), Part("y", Kind.INTEGER)),
            ((1,), (1,)),
        ),
        ('s >= "abc" && s <= "abx"', (Part("s", Kind.STRING, 2),), ((b"ab",),)),
        ('s >= "abc" && s < "abd"', (Part("s", Kind.STRING, 3),), ((b"abc", b"abd"),)),
        ('s >= "ab" && s < "abz"', (Part("s", Kind.STRING, 2),), ((b"ab",),)),
        (f"x > {draw.MIN} && x < {draw.MAX}", (Part("x", Kind.INTEGER, 63),), ((0, -1),)),
    ],
)
def test_an_expression_is_filed_by_what_a_message_must_have(
    text: str, probe: tuple[Part, ...], values: tuple[tuple[int | bytes, ...], ...]
) -> None:
    found = row(text)
    assert found.probe == probe
    assert [set(each) for each in found.values] == [set(each) for each in values]


@pytest.mark.parametrize(
    "text",
    ["x > 5", "x != 5", "exists(x)", "!exists(x)", "b", "!b", "x % 7 == 3", "x == y", 's < "m"',
     's >= "a" && s < "m"', "x == 1 || y > 2", "b || x == 1", 's == "\udc80"'],
)  # fmt: skip
def test_what_tells_no_messages_apart_is_left_to_the_matcher(text: str) -> None:
    assert rows_of(parse(text)) is None


@pytest.mark.parametrize("text", ["x < 5 && x > 5", "x + 1", 'x == 1 && false && s == "a"'])
def test_what_cannot_match_has_no_rows(text: str) -> None:
    assert rows_of(parse(text)) == ()


def test_of_several_values_each_has_a_row() -> None:
    found = rows("x == 1 || x == 2 || x == 1 || x == 3")
    assert [each.values for each in found] == [((1,),), ((2,),), ((3,),)]
    assert len({each.shape for each in found}) == 1, "a property has one value: nothing to exclude"
    assert [each.integers for each in found] == [(1, 2, 1, 3, n) for n in (1, 2, 3)]


def test_a_row_excludes_the_earlier_ones_that_may_hold_at_once() -> None:
    one, other = rows('x == 1 || s == "a"')
    assert one.shape.earlier == ()
    assert [text_of(tree) for tree in other.shape.earlier] == ["x == ?i1"]
    assert other.integers == (1, 1)


def test_what_always_holds_joins_each_of_several() -> None:
    found = rows('(x == 1 || x == 2) && s == "a"')
    assert {each.probe for each in found} == {(Part("s", Kind.STRING), X)}


# Shapes.


def test_expressions_that_differ_in_literals_have_one_shape() -> None:
    one, other = row('x == 1 && s == "a"'), row('x == 2 && s == "b"')
    assert one.shape == other.shape
    assert text_of(one.shape.tree) == "x == ?i0 && s == ?s0"
    assert (other.integers, other.texts) == ((2,), ("b",))


def test_booleans_and_divisors_stay_in_the_shape() -> None:
    shape = row("x / 10 == 3 && b == true").shape
    assert text_of(shape.tree) == "x / 10 == ?i0 && b == true"


def test_the_most_frequent_shapes_are_taken_and_the_rest_is_left() -> None:
    trees = {f"x == {n}": parse(f"x == {n}") for n in range(5)}
    trees |= {f"y * 2 == {n}": parse(f"y * 2 == {n}") for n in (2, 4)}
    trees |= {text: parse(text) for text in ("x == 1 || y == 1", "x > 3", "x > 3 && x < 3")}
    plan = planned(trees, 1_500)
    assert [text_of(shape.tree) for shape in plan.shapes] == ["x == ?i0", "y * ?i0 == ?i1"]
    assert plan.rest == ("x > 3", "x == 1 || y == 1")
    assert len(plan.rows) == 7
    assert planned(trees, 0).rows == ()
    assert planned(trees).rest == ("x > 3",)


# The law: who matches is found, once.


def filled(tree: Tree, found: Row) -> Tree:
    """The literals back in their slots."""
    match tree:
        case Property(name) if slot_kind(name) is Kind.INTEGER:
            return Integer(found.integers[int(name[2:])])
        case Property(name) if slot_kind(name) is Kind.STRING:
            return Text(found.texts[int(name[2:])])
        case Unary(op, operand):
            return Unary(op, filled(operand, found))
        case Binary(op, left, right):
            return Binary(op, filled(left, found), filled(right, found))
        case _:
            return tree


def holds(tree: Tree, found: Row, properties: Properties) -> bool:
    return Predicate("", filled(tree, found)).matches(properties)


def taken(part: Part, properties: Properties) -> int | bytes | None:
    """What a probe takes of a message."""
    value = properties.get(part.name)
    if isinstance(value, bool):
        return int(value) if part.kind is Kind.BOOLEAN else None
    if isinstance(value, int) and part.kind is Kind.INTEGER:
        return value if part.grain < 0 else value >> part.grain
    if isinstance(value, str) and part.kind is Kind.STRING:
        return octets(value) if part.grain < 0 else octets(value)[: part.grain]
    return None


def is_found(row: Row, properties: Properties) -> bool:
    places = zip(row.probe, row.values, strict=True)
    return (
        all(taken(part, properties) in values for part, values in places)
        and holds(row.shape.tree, row, properties)
        and (row.shape.own is None or holds(row.shape.own, row, properties))
        and not any(holds(tree, row, properties) for tree in row.shape.earlier)
    )


def readable(properties: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in properties.items() if is_readable(value)}


def check(tree: Tree, properties: Properties) -> None:
    found = rows_of(tree)
    if found is not None:
        matches = Predicate("", tree).matches(properties)
        times = sum(is_found(each, properties) for each in found)
        assert times == matches, (text_of(tree), properties)


@draw.relaxed
@given(draw.shaped_trees, draw.messages)
def test_a_message_finds_what_it_matches_exactly_once(tree: Tree, drawn: Properties) -> None:
    check(tree, readable(drawn))


def test_usual_expressions_are_found_exactly_once() -> None:
    random = Random(5)
    found = Counter[bool]()
    for _ in range(3_000):
        tree = parse(shaped(random))
        found[rows_of(tree) is not None] += 1
        for _ in range(5):
            check(tree, readable(message(random)))
    assert found[True] > 1_000


# What conditions read.


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("x == 1", {"x": "i"}),
        ('x == 1 || s > "a"', {"x": "i", "s": "s"}),
        ("b && !c", {"b": "b", "c": "b"}),
        ("-x + y < z", {"x": "i", "y": "i", "z": "i"}),
        ("x == y", {"x": "bis", "y": "bis"}),
        ("x < y", {"x": "is", "y": "is"}),
        ("exists(x)", {"x": "bis"}),
        ("x == 1 && exists(x)", {"x": "bis"}),
    ],
)
def test_only_the_types_that_can_matter_are_read(text: str, kinds: dict[str, str]) -> None:
    found = kinds_read([parse(text)])
    assert {
        name: "".join(sorted(kind[0] for kind in read)) for name, read in found.items()
    } == kinds


@draw.relaxed
@given(draw.shaped_trees, draw.messages)
def test_values_of_types_that_cannot_matter_can_be_left_out(tree: Tree, drawn: Properties) -> None:
    properties = readable(drawn)
    read = kinds_read([tree])
    classes = {bool: Kind.BOOLEAN, int: Kind.INTEGER, str: Kind.STRING}
    left = {n: v for n, v in properties.items() if classes[v.__class__] in read.get(n, ())}
    predicate = Predicate("", tree)
    assert predicate.matches(properties) == predicate.matches(left)

"""The index finds what asking every predicate finds, in the same order."""

from __future__ import annotations

from random import Random, SystemRandom

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.expr.compiled_chunks import Entry, Pile, Tuning, compiled_together
from headgate.expr.index import PredicateIndex
from headgate.expr.index_keys import Equal, Range, choices_of
from headgate.expr.nodes import Tree, text_of
from headgate.expr.parser import parse
from headgate.expr.predicate import Predicate, compile_expression
from headgate.expr.types import Properties, Value
from tests.expr import draw
from tests.expr.agree import ROOMY
from tests.expr.route import TUNINGS, compare, is_bare

KEYED = Tuning(scanned=0)
MAX = 2**63 - 1


def indexed(*texts: str | None, tuning: Tuning = KEYED) -> PredicateIndex[str | None]:
    index: PredicateIndex[str | None] = PredicateIndex(tuning)
    for text in texts:
        index.add(compile_expression(text) if text is not None else None, text)
    return index


def asked(index: PredicateIndex[str | None], properties: Properties) -> list[str | None]:
    """Who is asked about a message."""
    line: list[Entry[str | None]] = []
    piles: list[Pile[str | None]] = []
    index._collect(properties, line, piles)
    for pile in piles:
        for chunk in pile.chunks:
            line += chunk.entries
    return sorted({item for _, _, item, _ in line}, key=str)


def test_the_highest_priority_comes_first_and_then_the_order_of_arrival() -> None:
    index: PredicateIndex[str] = PredicateIndex()
    for item, priority in (("b", 1), ("c", 1), ("z", -5), ("a", 2), ("d", 1)):
        index.add(compile_expression("x == 1"), item, priority)
    index.add(None, "e", 1)
    assert list(index.matching({"x": 1})) == ["a", "b", "c", "d", "e", "z"]
    assert list(index.matching({"x": 2})) == ["e"]
    assert len(index) == 6
    assert "z" in index
    assert "y" not in index


@pytest.mark.parametrize("tuning", TUNINGS)
def test_within_a_priority_the_order_can_be_given(tuning: Tuning) -> None:
    index: PredicateIndex[int] = PredicateIndex(tuning)
    for item, priority in ((30, 0), (2**60, 1), (5, 0), (10, 1), (20, 1)):
        index.add(compile_expression("x == 1 && y > 2"), item, priority, order=item)
    assert list(index.matching({"x": 1, "y": 3})) == [10, 20, 2**60, 5, 30]


@pytest.mark.parametrize("tuning", TUNINGS)
@pytest.mark.parametrize("text", ["x != 1", "x >= 0", "x == 2", "x + 1 > 0", "x > 0 && x < 5"])
def test_items_of_one_order_are_in_the_order_of_arrival(tuning: Tuning, text: str) -> None:
    """Two have the same place for a moment while they change theirs."""
    index: PredicateIndex[str] = PredicateIndex(tuning)
    for item in ("c", "a", "b"):
        index.add(compile_expression(text), item, priority=1, order=7)
    assert list(index.matching({"x": 2})) == ["c", "a", "b"]
    filed = index.remove("c")
    assert list(index.matching({"x": 2})) == ["a", "b"]
    index.restore(filed)
    assert list(index.matching({"x": 2})) == ["c", "a", "b"]


def test_nothing_matches_in_an_empty_index() -> None:
    index: PredicateIndex[str] = PredicateIndex()
    assert list(index.matching({"x": 1})) == []
    assert list(index.matching({})) == []


def test_without_properties_only_the_keyless_can_match() -> None:
    index = indexed("x == 1", "!exists(x)", None, "x > 5", "exists(x)")
    assert list(index.matching({})) == ["!exists(x)", None]


@pytest.mark.parametrize(
    ("text", "asks", "spares"),
    [
        ("x == 5", {"x": 5}, {"x": 6}),
        ("x == 1", {"x": 1}, {"x": True}),
        ("b", {"b": True}, {"b": 1}),
        ("!b", {"b": False}, {"b": 0}),
        ('s == "a"', {"s": "a"}, {"s": "b"}),
        ('s == "a"', {"s": "a"}, {"s": b"a"}),
        ("x >= 10 && x < 20", {"x": 15}, {"x": 40}),
        ("x >= -3 && x <= 3", {"x": 0}, {"x": 30}),
        ("x > 5", {"x": 6}, {"x": 5}),
        ("x < 5", {"x": -(2**63)}, {"x": 5}),
        ('s >= "ab" && s < "ac"', {"s": "abc"}, {"s": "b"}),
        ('s > "m"', {"s": "n"}, {"s": "a"}),
        ('s <= "m"', {"s": "a"}, {"s": "n"}),
        ("x == 1 || x == 2", {"x": 2}, {"x": 3}),
        ("x == 1 || y == 2", {"x": 1, "y": 2}, {"x": 2, "y": 1}),
        ("exists(x)", {"x": 1}, {"y": 1}),
        ("x % 2 == 0", {"x": 1}, {"y": 1}),
        ("x * 2 + 1 == 11", {"x": 5}, {"x": 4}),
        ("!(x != 3 || b)", {"x": 3}, {"x": 4, "b": False}),
        ("x / 10 == 3", {"x": 35}, {"x": 70}),
        (f"x > {MAX - 1}", {"x": MAX}, {"x": 0}),
        ("x == 1 && y > 3 && x < 5", {"x": 1}, {"x": 2, "y": 4}),
    ],
)
def test_a_message_asks_only_those_whose_keys_it_holds(
    text: str, asks: dict[str, Value], spares: dict[str, Value]
) -> None:
    index = indexed(text)
    assert asked(index, asks) == [text]
    assert asked(index, spares) == []


def test_an_expression_that_cannot_match_is_never_asked() -> None:
    index = indexed("x > 5 && x < 5", "x + 33")
    assert len(index) == 2
    assert asked(index, {"x": 5}) == []
    index.remove("x + 33")
    assert len(index) == 1


def test_of_two_equalities_the_less_common_is_the_key() -> None:
    index = indexed(*(f'kind == "k{n % 2}" && user == {n}' for n in range(100)))
    assert max(len(asked(index, {"kind": "k1", "user": n})) for n in range(50, 100)) < 30
    late = asked(indexed(*(f"x == {n} && b" for n in range(100))), {"x": 70, "b": True})
    assert late == ["x == 70 && b"]


def test_a_disjunction_may_be_filed_under_the_rarer_sides_of_both() -> None:
    texts = [f"(k == 1 && u == {n}) || (k == 1 && u == {n + 1000})" for n in range(50)]
    index = indexed(*texts)
    assert texts[40] in asked(index, {"k": 2, "u": 40})
    assert texts[40] in asked(index, {"k": 2, "u": 1040})
    assert texts[40] not in asked(index, {"k": 1, "u": 41})


def test_ranges_of_one_property_are_joined_across_the_conjunction() -> None:
    index = indexed("x >= 10 && y != 3 && x <= 12")
    assert asked(index, {"x": 11})
    assert not asked(index, {"x": 300})
    pinned = parse("x >= 10 && y < 3 && x <= 10")
    assert choices_of(pinned) == ((Equal("x", 10),), (Range("y", None, 2),))


class Counting(Predicate):
    """Counts how often it is asked."""

    __slots__ = ("count",)

    def __init__(self, text: str) -> None:
        super().__init__(text, compile_expression(text).tree)
        self.count = 0
        matches = self.matches

        def counted(properties: Properties) -> bool:
            self.count += 1
            return matches(properties)

        self.matches = counted


@pytest.mark.parametrize("tuning", TUNINGS)
def test_nobody_is_asked_twice_and_nobody_after_the_last_that_is_wanted(tuning: Tuning) -> None:
    index: PredicateIndex[int] = PredicateIndex(tuning)
    predicates = [Counting("x == 1 || y == 2 || exists(s)") for _ in range(100)]
    for number, predicate in enumerate(predicates):
        index.add(predicate, number, number % 3)
    message: dict[str, Value] = {"x": 1, "y": 2, "s": "a"}
    assert next(index.matching(message)) == 2
    assert sum(predicate.count for predicate in predicates) == 1
    assert len(list(index.matching(message))) == 100
    assert sorted(predicate.count for predicate in predicates) == [1] * 99 + [2]


def test_bounds_that_many_pass_are_not_gone_through_before_the_first_match() -> None:
    index: PredicateIndex[int] = PredicateIndex()
    predicates = [Counting(f"x > {number}") for number in range(1000)]
    for number, predicate in enumerate(predicates):
        index.add(predicate, number)
    assert next(index.matching({"x": 900})) == 0
    assert sum(predicate.count for predicate in predicates) == 1
    assert list(index.matching({"x": 2})) == [0, 1]
    assert sum(predicate.count for predicate in predicates) == 3


def test_a_bound_that_many_have_leads_to_a_pile() -> None:
    index: PredicateIndex[int] = PredicateIndex()
    for number in range(100):
        index.add(compile_expression(f"x > 5 && y != {number}"), number)
    assert list(index.matching({"x": 6, "y": 7})) == [n for n in range(100) if n != 7]
    assert list(index.matching({"x": 5, "y": 7})) == []


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**200, b"a", True, "", "\ud800\udc80"])
@pytest.mark.parametrize("tuning", TUNINGS)
def test_odd_values_match_what_they_match_alone(value: Value, tuning: Tuning) -> None:
    texts = [
        "x > 5",
        "x < 5",
        "x >= 1 && x <= 9223372036854775806",
        "x == 1",
        "x",
        "exists(x)",
        "!exists(x)",
        'x >= ""',
        'x < "\udc80"',
        'x > "a" && x < "\udcff"',
        "x % 2 == 0",
    ]
    index = indexed(*texts, tuning=tuning)
    wanted = [text for text in texts if compile_expression(text).matches({"x": value})]
    for _ in range(30):
        assert list(index.matching({"x": value})) == wanted


def test_long_texts_are_told_apart_by_their_beginning() -> None:
    beginning = "a" * 100
    predicate = compile_expression(f's > "{beginning}b" && s < "{beginning}d"', ROOMY)
    index: PredicateIndex[str] = PredicateIndex(KEYED)
    index.add(predicate, "long")
    assert list(index.matching({"s": f"{beginning}c"})) == ["long"]
    assert list(index.matching({"s": f"{beginning}e"})) == []
    assert list(index.matching({"s": "é" * 100})) == []


@pytest.mark.parametrize("tuning", TUNINGS)
def test_what_is_removed_leaves_nothing_behind(tuning: Tuning) -> None:
    random = Random(5)
    index: PredicateIndex[int] = PredicateIndex(tuning)
    for number in range(300):
        tree = draw.tree(random, random.randint(0, 6))
        index.add(Predicate(text_of(tree), tree), number, random.randrange(3))
        list(index.matching(draw.properties(random)))
    numbers = list(range(300))
    random.shuffle(numbers)
    for number in numbers:
        index.remove(number)
    assert is_bare(index)
    assert list(index.matching({"x": 1, "s": "a", "b": True})) == []


def test_a_removal_can_be_undone_and_keeps_the_order() -> None:
    index: PredicateIndex[str] = PredicateIndex()
    for item in "abc":
        index.add(compile_expression("x > 1"), item)
    removed = [index.remove("b"), index.remove("a")]
    assert list(index.matching({"x": 2})) == ["c"]
    for filed in reversed(removed):
        index.restore(filed)
    assert list(index.matching({"x": 2})) == ["a", "b", "c"]


def test_an_item_is_added_once() -> None:
    index = indexed("x == 1")
    with pytest.raises(AssertionError, match="added once"):
        index.add(None, "x == 1")


def test_adding_does_not_touch_what_others_have_compiled() -> None:
    index: PredicateIndex[int] = PredicateIndex(Tuning(scanned=0, bucket=0, chunk=10, heat=0))
    for number in range(100):
        index.add(compile_expression(f"x % 100 == {number}"), number)
    assert list(index.matching({"x": 42})) == [42]
    pile = index._present["x"]
    assert isinstance(pile, Pile)
    compiled = [chunk._select for chunk in pile.chunks]
    index.add(compile_expression("x % 7 == 0"), 100)
    index.remove(55)
    assert list(index.matching({"x": 42})) == [42, 100]
    kept = {chunk._select for chunk in pile.chunks} & set(compiled)
    assert len(kept) == 9


def test_together_each_shape_of_equality_selects_its_own_type() -> None:
    texts = ["x == 1", "x == 7", "true == x", 'x == "a"', "7 == x", "x == 0", "!x", "exists(x)"]
    predicates = [compile_expression(text) for text in texts]
    select = compiled_together([(n, p.matches, n, p.tree) for n, p in enumerate(predicates)])
    values: tuple[Value, ...] = (0, 1, 7, True, False, "a", b"a", 2**63)
    for value in values:
        found = [entry[0] for entry in select({"x": value})]
        assert found == [n for n, p in enumerate(predicates) if p.matches({"x": value})]


@settings(draw.relaxed, max_examples=200)
@given(st.lists(draw.shaped_trees | draw.trees, max_size=12), draw.messages)
def test_together_selects_what_each_selects_alone(
    trees: list[Tree], message: dict[str, Value]
) -> None:
    predicates = [Predicate(text_of(tree), tree) for tree in trees]
    entries = [(n, p.matches, n, p.tree) for n, p in enumerate(predicates)]
    found = [number for number, _, _, _ in compiled_together(entries)(message)]
    assert found == [n for n, p in enumerate(predicates) if p.matches(message)]


def test_the_deepest_tree_compiles_together_too() -> None:
    deep = "b && (" * 30 + "b" + ")" * 30
    nested = "!(" * 40 + "x == 1 || b" + ")" * 40
    trees = [compile_expression(text, ROOMY).tree for text in (deep, nested)]
    entries = [(n, Predicate("", tree).matches, n, tree) for n, tree in enumerate(trees)]
    select = compiled_together(entries)
    assert [entry[0] for entry in select({"b": True, "x": 1})] == [0, 1]


changes = st.lists(
    st.tuples(draw.shaped_trees, st.integers(-2, 2), st.booleans()), min_size=1, max_size=25
)


@settings(draw.relaxed, max_examples=200)
@given(changes, st.lists(draw.messages, min_size=1, max_size=4), st.sampled_from(TUNINGS))
def test_the_index_finds_what_asking_everybody_finds(
    changes: list[tuple[Tree, int, bool]], messages: list[dict[str, Value]], tuning: Tuning
) -> None:
    index: PredicateIndex[int] = PredicateIndex(tuning)
    linear: list[tuple[int, int, Predicate]] = []
    for number, (tree, priority, leaves) in enumerate(changes):
        predicate = Predicate(text_of(tree), tree)
        index.add(predicate, number, priority)
        linear.append((-priority, number, predicate))
        if leaves:
            _, gone, _ = linear.pop(len(linear) // 2)
            index.remove(gone)
        linear.sort(key=lambda entry: entry[:2])
        for message in messages:
            wanted = [number for _, number, predicate in linear if predicate.matches(message)]
            assert list(index.matching(message)) == wanted


FILED = (
    None,
    "x > 5 && x < 5",
    "x >= 3 && x <= 2",
    's > "b" && s < "a"',
    "x == 3",
    "x == 3 && b",
    "x == 3 || y == 3 || exists(s)",
    "x < 4",
    "x <= 4",
    "x > 4",
    "x >= 4",
    "x > 2 && x < 5",
    "x >= 3 && x <= 3",
    "y < 4 && x < 9",
    "!exists(y) || x == 3",
    "x == 3 || !exists(y)",
    "x == 2 || y == 4",
    "x < 4 && y != 9 && x < 6",
    's < "b" && y != 9 && s < "c"',
    "b",
    "!b",
    "exists(y)",
    "!exists(y)",
    "x % 2 == 0",
    's == "a"',
    's < "b"',
    's >= "ab" && s < "c"',
    "x * 2 + 1 == 7",
)
"""Every way in which an expression can be filed, never true and always true included."""


@pytest.mark.parametrize("backwards", [False, True], ids=["as they came", "backwards"])
@pytest.mark.parametrize("tuning", TUNINGS)
def test_each_finds_its_own_however_it_is_filed_and_nobody_who_left(
    tuning: Tuning, backwards: bool
) -> None:
    """S003-2, S003-3, S003-12, S003-14, S003-16, S003-27, S003-44, BMQ-2, BMQ-23, BMQ-30: a message
    is for those whose expression is true of its properties, for each once, among however many
    others; none is true of everything. It is so before and after others came between, and left."""
    messages: list[dict[str, Value]] = [{}, {"x": 3, "y": 3, "s": "a", "b": True}]
    messages += [{"x": value, "b": value % 2 == 0} for value in range(7)]
    messages += [{"y": value, "s": text} for value, text in ((3, "a"), (4, "ab"), (5, "b"))]
    index: PredicateIndex[int] = PredicateIndex(tuning)
    known: dict[int, Predicate | None] = {}

    def check() -> None:
        for message in messages:
            wanted = [n for n in sorted(known) if (p := known[n]) is None or p.matches(message)]
            assert list(index.matching(message)) == wanted, message

    places = [(turn, place) for turn in (1, 0, 2) for place in range(len(FILED))]
    for turn, place in reversed(places) if backwards else places:
        text, number = FILED[place], place * 3 + turn
        known[number] = compile_expression(text) if text is not None else None
        index.add(known[number], number, order=number)
        if place % 5 == turn:
            check()
    for number in [*range(0, 3 * len(FILED), 2), *range(1, 3 * len(FILED), 2)]:
        check()
        del known[number]
        index.remove(number)
    assert is_bare(index)


def test_twenty_thousand_drawn_routes_agree() -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    outcomes = compare(20_000, seed)
    assert outcomes["nobody"] > 100
    assert outcomes["matched"] > 5_000


def test_cost_does_not_grow_with_the_number_of_keys() -> None:
    index = indexed(*(f'user == "u{n}" && kind == "k{n % 7}"' for n in range(3000)))
    assert all(len(asked(index, {"user": f"u{n}", "kind": "k1"})) < 30 for n in range(3000))

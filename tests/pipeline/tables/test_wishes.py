"""Who wanted what, and from when to when."""

from __future__ import annotations

from headgate.pipeline.tables.wishes import Wishes
from tests.support.wishes import OTHER, Q, leaves, restart, wants


def test_an_expression_is_wanted_while_anybody_wants_it() -> None:
    wishes = Wishes()
    wishes.follow([*wants(10, 1, "x > 1"), *wants(20, 2, "x > 1"), *leaves(30, 1), *leaves(40, 2)])
    assert wishes.spans == {(Q, "", "x > 1"): [(10, 40)]}
    assert wishes.wanted == {}


def test_what_a_session_sets_replaces_what_it_had() -> None:
    wishes = Wishes()
    wishes.follow([*wants(10, 1, "a", "b"), *wants(20, 1, "b", None)])
    assert wishes.wanted == {(Q, "", 1): ("b",)}
    assert wishes.spans[Q, "", "a"] == [(10, 20)]
    assert wishes.spans[Q, "", "b"] == [(11, None)]


def test_a_restart_ends_what_everybody_wanted() -> None:
    wishes = Wishes()
    wishes.follow([*wants(10, 1, "a"), *wants(11, 2, "b", queue=OTHER), *restart(20)])
    assert wishes.wanted == {}
    assert [spans[-1][1] for spans in wishes.spans.values()] == [20, 20]


def test_what_is_wanted_is_known_again_in_the_next_batch() -> None:
    wishes = Wishes()
    wishes.follow([*wants(10, 1, "a"), *wants(20, 2, "b"), *leaves(30, 1)])
    again = Wishes.read(wishes.table())
    assert again.wanted == wishes.wanted
    assert again.spans == {(Q, "", "b"): [(0, None)]}
    wishes.go_on()
    assert wishes == again, "whether it is read again or not"

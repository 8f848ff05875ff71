"""Who gets a message, asked directly: groups, levels, rotation, everybody."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from headgate.core import dispatch
from headgate.core.dispatch import Group, Groups, Subscription
from headgate.core.gate import Gate, Window
from headgate.core.message import Properties
from headgate.core.names import Seq, SessionId
from headgate.core.undo import Undo
from headgate.expr.predicate import compile_expression
from headgate.testing.picture import snapshot


def sub(
    session: int,
    text: str | None = None,
    priority: int = 0,
    window: int = 10,
    *,
    index: int = 0,
    bytes_: int | None = None,
) -> Subscription:
    predicate = None if text is None else compile_expression(text)
    gate: Gate[Seq] = Gate(Window(window, bytes_))
    return Subscription(SessionId(session), index, predicate, priority, gate)


def levels_of(subscriptions: Iterable[Subscription]) -> Groups:
    """The groups of subscriptions that came in this order."""
    groups = Groups()
    by_text: dict[str | None, list[Subscription]] = {}
    for place, subscription in enumerate(subscriptions):
        subscription.place = place
        by_text.setdefault(subscription.text, []).append(subscription)
    for text, members in by_text.items():
        groups.replace(text, members, Undo())
    return groups


def by_priority(
    properties: Properties, groups: Groups
) -> tuple[Subscription | None, Iterable[Group]]:
    return dispatch.by_priority(groups.matching(properties))


def everybody(properties: Properties, groups: Groups) -> Iterable[Subscription]:
    return dispatch.everybody(groups.matching(properties))


def shape(levels: Groups) -> list[list[tuple[str | None, list[int]]]]:
    """The groups of each level, each with its sessions."""
    ordered = sorted(levels, key=lambda group: -group.priority)
    return [
        [(g.text, [m.session for m in g.rotation]) for g in level]
        for _, level in groupby(ordered, key=lambda group: group.priority)
    ]


def taken(levels: Groups, properties: Properties, times: int = 1) -> list[int]:
    """Who takes so many messages; nothing is confirmed."""
    takers = []
    for number in range(times):
        taker, _ = by_priority(properties, levels)
        if taker is not None:
            taker.gate.admit(Seq(1000 + number + len(taker.gate.outstanding)), 1, 0.0)
            assert taker.predicate is None or taker.predicate(properties)
            [group] = [g for g in levels if taker in g.rotation]
            group.rotate(taker, Undo())
            takers.append(int(taker.session))
    return takers


def reached(levels: Groups, properties: Properties) -> list[int]:
    return [int(subscription.session) for subscription in everybody(properties, levels)]


# Levels.


def test_nobody_makes_no_level() -> None:
    """S003-14: and nobody gets anything."""
    nobody = levels_of([])
    assert shape(nobody) == []
    assert by_priority({"x": 1}, nobody) == (None, [])
    assert reached(nobody, {"x": 1}) == []


def test_equal_texts_are_one_group_and_others_are_not() -> None:
    """C22, S003-39, S003-40: character by character."""
    levels = levels_of([sub(1, "x==1"), sub(2, "x == 1"), sub(3, "x==1"), sub(4)])
    assert shape(levels) == [[("x==1", [1, 3]), ("x == 1", [2]), (None, [4])]]


def test_only_the_highest_priority_of_a_text_is_active() -> None:
    """C27, S003-35."""
    levels = levels_of([sub(1, "x==1", 1), sub(2, "x==1", 5), sub(3, "x==1", 5)])
    assert shape(levels) == [[("x==1", [2, 3])]]


def test_levels_go_from_high_to_low_and_within_one_by_arrival() -> None:
    """C28, S003-30: B3."""
    levels = levels_of([sub(1, "a==1", -1), sub(2, "b==1", 5), sub(3, "c==1", 5), sub(4, None, 0)])
    assert shape(levels) == [
        [("b==1", [2]), ("c==1", [3])],
        [(None, [4])],
        [("a==1", [1])],
    ]


def test_a_group_that_was_first_at_a_low_priority_stands_where_it_first_came() -> None:
    """C28: attach order is that of the text's first subscription or of the active one; in
    either reading an earlier text at the same priority goes first."""
    levels = levels_of([sub(1, "a==1", 5), sub(2, "b==1", 1), sub(2, "b==1", 5, index=1)])
    matching = levels.matching({"a": 1, "b": 1})
    assert [group.text for group in matching] == ["a==1", "b==1"]


def test_a_group_has_the_sum_of_the_windows_of_its_active_members() -> None:
    """S003-39: not those of a lower priority."""
    levels = levels_of(
        [sub(1, "x==1", 5, 3, bytes_=100), sub(2, "x==1", 5, 4, bytes_=50), sub(3, "x==1", 1, 9)]
    )
    assert next(iter(levels)).capacity == Window(7, 150)


def test_a_member_without_a_bound_of_bytes_makes_the_sum_unbounded() -> None:
    """S003-39."""
    levels = levels_of([sub(1, "x==1", 0, 3, bytes_=100), sub(2, "x==1", 0, 4)])
    assert next(iter(levels)).capacity == Window(7, None)


# By priority.


def test_the_first_level_that_matches_decides() -> None:
    """C28, S003-30, S003-31."""
    levels = levels_of([sub(1, "x >= 0", 5), sub(2, "x == 0", 10)])
    assert taken(levels, {"x": 0}, 3) == [2, 2, 2]
    assert taken(levels, {"x": 1}, 2) == [1, 1]


def test_members_take_turns() -> None:
    """C36, S003-36, S003-41."""
    levels = levels_of([sub(n, "x==1") for n in (1, 2, 3)])
    assert taken(levels, {"x": 1}, 7) == [1, 2, 3, 1, 2, 3, 1]


def test_groups_take_turns_on_their_own() -> None:
    """C37."""
    levels = levels_of([sub(n, t, index=i) for n in (1, 2) for i, t in enumerate(("x>0", "y>0"))])
    assert taken(levels, {"x": 1}) == [1]
    assert taken(levels, {"y": 1}) == [1]
    assert taken(levels, {"x": 1}) == [2]
    assert taken(levels, {"y": 1}) == [2]


def test_a_full_member_is_passed_over_and_keeps_its_place() -> None:
    """C39."""
    first, second = sub(1, None, 0, 1), sub(2)
    levels = levels_of([first, second])
    assert taken(levels, {}, 4) == [1, 2, 2, 2]
    first.gate.confirm(next(iter(first.gate.outstanding)))
    assert taken(levels, {}, 3) == [1, 2, 2]


def test_a_full_level_ends_the_search_and_tells_the_groups() -> None:
    """C41, S003-37: every matching group of the level, and none below."""
    levels = levels_of(
        [
            sub(1, "x > 0", 5, 0),
            sub(2, "x > 1", 5, 0),
            sub(3, "x < 0", 5, 0),
            sub(4, "x > -9", 1),
        ]
    )
    taker, full = by_priority({"x": 2}, levels)
    assert taker is None
    assert [group.text for group in full] == ["x > 0", "x > 1"]


def test_no_match_is_nobody_and_no_group() -> None:
    """C23, C7: false, a missing property and a wrong type alike."""
    levels = levels_of([sub(1, "x == 1"), sub(2, "y > 0"), sub(3, 'x == "a"', window=0)])
    assert by_priority({"x": 2}, levels) == (None, [])


def test_asking_does_not_change_anything() -> None:
    """C36: whose turn it is changes with `rotate` alone."""
    levels = levels_of([sub(1, "x > 0"), sub(2, "x > 0"), sub(3, None, 2, 0)])
    before = snapshot(levels)
    for _ in range(3):
        by_priority({"x": 1}, levels)
        list(everybody({"x": 1}, levels))
    assert snapshot(levels) == before


def test_a_turn_can_be_taken_back() -> None:
    """C36: from any place in the line."""
    levels = levels_of([sub(n) for n in (1, 2, 3, 4)])
    [group] = levels
    before = list(group.rotation)
    undo = Undo()
    for place in (2, 0, 3, 1):
        group.rotate(before[place], undo)
    undo.take_back()
    assert list(group.rotation) == before


class Forgetful(dict[str, int]):
    """Properties that count how often they are asked."""

    asked = 0

    def __getitem__(self, name: str) -> int:
        self.asked += 1
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> object:  # type: ignore[override]
        self.asked += 1
        return super().get(name, default)


def test_a_merged_expression_is_evaluated_once() -> None:
    """S003-43: for one of many, and for all of them."""
    levels = levels_of([sub(n, "x == 1", window=n % 2) for n in range(1, 100)])
    properties = Forgetful(x=1)
    by_priority(properties, levels)
    assert properties.asked == 1
    properties = Forgetful(x=1)
    assert len(list(everybody(properties, levels))) == 50
    assert properties.asked == 1


# Everybody.


def test_everybody_is_every_session_with_an_active_match_once() -> None:
    """C78, C80: B11."""
    levels = levels_of(
        [
            sub(1, "x < 100", 2),
            sub(2, "x >= 100", 2),
            sub(3, "x >= 0", 2),
            sub(4, "x >= 0", 1),
            sub(5, "x > -1", 1),
            sub(1, None, 0, index=1),
        ]
    )
    assert sorted(reached(levels, {"x": 50})) == [1, 3, 5]
    assert sorted(reached(levels, {"x": 150})) == [1, 2, 3, 5]


def test_everybody_leaves_out_those_who_pause() -> None:
    """C78, C46: through another subscription they may still be reached."""
    levels = levels_of([sub(1, None, 0, 0), sub(2, None, 0, 0), sub(2, "x > 0", 0, 1)])
    assert reached(levels, {"x": 1}) == [2]


def test_everybody_is_reached_through_the_first_of_its_subscriptions_that_match() -> None:
    """C80, S003-27."""
    levels = levels_of([sub(1, "x > 9", index=0), sub(1, "x > 0", index=1), sub(1, None, index=2)])
    assert [s.index for s in everybody({"x": 1}, levels)] == [1]

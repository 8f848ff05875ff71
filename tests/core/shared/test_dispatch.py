"""Who gets a message: groups, levels, rotation, everybody; asked directly, and at a queue."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest

from headgate.core.delivery.gate import Gate
from headgate.core.model.ids import Seq, SessionId
from headgate.core.model.message import Properties
from headgate.core.model.window import Window
from headgate.core.shared import dispatch
from headgate.core.shared.dispatch import Group, Groups, Subscription
from headgate.core.turn.undo import Undo
from headgate.expr.predicate import compile_expression
from headgate.testing.picture import snapshot
from tests.support.exclusive_queues import calls
from tests.support.shared_queues import BROADCAST, Consumer, Counting, Shop


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
        for member in members:
            groups.add(member, Undo())
        groups.file(text, Undo())
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
    """BMQ-22, S003-39, S003-40: character by character."""
    levels = levels_of([sub(1, "x==1"), sub(2, "x == 1"), sub(3, "x==1"), sub(4)])
    assert shape(levels) == [[("x==1", [1, 3]), ("x == 1", [2]), (None, [4])]]


def test_only_the_highest_priority_of_a_text_is_active() -> None:
    """BMQ-27, S003-35."""
    levels = levels_of([sub(1, "x==1", 1), sub(2, "x==1", 5), sub(3, "x==1", 5)])
    assert shape(levels) == [[("x==1", [2, 3])]]


def test_levels_go_from_high_to_low_and_within_one_by_arrival() -> None:
    """BMQ-28, S003-30: B3."""
    levels = levels_of([sub(1, "a==1", -1), sub(2, "b==1", 5), sub(3, "c==1", 5), sub(4, None, 0)])
    assert shape(levels) == [
        [("b==1", [2]), ("c==1", [3])],
        [(None, [4])],
        [("a==1", [1])],
    ]


def test_a_group_that_was_first_at_a_low_priority_stands_where_it_first_came() -> None:
    """BMQ-28: attach order is that of the text's first subscription or of the active one; in
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
    """BMQ-28, S003-30, S003-31."""
    levels = levels_of([sub(1, "x >= 0", 5), sub(2, "x == 0", 10)])
    assert taken(levels, {"x": 0}, 3) == [2, 2, 2]
    assert taken(levels, {"x": 1}, 2) == [1, 1]


def test_members_take_turns() -> None:
    """BMQ-36, S003-36, S003-41."""
    levels = levels_of([sub(n, "x==1") for n in (1, 2, 3)])
    assert taken(levels, {"x": 1}, 7) == [1, 2, 3, 1, 2, 3, 1]


def test_groups_take_turns_on_their_own() -> None:
    """BMQ-37."""
    levels = levels_of([sub(n, t, index=i) for n in (1, 2) for i, t in enumerate(("x>0", "y>0"))])
    assert taken(levels, {"x": 1}) == [1]
    assert taken(levels, {"y": 1}) == [1]
    assert taken(levels, {"x": 1}) == [2]
    assert taken(levels, {"y": 1}) == [2]


def test_a_full_member_is_passed_over_and_keeps_its_place() -> None:
    """BMQ-39."""
    first, second = sub(1, None, 0, 1), sub(2)
    levels = levels_of([first, second])
    assert taken(levels, {}, 4) == [1, 2, 2, 2]
    first.gate.confirm(next(iter(first.gate.outstanding)))
    assert taken(levels, {}, 3) == [1, 2, 2]


def test_a_full_level_ends_the_search_and_tells_the_groups() -> None:
    """BMQ-41, S003-37: every matching group of the level, and none below."""
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
    """BMQ-23, BMQ-7: false, a missing property and a wrong type alike."""
    levels = levels_of([sub(1, "x == 1"), sub(2, "y > 0"), sub(3, 'x == "a"', window=0)])
    assert by_priority({"x": 2}, levels) == (None, [])


def test_asking_does_not_change_anything() -> None:
    """BMQ-36: whose turn it is changes with `rotate` alone."""
    levels = levels_of([sub(1, "x > 0"), sub(2, "x > 0"), sub(3, None, 2, 0)])
    before = snapshot(levels)
    for _ in range(3):
        by_priority({"x": 1}, levels)
        list(everybody({"x": 1}, levels))
    assert snapshot(levels) == before


def test_a_turn_can_be_taken_back() -> None:
    """BMQ-36: from any place in the line."""
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
    """BMQ-78, BMQ-80: B11."""
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
    """BMQ-78, BMQ-46: through another subscription they may still be reached."""
    levels = levels_of([sub(1, None, 0, 0), sub(2, None, 0, 0), sub(2, "x > 0", 0, 1)])
    assert reached(levels, {"x": 1}) == [2]


def test_everybody_is_reached_through_the_first_of_its_subscriptions_that_match() -> None:
    """BMQ-80, S003-27."""
    levels = levels_of([sub(1, "x > 9", index=0), sub(1, "x > 0", index=1), sub(1, None, index=2)])
    assert [s.index for s in everybody({"x": 1}, levels)] == [1]


def test_to_come_or_to_go_costs_nothing_for_those_who_stay() -> None:
    """A crowd of consumers of one queue comes and goes in a time that grows with the crowd."""

    def cost(crowd: int) -> int:
        shop = Shop()
        for _ in range(crowd):
            shop.consumer(window=1)
        came: list[Consumer] = []
        coming = calls(lambda: came.append(shop.consumer(window=1)))
        return coming + calls(came[0].crash)

    assert cost(500) < 1.5 * cost(50)


def test_white_space_makes_another_group() -> None:
    """BMQ-22, S003-40: the same text takes turns, a variant stands behind the first."""
    shop = Shop()
    a = shop.consumer("x==1", window=2)
    b = shop.consumer("x == 1")
    shop.post_each(1, 1, 1)
    assert (a.got(), b.got()) == ([1, 2], [3])

    shop = Shop()
    a = shop.consumer("x==1", window=2)
    b = shop.consumer("x==1")
    shop.post_each(1, 1, 1)
    assert (a.got(), b.got()) == ([1, 3], [2])


def test_white_space_makes_another_group_with_its_own_priority() -> None:
    """BMQ-22, S003-29, S003-40: of a group only the highest priority is active; of two groups
    the lower one is there for broadcast."""
    for text, expected in (("x==1", []), ("x == 1", [1])):
        shop = Shop(BROADCAST)
        shop.consumer("x==1", priority=5)
        b = shop.consumer(text, priority=1)
        shop.post_each(1)
        assert b.got() == expected


def test_subscriptions_that_do_not_overlap_split_the_stream() -> None:
    """BMQ-26, S003-3, S003-32: exactly, each in order."""
    shop = Shop()
    thirds = [shop.consumer(f"x % 3 == {rest}") for rest in range(3)]
    shop.post_each(*range(30))
    for rest, consumer in enumerate(thirds):
        assert consumer.got_x() == list(range(rest, 30, 3))


def test_the_higher_priority_gets_everything_until_it_drops() -> None:
    """BMQ-27, S003-35, S003-38: 10 and 5, then 1 and 5."""
    shop = Shop()
    high = shop.consumer("x >= 0", priority=10)
    low = shop.consumer("x >= 0", priority=5)
    shop.post_each(1, 2)
    high.configure("x >= 0", priority=1)
    shop.post_each(3, 4)
    assert (high.got_x(), low.got_x()) == ([1, 2], [3, 4])


def test_an_overlap_goes_to_the_higher_priority() -> None:
    """BMQ-28, S003-30: `x >= 1000` at 5 and `x >= 0` at 1."""
    shop = Shop()
    low = shop.consumer("x >= 0", priority=1)
    high = shop.consumer("x >= 1000", priority=5)
    shop.post_each(5, 1000, 999, 2000)
    assert (low.got_x(), high.got_x()) == ([5, 999], [1000, 2000])


def test_the_first_that_matches_from_the_top_gets_it_always() -> None:
    """S003-29, S003-31: `CustomerId == 0` at 10, `CustomerId >= 0` at 5."""
    shop = Shop()
    low = shop.consumer("CustomerId >= 0", priority=5)
    high = shop.consumer("CustomerId == 0", priority=10)
    for customer in (0, 1, 0, 0, 2):
        shop.post(CustomerId=customer)
    assert (high.got(), low.got()) == ([1, 3, 4], [2, 5])


@pytest.mark.once
def test_a_consumer_may_have_256_subscriptions() -> None:
    """BMQ-29: each message comes once, for the subscription that is its own."""
    shop = Shop()
    a = shop.consumer(*(f"x == {n}" for n in range(256)))
    values = [(n * 37) % 300 for n in range(300)]
    shop.post_each(*values)
    news = a.news()
    assert [d.message.properties["x"] for d in news] == [x for x in values if x < 256]
    assert all(d.interests == (d.message.properties["x"],) for d in news)


def test_several_matching_subscriptions_of_a_consumer_make_one_delivery() -> None:
    """BMQ-30, S003-27: for one of them."""
    shop = Shop()
    a = shop.consumer("x > 0", "x > 1", "x < 9", None)
    shop.post_each(5, 6)
    assert a.got() == [1, 2]
    a.confirm(1, 2)
    assert a.got() == []
    assert shop.usage().messages == 0


def test_several_expressions_of_a_consumer_are_or() -> None:
    """BMQ-31, S003-26."""
    shop = Shop()
    a = shop.consumer("x == 1", "x == 3")
    shop.post_each(1, 2, 3, 4)
    assert a.got_x() == [1, 3]


def test_below_filtered_consumers_one_without_gets_what_they_do_not_match() -> None:
    """BMQ-34, S003-1: by priority."""
    shop = Shop()
    rest = shop.consumer()
    ones = shop.consumer("x == 1", priority=1)
    twos = shop.consumer("x == 2", priority=1)
    shop.post_each(1, 2, 3, 1)
    assert (ones.got_x(), twos.got_x(), rest.got_x()) == ([1, 1], [2], [3])


def test_above_filtered_consumers_one_without_gets_everything() -> None:
    """BMQ-34: even when it is full, nothing goes to the lower one."""
    shop = Shop()
    top = shop.consumer(priority=1, window=2)
    low = shop.consumer("x == 1")
    shop.post_each(1, 2, 1)
    assert (top.got(), low.got()) == ([1, 2], [])


def test_equal_consumers_take_turns() -> None:
    """BMQ-36, S003-13, S003-36, S003-41: K consumers and K times N messages, N each."""
    shop = Shop()
    consumers = [shop.consumer("x >= 0") for _ in range(3)]
    shop.post_each(*range(12))
    for place, consumer in enumerate(consumers):
        assert consumer.got_x() == [place, place + 3, place + 6, place + 9]


def test_each_group_takes_turns_on_its_own() -> None:
    """BMQ-37."""
    shop = Shop()
    a = shop.consumer("x == 1", "x == 2")
    b = shop.consumer("x == 1", "x == 2")
    shop.post_each(1, 2, 1, 2, 2, 2)
    assert (a.got(), b.got()) == ([1, 2, 5], [3, 4, 6])


def test_each_kind_is_shared_among_its_own_consumers_only() -> None:
    """S003-19: two on one value of a property and three on another."""
    shop = Shop()
    ones = [shop.consumer("x == 1") for _ in range(2)]
    twos = [shop.consumer("x == 2") for _ in range(3)]
    shop.post_each(*(6 * [1, 2]))
    assert [c.got_x() for c in ones] == 2 * [[1, 1, 1]]
    assert [c.got_x() for c in twos] == 3 * [[2, 2]]


def test_a_consumer_with_two_equal_subscriptions_counts_twice() -> None:
    """BMQ-36, S003-24: B4, each has its turn and its own window."""
    shop = Shop()
    a = shop.consumer("x >= 0", "x >= 0")
    b = shop.consumer("x >= 0")
    shop.post_each(*range(6))
    assert (a.got_x(), b.got_x()) == ([0, 1, 3, 4], [2, 5])


def test_a_full_consumer_is_skipped_and_keeps_its_place() -> None:
    """BMQ-39, S003-13: the others of its group take its share."""
    shop = Shop()
    a = shop.consumer(window=1)
    b = shop.consumer()
    shop.post_many(4)
    assert (a.got(), b.got()) == ([1], [2, 3, 4])
    a.confirm(1)
    shop.post_many(2)
    assert (a.got(), b.got()) == ([5], [6])


def test_nothing_spills_to_a_lower_priority_of_the_same_expression() -> None:
    """BMQ-41, S003-35, S003-37."""
    shop = Shop()
    high = shop.consumer("x >= 0", priority=5, window=1)
    low = shop.consumer("x >= 0", priority=1)
    shop.post_each(1, 2, 3)
    assert (high.got(), low.got()) == ([1], [])
    high.confirm(1)
    assert (high.got(), low.got()) == ([2], [])


def test_nothing_spills_to_a_lower_priority_of_another_expression() -> None:
    """BMQ-41, S003-30, S003-37: the decision. It waits even after the first full message."""
    shop = Shop()
    high = shop.consumer("x >= 1000", priority=5, window=1)
    low = shop.consumer("x >= 0", priority=1)
    shop.post_each(1000, 1001, 1002, 7, 1003)
    assert (high.got_x(), low.got_x()) == ([1000], [7])
    high.confirm(1)
    shop.post_each(1004)
    assert (high.got_x(), low.got_x()) == ([1001], [])
    high.crash()
    assert sorted(low.got()) == [2, 3, 5, 6]


def test_a_full_group_leaves_the_message_to_another_of_the_same_priority() -> None:
    """BMQ-41: B3, the search ends with the priority, not with the group."""
    shop = Shop()
    a = shop.consumer("x > 0", priority=5, window=1)
    b = shop.consumer("x > 1", priority=5, window=1)
    c = shop.consumer(priority=4)
    shop.post_each(2, 2, 2, 1)
    assert (a.got(), b.got(), c.got()) == ([1], [2], [])
    b.confirm(2)
    assert (a.got(), b.got(), c.got()) == ([], [3], [])
    a.confirm(1)
    assert (a.got(), b.got(), c.got()) == ([4], [], [])


def test_a_paused_consumer_is_passed_over_by_its_group() -> None:
    """BMQ-46, BMQ-39."""
    shop = Shop()
    a = shop.consumer(window=0)
    b = shop.consumer()
    shop.post_many(3)
    assert (a.got(), b.got()) == ([], [1, 2, 3])


@pytest.mark.once
def test_an_expression_is_evaluated_once_per_message_however_many_consumers() -> None:
    """S003-43: a merged subscription; and not again before the subscriptions change."""
    shop = Shop()
    consumers = [shop.consumer("x == 1", window=1) for _ in range(10)]
    properties = Counting(x=2)
    shop.ask(shop.sending(1, properties))
    assert properties.reads == ["x"]
    for number in range(2, 12):
        shop.ask(shop.sending(number, {"x": 1}))
    consumers[0].confirm(2)
    assert properties.reads == ["x"]
    consumers[0].configure("x == 1", window=2)
    assert properties.reads == ["x", "x"]


@pytest.mark.once
def test_a_match_reads_only_what_it_names() -> None:
    """S003-44, S003-45: with a thousand others beside it."""
    shop = Shop()
    a = shop.consumer("x == 1 && y > 0")
    properties = Counting(x=1, y=1, **{f"p{n}": n for n in range(200)})
    shop.ask(shop.sending(1, properties))
    assert a.got() == [1]
    assert sorted(properties.reads) == ["x", "y"]

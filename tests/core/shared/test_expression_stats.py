"""What is counted of each expression, and what counting may cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.commands import Interest, Tick
from headgate.core.model.ids import WHOLE, AppId
from headgate.core.model.message import PropertyValue
from headgate.core.model.window import Window
from headgate.core.shared.expression_stats import SAMPLE_APPS, SAMPLE_GROUPS
from headgate.core.shared.statistics import GROUPS_MAX, groups_of
from headgate.core.turn.slices import at_once
from headgate.expr.predicate import compile_expression
from tests.support.shared_queues import BROADCAST, FANOUT, PRIORITY, Q, Shop

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def rows(shop: Shop, app: AppId = WHOLE) -> dict[str | None, dict[str, Any]]:
    """What is told of each expression of an app."""
    shown: list[dict[str, Any]] = at_once(groups_of(shop.rig.shard.shared.queues[Q].apps[app]))
    return {row["expression"]: row for row in shown}


def counts(shop: Shop, app: AppId = WHOLE) -> dict[str | None, tuple[int, int]]:
    """What matched and what was missed, by expression."""
    return {text: (row["matched"], row["missed"]) for text, row in rows(shop, app).items()}


def test_what_matched_and_what_did_not_adds_up_to_what_was_looked_at() -> None:
    """BMQ-91."""
    shop = Shop()
    shop.consumer("x == 1")
    shop.consumer("x > 1")
    shop.post_each(1, 2, 3, 0)
    assert counts(shop) == {"x == 1": (1, 3), "x > 1": (2, 2)}


def test_a_row_tells_who_is_there_what_they_hold_and_what_waits() -> None:
    """BMQ-91, S003-32."""
    shop = Shop()
    a = shop.consumer("x == 1", priority=7, window=1)
    shop.consumer("x == 1", priority=7, window=1)
    shop.consumer("x == 1", priority=2, window=9)
    shop.consumer("x == 2")  # while nobody has room, nothing is looked at
    shop.post(x=1, body=b"12")
    for _ in range(3):
        shop.post(x=1, body=b"1")
    row = rows(shop)["x == 1"]
    assert (row["priority"], row["consumers"]) == (7, 2)
    assert (row["in_flight"], row["in_flight_bytes"]) == (2, 2 + 1 + 2 * (1 + 8))
    assert row["waiting"] == 2
    a.confirm(1)
    row = rows(shop)["x == 1"]
    assert (row["matched"], row["in_flight"], row["waiting"]) == (4, 2, 1)


def test_what_a_higher_priority_takes_is_missed() -> None:
    """BMQ-28: nobody below was asked."""
    shop = Shop()
    shop.consumer("x >= 1", priority=5)
    shop.consumer("x >= 0", priority=1)
    shop.post_each(0, 1, 2)
    assert counts(shop) == {"x >= 1": (2, 1), "x >= 0": (1, 2)}


def test_a_full_group_that_is_passed_over_has_matched() -> None:
    """BMQ-39: the next one of its priority takes the message."""
    shop = Shop()
    shop.consumer("x >= 1", window=1)
    shop.consumer("x >= 0", window=1)
    shop.post_each(1, 1)
    assert counts(shop) == {"x >= 1": (2, 0), "x >= 0": (1, 1)}


def test_a_message_counts_as_often_as_it_is_looked_at() -> None:
    """BMQ-24: a new consumer looks at what was put aside."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post_each(2)
    b = shop.consumer("x == 3")
    assert counts(shop) == {"x == 1": (0, 2), "x == 3": (0, 1)}
    b.close()
    a.configure("x == 2")
    assert counts(shop) == {"x == 2": (1, 0)}


def test_an_expression_is_counted_from_its_arrival_on() -> None:
    """Also within one turn."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.do(
        shop.sending(1, {"x": 1}),
        shop.sending(2, {"x": 1}),
        a.configuring("x == 1", "x == 2"),
        shop.sending(3, {"x": 2}),
    )
    assert counts(shop) == {"x == 1": (2, 1), "x == 2": (1, 0)}


def test_counts_go_on_while_somebody_has_the_expression() -> None:
    """BMQ-38: and begin anew with the first who has it again."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post_each(1, 0)
    b = shop.consumer("x == 1", priority=5)
    a.close()
    shop.post_each(1)
    matched, _ = counts(shop)["x == 1"]
    assert matched == 3  # the first was given back, and looked at once more
    b.stop()
    shop.consumer("x == 1")
    assert counts(shop)["x == 1"][0] == 2


def test_every_group_that_a_broadcast_reaches_has_matched() -> None:
    """BMQ-80, whatever its priority."""
    shop = Shop(BROADCAST)
    shop.consumer("x < 100", priority=1)
    shop.consumer("x >= 0", priority=9)
    shop.post_each(1, 200, -1)
    assert counts(shop) == {"x < 100": (2, 1), "x >= 0": (2, 1)}


def test_each_app_counts_for_itself() -> None:
    """BMQ-74."""
    shop = Shop(FANOUT)
    shop.consumer("x == 1", app="foo")
    shop.consumer("x == 1", app="bar")
    shop.consumer("x == 2", app="bar")
    shop.post_each(1)
    assert counts(shop, "foo") == {"x == 1": (1, 0)}
    assert counts(shop, "bar") == {"x == 1": (1, 0), "x == 2": (0, 1)}
    assert counts(shop, "baz") == {}


def test_a_session_without_room_does_not_make_a_message_count_twice() -> None:
    shop = Shop()
    a, _ = shop.consumer("x == 1"), shop.consumer("x == 1")
    alive = shop.rig.broker.sessions.get(a.session)
    assert alive is not None
    alive.mailbox.offer("stuff", shop.rig.broker.limits.mailbox_bytes_soft + 1, 0.0)
    shop.post_each(1)
    assert counts(shop) == {"x == 1": (1, 0)}


def test_a_turn_that_failed_is_not_counted() -> None:
    shop = Shop()
    shop.consumer("x == 1")
    post = shop.sending(1, {"x": 1})
    shop.rig.fail_at = 0
    shop.rig.turn([post])
    assert counts(shop) == {"x == 1": (0, 0)}
    shop.rig.turn([post])
    assert counts(shop) == {"x == 1": (1, 0)}


# Why an expression has no value.


def undecided(shop: Shop, text: str) -> dict[str, int]:
    shown: dict[str, int] = rows(shop)[text]["undecided"]
    return shown


def test_errors_are_told_by_kind_of_the_messages_that_were_sampled() -> None:
    """BMQ-7, BMQ-10, BMQ-11, S003-15: one message of each app in a tick, evaluated in full."""
    shop = Shop()
    for text in ("x == 1", "y == 1", "s > 1", "1 / x == 1"):
        shop.consumer(text, window=1)
    nothing = {"sampled": 0, "name": 0, "type": 0, "arithmetic": 0}
    shop.post(x=0, s="text")
    assert undecided(shop, "y == 1") == nothing
    shop.pass_time(1)
    shop.pass_time(1)  # there was no other message
    once = nothing | {"sampled": 1}
    assert undecided(shop, "x == 1") == once
    assert undecided(shop, "y == 1") == once | {"name": 1}
    assert rows(shop)["x == 1"]["reason"] == ""
    assert rows(shop)["y == 1"]["reason"] == "NAME: the message lacks y"
    assert rows(shop)["s > 1"]["reason"].startswith("TYPE: a value is of a type")
    assert undecided(shop, "s > 1") == once | {"type": 1}
    assert undecided(shop, "1 / x == 1") == once | {"arithmetic": 1}
    shop.post(x=1, y=1, s=0)
    shop.pass_time(1)
    assert undecided(shop, "y == 1") == {"sampled": 2, "name": 1, "type": 0, "arithmetic": 0}


def test_many_expressions_are_sampled_in_turns() -> None:
    shop = Shop()
    texts = [f"y == {n}" for n in range(SAMPLE_GROUPS + 3)]
    shop.consumer(*texts, None)
    for ticks in range(1, 2 * len(texts)):
        shop.post_each(1)
        shop.pass_time(1)
        sampled = [undecided(shop, text)["sampled"] for text in texts]
        assert sum(sampled) <= ticks * SAMPLE_GROUPS
        assert max(sampled) - min(sampled) <= 1
    assert min(sampled) > 1
    assert undecided(shop, texts[0])["name"] == undecided(shop, texts[0])["sampled"]


@pytest.mark.once
def test_many_apps_are_sampled_in_turns() -> None:
    apps = tuple(f"app{n}" for n in range(SAMPLE_APPS + 1))
    shop = Shop(replace(FANOUT, apps=apps))
    for app in apps:
        shop.consumer("x == 1", app=app)
    shop.post_each(1)

    def sampled() -> list[int]:
        return [rows(shop, app)["x == 1"]["undecided"]["sampled"] for app in apps]

    shop.pass_time(1)
    assert sampled() == [1] * SAMPLE_APPS + [0]
    shop.post_each(1)
    shop.pass_time(1)
    assert sampled() == [2] * (SAMPLE_APPS - 1) + [1, 1]


def test_a_tick_that_failed_has_sampled_nothing() -> None:
    shop = Shop(replace(PRIORITY, message_ttl=1.0))
    shop.consumer("y == 1")
    shop.post_each(1)
    shop.rig.now += 2
    shop.rig.fail_at = 0
    shop.rig.turn([Tick()])  # it would remove the message, too
    assert undecided(shop, "y == 1")["sampled"] == 0
    shop.rig.turn([Tick()])
    assert undecided(shop, "y == 1")["name"] == 1


# Many of them.


def test_of_many_expressions_the_busiest_are_told() -> None:
    shop = Shop()
    shop.consumer(*(f"x == {n}" for n in range(GROUPS_MAX + 20)))
    busy = [3, GROUPS_MAX + 19]
    shop.post_each(*busy, *busy)
    shown = rows(shop)
    assert len(shown) == GROUPS_MAX
    assert list(shown)[:2] == [f"x == {n}" for n in busy]
    assert [row["matched"] for row in shown.values()][:3] == [2, 2, 0]


TEXTS = (None, "x == 1", "x > 1", "x < 3", "y == 1", "x % 2 == 1", "y > x", "!exists(y)")
MANY = tuple(f"x == {n + 100}" for n in range(40))
"""So many that there is an index."""


@QUICK
@given(
    st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(0, 2)), max_size=8),
    st.lists(st.fixed_dictionaries({"x": st.integers(0, 4)}, optional={"y": st.integers(0, 2)})),
    st.booleans(),
)
def test_counts_are_those_of_asking_everybody(
    drawn: list[tuple[str | None, int]], messages: list[dict[str, PropertyValue]], many: bool
) -> None:
    """BMQ-27, BMQ-28: whoever is asked, and true, at the priority that decides, has matched. With
    an index or without."""
    shop = Shop()
    wants = [Interest(text, priority, Window(10**6)) for text, priority in drawn]
    shop.consumer(*wants, *(MANY if many else ("x == 99",)))
    for number, properties in enumerate(messages):
        shop.ask(shop.sending(number, properties))
    groups: dict[str | None, int] = {}
    for text, priority in drawn:
        groups[text] = max(priority, groups.get(text, 0))
    matched = dict.fromkeys(groups, 0)
    for properties in messages:
        true = [
            text for text in groups if text is None or compile_expression(text).matches(properties)
        ]
        if true:  # the first of the highest has room, and nobody else is asked
            matched[max(true, key=lambda text: groups[text])] += 1
    shown = counts(shop)
    assert {text: shown[text] for text in groups} == {
        text: (count, len(messages) - count) for text, count in matched.items()
    }


def test_what_waits_is_counted_once_and_for_those_it_waits_for() -> None:
    """S003-32: a line of a group may still name what went to another."""
    shop = Shop()
    a, b = shop.consumer("x == 1", window=1), shop.consumer("x >= 1", window=1)
    shop.consumer("y == 1")
    shop.post_each(1, 1, 1)
    assert {text: row["waiting"] for text, row in rows(shop).items()} == {
        "x == 1": 1,
        "x >= 1": 1,
        "y == 1": 0,
    }
    b.confirm(2)
    assert {row["waiting"] for row in rows(shop).values()} == {0}
    b.close()
    assert rows(shop)["x == 1"]["waiting"] == 1
    a.confirm(1)
    assert a.got() == [1, 3]

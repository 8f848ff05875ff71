"""What a consumer asks for, compiled, and within the limits."""

from __future__ import annotations

import pytest

from headgate.core.commands import Interest
from headgate.core.facts import Interested, LimitReached
from headgate.core.model.ids import WHOLE
from headgate.errors import BadSubscription, NoSuchQueue
from tests.support.shared_queues import NEVER, Q, Shop

REFUSED = [
    " ",
    "()",
    "((true)",
    "x > ",
    "x x",
    "&&",
    " && 1 > 0",
    "() && 1 > 0",
    "true && (>>)",
    "x = 1",
    'x == "' + 122 * "a" + '"',
    'x == "' + 61 * "é" + '"',
    "true",
    "1 == 1",
]


def test_no_expression_is_everything_and_resumes_with_the_backlog() -> None:
    """BMQ-2, S003-1, S003-22, S003-23: to never and back to everything."""
    shop = Shop()
    a = shop.consumer()
    shop.post_each(1)
    a.configure(NEVER)
    shop.post_each(2, 3)
    assert a.got_x() == [1]
    a.configure(None)
    shop.post_each(4)
    assert a.got_x() == [2, 3, 4]


def test_an_empty_text_is_refused_with_all_that_came_with_it() -> None:
    """BMQ-3: the valid ones of the same request are refused too; the old ones stay."""
    shop = Shop()
    a = shop.consumer("x == 1")
    assert isinstance(a.try_configure("x == 2", ""), BadSubscription)
    shop.post_each(1, 2)
    assert a.got_x() == [1]


def test_an_empty_text_at_open_leaves_no_trace() -> None:
    """BMQ-3: nothing is opened and no queue is made."""
    shop = Shop()
    a = shop.stranger()
    assert isinstance(a.open("x == 2", ""), BadSubscription)
    assert shop.usage().queues == 0
    assert isinstance(a.try_configure("x == 2"), NoSuchQueue)
    shop.post_each(2)
    assert a.got() == []
    assert a.open("x == 2") is None
    assert a.got() == [1]


@pytest.mark.parametrize("text", REFUSED)
def test_a_wrong_expression_is_refused_and_changes_nothing(text: str) -> None:
    """BMQ-4, BMQ-16, BMQ-18: not the subscriptions, not whose turn it is, not what waits."""
    shop = Shop()
    a = shop.consumer("x == 1")
    b = shop.consumer("x == 1")
    shop.post_each(1, 7)
    assert isinstance(a.try_configure("x == 7", text), BadSubscription)
    reached = [fact.name for fact in shop.rig.take_facts(LimitReached)]
    assert reached == ([] if len(text.encode()) <= 128 else ["expression_bytes"])
    shop.post_each(1, 1, 1)
    assert a.got() == [1, 4]
    assert b.got() == [3, 5]


def test_an_expression_may_have_128_bytes() -> None:
    """BMQ-16: 128 is accepted; the 129 of the test above are not."""
    shop = Shop()
    value = 121 * "a"
    text = f'x == "{value}"'
    assert len(text) == 128
    a = shop.consumer(text)
    shop.post(x=value)
    assert a.got() == [1]


@pytest.mark.parametrize("text", ["x", "x + 33"])
def test_an_expression_that_is_not_boolean_matches_nothing(text: str) -> None:
    """BMQ-5: accepted, and of no effect."""
    shop = Shop()
    a = shop.consumer(text)
    shop.post_each(0, 1, -33)
    assert a.got() == []
    assert shop.usage().messages == 3


def test_a_client_that_knows_nothing_of_subscriptions_works() -> None:
    """S003-25: the defaults of an interest take everything."""
    shop = Shop()
    a = shop.stranger()
    assert a.open(Interest()) is None
    shop.post_each(1, 2)
    shop.post()
    assert a.got() == [1, 2, 3]


def test_what_a_consumer_wants_is_told_when_it_opens_and_when_it_changes_its_mind() -> None:
    shop = Shop()
    a = shop.consumer("x > 1", Interest("x < 0", priority=7))
    a.configure()
    shown = shop.rig.take_facts(Interested)
    assert [(f.place, f.places, f.expression, f.priority) for f in shown] == [
        (0, 2, "x > 1", 0),
        (1, 2, "x < 0", 7),
        (0, 0, None, 0),
    ]
    assert {(f.queue, f.app, f.session) for f in shown} == {(Q, WHOLE, a.session)}


def test_a_refused_change_is_no_change_of_what_a_consumer_wants() -> None:
    shop = Shop()
    a = shop.consumer("x > 1")
    shop.rig.take_facts(Interested)
    assert isinstance(a.try_configure("x >"), BadSubscription)
    assert shop.rig.take_facts(Interested) == []

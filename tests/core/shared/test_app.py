"""An app of a shared queue: subscriptions that change, windows, what is looked at again."""

from __future__ import annotations

import pytest

from headgate.core.commands import Close, Interest
from headgate.core.facts import Returned
from headgate.core.model.window import Window
from tests.support.shared_queues import FANOUT, NEVER, Q, Shop, message_id


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("x != 1", "x != 2"), ("x != 2", "x != 1")),
        (("x != 1", "x != 2"), ("x != 3", "x != 1", "x != 2")),
        (("x >= 0", "x >= 10"), ("x >= 10", "x >= 0")),
        (("x == 1 && y > 0", "x == 1"), ("x == 1", "x == 1 && y > 0")),
        (("x + 1 > 0", "x + 2 > 0", "x + 3 > 0"), ("x + 3 > 0", "x + 2 > 0", "x + 1 > 0")),
    ],
)
def test_expressions_may_change_places(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """BMQ-33, BMQ-65, S003-22, S003-23: those of a consumer that share a key take each other's
    places. Everybody goes on, with the queue and after the consumer left."""
    shop = Shop()
    a = shop.consumer(*before)
    a.configure(*after)
    a.configure(*before)
    a.configure(*after)
    shop.post_each(1)
    assert a.got_x() == [1]
    a.crash()
    b = shop.consumer()
    shop.post_each(3)
    assert b.got_x()[-1] == 3


def test_a_new_consumer_receives_what_nobody_wanted_oldest_first() -> None:
    """BMQ-24, S003-16: and then the new messages."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post_each(2, 1, 3, 2)
    b = shop.consumer("x >= 2")
    shop.post_each(2)
    assert b.got() == [1, 3, 4, 5]
    assert a.got() == [2]


def test_a_wider_expression_brings_the_backlog_but_nothing_confirmed() -> None:
    """BMQ-25, S003-16, S003-23: in order."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post_each(2, 1, 3, 1)
    a.confirm(2)
    assert a.got() == [2, 4]
    a.configure("x >= 1")
    assert a.got() == [1, 3]
    shop.post_each(5)
    assert a.got() == [5]
    a.confirm(1, 3, 4, 5)
    a.configure(None)
    assert a.got() == []
    assert shop.usage().messages == 0


def test_each_subscription_of_a_consumer_has_its_own_priority() -> None:
    """BMQ-32, S003-24: 5 and 1 against 3 and 3."""
    shop = Shop()
    a = shop.consumer(Interest("x >= 1000", 5), Interest("x >= 0", 1))
    b = shop.consumer("x >= 1000", "x >= 0", priority=3)
    shop.post_each(1000, 1, 2000, 2)
    assert (a.got_x(), b.got_x()) == ([1000, 2000], [1, 2])
    a.configure(Interest("x >= 1000", 1), Interest("x >= 0", 5))
    b.configure("x >= 1000", priority=3)
    shop.post_each(1000, 1)
    assert (a.got_x(), b.got_x()) == ([1000, 1], [])
    a.configure(Interest("x >= 1000", 1), Interest("x >= 0", 2))
    shop.post_each(1000, 1)
    assert (a.got_x(), b.got_x()) == ([1], [1000])


def test_a_removed_subscription_stops_at_once_and_can_still_be_confirmed() -> None:
    """BMQ-33, S003-22: what is outstanding stays with the consumer."""
    shop = Shop()
    a = shop.consumer("x == 1", "x == 2")
    shop.post_each(1, 2)
    a.configure("x == 2")
    shop.post_each(1, 2)
    assert a.got() == [1, 2, 4]
    assert shop.rig.take_facts(Returned) == []
    a.confirm(1)
    assert list(shop.stored()) == [2, 3, 4]


def test_no_subscription_at_all_stops_but_takes_nothing_back() -> None:
    """BMQ-33: outstanding messages stay with the consumer until it closes."""
    shop = Shop()
    a = shop.consumer()
    b = shop.consumer(NEVER)
    shop.post_many(2)
    a.configure()
    b.configure(None)
    shop.post_many(1)
    assert a.got() == [1, 2]
    assert b.got() == [3]
    a.confirm(1)
    a.close()
    assert b.got() == [2]


def test_consumers_that_come_later_take_part_and_those_that_left_do_not() -> None:
    """BMQ-38."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(2)
    b = shop.consumer()
    shop.post_many(4)
    assert (a.got(), b.got()) == ([1, 2, 3, 5], [4, 6])
    a.confirm(1, 2, 3, 5)
    a.close()
    shop.post_many(2)
    assert (a.got(), b.got()) == ([], [7, 8])


def test_a_consumer_that_raises_its_priority_takes_what_waits() -> None:
    """BMQ-42, S003-23: whether it waits in line, or for those who match it and are full."""
    for others in ([], ["x < 0"]):
        shop = Shop()
        a = shop.consumer("x >= 0", priority=5, window=1)
        b = shop.consumer("x >= 0", priority=1)
        for text in others:
            shop.consumer(text)
        shop.post_each(1, 2, 3)
        b.configure("x >= 0", priority=10)
        assert (a.got(), b.got()) == ([1], [2, 3])


def test_the_next_priority_takes_over_when_the_highest_leaves() -> None:
    """BMQ-42, S003-38: with what waited."""
    shop = Shop()
    a = shop.consumer("x >= 0", priority=5, window=1)
    b = shop.consumer("x >= 0", priority=1)
    shop.post_each(1, 2, 3)
    a.confirm(1)
    a.confirm(2)
    a.confirm(3)
    a.close()
    shop.post_each(4)
    assert (a.got(), b.got()) == ([1, 2, 3], [4])


def test_a_window_of_one_gives_one_by_one() -> None:
    """BMQ-43."""
    shop = Shop()
    a = shop.consumer(window=1)
    shop.post_many(3)
    for number in (1, 2, 3):
        assert a.got() == [number]
        a.confirm(number)
    assert a.got() == []


def test_a_window_of_ten_resumes_at_eight() -> None:
    """BMQ-44: full at ten, usable again with eight outstanding, and full at ten again."""
    shop = Shop()
    a = shop.consumer(window=10)
    shop.post_many(20)
    assert a.got() == list(range(1, 11))
    a.confirm(3)
    assert a.got() == []
    a.confirm(5)
    assert a.got() == [11, 12]
    a.confirm(1)
    assert a.got() == []


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_small_window_resumes_after_one_confirm(window: int) -> None:
    """BMQ-44: four fifths, rounded up, of 1, 2 and 3 are 1, 2 and 3."""
    shop = Shop()
    a = shop.consumer(window=window)
    shop.post_many(5)
    assert len(a.got()) == window
    a.confirm(1)
    assert a.got() == [window + 1]


def test_a_window_of_bytes_counts_body_and_properties() -> None:
    """BMQ-45: the check is made before, so the last message may go over."""
    shop = Shop()
    a = shop.consumer(window=Window(1000, 100))
    for _ in range(5):
        shop.post(body=50 * b"x", n=1)  # 50 + 1 + 8 bytes
    assert a.got() == [1, 2]
    a.confirm(1)
    assert a.got() == [3]


def test_a_window_of_bytes_resumes_at_four_fifths() -> None:
    """BMQ-45, BMQ-44: both values must have fallen."""
    shop = Shop()
    a = shop.consumer(window=Window(1000, 100))
    for _ in range(15):
        shop.post(body=10 * b"x")
    assert len(a.got()) == 10
    a.confirm(1)
    assert a.got() == []
    a.confirm(2)
    assert a.got() == [11, 12]


def test_an_oversize_message_reaches_a_consumer_that_has_nothing_else() -> None:
    """BMQ-45: and then it is full."""
    shop = Shop()
    a = shop.consumer(window=Window(1000, 100))
    shop.post(body=500 * b"x")
    shop.post(body=b"x")
    assert a.got() == [1]
    a.confirm(1)
    assert a.got() == [2]


@pytest.mark.parametrize("paused", [Window(0), Window(0, 100), Window(100, 0)])
def test_a_window_of_nothing_pauses_and_raising_it_resumes(paused: Window) -> None:
    """BMQ-46, S003-37: a paused consumer is as good as full."""
    shop = Shop()
    a = shop.consumer(priority=1, window=paused)
    low = shop.consumer()
    shop.post_many(2)
    assert (a.got(), low.got()) == ([], [])
    a.configure(None, priority=1, window=5)
    assert (a.got(), low.got()) == ([1, 2], [])
    a.configure(None, priority=1, window=paused)
    shop.post_many(1)
    a.confirm(1, 2)
    assert a.got() == []


def test_raising_a_window_while_full_resumes_without_a_confirm() -> None:
    """BMQ-47, S003-22: what is outstanding counts."""
    shop = Shop()
    a = shop.consumer("x >= 0", window=2)
    shop.post_each(*range(6))
    assert a.got() == [1, 2]
    a.configure("x >= 0", window=4)
    assert a.got() == [3, 4]


def test_a_lowered_window_is_not_exceeded() -> None:
    """BMQ-47, BMQ-43: B5, full with as many outstanding as the limit, whatever was before."""
    shop = Shop()
    a = shop.consumer("x >= 0", window=4)
    shop.post_each(*range(6))
    assert a.got() == [1, 2, 3, 4]
    a.configure("x >= 0", window=2)
    a.confirm(1)
    assert a.got() == []
    a.confirm(2)
    assert a.got() == []  # two are outstanding, and two is full
    a.confirm(3)
    assert a.got() == [5]


def test_a_full_subscription_does_not_stop_the_other_of_its_consumer() -> None:
    """BMQ-48, S003-24."""
    shop = Shop()
    a = shop.consumer(Interest("x == 1", 0, Window(1)), Interest("x == 2", 0, Window(2)))
    shop.post_each(1, 1, 2, 2, 2)
    assert a.got() == [1, 3, 4]
    a.confirm(3)
    assert a.got() == [5]
    a.confirm(1)
    assert a.got() == [2]


def test_a_full_subscription_leaves_the_message_to_the_other_of_its_consumer() -> None:
    """BMQ-48: two that match, of one priority."""
    shop = Shop()
    a = shop.consumer(Interest("x > 0", 0, Window(1)), Interest("x > 1", 0, Window(1)))
    shop.post_each(2, 2, 2)
    assert [(d.interests[0], d.message.id) for d in a.news()] == [
        (0, message_id(1)),
        (1, message_id(2)),
    ]


def test_equal_texts_have_the_sum_of_their_windows() -> None:
    """S003-39."""
    shop = Shop()
    consumers = [shop.consumer("x == 1", window=n) for n in (1, 2, 3)]
    shop.post_each(*(10 * [1]))
    assert [len(c.got()) for c in consumers] == [1, 2, 3]


def test_consumers_share_within_their_app_by_priority() -> None:
    """BMQ-74, S003-13."""
    shop = Shop(FANOUT)
    foos = [shop.consumer(app="foo") for _ in range(2)]
    low = shop.consumer(app="bar")
    high = shop.consumer(app="bar", priority=1)
    shop.post_many(4)
    assert [c.got() for c in foos] == [[1, 3], [2, 4]]
    assert (low.got(), high.got()) == ([], [1, 2, 3, 4])


def test_a_refused_turn_takes_back_what_was_changed_before_somebody_left() -> None:
    """BMQ-38, BMQ-79: the one has its old subscription again, the other its place."""
    shop = Shop()
    a = shop.consumer("x == 1")
    b = shop.consumer("x == 2")
    closing = Close(b.session, 0, Q)
    shop.rig.fail_at = 0
    shop.do(a.configuring("x == 3"), closing, shop.sending(shop.next_number, {"x": 1}))
    assert shop.rig.fail_at is None
    shop.post_each(1, 2, 3)
    assert (a.got_x(), b.got_x()) == ([1], [2])
    a.configure("x == 3")
    assert a.got_x() == [3]

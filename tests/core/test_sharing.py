"""Shared queues, told from outside: what is posted, who gets it, what is kept.

The numbers are those of the checklists in the spec: C1 to C91 and S003-1 to S003-45.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import (
    Close,
    Command,
    Configure,
    Confirm,
    Disconnect,
    Interest,
    Open,
    Send,
    Tick,
)
from headgate.core.domain import Domain, Mode
from headgate.core.effects import Deliver, Done, Failed, Receipt
from headgate.core.facts import (
    AppUnknown,
    AutoConfirmed,
    CapacityChanged,
    Delivered,
    Expired,
    Interested,
    Poisoned,
    PutAside,
    QueueCreated,
    QueueMoved,
    QueueStuck,
    Repeated,
    Returned,
    Subscribed,
    Unsubscribed,
)
from headgate.core.gate import Window
from headgate.core.message import PropertyValue
from headgate.core.names import WHOLE
from headgate.errors import (
    BadMessage,
    BadSubscription,
    HeadgateError,
    NoSuchQueue,
    Prohibited,
    QuotaReached,
)
from headgate.testing.picture import differences, snapshot
from headgate.testing.rig import Rig
from tests.core.orders import (
    BROADCAST,
    FANOUT,
    OTHER,
    PRIORITY,
    Consumer,
    Q,
    Shop,
    filters,
    for_all,
    message_id,
)

NEVER = "x < 0 && x > 0"


# Expressions, as far as a queue is concerned.


def test_only_matching_messages_arrive_and_in_order() -> None:
    """C1, S003-4, S003-14, S003-21: `x <= 1` at open gets 0 and 1 of 0, 1, 2."""
    shop = Shop()
    a = shop.consumer("x <= 1")
    shop.post_each(0, 1, 2)
    assert a.got_x() == [0, 1]


def test_no_expression_is_everything_and_resumes_with_the_backlog() -> None:
    """C2, S003-1, S003-22, S003-23: to never and back to everything."""
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
    """C3: the valid ones of the same request are refused too; the old ones stay."""
    shop = Shop()
    a = shop.consumer("x == 1")
    assert isinstance(a.try_configure("x == 2", ""), BadSubscription)
    shop.post_each(1, 2)
    assert a.got_x() == [1]


def test_an_empty_text_at_open_leaves_no_trace() -> None:
    """C3: nothing is opened and no queue is made."""
    shop = Shop()
    a = shop.stranger()
    assert isinstance(a.open("x == 2", ""), BadSubscription)
    assert shop.usage().queues == 0
    assert isinstance(a.try_configure("x == 2"), NoSuchQueue)
    shop.post_each(2)
    assert a.got() == []
    assert a.open("x == 2") is None
    assert a.got() == [1]


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


@pytest.mark.parametrize("text", REFUSED)
def test_a_wrong_expression_is_refused_and_changes_nothing(text: str) -> None:
    """C4, C16, C18: not the subscriptions, not whose turn it is, not what waits."""
    shop = Shop()
    a = shop.consumer("x == 1")
    b = shop.consumer("x == 1")
    shop.post_each(1, 7)
    assert isinstance(a.try_configure("x == 7", text), BadSubscription)
    shop.post_each(1, 1, 1)
    assert a.got() == [1, 4]
    assert b.got() == [3, 5]


def test_an_expression_may_have_128_bytes() -> None:
    """C16: 128 is accepted; the 129 of the test above are not."""
    shop = Shop()
    value = 121 * "a"
    text = f'x == "{value}"'
    assert len(text) == 128
    a = shop.consumer(text)
    shop.post(x=value)
    assert a.got() == [1]


@pytest.mark.parametrize("text", ["x", "x + 33"])
def test_an_expression_that_is_not_boolean_matches_nothing(text: str) -> None:
    """C5: accepted, and of no effect."""
    shop = Shop()
    a = shop.consumer(text)
    shop.post_each(0, 1, -33)
    assert a.got() == []
    assert shop.usage().messages == 3


def test_a_missing_property_does_not_match_and_the_next_subscription_is_tried() -> None:
    """C7: also when the expression with the missing one has the higher priority."""
    shop = Shop()
    a = shop.consumer(Interest("y == 1", 5), Interest("x == 1", 1))
    b = shop.consumer("y != 1", priority=9)
    shop.post_each(1)
    [delivery] = a.news()
    assert delivery.interests == (1,)
    assert b.got() == []


def test_white_space_makes_another_group() -> None:
    """C22, S003-40: the same text takes turns, a variant stands behind the first."""
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
    """C22, S003-29, S003-40: of a group only the highest priority is active; of two groups
    the lower one is there for broadcast."""
    for text, expected in (("x==1", []), ("x == 1", [1])):
        shop = Shop(BROADCAST)
        shop.consumer("x==1", priority=5)
        b = shop.consumer(text, priority=1)
        shop.post_each(1)
        assert b.got() == expected


def test_a_bare_word_is_a_property() -> None:
    """S003-5: `OrderType == EXPRESS` compares two properties."""
    shop = Shop()
    bare = shop.consumer("OrderType == EXPRESS", priority=1)
    quoted = shop.consumer('OrderType == "EXPRESS"')
    shop.post(OrderType="EXPRESS")
    shop.post(OrderType="slow", EXPRESS="slow")
    assert (bare.got(), quoted.got()) == ([2], [1])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x == true", True),
        ("x", True),
        ("x == -7", -7),
        ("x == 9223372036854775807", 2**63 - 1),
        ('x == "blå"', "blå"),
    ],
)
def test_properties_have_types(text: str, value: PropertyValue) -> None:
    """S003-4: a boolean, an integer, a text."""
    shop = Shop()
    a = shop.consumer(text)
    shop.post(x=value)
    assert a.got() == [1]


def test_properties_that_are_not_named_do_not_matter() -> None:
    """S003-2, S003-44: only what the expression names counts."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post(x=1, y=5, z="text", blob=b"\xff")
    shop.post(x=1)
    shop.post(y=1)
    assert a.got() == [1, 2]


def test_a_message_that_no_queue_could_take_is_refused() -> None:
    """S003-4: an integer beyond 64 bits, a text that is no UTF-8."""
    shop = Shop()
    a = shop.consumer()
    assert isinstance(shop.try_post(x=2**63), BadMessage)
    assert isinstance(shop.try_post(x="\ud800"), BadMessage)
    assert a.got() == []
    assert shop.usage().messages == 0


# Consumer subscriptions.


def test_an_unmatched_message_does_not_block_later_ones() -> None:
    """C23, S003-15, S003-18, S003-20: it stays, unconfirmed, and is sent to nobody."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post_each(2, 1, 2, 1)
    assert a.got() == [2, 4]
    a.confirm(2, 4)
    assert list(shop.stored()) == [1, 3]
    assert [fact.matched for fact in shop.rig.take_facts(PutAside)] == [False, False]


def test_a_new_consumer_receives_what_nobody_wanted_oldest_first() -> None:
    """C24, S003-16: and then the new messages."""
    shop = Shop()
    a = shop.consumer("x == 1")
    shop.post_each(2, 1, 3, 2)
    b = shop.consumer("x >= 2")
    shop.post_each(2)
    assert b.got() == [1, 3, 4, 5]
    assert a.got() == [2]


def test_a_wider_expression_brings_the_backlog_but_nothing_confirmed() -> None:
    """C25, S003-16, S003-23: in order."""
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


def test_subscriptions_that_do_not_overlap_split_the_stream() -> None:
    """C26, S003-3, S003-32: exactly, each in order."""
    shop = Shop()
    thirds = [shop.consumer(f"x % 3 == {rest}") for rest in range(3)]
    shop.post_each(*range(30))
    for rest, consumer in enumerate(thirds):
        assert consumer.got_x() == list(range(rest, 30, 3))


def test_the_higher_priority_gets_everything_until_it_drops() -> None:
    """C27, S003-35, S003-38: 10 and 5, then 1 and 5."""
    shop = Shop()
    high = shop.consumer("x >= 0", priority=10)
    low = shop.consumer("x >= 0", priority=5)
    shop.post_each(1, 2)
    high.configure("x >= 0", priority=1)
    shop.post_each(3, 4)
    assert (high.got_x(), low.got_x()) == ([1, 2], [3, 4])


def test_an_overlap_goes_to_the_higher_priority() -> None:
    """C28, S003-30: `x >= 1000` at 5 and `x >= 0` at 1."""
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


def test_a_consumer_may_have_256_subscriptions() -> None:
    """C29: each message comes once, for the subscription that is its own."""
    shop = Shop()
    a = shop.consumer(*(f"x == {n}" for n in range(256)))
    values = [(n * 37) % 300 for n in range(300)]
    shop.post_each(*values)
    news = a.news()
    assert [d.message.properties["x"] for d in news] == [x for x in values if x < 256]
    assert all(d.interests == (d.message.properties["x"],) for d in news)


def test_several_matching_subscriptions_of_a_consumer_make_one_delivery() -> None:
    """C30, S003-27: for one of them."""
    shop = Shop()
    a = shop.consumer("x > 0", "x > 1", "x < 9", None)
    shop.post_each(5, 6)
    assert a.got() == [1, 2]
    a.confirm(1, 2)
    assert a.got() == []
    assert shop.usage().messages == 0


def test_several_expressions_of_a_consumer_are_or() -> None:
    """C31, S003-26."""
    shop = Shop()
    a = shop.consumer("x == 1", "x == 3")
    shop.post_each(1, 2, 3, 4)
    assert a.got_x() == [1, 3]


def test_each_subscription_of_a_consumer_has_its_own_priority() -> None:
    """C32, S003-24: 5 and 1 against 3 and 3."""
    shop = Shop()
    a = shop.consumer(Interest("x >= 1000", 5), Interest("x >= 0", 1))
    b = shop.consumer("x >= 1000", "x >= 0", priority=3)
    shop.post_each(1000, 1, 2000, 2)
    assert (a.got_x(), b.got_x()) == ([1000, 2000], [1, 2])


def test_a_removed_subscription_stops_at_once_and_can_still_be_confirmed() -> None:
    """C33, S003-22: what is outstanding stays with the consumer."""
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
    """C33: outstanding messages stay with the consumer until it closes."""
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


def test_below_filtered_consumers_one_without_gets_what_they_do_not_match() -> None:
    """C34, S003-1: by priority."""
    shop = Shop()
    rest = shop.consumer()
    ones = shop.consumer("x == 1", priority=1)
    twos = shop.consumer("x == 2", priority=1)
    shop.post_each(1, 2, 3, 1)
    assert (ones.got_x(), twos.got_x(), rest.got_x()) == ([1, 1], [2], [3])


def test_above_filtered_consumers_one_without_gets_everything() -> None:
    """C34: even when it is full, nothing goes to the lower one."""
    shop = Shop()
    top = shop.consumer(priority=1, window=2)
    low = shop.consumer("x == 1")
    shop.post_each(1, 2, 1)
    assert (top.got(), low.got()) == ([1, 2], [])


def test_a_message_without_properties_reaches_only_those_who_ask_for_none() -> None:
    """C35, S003-2: no expression, or `!exists(...)`."""
    shop = Shop()
    picky = shop.consumer("x == 1 || x != 1", priority=9)
    absent = shop.consumer("!exists(x)", priority=5)
    plain = shop.consumer()
    shop.post()
    absent.configure()
    shop.post()
    assert (picky.got(), absent.got(), plain.got()) == ([], [1], [2])


def test_a_client_that_knows_nothing_of_subscriptions_works() -> None:
    """S003-25: the defaults of an interest take everything."""
    shop = Shop()
    a = shop.stranger()
    assert a.open(Interest()) is None
    shop.post_each(1, 2)
    shop.post()
    assert a.got() == [1, 2, 3]


# Priority, rotation, flow control.


def test_equal_consumers_take_turns() -> None:
    """C36, S003-13, S003-36, S003-41: K consumers and K times N messages, N each."""
    shop = Shop()
    consumers = [shop.consumer("x >= 0") for _ in range(3)]
    shop.post_each(*range(12))
    for place, consumer in enumerate(consumers):
        assert consumer.got_x() == [place, place + 3, place + 6, place + 9]


def test_each_group_takes_turns_on_its_own() -> None:
    """C37."""
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


def test_consumers_that_come_later_take_part_and_those_that_left_do_not() -> None:
    """C38."""
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


def test_a_consumer_with_two_equal_subscriptions_counts_twice() -> None:
    """C36, S003-24: B4, each has its turn and its own window."""
    shop = Shop()
    a = shop.consumer("x >= 0", "x >= 0")
    b = shop.consumer("x >= 0")
    shop.post_each(*range(6))
    assert (a.got_x(), b.got_x()) == ([0, 1, 3, 4], [2, 5])


def test_a_full_consumer_is_skipped_and_keeps_its_place() -> None:
    """C39, S003-13: the others of its group take its share."""
    shop = Shop()
    a = shop.consumer(window=1)
    b = shop.consumer()
    shop.post_many(4)
    assert (a.got(), b.got()) == ([1], [2, 3, 4])
    a.confirm(1)
    shop.post_many(2)
    assert (a.got(), b.got()) == ([5], [6])


def test_when_all_are_full_the_oldest_waits_for_the_first_that_is_freed() -> None:
    """C40, S003-37."""
    shop = Shop()
    a = shop.consumer(window=1)
    b = shop.consumer(window=1)
    shop.post_many(5)
    assert (a.got(), b.got()) == ([1], [2])
    b.confirm(2)
    assert (a.got(), b.got()) == ([], [3])
    a.confirm(1)
    assert (a.got(), b.got()) == ([4], [])


def test_nothing_spills_to_a_lower_priority_of_the_same_expression() -> None:
    """C41, S003-35, S003-37."""
    shop = Shop()
    high = shop.consumer("x >= 0", priority=5, window=1)
    low = shop.consumer("x >= 0", priority=1)
    shop.post_each(1, 2, 3)
    assert (high.got(), low.got()) == ([1], [])
    high.confirm(1)
    assert (high.got(), low.got()) == ([2], [])


def test_nothing_spills_to_a_lower_priority_of_another_expression() -> None:
    """C41, S003-30, S003-37: the decision. It waits even after the first full message."""
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
    """C41: B3, the search ends with the priority, not with the group."""
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


def test_a_message_that_waits_for_two_groups_goes_to_one_of_them() -> None:
    """C40, C49: whichever has room first, and never to both."""
    shop = Shop()
    a = shop.consumer("x > 0", window=1)
    b = shop.consumer("x > 1", window=1)
    shop.post_each(2, 2, 2)
    b.confirm(2)
    a.confirm(1)
    assert a.got() + b.got() == [1, 2, 3]
    b.confirm(3)
    assert a.got() + b.got() == []
    assert shop.usage().messages == 0


def test_a_consumer_that_raises_its_priority_takes_what_waits() -> None:
    """C42, S003-23."""
    shop = Shop()
    a = shop.consumer("x >= 0", priority=5, window=1)
    b = shop.consumer("x >= 0", priority=1)
    shop.post_each(1, 2, 3)
    b.configure("x >= 0", priority=10)
    assert (a.got(), b.got()) == ([1], [2, 3])


def test_the_next_priority_takes_over_when_the_highest_leaves() -> None:
    """C42, S003-38: with what waited."""
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
    """C43."""
    shop = Shop()
    a = shop.consumer(window=1)
    shop.post_many(3)
    for number in (1, 2, 3):
        assert a.got() == [number]
        a.confirm(number)
    assert a.got() == []


def test_a_window_of_ten_resumes_at_eight() -> None:
    """C44: full at ten, usable again with eight outstanding, and full at ten again."""
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
    """C44: four fifths, rounded up, of 1, 2 and 3 are 1, 2 and 3."""
    shop = Shop()
    a = shop.consumer(window=window)
    shop.post_many(5)
    assert len(a.got()) == window
    a.confirm(1)
    assert a.got() == [window + 1]


def test_a_window_of_bytes_counts_body_and_properties() -> None:
    """C45: the check is made before, so the last message may go over."""
    shop = Shop()
    a = shop.consumer(window=Window(1000, 100))
    for _ in range(5):
        shop.post(body=50 * b"x", n=1)  # 50 + 1 + 8 bytes
    assert a.got() == [1, 2]
    a.confirm(1)
    assert a.got() == [3]


def test_a_window_of_bytes_resumes_at_four_fifths() -> None:
    """C45, C44: both values must have fallen."""
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
    """C45: and then it is full."""
    shop = Shop()
    a = shop.consumer(window=Window(1000, 100))
    shop.post(body=500 * b"x")
    shop.post(body=b"x")
    assert a.got() == [1]
    a.confirm(1)
    assert a.got() == [2]


@pytest.mark.parametrize("paused", [Window(0), Window(0, 100), Window(100, 0)])
def test_a_window_of_nothing_pauses_and_raising_it_resumes(paused: Window) -> None:
    """C46, S003-37: a paused consumer is as good as full."""
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


def test_a_paused_consumer_is_passed_over_by_its_group() -> None:
    """C46, C39."""
    shop = Shop()
    a = shop.consumer(window=0)
    b = shop.consumer()
    shop.post_many(3)
    assert (a.got(), b.got()) == ([], [1, 2, 3])


def test_raising_a_window_while_full_resumes_without_a_confirm() -> None:
    """C47, S003-22: what is outstanding counts."""
    shop = Shop()
    a = shop.consumer("x >= 0", window=2)
    shop.post_each(*range(6))
    assert a.got() == [1, 2]
    a.configure("x >= 0", window=4)
    assert a.got() == [3, 4]


def test_a_lowered_window_is_not_exceeded() -> None:
    """C47, C43: B5, full with as many outstanding as the limit, whatever was before."""
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
    """C48, S003-24."""
    shop = Shop()
    a = shop.consumer(Interest("x == 1", 0, Window(1)), Interest("x == 2", 0, Window(2)))
    shop.post_each(1, 1, 2, 2, 2)
    assert a.got() == [1, 3, 4]
    a.confirm(3)
    assert a.got() == [5]
    a.confirm(1)
    assert a.got() == [2]


def test_a_full_subscription_leaves_the_message_to_the_other_of_its_consumer() -> None:
    """C48: two that match, of one priority."""
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


def test_messages_that_wait_are_delivered_in_order_after_long() -> None:
    """C40, S003-32: one at a time, through a window of one."""
    shop = Shop()
    a = shop.consumer("x % 2 == 0", window=1)
    b = shop.consumer("x % 2 == 1", window=1)
    shop.post_each(*range(10))
    for even, odd in zip(range(0, 10, 2), range(1, 10, 2), strict=True):
        assert (a.got_x(), b.got_x()) == ([even], [odd])
        a.confirm(even + 1)
        b.confirm(odd + 1)
    assert shop.usage().messages == 0


# Redelivery.


@pytest.mark.parametrize("how", ["close", "stop", "crash"])
def test_what_was_not_confirmed_goes_to_the_next_consumer_in_order(how: str) -> None:
    """C50, C51, C54, S003-34: all the rest of a partly confirmed batch, and only that."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(5)
    a.confirm(2, 4)
    b = shop.consumer()
    getattr(a, how)()
    assert b.got() == [1, 3, 5]
    returned = shop.rig.take_facts(Returned)
    assert [int(fact.message) for fact in returned] == [1, 3, 5]
    assert {fact.lost for fact in returned} == {how == "crash"}


@pytest.mark.parametrize("how", ["close", "stop", "crash"])
def test_what_was_not_confirmed_waits_when_nobody_is_left(how: str) -> None:
    """C50, C51: and goes first to whoever comes."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(3)
    getattr(a, how)()
    shop.post_many(2)
    b = shop.consumer()
    assert b.got() == [1, 2, 3, 4, 5]


def test_a_consumer_that_opens_again_gets_its_own_messages_back() -> None:
    """C50."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(2)
    a.close()
    assert a.got() == [1, 2]
    assert a.open() is None
    assert a.got() == [1, 2]
    a.confirm(1, 2)
    assert shop.usage().messages == 0


def test_after_close_nothing_can_be_confirmed() -> None:
    """C50: the messages are somebody else's by then."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(1)
    a.close()
    b = shop.consumer()
    shop.do(a.confirming(1))
    assert b.got() == [1]
    assert list(shop.stored()) == [1]


def test_a_returned_message_waits_for_a_consumer_that_matches() -> None:
    """C52, S003-34."""
    shop = Shop()
    a = shop.consumer("x == 1")
    b = shop.consumer("x == 2")
    shop.post_each(1)
    a.crash()
    shop.post_each(2, 1)
    assert b.got() == [2]
    c = shop.consumer("x == 1")
    assert c.got() == [1, 3]


def test_the_messages_of_a_higher_priority_go_to_the_lower_ones_that_match() -> None:
    """C53, S003-38."""
    shop = Shop()
    high = shop.consumer("x >= 0", priority=5)
    ones = shop.consumer("x == 1")
    twos = shop.consumer("x == 2")
    shop.post_each(1, 2, 3, 1)
    high.crash()
    assert (ones.got(), twos.got()) == ([1, 4], [2])
    assert list(shop.stored()) == [1, 2, 3, 4]


def test_a_clean_end_uses_up_no_attempt_and_a_crash_does() -> None:
    """C55: with one attempt, closes are harmless and the first crash is the end."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    shop.post_many(1)
    for how in ("close", "stop", "close"):
        a = shop.consumer()
        [delivery] = a.news()
        assert delivery.attempts == 0
        getattr(a, how)()
    assert shop.rig.take_facts(Poisoned) == []
    a = shop.consumer()
    a.crash()
    [poisoned] = shop.rig.take_facts(Poisoned)
    assert (poisoned.message, poisoned.attempts) == (message_id(1), 1)
    assert shop.usage().messages == 0
    assert shop.consumer().got() == []


def test_a_reconfigured_consumer_uses_up_no_attempt() -> None:
    """C55: nor does one that has no subscription left when it closes."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    a = shop.consumer()
    shop.post_many(1)
    a.configure()
    a.close()
    assert shop.consumer().got() == [1]


def test_a_crash_counts_though_the_subscription_was_removed() -> None:
    """C55, C33: the message was still in its hands."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    a = shop.consumer()
    shop.post_many(1)
    a.configure()
    a.crash()
    assert len(shop.rig.take_facts(Poisoned)) == 1


def test_a_delivery_tells_how_often_a_consumer_was_lost_with_it() -> None:
    """C55: and the fact tells it, too."""
    shop = Shop()
    shop.post_many(1)
    for attempts in range(3):
        a = shop.consumer()
        [delivery] = a.news()
        assert delivery.attempts == attempts
        a.crash()
    assert [fact.attempts for fact in shop.rig.take_facts(Delivered)] == [0, 1, 2]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_last_attempt_removes_the_message_for_that_app_only(most: int) -> None:
    """C56: the other apps keep theirs."""
    shop = Shop(replace(FANOUT, max_delivery_attempts=most))
    bar = shop.consumer(app="bar")
    shop.post_many(1)
    for _ in range(most):
        foo = shop.consumer(app="foo")
        assert foo.got() == [1]
        foo.crash()
    [poisoned] = shop.rig.take_facts(Poisoned)
    assert (poisoned.app, poisoned.attempts) == ("foo", most)
    assert shop.consumer(app="foo").got() == []
    assert bar.got() == [1]
    assert set(shop.stored()[1]) == {"bar", "baz"}
    bar.crash()
    assert len(shop.rig.take_facts(Poisoned)) == (1 if most == 1 else 0)


def test_only_what_the_lost_consumer_held_loses_an_attempt() -> None:
    """C56: not what it had confirmed, nor what it never got."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    a = shop.consumer(window=2)
    shop.post_many(4)
    a.confirm(1)
    a.crash()
    assert [int(f.message) for f in shop.rig.take_facts(Poisoned)] == [2, 3]
    assert shop.consumer().got() == [4]


def test_no_bound_of_attempts_means_any_number() -> None:
    """C57."""
    shop = Shop()
    shop.post_many(1)
    for _ in range(20):
        shop.consumer().crash()
    assert shop.consumer().got() == [1]


def test_a_restart_resets_the_attempts() -> None:
    """C56: B7."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=2))
    shop.post_many(1)
    shop.consumer().crash()
    shop = shop.restarted()
    shop.consumer().crash()
    assert shop.rig.take_facts(Poisoned) == []
    assert shop.consumer().got() == [1]


def test_a_full_consumer_does_not_take_what_was_returned_and_a_fresh_one_does() -> None:
    """C58."""
    shop = Shop()
    a = shop.consumer(window=1)
    b = shop.consumer(window=1)
    shop.post_many(2)
    a.crash()
    assert b.got() == [2]
    c = shop.consumer()
    assert (b.got(), c.got()) == ([], [1])


def test_what_was_returned_goes_before_what_waits_unread() -> None:
    """C50, C58: B7, before new messages."""
    shop = Shop()
    a = shop.consumer(window=2)
    b = shop.consumer(window=1)
    shop.post_many(5)
    assert (a.got(), b.got()) == ([1, 3], [2])
    a.crash()
    b.confirm(2)
    assert b.got() == [1]
    b.confirm(1)
    assert b.got() == [3]
    b.confirm(3)
    assert b.got() == [4]


def test_what_was_returned_goes_before_what_was_put_aside() -> None:
    """C50, C52: B7, "tried before put-aside and new messages"."""
    shop = Shop()
    a = shop.consumer("x == 2")
    shop.post_each(1, 2)
    assert a.got() == [2]
    a.crash()
    b = shop.consumer(window=1)
    assert b.got() == [2]


def test_a_message_posted_again_is_stored_once_and_acknowledged() -> None:
    """C59: in the same turn, and in a later one."""
    shop = Shop()
    a = shop.consumer()
    twice = [shop.sending(1), shop.sending(1)]
    effects = shop.do(*twice)
    assert [e.ref for e in effects if isinstance(e, Receipt)] == [s.ref for s in twice]
    assert shop.ask(shop.sending(1)) is None
    assert a.got() == [1]
    assert shop.usage().messages == 1
    assert len(shop.rig.take_facts(Repeated)) == 2


def test_a_message_posted_again_after_its_confirm_is_not_stored() -> None:
    """C59: within the time of the domain; after it, it is a new one."""
    shop = Shop(replace(PRIORITY, deduplication_time=60.0))
    a = shop.consumer()
    shop.post_many(1)
    a.confirm(1)
    shop.rig.now += 60
    assert shop.ask(shop.sending(1)) is None
    assert a.got() == [1]
    shop.rig.now += 1
    assert shop.ask(shop.sending(1)) is None
    assert a.got() == [1]
    assert shop.usage().messages == 1


def test_an_id_that_comes_back_while_the_first_is_still_there_leaves_nothing_behind() -> None:
    """C59, C49: whether it is one message or two, confirming what came empties the queue."""
    shop = Shop(replace(PRIORITY, deduplication_time=60.0, max_messages=2))
    shop.post_many(1)
    shop.rig.now += 100
    assert shop.ask(shop.sending(1)) is None
    a = shop.consumer()
    got = a.got()
    assert set(got) == {1}
    for _ in got:
        a.confirm(1)
    assert shop.stored() == {}
    assert shop.post_many(1) == [2]
    assert shop.post_many(1) == [3]
    assert a.got() == [2, 3]


def test_an_id_is_remembered_per_queue() -> None:
    """C59: another queue may have a message of the same id."""
    shop = Shop()
    shop.consumer()
    other = shop.consumer(queue=OTHER)
    shop.ask(shop.sending(1))
    shop.ask(shop.sending(1, queue=OTHER))
    assert other.got() == [1]


def test_a_refused_message_is_not_remembered() -> None:
    """C59, C82: B9, posting it again later stores it."""
    shop = Shop(replace(PRIORITY, max_messages=1))
    a = shop.consumer()
    shop.post_many(1)
    assert isinstance(shop.ask(shop.sending(2)), QuotaReached)
    a.confirm(1)
    assert shop.ask(shop.sending(2)) is None
    assert a.got() == [1, 2]


def test_a_repeated_message_is_acknowledged_though_the_queue_is_full() -> None:
    """C59: B2, the first of all questions."""
    shop = Shop(replace(PRIORITY, max_messages=1))
    shop.post_many(1)
    assert shop.ask(shop.sending(1)) is None
    assert shop.usage().messages == 1


def test_a_message_posted_again_after_a_restart_is_stored_once() -> None:
    """C59: while it is in the store, its id is known."""
    shop = Shop()
    shop.post_many(1)
    shop = shop.restarted()
    assert shop.ask(shop.sending(1)) is None
    assert shop.usage().messages == 1


# Application subscriptions.

APPS = replace(FANOUT, filters=filters(foo="x == 1", bar="x == 2"))


def fanout(shop: Shop) -> tuple[Consumer, Consumer, Consumer]:
    foo, bar, baz = (shop.consumer(app=app) for app in ("foo", "bar", "baz"))
    return foo, bar, baz


def test_each_app_gets_what_its_own_subscription_is_true_for() -> None:
    """C60, S003-6, S003-7, S003-9, S003-10: two confirms delete it."""
    shop = Shop(APPS)
    foo, bar, baz = fanout(shop)
    shop.post_each(2)
    assert (foo.got(), bar.got(), baz.got()) == ([], [1], [1])
    bar.confirm(1)
    assert shop.stored() == {1: ("baz",)}
    baz.confirm(1)
    assert shop.stored() == {}
    assert [fact.app for fact in shop.rig.take_facts(AutoConfirmed)] == ["foo"]


def test_a_priority_queue_does_not_store_what_its_subscription_refuses() -> None:
    """C61, S003-6, S003-11, S003-20: the producer is told success."""
    shop = Shop(replace(PRIORITY, filters=for_all("x == 1")))
    a = shop.consumer()
    shop.post_each(2)
    assert shop.usage().messages == 0
    shop.post_each(1)
    assert a.got() == [2]


def test_a_broadcast_queue_obeys_its_subscription_for_all_consumers() -> None:
    """S003-11: under the empty app id."""
    shop = Shop(replace(BROADCAST, filters=for_all("x == 1")))
    a, b = shop.consumer(), shop.consumer("x >= 1")
    shop.post_each(2, 1)
    assert (a.got(), b.got()) == ([2], [2])


def test_what_no_app_wants_is_not_stored_and_holds_up_nothing() -> None:
    """C62, S003-10: success for the producer, nothing stored, the next one flows."""
    apps = filters(foo="x == 1", bar="x == 2", baz="x == 3")
    shop = Shop(replace(FANOUT, filters=apps))
    foo, _, _ = fanout(shop)
    shop.post_each(9)
    assert shop.usage().messages == 0
    shop.post_each(1)
    assert foo.got() == [2]


def test_application_and_consumer_subscriptions_are_and() -> None:
    """C63, S003-12, S003-28: what the app refused never waits for a consumer."""
    apps = filters(foo="x == 1", bar="x > 2")
    shop = Shop(replace(FANOUT, apps=("foo", "bar"), filters=apps))
    foo = shop.consumer("x == 2", app="foo")
    bar = shop.consumer("x > 3", app="bar")
    shop.post_each(1, 2, 3, 4)
    assert (foo.got_x(), bar.got_x()) == ([], [4])
    assert shop.stored() == {1: ("foo",), 3: ("bar",), 4: ("bar",)}
    bar.confirm(4)
    bar.configure("x > 2")
    assert bar.got_x() == [3]
    foo.configure(None)
    assert foo.got_x() == [1]


def test_application_subscriptions_have_the_same_outcome_after_a_restart() -> None:
    """C64: what was refused stays refused, what was confirmed stays confirmed."""
    shop = Shop(APPS)
    bar = shop.consumer("x > 9", app="bar")
    baz = shop.consumer(app="baz")
    shop.post_each(1, 2, 3)
    baz.confirm(2)
    assert bar.got() == []
    shop = shop.restarted()
    foo, bar, baz = fanout(shop)
    assert (foo.got(), bar.got(), baz.got()) == ([1], [2], [1, 3])
    for consumer in (foo, bar, baz):
        consumer.confirm(1, 2, 3)
    assert shop.usage().messages == 0


def test_after_a_restart_messages_keep_body_properties_and_place() -> None:
    """C64."""
    shop = Shop()
    shop.post(x=1, s="text", b=True, raw=b"\x00")
    shop.post_each(2)
    shop = shop.restarted()
    shop.post_each(3)
    a = shop.consumer()
    news = a.news()
    assert [d.message.body for d in news] == [b"body 1", b"body 2", b"body 3"]
    assert news[0].message.properties == {"x": 1, "s": "text", "b": True, "raw": b"\x00"}
    assert news[0].message.arrived == 1000.0


def test_after_a_restart_what_was_outstanding_is_delivered_again() -> None:
    """C64, C51: the consumers are gone with the router."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(3)
    a.confirm(2)
    shop = shop.restarted()
    assert shop.consumer().got() == [1, 3]


def test_new_application_subscriptions_are_for_new_messages_only() -> None:
    """C66, S003-8: they were evaluated once, when the message came."""
    shop = Shop(APPS)
    shop.post_each(1, 2)
    shop.reconfigure(replace(APPS, filters=filters(foo="x == 2", bar="x == 1")))
    shop.post_each(2)
    foo, bar, baz = fanout(shop)
    assert (foo.got(), bar.got(), baz.got()) == ([1, 3], [2], [1, 2, 3])


def test_new_application_subscriptions_do_not_take_back_after_a_restart() -> None:
    """C66, C64: the store knows the apps of each message."""
    shop = Shop(APPS)
    shop.post_each(1, 2)
    shop = shop.restarted(replace(APPS, filters=filters(foo="x == 2", bar="x == 1")))
    foo, bar, _ = fanout(shop)
    assert (foo.got(), bar.got()) == ([1], [2])


def test_a_message_without_the_property_is_confirmed_for_the_app() -> None:
    """C67, S003-6: a missing property is no match, a wrong type neither."""
    shop = Shop(APPS)
    shop.post(y=1)
    shop.post(x="1")
    shop.post()
    foo, bar, baz = fanout(shop)
    assert (foo.got(), bar.got(), baz.got()) == ([], [], [1, 2, 3])


def test_an_automatic_confirm_does_not_touch_the_other_apps() -> None:
    """C68, S003-28: not what they hold, not their turn."""
    shop = Shop(APPS)
    foo, bar, baz = fanout(shop)
    second = shop.consumer(app="baz")
    shop.post_each(1, 2, 3, 1)
    assert (foo.got(), bar.got()) == ([1, 4], [2])
    assert (baz.got(), second.got()) == ([1, 3], [2, 4])
    bar.confirm(2)
    assert shop.stored()[2] == ("baz",)


def test_several_expressions_of_an_app_are_or() -> None:
    """C69, S003-26: for an app of a fanout queue, and for a queue without apps."""
    shop = Shop(replace(FANOUT, filters=filters(foo=("x == 1", "x == 3"))))
    foo = shop.consumer(app="foo")
    shop.post_each(1, 2, 3)
    assert foo.got_x() == [1, 3]

    shop = Shop(replace(PRIORITY, filters=for_all("x == 1", "y == 3", "x == 3")))
    a = shop.consumer()
    shop.post_each(1, 2, 3)
    assert a.got_x() == [1, 3]


def test_a_subscription_of_an_unknown_app_is_of_no_effect() -> None:
    """C70."""
    shop = Shop(replace(FANOUT, filters=filters(nobody="x == 1")))
    foo, bar, baz = fanout(shop)
    shop.post_each(1, 2)
    assert (foo.got(), bar.got(), baz.got()) == ([1, 2], [1, 2], [1, 2])
    assert set(shop.stored()[1]) == {"foo", "bar", "baz"}


def test_a_subscription_given_before_its_app_counts_when_the_app_comes() -> None:
    """C70, C77."""
    shop = Shop(replace(FANOUT, apps=("foo",), filters=filters(bar="x == 1")))
    shop.post_each(1)
    shop.reconfigure(replace(FANOUT, apps=("foo", "bar"), filters=filters(bar="x == 1")))
    shop.post_each(1, 2)
    assert shop.consumer(app="bar").got() == [2]


def test_a_consumer_cannot_widen_what_the_domain_says() -> None:
    """S003-8: application subscriptions come from the domain alone."""
    shop = Shop(replace(PRIORITY, filters=for_all("x == 1")))
    a = shop.consumer("x == 2", None)
    shop.post_each(2)
    a.configure(None)
    assert a.got() == []


# Fanout.


def test_every_app_gets_every_message_once_and_confirms_on_its_own() -> None:
    """C72, S003-10: the message goes when the last confirms."""
    shop = Shop(FANOUT)
    consumers = fanout(shop)
    shop.post_many(3)
    for consumer in consumers:
        assert consumer.got() == [1, 2, 3]
    consumers[0].confirm(1, 2, 3)
    consumers[1].confirm(2)
    assert {n: set(apps) for n, apps in shop.stored().items()} == {
        1: {"bar", "baz"},
        2: {"baz"},
        3: {"bar", "baz"},
    }
    consumers[2].confirm(2)
    assert list(shop.stored()) == [1, 3]
    consumers[1].confirm(3, 1)
    consumers[2].confirm(1, 3)
    assert shop.stored() == {}


def test_an_app_without_consumers_accumulates() -> None:
    """C73: and delivers later, in order."""
    shop = Shop(FANOUT)
    foo = shop.consumer(app="foo")
    shop.post_many(3)
    foo.confirm(1, 2, 3)
    bar = shop.consumer(app="bar")
    assert bar.got() == [1, 2, 3]


def test_consumers_share_within_their_app_by_priority() -> None:
    """C74, S003-13."""
    shop = Shop(FANOUT)
    foos = [shop.consumer(app="foo") for _ in range(2)]
    low = shop.consumer(app="bar")
    high = shop.consumer(app="bar", priority=1)
    shop.post_many(4)
    assert [c.got() for c in foos] == [[1, 3], [2, 4]]
    assert (low.got(), high.got()) == ([], [1, 2, 3, 4])


def test_a_slow_app_does_not_delay_the_others() -> None:
    """C72: B5 and B10."""
    shop = Shop(FANOUT)
    slow = shop.consumer(app="foo", window=1)
    quick = shop.consumer(app="bar")
    shop.post_many(3)
    assert (slow.got(), quick.got()) == ([1], [1, 2, 3])


def test_one_session_may_read_two_apps() -> None:
    """C72: each with its own confirms."""
    shop = Shop(FANOUT)
    foo = shop.consumer(app="foo")
    bar = Consumer(shop, foo.session, "bar", Q)
    assert bar.open() is None
    shop.post_many(1)
    assert (foo.got(), bar.got()) == ([1], [1])
    foo.confirm(1)
    assert set(shop.stored()[1]) == {"bar", "baz"}
    foo.close()
    shop.post_many(1)
    assert (foo.got(), bar.got()) == ([], [2])


def test_a_reader_of_a_fanout_queue_must_name_an_app_and_others_must_not() -> None:
    """C75: a writer needs none."""
    shop = Shop(FANOUT)
    assert isinstance(shop.stranger().open(), Prohibited)
    shop.post_many(1)  # by a writer without an app
    for domain in (PRIORITY, BROADCAST):
        shop = Shop(domain)
        assert isinstance(shop.stranger(app="foo").open(), Prohibited)
        assert shop.usage().queues == 0


def test_an_unregistered_app_opens_receives_nothing_and_holds_nothing() -> None:
    """C76: until the domain lists it; then it gets what comes from there on."""
    shop = Shop(replace(FANOUT, apps=("foo",)))
    foo = shop.consumer(app="foo")
    new = shop.consumer(app="new")
    [alarm] = shop.rig.take_facts(AppUnknown)
    assert (alarm.app, alarm.session) == ("new", new.session)
    shop.post_many(2)
    foo.confirm(1, 2)
    assert new.got() == []
    assert shop.stored() == {}
    shop.reconfigure(replace(FANOUT, apps=("foo", "new")))
    shop.post_many(1)
    assert (foo.got(), new.got()) == ([1, 2, 3], [3])
    foo.confirm(3)
    assert shop.stored() == {3: ("new",)}
    new.confirm(3)
    assert shop.stored() == {}


def test_an_unregistered_app_can_be_configured_and_closed() -> None:
    """C76."""
    shop = Shop(replace(FANOUT, apps=("foo",)))
    new = shop.consumer(app="new")
    new.configure("x == 1")
    shop.post_each(1)
    new.close()
    assert new.got() == []
    assert shop.consumer(app="foo").got() == [1]


def test_an_app_that_comes_later_sees_later_messages_only() -> None:
    """C77."""
    shop = Shop(replace(FANOUT, apps=("foo",)))
    shop.post_many(2)
    shop.reconfigure(replace(FANOUT, apps=("foo", "bar")))
    shop.post_many(1)
    assert shop.consumer(app="bar").got() == [3]
    assert shop.consumer(app="foo").got() == [1, 2, 3]


def test_a_removed_app_lets_go_of_its_messages() -> None:
    """C77: those nobody else has are deleted, and free the quota."""
    shop = Shop(replace(FANOUT, max_messages=2))
    foo, bar, baz = fanout(shop)
    shop.post_many(2)
    foo.confirm(1)
    bar.confirm(1)
    shop.reconfigure(replace(FANOUT, apps=("foo", "bar"), max_messages=2))
    assert {n: set(apps) for n, apps in shop.stored().items()} == {2: {"foo", "bar"}}
    shop.post_many(1)
    assert (foo.got(), bar.got(), baz.got()) == ([1, 2, 3], [1, 2, 3], [1, 2])


def test_a_removed_app_that_comes_back_begins_anew() -> None:
    """C77: it does not get what it had let go of."""
    shop = Shop(FANOUT)
    baz = shop.consumer(app="baz", window=1)
    shop.post_many(2)
    shop.reconfigure(replace(FANOUT, apps=("foo", "bar")))
    shop.post_many(1)
    shop.reconfigure(FANOUT)
    shop.post_many(1)
    assert baz.got() == [1, 4]
    baz.confirm(1)
    assert {n: "baz" in apps for n, apps in shop.stored().items()} == {
        1: False,
        2: False,
        3: False,
        4: True,
    }


def test_an_app_removed_while_the_router_was_down_lets_go_too() -> None:
    """C77: found out when the queue is opened again."""
    shop = Shop(replace(FANOUT, apps=("foo", "bar")))
    foo = shop.consumer(app="foo")
    shop.post_many(2)
    foo.confirm(1)
    shop = shop.restarted(replace(FANOUT, apps=("foo",)))
    foo = shop.consumer(app="foo")
    assert foo.got() == [2]
    foo.confirm(2)
    assert shop.stored() == {}


def test_another_mode_changes_nothing() -> None:
    """C65: a domain keeps its mode; the other settings are new."""
    shop = Shop(replace(PRIORITY, max_messages=2))
    a, b = shop.consumer(), shop.consumer()
    shop.post_many(1)
    shop.reconfigure(Domain("orders", Mode.BROADCAST, max_messages=2))
    shop.post_many(1)
    assert (a.got(), b.got()) == ([1], [2])
    assert shop.usage().messages == 2
    assert isinstance(shop.try_post(), QuotaReached)


# Broadcast.


def test_broadcast_reaches_everybody_of_the_moment_and_stores_nothing() -> None:
    """C78: none for those who come late, none between close and reopen."""
    shop = Shop(BROADCAST)
    shop.post_many(1)
    a, b = shop.consumer(), shop.consumer("x == 2")
    shop.post_each(1, 2)
    assert (a.got(), b.got()) == ([2, 3], [3])
    a.close()
    shop.post_each(2)
    assert a.open() is None
    shop.post_each(2)
    assert (a.got(), b.got()) == ([5], [4, 5])
    assert shop.usage().messages == 0


def test_broadcast_reaches_the_highest_priority_of_an_expression() -> None:
    """C78."""
    shop = Shop(BROADCAST)
    high = [shop.consumer(priority=2) for _ in range(2)]
    low = shop.consumer(priority=1)
    shop.post_many(2)
    assert [c.got() for c in (*high, low)] == [[1, 2], [1, 2], []]


def test_broadcast_follows_a_change_of_priority() -> None:
    """C79: and with equal priorities both get it again."""
    shop = Shop(BROADCAST)
    a, b = shop.consumer(priority=2), shop.consumer(priority=1)
    shop.post_many(1)
    b.configure(None, priority=3)
    shop.post_many(1)
    a.configure(None, priority=3)
    shop.post_many(1)
    assert (a.got(), b.got()) == ([1, 3], [2, 3])


def test_broadcast_is_active_per_expression() -> None:
    """C80, S003-29: of the same expression only the highest priority, of others all."""
    shop = Shop(BROADCAST)
    below = shop.consumer("x < 100", priority=2)
    above = shop.consumer("x >= 100", priority=2)
    all_ = shop.consumer("x >= 0", priority=2)
    lower = shop.consumer("x >= 0", priority=1)
    other = shop.consumer("x >= -1", priority=1)
    shop.post_each(50, 150)
    assert [c.got_x() for c in (below, above, all_)] == [[50], [150], [50, 150]]
    assert (lower.got_x(), other.got_x()) == ([], [50, 150])


def test_broadcast_reaches_a_session_once() -> None:
    """C80, S003-27: only the first of its subscriptions counts."""
    shop = Shop(BROADCAST)
    a = shop.consumer("x > 0", "x > 1", None)
    shop.post_each(2)
    assert a.got() == [1]


def test_broadcast_without_time_to_live_delivers_everything() -> None:
    """C81: a TTL of 0, and a clock that moves."""
    shop = Shop(replace(BROADCAST, message_ttl=0.0))
    a = shop.consumer()
    for _ in range(3):
        shop.post_many(1)
        shop.pass_time(5)
    assert a.got() == [1, 2, 3]
    assert shop.rig.take_facts(Expired) == []


def test_broadcast_does_not_count_windows_but_zero_pauses() -> None:
    """C78, C46: B11; confirms are ignored."""
    shop = Shop(BROADCAST)
    a = shop.consumer(window=1)
    paused = shop.consumer(window=0)
    shop.post_many(3)
    assert (a.got(), paused.got()) == ([1, 2, 3], [])
    a.confirm(1)
    paused.configure(None, window=1)
    shop.post_many(1)
    assert (a.got(), paused.got()) == ([4], [4])


def test_broadcast_redelivers_nothing() -> None:
    """C78: not when a consumer is lost, and no attempt is counted."""
    shop = Shop(replace(BROADCAST, max_delivery_attempts=1))
    a, b = shop.consumer(), shop.consumer()
    shop.post_many(1)
    a.crash()
    assert b.got() == [1]
    assert shop.rig.take_facts(Poisoned) + shop.rig.take_facts(Returned) == []


def test_broadcast_delivers_under_the_old_set_what_came_before_a_change() -> None:
    """C79: B11, in one turn."""
    shop = Shop(BROADCAST)
    a = shop.consumer("x == 1")
    b = shop.consumer("x == 1")
    shop.do(
        shop.sending(1, {"x": 1}),
        a.configuring("x == 2"),
        shop.sending(2, {"x": 1}),
        Close(b.session, 0, Q),
        shop.sending(3, {"x": 1}),
    )
    assert (a.got(), b.got()) == ([1], [1, 2])


def test_broadcast_does_not_fill_a_quota() -> None:
    """C78, C82: nothing is stored, so nothing counts."""
    shop = Shop(replace(BROADCAST, max_messages=1, domain_max_messages=1))
    shop.post_many(5)
    assert shop.rig.take_facts(CapacityChanged) == []


# Turns: as if the commands came one by one.


def test_a_change_in_the_same_turn_is_for_what_comes_after_it() -> None:
    """S003-22, S003-23: a post, then a configure, then a post."""
    shop = Shop()
    a = shop.consumer("x == 1")
    b = shop.consumer("x == 2")
    shop.do(
        shop.sending(1, {"x": 1}),
        shop.sending(2, {"x": 2}),
        a.configuring("x == 2", priority=1),
        shop.sending(3, {"x": 2}),
        shop.sending(4, {"x": 1}),
        b.configuring("x == 1"),
    )
    assert (a.got(), b.got()) == ([1, 3], [2, 4])


def test_a_confirm_in_the_same_turn_makes_room() -> None:
    """C43: and the quota has room for the post after it."""
    shop = Shop(replace(PRIORITY, max_messages=1))
    a = shop.consumer(window=1)
    shop.post_many(1)
    full, fits = shop.sending(2), shop.sending(3)
    effects = shop.do(full, a.confirming(1), fits)
    assert [(type(e), e.ref) for e in effects if isinstance(e, Receipt | Failed)] == [
        (Failed, full.ref),
        (Receipt, fits.ref),
    ]
    assert a.got() == [1, 3]


def test_a_close_in_the_same_turn_returns_what_was_delivered_before_it() -> None:
    """C50: to the one who is left, before what is posted after it."""
    shop = Shop()
    a, b = shop.consumer(), shop.consumer()
    shop.do(shop.sending(1), shop.sending(2), Close(a.session, 0, Q), shop.sending(3))
    assert (a.got(), b.got()) == ([1], [2, 1, 3])


# Who may ask what.


def test_a_confirm_of_something_else_is_ignored() -> None:
    """C49, C87: B7, an unknown id, somebody else's message, another app's, and twice."""
    shop = Shop(FANOUT)
    foo = shop.consumer(app="foo")
    other = shop.consumer("x == 2", app="foo")
    bar = shop.consumer(app="bar")
    shop.post_each(1)
    other.confirm(1)
    foo.confirm(77)
    assert set(shop.stored()[1]) == {"foo", "bar", "baz"}
    bar.confirm(1)
    bar.confirm(1)
    assert set(shop.stored()[1]) == {"foo", "baz"}
    foo.close()
    other.configure(None)
    assert other.got() == [1]


def test_a_confirm_with_a_reference_is_answered_and_one_without_is_not() -> None:
    """C82: the reply and the delivery it makes room for."""
    shop = Shop()
    a = shop.consumer(window=1)
    shop.post_many(2)
    asked = Confirm(a.session, "ref", Q, (message_id(1),))
    effects = shop.do(asked)
    assert [e for e in effects if not isinstance(e, Deliver)] == [Done(a.session, "ref")]
    assert a.got() == [1, 2]
    assert shop.do(a.confirming(2)) == []


def test_a_confirm_without_a_reference_to_a_queue_that_is_not_open_gets_no_reply() -> None:
    """C50: late confirms of a queue that was closed are the usual case."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(1)
    a.close()
    assert shop.do(a.confirming(1)) == []


@pytest.mark.parametrize("make", [Send, Configure, Close])
def test_what_was_not_opened_cannot_be_used(make: type[Command]) -> None:
    """S003-21: a queue is opened first."""
    shop = Shop()
    a = shop.consumer()
    stranger = shop.stranger()
    send = shop.sending(1)
    commands: dict[type[Command], Send | Configure | Close] = {
        Send: Send(stranger.session, 1, Q, send.message),
        Configure: Configure(stranger.session, 1, Q, (Interest(),)),
        Close: Close(stranger.session, 1, Q),
    }
    assert isinstance(shop.ask(commands[make]), HeadgateError)
    assert a.got() == []
    assert shop.usage().messages == 0


def test_a_reader_cannot_write_and_a_writer_gets_nothing() -> None:
    """S003-21: unless it opened the queue for both."""
    shop = Shop()
    a = shop.consumer()
    send = shop.sending(1)
    assert isinstance(shop.ask(Send(a.session, 1, Q, send.message)), Prohibited)
    both = shop.rig.session("both")
    opened = shop.ask(Open(both, 2, Q, "orders", WHOLE, True, True, (Interest(None, 9),)))
    assert opened is None
    effects = shop.do(Send(both, 3, Q, send.message))
    assert [(type(e), e.session) for e in effects] == [(Receipt, both), (Deliver, both)]
    assert shop.delivered.get((shop.producer(), Q, WHOLE)) is None


def test_a_queue_is_opened_once_per_app_of_a_session() -> None:
    """S003-22: to change subscriptions there is configure; the first open stays as it is."""
    shop = Shop()
    a = shop.consumer("x == 1")
    assert isinstance(a.open("x == 2"), Prohibited)
    shop.post_each(1, 2)
    assert a.got() == [1]


def test_a_queue_is_opened_in_its_own_domain() -> None:
    """C75: not in one that is unknown, nor in another than it was made in."""
    rig = Rig(PRIORITY, Domain("others", Mode.PRIORITY), Domain("smp", Mode.EXCLUSIVE))
    a, b = rig.session(), rig.session()
    for domain in ("nowhere", "smp"):
        [reply] = rig.do(Open(a, 1, Q, domain))
        assert isinstance(reply, Failed)
        assert isinstance(reply.error, Prohibited)
    assert rig.do(Open(a, 2, Q, "orders")) == [Done(a, 2)]
    [reply] = rig.do(Open(b, 3, Q, "others"))
    assert isinstance(reply, Failed)
    assert isinstance(reply.error, Prohibited)


def test_closing_one_app_leaves_the_session_what_else_it_opened() -> None:
    """C72: another app, and the right to write."""
    shop = Shop(FANOUT)
    send = shop.sending(1)
    foo = Consumer(shop, send.session, "foo", Q)
    bar = Consumer(shop, send.session, "bar", Q)
    assert foo.open() is None
    assert bar.open() is None
    foo.close()
    assert shop.ask(send) is None
    assert (foo.got(), bar.got()) == ([], [1])


def test_facts_tell_of_queues_and_subscribers() -> None:
    """C91: made once, subscribed, unsubscribed by close and by loss."""
    shop = Shop()
    a, b = shop.consumer(), shop.consumer()
    a.close()
    b.crash()
    [made] = shop.rig.take_facts(QueueCreated)
    assert (made.queue, made.domain) == (Q, "orders")
    came = [fact.session for fact in shop.rig.take_facts(Subscribed)]
    left = [fact.session for fact in shop.rig.take_facts(Unsubscribed)]
    assert came == left == [a.session, b.session]


def test_a_session_that_is_gone_before_its_turn_opens_nothing() -> None:
    """C51: nothing is delivered to it."""
    shop = Shop()
    gone = shop.stranger()
    opening = Open(gone.session, 1, Q, "orders", WHOLE, True, False, (Interest(None, 9),))
    shop.rig.broker.close_session(gone.session, "lost", shop.rig.now)
    shop.do(opening, Disconnect(gone.session))
    b = shop.consumer()
    shop.post_many(1)
    assert (gone.got(), b.got()) == ([], [1])


def test_a_session_that_is_gone_gets_nothing_before_its_clean_up() -> None:
    """C51, C39: posts, confirms and changes between the loss and its `Disconnect`."""
    for domain in (PRIORITY, BROADCAST):
        shop = Shop(domain)
        a = shop.consumer(window=2)
        b = shop.consumer(window=1)
        shop.post_many(1)
        shop.rig.broker.close_session(a.session, "lost", shop.rig.now)
        shop.post_many(2)
        b.configure(None, window=9)
        shop.post_many(1)
        assert a.got() == [1]
        shop.do(Disconnect(a.session))
        assert sorted(b.got()) == [1, 2, 3, 4]


def test_a_writer_that_closed_cannot_write() -> None:
    """S003-21."""
    shop = Shop()
    send = shop.sending(1)
    assert shop.ask(Close(send.session, 9, Q)) is None
    assert isinstance(shop.ask(send), HeadgateError)
    assert shop.usage().messages == 0


# Quota.


def test_a_queue_limit_of_n_admits_n() -> None:
    """C82: the next is refused, and works after a confirm."""
    shop = Shop(replace(PRIORITY, max_messages=3))
    a = shop.consumer()
    shop.post_many(3)
    error = shop.try_post()
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit, error.limit) == ("queue", "messages", 3)
    assert a.got() == [1, 2, 3]
    assert shop.usage().messages == 3
    a.confirm(2)
    shop.post_many(1)
    assert a.got() == [4]


def test_a_domain_limit_is_shared_by_its_queues() -> None:
    """C83: a confirm in one makes room in the other."""
    shop = Shop(replace(PRIORITY, domain_max_messages=3))
    a = shop.consumer()
    shop.post_many(2)
    shop.post(queue=OTHER)
    error = shop.try_post(queue=OTHER)
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit, error.limit) == ("domain", "messages", 3)
    a.confirm(1)
    shop.post(queue=OTHER)
    assert isinstance(shop.try_post(), QuotaReached)


def test_the_queue_limit_is_asked_before_that_of_the_domain() -> None:
    """C82, C83: B9, when both are reached."""
    shop = Shop(replace(PRIORITY, max_messages=1, domain_max_messages=1))
    shop.post_many(1)
    error = shop.try_post()
    assert isinstance(error, QuotaReached)
    assert error.scope == "queue"


def test_a_limit_of_bytes_refuses_what_would_go_over_it() -> None:
    """C84: to the last byte it fits, with the properties counted."""
    shop = Shop(replace(PRIORITY, max_bytes=100))
    shop.post(body=50 * b"x")
    error = shop.try_post(body=51 * b"x")
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit, error.limit) == ("queue", "bytes", 100)
    assert isinstance(shop.try_post(body=42 * b"x", n=1), QuotaReached)
    shop.post(body=41 * b"x", n=1)
    assert isinstance(shop.try_post(body=b"x"), QuotaReached)
    assert shop.usage().bytes == 100


def test_a_limit_of_bytes_of_the_domain_is_shared() -> None:
    """C83, C84."""
    shop = Shop(replace(PRIORITY, domain_max_bytes=100))
    shop.post(body=60 * b"x")
    error = shop.try_post(body=41 * b"x", queue=OTHER)
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit, error.limit) == ("domain", "bytes", 100)
    shop.post(body=40 * b"x", queue=OTHER)


def test_a_message_counts_once_until_all_apps_have_confirmed() -> None:
    """C82, C72: B9."""
    shop = Shop(replace(FANOUT, max_messages=1))
    foo, bar, baz = fanout(shop)
    shop.post_many(1)
    for consumer in (foo, bar):
        consumer.confirm(1)
        assert isinstance(shop.try_post(), QuotaReached)
    baz.confirm(1)
    shop.post_many(1)


def test_what_no_app_wants_never_counts() -> None:
    """C61, C82: it is acknowledged though the queue is full."""
    shop = Shop(replace(PRIORITY, max_messages=1, filters=for_all("x == 1")))
    shop.post_each(2, 2, 1, 2, 2)
    assert isinstance(shop.try_post(x=1), QuotaReached)


def test_unmatched_messages_count_until_they_expire_or_are_confirmed() -> None:
    """C85, S003-17: in the queue and in the domain."""
    for domain in (
        replace(PRIORITY, max_messages=2, message_ttl=60.0),
        replace(PRIORITY, domain_max_messages=2, message_ttl=60.0),
    ):
        shop = Shop(domain)
        a = shop.consumer("x == 1")
        shop.post_each(2)
        shop.rig.now += 30
        shop.post_each(2)
        assert isinstance(shop.try_post(x=1), QuotaReached)
        shop.pass_time(31)
        shop.post_each(1)
        assert isinstance(shop.try_post(x=1), QuotaReached)
        a.configure("x >= 1")
        a.confirm(2)
        shop.post_each(1)
        assert a.got() == [3, 2, 4]


def test_quota_is_counted_again_after_a_restart() -> None:
    """C82, C83, C64."""
    shop = Shop(replace(PRIORITY, max_messages=2, domain_max_messages=3))
    shop.post_many(2)
    shop.post(queue=OTHER)
    shop = shop.restarted()
    error = shop.try_post()
    assert isinstance(error, QuotaReached)
    assert error.scope == "queue"
    error = shop.try_post(queue=OTHER)
    assert isinstance(error, QuotaReached)
    assert error.scope == "domain"


def test_a_limit_lowered_below_the_use_drops_nothing() -> None:
    """C82, C83: B9, posts are refused until the use is below it."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(4)
    shop.reconfigure(replace(PRIORITY, max_messages=2))
    assert isinstance(shop.try_post(), QuotaReached)
    assert len(shop.stored()) == 4
    a.confirm(1, 2)
    assert isinstance(shop.try_post(), QuotaReached)
    a.confirm(3)
    shop.post_many(1)
    assert a.got() == [1, 2, 3, 4, 5]


def test_poisoned_messages_free_their_quota() -> None:
    """C56, C82."""
    shop = Shop(replace(PRIORITY, max_messages=1, max_delivery_attempts=1))
    shop.post_many(1)
    shop.consumer().crash()
    shop.post_many(1)


# Alarms.


def states(shop: Shop, scope: str = "queue") -> list[str]:
    changes = [fact for fact in shop.rig.facts if isinstance(fact, CapacityChanged)]
    shop.rig.facts = [fact for fact in shop.rig.facts if fact not in changes]
    return [fact.state for fact in changes if fact.scope == scope]


def test_a_queue_alarms_at_four_fifths_and_when_full_once_per_crossing() -> None:
    """C86: and says when it is normal again; then it may alarm again."""
    shop = Shop(replace(PRIORITY, max_messages=10))
    a = shop.consumer()
    shop.post_many(7)
    assert states(shop) == []
    shop.post_many(1)
    assert states(shop) == ["high"]
    shop.post_many(1)
    assert states(shop) == []
    shop.post_many(1)
    assert states(shop) == ["full"]
    shop.try_post()
    shop.try_post()
    assert states(shop) == []
    a.confirm(*range(1, 11))
    assert states(shop)[-1:] == ["normal"]
    shop.post_many(10)
    assert states(shop) == ["high", "full"]


def test_a_domain_alarms_as_well() -> None:
    """C86, C83: for what its queues hold together."""
    shop = Shop(replace(PRIORITY, domain_max_messages=5))
    shop.post_many(3)
    shop.post(queue=OTHER)
    assert states(shop, "domain") == ["high"]
    shop.post(queue=OTHER)
    assert states(shop, "domain") == ["full"]
    shop.try_post()
    assert states(shop, "domain") == []


def test_bytes_alarm_as_messages_do() -> None:
    """C86, C84."""
    shop = Shop(replace(PRIORITY, max_bytes=100))
    a = shop.consumer()
    shop.post(body=79 * b"x")
    assert states(shop) == []
    shop.post(body=b"x")
    assert states(shop) == ["high"]
    shop.post(body=20 * b"x")
    assert states(shop) == ["full"]
    a.confirm(1)
    assert states(shop) == ["normal"]


def test_expired_messages_bring_a_queue_back_to_normal() -> None:
    """C86, C87."""
    shop = Shop(replace(PRIORITY, max_messages=1, message_ttl=10.0))
    shop.post_many(1)
    assert states(shop)[-1] == "full"
    shop.pass_time(11)
    assert states(shop) == ["normal"]


def test_the_text_of_an_alarm_says_where_the_messages_are() -> None:
    """C90: sizes, expressions, and the oldest message that was put aside."""
    shop = Shop(replace(PRIORITY, max_messages=5, max_idle_time=60.0))
    shop.consumer("colour == 1")
    b = shop.consumer("colour == 2", priority=3)
    shop.post(colour=7, oldest=True)
    shop.post(colour=8)
    shop.post(colour=9)
    shop.post(colour=2)
    [alarm] = shop.rig.take_facts(CapacityChanged)
    assert "3 put aside" in alarm.detail
    assert "0 to be redelivered" in alarm.detail
    assert "colour == 1" in alarm.detail
    assert "colour == 2" in alarm.detail
    assert message_id(1).hex() in alarm.detail
    assert "oldest" in alarm.detail.split(message_id(1).hex())[1]
    b.crash()
    shop.pass_time(61)
    [stuck] = shop.rig.take_facts(QueueStuck)
    assert "1 to be redelivered" in stuck.detail
    assert "colour == 1" in stuck.detail
    assert "colour == 2" not in stuck.detail


def test_an_undeliverable_message_makes_a_queue_stuck_until_it_moves() -> None:
    """C89: one alarm, and one line when it moves again."""
    shop = Shop(replace(PRIORITY, max_idle_time=60.0))
    shop.consumer("x == 1")
    shop.post_each(2)
    shop.pass_time(60)
    assert shop.rig.take_facts(QueueStuck) == []
    shop.pass_time(1)
    [stuck] = shop.rig.take_facts(QueueStuck)
    assert (stuck.queue, stuck.app) == (Q, WHOLE)
    assert stuck.seconds > 60
    shop.pass_time(100)
    assert shop.rig.take_facts(QueueStuck) == []
    assert shop.rig.take_facts(QueueMoved) == []
    shop.consumer("x == 2")
    assert len(shop.rig.take_facts(QueueMoved)) == 1
    shop.post_each(2, 3)
    shop.pass_time(61)
    assert len(shop.rig.take_facts(QueueStuck)) == 1


def test_an_app_without_consumers_is_stuck_alone() -> None:
    """C89: per app."""
    shop = Shop(replace(FANOUT, apps=("foo", "bar"), max_idle_time=60.0))
    shop.consumer(app="foo")
    shop.post_many(1)
    shop.pass_time(61)
    assert [fact.app for fact in shop.rig.take_facts(QueueStuck)] == ["bar"]
    bar = shop.consumer(app="bar")
    assert bar.got() == [1]
    assert [fact.app for fact in shop.rig.take_facts(QueueMoved)] == ["bar"]


def test_a_queue_is_not_stuck_while_it_makes_progress() -> None:
    """C89: nor when everything was delivered, nor when it is empty."""
    shop = Shop(replace(PRIORITY, max_idle_time=60.0))
    shop.pass_time(1000)
    a = shop.consumer(window=1)
    shop.post_many(3)
    shop.pass_time(50)
    a.confirm(1)
    shop.pass_time(50)
    a.confirm(2)
    shop.pass_time(1000)
    assert shop.rig.take_facts(QueueStuck) == []


def test_a_queue_that_was_idle_for_long_is_not_stuck_at_once() -> None:
    """C89: the time counts from when there was something to deliver."""
    shop = Shop(replace(PRIORITY, max_idle_time=60.0))
    shop.consumer("x == 1")
    shop.post_each(1)
    shop.pass_time(1000)
    shop.post_each(2)
    shop.pass_time(1)
    assert shop.rig.take_facts(QueueStuck) == []
    shop.pass_time(60)
    assert len(shop.rig.take_facts(QueueStuck)) == 1


def test_nothing_is_stuck_with_no_idle_time_and_in_broadcast() -> None:
    """C89."""
    for domain in (PRIORITY, replace(BROADCAST, max_idle_time=60.0)):
        shop = Shop(domain)
        shop.consumer("x == 1")
        shop.post_each(2)
        shop.pass_time(10_000)
        assert shop.rig.take_facts(QueueStuck) == []


# Time to live.


def test_a_message_expires_for_all_apps_and_not_before_its_time() -> None:
    """C87: delivered or not; quota is freed, a late confirm is ignored."""
    shop = Shop(replace(FANOUT, message_ttl=60.0, max_messages=2))
    foo = shop.consumer(app="foo")
    shop.consumer("x == 9", app="bar")
    shop.post_each(1, 9)
    shop.pass_time(60)
    assert len(shop.stored()) == 2
    shop.pass_time(1)
    assert shop.stored() == {}
    assert [int(fact.message) for fact in shop.rig.take_facts(Expired)] == [1, 2]
    foo.confirm(1)
    shop.post_each(1, 1)
    assert foo.got() == [1, 2, 3, 4]
    assert shop.consumer(app="baz").got() == [3, 4]


def test_only_what_is_old_enough_expires() -> None:
    """C87."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0))
    shop.post_many(1)
    shop.rig.now += 30
    shop.post_many(1)
    shop.pass_time(31)
    assert list(shop.stored()) == [2]


def test_an_expired_message_frees_the_window_it_was_in() -> None:
    """C87, C43: its confirm would be ignored, so nothing else could."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0))
    a = shop.consumer(window=1)
    shop.post_many(1)
    shop.rig.now += 30
    shop.post_many(1)
    shop.pass_time(31)
    assert a.got() == [1, 2]


def test_an_expired_message_that_was_put_aside_or_returned_is_gone() -> None:
    """C87: B8, silently."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0))
    a = shop.consumer("x == 1")
    shop.post_each(1, 2)
    a.crash()
    shop.pass_time(61)
    assert shop.consumer().got() == []


def test_an_expired_message_is_counted_nowhere() -> None:
    """C87, C90: not as put aside, not as waiting, not as returned."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0, max_messages=5))
    shop.consumer(Interest("x == 1", 0, Window(1)), Interest("x == 9"))
    b = shop.consumer("x == 3")
    shop.post_each(1, 1, 2, 3)
    b.crash()
    shop.pass_time(61)
    assert shop.usage().messages == 0
    shop.rig.take_facts(CapacityChanged)
    shop.post_each(2, 2, 2, 2)
    [high] = shop.rig.take_facts(CapacityChanged)
    assert "3 put aside, 0 to be redelivered, 0 unconfirmed" in high.detail


def test_a_queue_whose_messages_expired_is_no_longer_stuck() -> None:
    """C89, C87: nothing is undelivered; the next message that stays makes a new alarm."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0, max_idle_time=30.0))
    shop.consumer("x == 1")
    shop.post_each(2)
    shop.pass_time(31)
    assert len(shop.rig.take_facts(QueueStuck)) == 1
    shop.pass_time(31)
    assert shop.usage().messages == 0
    shop.post_each(2)
    shop.pass_time(31)
    assert len(shop.rig.take_facts(QueueMoved)) == 1
    assert len(shop.rig.take_facts(QueueStuck)) == 1


def test_what_is_done_with_leaves_nothing_in_memory() -> None:
    """C91: confirmed, expired, poisoned, refused; once the ids are forgotten, too."""
    shop = Shop(
        replace(
            PRIORITY,
            message_ttl=100.0,
            max_delivery_attempts=2,
            deduplication_time=50.0,
            max_messages=5,
        )
    )
    a = shop.consumer("x == 1", window=2)
    shop.post_each(1)  # the first message makes the groups
    a.confirm(1)
    shop.pass_time(51)
    before = snapshot(shop.rig.shard)
    shop.post_each(1, 1, 1, 2, 3)
    assert isinstance(shop.try_post(x=1), QuotaReached)
    for _ in range(2):
        shop.consumer("x == 2", window=1).crash()
    assert len(shop.rig.take_facts(Poisoned)) == 1
    shop.consumer("x == 3").crash()
    a.confirm(2)
    a.confirm(3)
    shop.pass_time(101)
    assert sorted(int(fact.message) for fact in shop.rig.take_facts(Expired)) == [4, 6]
    lines = differences(before, snapshot(shop.rig.shard))
    # When it last moved, the number of the last session, of the last consumer, what was counted.
    clocks = ("/moved", "/_last", "/last_place", "/looked_at", "/score", "/_unsampled")
    assert [line for line in lines if not any(clock in line for clock in clocks)] == []


def test_what_expired_while_nobody_looked_is_not_delivered() -> None:
    """C87: after a restart as well."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0, max_messages=1))
    shop.post_many(1)
    shop = shop.restarted()
    shop.rig.now += 61
    shop.do(Tick())
    a = shop.consumer()
    shop.do(Tick())
    shop.post_many(1)
    assert a.got()[-1] == 2
    assert list(shop.stored()) == [2]


def test_a_new_time_to_live_counts_for_what_is_stored() -> None:
    """C88: shorter and longer."""
    shop = Shop(replace(PRIORITY, message_ttl=1000.0))
    shop.post_many(1)
    shop.rig.now += 100
    shop.post_many(1)
    shop.reconfigure(replace(PRIORITY, message_ttl=50.0))
    shop.do(Tick())
    assert list(shop.stored()) == [2]
    shop.reconfigure(replace(PRIORITY, message_ttl=5000.0))
    shop.pass_time(4000)
    assert list(shop.stored()) == [2]
    shop.reconfigure(replace(PRIORITY, message_ttl=None))
    shop.pass_time(1e9)
    assert list(shop.stored()) == [2]


# Statistics.


def test_statistics_are_what_was_posted_pushed_confirmed_and_expired() -> None:
    """C91: for the queue, and for each app."""
    shop = Shop(replace(FANOUT, apps=("foo", "bar"), filters=filters(bar="x == 1"), max_messages=5))
    foo = shop.consumer("x < 9", app="foo")
    bar = shop.consumer(app="bar")
    shop.post_each(1, 2, 9)
    shop.ask(shop.sending(1, {"x": 1}))
    foo.confirm(1)
    bar.confirm(1)
    foo.crash()
    shop.post_each(3, 4, 5)
    assert isinstance(shop.try_post(x=3), QuotaReached)
    shop.pass_time(8 * 86_400)
    of = shop.rig.shard.statistics.of
    assert of(Q) == {
        "accepted": 6,
        "repeated": 1,
        "refused": 1,
        "auto_confirmed": 5,
        "delivered": 3,
        "confirmed": 2,
        "put_aside": 1,
        "returned": 1,
        "expired": 5,
    }
    assert of(Q, "foo") == {"delivered": 2, "confirmed": 1, "put_aside": 1, "returned": 1}
    assert of(Q, "bar") == {"delivered": 1, "confirmed": 1, "auto_confirmed": 5}


class Counting(dict[str, PropertyValue]):
    """Properties that count how often each is read."""

    def __init__(self, **properties: PropertyValue) -> None:
        super().__init__(properties)
        self.reads: list[str] = []

    def __getitem__(self, name: str) -> PropertyValue:
        self.reads.append(name)
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> object:  # type: ignore[override]
        self.reads.append(name)
        return super().get(name, default)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


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


def test_a_match_reads_only_what_it_names() -> None:
    """S003-44, S003-45: with a thousand others beside it."""
    shop = Shop()
    a = shop.consumer("x == 1 && y > 0")
    properties = Counting(x=1, y=1, **{f"p{n}": n for n in range(200)})
    shop.ask(shop.sending(1, properties))
    assert a.got() == [1]
    assert sorted(properties.reads) == ["x", "y"]


def test_application_subscriptions_are_evaluated_once_when_the_message_comes() -> None:
    """C66, S003-12: not when it is delivered, confirmed or returned."""
    shop = Shop(replace(PRIORITY, filters=for_all("x == 1")))
    properties = Counting(x=1)
    shop.ask(shop.sending(1, properties))
    a = shop.consumer()
    a.crash()
    assert shop.consumer().got() == [1]
    assert properties.reads == ["x"]


def test_what_a_consumer_wants_is_told_when_it_opens_and_when_it_changes_its_mind() -> None:
    shop = Shop()
    a = shop.consumer("x > 1", Interest("x < 0", priority=7))
    a.configure()
    told = shop.rig.take_facts(Interested)
    assert [(f.place, f.places, f.expression, f.priority) for f in told] == [
        (0, 2, "x > 1", 0),
        (1, 2, "x < 0", 7),
        (0, 0, None, 0),
    ]
    assert {(f.queue, f.app, f.session) for f in told} == {(Q, WHOLE, a.session)}


def test_a_refused_change_is_no_change_of_what_a_consumer_wants() -> None:
    shop = Shop()
    a = shop.consumer("x > 1")
    shop.rig.take_facts(Interested)
    assert isinstance(a.try_configure("x >"), BadSubscription)
    assert shop.rig.take_facts(Interested) == []

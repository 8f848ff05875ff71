"""Messages that consumers were lost with: the next consumers are given them one at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headgate.core.commands import Interest
from headgate.core.model.domain import Domain
from headgate.core.model.ids import WHOLE
from headgate.core.model.window import Window
from headgate.core.shared.redelivery import delay_after
from headgate.core.turn.store_requests import Batch
from tests.support.shared_queues import FANOUT, PRIORITY, Consumer, Q, Shop

TWICE = replace(PRIORITY, max_delivery_attempts=2)
"""After one loss a message has one attempt left."""


def lost_with(count: int, domain: Domain = TWICE, *, times: int = 1) -> Shop:
    """A shop whose consumer was lost with so many messages in its hands, so often."""
    shop = Shop(domain)
    shop.post_many(count)
    for _ in range(times):
        victim = shop.consumer()
        for _ in range(20 * count):  # whatever the delay, it is given all of them
            shop.pass_time(1)
        assert sorted(victim.got()) == list(range(1, count + 1))
        victim.crash()
    return shop


def after(shop: Shop, consumer: Consumer, seconds: int) -> list[tuple[int, int]]:
    """What comes in which second."""
    came = []
    for second in range(1, seconds + 1):
        shop.pass_time(1)
        came += [(second, number) for number in consumer.got()]
    return came


def test_they_come_one_at_a_time() -> None:
    """BMQ-51, BMQ-56: the first at once, for the consumer was given nothing yet."""
    shop = lost_with(3)
    a = shop.consumer()
    assert a.got() == [1]
    assert after(shop, a, 9) == [(3, 2), (6, 3)]


@pytest.mark.parametrize(
    ("most", "times", "seconds"),
    [(0, 9, 0), (9, 1, 0), (6, 1, 0), (5, 1, 1), (6, 2, 1), (5, 2, 1), (5, 3, 3), (3, 1, 3)],
)
def test_the_fewer_attempts_are_left_the_longer_it_takes(
    most: int, times: int, seconds: int
) -> None:
    """BMQ-56, BMQ-57: more than four left, none; three and four, a second; one and two, three."""
    shop = lost_with(2, replace(PRIORITY, max_delivery_attempts=most), times=times)
    a = shop.consumer()
    if not seconds:
        assert a.got() == [1, 2]
        return
    assert a.got() == [1]
    assert after(shop, a, 4) == [(seconds, 2)]


def test_a_confirm_of_the_last_message_ends_the_wait() -> None:
    """BMQ-54: the consumer has survived it."""
    shop = lost_with(3)
    a = shop.consumer()
    assert a.got() == [1]
    a.confirm(1)
    assert a.got() == [2]
    number = shop.post()
    assert a.got() == [number]
    a.confirm(2)  # not the last that it was given
    assert a.got() == []
    a.confirm(number)
    assert a.got() == [3]


def test_others_are_not_held_up() -> None:
    """BMQ-23: neither new messages nor those that were put aside."""
    shop = Shop(TWICE)
    first = shop.post_each(1, 1, 1)
    shop.consumer("x == 1").crash()
    a = shop.consumer("x == 1")
    aside = shop.post_each(2)
    fresh = shop.post_each(1)
    assert a.got() == [first[0], *fresh]
    a.configure("x >= 1")
    assert a.got() == aside


def test_what_was_given_back_later_waits_behind_it() -> None:
    """BMQ-50: also if nothing is wrong with it."""
    shop = Shop(TWICE)
    a, b = shop.consumer(window=2), shop.consumer(window=2)
    shop.post_many(4)
    assert (a.got(), b.got()) == ([1, 3], [2, 4])
    c = shop.consumer()
    fresh = shop.post()
    assert c.got() == [fresh]
    a.crash()
    b.close()
    assert c.got() == []
    assert after(shop, c, 6) == [(3, 1), (3, 2), (6, 3), (6, 4)]


def test_the_wait_ends_in_time_however_many_others_come() -> None:
    """Else a busy consumer would never be given it."""
    shop = lost_with(2)
    a = shop.consumer()
    assert a.got() == [1]
    came = []
    for _ in range(4):
        fresh = shop.post()
        shop.pass_time(1)
        came += [number for number in a.got() if number != fresh]
    assert came == [2]


def test_another_who_had_nothing_for_a_while_takes_it() -> None:
    """BMQ-38, BMQ-53."""
    shop = lost_with(3)
    a = shop.consumer()
    assert a.got() == [1]
    b = shop.consumer()
    assert (a.got(), b.got()) == ([], [2])
    a.confirm(1)
    assert (a.got(), b.got()) == ([3], [])


def test_a_lower_priority_does_not_take_it() -> None:
    """BMQ-41: it waits for those who match best."""
    shop = lost_with(2)
    a = shop.consumer(priority=5)
    b = shop.consumer("!exists(x)", priority=1)
    assert a.got() == [1]
    assert after(shop, a, 3) == [(3, 2)]
    assert b.got() == []


def test_one_that_waited_for_room_is_spared_them_too() -> None:
    """BMQ-58, S003-32."""
    shop = Shop(TWICE)
    shop.consumer("y == 1")  # has room, so that all is looked at
    a = shop.consumer("x == 1", window=2)
    shop.post_each(1, 1)
    b = shop.consumer("x == 1", window=1)
    shop.post_each(1)
    assert (a.got(), b.got()) == ([1, 2], [3])
    a.crash()  # b is full: both wait for it
    b.confirm(3)
    assert b.got() == [1]
    b.configure("x == 1", window=3)
    assert b.got() == []
    assert after(shop, b, 3) == [(3, 2)]


def test_with_room_for_more_they_still_come_one_at_a_time() -> None:
    shop = Shop(TWICE)
    shop.consumer("y == 1")
    a = shop.consumer("x == 1", window=2)
    shop.post_each(1, 1)
    b = shop.consumer("x == 1", window=1)
    c = shop.consumer("x >= 1", window=Window(2))
    shop.post_each(1, 1, 1)
    assert (a.got(), b.got(), c.got()) == ([1, 2], [3], [4, 5])
    a.crash()
    c.confirm(4)  # two are looked at again, and c has room for both: the last is unconfirmed
    assert c.got() == []
    c.confirm(5)
    assert c.got() == [1]
    assert after(shop, c, 3) == [(3, 2)]


def test_no_delay_is_none() -> None:
    shop = lost_with(3, replace(TWICE, suspicious_delay_high=0.0))
    assert shop.consumer().got() == [1, 2, 3]


def test_a_domain_without_a_bound_of_attempts_has_no_delay() -> None:
    """BMQ-57: and nothing is noted for it."""
    shop = lost_with(3, PRIORITY, times=4)
    assert shop.consumer().got() == [1, 2, 3]
    assert shop.rig.shard.shared.queues[Q].apps[WHOLE].redelivery.last_given == {}


def test_new_settings_hold_at_once() -> None:
    """BMQ-88."""
    shop = lost_with(3)
    a = shop.consumer()
    assert a.got() == [1]
    shop.reconfigure(PRIORITY)
    assert a.got() == [2, 3]


def test_a_message_that_kills_again_is_delayed_again() -> None:
    """BMQ-56."""
    shop = lost_with(2, replace(PRIORITY, max_delivery_attempts=4))
    b = shop.consumer()
    assert b.got() == [1]
    assert after(shop, b, 3) == [(1, 2)]
    b.crash()
    c = shop.consumer()
    assert c.got() == [1]
    assert after(shop, c, 4) == [(3, 2)]


def test_each_app_waits_for_itself() -> None:
    """BMQ-56, BMQ-74."""
    shop = Shop(replace(FANOUT, max_delivery_attempts=2))
    shop.post_many(2)
    shop.consumer(app="foo").crash()
    foo, bar = shop.consumer(app="foo"), shop.consumer(app="bar")
    assert (foo.got(), bar.got()) == ([1], [1, 2])


def test_what_expires_while_it_is_held_holds_nothing() -> None:
    """BMQ-87."""
    shop = Shop(replace(TWICE, message_ttl=100.0))
    shop.post_many(2)
    shop.rig.now += 50
    shop.post_many(1)
    shop.consumer().crash()
    a = shop.consumer()
    assert a.got() == [1]
    shop.rig.now += 51
    shop.pass_time(0)
    assert a.got() == [3]


def test_a_held_message_does_not_keep_time_busy() -> None:
    """Nothing is written while it waits, and nothing afterwards."""
    shop = lost_with(2)
    a = shop.consumer()
    assert a.got() == [1]
    before = len(shop.rig.asked)
    assert after(shop, a, 9) == [(3, 2)]
    assert not [asked for asked in shop.rig.asked[before:] if isinstance(asked, Batch)]


# What holds for any of them.

DOINGS = st.sampled_from(
    ("post", "confirm oldest", "confirm newest", "second", "consumer", "crash")
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(
    [("post", 0)] * 5
    + [
        ("consumer", 0),
        ("consumer", 2),
        ("confirm oldest", 0),
        ("confirm newest", 1),
        ("crash", 0),
    ],
    2,
)
@given(st.lists(st.tuples(DOINGS, st.integers(0, 5)), max_size=30), st.integers(2, 7))
def test_whatever_happens_all_come_and_the_suspicious_with_a_pause(
    steps: list[tuple[str, int]], most: int
) -> None:
    """BMQ-49, BMQ-51: whose last message came less than three seconds ago, and is not confirmed,
    is given none that others were lost with. What waits for a consumer that was given nothing
    for so long is not put off by what that is given meanwhile."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=most))
    consumers: list[Consumer] = []
    in_hand: dict[Consumer, list[int]] = {}
    last_given: dict[Consumer, tuple[int, float]] = {}
    oldest_rest: dict[int, float] = {}
    """When the consumer that rests longest was given its last, for each message that came back."""

    def rests() -> None:
        since = min((at for _, at in last_given.values()), default=shop.rig.now)
        for number, at in oldest_rest.items():
            oldest_rest[number] = min(at, since)

    def look() -> None:
        for consumer in consumers:
            hand = in_hand.setdefault(consumer, [])
            for delivery in consumer.news():
                number, attempts = int(delivery.message.id), delivery.attempts
                delay = delay_after(attempts, shop.domain)
                if delay and consumer in last_given:
                    pause = shop.rig.now - last_given[consumer][1]
                    assert pause >= delay or shop.rig.now - oldest_rest[number] >= delay
                hand.append(number)
                last_given[consumer] = (number, shop.rig.now)

    for doing, choice in steps:
        consumer = consumers[choice % len(consumers)] if consumers else None
        if doing == "post":
            shop.post()
        elif doing == "second":
            shop.pass_time(1)
        elif doing == "consumer":
            consumers.append(shop.consumer(Interest(window=Window(choice + 1))))
        elif consumer is not None and doing == "crash":
            last_given.pop(consumer, None)
            oldest_rest |= dict.fromkeys(in_hand.pop(consumer, []), shop.rig.now)
            rests()
            consumers.remove(consumer)
            consumer.crash()
        elif consumer is not None and in_hand.get(consumer):
            number = in_hand[consumer].pop(0 if doing == "confirm oldest" else -1)
            if last_given.get(consumer, (None,))[0] == number:
                del last_given[consumer]
            consumer.confirm(number)
        look()
        rests()
    last = shop.consumer()
    for consumer in consumers:
        consumer.close()
    for _ in range(3 * shop.next_number + 3):
        shop.pass_time(1)
    assert sorted(last.got()) == sorted(shop.stored())

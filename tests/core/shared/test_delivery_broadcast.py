"""Broadcast: to whoever is there at the moment."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import Close
from headgate.core.facts import CapacityChanged, Expired, Poisoned, Returned
from tests.support.shared_queues import BROADCAST, Q, Shop


def test_broadcast_reaches_everybody_of_the_moment_and_stores_nothing() -> None:
    """BMQ-78: none for those who come late, none between close and reopen."""
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
    """BMQ-78."""
    shop = Shop(BROADCAST)
    high = [shop.consumer(priority=2) for _ in range(2)]
    low = shop.consumer(priority=1)
    shop.post_many(2)
    assert [c.got() for c in (*high, low)] == [[1, 2], [1, 2], []]


def test_broadcast_follows_a_change_of_priority() -> None:
    """BMQ-79: and with equal priorities both get it again."""
    shop = Shop(BROADCAST)
    a, b = shop.consumer(priority=2), shop.consumer(priority=1)
    shop.post_many(1)
    b.configure(None, priority=3)
    shop.post_many(1)
    a.configure(None, None, priority=3)
    shop.post_many(1)
    assert (a.got(), b.got()) == ([1, 3], [2, 3])


def test_broadcast_is_active_per_expression() -> None:
    """BMQ-80, S003-29: of the same expression only the highest priority, of others all."""
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
    """BMQ-80, S003-27: only the first of its subscriptions counts."""
    shop = Shop(BROADCAST)
    a = shop.consumer("x > 0", "x > 1", None)
    shop.post_each(2)
    assert a.got() == [1]


def test_broadcast_without_time_to_live_delivers_everything() -> None:
    """BMQ-81: a TTL of 0, and a clock that moves."""
    shop = Shop(replace(BROADCAST, message_ttl=0.0))
    a = shop.consumer()
    for _ in range(3):
        shop.post_many(1)
        shop.pass_time(5)
    assert a.got() == [1, 2, 3]
    assert shop.rig.take_facts(Expired) == []


def test_broadcast_does_not_count_windows_but_zero_pauses() -> None:
    """BMQ-78, BMQ-46: B11; confirms are ignored."""
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
    """BMQ-78: not when a consumer is lost, and no attempt is counted."""
    shop = Shop(replace(BROADCAST, max_delivery_attempts=1))
    a, b = shop.consumer(), shop.consumer()
    shop.post_many(1)
    a.crash()
    assert b.got() == [1]
    assert shop.rig.take_facts(Poisoned) + shop.rig.take_facts(Returned) == []


def test_broadcast_delivers_under_the_old_set_what_came_before_a_change() -> None:
    """BMQ-79: B11, in one turn."""
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
    """BMQ-78, BMQ-82: nothing is stored, so nothing counts."""
    shop = Shop(replace(BROADCAST, max_messages=1, domain_max_messages=1))
    shop.post_many(5)
    assert shop.rig.take_facts(CapacityChanged) == []

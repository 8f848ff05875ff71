"""How much a shared queue and its domain may hold, and when they say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.facts import CapacityChanged
from headgate.core.model.domain import Domain
from headgate.errors import QuotaReached
from tests.support.shared_queues import FANOUT, OTHER, PRIORITY, Shop, fanout, for_all


def states(shop: Shop, scope: str = "queue") -> list[str]:
    changes = [fact for fact in shop.rig.facts if isinstance(fact, CapacityChanged)]
    shop.rig.facts = [fact for fact in shop.rig.facts if fact not in changes]
    return [fact.state for fact in changes if fact.scope == scope]


def test_a_queue_limit_of_n_admits_n() -> None:
    """BMQ-82: the next is refused, and works after a confirm."""
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
    """BMQ-83: a confirm in one makes room in the other."""
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
    """BMQ-82, BMQ-83: B9, when both are reached."""
    shop = Shop(replace(PRIORITY, max_messages=1, domain_max_messages=1))
    shop.post_many(1)
    error = shop.try_post()
    assert isinstance(error, QuotaReached)
    assert error.scope == "queue"


def test_a_limit_of_bytes_refuses_what_would_go_over_it() -> None:
    """BMQ-84: to the last byte it fits, with the properties counted."""
    shop = Shop(replace(PRIORITY, max_bytes=100))
    shop.post(body=50 * b"x")
    error = shop.try_post(body=51 * b"x")
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit, error.limit) == ("queue", "bytes", 100)
    assert isinstance(shop.try_post(body=42 * b"x", n=1), QuotaReached)
    shop.post(body=41 * b"x", n=1)
    assert isinstance(shop.try_post(body=b"x"), QuotaReached)
    assert shop.usage().bytes == 100


def test_what_fits_to_the_last_byte_is_not_refused_for_its_bytes() -> None:
    """BMQ-84, BMQ-83: the queue has room for it, and it is its domain that has none."""
    shop = Shop(replace(PRIORITY, max_bytes=100, domain_max_messages=1))
    shop.post(body=50 * b"x")
    error = shop.try_post(body=50 * b"x")
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit, error.limit) == ("domain", "messages", 1)


def test_a_limit_of_bytes_of_the_domain_is_shared() -> None:
    """BMQ-83, BMQ-84."""
    shop = Shop(replace(PRIORITY, domain_max_bytes=100))
    shop.post(body=60 * b"x")
    error = shop.try_post(body=41 * b"x", queue=OTHER)
    assert isinstance(error, QuotaReached)
    assert (error.scope, error.unit, error.limit) == ("domain", "bytes", 100)
    shop.post(body=40 * b"x", queue=OTHER)


def test_a_message_counts_once_until_all_apps_have_confirmed() -> None:
    """BMQ-82, BMQ-72: B9."""
    shop = Shop(replace(FANOUT, max_messages=1))
    foo, bar, baz = fanout(shop)
    shop.post_many(1)
    for consumer in (foo, bar):
        consumer.confirm(1)
        assert isinstance(shop.try_post(), QuotaReached)
    baz.confirm(1)
    shop.post_many(1)


def test_what_no_app_wants_never_counts() -> None:
    """BMQ-61, BMQ-82: it is acknowledged though the queue is full."""
    shop = Shop(replace(PRIORITY, max_messages=1, filters=for_all("x == 1")))
    shop.post_each(2, 2, 1, 2, 2)
    assert isinstance(shop.try_post(x=1), QuotaReached)


def test_unmatched_messages_count_until_they_expire_or_are_confirmed() -> None:
    """BMQ-85, S003-17: in the queue and in the domain."""
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


@pytest.mark.parametrize(
    ("scope", "domain"),
    [
        ("queue", replace(PRIORITY, message_ttl=60.0, max_messages=5)),
        ("domain", replace(PRIORITY, message_ttl=60.0, domain_max_messages=5)),
    ],
)
def test_unmatched_messages_alarm_as_others_do(scope: str, domain: Domain) -> None:
    """BMQ-85, BMQ-86: until they are over; an alarm says what waits, that it is over says
    nothing."""
    shop = Shop(domain)
    shop.consumer("x == 1")
    shop.post_each(2, 2, 2, 2, 2)
    alarms = [fact for fact in shop.rig.take_facts(CapacityChanged) if fact.scope == scope]
    assert [fact.state for fact in alarms] == ["high", "full"]
    assert all(fact.detail for fact in alarms)
    shop.pass_time(61)
    over = [fact for fact in shop.rig.take_facts(CapacityChanged) if fact.scope == scope]
    assert [(fact.state, fact.detail) for fact in over][-1:] == [("normal", "")]


def test_poisoned_messages_free_their_quota() -> None:
    """BMQ-56, BMQ-82."""
    shop = Shop(replace(PRIORITY, max_messages=1, max_delivery_attempts=1))
    shop.post_many(1)
    shop.consumer().crash()
    shop.post_many(1)


def test_a_queue_alarms_at_four_fifths_and_when_full_once_per_crossing() -> None:
    """BMQ-86: and says when it is normal again; then it may alarm again."""
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
    """BMQ-86, BMQ-83: for what its queues hold together."""
    shop = Shop(replace(PRIORITY, domain_max_messages=5))
    shop.post_many(3)
    shop.post(queue=OTHER)
    assert states(shop, "domain") == ["high"]
    shop.post(queue=OTHER)
    assert states(shop, "domain") == ["full"]
    shop.try_post()
    assert states(shop, "domain") == []


def test_bytes_alarm_as_messages_do() -> None:
    """BMQ-86, BMQ-84."""
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
    """BMQ-86, BMQ-87."""
    shop = Shop(replace(PRIORITY, max_messages=1, message_ttl=10.0))
    shop.post_many(1)
    assert states(shop)[-1] == "full"
    shop.pass_time(11)
    assert states(shop) == ["normal"]

"""What counts against a message that consumers were lost with, and when it is given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.facts import Delivered, Poisoned
from tests.support.shared_queues import FANOUT, PRIORITY, Q, Shop, message_id


def test_a_clean_end_uses_up_no_attempt_and_a_crash_does() -> None:
    """BMQ-55: with one attempt, closes are harmless and the first crash is the end."""
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
    """BMQ-55: nor does one that has no subscription left when it closes."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    a = shop.consumer()
    shop.post_many(1)
    a.configure()
    a.close()
    assert shop.consumer().got() == [1]


def test_a_crash_counts_though_the_subscription_was_removed() -> None:
    """BMQ-55, BMQ-33: the message was still in its hands."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    a = shop.consumer()
    shop.post_many(1)
    a.configure()
    a.crash()
    assert len(shop.rig.take_facts(Poisoned)) == 1


def test_a_delivery_tells_how_often_a_consumer_was_lost_with_it() -> None:
    """BMQ-55: and the fact tells it, too."""
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
    """BMQ-56: the other apps keep theirs."""
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
    """BMQ-56: not what it had confirmed, nor what it never got."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1))
    a = shop.consumer(window=2)
    shop.post_many(4)
    a.confirm(1)
    a.crash()
    assert [int(f.message) for f in shop.rig.take_facts(Poisoned)] == [2, 3]
    assert shop.consumer().got() == [4]


def test_no_bound_of_attempts_means_any_number() -> None:
    """BMQ-57."""
    shop = Shop()
    shop.post_many(1)
    for _ in range(20):
        shop.consumer().crash()
    assert shop.consumer().got() == [1]


def test_a_restart_resets_the_attempts() -> None:
    """BMQ-56: B7."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=2))
    shop.post_many(1)
    shop.consumer().crash()
    shop = shop.restarted()
    shop.consumer().crash()
    assert shop.rig.take_facts(Poisoned) == []
    assert shop.consumer().got() == [1]


def test_what_is_poisoned_for_one_app_is_not_in_its_line_while_another_has_it() -> None:
    """BMQ-56: it is dropped for that app, and counts as undelivered nowhere."""
    shop = Shop(replace(FANOUT, max_delivery_attempts=1))
    foo = shop.consumer(app="foo")
    shop.post()
    foo.crash()
    assert [fact.app for fact in shop.rig.take_facts(Poisoned)] == ["foo"]
    apps = shop.rig.shard.shared.queues[Q].apps
    assert apps["foo"].undelivered() == 0
    assert apps["bar"].undelivered() == 1

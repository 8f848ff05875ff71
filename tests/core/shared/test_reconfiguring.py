"""New settings for a domain while its queues are in use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Reconfigure, Tick
from headgate.core.facts import AppRemoved, AutoConfirmed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.shared.catalog import Catalog
from headgate.errors import QuotaReached
from tests.support.shared_queues import APPS, FANOUT, PRIORITY, Q, Shop, fanout, filters


@pytest.mark.once
def test_a_domain_whose_settings_did_not_change_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one that did costs its own queues a look."""
    shop = Shop()
    shop.post_many(1)
    looked: list[QueueId] = []
    plan = Catalog.plan

    def watched(self: Catalog, queue: object) -> None:
        looked.append(queue.id)  # type: ignore[attr-defined]
        plan(self, queue)  # type: ignore[arg-type]

    monkeypatch.setattr(Catalog, "plan", watched)
    shop.do(Reconfigure(replace(PRIORITY)))
    assert looked == []
    shop.do(Reconfigure(replace(PRIORITY, name="other")))
    assert looked == []
    shop.do(Reconfigure(replace(PRIORITY, max_messages=7)))
    assert looked == [Q]


def test_new_application_subscriptions_are_for_new_messages_only() -> None:
    """BMQ-66, S003-8: they were evaluated once, when the message came."""
    shop = Shop(APPS)
    shop.post_each(1, 2)
    shop.rig.take_facts(AutoConfirmed)
    shop.reconfigure(replace(APPS, filters=filters(foo="x == 2", bar="x == 1")))
    assert shop.rig.take_facts(AutoConfirmed) == []
    [third] = shop.post_each(2)
    refused = [(fact.app, int(fact.message)) for fact in shop.rig.take_facts(AutoConfirmed)]
    assert refused == [("bar", third)]
    foo, bar, baz = fanout(shop)
    assert (foo.got(), bar.got(), baz.got()) == ([1, 3], [2], [1, 2, 3])


def test_a_subscription_given_before_its_app_counts_when_the_app_comes() -> None:
    """BMQ-70, BMQ-77."""
    shop = Shop(replace(FANOUT, apps=("foo",), filters=filters(bar="x == 1")))
    shop.post_each(1)
    shop.reconfigure(replace(FANOUT, apps=("foo", "bar"), filters=filters(bar="x == 1")))
    shop.post_each(1, 2)
    assert shop.consumer(app="bar").got() == [2]


def test_an_app_that_comes_later_sees_later_messages_only() -> None:
    """BMQ-77."""
    shop = Shop(replace(FANOUT, apps=("foo",)))
    shop.post_many(2)
    shop.reconfigure(replace(FANOUT, apps=("foo", "bar")))
    shop.post_many(1)
    assert shop.consumer(app="bar").got() == [3]
    assert shop.consumer(app="foo").got() == [1, 2, 3]


def test_a_removed_app_lets_go_of_its_messages() -> None:
    """BMQ-77: those nobody else has are deleted, and free the quota."""
    shop = Shop(replace(FANOUT, max_messages=2))
    foo, bar, baz = fanout(shop)
    shop.post_many(2)
    foo.confirm(1)
    bar.confirm(1)
    shop.reconfigure(replace(FANOUT, apps=("foo", "bar"), max_messages=2))
    assert {n: set(apps) for n, apps in shop.stored().items()} == {2: {"foo", "bar"}}
    assert shop.rig.take_facts(AppRemoved) == [AppRemoved(shop.rig.now, Q, "baz", 2)]
    shop.post_many(1)
    assert (foo.got(), bar.got(), baz.got()) == ([1, 2, 3], [1, 2, 3], [1, 2])


def test_a_removed_app_that_comes_back_begins_anew() -> None:
    """BMQ-77: it does not get what it had let go of."""
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


def test_another_mode_changes_nothing() -> None:
    """BMQ-65: a domain keeps its mode; the other settings are new."""
    shop = Shop(replace(PRIORITY, max_messages=2))
    a, b = shop.consumer(), shop.consumer()
    shop.post_many(1)
    shop.reconfigure(Domain("orders", Mode.BROADCAST, max_messages=2))
    shop.post_many(1)
    assert (a.got(), b.got()) == ([1], [2])
    assert shop.usage().messages == 2
    assert isinstance(shop.try_post(), QuotaReached)


def test_a_limit_lowered_below_the_use_drops_nothing() -> None:
    """BMQ-82, BMQ-83: B9, posts are refused until the use is below it."""
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


def test_a_new_time_to_live_counts_for_what_is_stored() -> None:
    """BMQ-88: shorter and longer."""
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

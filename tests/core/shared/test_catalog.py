"""Shared queues that are found, made, and taken from the store."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import CountDomain, Open
from headgate.core.effects import Done, Failed
from headgate.core.facts import AppRemoved, CapacityChanged
from headgate.core.model.domain import Domain, Mode
from headgate.errors import Prohibited, QuotaReached
from headgate.testing.rig import Rig
from tests.support.shared_queues import APPS, FANOUT, OTHER, PRIORITY, Q, Shop, fanout, filters


def test_a_message_posted_again_after_a_restart_is_stored_once() -> None:
    """BMQ-59: while it is in the store, its id is known."""
    shop = Shop()
    shop.post_many(1)
    shop = shop.restarted()
    assert shop.ask(shop.sending(1)) is None
    assert shop.usage().messages == 1


def test_application_subscriptions_have_the_same_outcome_after_a_restart() -> None:
    """BMQ-64: what was refused stays refused, what was confirmed stays confirmed."""
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
    """BMQ-64."""
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
    """BMQ-64, BMQ-51: the consumers are gone with the router."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(3)
    a.confirm(2)
    shop = shop.restarted()
    assert shop.consumer().got() == [1, 3]


def test_new_application_subscriptions_do_not_take_back_after_a_restart() -> None:
    """BMQ-66, BMQ-64: the store knows the apps of each message."""
    shop = Shop(APPS)
    shop.post_each(1, 2)
    shop = shop.restarted(replace(APPS, filters=filters(foo="x == 2", bar="x == 1")))
    foo, bar, _ = fanout(shop)
    assert (foo.got(), bar.got()) == ([1], [2])


def test_an_app_removed_while_the_router_was_down_lets_go_too() -> None:
    """BMQ-77: found out when the queue is opened again."""
    shop = Shop(replace(FANOUT, apps=("foo", "bar")))
    foo = shop.consumer(app="foo")
    shop.post_many(2)
    foo.confirm(1)
    shop = shop.restarted(replace(FANOUT, apps=("foo",)))
    foo = shop.consumer(app="foo")
    assert foo.got() == [2]
    assert shop.rig.take_facts(AppRemoved) == [AppRemoved(shop.rig.now, Q, "bar", 2)]
    foo.confirm(2)
    assert shop.stored() == {}


def test_a_queue_is_opened_in_its_own_domain() -> None:
    """BMQ-75: not in one that is unknown, nor in another than it was made in."""
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


def test_quota_is_counted_again_after_a_restart() -> None:
    """BMQ-82, BMQ-83, BMQ-64."""
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


def test_what_a_domain_holds_is_counted_before_anybody_uses_it() -> None:
    """Who looks after a restart sees what is stored, and how full it is."""
    shop = Shop(replace(PRIORITY, domain_max_messages=3))
    shop.post_many(3)
    shop = shop.restarted()
    assert shop.rig.shard.shared.states == {}
    shop.do(CountDomain(PRIORITY.name), CountDomain("unknown"))
    [(name, state)] = shop.rig.shard.shared.states.items()
    assert (name, state.queues, state.meter.messages) == (PRIORITY.name, 1, 3)
    [change] = shop.rig.take_facts(CapacityChanged)
    assert (change.scope, change.name, change.state) == ("domain", PRIORITY.name, "full")
    assert shop.rig.shard.shared.queues == {}
    shop.do(CountDomain(PRIORITY.name))
    assert shop.rig.take_facts(CapacityChanged) == []

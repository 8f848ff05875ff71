"""Sending to a shared queue: filters of its apps, ids that come again, who may write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Interest, Open, Send
from headgate.core.effects import Deliver, Receipt
from headgate.core.facts import AutoConfirmed, Repeated
from headgate.core.model.ids import WHOLE
from headgate.errors import BadMessage, Prohibited, QuotaReached
from tests.support.shared_queues import (
    APPS,
    BROADCAST,
    FANOUT,
    OTHER,
    PRIORITY,
    Counting,
    Q,
    Shop,
    fanout,
    filters,
    for_all,
)


def test_a_message_that_no_queue_could_take_is_refused() -> None:
    """S003-4: an integer beyond 64 bits, a text that is no UTF-8."""
    shop = Shop()
    a = shop.consumer()
    assert isinstance(shop.try_post(x=2**63), BadMessage)
    assert isinstance(shop.try_post(x="\ud800"), BadMessage)
    assert a.got() == []
    assert shop.usage().messages == 0


def test_a_message_posted_again_is_stored_once_and_acknowledged() -> None:
    """BMQ-59: in the same turn, and in a later one."""
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
    """BMQ-59: within the time of the domain; after it, it is a new one."""
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
    """BMQ-59, BMQ-49: whether it is one message or two, confirming what came empties the queue."""
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
    """BMQ-59: another queue may have a message of the same id."""
    shop = Shop()
    shop.consumer()
    other = shop.consumer(queue=OTHER)
    shop.ask(shop.sending(1))
    shop.ask(shop.sending(1, queue=OTHER))
    assert other.got() == [1]


def test_a_refused_message_is_not_remembered() -> None:
    """BMQ-59, BMQ-82: B9, posting it again later stores it."""
    shop = Shop(replace(PRIORITY, max_messages=1))
    a = shop.consumer()
    shop.post_many(1)
    assert isinstance(shop.ask(shop.sending(2)), QuotaReached)
    a.confirm(1)
    assert shop.ask(shop.sending(2)) is None
    assert a.got() == [1, 2]


def test_a_repeated_message_is_acknowledged_though_the_queue_is_full() -> None:
    """BMQ-59: B2, the first of all questions."""
    shop = Shop(replace(PRIORITY, max_messages=1))
    shop.post_many(1)
    assert shop.ask(shop.sending(1)) is None
    assert shop.usage().messages == 1


def test_each_app_gets_what_its_own_subscription_is_true_for() -> None:
    """BMQ-60, S003-6, S003-7, S003-9, S003-10: two confirms delete it."""
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
    """BMQ-61, S003-6, S003-11, S003-20: the producer is told success."""
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
    """BMQ-62, S003-10: success for the producer, nothing stored, the next one flows."""
    apps = filters(foo="x == 1", bar="x == 2", baz="x == 3")
    shop = Shop(replace(FANOUT, filters=apps))
    foo, _, _ = fanout(shop)
    shop.post_each(9)
    assert shop.usage().messages == 0
    assert {fact.app for fact in shop.rig.take_facts(AutoConfirmed)} == {"foo", "bar", "baz"}
    shop.post_each(1)
    assert foo.got() == [2]


def test_application_and_consumer_subscriptions_are_and() -> None:
    """BMQ-63, S003-12, S003-28: what the app refused never waits for a consumer."""
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


def test_a_message_without_the_property_is_confirmed_for_the_app() -> None:
    """BMQ-67, S003-6: a missing property is no match, a wrong type neither."""
    shop = Shop(APPS)
    shop.post(y=1)
    shop.post(x="1")
    shop.post()
    foo, bar, baz = fanout(shop)
    assert (foo.got(), bar.got(), baz.got()) == ([], [], [1, 2, 3])


def test_an_automatic_confirm_does_not_touch_the_other_apps() -> None:
    """BMQ-68, S003-28: not what they hold, not their turn."""
    shop = Shop(APPS)
    foo, bar, baz = fanout(shop)
    second = shop.consumer(app="baz")
    shop.post_each(1, 2, 3, 1)
    assert (foo.got(), bar.got()) == ([1, 4], [2])
    assert (baz.got(), second.got()) == ([1, 3], [2, 4])
    bar.confirm(2)
    assert shop.stored()[2] == ("baz",)


def test_several_expressions_of_an_app_are_or() -> None:
    """BMQ-69, S003-26: for an app of a fanout queue, and for a queue without apps."""
    shop = Shop(replace(FANOUT, filters=filters(foo=("x == 1", "x == 3"))))
    foo = shop.consumer(app="foo")
    shop.post_each(1, 2, 3)
    assert foo.got_x() == [1, 3]

    shop = Shop(replace(PRIORITY, filters=for_all("x == 1", "y == 3", "x == 3")))
    a = shop.consumer()
    shop.post_each(1, 2, 3)
    assert a.got_x() == [1, 3]


def test_a_subscription_of_an_unknown_app_is_of_no_effect() -> None:
    """BMQ-70."""
    shop = Shop(replace(FANOUT, filters=filters(nobody="x == 1")))
    foo, bar, baz = fanout(shop)
    shop.post_each(1, 2)
    assert (foo.got(), bar.got(), baz.got()) == ([1, 2], [1, 2], [1, 2])
    assert set(shop.stored()[1]) == {"foo", "bar", "baz"}


def test_a_consumer_cannot_widen_what_the_domain_says() -> None:
    """S003-8: application subscriptions come from the domain alone."""
    shop = Shop(replace(PRIORITY, filters=for_all("x == 1")))
    a = shop.consumer("x == 2", None)
    shop.post_each(2)
    a.configure(None)
    assert a.got() == []


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


@pytest.mark.once
def test_application_subscriptions_are_evaluated_once_when_the_message_comes() -> None:
    """BMQ-66, S003-12: not when it is delivered, confirmed or returned."""
    shop = Shop(replace(PRIORITY, filters=for_all("x == 1")))
    properties = Counting(x=1)
    shop.ask(shop.sending(1, properties))
    a = shop.consumer()
    a.crash()
    assert shop.consumer().got() == [1]
    assert properties.reads == ["x"]

"""Confirming what a shared queue delivered."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import Confirm
from headgate.core.effects import Deliver, Done, Failed, Receipt
from tests.support.shared_queues import FANOUT, PRIORITY, Q, Shop, fanout, message_id


def test_every_app_gets_every_message_once_and_confirms_on_its_own() -> None:
    """BMQ-72, S003-10: the message goes when the last confirms."""
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


def test_a_confirm_in_the_same_turn_makes_room() -> None:
    """BMQ-43: and the quota has room for the post after it."""
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


def test_a_confirm_of_something_else_is_ignored() -> None:
    """BMQ-49, BMQ-87: B7, an unknown id, somebody else's message, another app's, and twice."""
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
    """BMQ-82: the reply and the delivery it makes room for."""
    shop = Shop()
    a = shop.consumer(window=1)
    shop.post_many(2)
    asked = Confirm(a.session, "ref", Q, (message_id(1),))
    effects = shop.do(asked)
    assert [e for e in effects if not isinstance(e, Deliver)] == [Done(a.session, "ref")]
    assert a.got() == [1, 2]
    assert shop.do(a.confirming(2)) == []


def test_a_confirm_without_a_reference_to_a_queue_that_is_not_open_gets_no_reply() -> None:
    """BMQ-50: late confirms of a queue that was closed are the usual case."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(1)
    a.close()
    assert shop.do(a.confirming(1)) == []

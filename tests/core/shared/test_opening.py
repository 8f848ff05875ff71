"""Opening a shared queue, changing what a session wants of it, and closing it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import (
    Close,
    Command,
    Configure,
    Disconnect,
    Interest,
    LookAgain,
    Open,
    Send,
)
from headgate.core.effects import Done, Failed
from headgate.core.facts import AppUnknown, QueueCreated, Subscribed, Unsubscribed
from headgate.core.model.ids import WHOLE, QueueId
from headgate.errors import HeadgateError, NoSuchQueue, Prohibited
from tests.support.shared_queues import BROADCAST, FANOUT, PRIORITY, Consumer, Q, Shop


def test_one_session_may_read_two_apps() -> None:
    """BMQ-72: each with its own confirms."""
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
    """BMQ-75: a writer needs none."""
    shop = Shop(FANOUT)
    assert isinstance(shop.stranger().open(), Prohibited)
    shop.post_many(1)  # by a writer without an app
    for domain in (PRIORITY, BROADCAST):
        shop = Shop(domain)
        assert isinstance(shop.stranger(app="foo").open(), Prohibited)
        assert shop.usage().queues == 0


def test_an_unregistered_app_opens_receives_nothing_and_holds_nothing() -> None:
    """BMQ-76: until the domain lists it; then it gets what comes from there on."""
    shop = Shop(replace(FANOUT, apps=("foo",)))
    foo = shop.consumer(app="foo")
    new = shop.consumer(app="new")
    [alarm] = shop.rig.take_facts(AppUnknown)
    assert (alarm.app, alarm.session, alarm.known) == ("new", new.session, "foo")
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
    """BMQ-76."""
    shop = Shop(replace(FANOUT, apps=("foo",)))
    new = shop.consumer(app="new")
    new.configure("x == 1")
    shop.post_each(1)
    new.close()
    assert new.got() == []
    assert shop.consumer(app="foo").got() == [1]


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


def test_a_close_in_the_same_turn_returns_what_was_delivered_before_it() -> None:
    """BMQ-50: to the one who is left, before what is posted after it."""
    shop = Shop()
    a, b = shop.consumer(), shop.consumer()
    shop.do(shop.sending(1), shop.sending(2), Close(a.session, 0, Q), shop.sending(3))
    assert (a.got(), b.got()) == ([1], [2, 1, 3])


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


def test_a_queue_is_opened_once_per_app_of_a_session() -> None:
    """S003-22: to change subscriptions there is configure; the first open stays as it is."""
    shop = Shop()
    a = shop.consumer("x == 1")
    assert isinstance(a.open("x == 2"), Prohibited)
    shop.post_each(1, 2)
    assert a.got() == [1]


def test_closing_one_app_leaves_the_session_what_else_it_opened() -> None:
    """BMQ-72: another app, and the right to write."""
    shop = Shop(FANOUT)
    send = shop.sending(1)
    foo = Consumer(shop, send.session, "foo", Q)
    bar = Consumer(shop, send.session, "bar", Q)
    assert foo.open() is None
    assert bar.open() is None
    foo.close()
    assert shop.ask(send) is None
    assert (foo.got(), bar.got()) == ([], [1])


def test_who_closed_all_that_it_opened_may_not_write_any_more() -> None:
    """BMQ-72, BMQ-38: not before the last is closed, and again when it has opened and closed it
    again."""
    shop = Shop(FANOUT)
    session = shop.producer()
    foo, bar = Consumer(shop, session, "foo", Q), Consumer(shop, session, "bar", Q)
    writer = Consumer(shop, session, WHOLE, Q)
    assert foo.open() is None
    assert bar.open() is None
    foo.close()
    bar.close()
    shop.post()
    writer.close()
    assert isinstance(shop.try_post(), Prohibited)
    reopened = Open(session, shop.ref(), Q, "orders", WHOLE, False, True)
    assert shop.ask(reopened) is None
    shop.post()
    writer.close()
    assert isinstance(shop.try_post(), Prohibited)


def test_facts_tell_of_queues_and_subscribers() -> None:
    """BMQ-91: made once, subscribed, unsubscribed by close and by loss."""
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
    """BMQ-51: nothing is delivered to it."""
    shop = Shop()
    gone = shop.stranger()
    opening = Open(gone.session, 1, Q, "orders", WHOLE, True, False, (Interest(None, 9),))
    shop.rig.broker.close_session(gone.session, "lost", shop.rig.now)
    shop.do(opening, Disconnect(gone.session))
    b = shop.consumer()
    shop.post_many(1)
    assert (gone.got(), b.got()) == ([], [1])


def test_a_writer_that_closed_cannot_write() -> None:
    """S003-21."""
    shop = Shop()
    send = shop.sending(1)
    assert shop.ask(Close(send.session, 9, Q)) is None
    assert isinstance(shop.ask(send), HeadgateError)
    assert shop.usage().messages == 0


def test_an_operator_has_what_was_put_aside_looked_at_again() -> None:
    """It stays where it is if nothing has changed, and no message is lost or given twice."""
    shop = Shop(PRIORITY)
    reader = shop.consumer("x == 1")
    shop.post_each(2, 1, 2)
    app = shop.rig.shard.shared.queues[Q].apps[WHOLE]
    assert len(app.aside) == 2
    looked_at = app.groups.looked_at
    operator = shop.rig.session("operator")
    assert shop.do(LookAgain(operator, 7, Q, WHOLE)) == [Done(operator, 7)]
    assert app.groups.looked_at == looked_at + 2
    assert len(app.aside) == 2
    assert reader.got() == [2]
    for queue, name in ((Q, "nope"), (QueueId(b"bmq://none/q"), WHOLE)):
        [failed] = shop.do(LookAgain(operator, 8, queue, name))
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, NoSuchQueue)

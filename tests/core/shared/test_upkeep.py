"""What shared queues are looked at for now and then: stuck apps, queues without use."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import RemoveUnused, Send, Tick
from headgate.core.facts import QueueDeleted, QueueMoved, QueueStuck
from headgate.core.model.ids import WHOLE, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.errors import LimitReached
from tests.support.shared_queues import BROADCAST, FANOUT, OTHER, PRIORITY, Q, Shop, message_id

SHORT = replace(PRIORITY, queue_ttl=100.0, deduplication_time=30.0, message_ttl=500.0, max_queues=3)


def reply_queue(number: int) -> QueueId:
    return QueueId(b"bmq://orders/reply%d" % number)


def use(shop: Shop, queue: QueueId) -> None:
    """Somebody comes, gets an answer and goes."""
    consumer = shop.consumer(queue=queue)
    consumer.confirm(shop.post(queue=queue))
    consumer.crash()
    shop.rig.leave(shop.producers.pop(queue))


def names(shop: Shop) -> set[QueueId]:
    return set(shop.rig.shard.shared.queues)


def test_an_undeliverable_message_makes_a_queue_stuck_until_it_moves() -> None:
    """BMQ-89: one alarm, and one line when it moves again."""
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
    """BMQ-89: per app."""
    shop = Shop(replace(FANOUT, apps=("foo", "bar"), max_idle_time=60.0))
    shop.consumer(app="foo")
    shop.post_many(1)
    shop.pass_time(61)
    assert [fact.app for fact in shop.rig.take_facts(QueueStuck)] == ["bar"]
    bar = shop.consumer(app="bar")
    assert bar.got() == [1]
    assert [fact.app for fact in shop.rig.take_facts(QueueMoved)] == ["bar"]


def test_a_queue_is_not_stuck_while_it_makes_progress() -> None:
    """BMQ-89: nor when everything was delivered, nor when it is empty."""
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
    """BMQ-89: the time counts from when there was something to deliver."""
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
    """BMQ-89."""
    for domain in (PRIORITY, replace(BROADCAST, max_idle_time=60.0)):
        shop = Shop(domain)
        shop.consumer("x == 1")
        shop.post_each(2)
        shop.pass_time(10_000)
        assert shop.rig.take_facts(QueueStuck) == []


def test_a_queue_whose_messages_expired_is_no_longer_stuck() -> None:
    """BMQ-89, BMQ-87: nothing is undelivered; the next message that stays makes a new alarm."""
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


def test_queues_that_were_used_once_do_not_use_up_the_domain() -> None:
    shop = Shop(SHORT)
    for number in range(3):
        use(shop, reply_queue(number))
    stranger = shop.stranger(queue=reply_queue(3))
    assert isinstance(stranger.open(), LimitReached)
    shop.pass_time(99)
    assert len(names(shop)) == 3
    shop.pass_time(2)
    assert names(shop) == set()
    assert shop.usage().queues == 0
    assert len(shop.rig.take_facts(QueueDeleted)) == 3
    assert stranger.open() is None


def test_a_queue_that_is_open_or_holds_a_message_stays() -> None:
    shop = Shop(SHORT)
    shop.post_many(1)
    shop.rig.leave(shop.producers.pop(Q))
    shop.producer(OTHER)
    shop.pass_time(400)
    assert names(shop) == {Q, OTHER}
    shop.pass_time(101)  # the message expires
    shop.pass_time(1)
    assert names(shop) == {OTHER}
    assert shop.usage().queues == 1


def test_a_queue_that_was_opened_again_begins_anew() -> None:
    shop = Shop(SHORT)
    use(shop, Q)
    shop.pass_time(60)
    use(shop, Q)
    shop.pass_time(60)
    assert names(shop) == {Q}
    shop.pass_time(41)
    assert names(shop) == set()


def test_an_id_that_is_remembered_keeps_its_queue() -> None:
    """BMQ-71: else the message would be taken twice."""
    shop = Shop(replace(SHORT, deduplication_time=1000.0))
    use(shop, Q)
    shop.pass_time(500)
    assert names(shop) == {Q}
    shop.pass_time(501)
    assert names(shop) == set()


def test_without_a_time_queues_stay() -> None:
    shop = Shop(replace(SHORT, queue_ttl=0.0))
    use(shop, Q)
    shop.pass_time(10_000)
    shop.do(RemoveUnused())
    shop.rig.now += 10_000
    shop.do(RemoveUnused())
    assert names(shop) == {Q}


def test_a_queue_that_goes_and_comes_in_one_turn_is_there() -> None:
    shop = Shop(SHORT)
    use(shop, Q)
    writer = shop.producer(OTHER)
    shop.rig.now += 101
    opening = shop.stranger()
    shop.do(Tick())
    assert Q not in names(shop)
    assert opening.open() is None
    message = Message(message_id(9), b"", shop.rig.now)
    shop.do(Send(writer, 1, OTHER, message))
    assert shop.stored(OTHER) == {9: ("",)}


def test_a_failed_turn_leaves_the_queue_and_a_later_one_removes_it() -> None:
    shop = Shop(SHORT)
    use(shop, Q)
    shop.rig.now += 101
    shop.rig.fail_at = 0
    shop.rig.turn([Tick()])
    assert names(shop) == {Q}
    shop.do(Tick())
    assert names(shop) == set()


def test_after_a_restart_empty_queues_that_nobody_opens_go_in_pages() -> None:
    limits = Limits(sweep_queues=2)
    shop = Shop(replace(SHORT, max_queues=10))
    for number in range(5):
        use(shop, reply_queue(number))
    shop.post(queue=OTHER)
    shop = shop.restarted(limits=limits)
    shop.producer(reply_queue(0))
    shop.do(RemoveUnused())
    assert shop.usage().queues == 6
    shop.rig.now += 101
    shop.do(RemoveUnused())
    assert shop.usage().queues == 2
    assert shop.rig.shard.shared.states["orders"].queues == 2
    assert len(shop.rig.take_facts(QueueDeleted)) == 4

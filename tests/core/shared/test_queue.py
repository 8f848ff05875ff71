"""A shared queue: what it holds for each app, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.facts import CapacityChanged, QueueStuck
from tests.support.shared_queues import FANOUT, PRIORITY, Shop, message_id


def test_an_app_without_consumers_accumulates() -> None:
    """BMQ-73: and delivers later, in order."""
    shop = Shop(FANOUT)
    foo = shop.consumer(app="foo")
    shop.post_many(3)
    foo.confirm(1, 2, 3)
    bar = shop.consumer(app="bar")
    assert bar.got() == [1, 2, 3]


def test_the_text_of_an_alarm_says_where_the_messages_are() -> None:
    """BMQ-90: sizes, expressions, and the oldest message that was put aside."""
    shop = Shop(replace(PRIORITY, max_messages=5, max_idle_time=60.0))
    shop.consumer("colour == 1")
    b = shop.consumer("colour == 2", priority=3)
    shop.post(colour=7, oldest=True)
    shop.post(colour=8)
    shop.post(colour=9)
    shop.post(colour=2)
    [alarm] = shop.rig.take_facts(CapacityChanged)
    assert "3 put aside" in alarm.detail
    assert "0 to be redelivered" in alarm.detail
    assert "colour == 1" in alarm.detail
    assert "colour == 2" in alarm.detail
    assert message_id(1).hex() in alarm.detail
    assert "oldest" in alarm.detail.split(message_id(1).hex())[1]
    b.crash()
    shop.pass_time(61)
    [stuck] = shop.rig.take_facts(QueueStuck)
    assert "1 to be redelivered" in stuck.detail
    assert "colour == 1" in stuck.detail
    assert "colour == 2" not in stuck.detail

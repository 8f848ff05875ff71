"""What is counted of a shared queue."""

from __future__ import annotations

from dataclasses import replace

from headgate.errors import QuotaReached
from tests.support.shared_queues import FANOUT, Q, Shop, filters


def test_statistics_are_what_was_posted_pushed_confirmed_and_expired() -> None:
    """BMQ-91: for the queue, and for each app."""
    shop = Shop(replace(FANOUT, apps=("foo", "bar"), filters=filters(bar="x == 1"), max_messages=5))
    foo = shop.consumer("x < 9", app="foo")
    bar = shop.consumer(app="bar")
    shop.post_each(1, 2, 9)
    shop.ask(shop.sending(1, {"x": 1}))
    foo.confirm(1)
    bar.confirm(1)
    foo.crash()
    shop.post_each(3, 4, 5)
    assert isinstance(shop.try_post(x=3), QuotaReached)
    shop.pass_time(8 * 86_400)
    of = shop.rig.shard.statistics.of
    assert of(Q) == {
        "accepted": 6,
        "repeated": 1,
        "refused": 1,
        "auto_confirmed": 5,
        "delivered": 3,
        "confirmed": 2,
        "put_aside": 1,
        "returned": 1,
        "expired": 5,
    }
    assert of(Q, "foo") == {"delivered": 2, "confirmed": 1, "put_aside": 1, "returned": 1}
    assert of(Q, "bar") == {"delivered": 1, "confirmed": 1, "auto_confirmed": 5}

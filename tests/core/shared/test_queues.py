"""Shared queues as a whole: what is done with leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.facts import (
    Expired,
    Poisoned,
)
from headgate.errors import (
    QuotaReached,
)
from headgate.testing.picture import differences, snapshot
from tests.support.shared_queues import (
    PRIORITY,
    Shop,
)


def test_what_is_done_with_leaves_nothing_in_memory() -> None:
    """BMQ-91: confirmed, expired, poisoned, refused; once the ids are forgotten, too."""
    shop = Shop(
        replace(
            PRIORITY,
            message_ttl=100.0,
            max_delivery_attempts=2,
            deduplication_time=50.0,
            max_messages=5,
        )
    )
    a = shop.consumer("x == 1", window=2)
    shop.post_each(1)  # the first message makes the groups
    a.confirm(1)
    shop.pass_time(51)
    before = snapshot(shop.rig.shard)
    shop.post_each(1, 1, 1, 2, 3)
    assert isinstance(shop.try_post(x=1), QuotaReached)
    for _ in range(2):
        shop.consumer("x == 2", window=1).crash()
    assert len(shop.rig.take_facts(Poisoned)) == 1
    shop.consumer("x == 3").crash()
    a.confirm(2)
    a.confirm(3)
    shop.pass_time(101)
    assert sorted(int(fact.message) for fact in shop.rig.take_facts(Expired)) == [4, 6]
    lines = differences(before, snapshot(shop.rig.shard))
    # When it last moved, the number of the last session, of the last consumer, what was counted.
    clocks = ("/moved", "/used", "/_last", "/last_place", "/looked_at", "/stats", "/_unsampled")
    assert [line for line in lines if not any(clock in line for clock in clocks)] == []

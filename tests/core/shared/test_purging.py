"""Queues that an operator empties or removes."""

from __future__ import annotations

from headgate.core.commands import Command, Purge
from headgate.core.effects import Failed, PurgeDone, Removed
from headgate.core.facts import Purged as PurgedFact
from headgate.core.facts import QueueDeleted, QueuePurged
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.errors import NoSuchQueue, Prohibited
from tests.support.shared_queues import FANOUT, PRIORITY, Q, Shop

FEW = Limits(expiries=5)


def purging(
    shop: Shop, queue: QueueId = Q, *, removes: bool = False, forced: bool = False
) -> Purge:
    return Purge(shop.rig.session("operator"), 1, queue, "orders", removes, forced)


def test_a_queue_is_emptied_a_part_at_a_time_whoever_has_its_messages() -> None:
    shop = Shop(limits=FEW)
    a = shop.consumer(window=3)
    shop.post_many(12)
    again: list[Command] = [purging(shop)]
    effects = []
    while again:
        outcome = shop.rig.turn(again)
        assert sum(isinstance(fact, PurgedFact) for fact in outcome.facts) <= FEW.expiries
        effects += shop.note(outcome.effects)
        again = outcome.again
    assert [e.messages for e in effects if isinstance(e, PurgeDone)] == [12]
    assert shop.stored() == {}
    assert shop.usage().messages == 0
    assert [fact.messages for fact in shop.rig.take_facts(QueuePurged)] == [12]
    a.confirm(1)
    got = a.got()
    shop.post_many(2)
    assert a.got() == [13, 14]
    assert got[:3] == [1, 2, 3]


def test_what_comes_while_a_queue_is_emptied_stays() -> None:
    shop = Shop(limits=FEW)
    shop.post_many(7)
    outcome = shop.rig.turn([purging(shop)])
    shop.post_many(1)
    shop.do(*outcome.again)
    assert list(shop.stored()) == [8]


def test_a_queue_that_nobody_opened_is_emptied_and_removed() -> None:
    shop = Shop(FANOUT)
    shop.post_many(3)
    shop = shop.restarted()
    [purged] = shop.do(purging(shop, removes=True))
    assert isinstance(purged, PurgeDone)
    assert purged.messages == 3
    assert (shop.usage().queues, shop.usage().messages) == (0, 0)
    assert shop.rig.shard.shared.queues == {}
    assert len(shop.rig.take_facts(QueueDeleted)) == 1


def test_a_queue_that_is_open_is_removed_only_by_force_and_all_are_told() -> None:
    shop = Shop(PRIORITY)
    a = shop.consumer()
    shop.post_many(2)
    [refused] = shop.do(purging(shop, removes=True))
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, Prohibited)
    assert len(shop.stored()) == 2
    effects = shop.do(purging(shop, removes=True, forced=True))
    shown = {e.session for e in effects if isinstance(e, Removed)}
    assert shown == {a.session, shop.producers[Q]}
    assert shop.usage().queues == 0
    a.crash()
    shop.rig.leave(shop.producers.pop(Q))
    fresh = shop.consumer()
    shop.post_many(1)
    assert fresh.got() == [3]


def test_a_queue_that_is_not_there_is_not_made() -> None:
    shop = Shop()
    [refused] = shop.do(purging(shop))
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, NoSuchQueue)
    assert shop.usage().queues == 0


def test_a_purge_that_the_store_refuses_left_no_trace() -> None:
    shop = Shop()
    a = shop.consumer(window=1)
    shop.post_many(3)
    shop.rig.fail_at = 0
    [refused] = shop.do(purging(shop, removes=True, forced=True))
    assert isinstance(refused, Failed)
    assert len(shop.stored()) == 3
    a.confirm(1)
    assert a.got() == [1, 2]

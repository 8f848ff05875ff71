"""The time of messages in shared queues."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Command, ExpireUnopened, Interest, Prune, Tick
from headgate.core.effects import Deliver
from headgate.core.facts import CapacityChanged, Expired
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.window import Window
from headgate.core.shared.expiry import EXPIRIES_IN_A_ROW, Expiry
from headgate.core.shared.upkeep import Upkeep
from headgate.core.turn.store_requests import Batch
from headgate.errors import QuotaReached
from tests.support.shared_queues import FANOUT, OTHER, PRIORITY, Q, Shop

SHORT = replace(PRIORITY, message_ttl=10.0)

FEW = Limits(expiries=5)
"""So many messages go in one turn."""


def test_a_message_expires_for_all_apps_and_not_before_its_time() -> None:
    """BMQ-87: delivered or not; quota is freed, a late confirm is ignored."""
    shop = Shop(replace(FANOUT, message_ttl=60.0, max_messages=2))
    foo = shop.consumer(app="foo")
    shop.consumer("x == 9", app="bar")
    shop.post_each(1, 9)
    shop.pass_time(60)
    assert len(shop.stored()) == 2
    shop.pass_time(1)
    assert shop.stored() == {}
    assert [int(fact.message) for fact in shop.rig.take_facts(Expired)] == [1, 2]
    foo.confirm(1)
    shop.post_each(1, 1)
    assert foo.got() == [1, 2, 3, 4]
    assert shop.consumer(app="baz").got() == [3, 4]


def test_only_what_is_old_enough_expires() -> None:
    """BMQ-87."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0))
    shop.post_many(1)
    shop.rig.now += 30
    shop.post_many(1)
    shop.pass_time(31)
    assert list(shop.stored()) == [2]


def test_an_expired_message_frees_the_window_it_was_in() -> None:
    """BMQ-87, BMQ-43: its confirm would be ignored, so nothing else could."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0))
    a = shop.consumer(window=1)
    shop.post_many(1)
    shop.rig.now += 30
    shop.post_many(1)
    shop.pass_time(31)
    assert a.got() == [1, 2]


def test_an_expired_message_that_was_put_aside_or_returned_is_gone() -> None:
    """BMQ-87: B8, silently."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0))
    a = shop.consumer("x == 1")
    shop.post_each(1, 2)
    a.crash()
    shop.pass_time(61)
    assert shop.consumer().got() == []


def test_an_expired_message_is_counted_nowhere() -> None:
    """BMQ-87, BMQ-90: not as put aside, not as waiting, not as returned."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0, max_messages=5))
    shop.consumer(Interest("x == 1", 0, Window(1)), Interest("x == 9"))
    b = shop.consumer("x == 3")
    shop.post_each(1, 1, 2, 3)
    b.crash()
    shop.pass_time(61)
    assert shop.usage().messages == 0
    shop.rig.take_facts(CapacityChanged)
    shop.post_each(2, 2, 2, 2)
    [high] = shop.rig.take_facts(CapacityChanged)
    assert "3 put aside, 0 to be redelivered, 0 unconfirmed" in high.detail


def test_what_expired_while_nobody_looked_is_not_delivered() -> None:
    """BMQ-87: after a restart as well."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0, max_messages=1))
    shop.post_many(1)
    shop = shop.restarted()
    shop.rig.now += 61
    shop.do(Tick())
    a = shop.consumer()
    shop.do(Tick())
    shop.post_many(1)
    assert a.got()[-1] == 2
    assert list(shop.stored()) == [2]


def test_everything_whose_time_is_over_goes_however_many() -> None:
    """BMQ-85, BMQ-87, S003-17: in further turns that nobody has to ask for, none of them too
    large."""
    shop = Shop(SHORT, limits=FEW)
    shop.post_many(23)
    shop.rig.now += 11
    again: list[Command] = [Tick()]
    turns = 0
    while again:
        outcome = shop.rig.turn(again)
        assert len([f for f in outcome.facts if isinstance(f, Expired)]) <= FEW.expiries
        again = outcome.again
        turns += 1
    assert turns == 5
    assert shop.stored() == {}
    assert shop.usage().messages == 0


def test_a_large_queue_does_not_keep_the_others_from_expiring() -> None:
    """S003-17: queues take turns; a message of a second queue is gone before all of the first."""
    limits = Limits(expiries=EXPIRIES_IN_A_ROW)
    shop = Shop(SHORT, limits=limits)
    shop.post_many(3 * EXPIRIES_IN_A_ROW)
    shop.post(queue=OTHER)
    shop.rig.now += 11
    outcome = shop.rig.turn([Tick()])
    for _ in range(2):
        outcome = shop.rig.turn(outcome.again)
    assert shop.stored(OTHER) == {}
    assert shop.stored(Q) != {}


def test_what_is_too_old_is_delivered_to_nobody() -> None:
    """BMQ-85, S003-17: also to a consumer that comes before time was told to have passed."""
    shop = Shop(SHORT, limits=FEW)
    shop.post_many(23)
    shop.rig.now += 9
    shop.post_many(2)
    shop.rig.now += 2
    consumer = shop.consumer()
    assert consumer.got() == [24, 25]
    assert list(shop.stored()) == [24, 25]


def test_what_was_accepted_with_old_ones_before_it_waits_for_them_to_go() -> None:
    """S003-17: a turn that cannot remove all of them delivers nothing of the queue."""
    shop = Shop(SHORT, limits=FEW)
    consumer = shop.consumer("x == 1")
    shop.post_each(*[2] * 12)
    shop.rig.now += 11
    outcome = shop.rig.turn([shop.sending(shop.number(), {"x": 1})])
    assert [e for e in outcome.effects if isinstance(e, Deliver)] == []
    assert Prune() in outcome.again
    shop.do(*outcome.again)
    assert consumer.got_x() == [1]


def test_what_waits_for_room_goes_out_when_the_old_ones_are_gone() -> None:
    """S003-17: the room came while the queue was left out."""
    shop = Shop(SHORT, limits=FEW)
    consumer = shop.consumer("x == 1", window=1)
    shop.post_each(*[2] * 12)
    shop.rig.now += 9
    shop.post_each(1, 1)
    assert consumer.got_x() == [1]
    shop.rig.now += 2
    outcome = shop.rig.turn([consumer.confirming(13)])
    assert [e for e in outcome.effects if isinstance(e, Deliver)] == []
    shop.do(*outcome.again)
    assert consumer.got() == [14]


@pytest.mark.parametrize(
    "domain", [replace(SHORT, max_messages=3), replace(SHORT, domain_max_messages=3)]
)
def test_a_full_quota_is_looked_through_for_old_messages_first(domain: object) -> None:
    """BMQ-85, S003-17: whoever posts then does not have to wait for a tick."""
    assert isinstance(domain, type(SHORT))
    shop = Shop(domain)
    shop.post_many(3)
    assert isinstance(shop.try_post(), QuotaReached)
    shop.rig.now += 11
    assert shop.try_post() is None
    assert list(shop.stored()) == [4]


def test_old_messages_of_another_queue_make_room_in_the_domain() -> None:
    """BMQ-83, BMQ-85."""
    shop = Shop(replace(SHORT, domain_max_messages=3))
    shop.post_many(3)
    shop.producer(OTHER)
    shop.rig.now += 11
    assert shop.try_post(queue=OTHER) is None


def test_a_tick_looks_at_queues_that_have_something_to_expire_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S003-17: a thousand queues at rest cost nothing."""
    shop = Shop(replace(SHORT, deduplication_time=0.0))
    for number in range(200):
        shop.producer(QueueId(b"bmq://orders/idle%d" % number))
    shop.pass_time(2)
    shop.post()
    looked: list[QueueId] = []
    for part, name in (
        (Expiry, "_expire"),
        (Upkeep, "_forget_ids"),
        (Upkeep, "_look_for_stuck"),
    ):
        real = getattr(part, name)

        def watched(self: object, queue: object, *rest: object, real: object = real) -> object:
            looked.append(queue.id)  # type: ignore[attr-defined]
            return real(self, queue, *rest)  # type: ignore[operator]

        monkeypatch.setattr(part, name, watched)
    for _ in range(15):
        shop.pass_time(1)
    assert shop.stored() == {}
    assert set(looked) == {Q}


def test_a_shorter_time_to_live_holds_for_what_is_stored() -> None:
    """BMQ-87."""
    shop = Shop(replace(PRIORITY, message_ttl=None))
    shop.post_many(2)
    shop.rig.now += 11
    shop.reconfigure(SHORT)
    assert shop.stored() == {}


def test_after_a_failed_turn_old_messages_still_go() -> None:
    """S003-17: the deadline that the turn had taken up is back."""
    shop = Shop(SHORT, limits=FEW)
    shop.post_many(12)
    shop.rig.now += 11
    for call in (0, 0, 0):
        shop.rig.fail_at = call
        shop.rig.turn([Tick()])
    assert len(shop.stored()) == 12
    shop.do(Tick())
    assert shop.stored() == {}


def test_old_messages_of_a_queue_that_nobody_opened_go_too() -> None:
    """BMQ-83, BMQ-85, BMQ-87, S003-17: in pages, and the domain has room again."""
    shop = Shop(replace(SHORT, domain_max_messages=12), limits=FEW)
    shop.post_many(12)
    shop.rig.now += 11
    shop = shop.restarted(limits=FEW)
    before = len(shop.rig.asked)
    shop.do(ExpireUnopened())
    batches = [asked for asked in shop.rig.asked[before:] if isinstance(asked, Batch)]
    assert [len(batch.delete) for batch in batches] == [5, 5, 2]
    assert shop.stored() == {}
    assert len(shop.rig.take_facts(Expired)) == 12
    assert shop.rig.shard.shared.queues == {}
    assert shop.try_post(queue=OTHER) is None


def test_a_full_domain_has_the_store_searched_for_old_messages() -> None:
    """BMQ-83, S003-17: whoever is refused may try again a moment later."""
    shop = Shop(replace(SHORT, domain_max_messages=3))
    shop.post_many(3)
    shop.rig.now += 11
    shop = shop.restarted()
    assert isinstance(shop.try_post(queue=OTHER), QuotaReached)
    assert shop.stored() == {}
    assert shop.try_post(queue=OTHER) is None
    assert shop.usage().messages == 1


def test_the_store_is_not_searched_for_each_message_that_is_refused() -> None:
    """Whoever posts to a full domain costs one search in a while."""
    shop = Shop(replace(SHORT, domain_max_messages=3))
    shop.post_many(3)
    shop = shop.restarted()
    shop.producer(OTHER)
    before = len(shop.rig.asked)
    for _ in range(20):
        assert isinstance(shop.try_post(queue=OTHER), QuotaReached)
    assert len(shop.rig.asked) - before == 1


def test_young_messages_and_those_of_open_queues_are_left_to_their_deadlines() -> None:
    """BMQ-87: never too early, and each message goes once."""
    shop = Shop(SHORT, limits=FEW)
    shop.post_many(2)
    shop.post(queue=OTHER)
    shop.rig.now += 9
    shop.post_many(1)
    shop.rig.now += 2
    shop = shop.restarted(limits=FEW)
    consumer = shop.consumer(queue=OTHER)
    shop.do(ExpireUnopened())
    assert consumer.got() == []
    assert list(shop.stored()) == [4]
    assert shop.stored(OTHER) == {}
    assert len(shop.rig.take_facts(Expired)) == 3
    assert shop.rig.shard.shared.states["orders"].meter.messages == 1


def test_the_id_of_an_old_message_that_nobody_saw_is_remembered() -> None:
    """BMQ-71, BMQ-87: who sends it again is not believed."""
    shop = Shop(SHORT)
    first = shop.sending(shop.number())
    shop.do(first)
    shop.rig.now += 11
    shop = shop.restarted()
    shop.do(ExpireUnopened())
    again = shop.sending(1)
    shop.do(again)
    assert shop.stored() == {}

"""What is kept when every app has confirmed it, and how it is trimmed."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import Purge
from headgate.core.facts import Trimmed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.stream_id import StreamId
from headgate.core.shared.history import SLACK
from tests.support.readers import Patron
from tests.support.shared_queues import PRIORITY, Q, Shop

KEEPS = replace(PRIORITY, keep_messages=3)


def confirmed(shop: Shop, count: int) -> Patron:
    """So many messages that were read and confirmed."""
    numbers = shop.post_many(count)
    reader = Patron(shop)
    reader.fetch()
    reader.done(*numbers)
    return reader


def test_what_is_confirmed_is_kept_and_counts() -> None:
    shop = Shop(KEEPS)
    confirmed(shop, 2)
    assert shop.stored() == {1: (), 2: ()}
    queue = shop.rig.shard.shared.queues[Q]
    assert (queue.meter.messages, queue.state.meter.messages) == (2, 2)
    assert queue.entries == {}
    assert Patron(shop.restarted()).fetch() == []


def test_more_than_may_be_kept_goes_with_the_next_tick() -> None:
    shop = Shop(KEEPS)
    confirmed(shop, 5)
    shop.pass_time(1)
    assert shop.stored() == {3: (), 4: (), 5: ()}
    assert [fact.messages for fact in shop.rig.take_facts(Trimmed)] == [2]
    assert shop.usage().messages == 3


def test_much_more_than_may_be_kept_goes_at_once() -> None:
    shop = Shop(replace(KEEPS, deduplication_time=0.0))
    queue_size = 3 + SLACK
    reader = Patron(shop)
    while shop.next_number <= queue_size + 1:
        shop.do(*(shop.sending(shop.number()) for _ in range(500)))
        reader.done(*reader.fetch())
    kept = shop.rig.shard.shared.queues[Q].kept
    assert len(kept) <= queue_size


def test_what_was_kept_long_enough_goes() -> None:
    shop = Shop(replace(PRIORITY, keep_time=50.0))
    confirmed(shop, 1)
    shop.pass_time(30)
    confirmed(shop, 1)
    shop.pass_time(30)
    assert shop.stored() == {2: ()}


def test_history_goes_where_there_is_no_room() -> None:
    shop = Shop(replace(PRIORITY, keep_messages=100, max_messages=4))
    confirmed(shop, 3)
    shop.post()
    shop.post()
    assert [seq for seq, apps in shop.stored().items() if apps] == [4, 5]
    assert shop.rig.shard.shared.queues[Q].meter.messages == len(shop.stored())


def test_a_domain_that_keeps_no_longer_forgets_its_history() -> None:
    shop = Shop(KEEPS)
    confirmed(shop, 2)
    shop.reconfigure(PRIORITY)
    shop.pass_time(1)
    assert shop.stored() == {}
    assert shop.usage().messages == 0


def test_purging_takes_the_history_too() -> None:
    shop = Shop(KEEPS)
    confirmed(shop, 2)
    shop.post()
    shop.do(Purge(shop.rig.session(), shop.ref(), Q, "orders"))
    assert shop.stored() == {}


def test_one_that_is_kept_is_removed_by_its_id() -> None:
    shop = Shop(KEEPS)
    reader = confirmed(shop, 2)
    assert reader.remove(reader.ids[1], StreamId(1, 1)) == 1
    assert shop.stored() == {2: ()}


def test_a_repeated_message_is_known_while_its_history_is_there() -> None:
    shop = Shop(KEEPS)
    confirmed(shop, 1)
    shop = shop.restarted()
    shop.do(shop.sending(1))
    assert shop.stored() == {1: ()}


def test_a_queue_with_a_history_is_not_removed() -> None:
    shop = Shop(Domain("orders", Mode.PRIORITY, keep_messages=3, queue_ttl=10.0))
    reader = confirmed(shop, 1)
    reader.leave()
    for _ in range(5):
        shop.pass_time(1000)
    assert shop.stored() == {1: ()}

"""Messages that consumers were lost with too often, and where they go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Tick
from headgate.core.facts import DeadLettered, DeadLetterRefused, Poisoned
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.message import Fields
from headgate.core.turn.store_requests import Batch, Load
from headgate.testing.rig import Rig, at_once
from tests.support.readers import Patron
from tests.support.shared_queues import PRIORITY, Shop

FRAGILE = replace(PRIORITY, max_delivery_attempts=2, dead_letter="dead", consumer_grace=1.0)
DEAD = Domain("dead", Mode.PRIORITY)
TARGET = QueueId(b"bmq://dead/q")


def shop_of(domain: Domain = FRAGILE, dead: Domain = DEAD) -> Shop:
    shop = Shop(domain)
    shop.rig = Rig(domain, dead, now=shop.rig.now)
    return shop


def lose(shop: Shop, times: int = 2) -> None:
    for _ in range(times):
        shop.consumer().crash()
        shop.pass_time(10)


def letters(shop: Shop, queue: QueueId = TARGET) -> list[dict[str, object]]:
    loaded = at_once(shop.rig.store.load(Load(backlogs={queue}))).backlogs
    return [dict(entry.properties) for entry in loaded[queue][1]] if queue in loaded else []


def test_the_last_loss_makes_a_dead_letter_in_the_same_commit() -> None:
    """Check 34, of consumers of another wire."""
    shop = shop_of()
    shop.post(x=1)
    lose(shop, 1)
    assert letters(shop) == []
    shop.rig.asked.clear()
    shop.consumer().crash()
    [batch] = [b for b in shop.rig.asked if isinstance(b, Batch) and b.append]
    assert len(batch.delete) == len(batch.append) == 1
    assert letters(shop) == [{"x": 1, "hg.queue": "bmq://orders/q", "hg.app": "", "hg.attempts": 2}]
    assert len(shop.rig.take_facts(Poisoned)) == 1
    assert [fact.target for fact in shop.rig.take_facts(DeadLettered)] == [TARGET]
    assert shop.stored() == {}


def test_of_a_reader_it_is_the_same() -> None:
    """Check 34."""
    shop = shop_of()
    shop.post(x=1)
    for _ in range(2):
        reader = Patron(shop)
        assert reader.fetch() == [1]
        reader.leave()
        shop.pass_time(10)
    assert [each["hg.attempts"] for each in letters(shop)] == [2]


def test_a_claim_may_make_one() -> None:
    shop = shop_of(replace(FRAGILE, max_delivery_attempts=1))
    shop.post()
    first = Patron(shop, b"first")
    first.fetch()
    claimed, done = Patron(shop, b"second").sweep()
    assert (claimed, done.poisoned) == ([], (first.ids[1],))
    assert len(letters(shop)) == 1


def test_what_was_read_from_the_store_keeps_its_body_and_types() -> None:
    shop = shop_of(replace(FRAGILE, max_delivery_attempts=1))
    sent = shop.sending(1, Fields({"n": 7}, b"\x04", "data"), body=b"a body")
    shop.do(sent)
    shop.rig.shard.shared.bodies.forget(
        next(iter(shop.rig.shard.shared.queues.values())).by_id[sent.message.id]
    )
    shop.consumer().crash()
    loaded = at_once(shop.rig.store.load(Load(backlogs={TARGET})))
    [entry] = loaded.backlogs[TARGET][1]
    assert isinstance(entry.properties, Fields)
    assert (entry.properties.body, len(entry.properties.types)) == ("data", 4)
    assert at_once(shop.rig.store.load(Load(bodies={entry.seq}))).bodies == {entry.seq: b"a body"}


@pytest.mark.parametrize(
    "dead",
    [
        Domain("dead", Mode.PRIORITY, max_messages=0),
        Domain("dead", Mode.FANOUT, apps=(), groups="open"),
    ],
)
def test_without_room_it_stays_in_line(dead: Domain) -> None:
    shop = shop_of(dead=dead)
    shop.post()
    lose(shop, 3)
    assert letters(shop) == []
    assert len(shop.rig.take_facts(DeadLetterRefused)) == 2
    assert shop.rig.take_facts(Poisoned) == []
    assert list(shop.stored()) == [1]
    consumer = shop.consumer()
    shop.rig.now += 10
    shop.do(Tick())
    assert consumer.got() == [1]


def test_a_queue_of_its_own_may_be_named() -> None:
    shop = shop_of(replace(FRAGILE, dead_letter="dead/all", max_delivery_attempts=1))
    shop.post()
    lose(shop, 1)
    assert len(letters(shop, QueueId(b"bmq://dead/all"))) == 1


def test_two_apps_may_give_up_a_message_in_one_turn() -> None:
    """The second goes by what the first left of it."""
    domain = Domain.fanout(
        "orders", "a", "b", "c", max_delivery_attempts=1, dead_letter="dead", consumer_grace=1.0
    )
    shop = shop_of(domain)
    shop.post(x=1)
    for app in ("a", "b"):
        reader = Patron(shop, app=app)
        assert reader.fetch() == [1]
        reader.leave()
    shop.rig.now += 10
    shop.rig.do(Tick())
    assert sorted(str(each["hg.app"]) for each in letters(shop)) == ["a", "b"]
    assert shop.stored() == {1: ("c",)}

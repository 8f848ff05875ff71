"""A message that is sent again after a restart is recognised, though it was confirmed before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.commands import Tick
from headgate.core.facts import Accepted, Repeated
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.core.model.message import Known
from headgate.core.turn.store_requests import Batch, Load
from headgate.testing.rig import at_once
from tests.support.shared_queues import FANOUT, PRIORITY, Q, Shop, for_all, message_id

MINUTE = replace(PRIORITY, deduplication_time=60.0)


def remembered(shop: Shop) -> Known:
    """What the store remembers of the queue."""
    return at_once(shop.rig.store.load(Load(backlogs={Q}))).remembered.get(Q, {})


def is_repeated(shop: Shop, number: int) -> bool:
    """Post a message, which is new or known."""
    shop.rig.take_facts(Repeated)
    assert shop.ask(shop.sending(number)) is None
    return bool(shop.rig.take_facts(Repeated))


def confirmed(domain: Domain = MINUTE, *, limits: Limits | None = None, count: int = 1) -> Shop:
    """A shop whose messages came, and went."""
    shop = Shop(domain, limits=limits)
    a = shop.consumer()
    a.confirm(*shop.post_many(count))
    assert shop.stored() == {}
    return shop


def test_a_confirmed_message_posted_again_after_a_restart_is_not_stored() -> None:
    """BMQ-59: a router that was killed does not know whether the sender had its receipt."""
    shop = confirmed().restarted()
    assert is_repeated(shop, 1)
    assert not is_repeated(shop, 2)
    assert list(shop.stored()) == [2]


def test_time_goes_on_over_a_restart() -> None:
    """BMQ-59: it counts from when the message was accepted."""
    shop = Shop(MINUTE)
    a = shop.consumer()
    shop.post_many(2)
    shop.rig.now += 50
    a.confirm(1, 2)
    shop.rig.now += 10
    shop = shop.restarted()
    assert is_repeated(shop, 1)
    shop.rig.now += 1
    assert not is_repeated(shop, 2)


def test_what_is_confirmed_late_is_not_written_down() -> None:
    shop = Shop(MINUTE)
    a = shop.consumer()
    shop.post_many(1)
    shop.rig.now += 61
    a.confirm(1)
    assert remembered(shop) == {}


def test_no_time_is_no_memory() -> None:
    shop = confirmed(replace(PRIORITY, deduplication_time=0.0))
    assert remembered(shop) == {}


def test_a_message_is_remembered_when_its_last_app_is_done_with_it() -> None:
    """BMQ-72: until then it is there itself."""
    shop = Shop(FANOUT)
    readers = [shop.consumer(app=app) for app in FANOUT.apps]
    shop.post_many(1)
    for reader in readers:
        assert remembered(shop) == {}
        reader.confirm(1)
    assert remembered(shop).keys() == {message_id(1)}


def test_expired_and_poisoned_messages_are_remembered_too() -> None:
    """BMQ-56, BMQ-87: they were accepted once."""
    shop = Shop(replace(MINUTE, message_ttl=10.0, max_delivery_attempts=1))
    a = shop.consumer(window=1)
    shop.post_many(2)
    a.crash()
    shop.pass_time(11)
    assert shop.stored() == {}
    shop = shop.restarted()
    assert is_repeated(shop, 1)
    assert is_repeated(shop, 2)


def test_what_no_app_wanted_is_asked_again_after_a_restart() -> None:
    """BMQ-61: nothing was written for it, and nothing is now; it costs no transaction."""
    domain = replace(MINUTE, filters=for_all("x == 1"))
    shop = Shop(domain)
    shop.post(x=2)
    asked = len(shop.rig.asked)
    shop.post(x=2)
    assert shop.rig.asked[asked:] == []
    shop = shop.restarted()
    shop.ask(shop.sending(1, {"x": 2}))
    assert shop.stored() == {}
    assert len(shop.rig.take_facts(Accepted)) == 1


def test_a_refused_turn_remembers_nothing() -> None:
    shop = Shop(MINUTE)
    a = shop.consumer()
    shop.post_many(1)
    shop.rig.fail_at = 0
    shop.rig.turn([a.confirming(1)])
    assert remembered(shop) == {}
    assert shop.rig.shard.shared.queues[Q].remembered.kept is None


# What is over leaves the store.


def written(shop: Shop) -> list[Batch]:
    """What the store was told by a tick."""
    before = len(shop.rig.asked)
    shop.do(Tick())
    return [asked for asked in shop.rig.asked[before:] if isinstance(asked, Batch)]


def test_ids_leave_the_store_when_their_time_is_over() -> None:
    shop = confirmed()
    shop.rig.now += 60
    assert written(shop) == []
    assert remembered(shop).keys() == {message_id(1)}
    shop.rig.now += 7
    assert [batch.forget.keys() for batch in written(shop)] == [{Q}]
    assert remembered(shop) == {}
    shop.rig.now += 1000
    assert written(shop) == []


def test_they_leave_many_at_a_time() -> None:
    """A transaction for each second would be too much."""
    shop = Shop(MINUTE)
    a = shop.consumer()
    transactions = 0
    for _ in range(200):
        a.confirm(shop.post())
        shop.rig.now += 1
        transactions += len(written(shop))
        assert len(remembered(shop)) <= 60 * 1.1 + 2
    assert 10 <= transactions <= 30
    for _ in range(70):
        shop.rig.now += 1
        written(shop)
    assert remembered(shop) == {}


def test_what_was_left_behind_leaves_after_a_restart() -> None:
    shop = confirmed()
    shop.rig.now += 100
    shop = shop.restarted()
    shop.producer()
    assert remembered(shop) != {}
    shop.do(Tick())
    assert remembered(shop) == {}
    assert not is_repeated(shop, 1)


@pytest.mark.parametrize("bound", [0, 1, 10])
def test_the_store_remembers_about_as_many_ids_as_memory(bound: int) -> None:
    limits = Limits(remembered_ids=bound)
    shop = Shop(MINUTE, limits=limits)
    a = shop.consumer()
    for _ in range(40):
        a.confirm(shop.post())
        shop.pass_time(0.1)
        assert len(remembered(shop)) <= bound * 1.1 + 2
    shop = shop.restarted(limits=limits)
    shop.producer()
    known = shop.rig.shard.shared.queues[Q].remembered.arrivals
    assert len(known) <= bound
    assert list(known.values()) == sorted(known.values())
    assert is_repeated(shop, 40) is (bound > 0)
    assert is_repeated(shop, 39 - bound) is False


def test_a_clock_that_was_set_back_makes_no_endless_work() -> None:
    shop = confirmed()
    shop.rig.now -= 500
    written(shop)
    assert written(shop) == []
    assert is_repeated(shop, 1)


DOINGS = st.sampled_from(("post", "again", "confirm", "restart", "second", "half a minute"))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(DOINGS, st.integers(0, 9)), max_size=40))
def test_an_id_is_known_for_its_time_whatever_happens(steps: list[tuple[str, int]]) -> None:
    """BMQ-59: confirms and restarts make no difference."""
    shop = Shop(MINUTE)
    a = shop.consumer()
    accepted: dict[int, float] = {}
    for doing, choice in steps:
        if doing == "post":
            number = shop.number()
            assert not is_repeated(shop, number)
            accepted[number] = shop.rig.now
        elif doing == "again" and accepted:
            number = list(accepted)[-1 - choice % len(accepted)]
            is_known = shop.rig.now - accepted[number] <= 60.0 or number in shop.stored()
            assert is_repeated(shop, number) is is_known
            if not is_known:
                accepted[number] = shop.rig.now
        elif doing == "confirm":
            a.confirm(*list(shop.stored())[: choice + 1])
        elif doing == "restart":
            shop = shop.restarted()
            a = shop.consumer()
        elif doing == "second":
            shop.pass_time(1.0)
        elif doing == "half a minute":
            shop.pass_time(30.0)

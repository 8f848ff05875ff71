"""What a consumer did not confirm, when it leaves or is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Close, Command, Disconnect, Interest, Open
from headgate.core.effects import Deliver, Done
from headgate.core.facts import Poisoned, Returned, Unsubscribed
from headgate.core.model.ids import WHOLE, QueueId
from headgate.core.model.limits import Limits
from tests.support.shared_queues import PRIORITY, Q, Shop

FEW = Limits(turn_returns=5)

EVERYTHING = Interest()


def turns(shop: Shop, *commands: Command) -> list[int]:
    """How many messages came back in each turn, until the core asks for no more."""
    counts = []
    again = list(commands)
    while again:
        outcome = shop.rig.turn(again)
        shop.note(outcome.effects)
        counts.append(sum(isinstance(fact, Returned) for fact in outcome.facts))
        again = outcome.again
    return counts


@pytest.mark.parametrize("how", ["close", "disconnect"])
def test_what_a_consumer_held_comes_back_a_few_at_a_time_and_in_order(how: str) -> None:
    """S003-32, BMQ-50: nobody else waits for all of it, and nothing is lost or doubled."""
    shop = Shop(limits=FEW)
    a = shop.consumer()
    shop.post_many(12)
    b = shop.consumer()
    if how == "close":
        counts = turns(shop, Close(a.session, 1, Q))
    else:
        shop.rig.broker.close_session(a.session, "lost", shop.rig.now)
        counts = turns(shop, Disconnect(a.session))
    assert max(counts) <= FEW.turn_returns
    assert sum(counts) == 12
    assert b.got() == list(range(1, 13))
    assert a.got() == list(range(1, 13))


def test_a_close_is_answered_when_everything_is_back() -> None:
    shop = Shop(limits=FEW)
    a = shop.consumer()
    shop.post_many(12)
    outcome = shop.rig.turn([Close(a.session, 7, Q)])
    assert [e for e in outcome.effects if isinstance(e, Done)] == []
    again, answers = outcome.again, []
    while again:
        outcome = shop.rig.turn(again)
        again = outcome.again
        answers += [e.ref for e in outcome.effects if isinstance(e, Done)]
    assert answers == [7]


def test_what_is_not_back_yet_is_nobodys_and_cannot_be_confirmed() -> None:
    """BMQ-50: whoever left has nothing to say about it."""
    shop = Shop(limits=FEW)
    a = shop.consumer()
    shop.post_many(12)
    b = shop.consumer()
    outcome = shop.rig.turn([Close(a.session, 1, Q)])
    shop.note(outcome.effects)
    assert b.got() == [1, 2, 3, 4, 5]
    shop.note(shop.rig.turn([a.confirming(9)]).effects)
    assert 9 in shop.stored()
    shop.do(*outcome.again)
    assert b.got() == [6, 7, 8, 9, 10, 11, 12]


def test_a_lost_consumer_is_blamed_once_for_each_message() -> None:
    """BMQ-55, BMQ-56."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1), limits=FEW)
    a = shop.consumer()
    shop.post_many(12)
    a.crash()
    assert len(shop.rig.take_facts(Poisoned)) == 12
    assert shop.stored() == {}


def test_a_session_that_leaves_many_queues_leaves_a_few_at_a_time() -> None:
    """It gets nothing meanwhile, from any of them, though the others have it as a consumer."""
    shop = Shop(limits=FEW)
    queues = [QueueId(b"bmq://orders/q%02d" % number) for number in range(12)]
    a = shop.rig.session("a")
    for number, queue in enumerate(queues):
        shop.do(Open(a, number + 1, queue, "orders", WHOLE, True, False, ()))
        shop.producer(queue)
    shop.rig.broker.close_session(a, "lost", shop.rig.now)
    outcome = shop.rig.turn([Disconnect(a)])
    left = [fact for fact in outcome.facts if isinstance(fact, Unsubscribed)]
    assert len(left) == FEW.turn_returns
    assert outcome.again == [Disconnect(a)]
    assert len(shop.rig.shard.session_states) == 13
    effects = shop.rig.turn([shop.sending(shop.number(), queue=queues[-1])]).effects
    assert [e for e in effects if isinstance(e, Deliver)] == []
    shop.do(*outcome.again)
    assert len(shop.rig.shard.session_states) == 12
    assert not any(queue.readers() for queue in shop.rig.shard.shared.queues.values())


def test_a_lost_session_is_blamed_for_the_messages_of_all_its_queues() -> None:
    """BMQ-55, BMQ-56: however many turns it takes to leave them."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1), limits=FEW)
    session = shop.rig.session("a")
    queues = [QueueId(b"bmq://orders/q%02d" % number) for number in range(12)]
    for number, queue in enumerate(queues):
        shop.do(Open(session, number + 1, queue, "orders", WHOLE, True, False, (EVERYTHING,)))
        shop.post(queue=queue)
    shop.rig.leave(session, lost=True)
    assert {fact.queue for fact in shop.rig.take_facts(Poisoned)} == set(queues)


def test_who_said_goodbye_is_not_blamed_though_the_connection_breaks_before_the_end() -> None:
    """BMQ-55: a clean end uses up no attempt."""
    shop = Shop(replace(PRIORITY, max_delivery_attempts=1), limits=FEW)
    session = shop.rig.session("a")
    for number in range(6):
        queue = QueueId(b"bmq://orders/q%d" % number)
        shop.do(Open(session, number + 1, queue, "orders", WHOLE, True, False, (EVERYTHING,)))
        shop.post(queue=queue)
    outcome = shop.rig.turn([Disconnect(session, lost=False)])
    shop.rig.broker.close_session(session, "gone", shop.rig.now)
    shop.do(*outcome.again, Disconnect(session, lost=True))
    assert shop.rig.take_facts(Poisoned) == []
    assert shop.usage().messages == 6


@pytest.mark.parametrize("how", ["close", "stop", "crash"])
def test_what_was_not_confirmed_goes_to_the_next_consumer_in_order(how: str) -> None:
    """BMQ-50, BMQ-51, BMQ-54, S003-34: all the rest of a partly confirmed batch, and only that."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(5)
    a.confirm(2, 4)
    b = shop.consumer()
    getattr(a, how)()
    assert b.got() == [1, 3, 5]
    returned = shop.rig.take_facts(Returned)
    assert [int(fact.message) for fact in returned] == [1, 3, 5]
    assert {fact.lost for fact in returned} == {how == "crash"}


@pytest.mark.parametrize("how", ["close", "stop", "crash"])
def test_what_was_not_confirmed_waits_when_nobody_is_left(how: str) -> None:
    """BMQ-50, BMQ-51: and goes first to whoever comes."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(3)
    getattr(a, how)()
    shop.post_many(2)
    b = shop.consumer()
    assert b.got() == [1, 2, 3, 4, 5]


def test_a_consumer_that_opens_again_gets_its_own_messages_back() -> None:
    """BMQ-50."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(2)
    a.close()
    assert a.got() == [1, 2]
    assert a.open() is None
    assert a.got() == [1, 2]
    a.confirm(1, 2)
    assert shop.usage().messages == 0


def test_after_close_nothing_can_be_confirmed() -> None:
    """BMQ-50: the messages are somebody else's by then."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(1)
    a.close()
    b = shop.consumer()
    shop.do(a.confirming(1))
    assert b.got() == [1]
    assert list(shop.stored()) == [1]


def test_a_returned_message_waits_for_a_consumer_that_matches() -> None:
    """BMQ-52, S003-34."""
    shop = Shop()
    a = shop.consumer("x == 1")
    b = shop.consumer("x == 2")
    shop.post_each(1)
    a.crash()
    shop.post_each(2, 1)
    assert b.got() == [2]
    c = shop.consumer("x == 1")
    assert c.got() == [1, 3]


def test_the_messages_of_a_higher_priority_go_to_the_lower_ones_that_match() -> None:
    """BMQ-53, S003-38."""
    shop = Shop()
    high = shop.consumer("x >= 0", priority=5)
    ones = shop.consumer("x == 1")
    twos = shop.consumer("x == 2")
    shop.post_each(1, 2, 3, 1)
    high.crash()
    assert (ones.got(), twos.got()) == ([1, 4], [2])
    assert list(shop.stored()) == [1, 2, 3, 4]

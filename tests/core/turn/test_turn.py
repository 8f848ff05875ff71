"""A turn is charged for what it does before it does it, and stops for breath."""

from __future__ import annotations

import pytest

from headgate.core.commands import Close, Command, Confirm, Disconnect, Land
from headgate.core.effects import Done, Effect
from headgate.core.model.ids import WHOLE
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.shared.app import BREATH_SUBSCRIPTIONS, App
from headgate.core.turn.slices import GLANCES
from headgate.core.turn.store_requests import TurnOutcome
from headgate.core.turn.turn import BREATH_WORK, TESTS_PER_LOOK
from headgate.errors import BadSubscription
from tests.support.shared_queues import BROADCAST, Q, Shop, message_id

pytestmark = pytest.mark.once


def app_of(shop: Shop) -> App:
    return shop.rig.shard.shared.queues[Q].apps[WHOLE]


def breaths(shop: Shop, *commands: Command) -> tuple[int, TurnOutcome]:
    """Carry a turn out, and count how often others could have been served in it."""
    before = shop.rig.breaths
    outcome = shop.rig.turn(list(commands))
    shop.note(outcome.effects)
    return shop.rig.breaths - before, outcome


def test_many_expressions_are_compiled_in_several_turns() -> None:
    """The limit turn_expression_bytes; the request is answered when all are compiled."""
    limits = Limits(turn_expression_bytes=40)
    shop = Shop(limits=limits)
    a = shop.consumer("x == 0")
    texts = [f"x == {number}" for number in range(10, 60)]
    command = a.configuring(*texts)
    turns = 0
    answers: list[Effect] = []
    again: list[Command] = [command]
    while again:
        _, outcome = breaths(shop, *again)
        turns += 1
        again = outcome.again
        answers += outcome.effects
        if again:
            assert outcome.effects == []
            assert [group.text for group in app_of(shop).groups] == ["x == 0"]
    assert turns == 50 * len("x == 10") // 40 + 1
    assert [type(answer) for answer in answers] == [Done]
    shop.post_each(11, 0)
    assert a.got_x() == [11]


def test_expressions_that_are_kept_are_not_compiled_again() -> None:
    shop = Shop(limits=Limits(turn_expression_bytes=10))
    texts = [f"x == {number}" for number in range(10, 30)]
    a = shop.consumer(*texts)
    _, outcome = breaths(shop, a.configuring(*texts, "x == 5"))
    assert outcome.again == []


def test_a_wrong_expression_among_many_is_refused_and_leaves_no_trace() -> None:
    shop = Shop(limits=Limits(turn_expression_bytes=20))
    a = shop.consumer("x == 0")
    refused = a.try_configure(*(f"x == {number}" for number in range(20)), "x ==")
    assert isinstance(refused, BadSubscription)
    assert [group.text for group in app_of(shop).groups] == ["x == 0"]


def test_others_are_served_between_expressions_and_between_groups() -> None:
    """What the longest expressions cost in a row is one of them."""
    shop = Shop(limits=Limits(turn_expression_bytes=10**9))
    a = shop.consumer()
    long = [f"{'x+' * 50}x == {number}" for number in range(100)]
    count, _ = breaths(shop, a.configuring(*long))
    assert count >= 50
    count, _ = breaths(shop, a.configuring(*reversed(long)))
    assert count >= 100 // BREATH_SUBSCRIPTIONS


def test_others_are_served_between_confirmations() -> None:
    shop = Shop()
    a = shop.consumer(window=2000)
    shop.post_many(1000)
    ids = tuple(message_id(number) for number in range(1, 1001))
    count, outcome = breaths(shop, Confirm(a.session, 1, Q, ids))
    assert count >= 1000 // BREATH_WORK
    assert [type(effect) for effect in outcome.effects] == [Done]
    assert not app_of(shop).outstanding


def test_others_are_served_while_a_consumer_of_many_subscriptions_leaves() -> None:
    shop = Shop()
    texts = [f"x == {number}" for number in range(640)]
    a, b = shop.consumer(*texts), shop.consumer(*texts)
    count, _ = breaths(shop, Close(a.session, 1, Q))
    assert count >= 2 * 640 // BREATH_SUBSCRIPTIONS
    count, _ = breaths(shop, Disconnect(b.session))
    assert count >= 2 * 640 // BREATH_SUBSCRIPTIONS
    assert not list(app_of(shop).groups)


def test_others_are_served_while_a_batch_lands() -> None:
    shop = Shop()
    shop.consumer()
    session = shop.rig.session("sink")
    messages = tuple(Message(message_id(n), b"m", 1000.0) for n in range(1000))
    count, outcome = breaths(shop, Land(session, 1, "s", 0, Q, "orders", messages))
    assert count >= 2 * 1000 // BREATH_WORK
    assert Done(session, 1) in outcome.effects


def test_others_are_served_while_the_facts_of_a_turn_are_counted() -> None:
    """And the counts are whole."""
    shop = Shop(BROADCAST)
    consumers = [shop.consumer() for _ in range(30)]
    sends = [shop.sending(number) for number in range(1, 101)]
    few, _ = breaths(shop, *sends[:1])
    count, outcome = breaths(shop, *sends[1:])
    assert count - few * 99 >= len(outcome.facts) // GLANCES
    counted = shop.rig.shard.statistics.of(Q)
    assert counted["delivered"] == len(consumers) * 100


def test_a_turn_is_charged_for_tests_of_expressions_that_give_no_key() -> None:
    """The limit turn_looks: with many tests a message, fewer messages."""
    shop = Shop(limits=Limits(turn_looks=100))
    a = shop.consumer(*(f"x + {number} == y" for number in range(100)), window=0)
    numbers = [shop.post(x=1, y=-1) for _ in range(20)]
    texts = [f"x + {number} == y" for number in range(100)]
    again: list[Command] = [a.configuring(*texts)]
    looked = []
    while again:
        before = app_of(shop).groups.looked_at
        _, outcome = breaths(shop, *again)
        looked.append(app_of(shop).groups.looked_at - before)
        again = outcome.again
    assert sum(looked) == len(numbers)
    assert max(looked) <= 100 // (1 + 100 // TESTS_PER_LOOK) + 1


def test_what_is_redelivered_or_waited_is_charged_too() -> None:
    """The limit turn_looks: nothing that was given back, or waits for room, is forgotten."""
    shop = Shop(limits=Limits(turn_looks=10))
    a = shop.consumer(window=100)
    shop.post_many(100)
    assert len(a.got()) == 100
    b = shop.consumer("!exists(z)", window=100)
    a.crash()
    assert len(b.got()) == 100
    c = shop.consumer("!exists(z)", window=0, priority=1)
    shop.post_many(50)
    assert c.got() == []
    c.configure("!exists(z)", window=100, priority=1)
    assert len(c.got()) == 50

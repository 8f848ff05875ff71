"""What holds for every sequence of commands, and when the store fails in the middle of one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.commands import (
    Close,
    Command,
    Configure,
    Confirm,
    Disconnect,
    Interest,
    Open,
    Reconfigure,
    Request,
    Send,
    Tick,
)
from headgate.core.delivery.gate import Gate
from headgate.core.effects import Deliver, Effect, Failed
from headgate.core.facts import Confirmed, Expired, Poisoned, Returned, TurnFailed
from headgate.core.facts import Delivered as DeliveredFact
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, AppId, Seq, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.core.shared.dispatch import Subscription, by_priority
from headgate.core.turn.undo import Undo
from headgate.errors import StoreError
from headgate.expr.predicate import compile_expression
from headgate.testing.picture import differences, snapshot
from headgate.testing.rig import Rig
from tests.core.shared.test_dispatch import levels_of
from tests.support.shared_queues import (
    FANOUT,
    PRIORITY,
    Consumer,
    Q,
    Shop,
    filters,
    message_id,
    number_of,
)

pytestmark = pytest.mark.once

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# by_priority: filter, highest priority, rotation.

TESTS: dict[str | None, Callable[[int], bool]] = {
    None: lambda x: True,
    "x == 1": lambda x: x == 1,
    "x==1": lambda x: x == 1,
    "x > 1": lambda x: x > 1,
    "x < 3": lambda x: x < 3,
}

Drawn: TypeAlias = tuple[str | None, int, int]
"""Text, priority, window."""

subscriptions = st.lists(
    st.tuples(st.sampled_from(list(TESTS)), st.integers(-1, 1), st.integers(0, 3)), max_size=8
)


class Model:
    """The same choice, told without groups: each text has a line of those who wait."""

    def __init__(self, drawn: Sequence[Drawn]) -> None:
        self.drawn = drawn
        self.held: Counter[int] = Counter()
        self.lines: dict[str | None, list[int]] = {}
        for place, (text, priority, _) in enumerate(drawn):
            if priority == max(p for t, p, _ in drawn if t == text):
                self.lines.setdefault(text, []).append(place)
        self.order = list(dict.fromkeys(text for text, _, _ in drawn))

    def priority(self, text: str | None) -> int:
        return self.drawn[self.lines[text][0]][1]

    def choose(self, x: int) -> tuple[int | None, list[str | None]]:
        """Who takes it; or the texts whose consumers are all full."""
        matching = [text for text in self.order if TESTS[text](x)]
        if not matching:
            return None, []
        top = max(self.priority(text) for text in matching)
        wanted = [text for text in matching if self.priority(text) == top]
        for text in wanted:
            for place in self.lines[text]:
                if self.held[place] < self.drawn[place][2]:
                    return place, []
        return None, wanted

    def take(self, place: int) -> None:
        self.held[place] += 1
        line = self.lines[self.drawn[place][0]]
        line.remove(place)
        line.append(place)


@QUICK
@given(subscriptions, st.lists(st.integers(0, 4), max_size=25))
def test_by_priority_is_filter_then_highest_then_rotation(
    drawn: list[Drawn], xs: list[int]
) -> None:
    """BMQ-27, BMQ-28, BMQ-36, BMQ-37, BMQ-39, BMQ-41, S003-30, S003-35, S003-36, S003-37."""
    model = Model(drawn)
    real = []
    for place, (text, priority, window) in enumerate(drawn):
        predicate = None if text is None else compile_expression(text)
        gate: Gate[Seq] = Gate(Window(window))
        real.append(Subscription(SessionId(place), 0, predicate, priority, gate))
    levels = levels_of(real)
    groups = {member: group for group in levels for member in group.rotation}
    for number, x in enumerate(xs):
        taker, full = by_priority(levels.matching({"x": x}))
        assert (taker.session if taker else None, [g.text for g in full]) == model.choose(x)
        if taker is not None:
            taker.gate.admit(Seq(number), 1, 0.0)
            groups[taker].rotate(taker, Undo())
            model.take(taker.session)


# A fanout queue never loses a message.

APPS = ("foo", "bar", "baz")
WANTS: tuple[str | None, ...] = (
    None,
    "x == 1",
    "x > 0",
    "x >= 2",
    "x < 2",
    "y == 1",
    "x != 1",
    "x != 2",
    "x == 1 && y == 1",
    "x + y > 1",
)
"""Several of them are found under the same key of the index."""

Place: TypeAlias = SessionId | None
"""Where a message is for an app: with a session, or undelivered."""


class Ledger:
    """Where every message is for each of its apps, told from what goes in and comes out."""

    def __init__(self, domain: Domain) -> None:
        self.shop = Shop(domain)
        self.consumers: list[Consumer] = []
        self.place: dict[tuple[int, AppId], Place] = {}
        self.seen = 0

    def read(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                key = (number_of(effect.message), effect.app)
                assert key in self.place, f"{key} was delivered and is confirmed, or never was"
                assert self.place[key] is None, f"{key} was delivered to two sessions"
                self.place[key] = effect.session
                self.shop.note([effect])

    def post(self, x: int) -> None:
        number = self.shop.number()
        send = self.shop.sending(number, {"x": x})
        for app in self.shop.domain.apps:
            if self.shop.domain.wants(app, {"x": x}):
                self.place[number, app] = None
        self.read(self.shop.rig.do(send))

    def join(self, app: AppId, interests: tuple[Interest, ...]) -> None:
        shop = self.shop
        consumer = Consumer(shop, shop.rig.session(), app, Q)
        self.consumers.append(consumer)
        self.read(
            shop.rig.do(Open(consumer.session, 1, Q, shop.domain.name, app, True, False, interests))
        )

    def configure(self, consumer: Consumer, interests: tuple[Interest, ...]) -> None:
        self.read(self.shop.rig.do(Configure(consumer.session, 1, Q, interests, consumer.app)))

    def confirm(self, consumer: Consumer, numbers: Sequence[int]) -> None:
        for number in numbers:
            if self.place.get((number, consumer.app)) == consumer.session:
                del self.place[number, consumer.app]
        self.read(self.shop.rig.do(consumer.confirming(*numbers)))

    def held_by(self, consumer: Consumer) -> list[int]:
        return [
            number
            for (number, app), place in self.place.items()
            if app == consumer.app and place == consumer.session
        ]

    def leave(self, consumer: Consumer, how: str) -> None:
        self.consumers.remove(consumer)
        for number in self.held_by(consumer):
            self.place[number, consumer.app] = None
        if how == "close":
            self.read(self.shop.rig.do(Close(consumer.session, 1, Q, consumer.app)))
        else:
            self.read(self.shop.rig.leave(consumer.session, lost=how == "crash"))

    def check(self) -> None:
        """The store has what the ledger has, no more and no less; no window is exceeded."""
        kept = {(n, app) for n, apps in self.shop.stored().items() for app in apps}
        assert kept == set(self.place)

    def drain(self) -> None:
        """With a consumer for everything in each app nothing remains."""
        for consumer in list(self.consumers):
            self.leave(consumer, "close")
        for app in self.shop.domain.apps:
            self.join(app, (Interest(),))
        undelivered = [key for key, place in self.place.items() if place is None]
        assert undelivered == []
        for consumer in self.consumers:
            self.confirm(consumer, self.held_by(consumer))
        self.check()
        assert self.place == {}
        assert self.shop.usage().messages == 0


interests = st.lists(
    st.builds(
        Interest,
        st.sampled_from(WANTS),
        st.integers(0, 2),
        st.builds(Window, st.integers(0, 4), st.sampled_from([None, 0, 20, 40])),
    ),
    max_size=3,
).map(tuple)


@QUICK
@given(st.data())
def test_a_fanout_queue_never_loses_a_message(data: st.DataObject) -> None:
    """BMQ-49, BMQ-72, S003-10, S003-34: a message is confirmed, or in one place for each app."""
    ledger = Ledger(replace(FANOUT, filters=filters(bar="x != 1")))
    for _ in range(data.draw(st.integers(0, 30))):
        action = data.draw(
            st.sampled_from(["post", "post", "join", "configure", "confirm", "leave"])
        )
        if action == "post":
            ledger.post(data.draw(st.integers(0, 3)))
        elif action == "join" or not ledger.consumers:
            ledger.join(data.draw(st.sampled_from(APPS)), data.draw(interests))
        else:
            consumer = data.draw(st.sampled_from(ledger.consumers))
            if action == "configure":
                ledger.configure(consumer, data.draw(interests))
            elif action == "leave":
                ledger.leave(consumer, data.draw(st.sampled_from(["close", "stop", "crash"])))
            else:
                held = ledger.held_by(consumer)
                strange = st.integers(1, ledger.shop.next_number)
                ledger.confirm(
                    consumer,
                    data.draw(st.lists(st.sampled_from(held) if held else strange, max_size=4)),
                )
        ledger.check()
    ledger.drain()


# BMQ-49: ten consumers of one queue who work as they like.


@pytest.mark.parametrize("seed", range(40))
def test_uneven_consumers_never_lose_or_double_a_message(seed: int) -> None:
    """BMQ-49, S003-32, S003-34: nothing is lost, nothing comes twice without having been returned,
    and a consumer gets what was never returned in order."""
    draw = random.Random(seed)
    shop = Shop()
    consumers = [
        shop.consumer(window=Window(draw.randint(1, 8), draw.choice([None, 60]))) for _ in range(10)
    ]
    everyone = list(consumers)
    unconfirmed: dict[Consumer, list[int]] = {c: [] for c in consumers}
    for _ in range(300):
        consumer = draw.choice(consumers)
        unconfirmed[consumer] += consumer.got()
        dice = draw.random()
        if dice < 0.45:
            shop.post()
        elif dice < 0.95 or len(consumers) == 1:
            mine = unconfirmed[consumer]
            draw.shuffle(mine)
            count = draw.randint(0, len(mine))
            consumer.confirm(*mine[:count])
            del mine[:count]
        else:
            consumers.remove(consumer)
            getattr(consumer, draw.choice(["close", "stop", "crash"]))()
            if draw.random() < 0.7:
                new = shop.consumer(window=draw.randint(1, 8))
                consumers.append(new)
                everyone.append(new)
                unconfirmed[new] = []
    while shop.stored():
        before = len(shop.stored())
        for consumer in consumers:
            consumer.confirm(*unconfirmed[consumer], *consumer.got())
            unconfirmed[consumer] = []
        assert len(shop.stored()) < before, "what is left is delivered to nobody"

    posted = shop.next_number - 1
    assert Counter(int(f.message) for f in shop.rig.facts if isinstance(f, Confirmed)) == Counter(
        range(1, posted + 1)
    )
    out: set[int] = set()
    returned: set[int] = set()
    for fact in shop.rig.facts:
        if isinstance(fact, DeliveredFact):
            assert int(fact.message) not in out, "delivered twice"
            out.add(int(fact.message))
        elif isinstance(fact, Returned):
            out.remove(int(fact.message))
            returned.add(int(fact.message))
    for consumer in everyone:
        deliveries = shop.delivered.get((consumer.session, Q, WHOLE), [])
        plain = [n for d in deliveries if (n := number_of(d.message)) not in returned]
        assert plain == sorted(plain)


# A turn that the store refuses did not happen.


class Script:
    """Turns, each at its time: commands with sessions 1, 2, 3 ... in the order they come."""

    def __init__(self, domain: Domain, *turns: Sequence[Command], limits: Limits | None = None):
        self.domain = domain
        self.limits = limits or Limits()
        self.turns = turns

    def rig(self) -> Rig:
        rig = Rig(self.domain, limits=self.limits)
        for _ in range(5):
            rig.session()
        return rig


P, A, B, C, D = (SessionId(n) for n in range(1, 6))
"""A producer and four consumers."""


def write() -> Open:
    return Open(P, "write", Q, "orders", WHOLE, False, True)


def read(
    session: SessionId,
    text: str | None = None,
    priority: int = 0,
    window: int = 10,
    app: AppId = WHOLE,
) -> Open:
    interests = (Interest(text, priority, Window(window)),)
    return Open(session, "read", Q, "orders", app, True, False, interests)


def post(number: int, x: int = 1) -> Send:
    posted = Message(message_id(number), b"body %d" % number, 1000.0, {"x": x})
    return Send(P, ("post", number), Q, posted)


def confirm(session: SessionId, *numbers: int, app: AppId = WHOLE, ref: object = None) -> Confirm:
    return Confirm(session, ref, Q, tuple(message_id(n) for n in numbers), app)


def change(session: SessionId, *wanted: Interest, app: AppId = WHOLE) -> Configure:
    return Configure(session, "change", Q, wanted, app)


STEP = 7.0
"""Seconds between two turns of a script."""

SMALL = replace(
    PRIORITY, max_messages=4, message_ttl=50.0, max_delivery_attempts=2, max_idle_time=5.0
)
APPLIED = replace(FANOUT, filters=filters(foo="x == 1", bar="x == 2"), max_delivery_attempts=1)

SCRIPTS = {
    "windows": Script(
        PRIORITY,
        [write(), read(A, window=2), read(B, window=1)],
        [post(1), post(2), post(3), post(4), post(5)],
        [confirm(A, 1), post(6), confirm(B, 2, ref="b")],
        [change(A, Interest(None, 3, Window(1))), post(7)],
        [confirm(A, 3, 4), confirm(B, 5)],
        [Close(A, "close", Q), post(8), read(C)],
        [Disconnect(B), post(9)],
        [confirm(C, 3, 4, 5, 6, 7, 8, 9, ref="c")],
    ),
    "attempts, quota and time": Script(
        SMALL,
        [write(), post(1), post(2, 2), post(3), post(4), post(5)],
        [read(A, "x == 1")],
        [Disconnect(A), Tick()],
        [read(B, "x == 1"), confirm(B, 1), post(6)],
        [Disconnect(B)],
        [post(7), read(C, "x >= 1", window=1)],
        [Tick(), post(7), post(8, 2)],
        [confirm(C, 2, ref="c"), change(C, Interest("x == 2", 0, Window(9)))],
        [Tick()],
    ),
    "suspicion": Script(
        replace(PRIORITY, max_delivery_attempts=2, suspicious_delay_high=2 * STEP),
        [write(), post(1), post(2), post(3, 2), read(A)],
        [Disconnect(A), read(B)],
        [post(4), Tick()],
        [Tick(), post(5)],
        [confirm(B, 5), Tick()],
        [change(B, Interest("x == 1", 0, Window(1))), read(C, "x == 2", window=1)],
        [confirm(B, 2), confirm(B, 4), Tick()],
        [Tick(), confirm(C, 3, ref="c"), Disconnect(B)],
        [read(D), Tick()],
    ),
    "fanout": Script(
        APPLIED,
        [write(), read(A, app="foo"), read(B, app="baz", window=1)],
        [post(1), post(2, 2), post(3, 3)],
        [confirm(A, 1, app="foo"), confirm(B, 1, app="baz"), read(C, "x == 9", app="bar")],
        [Disconnect(B), change(C, Interest(), app="bar")],
        [Reconfigure(replace(APPLIED, apps=("foo", "bar", "new"))), post(4, 4)],
        [confirm(C, 2, app="bar"), read(D, app="new"), post(5, 1)],
        [Close(A, "close", Q, "foo"), Disconnect(D, False)],
        [post(6, 2), Tick()],
    ),
    "priorities": Script(
        PRIORITY,
        [write(), read(A, "x > 0", 5, 1), read(B, "x > 1", 5, 1), read(C, None, 1)],
        [post(1, 2), post(2, 2), post(3, 2), post(4, 0), post(5, 3)],
        [confirm(B, 2), confirm(A, 1)],
        [change(B)],
        [change(A, Interest("x > 0", 5, Window(3)), Interest("x > 1", 6, Window(1)))],
        [confirm(A, 3), Close(C, "close", Q), post(6, 0)],
        [change(B, Interest(None, 0)), Disconnect(A)],
    ),
    "bodies from the store": Script(
        PRIORITY,
        [write(), post(1), post(2), post(3)],
        [read(A, window=1), read(B, window=1)],
        [confirm(A, 1), confirm(B, 2), post(4)],
        [Disconnect(A)],
        [confirm(B, 3)],
        limits=Limits(bodies_bytes=6),
    ),
    "broadcast": Script(
        Domain("orders", Mode.BROADCAST),
        [write(), read(A), read(B, "x == 1")],
        [post(1), post(1), post(2, 2), change(A, Interest("x == 1", 5)), post(3)],
        [Close(B, "close", Q), post(4), read(C, "x == 1", 5)],
        [post(5), Disconnect(A), post(6)],
    ),
}


def leave(rig: Rig, commands: Sequence[Command]) -> None:
    """What a shell does before it says `Disconnect`."""
    for command in commands:
        if isinstance(command, Disconnect):
            rig.broker.close_session(command.session, "gone", rig.now)


def run(script: Script) -> tuple[list[list[Effect]], int]:
    """The effects of each turn, and how many calls the store had."""
    rig = script.rig()
    effects = []
    for commands in script.turns:
        leave(rig, commands)
        outcome = rig.turn(list(commands))
        assert outcome.again == []
        effects.append(outcome.effects)
        rig.now += STEP
    return effects, len(rig.asked)


def shown(effects: Sequence[Effect]) -> list[str]:
    """Effects in a form that can be compared: two equal errors are not the same object."""
    return [repr(effect) for effect in effects]


CALLS = [(name, call) for name, script in SCRIPTS.items() for call in range(run(script)[1])]


def nobody_waits_for(command: Command) -> bool:
    """Such a command of a failed turn is tried again."""
    return not isinstance(command, Request) or (
        isinstance(command, Confirm) and command.ref is None
    )


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_a_turn_that_the_store_refused_left_no_trace(name: str, call: int) -> None:
    """At each call of the store in turn: requests get the error, memory and store are as
    before, and the same commands then have the effects they would have had."""
    script = SCRIPTS[name]
    expected, _ = run(script)
    rig = script.rig()
    rig.fail_at = call
    failures = 0
    for turn, commands in enumerate(script.turns):
        leave(rig, commands)
        before, stored = snapshot(rig.shard), snapshot(rig.store)
        outcome = rig.turn(list(commands))
        if any(isinstance(fact, TurnFailed) for fact in outcome.facts):
            failures += 1
            assert_did_not_happen(commands, outcome.effects)
            assert outcome.again == [c for c in commands if nobody_waits_for(c)]
            assert differences(stored, snapshot(rig.store)) == []
            assert differences(before, snapshot(rig.shard)) == []
            outcome = rig.turn(list(commands))
        assert shown(outcome.effects) == shown(expected[turn]), f"turn {turn}"
        rig.now += STEP
    assert failures == 1


def assert_did_not_happen(commands: Sequence[Command], effects: Sequence[Effect]) -> None:
    """Every request that waits for an answer was told of the failure, and nobody else."""
    waiting = [(c.session, c.ref) for c in commands if isinstance(c, Request) and c.ref is not None]
    assert all(isinstance(e, Failed) and isinstance(e.error, StoreError) for e in effects)
    assert [(e.session, e.ref) for e in effects if isinstance(e, Failed)] == waiting


def test_the_scripts_reach_what_they_are_for() -> None:
    """Redelivery, poison, expiry, a message that is held back: a script that does not get there
    proves nothing."""
    seen: set[type[object]] = set()
    held = False
    for script in SCRIPTS.values():
        rig = script.rig()
        for commands in script.turns:
            leave(rig, commands)
            rig.turn(list(commands))
            rig.now += STEP
            queues = rig.shard.shared.queues.values()
            held |= any(app.redelivery.spared for queue in queues for app in queue.apps.values())
        seen |= {type(fact) for fact in rig.facts}
    assert {Returned, Poisoned, Expired, Confirmed} <= seen
    assert held


def test_after_a_refused_confirm_messages_still_expire_in_time() -> None:
    """BMQ-87: the message that stays is as old as it was."""
    shop = Shop(replace(PRIORITY, message_ttl=60.0))
    a = shop.consumer()
    shop.post()
    shop.rig.now += 50
    shop.post()
    shop.rig.fail_at = 0
    shop.rig.turn([a.confirming(1)])
    assert list(shop.stored()) == [1, 2]
    shop.pass_time(11)
    assert list(shop.stored()) == [2]


def test_after_a_refused_close_consumers_keep_the_order_in_which_they_came() -> None:
    """BMQ-36: B3, attach order."""
    shop = Shop()
    a, b = shop.consumer(), shop.consumer()
    post = shop.sending(1)
    shop.rig.fail_at = 0
    shop.do(Close(a.session, 1, Q), post)
    b.configure(None)
    shop.post_many(2)
    assert (a.got(), b.got()) == ([1], [2])


def test_after_a_refused_confirm_redelivery_keeps_its_order() -> None:
    """BMQ-50, BMQ-54: what is left comes in the order of delivery."""
    shop = Shop()
    a = shop.consumer()
    shop.post_many(3)
    shop.rig.fail_at = 0
    shop.rig.turn([a.confirming(1, 2)])  # it would be tried again, but the consumer is lost
    a.crash()
    assert shop.consumer().got() == [1, 2, 3]

"""What an explanation says is what then happens."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.commands import Disconnect, Interest
from headgate.core.facts import Accepted, AutoConfirmed, Delivered, Missed, PutAside
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, AppId, MessageId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import PropertyValue
from headgate.core.model.window import Window
from headgate.core.shared import explain as explaining
from headgate.core.shared.explain import (
    ANSWER_UNITS,
    GROUPS_MAX,
    AppOutcome,
    ExplainedApp,
    ExplainedMember,
    Explanation,
    State,
    explain,
)
from headgate.core.turn.slices import GLANCES, at_once
from headgate.errors import QuotaReached
from headgate.expr.predicate import Failure, compile_expression
from headgate.expr.undecided import missing_property
from headgate.testing.picture import differences, snapshot
from tests.support.shared_queues import (
    BROADCAST,
    FANOUT,
    PRIORITY,
    Consumer,
    Q,
    Shop,
    filters,
    for_all,
    message_id,
)

SOFT = 1000
LIMITS = Limits(mailbox_bytes_soft=SOFT)
FILTERED = filters(foo=("x == 1", "y > 1"), bar="x > 1")


def ask(shop: Shop, **properties: PropertyValue) -> Explanation:
    queue = shop.rig.shard.shared.queues.get(Q)
    return at_once(explain(shop.domain, queue, properties, shop.rig.broker.sessions))


def only(shown: Explanation) -> ExplainedApp:
    [app] = shown.apps
    return app


def member(app: ExplainedApp, consumer: Consumer, place: int = 0) -> ExplainedMember:
    [found] = [
        each
        for group in app.groups
        for each in group.members
        if (each.session, each.place) == (consumer.session, place)
    ]
    return found


def reason(app: ExplainedApp, consumer: Consumer, place: int = 0) -> str:
    return member(app, consumer, place).reason


def fill(shop: Shop, session: SessionId) -> None:
    """Leave no room in a mailbox."""
    alive = shop.rig.broker.sessions.get(session)
    assert alive is not None
    alive.mailbox.offer("stuck", SOFT + 1, shop.rig.now)


def drain(shop: Shop, session: SessionId) -> None:
    alive = shop.rig.broker.sessions.get(session)
    assert alive is not None
    while alive.mailbox.take(shop.rig.now) is not None:
        pass


# The law.

Fate = tuple[AppOutcome, list[tuple[SessionId, tuple[int, ...]]]]
"""What becomes of a message in an app: who gets it, each by which subscription."""


def foretold(shown: Explanation) -> dict[AppId, Fate]:
    return {
        app.app: (
            app.outcome,
            [
                (receiver.session, (each.place,))
                for receiver in app.receivers
                for group in app.groups
                for each in group.members
                if each.gets and each.session == receiver.session
            ],
        )
        for app in shown.apps
        if app.outcome is not AppOutcome.UNKNOWN
    }


def happened(shop: Shop, message: MessageId) -> dict[AppId, Fate]:
    """The same, from the facts of the turn and its deliveries."""
    is_broadcast = shop.domain.mode is Mode.BROADCAST
    fates: dict[AppId, Fate] = {
        app: (AppOutcome.NOBODY if is_broadcast else AppOutcome.IN_LINE, [])
        for app in shop.domain.apps
    }
    for fact in shop.rig.facts:
        if getattr(fact, "message", None) != message:
            continue
        if isinstance(fact, AutoConfirmed):
            fates[fact.app] = AppOutcome.CONFIRMED, []
        elif isinstance(fact, PutAside):
            fates[fact.app] = AppOutcome.WAITING if fact.matched else AppOutcome.ASIDE, []
        elif isinstance(fact, Delivered):
            [delivery] = [
                each
                for each in shop.delivered[fact.session, Q, fact.app]
                if each.message.id == message
            ]
            _, before = fates[fact.app]
            reached = (fact.session, delivery.interests)
            fates[fact.app] = AppOutcome.DELIVERED, [*before, reached]
        else:
            assert isinstance(fact, Accepted | Missed)
    return fates


def check(shop: Shop, properties: Mapping[str, Any]) -> Explanation:
    """Explain, post, compare."""
    shown = ask(shop, **properties)
    shop.rig.facts.clear()
    number = shop.next_number
    error = shop.try_post(body=b"", **properties)
    if shown.refused is not None:
        assert isinstance(error, QuotaReached)
        assert str(error) == shown.refused
        return shown
    assert error is None
    assert foretold(shown) == happened(shop, message_id(number))
    for app in shown.apps:
        matched = [group.answer.expression for group in app.groups if group.answer.result is True]
        if app.wants:
            groups = shop.rig.shard.shared.queues[Q].apps[app.app].groups
            assert matched == [group.text for group in groups.matching(properties)]
        for group in app.groups:
            assert all(bool(each.reason) is not each.gets for each in group.members)
    return shown


DOMAINS = {
    "priority": replace(PRIORITY, filters=for_all("x >= 0", "exists(y)"), max_messages=30),
    "fanout": replace(FANOUT, filters=FILTERED, domain_max_messages=30),
    "broadcast": replace(BROADCAST, filters=for_all("x != 3")),
}
TEXTS = (None, "x == 1", "x==1", "x > 1", "y < 3", 'x == "a"', "x / y == 1", "!exists(y)")
STEPS = 60


class Walk:
    """A random walk of consumers that come, change, confirm, clog and go."""

    def __init__(self, domain: Domain, seed: int) -> None:
        self.dice = random.Random(seed)
        self.shop = Shop(domain, limits=LIMITS)
        self.shop.producer()
        self.consumers: list[Consumer] = []
        self.held: dict[Consumer, list[int]] = {}
        self.clogged: set[SessionId] = set()
        self.outcomes: set[AppOutcome] = set()
        self.states: set[State] = set()

    def step(self) -> None:
        dice = self.dice
        action = dice.choice("ccccppppppppppooofddr")
        if action == "c" and len(self.consumers) < 6:
            self.come()
        elif action == "p":
            self.post()
        elif self.consumers:
            consumer = dice.choice(self.consumers)
            if action == "o":
                self.confirm(consumer)
            elif action == "f":
                fill(self.shop, consumer.session)
                self.clogged.add(consumer.session)
            elif action == "d" and consumer.session in self.clogged:
                drain(self.shop, consumer.session)
                self.clogged.discard(consumer.session)
            elif action == "r":
                self.change(consumer)

    def come(self) -> None:
        app = self.dice.choice(self.shop.domain.apps)
        self.consumers.append(self.shop.consumer(*self.wants(), app=app))

    def wants(self) -> list[Interest]:
        dice = self.dice
        windows = (Window(0), Window(1), Window(2), Window(5), Window(9, 0), Window(9, 12))
        return [
            Interest(dice.choice(TEXTS), dice.randrange(3), dice.choice(windows))
            for _ in range(dice.randrange(1, 4))
        ]

    def post(self) -> None:
        dice = self.dice
        properties: dict[str, PropertyValue] = {}
        if dice.random() < 0.9:
            properties["x"] = dice.choice((0, 1, 1, 2, 3, "a", True))
        if dice.random() < 0.6:
            properties["y"] = dice.choice((0, 1, 2, 3))
        shown = check(self.shop, properties)
        for app in shown.apps:
            self.outcomes.add(app.outcome)
            self.states |= {each.state for group in app.groups for each in group.members}

    def confirm(self, consumer: Consumer) -> None:
        held = self.held.setdefault(consumer, [])
        held += consumer.got()
        if held:
            self.held[consumer] = held[2:]
            consumer.confirm(*held[:2])

    def change(self, consumer: Consumer) -> None:
        choice = self.dice.randrange(3)
        if choice == 0:
            self.consumers.remove(consumer)
            consumer.close()
        else:
            consumer.configure(*(self.wants() if choice == 1 else ()))


@pytest.mark.parametrize("mode", DOMAINS)
@pytest.mark.parametrize("seed", range(25))
def test_what_is_explained_is_what_happens(mode: str, seed: int) -> None:
    """BMQ-27, BMQ-28, BMQ-34, BMQ-36, BMQ-39, BMQ-41, BMQ-60, BMQ-67, BMQ-78, BMQ-80, BMQ-82: for
    one message after another, whoever came and went before."""
    walk = Walk(DOMAINS[mode], seed)
    for _ in range(STEPS):
        walk.step()


@pytest.mark.parametrize("mode", DOMAINS)
def test_asking_changes_nothing(mode: str) -> None:
    """BMQ-36: not whose turn it is, not what is unconfirmed, and no session is held."""
    walk = Walk(DOMAINS[mode], seed=1)
    for x in range(STEPS):
        walk.step()
        before = snapshot(walk.shop.rig.broker)
        ask(walk.shop, x=x % 4)
        assert differences(before, snapshot(walk.shop.rig.broker)) == []


@pytest.mark.parametrize("mode", DOMAINS)
def test_the_walks_get_to_every_outcome(mode: str) -> None:
    """A walk that does not get there proves nothing."""
    outcomes: set[AppOutcome] = set()
    states: set[State] = set()
    for seed in range(25):
        walk = Walk(DOMAINS[mode], seed)
        for _ in range(STEPS):
            walk.step()
        outcomes |= walk.outcomes
        states |= walk.states
    stored = {AppOutcome.WAITING, AppOutcome.ASIDE, AppOutcome.IN_LINE}
    expected = {AppOutcome.NOBODY} if mode == "broadcast" else stored
    assert outcomes == expected | {AppOutcome.DELIVERED, AppOutcome.CONFIRMED}
    assert states == set(State) - ({State.FULL} if mode == "broadcast" else set())


# The reasons.


def test_of_three_in_one_group_the_others_wait_for_their_turn() -> None:
    """BMQ-36: and asking does not use up a turn."""
    shop = Shop()
    a, b = shop.consumer(), shop.consumer()
    for _ in range(2):
        app = only(ask(shop))
        assert [receiver.session for receiver in app.receivers] == [a.session]
        assert app.reason == "priority 0 is the highest that matches"
        assert (reason(app, a), reason(app, b)) == ("", "it is the turn of another")
    shop.post()
    assert member(only(ask(shop)), b).gets


def test_groups_are_told_in_the_order_of_dispatch() -> None:
    """BMQ-27, BMQ-28: priority down, then who came first; inactive ones last in their group."""
    shop = Shop()
    low = shop.consumer("x > 0", priority=1)
    first = shop.consumer("x > 1", priority=5)
    second = shop.consumer("x > 2", priority=5)
    high = shop.consumer("x > 0", priority=5)
    app = only(ask(shop, x=9))
    assert [(group.priority, group.answer.expression) for group in app.groups] == [
        (5, "x > 0"),
        (5, "x > 1"),
        (5, "x > 2"),
    ]
    assert [each.session for each in app.groups[0].members] == [high.session, low.session]
    assert member(app, high).gets
    assert not member(app, low).active
    assert reason(app, low) == "priority 5 with the same expression goes first"
    earlier = "one that came earlier has the same priority and goes first"
    assert (reason(app, first), reason(app, second)) == (earlier, earlier)


def test_a_lower_priority_is_told_who_goes_first() -> None:
    """BMQ-41: also when those have no room."""
    shop = Shop()
    high = shop.consumer("x > 0", priority=9, window=1)
    low = shop.consumer(priority=1)
    assert reason(only(ask(shop, x=1)), low) == "priority 9 matches and goes first"
    shop.post(x=1)
    app = only(ask(shop, x=1))
    assert (app.outcome, app.reason) == (
        AppOutcome.WAITING,
        "priority 9 matches and has no room",
    )
    assert [waited.session for waited in app.waits_for] == [high.session]
    assert reason(app, low) == "priority 9 matches and goes first"
    assert reason(app, high) == "its window is full"
    assert member(only(ask(shop, x=0)), low).gets


def test_what_shuts_a_subscription_is_told() -> None:
    """BMQ-44, BMQ-45, BMQ-46."""
    shop = Shop(limits=LIMITS)
    paused = shop.consumer("x == 1", window=0)
    full = shop.consumer("x == 2", window=Window(9, 12))
    shop.post(x=2)
    low = shop.consumer("x == 3", window=10)
    for _ in range(10):
        shop.post(x=3)
    low.confirm(*low.got()[:1])
    stuck = shop.consumer("x == 4")
    fill(shop, stuck.session)
    for x, consumer, state, why in (
        (1, paused, State.PAUSED, "its window is 0"),
        (2, full, State.FULL, "its window is full: 15 B of 12 B"),
        (3, low, State.FULL, "its window was full, and is not down to four fifths"),
        (4, stuck, State.HELD, "its mailbox has no room"),
    ):
        app = only(ask(shop, x=x))
        assert (member(app, consumer).state, reason(app, consumer)) == (state, why)
        assert app.outcome is AppOutcome.WAITING
    assert member(only(ask(shop, x=3)), low).unconfirmed == 9


def test_a_session_that_is_gone_gets_nothing_before_its_clean_up() -> None:
    shop = Shop()
    a, b = shop.consumer(), shop.consumer()
    shop.rig.broker.close_session(a.session, "gone", shop.rig.now)
    app = only(ask(shop))
    assert member(app, b).gets
    assert (member(app, a).name, reason(app, a)) == ("", "its session is gone")
    shop.do(Disconnect(a.session))
    assert [each.session for each in only(ask(shop)).groups[0].members] == [b.session]


def test_while_nobody_has_room_a_message_stays_in_line() -> None:
    """BMQ-40, BMQ-73: nobody has looked at it, so it was not put aside."""
    shop = Shop()
    shop.producer()
    assert only(ask(shop)).reason == "nobody has a subscription"
    shop.post_many(2)
    app = only(ask(shop))
    assert (app.outcome, app.reason) == (
        AppOutcome.IN_LINE,
        "nobody has a subscription; 2 before it",
    )
    shop.consumer("x == 7", window=0)
    assert only(ask(shop)).reason == "nobody has room; 2 before it"


def test_a_queue_that_is_not_in_memory_has_filters_and_no_consumers() -> None:
    """BMQ-60, BMQ-67, BMQ-69: why each app wants the message, or does not."""
    shop = Shop(replace(FANOUT, filters=FILTERED))
    shown = ask(shop, x=1)
    assert (shown.domain, shown.mode, shown.is_open) == (
        "orders",
        "fanout",
        False,
    )
    foo, bar, baz = shown.apps
    assert [(f.expression, f.result, f.missing, f.reason) for f in foo.filters] == [
        ("x == 1", True, None, "true"),
        ("y > 1", Failure.NAME, "y", "NAME: the message lacks y"),
    ]
    assert (foo.wants, foo.outcome) == (True, AppOutcome.IN_LINE)
    assert (bar.wants, bar.outcome, bar.reason) == (
        False,
        AppOutcome.CONFIRMED,
        "none of its expressions is true",
    )
    assert (baz.wants, baz.filters) == (True, ())


def test_an_app_that_the_domain_does_not_have_is_told_of() -> None:
    """BMQ-76."""
    shop = Shop(FANOUT)
    shop.consumer(app="stranger")
    stranger = ask(shop).apps[-1]
    assert (stranger.app, stranger.outcome, stranger.receivers) == (
        "stranger",
        AppOutcome.UNKNOWN,
        (),
    )
    assert stranger.reason == (
        f"{FANOUT.name} has no app stranger, so nothing comes; its apps are {FANOUT.known_apps()}"
    )


def test_a_broadcast_reaches_each_session_once() -> None:
    """BMQ-78, BMQ-80."""
    shop = Shop(BROADCAST, limits=LIMITS)
    a = shop.consumer("x > 0", "x > 1")
    b = shop.consumer("x > 1")
    c = shop.consumer(window=0)
    d = shop.consumer()
    fill(shop, d.session)
    app = only(ask(shop, x=2))
    assert [receiver.session for receiver in app.receivers] == [a.session, b.session]
    assert reason(app, a, 1) == "its session gets it by another subscription"
    assert reason(app, c) == "its window is 0"
    assert reason(app, d) == "its mailbox has no room"
    assert only(ask(shop, x=0)).reason == "those who match are paused or have no room"
    c.close()
    d.close()
    assert only(ask(shop, x=0)).reason == "no subscription matches"
    a.close()
    b.close()
    assert only(ask(shop, x=0)).reason == "nobody has a subscription"


def test_a_full_queue_refuses_what_an_app_wants() -> None:
    """BMQ-82, BMQ-85: what nobody wants needs no room."""
    shop = Shop(replace(PRIORITY, max_messages=1, filters=for_all("x == 1")))
    shop.post(x=1)
    assert ask(shop, x=1).refused == "the queue holds its limit of 1 message"
    assert ask(shop, x=2).refused is None


def test_an_error_is_told_by_its_kind() -> None:
    """BMQ-10, BMQ-11."""
    shop = Shop()
    a = shop.consumer("x / y == 1", 'x == "a"', "z == 1")
    app = only(ask(shop, x=1, y=0))
    assert [group.answer.result for group in app.groups] == [
        Failure.ARITHMETIC,
        Failure.TYPE,
        Failure.NAME,
    ]
    assert reason(app, a, 0).startswith("ARITHMETIC: division by zero")
    assert reason(app, a, 1).startswith("TYPE: a value is of a type")
    assert reason(app, a, 2) == "NAME: the message lacks z"
    assert (app.outcome, app.reason) == (AppOutcome.ASIDE, "no subscription matches")


def test_of_very_many_only_some_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, the first that match, and who gets it."""
    monkeypatch.setattr(explaining, "GROUPS_MAX", 2)
    monkeypatch.setattr(explaining, "MEMBERS_MAX", 1)
    shop = Shop()
    for x in range(9):
        shop.consumer(f"x != {x}", priority=9)
        shop.consumer(f"x == {x}", window=0)
        shop.consumer(f"x == {x}")
    app = only(ask(shop, x=7))
    assert [group.answer.expression for group in app.groups] == ["x != 0", "x != 1"]
    for consumer in shop.rig.shard.shared.queues[Q].apps[WHOLE].consumers.values():
        assert len(consumer) == 1
    shop = Shop()
    shop.consumer("x == 1", window=0)
    taker = shop.consumer("x == 1")
    [group] = only(ask(shop, x=1)).groups
    assert [each.gets for each in group.members] == [False, True]
    assert group.left_out == 0
    assert app.left_out == 16
    assert group.members[1].session == taker.session


# The property that is missing.


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("a == 1", "a"),
        ("x == a", "a"),
        ("x == 1 && a == 1", "a"),
        ("x == 2 || a == 1 || b == 1", "a"),
        ("(x == 1 || a == 1) && b == 1", "b"),
        ("(x == 2 && a == 1) || b == 1", "b"),
        ("exists(a) == exists(b) && a == 1", "a"),
        ("!(b > -a)", "b"),
    ],
)
def test_the_missing_property_is_the_first_that_was_needed(text: str, missing: str) -> None:
    """BMQ-7, BMQ-8, BMQ-9."""
    predicate = compile_expression(text)
    assert predicate.evaluate({"x": 1}) is Failure.NAME
    assert missing_property(predicate, {"x": 1}) == missing


atoms = st.sampled_from(["a", "b", "c", "exists(a)", "exists(c)", "1", "a == 1", "b < c", "true"])
texts = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||", "==", "+"]), inner),
        st.builds("!({})".format, inner),
    ),
    max_leaves=6,
)


@given(
    texts.filter(lambda text: re.search(r"\b[abc]\b", text)),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([0, 1, True, "s"])),
)
def test_no_other_property_could_be_the_missing_one(
    text: str, properties: dict[str, PropertyValue]
) -> None:
    """BMQ-7: the others may be there, as something that cannot be read, and it is still missing."""
    predicate = compile_expression(text)
    if predicate.evaluate(properties) is not Failure.NAME:
        return
    missing = missing_property(predicate, properties)
    assert missing not in properties
    unreadable = {name: b"" for name in predicate.properties if name != missing}
    assert predicate.evaluate({**unreadable, **properties}) is Failure.NAME


def test_many_groups_are_explained_in_slices() -> None:
    """However many there are, as many are evaluated as are told, and others have their turn."""
    shop = Shop(PRIORITY)
    wanted = [Interest(f"x == {n}", 1, Window(1)) for n in range(3000)]
    shop.consumer(*wanted)
    queue = shop.rig.shard.shared.queues[Q]
    slices = list(explain(shop.domain, queue, {"y": 1}, shop.rig.broker.sessions))
    answers = slices.count(ANSWER_UNITS)
    assert answers == GROUPS_MAX
    assert len(slices) - answers == 3000 // GLANCES
    assert max(slices) <= 1000

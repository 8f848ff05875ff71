"""Explanation of what would happen to a message, and why. It asks the code that dispatches, so the
two cannot disagree, and changes nothing: no rotation moves, and nothing is counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import StrEnum
from functools import partial
from heapq import nsmallest
from itertools import islice

from headgate.core.delivery.gate import Gate
from headgate.core.delivery.sessions import Sessions
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import AppId, Seq, SessionId
from headgate.core.model.message import Properties, properties_size
from headgate.core.model.sizes import in_bytes
from headgate.core.model.value import EMPTY, value
from headgate.core.model.window import Window
from headgate.core.shared.accepting import wanting
from headgate.core.shared.app import App
from headgate.core.shared.dispatch import Group, Subscription, by_priority, everybody
from headgate.core.shared.queue import OpenGroup, SharedQueue
from headgate.core.shared.reader import Readers
from headgate.core.turn.slices import Slices, best
from headgate.errors import QuotaReached
from headgate.expr.predicate import Failure, Predicate
from headgate.expr.undecided import missing_of, undecided_reason

GROUPS_MAX = 100
"""Groups in one explanation, shared by its apps, and as many again if they match. To find out why
an expression is not true takes a third of a millisecond, in which nothing else is served."""

ANSWER_UNITS = 100
"""Units that such an answer counts for, with the subscriptions of the group."""

MEMBERS_MAX = 50
"""Subscriptions shown of a group, and receivers of an app."""


class AppOutcome(StrEnum):
    """The fate of a message in an app."""

    DELIVERED = "delivered"
    CONFIRMED = "auto-confirmed"
    """None of the app's filters is true."""
    WAITING = "waits"
    """The matching groups have no room; the message waits for them."""
    ASIDE = "put aside"
    """No subscription matches."""
    IN_LINE = "in line"
    """No consumer has room, so the message is not looked at yet."""
    NOBODY = "reaches nobody"
    """A broadcast without receivers is lost."""
    UNKNOWN = "unknown app"
    """The domain does not have the app; its consumers receive nothing."""


class State(StrEnum):
    """Whether a subscription can take a message."""

    OPEN = "open"
    FULL = "full"
    PAUSED = "paused"
    HELD = "held"
    """The mailbox of its session has no room."""


@value
class Answer:
    """The result of one expression for the message."""

    expression: str | None
    """None if there is no expression: every message matches."""
    result: bool | Failure
    missing: str | None
    """The missing property that is the reason."""
    reason: str


@value
class Receiver:
    """A consumer that would get the message, or why it would not."""

    session: SessionId
    name: str


@value
class ExplainedMember:
    """One subscription of a session, with the reason why it does not get the message."""

    session: SessionId
    name: str
    place: int
    """Its position in the session's own list of subscriptions."""
    priority: int
    active: bool
    state: State
    window: Window
    unconfirmed: int
    unconfirmed_bytes: int
    gets: bool
    reason: str


@value
class ExplainedGroup:
    """The subscriptions of one expression: the active ones first, in turn."""

    answer: Answer
    priority: int
    members: tuple[ExplainedMember, ...]
    left_out: int


@value
class ExplainedApp:
    """The part of an explanation for one app."""

    app: AppId
    wants: bool
    filters: tuple[Answer, ...]
    outcome: AppOutcome
    reason: str
    receivers: tuple[Receiver, ...] = ()
    receivers_all: int = 0
    """The number of receivers, if not all are shown."""
    waits_for: tuple[Receiver, ...] = ()
    """The sessions that match and have no room, in turn."""
    groups: tuple[ExplainedGroup, ...] = ()
    """In the order of dispatch."""
    left_out: int = 0


@value
class Explanation:
    """An explanation: what would happen to a message in each app."""

    domain: str
    mode: str
    is_open: bool
    """Whether the queue is in memory. If not, no session has opened it since the router started."""
    refused: str | None
    """Why the queue would refuse the message, even without a body."""
    apps: tuple[ExplainedApp, ...]


@value
class _Choice:
    """The router's decision for an app that wants the message."""

    outcome: AppOutcome
    reason: str
    takers: Mapping[SessionId, Subscription] = EMPTY
    """By session: each gets a message once."""
    full: Sequence[Group] = ()
    """The groups it waits for."""
    top: int | None = None
    """The priority at which the search for a consumer ends."""


def explain(
    domain: Domain,
    queue: SharedQueue | None,
    properties: Properties,
    sessions: Sessions,
    readers: Readers | None = None,
) -> Slices[Explanation]:
    """Explain the dispatch of a message that came to a queue now. In slices, between the apps and
    between the groups."""
    apps = dict(queue.apps) if queue is not None else {}
    explainer = _Explainer(domain, properties, sessions, readers or Readers())
    refusal = _refusal(domain, queue, properties) if queue is not None else None
    explained = []
    known = queue.app_ids() if queue is not None else domain.apps
    joined = queue.joined if queue is not None else {}
    for name in known:
        found = yield from explainer.app(name, apps.get(name), joined.get(name))
        explained.append(found)
    explained += [explainer.unknown(app) for app in apps.values() if app.id not in known]
    return Explanation(domain.name, domain.mode.value, queue is not None, refusal, tuple(explained))


def _refusal(domain: Domain, queue: SharedQueue, properties: Properties) -> str | None:
    """Why there is no room. A message that no app wants, and a broadcast, need none."""
    if domain.mode is Mode.BROADCAST or not (domain.keeps or wanting(domain, queue, properties)):
        return None
    size = properties_size(properties)
    try:
        queue.meter.check(size, domain.max_messages, domain.max_bytes)
        queue.state.meter.check(size, domain.domain_max_messages, domain.domain_max_bytes)
    except QuotaReached as error:
        noun = "message" if error.limit == 1 else "messages"
        most = in_bytes(error.limit) if error.unit == "bytes" else f"{error.limit:,} {noun}"
        return f"the {error.scope} holds its limit of {most}"
    return None


def unknown_reason(domain: Domain, app: AppId) -> str:
    """Why an app that the domain does not have gets no messages."""
    return f"{domain.name} has no app {app}, so nothing comes; its apps are {domain.known_apps()}"


class _Explainer:
    """Goes through the dispatch of one message without delivering it."""

    def __init__(
        self, domain: Domain, properties: Properties, sessions: Sessions, readers: Readers
    ) -> None:
        self._readers = readers
        self._domain = domain
        self._properties = properties
        self._sessions = sessions
        self._groups_max = max(1, GROUPS_MAX // max(1, len(domain.apps)))

    def app(
        self, name: AppId, app: App | None, joined: OpenGroup | None = None
    ) -> Slices[ExplainedApp]:
        filters = []
        predicates = self._domain.filters.get(name, ())
        wants = self._domain.wants(name, self._properties)
        if joined is not None:
            predicates = () if joined.predicate is None else (joined.predicate,)
            wants = joined.wants(self._properties)
        for predicate in predicates:
            filters.append(self._answer(predicate))
            yield ANSWER_UNITS
        if not wants:
            reason = "none of its expressions is true"
            return ExplainedApp(name, False, tuple(filters), AppOutcome.CONFIRMED, reason)
        choice = self._all(app) if self._domain.mode is Mode.BROADCAST else self._one(app)
        groups = (yield from self._shown(app, choice)) if app is not None else []
        found = []
        for group in groups:
            found.append(self._group(group, choice))
            yield ANSWER_UNITS
        return ExplainedApp(
            name,
            True,
            tuple(filters),
            choice.outcome,
            choice.reason,
            self._receivers(choice.takers),
            len(choice.takers),
            self._receivers(
                dict.fromkeys(member.session for group in choice.full for member in group.rotation)
            ),
            tuple(found),
            (len(app.groups) if app is not None else 0) - len(groups),
        )

    def unknown(self, app: App) -> ExplainedApp:
        reason = unknown_reason(self._domain, app.id)
        return ExplainedApp(app.id, False, (), AppOutcome.UNKNOWN, reason)

    # Receivers of the message.

    def _one(self, app: App | None) -> _Choice:
        if app is None or not app.size:
            return _Choice(AppOutcome.IN_LINE, _in_line("nobody has a subscription", app))
        matching = app.groups.matching(self._properties)
        taker, full = by_priority(self._as_met(group) for group in matching)
        top = full[0].priority if full else None
        if not app.open:
            return _Choice(AppOutcome.IN_LINE, _in_line("nobody has room", app), top=top)
        if full:
            reason = f"priority {top} matches and has no room"
            return _Choice(AppOutcome.WAITING, reason, full=full, top=top)
        if taker is None:
            return _Choice(AppOutcome.ASIDE, "no subscription matches")
        reason = f"priority {taker.priority} is the highest that matches"
        return _Choice(AppOutcome.DELIVERED, reason, {taker.session: taker}, top=taker.priority)

    def _all(self, app: App | None) -> _Choice:
        if app is None or not app.size:
            return _Choice(AppOutcome.NOBODY, "nobody has a subscription")
        matching = list(app.groups.matching(self._properties))
        has_room = self._sessions.has_room
        takers = {t.session: t for t in everybody(matching) if has_room(t.session)}
        if takers:
            reason = "a broadcast is for all who match and have room"
            return _Choice(AppOutcome.DELIVERED, reason, takers)
        if matching:
            return _Choice(AppOutcome.NOBODY, "those who match are paused or have no room")
        return _Choice(AppOutcome.NOBODY, "no subscription matches")

    def _as_met(self, group: Group) -> Group:
        """The group as delivery would find it: sessions without room are held, which the router
        does when it comes to them."""
        has_room = self._has_room
        if all(has_room(member.session) for member in group.rotation):
            return group
        met = copy(group)
        met.rotation = deque(m if has_room(m.session) else _held(m) for m in group.rotation)
        return met

    # Rows of the explanation.

    def _shown(self, app: App, choice: _Choice) -> Slices[list[Group]]:
        """The first groups, and the first that match, in the order of dispatch."""
        most = self._groups_max
        shown = {
            *(yield from best(app.groups, most, partial(nsmallest, key=_rank))),
            *islice(app.groups.matching(self._properties), most),
        }
        if choice.top is not None:
            shown |= {taker.group for taker in choice.takers.values() if taker.group is not None}
        return sorted(shown, key=_rank)

    def _group(self, group: Group, choice: _Choice) -> ExplainedGroup:
        answer = self._answer(group.predicate)
        order = [*group.rotation, *(m for m in group.members if not m.is_active)]
        shown = order[:MEMBERS_MAX]
        if choice.top is not None:
            shown += [taker for taker in choice.takers.values() if taker in order[MEMBERS_MAX:]]
        members = tuple(self._member(member, group, answer, choice) for member in shown)
        return ExplainedGroup(answer, group.priority, members, len(order) - len(members))

    def _member(
        self, member: Subscription, group: Group, answer: Answer, choice: _Choice
    ) -> ExplainedMember:
        gate = member.gate
        gets = choice.takers.get(member.session) is member
        return ExplainedMember(
            member.session,
            self._name(member.session),
            member.index,
            member.priority,
            member.is_active,
            self._state(member),
            gate.window,
            len(gate.outstanding),
            gate.size,
            gets,
            "" if gets else self._reason(member, group, answer, choice),
        )

    def _reason(self, member: Subscription, group: Group, answer: Answer, choice: _Choice) -> str:
        if answer.result is not True:
            return answer.reason
        if not member.is_active:
            return f"priority {group.priority} with the same expression goes first"
        if choice.top is not None and group.priority < choice.top:
            return f"priority {choice.top} matches and goes first"
        if member.session in choice.takers:
            return "its session gets it by another subscription"
        state = self._state(member)
        if state is State.PAUSED:
            return "its window is 0"
        if state is State.FULL:
            return _fullness(member.gate)
        if state is State.HELD:
            if member.session < 0:
                return "a named consumer that does not fetch now, or has all that it asked for"
            is_there = member.session in self._sessions
            return "its mailbox has no room" if is_there else "its session is gone"
        if any(taker.group is group for taker in choice.takers.values()):
            return "it is the turn of another"
        return "one that came earlier has the same priority and goes first"

    def _state(self, member: Subscription) -> State:
        gate = member.gate
        if gate.window.messages <= 0 or gate.window.bytes == 0:
            return State.PAUSED
        if gate.full:
            return State.FULL
        if gate.held or not self._has_room(member.session):
            return State.HELD
        return State.OPEN

    def _has_room(self, session: SessionId) -> bool:
        """Whether the session may get a message. The gate of a reader is held shut unless it has a
        pull."""
        return session < 0 or self._sessions.has_room(session)

    def _receivers(self, sessions: Iterable[SessionId]) -> tuple[Receiver, ...]:
        found = islice(sessions, MEMBERS_MAX)
        return tuple(Receiver(session, self._name(session)) for session in found)

    def _name(self, session: SessionId) -> str:
        reader = self._readers.by_number.get(session)
        if reader is not None:
            return reader.name.decode(errors="backslashreplace")
        found = self._sessions.get(session)
        return found.name if found is not None else ""

    def _answer(self, predicate: Predicate | None) -> Answer:
        if predicate is None:
            return Answer(None, True, None, "true for every message")
        result = predicate.evaluate(self._properties)
        if not isinstance(result, Failure):
            return Answer(predicate.text, result, None, "true" if result else "false")
        missing = missing_of(predicate, self._properties, result)
        return Answer(predicate.text, result, missing, undecided_reason(result, missing))


def _rank(group: Group) -> tuple[int, int, int]:
    """The order of a group in dispatch."""
    first = group.members[0]
    return -group.priority, first.place, first.index


def _held(member: Subscription) -> Subscription:
    held = copy(member)
    held.gate = copy(member.gate)
    held.gate.held = True
    return held


def _fullness(gate: Gate[Seq]) -> str:
    count, window = len(gate.outstanding), gate.window
    if count >= window.messages:
        return "its window is full"
    if window.bytes is not None and gate.size >= window.bytes:
        return f"its window is full: {in_bytes(gate.size)} of {in_bytes(window.bytes)}"
    return "its window was full, and is not down to four fifths"


def _in_line(reason: str, app: App | None) -> str:
    before = app.in_line() if app is not None else 0
    return f"{reason}; {before:,} before it" if before else reason

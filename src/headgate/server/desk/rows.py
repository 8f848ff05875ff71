"""Rows of the API, made of what the core has. Rows are chosen before they are made: to choose, one
or two numbers of each candidate are looked at, and then only what is shown is built."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import nlargest
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.delivery.sessions import Session
from headgate.core.facts import SessionClosed
from headgate.core.model.domain import Domain
from headgate.core.model.ids import AppId, QueueId, SessionId
from headgate.core.shared.app import App
from headgate.core.shared.explain import unknown_reason
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.quota import Capacity
from headgate.core.shared.statistics import groups_of
from headgate.core.turn.slices import Slices
from headgate.server.desk.advice import ADVICE_UNITS, advice_of
from headgate.server.desk.answers import (
    AppAnswer,
    AppRow,
    Blocker,
    ClosedRow,
    DomainRow,
    GroupRow,
    PressureName,
    QueueRow,
    SessionAnswer,
    SessionRow,
    SessionSubscription,
    SharedQueueAnswer,
    Undecided,
)
from headgate.server.desk.asking import shown, shown_bytes
from headgate.server.desk.attention import UndecidedGroup
from headgate.server.desk.elsewhere import NOBODY_ELSEWHERE, Elsewhere
from headgate.server.desk.kept import KeptFacts, is_shared
from headgate.server.desk.names import PLACE, digest, local_name, short_name

if TYPE_CHECKING:
    from headgate.server.router import Router

AppKey: TypeAlias = tuple[QueueId, AppId]

SHOWN_OF_SESSION = 100
FACTS_OF_SESSION = 50
CANDIDATES = 1000
"""Of a kind of trouble, so many sessions are looked at to find the worst."""
UNDECIDED_APPS = 8
UNDECIDED_GROUPS = 20
SAMPLED_MIN = 10
"""Messages that an expression was evaluated on in full, before anything is said of it."""
FULL_SEEN = 1000
BEHIND_SEEN = 1000
LEADERS = 100
"""Of very many apps that are behind, so many are looked at each time, and the so many that were
found before."""
GROWTH_SECONDS = 30
TRACKED_APPS = 1000
RATED_SESSIONS = 1000
FRESH_SECONDS = 1.0
"""Rates that are younger are not worked out again: over a moment they mean nothing."""


class Rates:
    """Rates at which sessions read and wrote since they were last looked at. Only those that are
    shown cost anything, and the longest not shown is forgotten."""

    def __init__(self) -> None:
        self._found: dict[SessionId, tuple[float, int, int, float, float]] = {}
        """When it was looked at, what had been read and written, and the rates of then."""

    def of(self, session: Session, now: float) -> tuple[float, float]:
        """Bytes in and out by the second."""
        traffic = session.traffic
        found = self._found.get(session.id)
        if found is not None and now - found[0] < FRESH_SECONDS:
            return found[3:]
        at, was_in, was_out = (session.opened, 0, 0) if found is None else found[:3]
        span = max(1.0, now - at)
        rates = (traffic.bytes_in - was_in) / span, (traffic.bytes_out - was_out) / span
        self._found.pop(session.id, None)
        self._found[session.id] = (now, traffic.bytes_in, traffic.bytes_out, *rates)
        if len(self._found) > RATED_SESSIONS:
            del self._found[next(iter(self._found))]
        return rates


class Growth:
    """The growth of the undelivered messages of apps that are looked at."""

    def __init__(self) -> None:
        self._counts: dict[tuple[QueueId, str], deque[tuple[float, int]]] = {}

    def of(self, queue: SharedQueue, app: App, now: float) -> float:
        """By the second, over the last half minute in which it was looked at."""
        key = (queue.id, app.id)
        counts = self._counts.pop(key, None) or deque()
        self._counts[key] = counts
        if len(self._counts) > TRACKED_APPS:
            del self._counts[next(iter(self._counts))]
        if not counts or now - counts[-1][0] >= 1.0:
            counts.append((now, app.undelivered()))
        while now - counts[0][0] > GROWTH_SECONDS:
            counts.popleft()
        (first, before), (last, after) = counts[0], counts[-1]
        return (after - before) / (last - first) if last > first else 0.0


class Rows:
    """Rows of a router's sessions, queues and domains, made when they are shown."""

    def __init__(self, router: Router, elsewhere: Elsewhere = NOBODY_ELSEWHERE) -> None:
        self._router = router
        self._elsewhere = elsewhere
        self._rates = Rates()
        self._growth = Growth()
        self._leaders: list[AppKey] = []
        """Apps with much that is undelivered, the most first."""
        self._unseen: list[AppKey] = []

    # Sessions.

    def trouble(self, session: Session) -> tuple[int, int, bool, int]:
        """The rank of a session's trouble: first those that hold up others, then slow ones, waiting
        ones, and those with most in line."""
        waiting, box = self._router.broker.waiting, session.mailbox
        return (
            waiting.held_up(session.id) + self._elsewhere.held_up(session.id),
            int(box.pressure),
            waiting.blocker(session.id) is not None,
            box.bytes,
        )

    def in_trouble(self, most: int) -> list[SessionRow]:
        """The sessions that need attention most. Only those are looked at that hold up somebody,
        wait, or have something in their mailbox."""
        broker = self._router.broker
        found: dict[SessionId, Session] = {}
        kinds: tuple[Iterable[SessionId], ...] = (
            broker.waiting.blockers(),
            broker.budget.slow,
            (publisher for publisher, _ in broker.waiting),
            broker.budget.stuck,
        )
        for kind in kinds:
            for id in islice(kind, CANDIDATES):
                session = broker.sessions.get(id)
                if session is not None and not session.is_listed_elsewhere:
                    found[id] = session
        here = [self.session(each) for each in nlargest(most, found.values(), key=self.trouble)]
        return nlargest(most, [*here, *self._elsewhere.in_trouble()], key=trouble_of)

    def session(self, session: Session) -> SessionRow:
        broker, box = self._router.broker, session.mailbox
        waiting = broker.waiting
        now = self._router.clock()
        bytes_in, bytes_out = self._rates.of(session, now)
        state = broker.shard.session_states.kept(session.id)
        unconfirmed, oldest = self._unconfirmed(session.id)
        return SessionRow(
            session=session.id,
            wire=session.wire,
            name=shown(session.called or session.agent or session.peer),
            peer=shown(session.peer),
            agent=shown(session.agent),
            user=shown(session.user),
            opened=session.opened,
            mailbox_bytes=box.bytes,
            mailbox_hard=box.budget.mailbox_hard,
            pressure=_pressure(session),
            slow_since=box.slow_since,
            waits_for=self._blocker(waiting.blocker(session.id)),
            held_up=waiting.held_up(session.id) + self._elsewhere.held_up(session.id),
            subscriptions=len(broker.channels.of(session.id)),
            queues=0 if state is None else len(state.queues) + len(state.opens),
            in_per_s=bytes_in,
            out_per_s=bytes_out,
            unconfirmed=unconfirmed,
            oldest_unconfirmed=oldest,
            idle=max(0.0, monotonic() - heard) if (heard := session.traffic.heard) else 0.0,
            worker=broker.sessions.worker_of(session.id),
        )

    def _unconfirmed(self, session: SessionId) -> tuple[int, float | None]:
        """Deliveries that a session has not confirmed, and when the oldest was made."""
        shard = self._router.broker.shard
        state = shard.session_states.kept(session)
        if state is None:
            return 0, None
        count, oldest = len(state.gates), None
        if state.gates:
            oldest = next(iter(state.gates.values())).at
        for queue, app in islice(state.opened, SHOWN_OF_SESSION):
            found = shard.shared.queues.get(queue)
            mine = found.apps.get(app) if found is not None else None
            for each in mine.consumers.get(session, ()) if mine is not None else ():
                if each.gate.outstanding:
                    count += len(each.gate.outstanding)
                    _, at = next(iter(each.gate.outstanding.values()))
                    oldest = at if oldest is None else min(oldest, at)
        return count, oldest

    def _blocker(self, session: SessionId | None) -> Blocker | None:
        if session is None:
            return None
        found = self._router.broker.sessions.get(session)
        name = self._elsewhere.name_of(session) if found is None else short_name(found)
        return Blocker(session=session, name=name)

    def session_page(self, session: Session, facts: KeptFacts) -> SessionAnswer:
        """One session, with what it holds."""
        broker = self._router.broker
        heard = broker.channels.of(session.id)
        channels = [
            *islice(heard.exact, SHOWN_OF_SESSION),
            *islice(heard.sharded, SHOWN_OF_SESSION),
        ]
        state = broker.shard.session_states.kept(session.id)
        exclusive = () if state is None else islice(state.queues, SHOWN_OF_SESSION)
        shared = () if state is None else islice(state.opens, SHOWN_OF_SESSION)
        queues = [*map(digest, exclusive), *map(shown_bytes, shared)][:SHOWN_OF_SESSION]
        waiting = islice(broker.waiting.held_up_by(session.id), SHOWN_OF_SESSION)
        return SessionAnswer(
            row=self.session(session),
            channels=[shown_bytes(name) for name in channels[:SHOWN_OF_SESSION]],
            channels_total=len(heard.exact) + len(heard.sharded),
            patterns=[shown_bytes(name) for name in islice(heard.pattern, SHOWN_OF_SESSION)],
            patterns_total=len(heard.pattern),
            queues=queues,
            queues_total=0 if state is None else len(state.queues) + len(state.opens),
            subscriptions=self._subscriptions(session.id),
            waited_for_by=[each for w in waiting if (each := self._blocker(w)) is not None],
            facts=facts.about(session.id, FACTS_OF_SESSION),
        )

    def _subscriptions(self, session: SessionId) -> list[SessionSubscription]:
        shard = self._router.broker.shard
        state = shard.session_states.kept(session)
        rows: list[SessionSubscription] = []
        for queue, app in () if state is None else islice(state.opened, SHOWN_OF_SESSION):
            found = shard.shared.queues.get(queue)
            mine = found.apps.get(app) if found is not None else None
            consumed = mine.consumers.get(session, ()) if mine is not None else ()
            rows += [
                SessionSubscription(
                    queue=shown_bytes(queue),
                    app=app,
                    expression=None if each.text is None else shown(each.text),
                    priority=each.priority,
                    window=each.gate.window.messages,
                    window_bytes=each.gate.window.bytes,
                    unconfirmed=len(each.gate.outstanding),
                    full=each.gate.full,
                )
                for each in consumed[: SHOWN_OF_SESSION - len(rows)]
            ]
        return rows

    def closed(self, most: int) -> list[ClosedRow]:
        """The sessions that ended last."""
        return [closed_row(fact) for fact in islice(reversed(self._router.broker.closed), most)]

    # Shared queues.

    def behind(self, most: int) -> list[AppRow]:
        """The apps with most that is undelivered."""
        behind = self._router.broker.shard.shared.totals.behind
        if len(behind) <= BEHIND_SEEN:
            self._leaders = list(behind)
        else:
            self._leaders = self._leaders[:LEADERS] + self._next_of(behind)
        here = dict.fromkeys(key for key in self._leaders if key in behind)
        self._leaders = sorted(here, key=lambda key: -behind[key][1].undelivered())
        return [self.app(*behind[key]) for key in self._leaders[:most]]

    def _next_of(self, behind: Mapping[AppKey, object]) -> list[AppKey]:
        """Some of very many apps, others each time: in some seconds all of them had their turn."""
        if not self._unseen:
            self._unseen = list(behind)
        found, self._unseen = self._unseen[-BEHIND_SEEN:], self._unseen[:-BEHIND_SEEN]
        return found

    def app(self, queue: SharedQueue, app: App) -> AppRow:
        uri = shown_bytes(queue.id, 400)
        return AppRow(
            queue=uri,
            domain=queue.domain.name,
            name=local_name(uri),
            app=app.id,
            consumers=len(app.consumers),
            subscriptions=app.size,
            full=sum(each.gate.full for each in islice(app.subscriptions(), FULL_SEEN)),
            in_line=app.in_line(),
            waiting=len(app.waiting),
            aside=len(app.aside),
            unconfirmed=len(app.outstanding),
            growth_per_s=self._growth.of(queue, app, self._router.clock()),
            stuck=app.stuck,
            oldest_at=oldest_at(queue, app),
        )

    def queue(self, queue: SharedQueue) -> QueueRow:
        uri = shown_bytes(queue.id, 400)
        return QueueRow(
            queue=uri,
            domain=queue.domain.name,
            name=local_name(uri),
            messages=queue.meter.messages,
            bytes=queue.meter.bytes,
            capacity=queue.meter.capacity.value,
            consumers=sum(len(app.consumers) for app in queue.apps.values()),
            producers=len(queue.producers),
            undelivered=sum(app.undelivered() for app in queue.apps.values()),
        )

    def undecided(self) -> list[UndecidedGroup]:
        """Groups of the apps that are most behind whose expression has no value for most messages,
        and is never true."""
        behind = self._router.broker.shard.shared.totals.behind
        found = []
        for key in self._leaders[:UNDECIDED_APPS]:
            if key not in behind:
                continue
            queue, app = behind[key]
            for group in islice(app.groups, UNDECIDED_GROUPS):
                stats, failed = group.stats, sum(group.stats.failures.values())
                if stats.sampled < SAMPLED_MIN or stats.matched or failed * 2 <= stats.sampled:
                    continue
                found.append(
                    UndecidedGroup(
                        shown_bytes(queue.id, 400),
                        queue.domain.name,
                        app.id,
                        shown(group.text or ""),
                        failed / stats.sampled,
                        stats.reason(),
                    )
                )
        return found[:UNDECIDED_APPS]

    def full_domains(self, most: int) -> list[DomainRow]:
        """Domains that are at four fifths of their quota, or above it."""
        states = self._router.broker.shard.shared.states.values()
        full = (each for each in states if each.meter.capacity is not Capacity.NORMAL)
        return [self.domain(each.domain) for each in islice(full, most)]

    def domain(self, domain: Domain) -> DomainRow:
        state = self._router.broker.shard.shared.states.get(domain.name)
        nothing, empty_capacity = (0, "normal") if is_shared(domain) else (None, None)
        return DomainRow(
            domain=domain.name,
            mode=domain.mode.value,
            apps=[app for app in domain.apps if app],
            queues=nothing if state is None else state.queues,
            opened=nothing if state is None else len(state.members),
            messages=nothing if state is None else state.meter.messages,
            bytes=nothing if state is None else state.meter.bytes,
            capacity=state.meter.capacity.value if state is not None else empty_capacity,
            max_messages=domain.max_messages,
            max_bytes=domain.max_bytes,
            domain_max_messages=domain.domain_max_messages,
            domain_max_bytes=domain.domain_max_bytes,
            streams=list(domain.streams),
            groups=domain.groups,
            feeds=[channel for feed in domain.feeds for channel in feed.channels],
            speaks=domain.speaks,
        )

    def queue_page(
        self, domain: Domain, uri: str, queue: SharedQueue | None
    ) -> Slices[SharedQueueAnswer]:
        """A shared queue with its apps."""
        counts = self._router.broker.shard.statistics.by_app(QueueId(uri.encode()))
        apps = []
        for app in () if queue is None else list(queue.apps.values()):
            assert queue is not None, "an app is of a queue"
            apps.append((yield from self._app_page(queue, app, counts.get(app.id, {}))))
        return SharedQueueAnswer(
            queue=uri,
            domain=domain.name,
            name=local_name(uri),
            mode=domain.mode.value,
            opened=queue is not None,
            messages=0 if queue is None else queue.meter.messages,
            bytes=0 if queue is None else queue.meter.bytes,
            capacity="normal" if queue is None else queue.meter.capacity.value,
            max_messages=domain.max_messages,
            max_bytes=domain.max_bytes,
            producers=0 if queue is None else len(queue.producers),
            counts=counts.get(None, {}),
            apps=apps,
        )

    def _app_page(self, queue: SharedQueue, app: App, counts: dict[str, int]) -> Slices[AppAnswer]:
        groups = []
        for row in (yield from groups_of(app)):
            groups.append(_group(row))
            if groups[-1].reason:
                yield ADVICE_UNITS
        is_known = queue.has_app(app.id)
        spared = app.redelivery.spared
        return AppAnswer(
            app=app.id,
            consumers=len(app.consumers),
            subscriptions=app.size,
            in_line=app.in_line(),
            waiting=len(app.waiting),
            aside=len(app.aside),
            unconfirmed=len(app.outstanding),
            to_redeliver=len(app.redelivery.returned),
            held_until=None if spared is None else spared[1],
            stuck=app.stuck,
            growth_per_s=self._growth.of(queue, app, self._router.clock()),
            oldest_at=oldest_at(queue, app),
            counts=counts,
            looked_at=app.groups.looked_at,
            filters=[shown(each.text) for each in queue.domain.filters.get(app.id, ())],
            expressions=len(app.groups),
            groups=sorted(groups, key=lambda group: -group.priority),
            is_known=is_known,
            reason="" if is_known else shown(unknown_reason(queue.domain, app.id), 1000),
        )


def _group(row: dict[str, object]) -> GroupRow:
    text, undecided = row["expression"], row["undecided"]
    assert isinstance(undecided, dict), "what groups_of makes"
    shown_text = shown(text) if isinstance(text, str) else None
    rest = {name: value for name, value in row.items() if name not in ("expression", "undecided")}
    advice = advice_of(text) if isinstance(text, str) and row["reason"] else ""
    return GroupRow(
        expression=shown_text,
        undecided=Undecided(**undecided),
        advice=advice,
        **rest,  # type: ignore[arg-type]
    )


PRESSURES: tuple[PressureName, ...] = ("easy", "soft", "hard")


def _pressure(session: Session) -> PressureName:
    return PRESSURES[session.mailbox.pressure]


def trouble_of(row: SessionRow) -> tuple[int, int, bool, int]:
    """The trouble of a session, as `Rows.trouble` has it, of its row."""
    pressure = PRESSURES.index(row.pressure)
    return row.held_up, pressure, row.waits_for is not None, row.mailbox_bytes


def closed_row(fact: SessionClosed) -> ClosedRow:
    return ClosedRow(
        session=fact.session,
        wire=fact.wire,
        name=shown(PLACE.sub("", fact.called) or fact.agent or fact.name),
        peer=shown(fact.peer),
        agent=shown(fact.agent),
        user=shown(fact.user),
        reason=shown(fact.reason),
        at=fact.at,
    )


def oldest_at(queue: SharedQueue, app: App) -> float | None:
    """When the message came that is undelivered for longest, as far as the places show it that are
    in order."""
    lines: tuple[Iterable[int], ...] = (app.back, app.again, app.aside, app.waiting, app.fresh)
    firsts = [first for line in lines if (first := next(iter(line), None)) is not None]
    entry = queue.entries.get(min(firsts)) if firsts else None  # type: ignore[call-overload]
    return None if entry is None else entry.arrived

"""A small world for the agent's engine: records, routers and a shell, all of them dictionaries.

The shell carries effects out when a test lets it. Whatever a router sends waits in the order of
its session; what the records were asked waits apart. So a test can let anything overtake anything
that could overtake it in earnest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias, TypeVar

from headgate.agent.engine.answers import (
    TIMED_OUT,
    Answer,
    Failure,
    NotSubscribed,
    Subscribed,
    failure_of,
)
from headgate.agent.engine.effects import (
    Announce,
    ClearAssociations,
    CloseSession,
    Connect,
    ConnectRefused,
    DeleteService,
    Effect,
    ReadPage,
    ReadTally,
    RemoveQueue,
    Report,
    SendServiceSub,
    SendSubs,
    SetAssociated,
    Settled,
    StoreNewQueue,
    StoreNotice,
    StoreServiceId,
    WakeAt,
)
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.queue_states import QueueState
from headgate.agent.engine.settings import MESSAGING, EngineSettings
from headgate.agent.events import (
    Deleted,
    Down,
    End,
    ServiceDown,
    ServiceEnd,
    SubscriptionEvent,
    Up,
)
from headgate.agent.model import ConnectionId, QueueRow, RecipientId, SessionKey, SlotKey, Which
from headgate.client.smp.failures import FailureKind
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import Tally
from headgate.errors import RequestRefused
from headgate.wire.smp.codec.router_address import RouterAddress

T = TypeVar("T")

Account: TypeAlias = tuple[int, int]
"""A user and a router."""

Step: TypeAlias = Callable[[], list[Effect]]

OTHER = "another client"
UNREACHABLE = Failure(FailureKind.TEMPORARY, "no connection")


def refused(error: str) -> Failure:
    """What a router's error means."""
    return failure_of(RequestRefused(error))


def router_address(router: int) -> RouterAddress:
    return RouterAddress((f"router{router}.example",), None, bytes([router]) * 32)


@dataclass
class Row:
    """A receive queue in the records."""

    connection: ConnectionId
    associated: bool = False


@dataclass
class Records:
    """The records of an agent: rows, and a service for each account that has one."""

    rows: dict[Account, dict[RecipientId, Row]] = field(default_factory=dict)
    services: dict[Account, ServiceId | None] = field(default_factory=dict)
    certificates: dict[Account, int] = field(default_factory=dict)

    def of(self, account: Account) -> dict[RecipientId, Row]:
        return self.rows.setdefault(account, {})

    def row(self, account: Account, queue: RecipientId) -> QueueRow:
        found = self.of(account)[queue]
        return QueueRow(queue, found.connection, found.associated)

    def tally(self, account: Account) -> Tally:
        return Tally.of(QueueId(q) for q, row in self.of(account).items() if row.associated)

    def page(self, ask: ReadPage) -> tuple[list[QueueRow], bool]:
        wanted = {Which.ALL: (True, False), Which.SINGLE: (False,), Which.ASSOCIATED: (True,)}
        found = [
            QueueRow(queue, row.connection, row.associated)
            for queue, row in sorted(self.of((ask.user, ask.router)).items())
            if (ask.after is None or queue > ask.after) and row.associated in wanted[ask.which]
        ]
        return found[: ask.limit], len(found) > ask.limit

    def apply(self, effect: Effect) -> bool:
        """Carry out what changes the records; whether it was such an effect."""
        match effect:
            case SetAssociated(user, router, queues, associated):
                for queue in queues:
                    if queue in self.of((user, router)):
                        self.of((user, router))[queue].associated = associated
            case ClearAssociations(user, router):
                self._clear((user, router))
            case StoreServiceId(user, router, service, clear):
                assert (user, router) in self.certificates
                self.services[user, router] = service
                if clear:
                    self._clear((user, router))
            case DeleteService(user, router):
                self.services.pop((user, router), None)
                self.certificates.pop((user, router), None)
                self._clear((user, router))
            case RemoveQueue(router, queue):
                for (_, at), rows in self.rows.items():
                    if at == router:
                        rows.pop(queue, None)
            case StoreNewQueue(user, router, queue, connection, associated):
                self.of((user, router))[queue] = Row(connection, associated)
            case StoreNotice():
                pass
            case _:
                return False
        return True

    def _clear(self, account: Account) -> None:
        for row in self.of(account).values():
            row.associated = False


@dataclass(eq=False)
class WorldSession:
    """A session between the agent and a router."""

    key: SessionKey
    router: WorldRouter = field(repr=False)
    service: ServiceId | None
    alive: bool = True
    unsent: list[Step] = field(default_factory=list, repr=False)
    """What the router sent, or the link reported, and the engine has not been given."""


@dataclass(eq=False)
class WorldQueue:
    """A queue at a router: whose it is, and who gets its messages."""

    service: ServiceId | None = None
    holder: WorldSession | str | None = None


@dataclass(eq=False)
class WorldRouter:
    """A router: queues, services by certificate, and how it behaves today."""

    number: int
    queues: dict[RecipientId, WorldQueue] = field(default_factory=dict)
    services: dict[int, ServiceId] = field(default_factory=dict)
    sessions: list[WorldSession] = field(default_factory=list)
    is_up: bool = True
    offers_services: bool = True
    is_silent: bool = False
    """It takes requests and answers none."""
    error: str | None = None
    """What it answers to every subscribe."""
    service_error: str | None = None
    """What it answers to every subscribe of a service."""


class World:
    """The engine, and everything around it. `now` is its clock."""

    def __init__(self, settings: EngineSettings = MESSAGING, routers: int = 2) -> None:
        self.engine = Engine(settings, seed=7)
        self.records = Records()
        self.routers = {n: WorldRouter(n) for n in range(1, routers + 1)}
        for number in self.routers:
            self.engine.add_router(number, router_address(number))
        self.now = 1000.0
        self.wakes: list[float] = []
        self.jobs: list[Effect] = []
        """What the shell was asked and has not begun."""
        self.read: list[Step] = []
        """What the records answered, and the engine has not been given."""
        self.attempts: dict[SlotKey, int] = {}
        """The attempt or the session that each slot has."""
        self.sessions: dict[tuple[SlotKey, int], WorldSession] = {}
        self.events: list[SubscriptionEvent] = []
        self.settled: list[Settled] = []
        self.reports: list[str] = []
        self.late: list[Step] = []
        """Answers that were given up waiting for."""
        self.stale: list[Step] = []
        """What was given to the engine once, to be given again."""
        self.cuts_pages = False
        """The answers to a page come in two parts."""
        self.log: list[Effect] = []
        """Every effect."""
        self.up: set[ConnectionId] = set()
        """Who was announced up and, as far as the application knows, still is."""
        self.raised: set[ConnectionId] = set()
        """Who was announced up, and not down since."""
        self._ids = count(1)

    # What happens to the engine

    def do(self, effects: list[Effect]) -> None:
        """Take the effects of a call in."""
        self.log += effects
        for effect in effects:
            if self.records.apply(effect):
                continue
            match effect:
                case Announce(event):
                    self._note(event)
                case Settled():
                    self.settled.append(effect)
                case Report(_, text):
                    self.reports.append(text)
                case WakeAt(time):
                    self.wakes.append(time)
                case ConnectRefused():
                    pass
                case Connect(slot, number):
                    assert slot not in self.attempts, "one attempt or session for each slot"
                    self.attempts[slot] = number
                    self.jobs.append(effect)
                case CloseSession(slot, number):
                    self._close(slot, number)
                case SendSubs(session, queues):
                    self._check_page(session, queues)
                    self.jobs.append(effect)
                case SendServiceSub(session):
                    self._check_current(session)
                    assert not any(
                        isinstance(job, SendSubs) and job.session == session for job in self.jobs
                    ), "the service before its queues"
                    self.jobs.append(effect)
                case _:
                    self.jobs.append(effect)

    def _check_current(self, session: SessionKey) -> None:
        assert self.attempts.get(session.slot) == session.number, "sent to the current session"

    def _check_page(self, session: SessionKey, queues: tuple[RecipientId, ...]) -> None:
        self._check_current(session)
        assert 0 < len(queues) <= self.engine.settings.page
        account = (session.slot.user, session.slot.router)
        for queue in queues:
            if queue in self.records.of(account):
                state = self.engine.state_of(*account, self.records.row(account, queue))
                assert state in (QueueState.PENDING, QueueState.COUNTED)

    def _note(self, event: SubscriptionEvent) -> None:
        self.events.append(event)
        match event:
            case Up(_, _, connections):
                assert connections
                assert len(set(connections)) == len(connections), "each once"
                assert not self.up.intersection(connections), "up twice in a row"
                self.up.update(connections)
                self.raised.update(connections)
            case Down(_, _, connections):
                assert connections
                assert len(set(connections)) == len(connections), "each once"
                assert self.raised.issuperset(connections), "down without having been up"
                self.up.difference_update(connections)
                self.raised.difference_update(connections)
            case ServiceDown(user, router) | ServiceEnd(user, router):
                number = router.key_hash[0]
                self.up -= {row.connection for row in self.records.of((user, number)).values()}
            case End(_, _, connection) | Deleted(_, _, connection):
                self.up.discard(connection)
            case _:
                pass

    # The shell

    def run_job(self, index: int) -> None:
        """Begin something that the shell was asked."""
        job = self.jobs.pop(index)
        match job:
            case Connect():
                self._connect(job)
            case ReadPage(user, router, request):
                rows, more = self.records.page(job)
                self.read.append(
                    lambda: self.engine.page_read(user, router, request, rows, more, self.now)
                )
            case ReadTally(session):
                tally = self.records.tally((session.slot.user, session.slot.router))
                self.read.append(lambda: self.engine.tally_read(session, tally, self.now))
            case SendSubs(session, queues):
                self._subscribe(session, queues)
            case SendServiceSub(session, service):
                self._subscribe_service(session, service)
            case _:
                raise AssertionError(job)

    def deliver(self, step: Step) -> None:
        self.stale.append(step)
        del self.stale[:-50]
        self.do(step())

    def deliver_next(self, session: WorldSession) -> None:
        """The next thing of a session, in its order."""
        self.deliver(session.unsent.pop(0))

    def _connect(self, job: Connect) -> None:
        slot, number = job.slot, job.number
        router = self.routers[slot.router]
        if self.attempts.get(slot) != number:
            return
        if not router.is_up:
            del self.attempts[slot]
            self.deliver(lambda: self.engine.connect_failed(slot, number, UNREACHABLE, self.now))
            return
        service = None
        account = (slot.user, slot.router)
        if job.with_service:
            if account not in self.records.certificates:
                self.records.certificates[account] = next(self._ids)
                self.records.services[account] = None
            if router.offers_services:
                certificate = self.records.certificates[account]
                if certificate not in router.services:
                    router.services[certificate] = self.new_service()
                service = router.services[certificate]
        key = SessionKey(slot, number, b"session %d" % next(self._ids))
        session = WorldSession(key, router, service)
        router.sessions.append(session)
        self.sessions[slot, number] = session
        self.deliver(lambda: self.engine.connected(key, service, self.now))

    def new_service(self) -> ServiceId:
        return ServiceId(b"service %d" % next(self._ids))

    def _close(self, slot: SlotKey, number: int) -> None:
        session = self.sessions.pop((slot, number), None)
        if session is not None:
            self._hang_up(session)
        if self.attempts.get(slot) == number:
            del self.attempts[slot]

    def _hang_up(self, session: WorldSession) -> None:
        session.alive = False
        if session in session.router.sessions:
            session.router.sessions.remove(session)
        for queue in session.router.queues.values():
            if queue.holder is session:
                queue.holder = None

    def _found(self, session: SessionKey) -> WorldSession | None:
        found = self.sessions.get((session.slot, session.number))
        return found if found is not None and found.alive else None

    # Routers

    def _subscribe(self, key: SessionKey, queues: tuple[RecipientId, ...]) -> None:
        session = self._found(key)
        if session is None:
            self.read.append(
                lambda: self.engine.answered(
                    key, [NotSubscribed(q, UNREACHABLE) for q in queues], self.now
                )
            )
            return
        answers = [self._answer(session, queue) for queue in queues]
        if session.router.is_silent:
            timeouts: list[Answer] = [NotSubscribed(q, TIMED_OUT) for q in queues]
            session.unsent.append(lambda: self.engine.answered(key, timeouts, self.now))
            self.late.append(lambda: self.engine.answered(key, answers, self.now))
        else:
            cut = len(answers) // 2 if self.cuts_pages else 0
            for part in (answers[:cut], answers[cut:]):
                if part:
                    session.unsent.append(
                        lambda part=part: self.engine.answered(key, part, self.now)  # type: ignore[misc]
                    )

    def _answer(self, session: WorldSession, queue: RecipientId) -> Answer:
        router = session.router
        # No plain session hears of services.
        if router.error is not None and (router.error != "SERVICE" or session.service):
            return NotSubscribed(queue, refused(router.error))
        if queue not in router.queues:
            return NotSubscribed(queue, refused("AUTH"))
        found = router.queues[queue]
        if isinstance(found.holder, WorldSession) and found.holder is not session:
            self._send_end(found.holder, queue)
        found.holder = session
        found.service = session.service
        return Subscribed(queue, session.service)

    def _subscribe_service(self, key: SessionKey, service: ServiceId) -> None:
        session = self._found(key)
        if session is None:
            self.read.append(lambda: self.engine.service_failed(key, UNREACHABLE, self.now))
            return
        router = session.router
        if router.is_silent:
            session.unsent.append(lambda: self.engine.service_failed(key, TIMED_OUT, self.now))
            return
        if router.service_error is not None:
            failure = refused(router.service_error)
            session.unsent.append(lambda: self.engine.service_failed(key, failure, self.now))
            return
        ours = {q: found for q, found in router.queues.items() if found.service == service}
        for queue in ours.values():
            queue.holder = session
        tally = Tally.of(QueueId(q) for q in ours)
        session.unsent.append(lambda: self.engine.service_confirmed(key, service, tally, self.now))
        if self.engine.settings.has_sweep_end:
            session.unsent.append(lambda: self.engine.service_swept(key))

    def _send_end(self, session: WorldSession, queue: RecipientId) -> None:
        account = (session.key.slot.user, session.key.slot.router)

        def end() -> list[Effect]:
            if queue not in self.records.of(account):
                return []
            return self.engine.ended(session.key, self.records.row(account, queue), self.now)

        session.unsent.append(end)

    # What others do

    def add_queue(
        self, user: int, router: int, queue: RecipientId, connection: ConnectionId
    ) -> QueueRow:
        self.records.of((user, router))[queue] = Row(connection)
        self.routers[router].queues[queue] = WorldQueue()
        return self.records.row((user, router), queue)

    def lose(self, session: WorldSession) -> None:
        """The link breaks. What was received before is still handed over."""
        self._hang_up(session)

        def report() -> list[Effect]:
            key = (session.key.slot, session.key.number)
            if self.sessions.pop(key, None) is not None:
                self.attempts.pop(session.key.slot, None)
            return self.engine.lost(session.key, self.now)

        session.unsent.append(report)

    def take_queue(self, router: WorldRouter, queue: RecipientId) -> None:
        """Another client subscribes to the queue for itself."""
        found = router.queues[queue]
        if isinstance(found.holder, WorldSession):
            self._send_end(found.holder, queue)
        found.holder = OTHER
        found.service = None

    def take_service(self, session: WorldSession) -> None:
        """Another client with the same certificate subscribes to the service."""
        service = session.service
        assert service is not None
        for queue in session.router.queues.values():
            if queue.service == service:
                queue.holder = OTHER
        session.unsent.append(lambda: self.engine.service_ended(session.key, service, self.now))

    def forget_services(self, router: WorldRouter, ids_too: bool) -> None:
        """The router loses the associations of its services, and perhaps the services."""
        for queue in router.queues.values():
            if queue.service is not None:
                queue.service = None
                queue.holder = None
        if ids_too:
            router.services.clear()

    # Until nothing happens any more

    def pending_steps(self) -> Iterator[Callable[[], None]]:
        if self.jobs:
            yield lambda: self.run_job(0)
        if self.read:
            yield lambda: self.deliver(self.read.pop(0))
        for session in self.known_sessions():
            if session.unsent:
                yield lambda session=session: self.deliver_next(session)  # type: ignore[misc]

    def session(self, router: int, user: int = 1) -> WorldSession:
        """The session that the user has at this router."""
        slot = SlotKey(user, router)
        return self.sessions[slot, self.attempts[slot]]

    def jobs_of(self, kind: type[T]) -> list[T]:
        return [job for job in self.jobs if isinstance(job, kind)]

    def take_events(self) -> list[SubscriptionEvent]:
        """The events since the last call."""
        found, self.events = self.events, []
        return found

    def known_sessions(self) -> list[WorldSession]:
        return list(self.sessions.values())

    def run(self, limit: int = 20_000) -> None:
        """Everything that can happen now, in order."""
        for _ in range(limit):
            step = next(self.pending_steps(), None)
            if step is None:
                return
            step()
        raise AssertionError("it goes on for ever without time passing")

    def run_until(self, time: float, rounds: int = 3_000) -> None:
        """Let time pass."""
        for _ in range(rounds):
            self.run()
            due = [at for at in self.wakes if at <= time]
            if not due:
                self.now = max(self.now, time)
                return
            self.now = max(self.now, min(due))
            self.wakes = [at for at in self.wakes if at > self.now]
            self.do(self.engine.tick(self.now))
        raise AssertionError("it never rests")

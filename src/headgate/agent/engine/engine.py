"""The engine of an agent: events come in, work goes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.agent.engine.answers import Answer, Failure, NotSubscribed
from headgate.agent.engine.context import EngineContext
from headgate.agent.engine.driving import Driving
from headgate.agent.engine.effects import DeleteService, Effect
from headgate.agent.engine.queue_states import QueueState
from headgate.agent.engine.service_steps import ServiceSteps
from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.sessions import Sessions
from headgate.agent.engine.settings import MESSAGING, EngineSettings
from headgate.agent.engine.slots import Phase
from headgate.agent.engine.subscribing import Subscribing
from headgate.agent.engine.subscription_answers import SubscriptionAnswers
from headgate.agent.events import ProblemKind, Suspended
from headgate.agent.model import (
    ConnectionId,
    QueueRow,
    RecipientId,
    RouterId,
    SessionKey,
    SessionMode,
    SlotKey,
    UserId,
)
from headgate.client.smp.failures import FailureKind
from headgate.core.model.ids import ServiceId
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.errors import ConfigError
from headgate.wire.smp.codec.router_address import RouterAddress

NOT_TOGETHER = (
    "services need one session for each router, and the user has one for each connection:"
    " switch services off, or the session mode to shared"
)


@value
class SlotStatus:
    """The status of a slot."""

    slot: SlotKey
    phase: Phase
    pending: int
    active: int
    is_reading: bool
    """Whether queues are still to be read, so that `pending` is not complete."""
    service: ServiceState
    tally: Tally
    """The tally of the service, as the current session confirmed it."""


class Engine:
    """The engine: decides which queues are subscribed, when and in which session. It does no I/O.

    Each call takes an event and the time, on a clock that never goes back, and returns effects, in
    order. The state has changed when a call returns, so every announcement is true by then
    (S000-63, S000-81). Calls do not overlap: one event loop makes them all.
    """

    def __init__(self, settings: EngineSettings = MESSAGING, seed: int = 0) -> None:
        self._context = EngineContext(settings, seed)
        self._driving = Driving(self._context)
        self._sessions = Sessions(self._context, self._driving)
        self._subscribing = Subscribing(self._context, self._driving)
        self._answers = SubscriptionAnswers(self._context, self._driving, self._sessions)
        self._services = ServiceSteps(self._context, self._driving, self._sessions)
        self._is_suspending = False

    @property
    def settings(self) -> EngineSettings:
        return self._context.settings

    # Users and routers

    def add_router(self, router: RouterId, address: RouterAddress) -> None:
        """Add a router, before any other call names it."""
        self._context.routers[router] = address

    def add_user(
        self, user: UserId, *, services: bool = False, mode: SessionMode = SessionMode.SHARED
    ) -> None:
        """Add a user, before any other call names it."""
        # S004-22: with services from the beginning, if requested.
        self._check(services, mode)
        found = self._context.user(user)
        found.services = services
        found.mode = mode

    def load_service(
        self, user: UserId, router: RouterId, service: ServiceId | None, tally: Tally
    ) -> list[Effect]:
        """Load a service of the user at this router from the records; called once, at the start."""
        account = self._context.account(user, router)
        account.service = service
        account.has_flags = tally.count > 0
        if not self._context.user(user).services:
            # S004-21: services were switched off meanwhile.
            account.service = None
            account.clear_flags()
            self._context.emit(DeleteService(user, router))
        return self._flush()

    def set_services(self, user: UserId, on: bool, now: float) -> list[Effect]:
        """Switch services on or off. Sessions are made again; no queue is lost."""
        found = self._context.user(user)
        self._check(on, found.mode)
        if found.services != on:
            found.services = on
            for account in self._context.accounts.values():
                if account.user != user:
                    continue
                account.service_refusals = 0
                slot = self._context.slots.get(account.shared_slot)
                if slot is not None:
                    self._driving.drop(slot, now, close=True)
                    slot.worker.reset()
                if not on and (account.service is not None or account.has_flags):
                    # S004-21: record and flags are removed, and every queue is subscribed singly.
                    self._sessions.forget_service(slot, account)
                elif slot is not None and not on:
                    slot.service.clear()
                self._driving.advance(account.shared_slot, now)
        return self._flush()

    def set_mode(self, user: UserId, mode: SessionMode, now: float) -> list[Effect]:
        """Change how queues share sessions: all sessions end, and all queues are pending in slots
        of the new kind."""
        context = self._context
        found = context.user(user)
        self._check(found.services, mode)
        if found.mode is not mode:
            found.mode = mode
            moved = []
            for slot in context.slots_of(user):
                self._driving.drop(slot, now, close=True)
                moved += [
                    (slot.key.router, queue, connection, queue in slot.states.flagged)
                    for queue, connection in slot.states.pending.items()
                ]
                del context.slots[slot.key]
            for router, queue, connection, is_flagged in moved:
                account = context.account(user, router)
                new = context.slot(context.slot_key(account, connection))
                new.states.want(queue, connection, is_flagged)
            self._driving.advance_all(now)
        return self._flush()

    def _check(self, services: bool, mode: SessionMode) -> None:
        # S004-15: a service has one session, so there cannot be one for each connection.
        if services and mode is SessionMode.ENTITY:
            raise ConfigError(NOT_TOGETHER)

    # Wanted queues.

    def stamp(self, user: UserId, router: RouterId) -> int:
        """A stamp to take before rows are read for `want`, and to pass with them."""
        return self._context.account(user, router).clears

    def want(
        self,
        user: UserId,
        router: RouterId,
        rows: Iterable[QueueRow],
        now: float,
        as_of: int | None = None,
    ) -> list[Effect]:
        """Subscribe these queues and keep them subscribed. `Settled` has the outcome of each."""
        self._subscribing.want(user, router, rows, now, as_of)
        return self._flush()

    def want_all(self, user: UserId, router: RouterId, now: float) -> list[Effect]:
        """Subscribe every queue in the records of this user at this router: the service first, then
        the queues outside of it, page by page."""
        self._subscribing.want_all(user, router, now)
        return self._flush()

    def unwant(
        self, user: UserId, router: RouterId, rows: Iterable[QueueRow], now: float
    ) -> list[Effect]:
        """Do not subscribe these queues again until that is requested."""
        self._subscribing.unwant(user, router, rows, now)
        return self._flush()

    def remove(self, user: UserId, router: RouterId, row: QueueRow, now: float) -> list[Effect]:
        """Remove a queue that we deleted, in the records as well."""
        self._subscribing.remove(user, router, row, now)
        return self._flush()

    def remove_all(
        self, user: UserId, router: RouterId, rows: Iterable[QueueRow], now: float
    ) -> list[Effect]:
        """Remove many queues."""
        self._subscribing.remove_all(user, router, rows, now)
        return self._flush()

    def withdrawn(
        self, session: SessionKey, page: int, queues: Iterable[RecipientId], now: float
    ) -> list[Effect]:
        """Note that queues of a `SendSubs` are gone from the records, and not sent. If one of them
        is wanted again, it comes with a later page."""
        self._subscribing.withdrawn(session, page, queues, now)
        return self._flush()

    def page_read(
        self,
        user: UserId,
        router: RouterId,
        request: int,
        rows: Sequence[QueueRow],
        more: bool,
        now: float,
    ) -> list[Effect]:
        """Take the rows that `ReadPage` requested, and whether there are more after them."""
        self._subscribing.page_read(user, router, request, rows, more, now)
        return self._flush()

    def read_failed(self, user: UserId, router: RouterId, request: int, now: float) -> list[Effect]:
        """Note that the records could not be read for `ReadPage`."""
        self._subscribing.read_failed(user, router, request, now)
        return self._flush()

    def lock(self, user: UserId, router: RouterId, row: QueueRow) -> bool:
        """Begin a GET. False if the queue is subscribed, or about to be. The lock ends with
        `unlock` (after the ACK, or an empty answer) and with the session."""
        return self._subscribing.lock(user, router, row)

    def unlock(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        self._subscribing.unlock(user, router, row)

    # Sessions

    def need(self, slot: SlotKey, now: float) -> list[Effect]:
        """Have the session opened, for any command. If it is open, nothing happens."""
        self._sessions.need(slot, now)
        return self._flush()

    def connected(
        self, session: SessionKey, service: ServiceId | None, now: float, *, shown: bool = True
    ) -> list[Effect]:
        """Note that the session is open; no command may be sent before this returns. `shown` is
        False if the service was not shown because the router's version is too low for it (S001-23,
        S001-24)."""
        self._sessions.connected(session, service, shown, now)
        return self._flush()

    def connect_failed(
        self, slot: SlotKey, number: int, failure: Failure, now: float
    ) -> list[Effect]:
        """Note that the attempt of this number failed."""
        self._sessions.connect_failed(slot, number, failure, now)
        return self._flush()

    def lost(self, session: SessionKey, now: float) -> list[Effect]:
        """Note that the session ended, on either side."""
        self._sessions.lost(session, now)
        return self._flush()

    def step_failed(self, session: SessionKey, text: str, now: float) -> list[Effect]:
        """Note an internal error of the shell for this session. Its requests count as failed, and
        are tried again."""
        context = self._context
        slot = context.current(session)
        if slot is not None:
            failures = slot.worker.count_failure(now)
            is_critical = failures > context.settings.failures_max
            kind = ProblemKind.CRITICAL if is_critical else ProblemKind.STEP
            context.problem(slot.key, kind, text)
            if is_critical:
                slot.worker.rest(now, longest=True)
            failure = Failure(FailureKind.TEMPORARY, text)
            sent = [*slot.states.pending.sent, *slot.states.checks.sent]
            if slot.service.state is ServiceState.ASKED:
                self._services.failed(session, failure, now)
            self._answers.take(session, [NotSubscribed(q, failure) for q in sent], now)
        return self._flush()

    # Answers and events of routers

    def answered(self, session: SessionKey, answers: Sequence[Answer], now: float) -> list[Effect]:
        """Take answers to subscribes of this session, timely or late. The answers of one call are
        announced together."""
        self._answers.take(session, answers, now)
        return self._flush()

    def created(
        self,
        session: SessionKey,
        queue: RecipientId,
        connection: ConnectionId,
        service: ServiceId | None,
        now: float,
        *,
        subscribed: bool = True,
    ) -> list[Effect]:
        """Note that the router created a queue in this session, for this service if for any."""
        self._subscribing.created(session, queue, connection, service, subscribed, now)
        return self._flush()

    def ended(self, session: SessionKey, row: QueueRow, now: float) -> list[Effect]:
        """Handle END of a queue."""
        self._subscribing.ended(session, row, now)
        return self._flush()

    def deleted(self, user: UserId, router: RouterId, row: QueueRow, now: float) -> list[Effect]:
        """Handle DELD of a queue, in any session."""
        self._subscribing.deleted(user, router, row, now)
        return self._flush()

    def tally_read(self, session: SessionKey, tally: Tally, now: float) -> list[Effect]:
        """Take the tally that `ReadTally` requested."""
        self._services.tally_read(session, tally, now)
        return self._flush()

    def service_confirmed(
        self, session: SessionKey, service: ServiceId, tally: Tally, now: float
    ) -> list[Effect]:
        """Handle SOKS, timely or late."""
        self._services.confirmed(session, service, tally, now)
        return self._flush()

    def service_failed(self, session: SessionKey, failure: Failure, now: float) -> list[Effect]:
        """Note that the service was not subscribed, or its tally could not be read."""
        self._services.failed(session, failure, now)
        return self._flush()

    def service_swept(self, session: SessionKey) -> list[Effect]:
        """Handle ALLS."""
        self._services.swept(session)
        return self._flush()

    def service_ended(self, session: SessionKey, service: ServiceId, now: float) -> list[Effect]:
        """Handle ENDS; the entity is the service's."""
        self._services.ended(session, service, now)
        return self._flush()

    # Time and suspension.

    def tick(self, now: float) -> list[Effect]:
        """Do what is due at the time of `WakeAt`; earlier or later calls are harmless."""
        for key in self._context.due(now):
            self._driving.advance(key, now)
        return self._flush()

    def set_online(self, online: bool, now: float) -> list[Effect]:
        turned_on = online and not self._context.is_online
        self._context.is_online = online
        return self._turned_on(now) if turned_on else self._flush()

    def set_foreground(self, foreground: bool, now: float) -> list[Effect]:
        turned_on = foreground and not self._context.is_foreground
        self._context.is_foreground = foreground
        return self._turned_on(now) if turned_on else self._flush()

    def _turned_on(self, now: float) -> list[Effect]:
        """Turn the network on: earlier failures do not count, and every slot tries at once."""
        for slot in self._context.slots.values():
            slot.worker.reset()
            slot.states.pending.begin_round()
            slot.states.checks.begin_round()
            slot.service.begin_round()
        self._driving.advance_all(now)
        return self._flush()

    def suspend(self) -> list[Effect]:
        """Begin nothing more. `Suspended` is announced when nothing is under way."""
        # S000-71: requests under way finish.
        if not self._context.is_suspended:
            self._context.is_suspended = True
            self._is_suspending = True
        return self._flush()

    def suspend_now(self) -> list[Effect]:
        """Do not wait any longer for requests under way."""
        if self._is_suspending:
            self._is_suspending = False
            self._context.announce(Suspended())
        return self._flush()

    def resume(self, now: float) -> list[Effect]:
        self._is_suspending = False
        if self._context.is_suspended:
            self._context.is_suspended = False
            self._driving.advance_all(now)
        return self._flush()

    # State.

    @property
    def ignored(self) -> int:
        """Number of reports without effect, because their subject is gone."""
        return self._context.ignored

    def state_of(self, user: UserId, router: RouterId, row: QueueRow) -> QueueState:
        """The state of a queue. One that its service covers is not active (S001-65): ask for
        `service_of`."""
        account = self._context.account(user, router)
        slot = self._context.slots.get(self._context.slot_key(account, row.connection))
        state = slot.states.state_of(row.id) if slot is not None else QueueState.UNKNOWN
        if state is QueueState.UNKNOWN:
            if row.id in account.left_out:
                return QueueState.REMOVED
            if row.associated and slot is not None and slot.service.is_active:
                return QueueState.COUNTED
        return state

    def service_of(self, user: UserId, router: RouterId) -> ServiceState:
        slot = self._context.slots.get(SlotKey(user, router))
        return ServiceState.NONE if slot is None else slot.service.state

    def status(self) -> list[SlotStatus]:
        """All slots."""
        return [
            SlotStatus(
                slot.key,
                slot.phase,
                len(slot.states.pending),
                len(slot.states.active),
                bool(self._context.account_of(slot.key).readings),
                slot.service.state,
                slot.service.tally,
            )
            for slot in self._context.slots.values()
        ]

    def is_busy(self) -> bool:
        """Whether any request of the engine waits for an answer."""
        return any(
            slot.states.pending.sent
            or slot.states.checks.sent
            or slot.service.state is ServiceState.ASKED
            for slot in self._context.slots.values()
        ) or any(
            account.readings and account.readings[0].is_under_way
            for account in self._context.accounts.values()
        )

    def _flush(self) -> list[Effect]:
        if self._is_suspending and not self.is_busy():
            self._is_suspending = False
            self._context.announce(Suspended())
        return self._context.flush()

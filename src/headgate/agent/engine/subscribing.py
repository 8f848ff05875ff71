"""Queues that are wanted, and what routers answer and report of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.agent.engine.answers import (
    PROHIBITED,
    Answer,
    Failure,
    NotSubscribed,
    Subscribed,
)
from headgate.agent.engine.context import Account, EngineContext
from headgate.agent.engine.driving import Driving
from headgate.agent.engine.effects import (
    Outcome,
    RemoveQueue,
    Report,
    SetAssociated,
    Settled,
    StoreNewQueue,
    StoreNotice,
)
from headgate.agent.engine.queue_states import QueueState
from headgate.agent.engine.readings import Reading
from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.sessions import Sessions
from headgate.agent.engine.slots import Slot
from headgate.agent.events import Deleted, End, ProblemKind, Refusal, Up
from headgate.agent.model import (
    ConnectionId,
    QueueRow,
    RecipientId,
    RouterId,
    SessionKey,
    UserId,
    Which,
)
from headgate.client.smp.failures import FailureKind
from headgate.core.model.ids import QueueId, ServiceId

ENDED = "another client subscribed to it"
UNWANTED = "not wanted any more"


class Batch:
    """What a batch of answers changed in a slot, collected until all of it is known."""

    def __init__(self) -> None:
        self.raised: list[ConnectionId] = []
        self.outcomes: list[Outcome] = []
        self.associated: list[RecipientId] = []
        self.separated: list[RecipientId] = []
        self.refusals: list[Refusal] = []
        self.blocked: list[Refusal] = []


class Subscribing:
    """Carries out what is wanted, and takes answers and events of routers in."""

    def __init__(self, context: EngineContext, driving: Driving, sessions: Sessions) -> None:
        self._context = context
        self._driving = driving
        self._sessions = sessions

    # What is wanted

    def want(
        self,
        user: UserId,
        router: RouterId,
        rows: Iterable[QueueRow],
        now: float,
        as_of: int | None = None,
    ) -> None:
        context = self._context
        account = context.account(user, router)
        account.is_receiving = True
        # What was read before the flags were cleared does not belong to the service any more.
        is_fresh = as_of is None or as_of == account.clears
        outcomes: dict[Slot, list[Outcome]] = {}
        for row in rows:
            account.left_out.pop(row.id, None)
            slot = context.slot(context.slot_key(account, row.connection))
            slot.service.want()
            settled = outcomes.setdefault(slot, [])
            state = slot.states.state_of(row.id)
            if state is QueueState.LOCKED:
                # S000-55: left out and reported, while the others go on.
                settled.append(Outcome(row.id, row.connection, PROHIBITED))
            elif state in (QueueState.ACTIVE, QueueState.COUNTED):
                settled.append(Outcome(row.id, row.connection))
            elif state is QueueState.UNKNOWN:
                is_flagged = row.associated and is_fresh
                if is_flagged and slot.service.is_active:
                    # The service has it.
                    settled.append(Outcome(row.id, row.connection))
                else:
                    slot.states.want(row.id, row.connection, is_flagged)
        for slot, settled in outcomes.items():
            if settled:
                context.emit(Settled(slot.key, tuple(settled)))
            # S000-59: each slot goes its own way; none waits for another.
            self._driving.advance(slot.key, now)

    def want_all(self, user: UserId, router: RouterId, now: float) -> None:
        context = self._context
        account = context.account(user, router)
        account.is_receiving = True
        account.left_out.clear()
        # Without services nothing may be left to them.
        leaves_out = context.settings.trust_tally and context.user(user).services
        checks = not context.settings.trust_tally
        account.readings = [Reading(Which.SINGLE if leaves_out else Which.ALL, checks)]
        for slot in context.slots_of(user):
            if slot.key.router == router:
                slot.service.want()
                slot.service.ask_again()
        self._driving.advance(account.shared_slot, now)

    def unwant(self, user: UserId, router: RouterId, rows: Iterable[QueueRow], now: float) -> None:
        """Queues that nobody wants any more. Answers that come later are ignored."""
        account = self._context.account(user, router)
        for row in rows:
            account.left_out[row.id] = UNWANTED
            self._forget(account, row)
            self._driving.advance(self._context.slot_key(account, row.connection), now)

    def remove(self, user: UserId, router: RouterId, row: QueueRow, now: float) -> None:
        """A queue that we deleted ourselves."""
        self.remove_all(user, router, [row], now)

    def remove_all(
        self, user: UserId, router: RouterId, rows: Iterable[QueueRow], now: float
    ) -> None:
        account = self._context.account(user, router)
        touched = {}
        for row in rows:
            self._leave_service(account, row)
            self._forget(account, row)
            account.forget(row.id)
            touched[self._context.slot_key(account, row.connection)] = True
        for key in touched:
            self._driving.advance(key, now)

    def withdrawn(
        self, session: SessionKey, page: int, queues: Iterable[RecipientId], now: float
    ) -> None:
        """Queues of the page that was to be sent, and that the records do not have any more."""
        slot = self._context.current(session)
        if slot is None or slot.page != page:
            return
        for queue in queues:
            # One that is wanted again waits for the next page, and is not this one.
            slot.states.pending.sent.pop(queue, None)
            slot.states.checks.sent.pop(queue, None)
            if queue not in slot.states.pending:
                slot.states.flagged.discard(queue)
        self._driving.advance(slot.key, now)

    # What was read

    def page_read(
        self,
        user: UserId,
        router: RouterId,
        request: int,
        rows: Sequence[QueueRow],
        more: bool,
        now: float,
    ) -> None:
        account = self._context.account(user, router)
        reading = account.readings[0] if account.readings else None
        if reading is None or reading.request != request:
            self._context.ignored += 1
            return
        reading.advance(rows[-1].id if rows else None)
        touched = {}
        for row in rows:
            if row.id not in account.left_out and row.id not in account.gone:
                slot = self._context.slot(self._context.slot_key(account, row.connection))
                self._place(slot, row, reading.checks)
                touched[slot.key] = slot
        if not more:
            account.readings.pop(0)
            if not account.readings:
                account.gone.clear()
        for key in [*touched, account.shared_slot]:
            self._driving.advance(key, now)

    def read_failed(self, user: UserId, router: RouterId, request: int, now: float) -> None:
        account = self._context.account(user, router)
        if account.readings and account.readings[0].request == request:
            retry_at = now + self._context.settings.delays.first
            account.readings[0].fail(retry_at)
            self._context.wake(account.shared_slot, retry_at)

    def _place(self, slot: Slot, row: QueueRow, checks: bool) -> None:
        """A queue that was read becomes pending, unless it is known or its service has it."""
        states, service = slot.states, slot.service
        state = states.state_of(row.id)
        if state is QueueState.LOCKED:
            outcome = Outcome(row.id, row.connection, PROHIBITED)
            self._context.emit(Settled(slot.key, (outcome,)))
        elif state is not QueueState.UNKNOWN:
            return
        elif row.associated and service.is_active:
            if checks:
                states.checks.waiting[row.id] = row.connection
        elif not (row.associated and service.state is ServiceState.ENDED):
            states.want(row.id, row.connection, row.associated)

    # What routers answered

    def answered(self, session: SessionKey, answers: Sequence[Answer], now: float) -> None:
        """Answers to subscribes, timely or late, of one batch."""
        context = self._context
        slot = context.current(session)
        if slot is None:
            return
        refused = self._service_failure(slot, answers)
        if refused is not None:
            self._sessions.fall_back(slot, refused.text, now)
            self._driving.advance(slot.key, now)
            return
        had_page = bool(slot.states.pending.sent or slot.states.checks.sent)
        batch = Batch()
        for answer in answers:
            if isinstance(answer, Subscribed):
                self._subscribed(slot, answer, batch)
            else:
                self._not_subscribed(slot, answer, batch)
        self._conclude(slot, batch)
        page_done = had_page and not (slot.states.pending.sent or slot.states.checks.sent)
        if page_done and not slot.page_answered and slot.has_nothing_active:
            # A session that answers nothing would be kept for ever.
            self._sessions.close(slot, now)
        self._driving.advance(slot.key, now)

    def _service_failure(self, slot: Slot, answers: Sequence[Answer]) -> Failure | None:
        """The first service error, if the session has a service that it can be about."""
        if slot.service.id is None:
            return None
        for answer in answers:
            if isinstance(answer, NotSubscribed) and answer.failure.kind is FailureKind.SERVICE:
                return answer.failure
        return None

    def _subscribed(self, slot: Slot, answer: Subscribed, batch: Batch) -> None:
        states, service, queue = slot.states, slot.service, answer.queue
        ours = service.id is not None and answer.service == service.id
        slot.page_answered = True
        if queue in states.checks:
            self._checked(slot, answer, ours, batch)
            return
        is_flagged = queue in states.flagged
        # S000-61, S001-66: OK, SOK of nobody or another service, and a message make it active.
        connection = states.count(queue) if ours else states.activate(queue)
        if connection is None:
            self._context.ignored += 1
            return
        if ours:
            self._context.account_of(slot.key).service_refusals = 0
            if not is_flagged:
                # S004-17: whether the answer was timely or late.
                batch.associated.append(queue)
            service.add(QueueId(queue))
        elif is_flagged and not answer.by_message:
            states.flagged.discard(queue)
            batch.separated.append(queue)
        self._context.announcements.hold(connection)
        # S000-70: a late answer counts as a timely one does.
        batch.raised.append(connection)
        batch.outcomes.append(Outcome(queue, connection))

    def _checked(self, slot: Slot, answer: Subscribed, ours: bool, batch: Batch) -> None:
        """A queue of the service was subscribed once more. It stays counted if it still is."""
        connection = slot.states.checks.discard(answer.queue)
        assert connection is not None, "a queue that was checked"
        if not (ours or answer.by_message):
            batch.separated.append(answer.queue)
            slot.service.remove(QueueId(answer.queue))
            slot.states.active[answer.queue] = connection
            self._context.announcements.hold(connection)
            batch.raised.append(connection)

    def _not_subscribed(self, slot: Slot, answer: NotSubscribed, batch: Batch) -> None:
        states, queue, failure = slot.states, answer.queue, answer.failure
        is_check = queue in states.checks
        pending = states.checks if is_check else states.pending
        if queue not in pending:
            self._context.ignored += 1
            return
        if failure.kind in (FailureKind.TEMPORARY, FailureKind.HOST):
            # S000-87: it stays pending, and the worker tries again.
            connection = pending.postpone(queue)
            if not is_check:
                batch.outcomes.append(Outcome(queue, connection, failure))
            return
        slot.page_answered = True
        removed = pending.discard(queue)
        assert removed is not None, "a queue that was pending"
        if is_check or queue in states.flagged:
            # What the router does not have is no queue of the service.
            batch.separated.append(queue)
            states.flagged.discard(queue)
        self._context.account_of(slot.key).left_out[queue] = failure.text
        batch.outcomes.append(Outcome(queue, removed, failure))
        refusal = Refusal(removed, failure.text)
        if failure.kind is FailureKind.BLOCKED:
            self._context.emit(StoreNotice(slot.key.router, queue, failure.text))
            batch.blocked.append(refusal)
        else:
            batch.refusals.append(refusal)

    def _conclude(self, slot: Slot, batch: Batch) -> None:
        """Store and announce what a batch changed, each kind once."""
        context, key = self._context, slot.key
        for queues, associated in ((batch.associated, True), (batch.separated, False)):
            if queues:
                # S001-86, S004-25: by their ids, all at once.
                context.emit(SetAssociated(key.user, key.router, tuple(queues), associated))
        if batch.separated:
            context.account_of(key).clears += 1
        if batch.associated:
            context.account_of(key).has_flags = True
        if batch.outcomes:
            context.emit(Settled(key, tuple(batch.outcomes)))
        up = context.announcements.raise_up(batch.raised)
        if up:
            # S000-63, S000-73: those that the batch made active, together, after the change.
            context.announce(Up(key.user, context.routers[key.router], up))
        if batch.refusals:
            context.problem(key, ProblemKind.REFUSED, refusals=tuple(batch.refusals))
        if batch.blocked:
            context.problem(key, ProblemKind.BLOCKED, refusals=tuple(batch.blocked))

    # What routers reported

    def ended(self, session: SessionKey, row: QueueRow, now: float) -> None:
        """END: another session has the queue."""
        context = self._context
        slot = context.current(session)
        if slot is None:
            return
        is_covered = row.associated and slot.service.is_active
        if slot.states.state_of(row.id) is QueueState.UNKNOWN and not is_covered:
            context.ignored += 1
            return
        account = context.account_of(slot.key)
        is_associated = row.associated or row.id in slot.states.counted
        # S000-69: gone until somebody asks for it.
        account.left_out[row.id] = ENDED
        self._forget(account, row)
        if is_associated:
            # Who subscribes for itself takes the queue from the service.
            account.clears += 1
            slot.service.remove(QueueId(row.id))
            key = slot.key
            context.emit(SetAssociated(key.user, key.router, (row.id,), associated=False))
        context.announce(End(account.user, context.routers[account.router], row.connection))
        self._driving.advance(slot.key, now)

    def deleted(self, user: UserId, router: RouterId, row: QueueRow, now: float) -> None:
        """DELD: the queue is no more, whichever session reports it."""
        context = self._context
        account = context.account(user, router)
        self._leave_service(account, row)
        self._forget(account, row)
        account.forget(row.id)
        context.emit(RemoveQueue(router, row.id))
        context.announce(Deleted(user, context.routers[router], row.connection))
        self._driving.advance(context.slot_key(account, row.connection), now)

    def created(
        self,
        session: SessionKey,
        queue: RecipientId,
        connection: ConnectionId,
        service: ServiceId | None,
        subscribed: bool,
        now: float,
    ) -> None:
        """A queue was created in this session, for this service if for any."""
        context = self._context
        key = session.slot
        account = context.account_of(key)
        account.is_receiving = True
        slot = context.slots.get(key)
        is_current = slot is not None and slot.is_current(session)
        expected = slot.service.id if slot is not None and is_current else account.service
        # S004-18: only the session's own service is believed.
        associated = service is not None and service == expected
        if service != expected:
            text = "a queue was created for another service than that of the session"
            context.emit(Report(key, text))
        context.emit(StoreNewQueue(key.user, key.router, queue, connection, associated))
        account.has_flags = account.has_flags or associated
        if slot is None or not (is_current and subscribed):
            self.want(key.user, key.router, [QueueRow(queue, connection, associated)], now)
            return
        if associated:
            slot.states.counted[queue] = connection
            slot.service.add(QueueId(queue))
        else:
            slot.states.active[queue] = connection
        # The application has just made it, and knows; it hears of it when it goes down.
        context.announcements.hold(connection)
        context.announcements.raise_up([connection])
        slot.service.want()
        self._driving.advance(key, now)

    # Locks

    def lock(self, user: UserId, router: RouterId, row: QueueRow) -> bool:
        """Begin a GET, unless the queue is subscribed or about to be."""
        context = self._context
        slot = context.slot(context.slot_key(context.account(user, router), row.connection))
        is_covered = row.associated and slot.service.is_active
        if is_covered or slot.states.state_of(row.id) is not QueueState.UNKNOWN:
            return False
        slot.states.locked.add(row.id)
        return True

    def unlock(self, user: UserId, router: RouterId, row: QueueRow) -> None:
        context = self._context
        slot = context.slots.get(context.slot_key(context.account(user, router), row.connection))
        if slot is not None:
            slot.states.locked.discard(row.id)

    def _leave_service(self, account: Account, row: QueueRow) -> None:
        """A queue that is no more is in no tally of the session."""
        slot = self._context.slots.get(self._context.slot_key(account, row.connection))
        if slot is None:
            return
        is_covered = row.associated and slot.service.is_active
        if is_covered or row.id in slot.states.counted:
            slot.service.remove(QueueId(row.id))

    def _forget(self, account: Account, row: QueueRow) -> None:
        """Take the queue out of its slot; its connection leaves with its last queue, without an
        event: whoever calls knows, or announces something else."""
        slot = self._context.slots.get(self._context.slot_key(account, row.connection))
        if slot is None:
            return
        state = slot.states.state_of(row.id)
        is_check = row.id in slot.states.checks
        slot.states.discard(row.id)
        if state is QueueState.ACTIVE or (state is QueueState.COUNTED and not is_check):
            self._context.announcements.release([row.connection])

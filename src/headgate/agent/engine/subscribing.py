"""Wanted queues, and events of routers about them. `subscription_answers` handles answers to
subscribes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.agent.engine.answers import (
    PROHIBITED,
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
)
from headgate.agent.engine.queue_states import QueueState
from headgate.agent.engine.readings import Reading
from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.slots import Slot
from headgate.agent.events import Deleted, End
from headgate.agent.model import (
    ConnectionId,
    QueueRow,
    RecipientId,
    RouterId,
    SessionKey,
    UserId,
    Which,
)
from headgate.core.model.ids import QueueId, ServiceId

ENDED = "another client subscribed to it"
UNWANTED = "not wanted any more"


class Subscribing:
    """The part of an engine that takes wanted queues, and events of routers."""

    def __init__(self, context: EngineContext, driving: Driving) -> None:
        self._context = context
        self._driving = driving

    # Wanted queues.

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
        # Rows read before the flags were cleared do not belong to the service any more.
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
                    # The service covers it.
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
        # Without services no queue may be left to them.
        leaves_out = context.settings.trust_tally and context.user(user).services
        checks = not context.settings.trust_tally
        account.readings = [Reading(Which.SINGLE if leaves_out else Which.ALL, checks)]
        for slot in context.slots_of(user):
            if slot.key.router == router:
                slot.service.want()
                slot.service.ask_again()
        self._driving.advance(account.shared_slot, now)

    def unwant(self, user: UserId, router: RouterId, rows: Iterable[QueueRow], now: float) -> None:
        """Remove queues that are not wanted any more. Later answers are ignored."""
        account = self._context.account(user, router)
        for row in rows:
            account.left_out[row.id] = UNWANTED
            self._forget(account, row)
            self._driving.advance(self._context.slot_key(account, row.connection), now)

    def remove(self, user: UserId, router: RouterId, row: QueueRow, now: float) -> None:
        """Remove a queue that we deleted ourselves."""
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
        """Remove queues of the next page that the records do not have any more."""
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

    # Rows of the records.

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
        """Make a queue that was read pending, unless it is known or its service covers it."""
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

    # Events of routers.

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
        # S000-69: removed until it is requested again.
        account.left_out[row.id] = ENDED
        self._forget(account, row)
        if is_associated:
            # A client that subscribes singly takes the queue from the service.
            account.clears += 1
            slot.service.remove(QueueId(row.id))
            key = slot.key
            context.emit(SetAssociated(key.user, key.router, (row.id,), associated=False))
        context.announce(End(account.user, context.routers[account.router], row.connection))
        self._driving.advance(slot.key, now)

    def deleted(self, user: UserId, router: RouterId, row: QueueRow, now: float) -> None:
        """Handle DELD: the queue is gone, in all sessions."""
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
        """Note a queue created in this session, for this service if for any."""
        context = self._context
        key = session.slot
        account = context.account_of(key)
        account.is_receiving = True
        slot = context.slots.get(key)
        is_current = slot is not None and slot.is_current(session)
        expected = slot.service.id if slot is not None and is_current else account.service
        # S004-18: only the session's own service counts.
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
        # The application has just made it, and knows; it is notified when it goes down.
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
        """Remove a deleted queue from the tallies of the session."""
        slot = self._context.slots.get(self._context.slot_key(account, row.connection))
        if slot is None:
            return
        is_covered = row.associated and slot.service.is_active
        if is_covered or row.id in slot.states.counted:
            slot.service.remove(QueueId(row.id))

    def _forget(self, account: Account, row: QueueRow) -> None:
        """Remove the queue from its slot; its connection goes with its last queue, without an
        event: the caller knows, or announces something else."""
        slot = self._context.slots.get(self._context.slot_key(account, row.connection))
        if slot is None:
            return
        state = slot.states.state_of(row.id)
        is_check = row.id in slot.states.checks
        slot.states.discard(row.id)
        if state is QueueState.ACTIVE or (state is QueueState.COUNTED and not is_check):
            self._context.announcements.release([row.connection])

"""Sessions as the shell reports them: opened, failed, lost; and the services they show."""

from __future__ import annotations

from headgate.agent.engine.answers import Failure
from headgate.agent.engine.context import Account, EngineContext
from headgate.agent.engine.driving import Driving
from headgate.agent.engine.effects import (
    CloseSession,
    ConnectRefused,
    DeleteService,
    Report,
    StoreServiceId,
)
from headgate.agent.engine.slots import Phase, Slot
from headgate.agent.events import ProblemKind
from headgate.agent.model import SessionKey, SlotKey
from headgate.client.smp.failures import FailureKind
from headgate.core.model.ids import ServiceId

NO_SERVICE_HERE = "the router offers no service any more"


class Sessions:
    """The part of an engine that handles the shell's reports of sessions."""

    def __init__(self, context: EngineContext, driving: Driving) -> None:
        self._context = context
        self._driving = driving

    def need(self, key: SlotKey, now: float) -> None:
        """Have the session of a slot opened, for any command."""
        slot = self._context.slot(key)
        if slot.phase is not Phase.EMPTY:
            return
        failure = slot.recent_failure(now)
        if failure is not None:
            self._context.emit(ConnectRefused(key, failure))
        else:
            self._driving.connect(slot)

    def connected(
        self, session: SessionKey, service: ServiceId | None, shown: bool, now: float
    ) -> None:
        context = self._context
        slot = context.slots.get(session.slot)
        if slot is None or slot.phase is Phase.EMPTY or slot.number != session.number:
            # This one is no longer wanted.
            context.ignored += 1
            context.emit(CloseSession(session.slot, session.number))
            return
        if slot.is_open:
            if slot.session == session.session:
                context.ignored += 1
                return
            # A new session id without a reported loss: active queues are not active any more.
            self._driving.drop(slot, now, close=False)
        slot.open(session.session, now)
        slot.worker.rest_until = None
        account = context.account_of(slot.key)
        ours = self._sync_service(slot, account, service, shown)
        slot.service.open(ours, account.is_receiving)
        self._driving.advance(slot.key, now)

    def connect_failed(self, key: SlotKey, number: int, failure: Failure, now: float) -> None:
        context = self._context
        slot = context.slots.get(key)
        if slot is None or slot.phase is not Phase.CONNECTING or slot.number != number:
            context.ignored += 1
            return
        # S004-19: on any failure, the record of the service stays as it is.
        slot.fail(failure, now + context.settings.failure_seconds)
        lasting = failure.kind not in (FailureKind.TEMPORARY, FailureKind.SERVICE)
        slot.worker.rest(now, longest=lasting)
        if lasting:
            context.problem_of_router(key, failure.text, now)
        self._driving.advance(key, now)

    def lost(self, session: SessionKey, now: float) -> None:
        slot = self._context.current(session)
        if slot is not None:
            self._driving.drop(slot, now, close=False)
            slot.worker.lose_session(slot.opened_at, now)
            self._driving.advance(slot.key, now)

    def close(self, slot: Slot, now: float) -> None:
        """End a session that is not needed."""
        self._driving.drop(slot, now, close=True)
        slot.worker.rest(now)

    def fall_back(self, slot: Slot, text: str, now: float) -> None:
        """Forget a service that cannot be used, and subscribe its queues one by one."""
        context, key = self._context, slot.key
        account = context.account_of(key)
        # The session belongs to a service that is gone, so it ends, too.
        self._driving.drop(slot, now, close=True)
        account.service_refusals += 1
        if account.service_refusals > 1:
            slot.worker.rest(now)
        self.forget_service(slot, account)
        # S004-24: the application gets to know.
        context.problem(key, ProblemKind.SERVICE, text)

    def forget_service(self, slot: Slot | None, account: Account) -> None:
        """Delete the record and every association of this account."""
        # S001-84, S004-20: at once, and those of this router only.
        self._context.emit(DeleteService(account.user, account.router))
        account.service = None
        account.clear_flags()
        # S001-85: every queue is pending until it has an answer of its own.
        account.read_all()
        if slot is not None:
            slot.service.clear()
            slot.states.flagged.clear()

    def _sync_service(
        self, slot: Slot, account: Account, service: ServiceId | None, shown: bool
    ) -> ServiceId | None:
        """Compare the router's service with the record; return the service of the session."""
        context, key = self._context, slot.key
        if not slot.with_service:
            if service is not None:
                # S001-80: it was not requested.
                context.emit(Report(key, "the router gave a service id that was not asked for"))
            return None
        if service is None:
            if account.service is not None or account.has_flags:
                # S001-79: the record is removed, and its queues are subscribed singly.
                self.forget_service(slot, account)
                context.problem(key, ProblemKind.SERVICE, NO_SERVICE_HERE)
            elif shown:
                context.emit(DeleteService(account.user, account.router))
            return None
        # S001-77: the same id changes nothing.
        if account.service != service:
            changed = account.service is not None or account.has_flags
            account.service = service
            # S001-8, S001-78: stored from the first handshake on; another id clears the queues of
            # the old one, in the same transaction, and those are subscribed again.
            context.emit(StoreServiceId(account.user, account.router, service, clear=changed))
            if changed:
                account.clear_flags()
                slot.states.flagged.clear()
                account.read_all()
        return service

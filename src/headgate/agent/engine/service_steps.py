"""Steps of a service by the answers and events of routers."""

from __future__ import annotations

from headgate.agent.engine.answers import Failure
from headgate.agent.engine.context import EngineContext
from headgate.agent.engine.driving import Driving
from headgate.agent.engine.effects import (
    ClearAssociations,
    Outcome,
    Report,
    SendServiceSub,
    Settled,
)
from headgate.agent.engine.services import ServiceState
from headgate.agent.engine.sessions import Sessions
from headgate.agent.engine.slots import Slot
from headgate.agent.events import ServiceAll, ServiceEnd, ServiceUp
from headgate.agent.model import SessionKey, Which
from headgate.client.smp.failures import FailureKind
from headgate.core.model.ids import ServiceId
from headgate.core.model.tally import Tally


class ServiceSteps:
    """The steps by which services are subscribed."""

    def __init__(self, context: EngineContext, driving: Driving, sessions: Sessions) -> None:
        self._context = context
        self._driving = driving
        self._sessions = sessions

    def tally_read(self, session: SessionKey, tally: Tally, now: float) -> None:
        """Subscribe the service with the tally that the records expect."""
        slot = self._asked(session)
        if slot is None:
            return
        service = slot.service
        assert service.id is not None, "a session with a service"
        if service.expect(tally):
            self._context.emit(SendServiceSub(session, service.id, tally))
            return
        # The records have no queue of the service, so pending ones are subscribed singly.
        slot.states.flagged.clear()
        self._driving.advance(slot.key, now)

    def confirmed(self, session: SessionKey, service: ServiceId, tally: Tally, now: float) -> None:
        """Handle SOKS: the service is subscribed, with the router's tally."""
        # S001-67: an answer of another session leaves the service pending.
        slot = self._context.current(session)
        if slot is None:
            return
        if not (slot.service.is_wanted and slot.service.expected is not None):
            self._context.ignored += 1
            return
        context, key = self._context, slot.key
        account = context.account_of(key)
        confirmation = slot.service.confirm(service, tally)
        router = context.routers[key.router]
        if confirmation.lost_all:
            # S001-82, S004-23: all its queues singly; their answers associate them again.
            context.emit(ClearAssociations(key.user, key.router))
            account.clear_flags()
            slot.states.flagged.clear()
            account.read_all()
        else:
            account.service_refusals = 0
            self._cover(slot)
            if confirmation.drift is not None and context.settings.repair:
                account.repair()
        # S001-73: the router's tally, and how it differs.
        context.announce(ServiceUp(key.user, router, tally, confirmation.drift))
        if confirmation.lost_all and slot.states.counted:
            # The router has not even the queues that it confirmed one by one: begin again.
            self._sessions.close(slot, now)
        self._driving.advance(key, now)

    def failed(self, session: SessionKey, failure: Failure, now: float) -> None:
        """Handle a failed subscribe, or a tally that could not be read."""
        slot = self._asked(session)
        if slot is None:
            return
        if failure.kind in (FailureKind.TEMPORARY, FailureKind.HOST):
            slot.service.postpone()
            if slot.has_nothing_active and not slot.states.pending:
                self._sessions.close(slot, now)
        else:
            # S001-83: the service cannot be used here.
            self._sessions.fall_back(slot, failure.text, now)
        self._driving.advance(slot.key, now)

    def swept(self, session: SessionKey) -> None:
        """Handle ALLS: all messages that waited for the service have been sent."""
        slot = self._context.current(session)
        if slot is None:
            return
        if slot.service.id is None or not self._context.settings.has_sweep_end:
            self._context.emit(Report(slot.key, "the end of a sweep that nobody asked for"))
            return
        # S001-75: also if it comes before the answer to the subscribe.
        router = self._context.routers[slot.key.router]
        self._context.announce(ServiceAll(slot.key.user, router))

    def ended(self, session: SessionKey, service: ServiceId, now: float) -> None:
        """Handle ENDS with the service's entity: another client has it now."""
        context = self._context
        slot = context.current(session)
        if slot is None:
            return
        if slot.service.id is None or service != slot.service.id:
            context.emit(Report(slot.key, "the end of another service than that of the session"))
            return
        if slot.service.state is ServiceState.ENDED and not slot.states.counted:
            context.ignored += 1
            return
        until = now + context.settings.end_seconds
        counted = list(slot.states.counted.values())
        had = slot.service.end(until)
        slot.states.counted.clear()
        slot.states.checks.clear()
        account = context.account_of(slot.key)
        account.readings = [r for r in account.readings if r.which is not Which.ASSOCIATED]
        # The event speaks for them.
        context.announcements.release(counted)
        context.announce(ServiceEnd(slot.key.user, context.routers[slot.key.router], had))
        # No contest: the other client keeps it for some minutes.
        context.wake(slot.key, until)
        self._driving.advance(slot.key, now)

    def _asked(self, session: SessionKey) -> Slot | None:
        """The slot, if its service waits for an answer in this session."""
        slot = self._context.current(session)
        if slot is not None and slot.service.state is not ServiceState.ASKED:
            self._context.ignored += 1
            return None
        return slot

    def _cover(self, slot: Slot) -> None:
        """Leave the pending queues of the service to it."""
        covered = slot.states.cover()
        if covered:
            outcomes = tuple(Outcome(queue, connection) for queue, connection in covered)
            self._context.emit(Settled(slot.key, outcomes))

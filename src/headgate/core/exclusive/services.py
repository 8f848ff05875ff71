"""Services: one identity with many queues, its subscriber, its tally, and the sweep.

A queue is associated with a service when the service's session subscribes to it. From then on its
messages go to the service's subscriber, and the store keeps the association, with the service's
tally, in the same transaction. Four cases meet in a subscribe:

* the service's session, the service's queue: nothing to store, the queue is counted;
* the service's session, a queue of nobody or of another: the association is stored;
* a plain session, a service's queue: the association is removed;
* a plain session, a plain queue: no service is involved.
"""

from __future__ import annotations

from headgate.core.commands import Identify, SubscribeService, Sweep
from headgate.core.delivery.registry import Registry
from headgate.core.effects import Failed, Identified, ServiceEnd, ServiceGranted
from headgate.core.facts import Associated, ServiceDisplaced, ServiceIdentified, ServiceSubscribed
from headgate.core.model.ids import QueueId, ServiceId, SessionId
from headgate.core.model.tally import NOTHING, Tally
from headgate.core.turn.session_state import ServiceMembership, SessionState, SessionStates
from headgate.core.turn.store_requests import ServiceRecord
from headgate.core.turn.turn import Turn
from headgate.errors import BadService

START = QueueId(b"")


class Services:
    """Subscribers of services, and the tally of the queues that each receives by that.

    The shard owns it. A service has one subscriber at most. The tally in a session's state is that
    of the queues it has subscribed; the one in the store is that of all associated ones.
    """

    def __init__(self, session_states: SessionStates) -> None:
        self._session_states = session_states
        self._members: dict[SessionId, SessionState] = {}
        """The sessions that belong to services."""
        # S000-7, S004-4, SMP-28: of all sessions of a service one is its subscriber.
        self.subscribers: Registry[ServiceId, bool] = Registry(exclusive=True)

    def holder(self, service: ServiceId) -> SessionId | None:
        return next(iter(self.subscribers.roster(service)), None)

    @property
    def queues(self) -> int:
        """Number of queues that sessions receive as subscribers of their services."""
        # S004-13, ACC-61: counted from the present sessions, so always exact.
        memberships = (state.membership for state in self._members.values())
        return sum(each.tally.count for each in memberships if each is not None)

    def subscribe(self, command: SubscribeService, turn: Turn) -> None:
        """Answer at once with the router's own tally; the messages follow with the sweep.

        A session that expects another tally is answered the same, not refused.
        """
        session, service = command.session, command.service
        state = self._session_states.take(session, turn.undo)
        if state is None:
            return
        tally = self._tally(service, turn)
        # S001-3, S001-41, S001-42, SMP-30: the answer is the router's tally, not the expected one.
        turn.effects.append(ServiceGranted(session, command.ref, service, tally))
        # S000-95, S004-9: drift goes into a fact and refuses no session.
        drift = tally.drift(command.expected) if command.expected is not None else None
        # S001-52, SMP-32: already subscribed: the answer is all.
        if state.membership is not None and state.membership.swept:
            return
        # S000-91, S000-96: one entry for all queues, made in the turn of the answer.
        membership = self._register(session, state, service, turn)
        # S001-43, S001-44: the store's tally replaces the one counted queue by queue.
        turn.undo.assign(membership, "tally", tally)
        turn.undo.assign(membership, "swept", True)
        turn.undo.assign(membership, "counted", set())
        turn.facts.append(
            ServiceSubscribed(
                turn.now, service, session, tally.count, drift.value if drift else "unknown"
            )
        )
        # S000-97, S000-99, S001-94, SMP-33: messages follow with a sweep; notices need none.
        if command.sweeps:
            turn.again.append(Sweep(session, service, START, membership))

    def identify(self, command: Identify, turn: Turn) -> None:
        """The service of a certificate: the same for ever, from its first use."""
        fingerprint = command.fingerprint
        # S001-1, S001-15, S001-16, S004-12: stored, or made earlier in this turn: the same id.
        known = turn.loaded.identities.get(fingerprint) or turn.batch.identities.get(fingerprint)
        if known is None:
            known = ServiceRecord(command.service, command.role)
            turn.batch.identities[fingerprint] = known
            turn.facts.append(ServiceIdentified(turn.now, known.service, known.role))
        if known.role == command.role:
            turn.effects.append(Identified(command.session, command.ref, known.service))
        else:
            error = BadService("the certificate is of a service with another role")
            turn.effects.append(Failed(command.session, command.ref, error))

    def join(
        self,
        session: SessionId,
        state: SessionState,
        service: ServiceId,
        queue: QueueId,
        turn: Turn,
    ) -> None:
        """Subscribe one queue as the service: the session receives for all queues of the service
        from now on, and the queue is counted once."""
        # SMP-29: one SUB is enough for new messages of all queues; there is no sweep.
        membership = self._register(session, state, service, turn)
        # S001-29, S004-6: once per queue, and not if the whole service counts already.
        if not membership.swept and queue not in membership.counted:
            turn.undo.add(membership.counted, queue)
            turn.undo.assign(membership, "tally", membership.tally.plus(queue))

    def count(
        self, queue: QueueId, before: ServiceId | None, after: ServiceId | None, turn: Turn
    ) -> None:
        """Move a queue from one service's stored tally to another's."""
        # S001-35, S001-40: tallies change in the batch that stores the association.
        tallies = turn.batch.tallies
        if before is not None:
            # S001-31: the former subscriber loses the queue.
            tallies[before] = tallies.get(before, NOTHING).minus(queue)
        if after is not None:
            tallies[after] = tallies.get(after, NOTHING).plus(queue)
            state = self._holding_state(after)
            if state is not None and state.membership is not None and state.membership.swept:
                turn.undo.assign(state.membership, "tally", state.membership.tally.plus(queue))
        turn.facts.append(Associated(turn.now, queue, after))

    def uncount(self, queue: QueueId, service: ServiceId, turn: Turn) -> None:
        """Remove a queue from those that the service's subscriber receives."""
        state = self._holding_state(service)
        membership = state.membership if state is not None else None
        if membership is not None and (membership.swept or queue in membership.counted):
            turn.undo.discard(membership.counted, queue)
            turn.undo.assign(membership, "tally", membership.tally.minus(queue))

    def is_sweeping(self, sweep: Sweep) -> bool:
        """Whether a sweep still delivers to its session. After a displacement it does not."""
        state = self._session_states.find(sweep.session)
        return (
            state is not None
            # S001-62, SMP-37: a sweep ends with the membership it began with.
            and state.membership is sweep.membership
            and self.holder(sweep.service) == sweep.session
        )

    def disconnect(self, session: SessionId, state: SessionState, turn: Turn) -> None:
        if state.membership is not None:
            turn.undo.pop(self._members, session)
            service = state.membership.service
            before = self.subscribers.roster(service)
            # S001-36, SMP-34: the live subscription ends; associations stay in the store.
            if self.subscribers.unsubscribe(service, session):
                turn.undo.note(self.subscribers.restore, service, before)

    def _register(
        self, session: SessionId, state: SessionState, service: ServiceId, turn: Turn
    ) -> ServiceMembership:
        if state.membership is None:
            turn.undo.assign(state, "membership", ServiceMembership(service))
            turn.undo.put(self._members, session, state)
        membership = state.membership
        assert membership is not None, "the membership was just made"
        assert membership.service == service, "a session has one identity"
        before = self.subscribers.roster(service)
        # S001-61: subscribing again displaces no other session.
        if session in before:
            return membership
        # S001-46, SMP-28, ACC-62: the newest session of a service takes its place.
        displaced = self.subscribers.subscribe(service, session, True)
        turn.undo.note(self.subscribers.restore, service, before)
        for other in displaced:
            self._end(other, service, session, turn)
        return membership

    def _end(self, other: SessionId, service: ServiceId, by: SessionId, turn: Turn) -> None:
        """End a service's subscription with one event for all queues. The session may subscribe
        again later, so the mark of its earlier subscription is removed as well."""
        state = self._session_states.find(other)
        if state is None or state.membership is None:
            return
        tally = state.membership.tally
        # S000-22, S001-58: one ENDS with the tally, however many queues.
        turn.effects.append(ServiceEnd(other, service, tally))
        turn.facts.append(ServiceDisplaced(turn.now, service, other, by, tally.count))
        # S001-45, S001-59, S001-63: nothing is left of the old one, so the next is a whole one.
        turn.undo.assign(state, "membership", ServiceMembership(service))
        turn.undo.assign(state, "gates", {})
        turn.gated.add(other)
        turn.forget_pushes(other)
        # S004-8: messages that wait for room go with the service.
        turn.undo.assign(state, "waiting", {})

    def _tally(self, service: ServiceId, turn: Turn) -> Tally:
        """The tally that the store has once this turn is committed."""
        kept = turn.loaded.services.get(service, NOTHING)
        return kept.join(turn.batch.tallies.get(service, NOTHING))

    def _holding_state(self, service: ServiceId) -> SessionState | None:
        holder = self.holder(service)
        return self._session_states.find(holder) if holder is not None else None

"""The holder of an exclusive queue: the one session that receives from it now."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.delivery.registry import Registry
from headgate.core.effects import End
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.exclusive.services import Services
from headgate.core.facts import Displaced, Subscribed, Unsubscribed
from headgate.core.model.ids import WHOLE, QueueId, ServiceId, SessionId
from headgate.core.model.parties import QueueRecord
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.turn import Turn


class Holders:
    """The receiver of each exclusive queue: a session of its own, or its service's subscriber.

    Subscribing, deleting and delivery use and change it. A queue has one holder at most; a
    displaced one gets an `End`.
    """

    def __init__(self, context: ExclusiveContext, services: Services) -> None:
        self._session_states = context.session_states
        self._services = services
        # S000-7, S000-93: queues have a registry of their own, apart from that of services.
        self.subscribers: Registry[QueueId, bool] = Registry(exclusive=True)
        """Sessions subscribed to a queue by itself; `Services` has the services' subscribers."""

    def holder(self, record: QueueRecord) -> SessionId | None:
        # S001-54, S001-57, S004-3: a service's queue is found by its service alone.
        if record.service is not None:
            return self._services.holder(record.service)
        return next(iter(self.subscribers.roster(record.queue)), None)

    def register(
        self, session: SessionId, state: SessionState, cached: CachedQueue, turn: Turn
    ) -> None:
        queue = cached.record.queue
        turn.undo.pop(state.getting, queue)  # of a deleted queue with this id
        before = self.subscribers.roster(queue)
        displaced = self.subscribers.subscribe(queue, session, True)
        turn.undo.note(self.subscribers.restore, queue, before)
        turn.undo.add(state.queues, queue)
        # S000-12: sent when the new subscription is in effect, not before.
        for other in displaced:
            self._end(other, queue, session, turn)
        # S004-55, SMP-23: only a new subscription counts, in a block or alone.
        if session not in before:
            turn.facts.append(Subscribed(turn.now, queue, WHOLE, session))

    def unregister(self, session: SessionId, queue: QueueId, turn: Turn) -> None:
        before = self.subscribers.roster(queue)
        # S000-77, S000-78, SMP-7: only where it still is the subscriber, and that counts.
        if self.subscribers.unsubscribe(queue, session):
            turn.undo.note(self.subscribers.restore, queue, before)
            turn.facts.append(Unsubscribed(turn.now, queue, WHOLE, session))

    def associate(self, cached: CachedQueue, service: ServiceId | None, turn: Turn) -> None:
        record = cached.record
        # S001-27, S004-14: one service at most, stored with the queue, a turn's together.
        turn.batch.associate[record.queue] = service
        turn.undo.assign(cached, "record", replace(record, service=service))
        self._services.count(record.queue, record.service, service, turn)
        if record.service is not None:
            self._services.uncount(record.queue, record.service, turn)

    def end_holder(self, record: QueueRecord, by: SessionId, turn: Turn) -> None:
        """Take the queue from its holder, and send it an `End` unless it is the asking session."""
        holder = self.holder(record)
        if holder is None:
            return
        if holder == by:
            self.release(holder, record.queue, turn)
        else:
            self._end(holder, record.queue, by, turn)

    def _end(self, holder: SessionId, queue: QueueId, by: SessionId, turn: Turn) -> None:
        self.release(holder, queue, turn)
        # S000-13, SMP-2: one END for one loss.
        turn.effects.append(End(holder, queue))
        turn.facts.append(Displaced(turn.now, queue, holder, by))

    def release(self, session: SessionId, queue: QueueId, turn: Turn) -> None:
        """Remove the queue from the state of a session that has lost it."""
        self.unregister(session, queue, turn)
        state = self._session_states.find(session)
        if state is not None:
            # S000-16, S000-17, SMP-6: no message of the queue is left to deliver or to confirm.
            turn.undo.discard(state.queues, queue)
            turn.undo.pop(state.gates, queue)
            turn.gated.add(session)
            # S000-3, S000-44, S000-47: messages that wait for room are the present subscriber's.
            turn.undo.pop(state.waiting, queue)
        turn.forget_pushes(session, queue)

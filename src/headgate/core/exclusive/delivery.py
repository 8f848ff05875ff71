"""Delivery from exclusive queues: the first message to the holder, one unconfirmed at a time."""

from __future__ import annotations

from headgate.core.delivery.gate import ShutGate
from headgate.core.effects import Deliver
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.holders import Holders
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.facts import Delivered
from headgate.core.model.ids import WHOLE, Ref, SessionId
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.turn import Turn


class ExclusiveDelivery:
    """Delivers the first message of a queue to its holder.

    Subscribe, confirm and send are the three triggers, and all call `offer`. At most one message of
    a queue is unconfirmed.
    """

    def __init__(
        self, context: ExclusiveContext, authorization: Authorization, holders: Holders
    ) -> None:
        self._session_states = context.session_states
        self._authorization = authorization
        self._holders = holders

    def offer(
        self,
        session: SessionId,
        state: SessionState,
        cached: CachedQueue,
        turn: Turn,
        ref: Ref | None = None,
    ) -> bool:
        """Deliver the first message to a session, if there is one, none is unconfirmed, and there
        is room.

        Without room the queue is noted and looked at again when the mailbox has drained. An answer
        to a request is always given: the client waits for it.
        """
        queue = cached.record.queue
        head = cached.head
        # S000-27, S000-28, S000-40, SMP-11: at most one unconfirmed, and no push after a GET.
        # S000-45, S001-47, S001-56: a push, a sweep and a wait may coincide; only one delivers.
        # S000-31: an empty queue delivers nothing and leaves the gate open.
        if head is None or queue in state.gates or queue in state.getting:
            return False
        # S000-42, S000-48, SMP-16: the queue waits for room, and no other queue waits with it.
        if ref is None and not self._session_states.has_room(session, turn):
            turn.undo.put(state.waiting, queue, None)
            return False
        if state.waiting:
            turn.undo.pop(state.waiting, queue)
        message = head.message
        # S000-29, S000-32, S000-41: the delivery itself shuts the gate, under its id and time.
        turn.undo.put(state.gates, queue, ShutGate(message.id, turn.now))
        turn.gated.add(session)
        delivery = Deliver(session, queue, message, ref, parties=cached.record.parties)
        fact = Delivered(turn.now, queue, WHOLE, message.id, session, 0)
        if ref is None:
            turn.push(delivery, fact)
        else:
            turn.deliver(delivery)
            turn.facts.append(fact)
        return True

    def offer_to_holder(self, cached: CachedQueue, turn: Turn) -> None:
        holder = self._holders.holder(cached.record)
        # S000-38, S000-39: without a holder the lookup was all the work.
        if holder is None:
            return
        state = self._session_states.take(holder, turn.undo)
        if state is not None:
            self.offer(holder, state, cached, turn)

    def drained(self, session: SessionId, state: SessionState, turn: Turn) -> None:
        """Deliver messages that waited for room, from queues that are still this session's."""
        # S000-43, S000-46: offered with the first room, and no longer waiting in either case.
        for queue in list(state.waiting):
            turn.undo.pop(state.waiting, queue)
            if queue in turn.loaded.unreadable:
                continue
            cached = self._authorization.find(queue)
            if cached is not None and self._holders.holder(cached.record) == session:
                self.offer(session, state, cached, turn)

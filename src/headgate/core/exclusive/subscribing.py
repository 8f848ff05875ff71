"""Subscribing to an exclusive queue, and reading from it without a subscription."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.commands import Get, Subscribe
from headgate.core.effects import Deliver, Granted
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.delivery import ExclusiveDelivery
from headgate.core.exclusive.holders import Holders
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.exclusive.services import Services
from headgate.core.facts import Delivered
from headgate.core.model.ids import WHOLE, SessionId
from headgate.core.model.limits import Limits
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, LimitReached, Prohibited


class Subscribing:
    """Carries out `Subscribe` and `Get`.

    Owned by `ExclusiveQueues`; the shard calls it. On one session the two exclude each other.
    """

    def __init__(
        self,
        context: ExclusiveContext,
        authorization: Authorization,
        services: Services,
        holders: Holders,
        delivery: ExclusiveDelivery,
    ) -> None:
        self._session_states = context.session_states
        self._limits = context.limits
        self._authorization = authorization
        self._services = services
        self._holders = holders
        self._delivery = delivery

    def subscribe(self, command: Subscribe, turn: Turn) -> None:
        """Subscribe to a queue: four cases of session and queue; see `Services`."""
        session, queue, service = command.session, command.queue, command.service
        cached = self._authorization.admit(command, turn)
        if cached is None:
            return
        state = self._session_states.take(session, turn.undo)
        if state is None:
            # S000-10, SMP-5: a session that hung up meanwhile is not registered.
            self._subscribe_nobody(cached, command, turn)
            return
        error: HeadgateError | None = None
        # S000-23, SMP-19, ACC-41: a queue that the session reads by GET cannot be subscribed to.
        if queue in state.getting:
            error = Prohibited("the session reads this queue with GET")
        elif service is None and queue not in state.queues:
            error = check_queues(state, self._limits)
        if error is not None:
            turn.fail(session, command.ref, queue, error)
            return
        # S001-28, S001-33, SMP-24, SMP-27: its own again, or plain and plain: nothing is stored.
        moves = cached.record.service != service
        if moves:
            # SMP-25, SMP-26: the holder under the other identity loses the queue.
            self._holders.end_holder(cached.record, session, turn)
        if service is None:
            self._holders.register(session, state, cached, turn)
        else:
            self._services.join(session, state, service, queue, turn)
        if moves:
            # S001-30, S001-32, ACC-57, ACC-60: it becomes the asking service's, or no service's.
            self._holders.associate(cached, service, turn)
        # S000-2, S001-2, S004-1: answered when it is the subscriber, message or not.
        turn.effects.append(Granted(session, command.ref, queue, service))
        # S000-79, S004-47, SMP-4, SMP-8: subscribing again delivers the first message again.
        turn.undo.pop(state.gates, queue)
        turn.gated.add(session)
        self._delivery.offer(session, state, cached, turn)

    def get(self, command: Get, turn: Turn) -> None:
        """Read without a subscription, which displaces no session and gets no pushes."""
        session, queue = command.session, command.queue
        state = self._session_states.take(session, turn.undo)
        cached = self._authorization.admit(command, turn) if state is not None else None
        if state is None or cached is None:
            return
        # S000-24, S000-25, SMP-19, ACC-41: only the queue's own subscriber may not GET.
        if queue not in state.getting and self._holders.holder(cached.record) == session:
            error = Prohibited("the session is subscribed to this queue")
            turn.fail(session, command.ref, queue, error)
        else:
            head = cached.head
            # S000-26, SMP-18: noted in the session only, so a GET displaces no session.
            turn.undo.put(state.getting, queue, head.message.id if head else None)
            # ACC-39: GET of an empty queue is answered OK.
            if head is None:
                turn.done(session, command.ref)
            else:
                parties = cached.record.parties
                turn.deliver(Deliver(session, queue, head.message, command.ref, parties=parties))
                fact = Delivered(turn.now, queue, WHOLE, head.message.id, session, 0)
                turn.facts.append(fact)

    def disconnect(self, session: SessionId, state: SessionState, turn: Turn) -> Iterator[None]:
        """Remove a session where it still is the subscriber: a newer session keeps its
        subscription."""
        for queue in state.queues:
            self._holders.unregister(session, queue, turn)
            turn.work += 1
            if turn.take_breath():
                yield

    def _subscribe_nobody(self, cached: CachedQueue, command: Subscribe, turn: Turn) -> None:
        """Subscribe for a session that hung up while its command waited. It is not registered, but
        the present subscriber is ended. The queue has no holder then, not even its service's
        subscriber: that did not ask for it and would not get its waiting messages."""
        service = cached.record.service
        if service is not None and service == command.service:
            return
        # S000-11, SMP-5: the present subscriber is ended all the same.
        self._holders.end_holder(cached.record, command.session, turn)
        if service is not None:
            self._holders.associate(cached, None, turn)


def check_queues(state: SessionState, limits: Limits) -> LimitReached | None:
    """The limit that one more subscription of a session would exceed, if any."""
    most = limits.queues_per_session
    return LimitReached("queues_per_session", most) if len(state.queues) >= most else None

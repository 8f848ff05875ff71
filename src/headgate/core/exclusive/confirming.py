"""Confirming deliveries of an exclusive queue."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import Confirm
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.delivery import ExclusiveDelivery
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.facts import Confirmed
from headgate.core.model.ids import WHOLE, MessageId, SessionId
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.turn import Turn
from headgate.errors import NoMessage


class Confirming:
    """Carries out `Confirm`: the first message is removed, and the next one is the answer.

    Owned by `ExclusiveQueues`; the shard calls it. Only the session that was given a message can
    confirm it.
    """

    def __init__(
        self, context: ExclusiveContext, authorization: Authorization, delivery: ExclusiveDelivery
    ) -> None:
        self._session_states = context.session_states
        self._cache = context.cache
        self._authorization = authorization
        self._delivery = delivery

    def confirm(self, command: Confirm, turn: Turn) -> None:
        state = self._session_states.take(command.session, turn.undo)
        cached = self._authorization.admit(command, turn) if state is not None else None
        if state is None or cached is None:
            return
        if command.queue in state.getting:
            self._confirm_got(command, state, cached, turn)
        else:
            self._confirm_delivered(command, state, cached, turn)

    def _confirm_got(
        self, command: Confirm, state: SessionState, cached: CachedQueue, turn: Turn
    ) -> None:
        """After a `Get`: never answered with a message, and no error if the message was removed
        meanwhile."""
        queue = command.queue
        got = state.getting[queue]
        # ACC-42: a getter confirms the message it got, removed or not, and no other.
        if got is None or (command.messages and command.messages[0] != got):
            turn.fail(command.session, command.ref, queue, NoMessage(queue))
            return
        turn.undo.put(state.getting, queue, None)
        if command.messages:
            self._delete_head(command.session, got, cached, 0.0, turn)
        # SMP-20: the confirm of a GET is never answered with a message.
        turn.done(command.session, command.ref)

    def _confirm_delivered(
        self, command: Confirm, state: SessionState, cached: CachedQueue, turn: Turn
    ) -> None:
        session, queue = command.session, command.queue
        gate = state.gates.get(queue)
        # SMP-13, ACC-5, ACC-37: only what this session was given can be confirmed, once.
        if gate is None or (command.messages and command.messages[0] != gate.message):
            turn.fail(session, command.ref, queue, NoMessage(queue))
            return
        # S000-33: in one turn the gate opens, the message is removed and the next is found.
        turn.undo.pop(state.gates, queue)
        turn.gated.add(session)
        if command.messages:
            turn.confirmed(session, queue, gate.message)
            self._delete_head(session, gate.message, cached, turn.now - gate.at, turn)
        # S000-34, S000-35, ACC-4, ACC-35: the next message is the answer; without one it is OK.
        if not self._delivery.offer(session, state, cached, turn, command.ref):
            turn.done(session, command.ref)

    def _delete_head(
        self,
        session: SessionId,
        message: MessageId,
        cached: CachedQueue,
        seconds: float,
        turn: Turn,
    ) -> None:
        """Remove the first message, unless it is another one: this one was confirmed elsewhere."""
        head = cached.head
        # ACC-44: confirmed elsewhere meanwhile; the present first message was not read.
        if head is None or head.message.id != message:
            return
        cached.pop(turn.undo)
        turn.batch.delete.add(head.seq)
        if cached.record.is_full and not cached.messages:
            self._cache.amend(cached, replace(cached.record, is_full=False), turn)
        queue = cached.record.queue
        age = turn.now - head.message.arrived
        turn.facts.append(Confirmed(turn.now, queue, WHOLE, message, session, seconds, age))

"""Changing the parties of an exclusive queue, and reading its state."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import Amend, Inspect
from headgate.core.effects import Amended, Inspected, Standing
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.holders import Holders
from headgate.core.exclusive.notifiers import Notifiers
from headgate.core.facts import QueueAmended
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, LimitReached, Prohibited, Unauthorised


class Amending:
    """Changes the keys, links and notifiers of exclusive queues, and describes them.

    The shard calls it. No two queues have the same id of a sender, a notifier or a link.
    """

    def __init__(
        self,
        context: ExclusiveContext,
        authorization: Authorization,
        notifiers: Notifiers,
        holders: Holders,
    ) -> None:
        self._session_states = context.session_states
        self._cache = context.cache
        self._limits = context.limits
        self._authorization = authorization
        self._notifiers = notifiers
        self._holders = holders

    def amend(self, command: Amend, turn: Turn) -> None:
        """Change the parties. An id of another queue is refused."""
        session, ref = command.session, command.ref
        cached = self._authorization.admit(command, turn)
        if cached is None:
            return
        queue, before = cached.record.queue, cached.record.parties
        try:
            if before is None:
                raise Prohibited("the queue has no parties")
            after = command.change.apply(before)
            most = self._limits.recipient_keys
            if len(after.keys) > most and after.keys != before.keys:
                raise LimitReached("recipient_keys", most)
            # ACC-85: the link or notifier id of another queue cannot be taken.
            if self._authorization.is_taken(after.addresses(), queue, turn):
                raise Unauthorised
        except HeadgateError as error:
            turn.fail(session, ref, queue, error)
            return
        if after != before:
            if before.notifier is not None and before.notifier != after.notifier:
                # ACC-78: the former notifier is removed.
                self._notifiers.drop(before.notifier, session, turn)
            self._cache.amend(cached, replace(cached.record, parties=after), turn)
            turn.facts.append(QueueAmended(turn.now, queue, type(command.change).__name__))
        turn.effects.append(Amended(session, ref, queue, after))

    def inspect(self, command: Inspect, turn: Turn) -> None:
        session, queue = command.session, command.queue
        state = self._session_states.take(session, turn.undo)
        cached = self._authorization.admit(command, turn) if state is not None else None
        if state is None or cached is None:
            return
        # ACC-33: the relation of the asking session to the queue.
        standing, delivered = Standing.NONE, None
        if queue in state.getting:
            standing, delivered = Standing.GETTING, state.getting[queue]
        elif self._holders.holder(cached.record) == session:
            gate = state.gates.get(queue)
            standing = Standing.SUBSCRIBED
            delivered = gate.message if gate is not None else None
        head = cached.head
        turn.effects.append(
            Inspected(
                session,
                command.ref,
                queue,
                cached.record.parties,
                cached.messages,
                head.message if head is not None else None,
                standing,
                delivered,
            )
        )

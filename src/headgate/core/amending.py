"""Changing who may do what with an exclusive queue, and asking about it."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.admission import Admission
from headgate.core.backlogs import Backlogs
from headgate.core.commands import Amend, Inspect
from headgate.core.effects import Amended, Inspected, Standing
from headgate.core.facts import QueueAmended
from headgate.core.queues import Queues
from headgate.core.seats import Seats
from headgate.core.turn import Turn
from headgate.core.watching import Watchers
from headgate.errors import HeadgateError, Prohibited, Unauthorised


class Amending:
    def __init__(
        self,
        admission: Admission,
        seats: Seats,
        queues: Queues,
        watchers: Watchers,
        backlogs: Backlogs,
    ) -> None:
        self._admission = admission
        self._seats = seats
        self._queues = queues
        self._watchers = watchers
        self._backlogs = backlogs

    def amend(self, command: Amend, turn: Turn) -> None:
        """Change who may do what. An id that another queue has cannot be taken."""
        session, ref = command.session, command.ref
        backlog = self._admission.admit(command, turn)
        if backlog is None:
            return
        queue, before = backlog.record.queue, backlog.record.parties
        try:
            if before is None:
                raise Prohibited("the queue has no parties")
            after = command.change.apply(before)
            if self._admission.is_taken(after.addresses(), queue, turn):
                raise Unauthorised
        except HeadgateError as error:
            turn.fail(session, ref, queue, error)
            return
        if after != before:
            if before.notifier is not None and before.notifier != after.notifier:
                self._watchers.drop(before.notifier, session, turn)
            self._backlogs.amend(backlog, replace(backlog.record, parties=after), turn)
            turn.facts.append(QueueAmended(turn.now, queue, type(command.change).__name__))
        turn.effects.append(Amended(session, ref, queue, after))

    def inspect(self, command: Inspect, turn: Turn) -> None:
        session, queue = command.session, command.queue
        seat = self._seats.take(session, turn.undo)
        backlog = self._admission.admit(command, turn) if seat is not None else None
        if seat is None or backlog is None:
            return
        standing, delivered = Standing.NONE, None
        if queue in seat.getting:
            standing, delivered = Standing.GETTING, seat.getting[queue]
        elif self._queues.holder(backlog.record) == session:
            gate = seat.gates.get(queue)
            standing = Standing.SUBSCRIBED
            delivered = next(iter(gate.outstanding)) if gate is not None else None
        head = backlog.head
        turn.effects.append(
            Inspected(
                session,
                command.ref,
                queue,
                backlog.record.parties,
                backlog.messages,
                head.message if head is not None else None,
                standing,
                delivered,
            )
        )

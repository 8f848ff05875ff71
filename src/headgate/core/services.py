"""One identity, many queues: who subscribed a service, its tally, and the sweep.

A queue is associated with a service when the service's session subscribes to it. From then on
its messages go to whoever subscribed the service, and the store keeps the association, with
the service's tally, in the same transaction. Four cases meet in a subscribe:

* the service's session, the service's queue: nothing to store, the queue is counted;
* the service's session, a queue of nobody or of another: the association is stored;
* a plain session, a service's queue: the association is removed;
* a plain session, a plain queue: no service is involved.
"""

from __future__ import annotations

from headgate.core.commands import Identify, SubscribeService, Sweep
from headgate.core.effects import Failed, Identified, ServiceEnd, ServiceGranted
from headgate.core.facts import (
    Associated,
    ServiceDisplaced,
    ServiceIdentified,
    ServiceSubscribed,
)
from headgate.core.names import QueueId, ServiceId, SessionId
from headgate.core.registry import Registry
from headgate.core.seats import Seat, Seats, Tie
from headgate.core.steps import ServiceRecord
from headgate.core.tally import NOTHING, Tally
from headgate.core.turn import Turn
from headgate.errors import BadService

START = QueueId(b"")


class Services:
    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self.subscribers: Registry[ServiceId, bool] = Registry(exclusive=True)

    def holder(self, service: ServiceId) -> SessionId | None:
        return next(iter(self.subscribers.roster(service)), None)

    @property
    def queues(self) -> int:
        """Queues that sessions receive as the subscribers of their services."""
        return sum(seat.tie.tally.count for _, seat in self._seats.items() if seat.tie is not None)

    def subscribe(self, command: SubscribeService, turn: Turn) -> None:
        """Answer at once with the router's own tally; the messages follow with the sweep.

        A session that expects another tally is told the truth, not refused.
        """
        session, service = command.session, command.service
        seat = self._seats.take(session, turn.undo)
        if seat is None:
            return
        tally = self._tally(service, turn)
        turn.effects.append(ServiceGranted(session, command.ref, service, tally))
        drift = tally.drift(command.expected) if command.expected is not None else None
        if seat.tie is not None and seat.tie.swept:
            return
        tie = self._register(session, seat, service, turn)
        turn.undo.assign(tie, "tally", tally)
        turn.undo.assign(tie, "swept", True)
        turn.undo.assign(tie, "counted", set())
        turn.facts.append(
            ServiceSubscribed(
                turn.now, service, session, tally.count, drift.value if drift else "unknown"
            )
        )
        if command.sweeps:
            turn.again.append(Sweep(session, service, START, tie))

    def identify(self, command: Identify, turn: Turn) -> None:
        """The service of a certificate: the same for ever, from the first time it is shown."""
        fingerprint = command.fingerprint
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
        self, session: SessionId, seat: Seat, service: ServiceId, queue: QueueId, turn: Turn
    ) -> None:
        """Subscribe one queue as the service: the session receives for all of them from now
        on, and the queue is counted once."""
        tie = self._register(session, seat, service, turn)
        if not tie.swept and queue not in tie.counted:
            turn.undo.add(tie.counted, queue)
            turn.undo.assign(tie, "tally", tie.tally.plus(queue))

    def count(
        self, queue: QueueId, before: ServiceId | None, after: ServiceId | None, turn: Turn
    ) -> None:
        """Move a queue from one service's stored tally to another's."""
        tallies = turn.batch.tallies
        if before is not None:
            tallies[before] = tallies.get(before, NOTHING).minus(queue)
        if after is not None:
            tallies[after] = tallies.get(after, NOTHING).plus(queue)
            seat = self._holding_seat(after)
            if seat is not None and seat.tie is not None and seat.tie.swept:
                turn.undo.assign(seat.tie, "tally", seat.tie.tally.plus(queue))
        turn.facts.append(Associated(turn.now, queue, after))

    def uncount(self, queue: QueueId, service: ServiceId, turn: Turn) -> None:
        """Take a queue out of what the service's subscriber receives."""
        seat = self._holding_seat(service)
        tie = seat.tie if seat is not None else None
        if tie is not None and (tie.swept or queue in tie.counted):
            turn.undo.discard(tie.counted, queue)
            turn.undo.assign(tie, "tally", tie.tally.minus(queue))

    def is_sweeping(self, sweep: Sweep) -> bool:
        """Whether a sweep still has somebody to deliver to. After a displacement it has not."""
        seat = self._seats.find(sweep.session)
        return (
            seat is not None
            and seat.tie is sweep.tie
            and self.holder(sweep.service) == sweep.session
        )

    def disconnect(self, session: SessionId, seat: Seat, turn: Turn) -> None:
        if seat.tie is not None:
            service = seat.tie.service
            before = self.subscribers.roster(service)
            if self.subscribers.unsubscribe(service, session):
                turn.undo.note(self.subscribers.restore, service, before)

    def _register(self, session: SessionId, seat: Seat, service: ServiceId, turn: Turn) -> Tie:
        if seat.tie is None:
            turn.undo.assign(seat, "tie", Tie(service))
        tie = seat.tie
        assert tie is not None, "the tie was just made"
        assert tie.service == service, "a session has one identity"
        before = self.subscribers.roster(service)
        if session in before:
            return tie
        displaced = self.subscribers.subscribe(service, session, True)
        turn.undo.note(self.subscribers.restore, service, before)
        for other in displaced:
            self._end(other, service, session, turn)
        return tie

    def _end(self, other: SessionId, service: ServiceId, by: SessionId, turn: Turn) -> None:
        """One event for all queues. The session may subscribe the service again later, so its
        mark of having done so is taken away as well."""
        seat = self._seats.find(other)
        if seat is None or seat.tie is None:
            return
        tally = seat.tie.tally
        turn.effects.append(ServiceEnd(other, service, tally))
        turn.facts.append(ServiceDisplaced(turn.now, service, other, by, tally.count))
        turn.undo.assign(seat, "tie", Tie(service))
        turn.undo.assign(seat, "gates", {})
        turn.forget_pushes(other)
        turn.undo.assign(seat, "waiting", {})

    def _tally(self, service: ServiceId, turn: Turn) -> Tally:
        """What the store will have when this turn is committed."""
        kept = turn.loaded.services.get(service, NOTHING)
        return kept.join(turn.batch.tallies.get(service, NOTHING))

    def _holding_seat(self, service: ServiceId) -> Seat | None:
        holder = self.holder(service)
        return self._seats.find(holder) if holder is not None else None

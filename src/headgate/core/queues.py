"""Exclusive queues: one subscriber, displaced by the next, one message unconfirmed at a time.

Subscribe, confirm and send are the three triggers of a delivery, and all come down to
`offer`: the head goes to the subscriber of the moment if nothing is in flight to it. A send
offers only when it finds the queue empty: behind a head that was not taken, later messages
wait. A confirm is answered with the next message itself.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.core.admission import Admission
from headgate.core.backlogs import Backlog, Backlogs
from headgate.core.commands import (
    Confirm,
    Create,
    Delete,
    Get,
    Subscribe,
)
from headgate.core.domain import Domain, Mode
from headgate.core.effects import (
    Deleted,
    Deliver,
    End,
    Granted,
)
from headgate.core.facts import (
    Confirmed,
    Delivered,
    Displaced,
    QueueCreated,
    QueueDeleted,
    Subscribed,
    Unsubscribed,
)
from headgate.core.gate import ONE, Gate
from headgate.core.limits import Limits
from headgate.core.message import Stored
from headgate.core.names import WHOLE, MessageId, QueueId, Ref, ServiceId, SessionId
from headgate.core.parties import Address, Party
from headgate.core.registry import Registry
from headgate.core.seats import Seat, Seats
from headgate.core.services import Services
from headgate.core.steps import Batch, QueueRecord
from headgate.core.turn import Turn
from headgate.core.watching import Watchers
from headgate.errors import (
    HeadgateError,
    LimitReached,
    NoMessage,
    Prohibited,
    QueueExists,
)


class Queues:
    def __init__(
        self,
        domains: dict[str, Domain],
        admission: Admission,
        seats: Seats,
        services: Services,
        watchers: Watchers,
        backlogs: Backlogs,
        limits: Limits,
    ) -> None:
        self._domains = domains
        self._admission = admission
        self._seats = seats
        self._services = services
        self._watchers = watchers
        self._backlogs = backlogs
        self._limits = limits
        self.subscribers: Registry[QueueId, bool] = Registry(exclusive=True)
        """Who subscribed to a queue by itself; a service's subscriber is in `Services`."""

    # What a session asks.

    def create(self, command: Create, turn: Turn) -> None:
        session, queue = command.session, command.queue
        domain = self._domains.get(command.domain)
        error: HeadgateError | None = None
        if domain is None or domain.mode is not Mode.EXCLUSIVE:
            error = Prohibited(f"{command.domain} has no exclusive queues")
        elif not queue:
            error = Prohibited("a queue needs an id")
        elif self._is_taken(command, turn):
            error = QueueExists(queue)
        seat = self._seats.take(session, turn.undo)
        if error is None and seat is not None and command.subscribe and command.service is None:
            error = self._no_more_queues(seat)
        if error is not None:
            turn.fail(session, command.ref, queue, error)
            return
        record = QueueRecord(queue, command.domain, command.service, command.parties)
        turn.batch.create[queue] = record
        backlog = self._backlogs.make(record, turn.undo)
        turn.facts.append(QueueCreated(turn.now, queue, command.domain))
        if seat is not None and command.subscribe:
            if command.service is None:
                self._register(session, seat, backlog, turn)
            else:
                self._services.join(session, seat, command.service, queue, turn)
        if command.service is not None:
            self._services.count(queue, None, command.service, turn)
        turn.effects.append(Granted(session, command.ref, queue, command.service))

    def delete(self, command: Delete, turn: Turn) -> None:
        session, queue = command.session, command.queue
        backlog = self._admission.admit(command, turn)
        if backlog is None:
            return
        holder = self.holder(backlog.record)
        if holder is not None:
            self._release(holder, queue, turn)
            if holder != session:
                turn.effects.append(Deleted(holder, queue))
        service = backlog.record.service
        if service is not None:
            self._services.count(queue, service, None, turn)
            self._services.uncount(queue, service, turn)
        if backlog.record.parties is not None and backlog.record.parties.notifier is not None:
            self._watchers.drop(backlog.record.parties.notifier, session, turn)
        self._drop(queue, turn.batch)
        self._backlogs.forget(queue, turn.undo)
        turn.facts.append(QueueDeleted(turn.now, queue, backlog.messages))
        turn.done(session, command.ref)

    def subscribe(self, command: Subscribe, turn: Turn) -> None:
        """The four cases of who asks and whose the queue is; see `Services`."""
        session, queue, service = command.session, command.queue, command.service
        backlog = self._admission.admit(command, turn)
        if backlog is None:
            return
        seat = self._seats.take(session, turn.undo)
        if seat is None:
            self._subscribe_nobody(backlog, command, turn)
            return
        error: HeadgateError | None = None
        if queue in seat.getting:
            error = Prohibited("the session reads this queue with GET")
        elif service is None and queue not in seat.queues:
            error = self._no_more_queues(seat)
        if error is not None:
            turn.fail(session, command.ref, queue, error)
            return
        moves = backlog.record.service != service
        if moves:
            self._end_holder(backlog.record, session, turn)
        if service is None:
            self._register(session, seat, backlog, turn)
        else:
            self._services.join(session, seat, service, queue, turn)
        if moves:
            self._associate(backlog, service, turn)
        turn.effects.append(Granted(session, command.ref, queue, service))
        # Subscribing again asks for the head again, confirmed or not.
        turn.undo.pop(seat.gates, queue)
        self.offer(session, seat, backlog, turn)

    def get(self, command: Get, turn: Turn) -> None:
        """Reading without a subscription displaces nobody and is never pushed to."""
        session, queue = command.session, command.queue
        seat = self._seats.take(session, turn.undo)
        backlog = self._admission.admit(command, turn) if seat is not None else None
        if seat is None or backlog is None:
            return
        if queue not in seat.getting and self.holder(backlog.record) == session:
            error = Prohibited("the session is subscribed to this queue")
            turn.fail(session, command.ref, queue, error)
        else:
            head = backlog.head
            turn.undo.put(seat.getting, queue, head.message.id if head else None)
            if head is None:
                turn.done(session, command.ref)
            else:
                parties = backlog.record.parties
                turn.deliver(Deliver(session, queue, head.message, command.ref, parties=parties))
                self._delivered(session, queue, head, turn)

    def confirm(self, command: Confirm, turn: Turn) -> None:
        seat = self._seats.take(command.session, turn.undo)
        backlog = self._admission.admit(command, turn) if seat is not None else None
        if seat is None or backlog is None:
            return
        if command.queue in seat.getting:
            self._confirm_got(command, seat, backlog, turn)
        else:
            self._confirm_delivered(command, seat, backlog, turn)

    # Delivery.

    def offer(
        self, session: SessionId, seat: Seat, backlog: Backlog, turn: Turn, ref: Ref | None = None
    ) -> bool:
        """Hand the head to a session if there is one, nothing is in flight, and there is room.

        Without room the queue is noted and looked at again when the mailbox has drained. An
        answer to a request is always given: the peer waits for it.
        """
        queue = backlog.record.queue
        head = backlog.head
        if head is None or queue in seat.gates or queue in seat.getting:
            return False
        if ref is None and not self._seats.has_room(session, turn):
            turn.undo.put(seat.waiting, queue, None)
            return False
        turn.undo.pop(seat.waiting, queue)
        gate: Gate[MessageId] = Gate(ONE)
        gate.admit(head.message.id, head.message.size, turn.now)
        turn.undo.put(seat.gates, queue, gate)
        delivery = Deliver(session, queue, head.message, ref, parties=backlog.record.parties)
        if ref is not None:
            turn.deliver(delivery)
            self._delivered(session, queue, head, turn)
        elif turn.push(delivery):
            self._delivered(session, queue, head, turn)
        return True

    def drained(self, session: SessionId, seat: Seat, turn: Turn) -> None:
        """The mailbox has room: offer what waited for it, if it is still this session's."""
        for queue in list(seat.waiting):
            turn.undo.pop(seat.waiting, queue)
            if queue in turn.loaded.unreadable:
                continue
            backlog = self._admission.find(queue)
            if backlog is not None and self.holder(backlog.record) == session:
                self.offer(session, seat, backlog, turn)

    def disconnect(self, session: SessionId, seat: Seat, turn: Turn) -> None:
        """Only where it still is the subscriber: a newer session keeps its subscription."""
        for queue in seat.queues:
            self._unregister(session, queue, turn)

    def _is_taken(self, command: Create, turn: Turn) -> bool:
        """Whether a queue has one of the ids that a new one is to have, damaged ones included."""
        queue, parties = command.queue, command.parties
        if self._backlogs.find(queue) is not None:
            return True
        addresses = [Address(Party.RECIPIENT, queue)]
        addresses += parties.addresses() if parties is not None else ()
        return self._admission.is_taken(addresses, queue, turn)

    # Who is subscribed.

    def holder(self, record: QueueRecord) -> SessionId | None:
        if record.service is not None:
            return self._services.holder(record.service)
        return next(iter(self.subscribers.roster(record.queue)), None)

    def _subscribe_nobody(self, backlog: Backlog, command: Subscribe, turn: Turn) -> None:
        """The session hung up while its command waited. It is not registered, and yet whoever
        was subscribed is told. The queue is nobody's then, not its service's either: another
        session of that did not ask for it and would not be given what waits there."""
        service = backlog.record.service
        if service is not None and service == command.service:
            return
        self._end_holder(backlog.record, command.session, turn)
        if service is not None:
            self._associate(backlog, None, turn)

    def _no_more_queues(self, seat: Seat) -> LimitReached | None:
        limit = self._limits.queues_per_session
        return LimitReached("queues_per_session", limit) if len(seat.queues) >= limit else None

    def _register(self, session: SessionId, seat: Seat, backlog: Backlog, turn: Turn) -> None:
        queue = backlog.record.queue
        turn.undo.pop(seat.getting, queue)  # of a queue of this id that is no more
        before = self.subscribers.roster(queue)
        displaced = self.subscribers.subscribe(queue, session, True)
        turn.undo.note(self.subscribers.restore, queue, before)
        turn.undo.add(seat.queues, queue)
        for other in displaced:
            self._end(other, queue, session, turn)
        if session not in before:
            turn.facts.append(Subscribed(turn.now, queue, WHOLE, session))

    def _unregister(self, session: SessionId, queue: QueueId, turn: Turn) -> None:
        before = self.subscribers.roster(queue)
        if self.subscribers.unsubscribe(queue, session):
            turn.undo.note(self.subscribers.restore, queue, before)
            turn.facts.append(Unsubscribed(turn.now, queue, WHOLE, session))

    def _associate(self, backlog: Backlog, service: ServiceId | None, turn: Turn) -> None:
        record = backlog.record
        turn.batch.associate[record.queue] = service
        turn.undo.assign(backlog, "record", replace(record, service=service))
        self._services.count(record.queue, record.service, service, turn)
        if record.service is not None:
            self._services.uncount(record.queue, record.service, turn)

    def _end_holder(self, record: QueueRecord, by: SessionId, turn: Turn) -> None:
        """Take the queue from whoever holds it; tell them, unless it is the one who asks."""
        holder = self.holder(record)
        if holder is None:
            return
        if holder == by:
            self._release(holder, record.queue, turn)
        else:
            self._end(holder, record.queue, by, turn)

    def _end(self, holder: SessionId, queue: QueueId, by: SessionId, turn: Turn) -> None:
        self._release(holder, queue, turn)
        turn.effects.append(End(holder, queue))
        turn.facts.append(Displaced(turn.now, queue, holder, by))

    def _release(self, session: SessionId, queue: QueueId, turn: Turn) -> None:
        """The session has nothing of the queue any more, from here on."""
        self._unregister(session, queue, turn)
        seat = self._seats.find(session)
        if seat is not None:
            turn.undo.discard(seat.queues, queue)
            turn.undo.pop(seat.gates, queue)
            turn.undo.pop(seat.waiting, queue)
        turn.forget_pushes(session, queue)

    @staticmethod
    def _drop(queue: QueueId, batch: Batch) -> None:
        """Remove a queue from the store, and what this turn was about to do to it."""
        if batch.create.pop(queue, None) is None:
            batch.remove.add(queue)
        batch.amend.pop(queue, None)
        batch.associate.pop(queue, None)
        for seq in [seq for seq, stored in batch.append.items() if stored.queue == queue]:
            del batch.append[seq]

    def offer_to_holder(self, backlog: Backlog, turn: Turn) -> None:
        holder = self.holder(backlog.record)
        if holder is None:
            return
        seat = self._seats.take(holder, turn.undo)
        if seat is not None:
            self.offer(holder, seat, backlog, turn)

    # Confirming.

    def _confirm_got(self, command: Confirm, seat: Seat, backlog: Backlog, turn: Turn) -> None:
        """After a `Get`: never answered with a message, and fine if the head went meanwhile."""
        queue = command.queue
        got = seat.getting[queue]
        if got is None or (command.messages and command.messages[0] != got):
            turn.fail(command.session, command.ref, queue, NoMessage(queue))
            return
        turn.undo.put(seat.getting, queue, None)
        if command.messages:
            self._delete_head(command.session, got, backlog, 0.0, turn)
        turn.done(command.session, command.ref)

    def _confirm_delivered(
        self, command: Confirm, seat: Seat, backlog: Backlog, turn: Turn
    ) -> None:
        session, queue = command.session, command.queue
        gate = seat.gates.get(queue)
        if gate is None or (command.messages and command.messages[0] not in gate.outstanding):
            turn.fail(session, command.ref, queue, NoMessage(queue))
            return
        turn.undo.pop(seat.gates, queue)
        if command.messages:
            at = gate.outstanding[command.messages[0]][1]
            self._delete_head(session, command.messages[0], backlog, turn.now - at, turn)
        if not self.offer(session, seat, backlog, turn, command.ref):
            turn.done(session, command.ref)

    def _delete_head(
        self, session: SessionId, message: MessageId, backlog: Backlog, seconds: float, turn: Turn
    ) -> None:
        """Remove the head, unless it is another message: somebody else confirmed this one."""
        head = backlog.head
        if head is None or head.message.id != message:
            return
        backlog.pop(turn.undo)
        turn.batch.delete.add(head.seq)
        if backlog.record.is_full and not backlog.messages:
            self._backlogs.amend(backlog, replace(backlog.record, is_full=False), turn)
        queue = backlog.record.queue
        age = turn.now - head.message.arrived
        turn.facts.append(Confirmed(turn.now, queue, WHOLE, message, session, seconds, age))

    def _delivered(self, session: SessionId, queue: QueueId, head: Stored, turn: Turn) -> None:
        turn.facts.append(Delivered(turn.now, queue, WHOLE, head.message.id, session, 0))

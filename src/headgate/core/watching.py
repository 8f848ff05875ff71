"""Notifiers: who is told that a queue has a message, and what waits to be told.

A notifier knows neither the queue nor the message, only an id of its own. Being told is
subscribing in small: one session at a time, displaced by the next, alone or as a service. What
nobody takes waits for a day, in memory, and notices are bounded: a notifier is told that there
are messages, not how many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from headgate.core.admission import Admission
from headgate.core.backlogs import Backlog, Backlogs
from headgate.core.commands import Notify, Watch
from headgate.core.effects import Noticed, WatchDeleted, WatchEnd, Watching
from headgate.core.facts import NoticesDropped, NoticesSent, Watched, WatcherDisplaced
from headgate.core.limits import Limits
from headgate.core.message import Message, Notice
from headgate.core.names import QueueId, ServiceId, SessionId
from headgate.core.parties import Notifier
from headgate.core.registry import Registry
from headgate.core.seats import Seat, Seats
from headgate.core.services import Services
from headgate.core.turn import Turn
from headgate.errors import LimitReached

NOTICE_SECONDS = 86_400.0
"""How long a notice waits for its notifier."""

NOTICE_BYTES = 256
"""About what a notice takes on a wire."""


class Waiting:
    """What waits to be told to one notifier."""

    __slots__ = ("notices", "service")

    def __init__(self, service: ServiceId | None) -> None:
        self.service = service
        self.notices: deque[Notice] = deque()


class Watchers:
    def __init__(
        self,
        admission: Admission,
        seats: Seats,
        services: Services,
        backlogs: Backlogs,
        limits: Limits,
    ) -> None:
        self._admission = admission
        self._seats = seats
        self._services = services
        self._backlogs = backlogs
        self._limits = limits
        self.subscribers: Registry[bytes, bool] = Registry(exclusive=True)
        """Who is a notifier by itself; a service's subscriber is in `Services`."""
        self.waiting: dict[bytes, Waiting] = {}
        self.count = 0
        """Notices that wait."""
        self._ready: dict[bytes, None] = {}
        """Notifiers for which something changed since they were last looked at: those that
        nobody watches cost nothing while they wait."""

    @property
    def has_news(self) -> bool:
        """Whether a `Notify` may have something to tell."""
        return bool(self._ready)

    def adopt(self, kept: Iterable[tuple[ServiceId | None, Notice]]) -> None:
        """Take what waited when a router stopped, before the first turn of the next."""
        for service, notice in kept:
            waiting = self.waiting.setdefault(notice.notifier, Waiting(service))
            waiting.notices.append(notice)
            self.count += 1

    # What a session asks.

    def watch(self, command: Watch, turn: Turn) -> None:
        """The four cases of who asks and whose the notifier is; see `Services`."""
        session, service = command.session, command.service
        backlog = self._admission.admit(command, turn)
        if backlog is None:
            return
        parties = backlog.record.parties
        assert parties is not None, "it was found by its notifier"
        assert parties.notifier is not None, "it was found by its notifier"
        notifier = parties.notifier
        seat = self._seats.take(session, turn.undo)
        moves = notifier.service != service
        if seat is None:
            if moves or service is None:
                self._end_holder(notifier, session, turn)
                self._associate(backlog, notifier, None, turn)
            return
        limit = self._limits.queues_per_session
        is_new = service is None and notifier.id not in seat.watched
        if is_new and len(seat.watched) >= limit:
            error = LimitReached("queues_per_session", limit)
            turn.fail(session, command.ref, backlog.record.queue, error)
            return
        if moves:
            self._end_holder(notifier, session, turn)
        if service is None:
            self._register(session, seat, notifier, turn)
        else:
            before = self._services.holder(service)
            self._services.join(session, seat, service, QueueId(notifier.id), turn)
            if before != session:
                self.look(service, turn)
        self._associate(backlog, notifier, service, turn)
        if notifier.id in self.waiting:
            turn.undo.put(self._ready, notifier.id, None)
        turn.effects.append(Watching(session, command.ref, notifier.id, service))

    def look(self, service: ServiceId, turn: Turn) -> None:
        """Somebody became the service's subscriber: what waited for it may have its way."""
        for notifier, waiting in self.waiting.items():
            if waiting.service == service:
                turn.undo.put(self._ready, notifier, None)

    def disconnect(self, session: SessionId, seat: Seat, turn: Turn) -> None:
        """Only where it still is the subscriber: a newer session keeps its subscription."""
        for notifier in seat.watched:
            self._unregister(session, notifier, turn)

    def drop(self, notifier: Notifier, by: SessionId, turn: Turn) -> None:
        """The queue has this notifier no longer; whoever is it is told, and nobody of what
        waits."""
        holder = self._holder(notifier)
        if holder is not None:
            self._release(holder, notifier.id, turn)
            if holder != by:
                turn.effects.append(WatchDeleted(holder, notifier.id))
        if notifier.service is not None:
            id = QueueId(notifier.id)
            self._services.count(id, notifier.service, None, turn)
            self._services.uncount(id, notifier.service, turn)
        self._forget(notifier.id, turn)

    # Notices.

    def note(self, notifier: Notifier, message: Message, turn: Turn) -> None:
        """A message came that the notifier is to be told of, whether or not it is there."""
        waiting = self.waiting.get(notifier.id) or Waiting(notifier.service)
        if len(waiting.notices) >= self._limits.notices_per_notifier:
            turn.undo.note(waiting.notices.appendleft, waiting.notices.popleft())
            turn.undo.assign(self, "count", self.count - 1)
            turn.facts.append(NoticesDropped(turn.now, 1, "too many"))
        elif self.count >= self._limits.notices:
            turn.facts.append(NoticesDropped(turn.now, 1, "too many in all"))
            return
        turn.undo.put(self.waiting, notifier.id, waiting)
        waiting.notices.append(Notice(notifier.id, notifier.secret, message.id, message.arrived))
        turn.undo.note(waiting.notices.pop)
        turn.undo.assign(self, "count", self.count + 1)
        turn.undo.put(self._ready, notifier.id, None)

    def notify(self, command: Notify, turn: Turn) -> None:
        """Tell what there is to tell to whoever is there and has room. The rest waits."""
        sent = 0
        for id in list(self._ready):
            waiting = self.waiting.get(id)
            holder = self._holder_of(id, waiting.service) if waiting is not None else None
            if waiting is None or holder is None:
                turn.undo.pop(self._ready, id)
                continue
            if not self._seats.has_room(holder, turn):
                continue
            turn.undo.pop(self._ready, id)
            for notice in waiting.notices:
                turn.effects.append(Noticed(holder, notice))
            told = len(waiting.notices)
            turn.sent[holder] = turn.sent.get(holder, 0) + told * NOTICE_BYTES
            sent += told
            self._forget(id, turn)
        if sent:
            turn.facts.append(NoticesSent(turn.now, sent))

    def expire(self, turn: Turn) -> None:
        """Give up what waited too long."""
        dropped = 0
        for id, waiting in list(self.waiting.items()):
            while waiting.notices and turn.now - waiting.notices[0].arrived > NOTICE_SECONDS:
                turn.undo.note(waiting.notices.appendleft, waiting.notices.popleft())
                turn.undo.assign(self, "count", self.count - 1)
                dropped += 1
            if not waiting.notices:
                turn.undo.pop(self.waiting, id)
        if dropped:
            turn.facts.append(NoticesDropped(turn.now, dropped, "too old"))

    # Inside.

    def _holder(self, notifier: Notifier) -> SessionId | None:
        return self._holder_of(notifier.id, notifier.service)

    def _holder_of(self, notifier: bytes, service: ServiceId | None) -> SessionId | None:
        if service is not None:
            return self._services.holder(service)
        return next(iter(self.subscribers.roster(notifier)), None)

    def _register(self, session: SessionId, seat: Seat, notifier: Notifier, turn: Turn) -> None:
        before = self.subscribers.roster(notifier.id)
        displaced = self.subscribers.subscribe(notifier.id, session, True)
        turn.undo.note(self.subscribers.restore, notifier.id, before)
        turn.undo.add(seat.watched, notifier.id)
        for other in displaced:
            self._end(other, notifier.id, session, turn)
        if session not in before:
            turn.facts.append(Watched(turn.now, QueueId(notifier.id), session))

    def _unregister(self, session: SessionId, notifier: bytes, turn: Turn) -> None:
        before = self.subscribers.roster(notifier)
        if self.subscribers.unsubscribe(notifier, session):
            turn.undo.note(self.subscribers.restore, notifier, before)

    def _associate(
        self, backlog: Backlog, notifier: Notifier, service: ServiceId | None, turn: Turn
    ) -> None:
        if notifier.service == service:
            return
        record = backlog.record
        assert record.parties is not None, "a notifier is one of the parties"
        parties = replace(record.parties, notifier=replace(notifier, service=service))
        self._backlogs.amend(backlog, replace(record, parties=parties), turn)
        id = QueueId(notifier.id)
        self._services.count(id, notifier.service, service, turn)
        if notifier.service is not None:
            self._services.uncount(id, notifier.service, turn)
        waiting = self.waiting.get(notifier.id)
        if waiting is not None:
            turn.undo.assign(waiting, "service", service)

    def _end_holder(self, notifier: Notifier, by: SessionId, turn: Turn) -> None:
        holder = self._holder(notifier)
        if holder == by:
            self._release(holder, notifier.id, turn)
        elif holder is not None:
            self._end(holder, notifier.id, by, turn)

    def _end(self, holder: SessionId, notifier: bytes, by: SessionId, turn: Turn) -> None:
        self._release(holder, notifier, turn)
        turn.effects.append(WatchEnd(holder, notifier))
        turn.facts.append(WatcherDisplaced(turn.now, QueueId(notifier), holder, by))

    def _release(self, session: SessionId, notifier: bytes, turn: Turn) -> None:
        self._unregister(session, notifier, turn)
        seat = self._seats.find(session)
        if seat is not None:
            turn.undo.discard(seat.watched, notifier)

    def _forget(self, notifier: bytes, turn: Turn) -> None:
        waiting = turn.undo.pop(self.waiting, notifier)
        turn.undo.pop(self._ready, notifier)
        if waiting is not None:
            turn.undo.assign(self, "count", self.count - len(waiting.notices))

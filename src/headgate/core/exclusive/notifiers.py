"""Notifiers: sessions that get notices of a queue's messages, and the notices that wait.

A notifier knows neither the queue nor the message, only an id of its own. It is subscribed to like
a queue: by one session at a time, displaced by the next, alone or as a service. Notices without a
receiver wait for a day, in memory, and are bounded: a notifier learns that there are messages, not
how many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from headgate.core.commands import Notify, Watch
from headgate.core.delivery.registry import Registry
from headgate.core.effects import Noticed, WatchDeleted, WatchEnd, Watching
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.exclusive.services import Services
from headgate.core.facts import NoticesDropped, NoticesSent, Watched, WatcherDisplaced
from headgate.core.model.ids import QueueId, ServiceId, SessionId
from headgate.core.model.message import Message, Notice
from headgate.core.model.parties import Notifier
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.turn import Turn
from headgate.errors import LimitReached

NOTICE_SECONDS = 86_400.0
"""Seconds that a notice waits for its notifier."""

NOTICE_BYTES = 256
"""Bytes of a notice on a wire, about."""


class PendingNotices:
    """Notices that wait for one notifier."""

    __slots__ = ("notices", "service")

    def __init__(self, service: ServiceId | None) -> None:
        self.service = service
        self.notices: deque[Notice] = deque()


class Notifiers:
    """The notifiers of a shard's queues, their subscribers, and the notices that wait.

    The shard owns it; sending to a queue adds a notice, and the end of a turn hands notices to the
    subscribers. Notices are in memory only, and bounded.
    """

    def __init__(
        self,
        context: ExclusiveContext,
        authorization: Authorization,
        services: Services,
    ) -> None:
        self._session_states = context.session_states
        self._cache = context.cache
        self._limits = context.limits
        self._authorization = authorization
        self._services = services
        self.subscribers: Registry[bytes, bool] = Registry(exclusive=True)
        """Sessions subscribed to a notifier by itself; `Services` has the services' subscribers."""
        self.waiting: dict[bytes, PendingNotices] = {}
        self.count = 0
        """Number of waiting notices."""
        self._ready: dict[bytes, None] = {}
        """Notifiers that changed since they were last looked at: those without a subscriber cost
        nothing while their notices wait."""

    @property
    def has_news(self) -> bool:
        """Whether there may be notices to send."""
        return bool(self._ready)

    def adopt(self, kept: Iterable[tuple[ServiceId | None, Notice]]) -> None:
        """Take over the notices that waited when the router stopped, before its first turn."""
        for service, notice in kept:
            waiting = self.waiting.setdefault(notice.notifier, PendingNotices(service))
            waiting.notices.append(notice)
            self.count += 1

    # Requests of sessions.

    def watch(self, command: Watch, turn: Turn) -> None:
        """Subscribe to a notifier: four cases of session and notifier; see `Services`."""
        session, service = command.session, command.service
        cached = self._authorization.admit(command, turn)
        if cached is None:
            return
        parties = cached.record.parties
        assert parties is not None, "it was found by its notifier"
        assert parties.notifier is not None, "it was found by its notifier"
        notifier = parties.notifier
        state = self._session_states.take(session, turn.undo)
        moves = notifier.service != service
        if state is None:
            # SMP-5: the NSUB of a dead connection registers no session, but ends the present one.
            if moves or service is None:
                self._end_holder(notifier, session, turn)
                self._associate(cached, notifier, None, turn)
            return
        limit = self._limits.queues_per_session
        is_new = service is None and notifier.id not in state.watched
        if is_new and len(state.watched) >= limit:
            error = LimitReached("queues_per_session", limit)
            turn.fail(session, command.ref, cached.record.queue, error)
            return
        if moves:
            self._end_holder(notifier, session, turn)
        if service is None:
            self._register(session, state, notifier, turn)
        else:
            before = self._services.holder(service)
            self._services.join(session, state, service, QueueId(notifier.id), turn)
            if before != session:
                self.look(service, turn)
        self._associate(cached, notifier, service, turn)
        if notifier.id in self.waiting:
            turn.undo.put(self._ready, notifier.id, None)
        turn.effects.append(Watching(session, command.ref, notifier.id, service))

    def look(self, service: ServiceId, turn: Turn) -> None:
        """Mark the waiting notices of a service: it has a subscriber now."""
        for notifier, waiting in self.waiting.items():
            if waiting.service == service:
                turn.undo.put(self._ready, notifier, None)

    def disconnect(self, session: SessionId, state: SessionState, turn: Turn) -> Iterator[None]:
        """Remove a session where it still is the subscriber: a newer session keeps its
        subscription."""
        for notifier in state.watched:
            self._unregister(session, notifier, turn)
            turn.work += 1
            if turn.take_breath():
                yield

    def drop(self, notifier: Notifier, by: SessionId, turn: Turn) -> None:
        """Remove the notifier of a queue with its notices; its subscriber gets an end."""
        holder = self._holder(notifier)
        if holder is not None:
            self._release(holder, notifier.id, turn)
            # SMP-9, ACC-78: the notifier's subscriber gets an end, unless it requested the removal.
            if holder != by:
                turn.effects.append(WatchDeleted(holder, notifier.id))
        if notifier.service is not None:
            id = QueueId(notifier.id)
            self._services.count(id, notifier.service, None, turn)
            self._services.uncount(id, notifier.service, turn)
        self._forget(notifier.id, turn)

    # Notices.

    def note(self, notifier: Notifier, message: Message, turn: Turn) -> None:
        """Add the notice of a message for its notifier, subscribed or not."""
        waiting = self.waiting.get(notifier.id) or PendingNotices(notifier.service)
        # SMP-39: the newest notices of a notifier wait, and the oldest goes.
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
        """Send the notices whose subscriber is there and has room. The others wait."""
        sent = 0
        for id in list(self._ready):
            waiting = self.waiting.get(id)
            holder = self._holder_of(id, waiting.service) if waiting is not None else None
            if waiting is None or holder is None:
                turn.undo.pop(self._ready, id)
                continue
            if not self._session_states.has_room(holder, turn):
                continue
            turn.undo.pop(self._ready, id)
            for notice in waiting.notices:
                turn.effects.append(Noticed(holder, notice))
            count = len(waiting.notices)
            turn.sent[holder] = turn.sent.get(holder, 0) + count * NOTICE_BYTES
            sent += count
            self._forget(id, turn)
        if sent:
            turn.facts.append(NoticesSent(turn.now, sent))

    def expire(self, turn: Turn) -> None:
        """Drop notices that waited too long."""
        dropped = 0
        for id, waiting in list(self.waiting.items()):
            # SMP-41: a notice waits for a day.
            while waiting.notices and turn.sure - waiting.notices[0].arrived > NOTICE_SECONDS:
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
        # S001-93: the notices of a service's queues are for the service's subscriber.
        if service is not None:
            return self._services.holder(service)
        return next(iter(self.subscribers.roster(notifier)), None)

    def _register(
        self, session: SessionId, state: SessionState, notifier: Notifier, turn: Turn
    ) -> None:
        before = self.subscribers.roster(notifier.id)
        displaced = self.subscribers.subscribe(notifier.id, session, True)
        turn.undo.note(self.subscribers.restore, notifier.id, before)
        turn.undo.add(state.watched, notifier.id)
        for other in displaced:
            self._end(other, notifier.id, session, turn)
        if session not in before:
            turn.facts.append(Watched(turn.now, QueueId(notifier.id), session))

    def _unregister(self, session: SessionId, notifier: bytes, turn: Turn) -> None:
        before = self.subscribers.roster(notifier)
        if self.subscribers.unsubscribe(notifier, session):
            turn.undo.note(self.subscribers.restore, notifier, before)

    def _associate(
        self, cached: CachedQueue, notifier: Notifier, service: ServiceId | None, turn: Turn
    ) -> None:
        if notifier.service == service:
            return
        record = cached.record
        assert record.parties is not None, "a notifier is one of the parties"
        parties = replace(record.parties, notifier=replace(notifier, service=service))
        self._cache.amend(cached, replace(record, parties=parties), turn)
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
        # SMP-40, ACC-77: a displaced subscriber of a notifier gets END.
        turn.effects.append(WatchEnd(holder, notifier))
        turn.facts.append(WatcherDisplaced(turn.now, QueueId(notifier), holder, by))

    def _release(self, session: SessionId, notifier: bytes, turn: Turn) -> None:
        self._unregister(session, notifier, turn)
        state = self._session_states.find(session)
        if state is not None:
            turn.undo.discard(state.watched, notifier)

    def _forget(self, notifier: bytes, turn: Turn) -> None:
        waiting = turn.undo.pop(self.waiting, notifier)
        turn.undo.pop(self._ready, notifier)
        if waiting is not None:
            turn.undo.assign(self, "count", self.count - len(waiting.notices))

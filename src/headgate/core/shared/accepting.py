"""Sending to a shared queue: the filters of its apps, its quota, its place in line."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import Send
from headgate.core.effects import Receipt
from headgate.core.facts import Accepted, AutoConfirmed, Repeated, Unspoken
from headgate.core.model.binding import Spoken, spoken_channel
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import AppId
from headgate.core.model.message import Message, MessageEntry, Properties, Stored, check
from headgate.core.model.stream_id import StreamId, id_of, stream_id
from headgate.core.reader_commands import Add
from headgate.core.shared.context import SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.expiry import Expiry
from headgate.core.shared.history import History
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.quota import judge
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, LimitReached, Prohibited


class Accepting:
    """Carries out `Send`: an accepted message is in the batch of the turn, and in line in every app
    that wants it."""

    def __init__(
        self, context: SharedContext, delivery: SharedDelivery, expiry: Expiry, history: History
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._expiry = expiry
        self._history = history

    def send(self, command: Send, turn: Turn) -> None:
        session, message = command.session, command.message
        queue = self._context.queues[command.queue]
        try:
            if session not in queue.producers:
                raise Prohibited("the queue is not open for writing")
            size = check(message, self._context.limits)
            if turn.outbox_is_full:
                raise LimitReached("outbox_bytes", self._context.limits.outbox_bytes)
            # BMQ-59: a repeated id gets its receipt, and the message is not stored again.
            if queue.remembers(message.id, turn.sure):
                turn.facts.append(Repeated(turn.now, queue.id, message.id))
            else:
                self.accept(queue, message, size, turn)
        except HeadgateError as error:
            turn.fail(session, command.ref, queue.id, error)
            return
        if command.ref is not None:
            turn.effects.append(Receipt(session, command.ref, queue.id, message.id))

    def check_room(self, queue: SharedQueue, message: Message, turn: Turn) -> None:
        """Raise if a message could not be accepted."""
        size = check(message, self._context.limits)
        if turn.outbox_is_full:
            raise LimitReached("outbox_bytes", self._context.limits.outbox_bytes)
        apps = wanting(queue.domain, queue, message.properties)
        self._make_room(queue, size, apps, turn)

    def take_in(self, queue: SharedQueue, message: Message, turn: Turn) -> None:
        """Accept a message for which there is room, and evaluate its apps' filters."""
        apps = wanting(queue.domain, queue, message.properties)
        self.take(queue, message, message.size, apps, turn)

    def add(self, command: Add, queue: SharedQueue, turn: Turn) -> StreamId:
        """Take a message of a session that does not have the queue open, and return its id, or that
        of the first if it is repeated; raise if there is no room for it."""
        size = check(command.message, self._context.limits)
        repeated = queue.find_repeated(command.message.id, turn.sure)
        if repeated is not None:
            turn.facts.append(Repeated(turn.now, queue.id, command.message.id))
            return stream_id(*repeated)
        if turn.outbox_is_full:
            raise LimitReached("outbox_bytes", self._context.limits.outbox_bytes)
        given = command.message
        message = Message(given.id, given.body, turn.now, given.properties)
        entry = self.accept(queue, message, size, turn)
        if command.trim is not None:
            self._history.trim(queue, command.trim, turn)
        return id_of(entry)

    def accept(self, queue: SharedQueue, message: Message, size: int, turn: Turn) -> MessageEntry:
        """Evaluate the apps' filters, once; store the message for the apps that want it."""
        domain = queue.domain
        # S003-6, S003-12, S003-28, BMQ-61, BMQ-62: filters decide first; an app that refuses is
        # done with it.
        apps = wanting(domain, queue, message.properties)
        self._make_room(queue, size, apps, turn)
        return self.take(queue, message, size, apps, turn)

    def _make_room(
        self, queue: SharedQueue, size: int, apps: tuple[AppId, ...], turn: Turn
    ) -> None:
        """Make room by removing expired messages, if needed; raise if there is still none."""
        domain = queue.domain
        is_stored = (apps or domain.keeps) and domain.mode is not Mode.BROADCAST
        if is_stored and not queue.has_room(size):
            self._expiry.expire(turn, queue)
            self._history.make_room(queue, size, turn)
            self._expiry.search_store(queue.state, turn)
            queue.check_room(size)

    def take(
        self,
        queue: SharedQueue,
        message: Message,
        size: int,
        apps: tuple[AppId, ...],
        turn: Turn,
    ) -> MessageEntry:
        """Store a message for which there is room."""
        domain = queue.domain
        seq = self._context.numbers.next()
        if message.arrived < queue.latest:
            # A place earlier in line means an earlier arrival, on any wire.
            message = replace(message, arrived=queue.latest)
        entry = MessageEntry(seq, message.id, message.arrived, size, message.properties, apps)
        if domain.mode is Mode.BROADCAST:
            if apps:
                self._delivery.broadcast(queue, entry, message, turn)
        # S003-20: a message that no app wants is not even stored, unless as history.
        elif apps:
            # S003-10, BMQ-60: stored for the apps that want it.
            turn.batch.append[seq] = Stored(seq, queue.id, message, apps)
            is_first = not queue.entries
            queue.add(entry, turn.undo)
            if is_first:
                self._expiry.plan(queue)
            queue.state.meter.change(1, entry.size, turn.undo)
            for app in apps:
                # BMQ-63: consumers are asked only where the app wants the message.
                self._delivery.touch(queue, queue.apps[app])
            judge(queue, turn)
        elif domain.keeps:
            turn.batch.append[seq] = Stored(seq, queue.id, message, apps)
            queue.state.meter.change(1, entry.size, turn.undo)
            self._history.add(queue, entry, turn)
            judge(queue, turn)
        queue.latest, queue.newest = message.arrived, seq
        queue.remembered.add(entry, turn.undo)
        body = message.body if domain.journal_bodies else None
        turn.facts.append(
            Accepted(turn.now, queue.id, message.id, entry.size, message.properties, body)
        )
        if domain.speaks:
            self._speak(queue, message, turn)
        if (domain.filters or queue.joined) and apps != queue.app_ids():
            turn.facts.extend(
                AutoConfirmed(turn.now, queue.id, app, message.id)
                for app in queue.app_ids()
                if app not in apps
            )
        return entry

    def _speak(self, queue: SharedQueue, message: Message, turn: Turn) -> None:
        """Publish a message on its channel, once it is stored."""
        channel = spoken_channel(queue.domain.speaks, message.properties)
        if channel is None or len(channel) > self._context.limits.name_bytes:
            turn.facts.append(Unspoken(turn.now, queue.id, message.id))
        else:
            turn.spoken.append(Spoken(channel, message, queue.id, queue.domain.speaks_as))


def wanting(domain: Domain, queue: SharedQueue | None, properties: Properties) -> tuple[AppId, ...]:
    """The apps of a queue that want a message; if the queue is still to be made, those of its
    domain."""
    apps = domain.apps
    if domain.filters:
        # S003-9, BMQ-68: a message refused by one app stays in the others.
        apps = tuple(app for app in apps if domain.wants(app, properties))
    if queue is not None and queue.joined:
        joined = queue.joined.items()
        apps = (*apps, *(name for name, group in joined if group.wants(properties)))
    return apps

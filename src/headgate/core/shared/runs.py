"""Runs: messages that an app's only consumer is given, or that are confirmed, one after another.

Where nothing has to be chosen, all of a run is done by one call and one note of `Undo`. Each
message is treated as if it came alone. One about which anything is not plain ends the run, and is
left to the ordinary way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TypeAlias

from headgate.core.delivery.mailbox import Mailbox
from headgate.core.effects import Deliver
from headgate.core.facts import Confirmed, Delivered
from headgate.core.model.ids import MessageId, Seq, SessionId
from headgate.core.model.message import Message, MessageEntry
from headgate.core.model.stream_id import StreamId, id_of
from headgate.core.shared.app import App
from headgate.core.shared.body_cache import BodyCache
from headgate.core.shared.dispatch import Group, Subscription
from headgate.core.shared.history import remember
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.quota import Capacity
from headgate.core.shared.reader import OpenPull, Reader, Readers
from headgate.core.turn.turn import BREATH_WORK, DELIVERY_BYTES, TESTS_PER_LOOK, Turn

Taken: TypeAlias = tuple[MessageEntry, Subscription, tuple[int, float], bool]
"""A message, the subscription that had it, its size and time as the gate has them, and whether that
was full."""


class GivenRun:
    """Gives an app's only consumer the messages at the front of a line.

    Delivery makes one for an app that it offers. A run ends at a message that does not match, at a
    full window, at a session without room, and where others should get a turn.
    """

    __slots__ = ("_app", "_bodies", "_mailbox", "_queue", "_taker")

    def __init__(
        self,
        queue: SharedQueue,
        app: App,
        taker: Subscription,
        mailbox: Mailbox,
        bodies: BodyCache,
    ) -> None:
        self._queue = queue
        self._app = app
        self._taker = taker
        self._mailbox = mailbox
        self._bodies = bodies

    def give(self, line: deque[Seq], turn: Turn) -> int:
        """Give as many messages as possible; return how many."""
        queue, app, taker = self._queue, self._app, self._taker
        session, gate, group = taker.session, taker.gate, taker.group
        assert group is not None, "a consumer's subscription is in a group"
        matches = None if group.predicate is None else group.predicate.matches
        find_entry, find_body, has_room = (
            queue.entries.get,
            self._bodies.find,
            self._mailbox.has_room,
        )
        queue_id, app_id, now, place = queue.id, app.id, turn.now, (taker.index,)
        effects, facts, appended = turn.effects, turn.facts, turn.batch.append
        messages_max, bytes_max = gate.window.messages, gate.window.bytes
        left = _most(app, turn)
        before = sent = turn.sent.get(session, 0)
        given: list[MessageEntry] = []
        while left and line and not (gate.full or gate.held):
            seq = line[0]
            entry = find_entry(seq)
            # S003-14, S003-44: only a message that matches is given, by its properties alone.
            if (
                entry is None
                or app_id not in entry.apps
                or (matches is not None and not matches(entry.properties))
                or not has_room(sent)
            ):
                break
            if not given:
                turn.undo.note(_take_back_given, line, app, taker, given)
            # S003-32, BMQ-1, BMQ-26: messages are given in the order of their arrival.
            line.popleft()
            given.append(entry)
            size = entry.size
            app.outstanding[seq] = taker
            gate.outstanding[seq] = (size, now)
            gate.size += size
            # BMQ-43, BMQ-45: checked after a delivery: one message may be larger than the window.
            gate.full = len(gate.outstanding) >= messages_max or (
                bytes_max is not None and gate.size >= bytes_max
            )
            stored = appended.get(seq)
            if stored is not None:
                message = stored.message
            else:
                body = find_body(seq)
                if body is None:
                    turn.bodiless.append((len(effects), seq))
                message = Message(entry.id, body or b"", entry.arrived, entry.properties)
            effects.append(Deliver(session, queue_id, message, None, app_id, place))
            facts.append(Delivered(now, queue_id, app_id, entry.id, session, 0))
            sent += size + DELIVERY_BYTES
            left -= 1
        if given:
            _count(app, group, len(given), session, sent - before, turn)
            if gate.full:
                turn.undo.assign(app, "open", app.open - 1)
        return len(given)


class PulledRun:
    """Gives an app's only reader the messages at the front of a line, by its pull.

    Delivery makes one for an app that it offers. A run ends where a `GivenRun` does, and when the
    pull has all that it asked for.
    """

    __slots__ = ("_app", "_bodies", "_mailbox", "_pull", "_queue", "_reader", "_readers")

    def __init__(
        self,
        queue: SharedQueue,
        app: App,
        reader: Reader,
        pull: OpenPull,
        mailbox: Mailbox,
        bodies: BodyCache,
        readers: Readers,
    ) -> None:
        self._queue = queue
        self._app = app
        self._reader = reader
        self._pull = pull
        self._mailbox = mailbox
        self._bodies = bodies
        self._readers = readers

    def give(self, line: deque[Seq], turn: Turn) -> int:
        """Give as many messages as possible; return how many."""
        queue, app, reader, pull = self._queue, self._app, self._reader, self._pull
        taker, session, ref, number = reader.subscription, pull.session, pull.ref, reader.number
        gate, group = taker.gate, taker.group
        assert group is not None, "a reader that pulls is in a group"
        matches = None if group.predicate is None else group.predicate.matches
        find_entry, find_body, has_room = (
            queue.entries.get,
            self._bodies.find,
            self._mailbox.has_room,
        )
        queue_id, app_id, now = queue.id, app.id, turn.now
        effects, facts, appended = turn.effects, turn.facts, turn.batch.append
        left, room = min(_most(app, turn), reader.left), reader.bytes_left
        before = sent = turn.sent.get(session, 0)
        given: list[MessageEntry] = []
        while left > 0 and room > 0 and line:
            seq = line[0]
            entry = find_entry(seq)
            # S003-14, S003-44: only a message that matches is given, by its properties alone.
            if (
                entry is None
                or app_id not in entry.apps
                or (matches is not None and not matches(entry.properties))
                or not has_room(sent)
            ):
                break
            if not given:
                turn.undo.note(_take_back_given, line, app, taker, given)
            # S003-32: messages are given in the order of their arrival.
            line.popleft()
            given.append(entry)
            size = entry.size
            app.outstanding[seq] = taker
            gate.outstanding[seq] = (size, now)
            gate.size += size
            stored = appended.get(seq)
            if stored is not None:
                message = stored.message
            else:
                body = find_body(seq)
                if body is None:
                    turn.bodiless.append((len(effects), seq))
                message = Message(entry.id, body or b"", entry.arrived, entry.properties)
            effects.append(Deliver(session, queue_id, message, ref, app_id, seq=seq))
            facts.append(Delivered(now, queue_id, app_id, entry.id, number, 0))
            sent += size + DELIVERY_BYTES
            room -= size
            left -= 1
        if given:
            _count(app, group, len(given), session, sent - before, turn)
            if (id := id_of(given[-1])) > app.passed:
                turn.undo.assign(app, "passed", id)
            turn.undo.assign(reader, "active", now)
            self._readers.give_all(reader, pull, given, reader.bytes_left - room, turn.undo)
            if not reader.left:
                app.hold(number, True, turn.undo)
        return len(given)


class ConfirmedRun:
    """Takes confirmed messages from a consumer and deletes them.

    `Releasing` makes one for a command that confirms. A run ends at a message that other apps still
    have, and where a window opens.
    """

    __slots__ = ("_app", "_queue", "_session")

    def __init__(self, queue: SharedQueue, app: App, session: SessionId) -> None:
        self._queue = queue
        self._app = app
        self._session = session

    def is_plain(self) -> bool:
        """Whether nothing has to be kept or counted of a message but that it is gone."""
        return _is_plain(self._queue, self._app)

    def confirm(
        self, messages: Sequence[MessageId], place: int, turn: Turn
    ) -> tuple[int, bool, Group | None]:
        """Confirm messages from this place on, as many as possible. Return how many were seen,
        whether the consumer had any of them, and the group that has room by it and messages waiting
        for that."""
        queue, app, session = self._queue, self._app, self._session
        entries, by_id, outstanding = queue.entries, queue.by_id, app.outstanding
        queue_id, app_id, now, only = queue.id, app.id, turn.now, (app.id,)
        facts, gone = turn.facts, turn.batch.delete
        seen = size = 0
        taken: list[Taken] = []
        opened: Group | None = None
        for message in islice(messages, place, place + BREATH_WORK - turn.work):
            seq = by_id.get(message)
            held = outstanding.get(seq) if seq is not None else None
            if seq is None or held is None or held.session != session:
                seen += 1
                continue
            entry, gate = entries[seq], held.gate
            if entry.apps != only:
                break
            if not taken:
                turn.undo.sort_after(entries)
                turn.undo.note(_take_back_confirmed, queue, app, taken)
            delivery, was_full = gate.outstanding[seq], gate.full
            gate.confirm(seq)
            del outstanding[seq], entries[seq], by_id[message]
            taken.append((entry, held, delivery, was_full))
            # S003-10, BMQ-72: the last app that is done with a message deletes it.
            gone.add(seq)
            size += entry.size
            seconds, age = now - delivery[1], now - entry.arrived
            facts.append(Confirmed(now, queue_id, app_id, message, session, seconds, age))
            seen += 1
            if was_full and not (gate.full or gate.held) and held.is_active:
                opened = held.group
                break
        if taken:
            _let_go(queue, app, taken, size, turn)
        if opened is not None:
            turn.undo.assign(app, "open", app.open + 1)
        turn.work += max(0, seen - 1)
        return seen, bool(taken), opened if opened is not None and opened.waiting else None


class AcknowledgedRun:
    """Confirms messages of an app by their ids in a stream, whoever holds them, and deletes them.

    `Claiming` makes one for a command that acknowledges. A run ends at a message that is not there,
    that nobody holds or that other apps still have, and where a window may open.
    """

    __slots__ = ("_app", "_queue")

    def __init__(self, queue: SharedQueue, app: App) -> None:
        self._queue = queue
        self._app = app

    def is_plain(self) -> bool:
        """Whether nothing has to be kept or counted of a message but that it is gone."""
        return _is_plain(self._queue, self._app)

    def confirm(self, ids: Sequence[StreamId], place: int, turn: Turn) -> int:
        """Confirm messages from this place on, as many as possible; return how many."""
        queue, app = self._queue, self._app
        entries, by_id, outstanding = queue.entries, queue.by_id, app.outstanding
        queue_id, app_id, now, only = queue.id, app.id, turn.now, (app.id,)
        facts, gone = turn.facts, turn.batch.delete
        taken: list[Taken] = []
        size = 0
        for id in islice(ids, place, place + BREATH_WORK - turn.work):
            seq = Seq(id.number)
            held = outstanding.get(seq)
            if held is None:
                break
            entry, gate = entries[seq], held.gate
            if entry.apps != only or gate.full or id_of(entry) != id:
                break
            if not taken:
                turn.undo.sort_after(entries)
                turn.undo.note(_take_back_confirmed, queue, app, taken)
            delivery = gate.outstanding[seq]
            gate.confirm(seq)
            del outstanding[seq], entries[seq], by_id[entry.id]
            taken.append((entry, held, delivery, False))
            # S003-10, BMQ-72: the last app that is done with a message deletes it.
            gone.add(seq)
            size += entry.size
            seconds, age = now - delivery[1], now - entry.arrived
            facts.append(Confirmed(now, queue_id, app_id, entry.id, held.session, seconds, age))
        if taken:
            _let_go(queue, app, taken, size, turn)
        turn.work += max(0, len(taken) - 1)
        return len(taken)


def _most(app: App, turn: Turn) -> int:
    """Messages that a run may give before others get a turn."""
    looks = 1 + app.groups.candidates // TESTS_PER_LOOK
    return min(-(-turn.looks // looks), max(1, -((turn.work - BREATH_WORK) // looks)))


def _count(app: App, group: Group, given: int, session: SessionId, size: int, turn: Turn) -> None:
    """Count messages that a session was given, with so many bytes to send."""
    turn.charge((1 + app.groups.candidates // TESTS_PER_LOOK) * given)
    turn.met += [group] * given
    app.groups.looked_at += given
    turn.sent[session] = turn.sent.get(session, 0) + size
    turn.sent_bytes += size
    app.move(turn.now, turn.undo)


def _is_plain(queue: SharedQueue, app: App) -> bool:
    redelivery = app.redelivery
    return not (
        queue.domain.keeps
        or redelivery.last_given
        or redelivery.attempts
        or redelivery.repeats
        or redelivery.returned
        or queue.meter.capacity is not Capacity.NORMAL
        or queue.state.meter.capacity is not Capacity.NORMAL
    )


def _let_go(queue: SharedQueue, app: App, taken: list[Taken], size: int, turn: Turn) -> None:
    """Count messages that an app has confirmed and that are deleted."""
    queue.meter.change(-len(taken), -size, turn.undo)
    queue.state.meter.change(-len(taken), -size, turn.undo)
    if turn.batch.hold:
        for entry, *_ in taken:
            turn.batch.hold.pop(entry.seq, None)
    remember(queue, [entry for entry, *_ in taken], turn)
    app.move(turn.now, turn.undo)


def _take_back_given(
    line: deque[Seq], app: App, taker: Subscription, given: list[MessageEntry]
) -> None:
    gate = taker.gate
    for entry in reversed(given):
        seq = entry.seq
        line.appendleft(seq)
        del app.outstanding[seq]
        gate.size -= gate.outstanding.pop(seq)[0]
    gate.full = False


def _take_back_confirmed(queue: SharedQueue, app: App, taken: list[Taken]) -> None:
    for entry, held, delivery, was_full in reversed(taken):
        seq = entry.seq
        queue.entries[seq] = entry
        queue.by_id[entry.id] = seq
        app.outstanding[seq] = held
        held.gate.unconfirm(seq, delivery, was_full)

"""Confirming, claiming, removing and giving back the messages that readers hold."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.commands import GiveBack
from headgate.core.facts import Confirmed, Purged, ReaderGone, Trimmed
from headgate.core.model.ids import Seq
from headgate.core.model.message import MessageEntry
from headgate.core.model.stream_id import FIRST, StreamId, id_of
from headgate.core.reader_commands import Acknowledge, DropReader, RemoveMessages, TakeOver
from headgate.core.reader_effects import ClaimDone, Counted
from headgate.core.shared.app import App
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.handing_over import HandingOver
from headgate.core.shared.history import History
from headgate.core.shared.pulling import Pulling
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.reader import Reader
from headgate.core.shared.releasing import Releasing
from headgate.core.shared.returning import Returning
from headgate.core.shared.runs import AcknowledgedRun
from headgate.core.turn.session_state import SessionStates
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, NoSuchApp
from headgate.expr.predicate import Predicate

LOOKS_PER_CLAIM = 10
"""Held messages that are looked at for each one to be claimed."""


class Claiming:
    """Carries out `Acknowledge`, `RemoveMessages`, `TakeOver` and `DropReader`.

    Each held message is with one reader; any session that knows its id may confirm it. Messages
    with sessions of other wires are not taken from them: those are alive, and will confirm.
    """

    def __init__(
        self,
        session_states: SessionStates,
        pulling: Pulling,
        delivery: SharedDelivery,
        catalog: Catalog,
        releasing: Releasing,
        returning: Returning,
        handing: HandingOver,
        history: History,
    ) -> None:
        self._handing = handing
        self._history = history
        self._session_states = session_states
        self._pulling = pulling
        self._readers = pulling.readers
        self._delivery = delivery
        self._catalog = catalog
        self._releasing = releasing
        self._returning = returning

    def acknowledge(self, command: Acknowledge, turn: Turn) -> Iterator[None]:
        try:
            found = self._find(command, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        count = 0
        if found is not None:
            queue, app = found
            ids, place = command.messages, 0
            run: AcknowledgedRun | None = AcknowledgedRun(queue, app)
            while place < len(ids):
                turn.work += 1
                if turn.take_breath():
                    app.prune(queue.entries, turn.undo)
                    yield
                if run is not None and run.is_plain() and (done := run.confirm(ids, place, turn)):
                    self._delivery.touch(queue, app)
                    count += done
                    place += done
                    continue
                run = None
                entry = _entry(queue, app, ids[place])
                if entry is not None:
                    self._confirm(queue, app, entry, turn)
                    count += 1
                place += 1
            app.prune(queue.entries, turn.undo)
        turn.effects.append(Counted(command.session, command.ref, count))

    def _confirm(self, queue: SharedQueue, app: App, entry: MessageEntry, turn: Turn) -> None:
        holder, seconds = app.outstanding.get(entry.seq), 0.0
        if holder is not None:
            seconds = turn.now - self._delivery.take_back(queue, app, entry.seq, turn)
            by = holder.session
            age = turn.now - entry.arrived
            fact = Confirmed(turn.now, queue.id, app.id, entry.id, by, seconds, age)
            turn.facts.append(fact)
        else:
            app.take_out(entry.seq, turn.undo)
        self._releasing.dereference(queue, entry, app, turn)

    def remove(self, command: RemoveMessages, turn: Turn) -> Iterator[None]:
        """Remove messages, pending ones included."""
        try:
            self._catalog.of_reader(command, command.client, "write")
            queue = self._catalog.find(command, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        count = 0
        for id in command.messages if queue is not None else ():
            turn.work += 1
            if turn.take_breath():
                yield
            assert queue is not None, "it is there"
            entry = queue.entries.get(Seq(id.number))
            if entry is not None and id_of(entry) == id:
                for name in entry.apps:
                    queue.apps[name].take_out(entry.seq, turn.undo)
                self._releasing.let_go(queue, entry, turn)
                turn.facts.append(Purged(turn.now, queue.id, entry.id))
                count += 1
            elif (place := queue.kept.find(id)) is not None:
                self._history.remove(queue, place, turn)
                turn.facts.append(Trimmed(turn.now, queue.id, 1))
                count += 1
        turn.effects.append(Counted(command.session, command.ref, count))

    def claim(self, command: TakeOver, turn: Turn) -> Iterator[None]:
        if turn.sent_bytes > self._pulling.limits.range_bytes:
            turn.again.append(command)
            return
        if self._session_states.take(command.session, turn.undo) is None:
            return
        try:
            found = self._find(command, turn)
            if found is None:
                raise NoSuchApp(command.app)
            reader = self._readers.find(command.queue, command.app, command.reader)
            predicate = self._pulling.predicate(command, (reader,), turn)
            if predicate is None:
                turn.again.append(command)
                return
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        queue, app = found
        limits = self._pulling.limits
        claim = _Claim(command, queue, app, predicate[0], limits.range_messages, limits.pull_bytes)
        if command.messages is None:
            yield from self._going_through(claim, turn)
        else:
            for id in command.messages:
                turn.work += 1
                if turn.take_breath():
                    yield
                if claim.is_full:
                    break  # a message that is not claimed is missing from the answer
                entry = _entry(queue, app, id)
                if entry is not None:
                    self._take(claim, entry, turn)
        turn.effects.append(
            ClaimDone(
                command.session,
                command.ref,
                tuple(claim.ids),
                claim.next,
                tuple(claim.poisoned),
            )
        )

    def _going_through(self, claim: _Claim, turn: Turn) -> Iterator[None]:
        """Claim the messages that may be claimed, in order of arrival, and answer where to go
        on."""
        command, queue = claim.command, claim.queue
        left = command.count * LOOKS_PER_CLAIM
        for seq in sorted(claim.app.outstanding):
            turn.work += 1
            if turn.take_breath():
                yield
            entry = queue.entries[seq]
            if id_of(entry) < command.start:
                continue
            if left <= 0 or len(claim.ids) >= command.count or claim.is_full:
                claim.next = id_of(entry)
                return
            left -= 1
            if claim.predicate is None or claim.predicate.matches(entry.properties):
                self._take(claim, entry, turn)

    def _take(self, claim: _Claim, entry: MessageEntry, turn: Turn) -> None:
        """Hand over one message, if it may be claimed."""
        command, queue, app, undo = claim.command, claim.queue, claim.app, turn.undo
        seq = entry.seq
        holder = app.outstanding.get(seq)
        if holder is None:
            if not command.forced:
                return
            app.take_out(seq, undo)
        elif holder.session > 0:
            return  # with a session of another wire, which is alive
        elif turn.now - holder.gate.outstanding[seq][1] < command.idle:
            return
        reader = claim.reader
        if reader is None:
            try:
                reader = self._pulling.ensure(command.reader, queue, app, turn)
            except HeadgateError:
                return  # too many messages
            claim.reader = reader
            self._readers.speak(command.session, reader, undo)
        at = turn.now if command.since is None else min(command.since, turn.now)
        if not self._handing.hand_over(reader, entry, at, turn):
            claim.poisoned.append(id_of(entry))
            return
        if command.deliveries is not None:
            undo.put(app.redelivery.repeats, seq, command.deliveries - 1)
        elif not command.only_ids and holder is not None:
            app.redelivery.count(seq, undo)
        claim.ids.append(id_of(entry))
        if not command.only_ids:
            claim.room -= entry.size
            self._delivery.show(queue, app, entry, command.session, command.ref, turn)

    def drop(self, command: DropReader, turn: Turn) -> Iterator[None]:
        try:
            domain = self._catalog.of_reader(command, command.client, "read")
            self._catalog.check_app(command, domain, turn)
            found = self._find(command, turn)
            if found is None:
                raise NoSuchApp(command.app)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        queue, app = found
        reader = self._readers.find(queue.id, app.id, command.reader)
        count = 0
        if reader is not None:
            held = reader.held
            count = len(held)
            yield from self.dismiss(reader, lost=False, turn=turn)
            self._pulling.forget(reader, turn)
            turn.facts.append(ReaderGone(turn.now, queue.id, app.id, reader.number, count))
        turn.effects.append(Counted(command.session, command.ref, count))

    def dismiss(self, reader: Reader, *, lost: bool, turn: Turn) -> Iterator[None]:
        """Remove a reader from its app, and take back what it holds."""
        yield from self._pulling.ungroup(reader, turn)
        back = GiveBack(
            reader.number, None, reader.queue.id, reader.app.id, tuple(reader.held), lost
        )
        if back.messages:
            self._returning.give_back(back, turn)

    def _find(
        self, command: Acknowledge | TakeOver | DropReader, turn: Turn
    ) -> tuple[SharedQueue, App] | None:
        """The app, if it exists; raise if it may not be read."""
        self._catalog.of_reader(command, command.client, "read")
        queue = self._catalog.find(command, turn)
        if queue is None or not queue.has_app(command.app):
            return None
        return queue, queue.apps[command.app]


class _Claim:
    """A claim under way."""

    __slots__ = (
        "app",
        "command",
        "ids",
        "most",
        "next",
        "poisoned",
        "predicate",
        "queue",
        "reader",
        "room",
    )

    def __init__(
        self,
        command: TakeOver,
        queue: SharedQueue,
        app: App,
        predicate: Predicate | None,
        most: int,
        room: int,
    ) -> None:
        self.command = command
        self.queue = queue
        self.app = app
        self.predicate = predicate
        self.reader: Reader | None = None
        self.ids: list[StreamId] = []
        self.poisoned: list[StreamId] = []
        self.next = FIRST
        self.most = most
        self.room = room
        """Bytes that the answer may still have."""

    @property
    def is_full(self) -> bool:
        """Whether the answer has no room for more."""
        return len(self.ids) >= self.most or self.room <= 0


def _entry(queue: SharedQueue, app: App, id: StreamId) -> MessageEntry | None:
    """The message with this id, if the app is not done with it."""
    entry = queue.entries.get(Seq(id.number))
    if entry is None or app.id not in entry.apps or id_of(entry) != id:
        return None
    return entry

"""Offering: what is in line for an app goes to whoever takes it.

Commands only touch an app. It is looked at before a change of its subscriptions and at the end
of the turn: first what a consumer gave back, then what waited for a group that has room now, then
what is in line once more, then what is fresh. Nothing is looked at while nobody has room.

What consumers are spared for now, and why, is `redelivery.py`; what was given back after such a
message waits behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from headgate.core.commands import Look
from headgate.core.effects import Deliver
from headgate.core.facts import Delivered, Missed, PutAside, QueueMoved
from headgate.core.model.ids import WHOLE, QueueId, Ref, Seq, SessionId
from headgate.core.model.message import Message, MessageEntry, Properties
from headgate.core.model.stream_id import id_of
from headgate.core.shared.app import App
from headgate.core.shared.body_cache import BodyCache
from headgate.core.shared.dispatch import Group, Groups, Subscription, by_priority, everybody
from headgate.core.shared.expression_stats import SAMPLE_APPS
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.reader import Reader, Readers
from headgate.core.turn.session_state import SessionStates
from headgate.core.turn.turn import BREATH_WORK, TESTS_PER_LOOK, Turn


class SharedDelivery:
    """Gives the messages of shared queues to consumers.

    Owned by the shared queues, which `touch` an app when something changed for it; `making`, at the
    end of a turn, looks at all that was touched. A message is in one line of its app, or in the
    hands of one consumer, never in both.
    """

    def __init__(
        self,
        queues: dict[QueueId, SharedQueue],
        session_states: SessionStates,
        bodies: BodyCache,
        readers: Readers,
    ) -> None:
        self._queues = queues
        self._readers = readers
        self._session_states = session_states
        self._bodies = bodies
        self._touched: dict[App, tuple[SharedQueue, list[Group]]] = {}
        """Apps to look at in this turn, with the groups that got room."""
        self._changed: dict[App, SharedQueue] = {}
        """Apps of which this turn may have changed what is undelivered or unconfirmed."""
        self._unsampled: dict[Groups, Properties] = {}
        """Apps by their groups, and a message that each looked at since it was sampled."""

    def touch(self, queue: SharedQueue, app: App, roomy: Group | None = None) -> None:
        touched = self._touched.get(app)
        if touched is None:
            touched = self._touched[app] = (queue, [])
        if roomy is not None and roomy not in touched[1]:
            touched[1].append(roomy)
        self._changed[app] = queue

    def note(self, queue: SharedQueue, app: App) -> None:
        """Something of an app changed that is no reason to look at it."""
        self._changed[app] = queue

    def take_changed(self) -> Iterable[tuple[App, SharedQueue]]:
        """The turn has happened: the apps that it changed."""
        changed, self._changed = self._changed, {}
        return changed.items()

    def make(self, turn: Turn) -> None:
        """Look at everything that was touched."""
        for _ in self.making(turn):
            pass

    def making(self, turn: Turn) -> Iterator[None]:
        """The same, some at a time. What is left over is looked at in the next turn, and first the
        apps of which nothing was looked at in this one: a long line holds nobody else up."""
        begun: list[Look] = []
        while self._touched:
            app = next(iter(self._touched))
            queue, roomy = self._touched.pop(app)
            is_begun = turn.looks > 0
            left = yield from self._offering(queue, app, roomy, turn)
            if left is not None:
                (begun if is_begun else turn.again).append(left)
        turn.again += begun

    def put_off(self, turn: Turn) -> None:
        """Have what was touched since everything was looked at looked at in the next turn."""
        for app, (queue, roomy) in self._touched.items():
            if app.open and (roomy or app.in_line()):
                turn.again.append(Look(queue.id, app.id, tuple(group.text for group in roomy)))
        self._touched.clear()

    def leave_out(self, queues: Container[QueueId]) -> list[QueueId]:
        """Do not look at these queues in this turn; return those that were to be looked at."""
        left_out = [app for app, (queue, _) in self._touched.items() if queue.id in queues]
        return [self._touched.pop(app)[0].id for app in left_out]

    def look_anew(self, queue: SharedQueue) -> None:
        """Look at everything of a queue that was left out: who got room meanwhile is not known."""
        for app in queue.apps.values():
            groups = dict.fromkeys(group for found in app.waiting.values() for group in found)
            roomy = [group for group in groups if group.next_open() is not None]
            self._touched[app] = (queue, roomy)
            self.note(queue, app)

    def abandon(self) -> None:
        """The turn did not happen."""
        self._touched.clear()
        self._changed.clear()

    def _offering(
        self, queue: SharedQueue, app: App, roomy: list[Group], turn: Turn
    ) -> Generator[None, None, Look | None]:
        """What a consumer gave back comes first. What waits for a group was looked at before the
        rest of the line, so it goes before that too. Returns what is left to be looked at."""
        turn.undo.assign(app.groups, "looked_at", app.groups.looked_at)  # it counts on from here
        line = app.back or app.again or app.fresh
        if app.open and line and line[0] in queue.entries:
            self._remember(app, queue.entries[line[0]], turn)
        # BMQ-50: what came back goes before everything else.
        yield from self._redelivering(queue, app, turn)
        for group in roomy:
            yield from self._offering_waiting(queue, app, group, turn)
        for line in (app.again, app.fresh):
            # BMQ-40: while all are full nothing goes out, and then the oldest.
            while app.open and line and turn.looks > 0:
                # S003-32, BMQ-1, BMQ-26: messages are looked at in the order of their arrival.
                self._take_from(line, queue, app, turn)
                if turn.work >= BREATH_WORK and turn.take_breath():
                    yield
        if app.open and turn.looks <= 0:
            behind = tuple(g.text for g in roomy if g.waiting and g.next_open() is not None)
            if app.back or app.again or app.fresh or behind:
                return Look(queue.id, app.id, behind)
        return None

    def _remember(self, app: App, entry: MessageEntry, turn: Turn) -> None:
        """Have a message to sample the app with."""
        if app.groups not in self._unsampled:
            turn.undo.put(self._unsampled, app.groups, entry.properties)

    def _take_from(self, line: deque[Seq], queue: SharedQueue, app: App, turn: Turn) -> None:
        seq = line.popleft()
        turn.undo.note(line.appendleft, seq)
        self._look_at(queue, app, seq, turn)

    def _redelivering(self, queue: SharedQueue, app: App, turn: Turn) -> Iterator[None]:
        """Deliver again what consumers gave back, up to the first that everybody is spared for
        now."""
        # BMQ-58: what came back waits for somebody who has room.
        while app.open and app.back and turn.looks > 0:
            if turn.take_breath():
                yield
            seq = app.back[0]
            seconds = app.redelivery.delay_left(seq, queue.domain, turn.now)
            if not self._look_at(queue, app, seq, turn, seconds):
                return
            app.back.popleft()
            turn.undo.note(app.back.appendleft, seq)
            app.redelivery.spare_no_longer(turn.undo)

    def _look_at(
        self, queue: SharedQueue, app: App, seq: Seq, turn: Turn, seconds: float = 0.0
    ) -> bool:
        """Give a message to somebody who was given nothing for so many seconds, or put it aside.
        Return whether that was done, or everybody who could take it is spared it for now."""
        entry = queue.entries.get(seq)
        if entry is None or app.id not in entry.apps:
            turn.charge(1)
            return True
        looked_at, met = app.groups.looked_at, len(turn.met)
        taker, full = self._choose(app, entry, turn, seconds)
        if taker is not None:
            self._deliver(queue, app, entry, taker, turn)
            return True
        if seconds and any(group.next_open() for group in full):
            app.groups.looked_at = looked_at
            del turn.met[met:]
            app.redelivery.spare(seq, full, seconds, turn.undo)
            return False
        if full:
            # S003-37: it waits for those who match and are full.
            turn.undo.put(app.waiting, seq, tuple(full))
            for group in full:
                group.waiting.append(seq)
                turn.undo.note(group.waiting.pop)
        else:
            # S003-15, S003-18, BMQ-23: kept, and out of the way of later ones.
            turn.undo.put(app.aside, seq, None)
        turn.facts.append(PutAside(turn.now, queue.id, app.id, entry.id, bool(full)))
        return True

    def _choose(
        self, app: App, entry: MessageEntry, turn: Turn, seconds: float
    ) -> tuple[Subscription | None, Sequence[Group]]:
        """The subscription that takes a message; or the groups that would if somebody had room and
        may have it."""
        groups, met = app.groups, len(turn.met)
        groups.looked_at += 1
        may = partial(app.redelivery.is_rested, since=turn.now - seconds) if seconds else None
        # S003-14, S003-44: only who matches is asked, by the properties alone.
        taker, full = by_priority(groups.matching(entry.properties), turn.met, may)
        turn.charge(1 + groups.candidates // TESTS_PER_LOOK)
        while taker is not None and not self._has_room(taker, turn):
            del turn.met[met:]
            taker, full = by_priority(groups.matching(entry.properties), turn.met, may)
            turn.charge(groups.candidates // TESTS_PER_LOOK)
        return taker, full

    def sample(self, turn: Turn) -> None:
        """Evaluate some expressions in full: those of the apps that wait longest for it."""
        for groups, properties in list(islice(self._unsampled.items(), SAMPLE_APPS)):
            groups.sample(properties, turn.undo)
            turn.undo.pop(self._unsampled, groups)

    def _offering_waiting(
        self, queue: SharedQueue, app: App, group: Group, turn: Turn
    ) -> Iterator[None]:
        suspicious: list[Seq] = []
        while group.waiting and turn.looks > 0 and (taker := group.next_open()) is not None:
            if not self._has_room(taker, turn):
                continue
            turn.charge(1)
            if turn.take_breath():
                yield
            seq = group.waiting.popleft()
            turn.undo.note(group.waiting.appendleft, seq)
            # It may be gone, or with somebody, or wait for others since it was looked at again.
            if group in app.waiting.get(seq, ()):
                turn.undo.pop(app.waiting, seq)
                if app.redelivery.delay(seq, queue.domain):
                    suspicious.append(seq)
                else:
                    self._deliver(queue, app, queue.entries[seq], taker, turn)
        if suspicious:
            app.look_again(suspicious, turn.undo)
            yield from self._redelivering(queue, app, turn)

    def _has_room(self, taker: Subscription, turn: Turn) -> bool:
        """Whether the consumer is there and its mailbox has room; if not, its gates are held
        shut, in whatever queue they are. A window may be larger than any mailbox."""
        if taker.session < 0:
            return self._reader_has_room(self._readers.by_number[taker.session], turn)
        if self._session_states.has_room(taker.session, turn):
            return True
        self.hold(taker.session, held=True, turn=turn)
        assert not taker.gate.is_open, "a consumer without room is held in every queue"
        return False

    def _reader_has_room(self, reader: Reader, turn: Turn) -> bool:
        """Whether a reader fetches, and whom it fetches for has room for the answer."""
        pull = reader.pull
        wants = pull is not None and reader.left > 0 and reader.bytes_left > 0
        if wants and pull is not None and self._session_states.has_room(pull.session, turn):
            return True
        self.hold_reader(reader, held=True, turn=turn)
        return False

    def hold_reader(self, reader: Reader, *, held: bool, turn: Turn) -> None:
        """The same as `hold` for a reader, which is a consumer of one app."""
        roomy = reader.app.hold(reader.number, held, turn.undo)
        if not held:
            for group in roomy or (None,):
                self.touch(reader.queue, reader.app, group)

    def hold(self, session: SessionId, *, held: bool, turn: Turn) -> None:
        """Hold a consumer's gates shut, or let go of them and look at what waits for them. It
        may be gone: until its clean-up it must not be given anything."""
        session_state = self._session_states.kept(session)
        for queue_id, app_id in session_state.opened if session_state is not None else ():
            queue = self._queues[queue_id]
            app = queue.apps.get(app_id)
            if app is None or session not in app.consumers:
                continue
            roomy = app.hold(session, held, turn.undo)
            if not held:
                for group in roomy or (None,):
                    self.touch(queue, app, group)

    def _deliver(
        self, queue: SharedQueue, app: App, entry: MessageEntry, taker: Subscription, turn: Turn
    ) -> None:
        app.admit(taker, entry.seq, entry.size, turn.now, turn.undo)
        if taker.group is not None:
            taker.group.rotate(taker, turn.undo)
        domain, redelivery = queue.domain, app.redelivery
        if redelivery.returned or domain.max_delivery_attempts:
            redelivery.deliver(entry.seq, taker.session, domain, turn.now, turn.undo)
        if app.moved != turn.now:
            turn.undo.assign(app, "moved", turn.now)
        if app.stuck:
            self.unstick(queue, app, turn)
        if taker.session < 0:
            self._give(queue, app, entry, self._readers.by_number[taker.session], turn)
            return
        self._write(queue, app, entry, taker, self._message(entry, turn), turn)

    def _message(self, entry: MessageEntry, turn: Turn) -> Message:
        """The message for the next effect; its body is filled in later if it has to be read."""
        appended = turn.batch.append.get(entry.seq)
        if appended is not None:
            return appended.message
        body = self._bodies.find(entry.seq)
        if body is None:
            turn.bodiless.append((len(turn.effects), entry.seq))
        return Message(entry.id, body or b"", entry.arrived, entry.properties)

    def show(
        self,
        queue: SharedQueue,
        app: App,
        entry: MessageEntry,
        session: SessionId,
        ref: Ref,
        turn: Turn,
    ) -> None:
        """Tell a message to a session that asked for it, for a reader that holds it."""
        message = self._message(entry, turn)
        attempts = app.redelivery.attempts.get(entry.seq, 0)
        turn.deliver(
            Deliver(session, queue.id, message, ref, app.id, attempts=attempts, seq=entry.seq),
            entry.size,
        )

    def show_entry(
        self,
        queue: SharedQueue,
        entry: MessageEntry,
        session: SessionId,
        ref: Ref,
        turn: Turn,
    ) -> None:
        """Tell a message to a session that looks at it, whoever holds it or has confirmed it."""
        message = self._message(entry, turn)
        turn.deliver(Deliver(session, queue.id, message, ref, seq=entry.seq), entry.size)

    def _write(
        self,
        queue: SharedQueue,
        app: App,
        entry: MessageEntry,
        taker: Subscription,
        message: Message,
        turn: Turn,
    ) -> None:
        attempts = app.redelivery.attempts.get(entry.seq, 0)
        place = (taker.index,)
        turn.deliver(
            Deliver(taker.session, queue.id, message, None, app.id, place, attempts), entry.size
        )
        turn.facts.append(Delivered(turn.now, queue.id, app.id, entry.id, taker.session, attempts))

    def _give(
        self, queue: SharedQueue, app: App, entry: MessageEntry, reader: Reader, turn: Turn
    ) -> None:
        """A reader is given a message, in the answer to whoever fetched."""
        pull = self._readers.give(reader, entry, turn.undo)
        if (id := id_of(entry)) > app.passed:
            turn.undo.assign(app, "passed", id)
        self.show(queue, app, entry, pull.session, pull.ref, turn)
        if not reader.left:
            app.hold(reader.number, True, turn.undo)
        attempts = app.redelivery.attempts.get(entry.seq, 0)
        fact = Delivered(turn.now, queue.id, app.id, entry.id, reader.number, attempts)
        turn.facts.append(fact)

    def broadcast(
        self, queue: SharedQueue, entry: MessageEntry, message: Message, turn: Turn
    ) -> None:
        """To whoever is there now. Nothing is stored, held or confirmed."""
        app = queue.apps[WHOLE]
        matching = list(app.groups.matching(entry.properties))
        turn.met += matching
        turn.charge(app.groups.candidates // TESTS_PER_LOOK)
        turn.undo.assign(app.groups, "looked_at", app.groups.looked_at + 1)
        self._remember(app, entry, turn)
        for taker in everybody(matching):
            turn.charge(1)
            if self._session_states.has_room(taker.session, turn):
                # BMQ-81: delivered before anything can expire; nothing is stored.
                self._write(queue, app, entry, taker, message, turn)
            else:
                turn.facts.append(Missed(turn.now, queue.id, entry.id, taker.session))

    def take_back(self, queue: SharedQueue, app: App, seq: Seq, turn: Turn) -> float:
        """Take a message out of a consumer's hands; return when it was delivered."""
        released = app.release(seq, turn.undo)
        assert released is not None, "only what is outstanding is taken back"
        _, at, roomy = released
        if app.moved != turn.now:
            turn.undo.assign(app, "moved", turn.now)
        self.touch(queue, app, roomy)
        return at

    def unstick(self, queue: SharedQueue, app: App, turn: Turn) -> None:
        turn.undo.assign(app, "stuck", False)
        turn.facts.append(QueueMoved(turn.now, queue.id, app.id))

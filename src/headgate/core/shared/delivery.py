"""Delivery: messages in line for an app go to consumers.

Commands only touch an app. It is looked at before a change of its subscriptions and at the end of
the turn: first the messages that consumers gave back, then those that waited for a group that has
room now, then those in line once more, then the fresh ones. While no consumer has room, none is
looked at.

`redelivery.py` decides which messages consumers are spared for now; messages given back after such
a one wait behind it.
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
from headgate.core.shared.runs import GivenRun, PulledRun
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
        """Apps to look at in this turn, with the groups that have room now."""
        self._changed: dict[App, SharedQueue] = {}
        """Apps whose undelivered or unconfirmed messages this turn may have changed."""
        self._unsampled: dict[Groups, Properties] = {}
        """Apps by their groups, each with a message to evaluate its expressions on."""

    def touch(self, queue: SharedQueue, app: App, roomy: Group | None = None) -> None:
        touched = self._touched.get(app)
        if touched is None:
            touched = self._touched[app] = (queue, [])
        if roomy is not None and roomy not in touched[1]:
            touched[1].append(roomy)
        self._changed[app] = queue

    def note(self, queue: SharedQueue, app: App) -> None:
        """Note a change of an app that is no reason to look at it."""
        self._changed[app] = queue

    def take_changed(self) -> Iterable[tuple[App, SharedQueue]]:
        """Take the apps that a committed turn changed."""
        changed, self._changed = self._changed, {}
        return changed.items()

    def make(self, turn: Turn) -> None:
        """Look at everything that was touched."""
        for _ in self.making(turn):
            pass

    def making(self, turn: Turn) -> Iterator[None]:
        """Deliver as `make` does, some at a time. The rest is looked at in the next turn, beginning
        with the apps that were not reached in this one, so that a long line does not hold up
        others."""
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
        """Look in the next turn at apps touched since the end of this one's deliveries."""
        for app, (queue, roomy) in self._touched.items():
            if app.open and (roomy or app.in_line()):
                turn.again.append(Look(queue.id, app.id, tuple(group.text for group in roomy)))
        self._touched.clear()

    @property
    def is_due(self) -> bool:
        """Whether anything is to be looked at."""
        return bool(self._touched)

    def leave_out(self, queues: Container[QueueId]) -> list[QueueId]:
        """Skip these queues in this turn; return those that were to be looked at."""
        left_out = [app for app, (queue, _) in self._touched.items() if queue.id in queues]
        return [self._touched.pop(app)[0].id for app in left_out]

    def look_anew(self, queue: SharedQueue) -> None:
        """Look at all of a skipped queue: which groups got room meanwhile is not known."""
        for app in queue.apps.values():
            groups = dict.fromkeys(group for found in app.waiting.values() for group in found)
            roomy = [group for group in groups if group.next_open() is not None]
            self._touched[app] = (queue, roomy)
            self.note(queue, app)

    def abandon(self) -> None:
        """Drop the changes of a failed turn."""
        self._touched.clear()
        self._changed.clear()

    def _offering(
        self, queue: SharedQueue, app: App, roomy: list[Group], turn: Turn
    ) -> Generator[None, None, Look | None]:
        """Offer the messages of an app: those given back first, then those that wait for a group,
        which were looked at before the rest of the line. Return what is left to look at."""
        turn.undo.assign(app.groups, "looked_at", app.groups.looked_at)  # it counts on from here
        line = app.back or app.again or app.fresh
        if app.open and line and line[0] in queue.entries:
            self._remember(app, queue.entries[line[0]], turn)
        # BMQ-50: messages given back go before all others.
        if app.back:
            yield from self._redelivering(queue, app, turn)
        for group in roomy:
            yield from self._offering_waiting(queue, app, group, turn)
        run = self._run_of(queue, app) if len(app.again) + len(app.fresh) > 1 else None
        for line in (app.again, app.fresh):
            # BMQ-40: while all consumers are full no message goes out, and then the oldest.
            while app.open and line and turn.looks > 0:
                # S003-32, BMQ-1, BMQ-26: messages are looked at in the order of their arrival.
                if run is None or not run.give(line, turn):
                    run = None
                    self._take_from(line, queue, app, turn)
                if turn.work >= BREATH_WORK and turn.take_breath():
                    yield
        if app.open and turn.looks <= 0:
            behind = tuple(g.text for g in roomy if g.waiting and g.next_open() is not None)
            if app.back or app.again or app.fresh or behind:
                return Look(queue.id, app.id, behind)
        return None

    def _run_of(self, queue: SharedQueue, app: App) -> GivenRun | PulledRun | None:
        """Runs for the only consumer of an app. None if there are several, and where more has to be
        noted of a message than that it was given."""
        redelivery = app.redelivery
        if (
            app.size != 1
            or app.stuck
            or queue.domain.max_delivery_attempts
            or redelivery.returned
            or redelivery.attempts
        ):
            return None
        taker = next(iter(app.subscriptions()))
        sessions, bodies = self._session_states.sessions, self._bodies
        if taker.session < 0:
            reader = self._readers.by_number[taker.session]
            pull = reader.pull
            alive = None if pull is None else sessions.get(pull.session)
            if pull is None or alive is None or pull.claims is not None:
                return None
            return PulledRun(queue, app, reader, pull, alive.mailbox, bodies, self._readers)
        alive = sessions.get(taker.session)
        return None if alive is None else GivenRun(queue, app, taker, alive.mailbox, bodies)

    def _remember(self, app: App, entry: MessageEntry, turn: Turn) -> None:
        """Keep a message for sampling the app's expressions."""
        if app.groups not in self._unsampled:
            turn.undo.put(self._unsampled, app.groups, entry.properties)

    def _take_from(self, line: deque[Seq], queue: SharedQueue, app: App, turn: Turn) -> None:
        seq = line.popleft()
        turn.undo.note(line.appendleft, seq)
        self._look_at(queue, app, seq, turn)

    def _redelivering(self, queue: SharedQueue, app: App, turn: Turn) -> Iterator[None]:
        """Deliver messages again that consumers gave back, up to the first that all consumers are
        spared for now."""
        # BMQ-58: a message given back waits for a consumer with room.
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
        """Give a message to a consumer that was given none for so many seconds, or put it aside.
        Return whether that was done; if not, all consumers that could take it are spared it for
        now."""
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
            # S003-37: it waits for the groups that match and are full.
            turn.undo.put(app.waiting, seq, tuple(full))
            for group in full:
                group.waiting.append(seq)
                turn.undo.note(group.waiting.pop)
        else:
            # S003-15, S003-18, BMQ-23: kept, and out of the way of later messages.
            turn.undo.put(app.aside, seq, None)
        turn.facts.append(PutAside(turn.now, queue.id, app.id, entry.id, bool(full)))
        return True

    def _choose(
        self, app: App, entry: MessageEntry, turn: Turn, seconds: float
    ) -> tuple[Subscription | None, Sequence[Group]]:
        """The subscription that takes a message; or the groups that would if they had room."""
        groups, met = app.groups, len(turn.met)
        groups.looked_at += 1
        may = partial(app.redelivery.is_rested, since=turn.now - seconds) if seconds else None
        # S003-14, S003-44: only groups that match are asked, by the properties alone.
        taker, full = by_priority(groups.matching(entry.properties), turn.met, may)
        turn.charge(1 + groups.candidates // TESTS_PER_LOOK)
        while taker is not None and not self._has_room(taker, turn):
            del turn.met[met:]
            taker, full = by_priority(groups.matching(entry.properties), turn.met, may)
            turn.charge(groups.candidates // TESTS_PER_LOOK)
        return taker, full

    def sample(self, turn: Turn) -> None:
        """Evaluate some expressions in full: those of the apps that waited longest for it."""
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
            # It may be gone, with a consumer, or waiting for other groups since it was put in.
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
        """Whether the consumer is there and its mailbox has room; if not, its gates in all queues
        are held shut. A window may be larger than any mailbox."""
        if taker.session < 0:
            return self._reader_has_room(self._readers.by_number[taker.session], turn)
        if self._session_states.has_room(taker.session, turn):
            return True
        self.hold(taker.session, held=True, turn=turn)
        assert not taker.gate.is_open, "a consumer without room is held in every queue"
        return False

    def _reader_has_room(self, reader: Reader, turn: Turn) -> bool:
        """Whether a reader has a pull under way, and its session room for the answer."""
        pull = reader.pull
        wants = pull is not None and reader.left > 0 and reader.bytes_left > 0
        if wants and pull is not None and self._session_states.has_room(pull.session, turn):
            return True
        self.hold_reader(reader, held=True, turn=turn)
        return False

    def hold_reader(self, reader: Reader, *, held: bool, turn: Turn) -> None:
        """Hold for a reader, which is a consumer of one app, as `hold` does."""
        roomy = reader.app.hold(reader.number, held, turn.undo)
        if not held:
            for group in roomy or (None,):
                self.touch(reader.queue, reader.app, group)

    def hold(self, session: SessionId, *, held: bool, turn: Turn) -> None:
        """Hold a consumer's gates shut, or open them and look at the messages that wait for it. It
        may be gone: until its clean-up it must get no message."""
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
        app.move(turn.now, turn.undo)
        if app.stuck:
            self.unstick(queue, app, turn)
        if taker.session < 0:
            self._give(queue, app, entry, self._readers.by_number[taker.session], turn)
            return
        self._write(queue, app, entry, taker, self._message(entry, turn), turn)

    def _message(self, entry: MessageEntry, turn: Turn) -> Message:
        """The message for the next effect; if its body has to be read, it is filled in later."""
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
        """Show a message to a session that asked for it, for a reader that holds it."""
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
        """Show a message to a session that browses, even if it is with a consumer or confirmed."""
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
        """Give a reader a message, in the answer to its pull."""
        pull = self._readers.give(reader, entry, turn.undo)
        if (id := id_of(entry)) > app.passed:
            turn.undo.assign(app, "passed", id)
        self.show(queue, app, entry, pull.session, pull.ref, turn)
        if not reader.left:
            app.hold(reader.number, True, turn.undo)
        if reader.active != turn.now:
            turn.undo.assign(reader, "active", turn.now)
        attempts = app.redelivery.attempts.get(entry.seq, 0)
        fact = Delivered(turn.now, queue.id, app.id, entry.id, reader.number, attempts)
        turn.facts.append(fact)

    def broadcast(
        self, queue: SharedQueue, entry: MessageEntry, message: Message, turn: Turn
    ) -> None:
        """Deliver a message to the present consumers. It is neither stored nor held nor
        confirmed."""
        app = queue.apps[WHOLE]
        matching = list(app.groups.matching(entry.properties))
        turn.met += matching
        turn.charge(app.groups.candidates // TESTS_PER_LOOK)
        turn.undo.assign(app.groups, "looked_at", app.groups.looked_at + 1)
        self._remember(app, entry, turn)
        for taker in everybody(matching):
            turn.charge(1)
            if self._session_states.has_room(taker.session, turn):
                # BMQ-81: delivered before it can expire, and not stored.
                self._write(queue, app, entry, taker, message, turn)
            else:
                turn.facts.append(Missed(turn.now, queue.id, entry.id, taker.session))

    def take_back(self, queue: SharedQueue, app: App, seq: Seq, turn: Turn) -> float:
        """Take a message from its consumer; return the time of delivery."""
        released = app.release(seq, turn.undo)
        assert released is not None, "only what is outstanding is taken back"
        _, at, roomy = released
        app.move(turn.now, turn.undo)
        self.touch(queue, app, roomy)
        return at

    def unstick(self, queue: SharedQueue, app: App, turn: Turn) -> None:
        turn.undo.assign(app, "stuck", False)
        turn.facts.append(QueueMoved(turn.now, queue.id, app.id))

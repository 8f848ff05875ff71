"""Offering: what is in line for an app goes to whoever takes it.

Commands only touch an app. It is looked at before a change of its subscriptions and at the end
of the turn: first what a consumer gave back, then what waited for a group that has room now, then
what is in line once more, then what is fresh. Nothing is looked at while nobody has room.

A message that consumers were lost with may have been the cause. It is given to a consumer only
when that was given nothing for a while, or has confirmed it, so that many of them are not in the
same hands; and what was given back after it waits behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice

from headgate.core.apps import App
from headgate.core.bodies import Bodies
from headgate.core.commands import Look
from headgate.core.dispatch import Group, Groups, Subscription, by_priority, everybody
from headgate.core.effects import Deliver
from headgate.core.facts import Delivered, Missed, PutAside, QueueMoved
from headgate.core.message import Entry, Message, Properties
from headgate.core.names import WHOLE, AppId, QueueId, Seq, SessionId
from headgate.core.scores import SAMPLE_APPS
from headgate.core.seats import Seats
from headgate.core.shared import SharedQueue
from headgate.core.turn import Turn


class Offers:
    def __init__(self, queues: dict[QueueId, SharedQueue], seats: Seats, bodies: Bodies) -> None:
        self._queues = queues
        self._seats = seats
        self._bodies = bodies
        self._touched: dict[tuple[QueueId, AppId], tuple[SharedQueue, App, list[Group]]] = {}
        """Apps to look at in this turn, with the groups that got room."""
        self._unsampled: dict[Groups, Properties] = {}
        """Apps by their groups, and a message that each looked at since it was sampled."""

    def touch(self, queue: SharedQueue, app: App, roomy: Group | None = None) -> None:
        _, _, groups = self._touched.setdefault((queue.id, app.id), (queue, app, []))
        if roomy is not None and roomy not in groups:
            groups.append(roomy)

    def make(self, turn: Turn) -> None:
        """Look at everything that was touched."""
        while self._touched:
            queue, app, roomy = self._touched.pop(next(iter(self._touched)))
            self._offer(queue, app, roomy, turn)

    def abandon(self) -> None:
        """The turn did not happen."""
        self._touched.clear()

    def _offer(self, queue: SharedQueue, app: App, roomy: list[Group], turn: Turn) -> None:
        """What a consumer gave back comes first. What waits for a group was looked at before the
        rest of the line, so it goes before that too."""
        turn.undo.assign(app.groups, "looked_at", app.groups.looked_at)  # it counts on from here
        line = app.back or app.again or app.fresh
        if app.open and line and line[0] in queue.entries:
            self._remember(app, queue.entries[line[0]], turn)
        self._redeliver(queue, app, turn)
        for group in roomy:
            self._offer_waiting(queue, app, group, turn)
        for line in (app.again, app.fresh):
            while app.open and line and turn.looks > 0:
                turn.looks -= 1
                self._take_from(line, queue, app, turn)
        if app.open and (app.again or app.fresh):
            turn.again.append(Look(queue.id, app.id))

    def _remember(self, app: App, entry: Entry, turn: Turn) -> None:
        """Have a message to sample the app with."""
        if app.groups not in self._unsampled:
            turn.undo.put(self._unsampled, app.groups, entry.properties)

    def _take_from(self, line: deque[Seq], queue: SharedQueue, app: App, turn: Turn) -> None:
        seq = line.popleft()
        turn.undo.note(line.appendleft, seq)
        self._look_at(queue, app, seq, turn)

    def _redeliver(self, queue: SharedQueue, app: App, turn: Turn) -> None:
        """What a consumer gave back, up to the first that everybody is spared for now."""
        while app.open and app.back:
            seq = app.back[0]
            seconds = queue.domain.delay(app.attempts.get(seq, 0))
            if app.held is not None and app.held[0] == seq and turn.now >= app.held[1]:
                seconds = 0.0  # they were spared it long enough
            if not self._look_at(queue, app, seq, turn, seconds):
                return
            app.back.popleft()
            turn.undo.note(app.back.appendleft, seq)
            if app.held is not None:
                turn.undo.assign(app, "held", None)

    def _look_at(
        self, queue: SharedQueue, app: App, seq: Seq, turn: Turn, seconds: float = 0.0
    ) -> bool:
        """Give a message to somebody who was given nothing for so many seconds, or put it aside.
        Return whether that was done, or everybody who could take it is spared it for now."""
        entry = queue.entries.get(seq)
        if entry is None or app.id not in entry.apps:
            return True
        looked_at, met = app.groups.looked_at, len(turn.met)
        taker, full = self._choose(app, entry, turn, seconds)
        if taker is not None:
            self._deliver(queue, app, entry, taker, turn)
            return True
        if seconds and any(group.next_open() for group in full):
            app.groups.looked_at = looked_at
            del turn.met[met:]
            app.spare(seq, full, seconds, turn.undo)
            return False
        if full:
            turn.undo.put(app.waiting, seq, tuple(full))
            for group in full:
                group.waiting.append(seq)
                turn.undo.note(group.waiting.pop)
        else:
            turn.undo.put(app.aside, seq, None)
        turn.facts.append(PutAside(turn.now, queue.id, app.id, entry.id, bool(full)))
        return True

    def _choose(
        self, app: App, entry: Entry, turn: Turn, seconds: float
    ) -> tuple[Subscription | None, Sequence[Group]]:
        """Who takes a message, or who would."""
        groups, met = app.groups, len(turn.met)
        groups.looked_at += 1
        may = partial(app.is_rested, since=turn.now - seconds) if seconds else None
        taker, full = by_priority(groups.matching(entry.properties), turn.met, may)
        while taker is not None and not self._has_room(taker, turn):
            del turn.met[met:]
            taker, full = by_priority(groups.matching(entry.properties), turn.met, may)
        return taker, full

    def sample(self, turn: Turn) -> None:
        """Evaluate some expressions in full: those of the apps that wait longest for it."""
        for groups, properties in list(islice(self._unsampled.items(), SAMPLE_APPS)):
            groups.sample(properties, turn.undo)
            turn.undo.pop(self._unsampled, groups)

    def _offer_waiting(self, queue: SharedQueue, app: App, group: Group, turn: Turn) -> None:
        suspicious: list[Seq] = []
        while group.waiting and (taker := group.next_open()) is not None:
            if not self._has_room(taker, turn):
                continue
            seq = group.waiting.popleft()
            turn.undo.note(group.waiting.appendleft, seq)
            # It may be gone, or with somebody, or wait for others since it was looked at again.
            if group in app.waiting.get(seq, ()):
                turn.undo.pop(app.waiting, seq)
                if seq in app.attempts and queue.domain.delay(app.attempts[seq]):
                    suspicious.append(seq)
                else:
                    self._deliver(queue, app, queue.entries[seq], taker, turn)
        if suspicious:
            app.look_again(suspicious, turn.undo)
            self._redeliver(queue, app, turn)

    def _has_room(self, taker: Subscription, turn: Turn) -> bool:
        """Whether the consumer is there and its mailbox has room; if not, its gates are held
        shut, in whatever queue they are. A window may be larger than any mailbox."""
        if self._seats.has_room(taker.session, turn):
            return True
        self.hold(taker.session, held=True, turn=turn)
        assert not taker.gate.is_open, "a consumer without room is held in every queue"
        return False

    def hold(self, session: SessionId, *, held: bool, turn: Turn) -> None:
        """Hold a consumer's gates shut, or let go of them and look at what waits for them. It
        may be gone: until its clean-up it must not be given anything."""
        seat = self._seats.kept(session)
        for queue_id, app_id in seat.opened if seat is not None else ():
            queue = self._queues[queue_id]
            app = queue.apps.get(app_id)
            if app is None or session not in app.consumers:
                continue
            roomy = app.hold(session, held, turn.undo)
            if not held:
                for group in roomy or (None,):
                    self.touch(queue, app, group)

    def _deliver(
        self, queue: SharedQueue, app: App, entry: Entry, taker: Subscription, turn: Turn
    ) -> None:
        app.admit(taker, entry.seq, entry.size, turn.now, turn.undo)
        if taker.group is not None:
            taker.group.rotate(taker, turn.undo)
        turn.undo.discard(app.returned, entry.seq)
        if queue.domain.max_delivery_attempts:
            turn.undo.put(app.pushed, taker.session, (entry.seq, turn.now))
        if app.moved != turn.now:
            turn.undo.assign(app, "moved", turn.now)
        if app.stuck:
            self.unstick(queue, app, turn)
        appended = turn.batch.append.get(entry.seq)
        body = appended.message.body if appended is not None else self._bodies.find(entry.seq)
        if body is None:
            turn.bodiless.append((len(turn.effects), entry.seq))
        self._say(queue, app, entry, taker, body or b"", turn)

    def _say(
        self,
        queue: SharedQueue,
        app: App,
        entry: Entry,
        taker: Subscription,
        body: bytes,
        turn: Turn,
    ) -> None:
        attempts = app.attempts.get(entry.seq, 0)
        turn.deliver(
            Deliver(
                taker.session,
                queue.id,
                Message(entry.id, body, entry.arrived, entry.properties),
                app=app.id,
                interests=(taker.index,),
                attempts=attempts,
            ),
            entry.size,
        )
        turn.facts.append(Delivered(turn.now, queue.id, app.id, entry.id, taker.session, attempts))

    def broadcast(self, queue: SharedQueue, entry: Entry, body: bytes, turn: Turn) -> None:
        """To whoever is there now. Nothing is stored, held or confirmed."""
        app = queue.apps[WHOLE]
        matching = list(app.groups.matching(entry.properties))
        turn.met += matching
        turn.undo.assign(app.groups, "looked_at", app.groups.looked_at + 1)
        self._remember(app, entry, turn)
        for taker in everybody(matching):
            if self._seats.has_room(taker.session, turn):
                self._say(queue, app, entry, taker, body, turn)
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

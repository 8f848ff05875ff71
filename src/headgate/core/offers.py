"""Offering: what is in line for an app goes to whoever takes it.

Commands only touch an app. It is looked at before a change of its subscriptions and at the end
of the turn: first what is in line once more, then what waited for a group that has room now,
then what is fresh. Nothing is looked at while nobody has room.
"""

from __future__ import annotations

from collections import deque

from headgate.core.apps import App
from headgate.core.bodies import Bodies
from headgate.core.dispatch import Group, Subscription, by_priority, everybody
from headgate.core.effects import Deliver
from headgate.core.facts import Delivered, Missed, PutAside, QueueMoved
from headgate.core.message import Entry, Message
from headgate.core.names import WHOLE, AppId, QueueId, Seq, SessionId
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
        while app.open and app.again and app.again[0] in app.returned:
            self._take_from(app.again, queue, app, turn)
        for group in roomy:
            self._offer_waiting(queue, app, group, turn)
        for line in (app.again, app.fresh):
            while app.open and line:
                self._take_from(line, queue, app, turn)

    def _take_from(self, line: deque[Seq], queue: SharedQueue, app: App, turn: Turn) -> None:
        seq = line.popleft()
        turn.undo.note(line.appendleft, seq)
        self._look_at(queue, app, seq, turn)

    def _look_at(self, queue: SharedQueue, app: App, seq: Seq, turn: Turn) -> None:
        entry = queue.entries.get(seq)
        if entry is None or app.id not in entry.apps:
            return
        taker, full = by_priority(app.groups.matching(entry.properties))
        while taker is not None and not self._has_room(taker, turn):
            taker, full = by_priority(app.groups.matching(entry.properties))
        if taker is not None:
            self._deliver(queue, app, entry, taker, turn)
            return
        if full:
            turn.undo.put(app.waiting, seq, tuple(full))
            for group in full:
                group.waiting.append(seq)
                turn.undo.note(group.waiting.pop)
        else:
            turn.undo.put(app.aside, seq, None)
        turn.facts.append(PutAside(turn.now, queue.id, app.id, entry.id, bool(full)))

    def _offer_waiting(self, queue: SharedQueue, app: App, group: Group, turn: Turn) -> None:
        while group.waiting and (taker := group.next_open()) is not None:
            if not self._has_room(taker, turn):
                continue
            seq = group.waiting.popleft()
            turn.undo.note(group.waiting.appendleft, seq)
            if seq in app.waiting:
                turn.undo.pop(app.waiting, seq)
                self._deliver(queue, app, queue.entries[seq], taker, turn)

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
            )
        )
        turn.facts.append(Delivered(turn.now, queue.id, app.id, entry.id, taker.session, attempts))

    def broadcast(self, queue: SharedQueue, entry: Entry, body: bytes, turn: Turn) -> None:
        """To whoever is there now. Nothing is stored, held or confirmed."""
        app = queue.apps[WHOLE]
        for taker in everybody(app.groups.matching(entry.properties)):
            if self._seats.has_room(taker.session, turn):
                self._say(queue, app, entry, taker, body, turn)
            else:
                turn.facts.append(Missed(turn.now, queue.id, entry.id, taker.session))

    def take_back(self, queue: SharedQueue, app: App, seq: Seq, turn: Turn) -> float:
        """Take a message out of a consumer's hands; return when it was delivered."""
        released = app.release(seq, turn.undo)
        assert released is not None, "only what is outstanding is taken back"
        _, at, roomy = released
        turn.undo.assign(app, "moved", turn.now)
        self.touch(queue, app, roomy)
        return at

    def unstick(self, queue: SharedQueue, app: App, turn: Turn) -> None:
        turn.undo.assign(app, "stuck", False)
        turn.facts.append(QueueMoved(turn.now, queue.id, app.id))

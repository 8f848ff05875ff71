"""Feeding: a message on a channel bound to domains goes into all of them, or into none."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.facts import FeedDropped, Repeated
from headgate.core.model.binding import Spoken
from headgate.core.model.ids import QueueId, SessionId
from headgate.core.reader_commands import Feed, FeedPart, Withdraw
from headgate.core.reader_effects import Fed
from headgate.core.shared.accepting import Accepting
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import SharedContext
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, QuotaReached

FULL_SECONDS = 60.0
"""Seconds that a publisher waits for room before it is refused."""
WOKEN = 100
"""Waiting feeds of a queue that are tried again in one turn."""


class Feeding:
    """Carries out `Feed`. The operator decided on the bindings, so no rights are checked. Room is
    checked for every part before the first is taken.

    A session whose feed waits has no other request. The feed is tried again when the full queue has
    room, and for the last time after `FULL_SECONDS`.
    """

    def __init__(self, context: SharedContext, catalog: Catalog, accepting: Accepting) -> None:
        self._context = context
        self._catalog = catalog
        self._accepting = accepting
        self.waiting: dict[QueueId, dict[SessionId, Feed]] = {}
        """Waiting feeds by the full queue, oldest first."""
        self._full: dict[SessionId, QueueId] = {}

    def feed(self, command: Feed, turn: Turn) -> None:
        places: list[tuple[FeedPart, SharedQueue | None]] = []
        for part in command.parts:
            try:
                places.append((part, self._place(part, turn)))
            except HeadgateError as error:
                is_full = isinstance(error, QuotaReached) and part.waits and command.may_wait
                if is_full and command.session not in self._full:
                    self._wait(part.queue, command, turn)
                else:
                    turn.fail(command.session, command.ref, command.parts[0].queue, error)
                return
        taken = 0
        for part, queue in places:
            if queue is not None:
                taken += 1
                if queue.remembers(part.message.id, turn.sure):
                    turn.facts.append(Repeated(turn.now, queue.id, part.message.id))
                else:
                    message = replace(part.message, arrived=turn.now)
                    self._accepting.take_in(queue, message, turn)
                if turn.now - queue.used > 1.0:
                    turn.undo.assign(queue, "used", turn.now)
        first = command.parts[0]
        message = replace(first.message, body=command.body)
        turn.spoken.append(
            Spoken(
                command.channel, message, first.queue, is_sharded=command.is_sharded, is_fed=True
            )
        )
        turn.effects.append(Fed(command.session, command.ref, taken))

    def waking(self, turn: Turn) -> None:
        """Try waiting feeds again in the next turn, if their queue has room."""
        for queue_id, waiting in list(self.waiting.items()):
            queue = self._context.queues.get(queue_id)
            for session, command in list(waiting.items())[:WOKEN]:
                part = next(part for part in command.parts if part.queue == queue_id)
                if queue is not None and not (queue.has_room(part.message.size) or queue.kept):
                    break
                self._leave(session, turn)
                turn.again.append(command)

    def tick(self, turn: Turn) -> None:
        """Answer feeds that have waited too long."""
        for waiting in list(self.waiting.values()):
            for command in list(waiting.values()):
                if command.since is None or turn.now - command.since < FULL_SECONDS:
                    break
                self._end(command, turn)

    def withdraw(self, command: Withdraw, turn: Turn) -> None:
        queue_id = self._full.get(command.session)
        if queue_id is not None:
            feed = self.waiting[queue_id][command.session]
            if feed.ref == command.ref:
                self._end(feed, turn)

    def disconnect(self, session: SessionId, turn: Turn) -> None:
        """Drop the waiting feed of a session that is gone: there is no client to answer."""
        if session in self._full:
            self._leave(session, turn)

    # Inside.

    def _wait(self, queue: QueueId, command: Feed, turn: Turn) -> None:
        if self._context.session_states.take(command.session, turn.undo) is None:
            return  # its client is gone
        if queue not in self.waiting:
            turn.undo.put(self.waiting, queue, {})
        since = turn.now if command.since is None else command.since
        turn.undo.put(self.waiting[queue], command.session, replace(command, since=since))
        turn.undo.put(self._full, command.session, queue)

    def _leave(self, session: SessionId, turn: Turn) -> None:
        queue = turn.undo.pop(self._full, session)
        assert queue is not None, "it waits"
        turn.undo.pop(self.waiting[queue], session)
        if not self.waiting[queue]:
            turn.undo.pop(self.waiting, queue)

    def _end(self, command: Feed, turn: Turn) -> None:
        """Try a feed for the last time."""
        self._leave(command.session, turn)
        self.feed(replace(command, may_wait=False), turn)

    def _place(self, part: FeedPart, turn: Turn) -> SharedQueue | None:
        """The queue with room for a part; None if it has none, and the part is left out."""
        self._catalog.domain_of(part)
        queue = self._catalog.find(part, turn) or self._catalog.make(part, turn)
        try:
            if not queue.remembers(part.message.id, turn.sure):
                self._accepting.check_room(queue, part.message, turn)
        except QuotaReached:
            if not part.drops:
                raise
            turn.facts.append(FeedDropped(turn.now, queue.id, part.domain))
            return None
        return queue

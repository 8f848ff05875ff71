"""Messages that a consumer gives back: it closes its queue, or its connection is lost."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import GiveBack
from headgate.core.facts import Poisoned, Returned
from headgate.core.model.ids import QueueId, Ref, Seq
from headgate.core.model.message import MessageEntry
from headgate.core.shared.app import App
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.releasing import Releasing
from headgate.core.turn.turn import Turn
from headgate.core.turn.undo import Undo


class Returning:
    """Takes messages back from consumers that left, for others.

    A loss counts against the messages that the consumer had; one without attempts left is poisoned,
    and removed. `redelivery.py` decides how often a message is tried, and when.
    """

    def __init__(
        self, context: SharedContext, delivery: SharedDelivery, releasing: Releasing
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._releasing = releasing
        self._blamed: set[QueueId] = set()
        """Queues with messages that a consumer was lost with."""

    def give_back(self, command: GiveBack, turn: Turn) -> None:
        """Take back as many as a turn may. Some may have expired since, or the queue may be
        gone."""
        self.give_back_later(self.give_back_some(command, turn), command.ref, turn)

    def give_back_some(self, command: GiveBack, turn: Turn) -> GiveBack:
        """Take back as many as a turn may, oldest first; return the rest."""
        session, lost = command.session, command.lost
        queue = self._context.queues.get(command.queue)
        app = queue.apps.get(command.app) if queue is not None else None
        if queue is None or app is None:
            return replace(command, messages=())
        some = command.messages[: turn.returns]
        returned = []
        for seq in some:
            taker = app.outstanding.get(seq)
            if taker is None or taker.session != session:
                continue
            self._delivery.take_back(queue, app, seq, turn)
            entry = queue.entries[seq]
            turn.facts.append(Returned(turn.now, queue.id, app.id, entry.id, session, lost))
            app.redelivery.give_back(seq, turn.undo)
            # BMQ-55: a clean close uses up no attempt.
            if not (lost and self.blame(queue, app, entry, turn)):
                # S003-34, BMQ-52: back in line for whoever matches it; nothing is lost.
                returned.append(seq)
        turn.returns -= len(some)
        _put_back(app, returned, turn.undo)
        if queue.domain.max_idle_time:
            when = turn.now + queue.domain.max_idle_time
            self._context.chores.put(when, (queue.id, Chore.STUCK))
        return replace(command, messages=command.messages[len(some) :])

    def give_back_later(self, rest: GiveBack, ref: Ref | None, turn: Turn) -> None:
        """Go on in another turn; the session that closed the queue is answered when all are
        back."""
        if rest.messages:
            turn.again.append(replace(rest, ref=ref))
        else:
            turn.done(rest.session, ref)

    def blame(self, queue: SharedQueue, app: App, entry: MessageEntry, turn: Turn) -> bool:
        """Count the loss of a consumer against this message, which may be the reason. Return
        whether it has no attempts left, and leaves the app."""
        attempts = app.redelivery.blame(entry.seq, turn.undo)
        turn.undo.add(self._blamed, queue.id)
        most = queue.domain.max_delivery_attempts
        # BMQ-56, BMQ-57: the last attempt removes it for this app; 0 is no limit.
        if not most or attempts < most:
            return False
        if queue.domain.dead_letter:
            turn.doomed.append((queue.id, app.id, entry.seq, attempts))
        else:
            turn.facts.append(Poisoned(turn.now, queue.id, app.id, entry.id, attempts))
            self._releasing.dereference(queue, entry, app, turn)
        return True

    def _spare_no_longer(self, queue_id: QueueId, turn: Turn) -> None:
        """Offer the messages that consumers were spared long enough."""
        queue = self._context.queues.get(queue_id)
        apps = (
            [app for app in queue.apps.values() if app.redelivery.attempts]
            if queue is not None
            else []
        )
        if queue is None or not apps:
            turn.undo.discard(self._blamed, queue_id)
            return
        for app in apps:
            if app.back and app.redelivery.is_due(turn.now):
                self._delivery.touch(queue, app)

    def tick(self, turn: Turn) -> None:
        """Offer the messages that consumers were spared long enough, in every queue."""
        for queue_id in list(self._blamed):
            self._spare_no_longer(queue_id, turn)


def _put_back(app: App, seqs: list[Seq], undo: Undo) -> None:
    """Put messages that were given back in line, in order, before all others."""
    if seqs and app.back and seqs[0] < app.back[-1]:
        app.look_again(seqs, undo)
        return
    for seq in seqs:
        app.back.append(seq)
        undo.note(app.back.pop)

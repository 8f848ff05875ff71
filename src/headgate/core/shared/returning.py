"""Messages that a consumer gives back: it closes its queue, or its connection is lost."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.commands import GiveBack
from headgate.core.facts import Returned
from headgate.core.model.ids import Ref, Seq
from headgate.core.shared.app import App
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.poison import Poison
from headgate.core.turn.turn import Turn
from headgate.core.turn.undo import Undo


class Returning:
    """Takes messages back from consumers that left, for others.

    `SharedQueues` owns it; `Opening` and `Claiming` call it for sessions and readers that leave.
    Every message that is taken back is in line again, unless `Poison` removes it.
    """

    def __init__(self, context: SharedContext, delivery: SharedDelivery, poison: Poison) -> None:
        self._context = context
        self._delivery = delivery
        self._poison = poison

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
            if not (lost and self._poison.blame(queue, app, entry, turn)):
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


def _put_back(app: App, seqs: list[Seq], undo: Undo) -> None:
    """Put messages that were given back in line, in order, before all others."""
    if seqs and app.back and seqs[0] < app.back[-1]:
        app.look_again(seqs, undo)
        return
    for seq in seqs:
        app.back.append(seq)
        undo.note(app.back.pop)

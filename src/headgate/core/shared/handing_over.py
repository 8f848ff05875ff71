"""Handing over: a message that one reader holds goes to another."""

from __future__ import annotations

from headgate.core.facts import Claimed
from headgate.core.model.message import MessageEntry
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.poison import Poison
from headgate.core.shared.reader import Reader
from headgate.core.turn.turn import Turn


class HandingOver:
    """Puts messages into a reader's hands that another one holds, or that it holds itself.

    The reader that had a message before is lost, as far as is known: that is an attempt.
    """

    def __init__(self, delivery: SharedDelivery, poison: Poison) -> None:
        self._delivery = delivery
        self._poison = poison

    def hand_over(self, reader: Reader, entry: MessageEntry, at: float, turn: Turn) -> bool:
        """Have a message held by a reader since this time. Return whether it was to be had: it may
        have no attempts left, and is nobody's then."""
        queue, app, seq = reader.queue, reader.app, entry.seq
        holder = app.outstanding.get(seq)
        if holder is not None:
            self._delivery.take_back(queue, app, seq, turn)
            is_other = holder.session != reader.number
            if is_other and self._poison.blame(queue, app, entry, turn):
                return False
        app.hand_over(reader.subscription, seq, entry.size, at, turn.undo)
        if reader.active != turn.now:
            turn.undo.assign(reader, "active", turn.now)
        app.redelivery.deliver(seq, reader.number, queue.domain, turn.now, turn.undo)
        turn.facts.append(Claimed(turn.now, queue.id, app.id, entry.id, reader.number))
        self._delivery.note(queue, app)
        return True

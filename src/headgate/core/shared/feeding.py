"""Feeding: a message of a channel that is bound to domains goes into all of them, or into none."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.facts import FeedDropped, Repeated
from headgate.core.model.binding import Spoken
from headgate.core.reader_commands import Feed, FeedPart
from headgate.core.reader_effects import Fed
from headgate.core.shared.accepting import Accepting
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, QuotaReached


class Feeding:
    """Carries out `Feed`. Who is bound was the operator's decision, so nobody's rights are looked
    at. Whether there is room is known for every part before the first is taken."""

    def __init__(self, catalog: Catalog, accepting: Accepting) -> None:
        self._catalog = catalog
        self._accepting = accepting

    def feed(self, command: Feed, turn: Turn) -> None:
        try:
            places = [(part, self._place(part, turn)) for part in command.parts]
        except HeadgateError as error:
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

    def _place(self, part: FeedPart, turn: Turn) -> SharedQueue | None:
        """The queue that has room for a part; none if it has not, and goes without."""
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

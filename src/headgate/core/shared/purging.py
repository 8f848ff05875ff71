"""Emptying a shared queue, and removing it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from headgate.core.commands import Purge
from headgate.core.effects import PurgeDone, Removed
from headgate.core.facts import Purged as PurgedFact
from headgate.core.facts import QueuePurged
from headgate.core.model.ids import Seq
from headgate.core.reader_commands import TrimTo
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.history import History
from headgate.core.shared.opening import Opening
from headgate.core.shared.pulling import Pulling
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.releasing import Releasing
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, NoSuchQueue, Prohibited


class Purging:
    """Carries out `Purge`, which operators request."""

    def __init__(
        self,
        context: SharedContext,
        catalog: Catalog,
        releasing: Releasing,
        opening: Opening,
        pulling: Pulling,
        history: History,
    ) -> None:
        self._history = history
        self._context = context
        self._catalog = catalog
        self._releasing = releasing
        self._opening = opening
        self._pulling = pulling

    def purge(self, command: Purge, turn: Turn) -> None:
        """Remove as many messages as a turn may; those that come meanwhile stay."""
        try:
            self._catalog.domain_of(command)
            queue = self._catalog.find(command, turn)
            if queue is None:
                raise NoSuchQueue(command.queue)
            if command.removes and queue.opens and not command.forced:
                raise Prohibited(f"the queue is open ({queue.opens} times); force it, or close it")
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        upto = command.upto
        if upto is None:
            upto = next(reversed(queue.entries), Seq(0))
        some = [e for e in islice(queue.entries.values(), max(0, turn.expiries)) if e.seq <= upto]
        turn.expiries -= len(some)
        for entry in some:
            self._releasing.let_go(queue, entry, turn)
            turn.facts.append(PurgedFact(turn.now, queue.id, entry.id))
        for app in queue.apps.values():
            app.prune(queue.entries, turn.undo)
        count = command.messages + len(some)
        if not queue.entries and queue.kept:
            count += self._history.trim(queue, TrimTo(), turn)
            if queue.kept:
                turn.again.append(replace(command, messages=count))
                return
        if next(iter(queue.entries), upto + 1) <= upto:
            turn.again.append(replace(command, upto=upto, messages=count))
            return
        turn.facts.append(QueuePurged(turn.now, queue.id, count))
        if command.removes and not queue.entries:
            self._shut(queue, turn)
            self._pulling.leave_queue(queue, turn)
            self._catalog.remove(queue, turn)
        elif command.removes:
            turn.again.append(replace(command, upto=None, messages=count))
            return
        elif not queue.opens:
            self._context.chores.put(turn.now, (queue.id, Chore.UNUSED))
        turn.effects.append(PurgeDone(command.session, command.ref, queue.id, count))

    def _shut(self, queue: SharedQueue, turn: Turn) -> None:
        """Close an empty queue for all sessions that have it open, and notify them."""
        for session, session_state in self._context.session_states.items() if queue.opens else ():
            mine = [key for key in session_state.opened if key[0] == queue.id]
            for key in mine:
                leaving = self._opening.leave(
                    session, *key, still_open=False, lost=False, turn=turn
                )
                for _ in leaving:
                    pass
                turn.undo.pop(session_state.opened, key)
            if mine:
                turn.undo.pop(session_state.opens, queue.id)
                turn.effects.append(Removed(session, queue.id))

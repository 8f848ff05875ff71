"""The sweep: the messages of a service's queues, page by page, for its subscriber."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.core.commands import Sweep
from headgate.core.effects import Damaged, SweepDone
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.delivery import ExclusiveDelivery
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.exclusive.services import Services
from headgate.core.facts import SweepEnded
from headgate.core.model.ids import QueueId
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.store_requests import Page
from headgate.core.turn.turn import Turn


class Sweeping:
    """Carries out `Sweep`. A page is a turn, so that others get theirs in between; a displaced
    sweep delivers nothing more."""

    def __init__(
        self, context: ExclusiveContext, services: Services, delivery: ExclusiveDelivery
    ) -> None:
        self._session_states = context.session_states
        self._cache = context.cache
        self._limits = context.limits
        self._services = services
        self._delivery = delivery

    def sweep(self, command: Sweep, turn: Turn) -> None:
        """Deliver from one page of a service's queues; the rest is another turn's."""
        session, service = command.session, command.service
        state = self._session_states.find(session)
        page = turn.loaded.pages.get(self.page(command))
        if state is None or page is None or not self._services.is_sweeping(command):
            return
        for head in page.heads:
            # Changes of this turn are in the cache already.
            cached = self._cache.find(head.record.queue) or CachedQueue(head)
            if cached.messages and not cached.first:
                # Only its record is cached. Then no message was confirmed in this turn, and the one
                # that the sweep read is still the first.
                cached = CachedQueue(replace(head, record=cached.record))
            if cached.record.service == service and head.record.queue not in turn.batch.remove:
                self._delivery.offer(session, state, cached, turn)
        # S001-49, S004-7: an unreadable queue is noted, and the sweep goes on.
        self._note_damaged(state, page.queues, turn)
        after = page.queues[-1] if page.queues else command.after
        rest = Sweep(session, service, after, command.membership)
        # S001-51, SMP-31: while a message waits for room the sweep does, too, and so does its end.
        if state.waiting:
            turn.undo.assign(state, "sweep", rest)
        elif len(page.queues) == self._limits.sweep_queues:
            # S001-48, S001-53: a page is a turn, and others have theirs before the next.
            turn.again.append(rest)
        else:
            assert state.membership is not None, "who sweeps has a service"
            # S001-50: errors after all messages and before the end.
            turn.effects += [Damaged(session, queue) for queue in state.membership.damaged]
            # S000-98: the last page ends the sweep, once.
            turn.effects.append(SweepDone(session, service))
            turn.facts.append(SweepEnded(turn.now, service, session))

    def _note_damaged(self, state: SessionState, queues: Sequence[QueueId], turn: Turn) -> None:
        """Note unreadable queues; they are reported after all deliveries."""
        damaged = turn.loaded.unreadable.intersection(queues)
        if damaged:
            assert state.membership is not None, "who sweeps has a service"
            ids = [*state.membership.damaged, *sorted(damaged)]
            turn.undo.assign(state.membership, "damaged", ids[: self._limits.sweep_queues])

    def page(self, command: Sweep) -> Page:
        return Page(command.service, command.after, self._limits.sweep_queues)

    def resume(self, state: SessionState, turn: Turn) -> None:
        """Go on with a sweep that waited for room in the mailbox."""
        if state.sweep is not None and not state.waiting:
            turn.again.append(state.sweep)
            turn.undo.assign(state, "sweep", None)

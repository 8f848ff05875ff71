"""Upkeep of shared queues now and then: old ids, stuck apps, unused queues."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.commands import RemoveUnused
from headgate.core.facts import QueueDeleted, QueueStuck
from headgate.core.model.domain import Mode
from headgate.core.model.ids import QueueId
from headgate.core.shared.app import App
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.history import History
from headgate.core.shared.open_groups import OpenGroups
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.store_requests import Listing, Load
from headgate.core.turn.turn import Turn

CHORES = 5000
"""Queues looked at in one tick, at a few microseconds each; the rest is the next tick's."""


class Upkeep:
    """Carries out the chores of shared queues with every tick, and removes unused queues.

    Owned by `SharedQueues`. Between two parts of the work others are served.
    """

    def __init__(
        self,
        context: SharedContext,
        delivery: SharedDelivery,
        catalog: Catalog,
        history: History,
        groups: OpenGroups,
    ) -> None:
        self._history = history
        self._groups = groups
        self._context = context
        self._delivery = delivery
        self._catalog = catalog
        self._since: float | None = None
        """When unopened queues were first asked for."""

    def tick(self, turn: Turn) -> Iterator[None]:
        """Carry out the chores that are due."""
        for when, (queue_id, chore) in self._context.chores.due(turn.now, CHORES):
            turn.undo.note(self._context.chores.put, when, (queue_id, chore))
            queue = self._context.queues.get(QueueId(queue_id))
            if queue is None:
                continue
            if chore == Chore.FORGET:
                self._forget_ids(queue, turn)
            elif chore == Chore.STUCK:
                self._look_for_stuck(queue, turn)
            elif chore == Chore.TRIM:
                self._history.tick(queue, turn)
            elif chore == Chore.IDLE:
                yield from self._groups.dropping_idle(queue, turn)
            else:
                self._look_for_use(queue, turn)
        self._delivery.sample(turn)

    def _forget_ids(self, queue: SharedQueue, turn: Turn) -> None:
        ids, seconds = queue.remembered, queue.domain.deduplication_time
        ids.forget(turn.sure, seconds)
        outdated = ids.outdated(turn.sure, seconds)
        if outdated is not None:
            turn.batch.forget[queue.id] = outdated
        oldest = ids.oldest()
        if oldest is None and ids.kept is not None:
            oldest = turn.sure
        if oldest is not None:
            when = oldest + seconds
            self._context.chores.put(when, (queue.id, Chore.FORGET))

    def _look_for_use(self, queue: SharedQueue, turn: Turn) -> None:
        """Remove the queue if it was unused for long. When a session closes it, or its last message
        expires, it is looked at again."""
        ttl = queue.domain.queue_ttl
        if not ttl or queue.opens or queue.entries or queue.kept or queue.joined:
            return
        queue.remembered.forget(turn.sure, queue.domain.deduplication_time)
        newest = queue.remembered.newest()
        when = queue.used + ttl
        if newest is not None:
            when = max(when, newest + queue.domain.deduplication_time)
        if turn.sure < when or newest is not None:
            self._context.chores.put(when, (queue.id, Chore.UNUSED))
        else:
            self._catalog.remove(queue, turn)

    def need_listings(self, command: RemoveUnused, load: Load, now: float) -> None:
        """Add the request for queues not opened since the router started: they are removed if that
        is long ago."""
        if self._since is None:
            self._since = now
        for domain in self._context.domains.values():
            state = self._context.states.get(domain.name)
            is_all_here = state is not None and len(state.members) == state.queues
            long = max(domain.queue_ttl, domain.deduplication_time)
            if domain.mode is Mode.EXCLUSIVE or not domain.queue_ttl or is_all_here:
                continue
            if now - self._since >= long and command.domain in (None, domain.name):
                load.listings.add(self._listing(domain.name, command))

    def remove_unused(self, command: RemoveUnused, turn: Turn) -> None:
        """Remove one page of each domain; the rest is another turn's."""
        for domain in (
            [command.domain] if command.domain is not None else list(self._context.domains)
        ):
            listing = self._listing(domain, command)
            listed = turn.loaded.listings.get(listing, [])
            state = self._context.states.get(domain)
            for each in listed:
                if (
                    each.messages
                    or each.groups
                    or each.queue in self._context.queues
                    or each.queue in turn.batch.remove
                ):
                    continue
                turn.batch.remove.add(each.queue)
                if state is not None:
                    turn.undo.assign(state, "queues", state.queues - 1)
                turn.facts.append(QueueDeleted(turn.now, each.queue, 0))
            if len(listed) == listing.limit:
                turn.again.append(RemoveUnused(domain, listed[-1].queue))

    def _listing(self, domain: str, command: RemoveUnused) -> Listing:
        return Listing(domain, command.after, self._context.limits.sweep_queues)

    def _look_for_stuck(self, queue: SharedQueue, turn: Turn) -> None:
        """Look for stuck apps of a queue, and plan the next look. A delivery or a returned message
        makes the queue due again."""
        if not queue.domain.max_idle_time or queue.domain.mode is Mode.BROADCAST:
            return
        for app in queue.apps.values():
            when = self._look_at_idle(queue, app, turn)
            if when is not None:
                self._context.chores.put(when, (queue.id, Chore.STUCK))

    def _look_at_idle(self, queue: SharedQueue, app: App, turn: Turn) -> float | None:
        """Record whether an app is stuck or no longer is; return when to look again, if needed."""
        oldest = app.oldest()
        if oldest is None or oldest not in queue.entries:
            if app.stuck:
                self._delivery.unstick(queue, app, turn)
            return None
        if app.stuck:
            return turn.now
        since = max(app.moved, queue.entries[oldest].arrived)
        # BMQ-89: an app is stuck when it had no progress for its idle time.
        if turn.now - since <= queue.domain.max_idle_time:
            return since + queue.domain.max_idle_time
        turn.undo.assign(app, "stuck", True)
        fact = QueueStuck(turn.now, queue.id, app.id, turn.now - since, queue.detail())
        turn.facts.append(fact)
        return turn.now

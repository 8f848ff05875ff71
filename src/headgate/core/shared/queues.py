"""Shared queues: apps, consumers that take turns, and messages that wait for the right one.

Each app dispatches a message on its own. A message that no subscription matches is put aside and
does not hold up later ones; one whose matching groups have no room waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.commands import Prune
from headgate.core.facts import Accepted
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.core.shared.accepting import Accepting
from headgate.core.shared.body_cache import BodyCache
from headgate.core.shared.browsing import Browsing
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.claiming import Claiming
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.dead_letters import DeadLetters
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.expiry import Expiry
from headgate.core.shared.feeding import Feeding
from headgate.core.shared.handing_over import HandingOver
from headgate.core.shared.history import History
from headgate.core.shared.open_groups import OpenGroups
from headgate.core.shared.opening import Opening
from headgate.core.shared.poison import Poison
from headgate.core.shared.pulling import Pulling
from headgate.core.shared.purging import Purging
from headgate.core.shared.reader import Readers
from headgate.core.shared.reader_upkeep import ReaderUpkeep
from headgate.core.shared.reconfiguring import Reconfiguring
from headgate.core.shared.releasing import Releasing
from headgate.core.shared.returning import Returning
from headgate.core.shared.sinks import Sinks
from headgate.core.shared.surveying import Surveying
from headgate.core.shared.totals import SharedTotals
from headgate.core.shared.upkeep import Upkeep
from headgate.core.turn.sequence import NumberSequence
from headgate.core.turn.session_state import SessionStates
from headgate.core.turn.turn import Turn


class SharedQueues:
    """The shared queues of a shard, put together from their parts.

    The shard owns it and calls the handler of each command. A part knows only those before it:
    delivery, releasing, expiry, catalog, and then the commands. Their changes are undone if the
    turn fails; after a turn the meters, the store and the memory agree.
    """

    def __init__(
        self,
        domains: dict[str, Domain],
        session_states: SessionStates,
        numbers: NumberSequence,
        limits: Limits,
    ) -> None:
        self.bodies = BodyCache(limits.bodies_bytes)
        context = SharedContext(domains, limits, session_states, numbers, self.bodies)
        self._context = context
        self.queues = context.queues
        self.states = context.states
        readers = Readers()
        self._delivery = SharedDelivery(context.queues, session_states, self.bodies, readers)
        self.totals = SharedTotals(context.queues)
        history = History(context)
        releasing = Releasing(context, self._delivery, history)
        expiry = Expiry(context, self._delivery, releasing)
        catalog = Catalog(context, self._delivery, releasing, expiry, history)
        self.releasing = releasing
        self.expiry = expiry
        self.catalog = catalog
        self.accepting = Accepting(context, self._delivery, expiry, history)
        self.feeding = Feeding(context, catalog, self.accepting)
        self.poison = Poison(context, self._delivery, releasing)
        self.returning = Returning(context, self._delivery, self.poison)
        self.opening = Opening(context, self._delivery, catalog, expiry, self.returning)
        handing = HandingOver(self._delivery, self.poison)
        self.pulling = Pulling(
            context, readers, self._delivery, catalog, expiry, releasing, handing
        )
        self.claiming = Claiming(
            session_states,
            self.pulling,
            self._delivery,
            catalog,
            releasing,
            self.returning,
            handing,
            history,
        )
        self.open_groups = OpenGroups(
            context, self._delivery, catalog, expiry, releasing, self.pulling
        )
        self.browsing = Browsing(context, self._delivery, catalog, history)
        self.dead_letters = DeadLetters(context, catalog, releasing, self.accepting)
        self.surveying = Surveying(context.limits, readers, catalog, self.accepting, self.browsing)
        self._reader_upkeep = ReaderUpkeep(self.pulling, self.claiming)
        self.purging = Purging(context, catalog, releasing, self.opening, self.pulling, history)
        self.reconfiguring = Reconfiguring(
            context, self._delivery, catalog, releasing, self.pulling, history
        )
        self.upkeep = Upkeep(context, self._delivery, catalog, history, self.open_groups)
        self.sinks = Sinks(context, catalog, expiry, self.accepting)

    def tick(self, turn: Turn) -> Iterator[None]:
        """Remove expired messages first, as in every turn."""
        self.expiry.expire(turn)
        yield from self.upkeep.tick(turn)
        self.poison.tick(turn)
        self._reader_upkeep.tick(turn)
        self.sinks.tick(turn)
        self.feeding.tick(turn)

    @property
    def has_readers(self) -> bool:
        """Whether there are readers."""
        return bool(self.pulling.readers.by_number)

    def prune(self, command: Prune, turn: Turn) -> None:
        """Do nothing here: expired messages are removed in every turn."""

    def settle(self, turn: Turn) -> None:
        """Trim cached bodies and remembered ids after a committed turn."""
        self.totals.follow(self._delivery.take_changed())
        if not self.queues:
            return
        for group in turn.met:
            group.count_match()
        for seq, stored in turn.batch.append.items():
            if stored.queue in self.queues and seq not in turn.batch.delete:
                self.bodies.keep(seq, stored.message.body)
        for seq in turn.batch.delete:
            self.bodies.forget(seq)
        for queue_id in {fact.queue for fact in turn.facts if type(fact) is Accepted}:
            queue = self.queues.get(queue_id)
            if queue is not None:
                queue.remembered.forget(
                    turn.sure, queue.domain.deduplication_time, self._context.limits.remembered_ids
                )
                self._context.chores.put(turn.now, (queue_id, Chore.FORGET))
                if queue.domain.max_idle_time:
                    when = turn.now + queue.domain.max_idle_time
                    self._context.chores.put(when, (queue_id, Chore.STUCK))
        for queue_id, before in turn.batch.forget.items():
            self.queues[queue_id].remembered.drop(before)
        for queue_id, known in turn.batch.remember.items():
            queue = self.queues.get(queue_id)
            if queue is not None:
                queue.remembered.store(known)

    def abandon(self) -> None:
        """Drop the state of a failed turn."""
        self._delivery.abandon()
        self.pulling.readers.served.clear()

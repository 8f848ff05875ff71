"""Expiry of messages in shared queues."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from headgate.core.commands import ExpireUnopened, Prune
from headgate.core.facts import Expired
from headgate.core.model.domain import Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.message import Arrival
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.queue import DomainState, SharedQueue
from headgate.core.shared.quota import judge_domain
from headgate.core.shared.releasing import Releasing
from headgate.core.turn.agenda import Agenda
from headgate.core.turn.store_requests import Load, Overdue
from headgate.core.turn.turn import Turn

EXPIRIES_IN_A_ROW = 100
"""Messages of one queue that are removed in a row before another queue's turn."""

FULL_SECONDS = 5.0
"""Seconds between two searches of the store for old messages of a full domain."""


class Expiry:
    """Removes messages that are older than their domain allows, before anything is delivered.

    Each turn removes as much as it may, a little of each queue at a time; a queue with more to
    remove delivers nothing until that is done.
    """

    def __init__(
        self, context: SharedContext, delivery: SharedDelivery, releasing: Releasing
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._releasing = releasing
        self._deadlines: Agenda[bytes] = Agenda()
        """When the first message of a queue expires, or earlier."""
        self._overdue: OrderedDict[QueueId, bool] = OrderedDict()
        """Queues with expired messages to remove, in turns; until then they deliver nothing. The
        value is whether they could have delivered something meanwhile."""
        self._searched: dict[str, float] = {}
        """When the store was last searched for old messages of a full domain."""

    @property
    def overdue(self) -> int:
        """The queues with more expired messages than turns could remove so far."""
        return len(self._overdue)

    def offering(self, turn: Turn) -> Iterator[None]:
        """Deliver from everything that was touched, some at a time."""
        yield from self.offering_now(turn)
        if self._overdue:
            turn.again.append(Prune())

    def offering_now(self, turn: Turn) -> Iterator[None]:
        """Remove expired messages, then deliver; a queue with too many for one turn waits."""
        self.expire(turn)
        if self._overdue:
            for queue in self._delivery.leave_out(self._overdue):
                turn.undo.put(self._overdue, queue, True)
        yield from self._delivery.making(turn)

    def expire(self, turn: Turn, first: SharedQueue | None = None) -> None:
        """Remove messages older than their domain allows: as many as a turn may, a little of each
        queue at a time, beginning with `first`."""
        if first is not None:
            turn.expiries -= self._expire(first, turn.expiries, turn)
        if self._deadlines.has_due(turn.sure):
            for when, due in self._deadlines.due(turn.sure):
                turn.undo.note(self._deadlines.put, when, due)
                if due not in self._overdue:
                    turn.undo.put(self._overdue, QueueId(due), False)
        while self._overdue and turn.expiries > 0:
            queue_id, was_left_out = next(iter(self._overdue.items()))
            turn.undo.pop(self._overdue, queue_id)
            queue = self._context.queues.get(queue_id)
            if queue is None:
                continue
            most = min(turn.expiries, EXPIRIES_IN_A_ROW)
            turn.expiries -= max(1, self._expire(queue, most, turn))
            if queue.is_overdue(turn.sure):
                turn.undo.put(self._overdue, queue_id, was_left_out)
                continue
            self.plan(queue)
            if was_left_out:
                self._delivery.look_anew(queue)

    def need_overdue(self, command: ExpireUnopened, load: Load, now: float) -> None:
        """Add the request for expired messages to a load. Of several commands, the one that is
        least far along serves all."""
        if load.overdue is not None and load.overdue.after <= command.after:
            return
        domains = tuple(
            (domain.name, now - domain.message_ttl)
            for domain in self._context.domains.values()
            if domain.mode is not Mode.EXCLUSIVE
            and domain.mode is not Mode.BROADCAST
            and domain.message_ttl is not None
        )
        if domains:
            load.overdue = Overdue(domains, command.after, self._context.limits.expiries)

    def expire_unopened(self, command: ExpireUnopened, turn: Turn) -> None:
        """Remove one page; the rest is another turn's. Queues in memory have their deadlines."""
        overdue = turn.loaded.overdue
        for dated in overdue:
            if dated.queue in self._context.queues or dated.seq in turn.batch.delete:
                continue
            turn.batch.delete.add(dated.seq)
            age = turn.sure - dated.arrived
            if not dated.is_kept:
                turn.facts.append(Expired(turn.now, dated.queue, dated.id, age))
            if age <= self._context.domains[dated.domain].deduplication_time:
                known = turn.batch.remember.setdefault(dated.queue, {})
                known[dated.id] = Arrival(dated.arrived, dated.seq)
            state = self._context.states.get(dated.domain)
            if state is not None:
                state.meter.change(-1, -dated.size, turn.undo)
                judge_domain(state, None, turn)
        if len(overdue) == self._context.limits.expiries:
            rest = ExpireUnopened(overdue[-1].seq)
            if rest not in turn.again:
                turn.again.append(rest)

    def search_store(self, state: DomainState, turn: Turn) -> None:
        """Have the store searched: a full domain may hold old messages, in queues that are not
        open."""
        name = state.domain.name
        is_all_here = len(state.members) == state.queues
        if is_all_here or turn.now - self._searched.get(name, -FULL_SECONDS) < FULL_SECONDS:
            return
        turn.undo.put(self._searched, name, turn.now)
        turn.again.append(ExpireUnopened())

    def _expire(self, queue: SharedQueue, most: int, turn: Turn) -> int:
        """Remove expired messages of a queue, delivered or not, oldest first."""
        ttl = queue.domain.message_ttl
        if ttl is None:
            return 0
        expired = 0
        for entry in list(islice(queue.entries.values(), most)):
            age = turn.sure - entry.arrived
            # BMQ-87: never too early, and then from all apps.
            if age <= ttl:
                break
            self._releasing.let_go(queue, entry, turn)
            turn.facts.append(Expired(turn.now, queue.id, entry.id, age))
            expired += 1
        if expired:
            for app in queue.apps.values():
                app.prune(queue.entries, turn.undo)
            if not queue.entries:
                self._context.chores.put(turn.now, (queue.id, Chore.UNUSED))
        return expired

    def plan(self, queue: SharedQueue) -> None:
        """Plan to look at a queue when its first message expires."""
        deadline = queue.deadline()
        if deadline is not None:
            self._deadlines.put(deadline, queue.id)

"""The time of messages in shared queues, and what becomes of them when it is over."""

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
"""Of one queue; then it is another's turn."""

FULL_SECONDS = 5.0
"""A domain that is full has the store searched for old messages no more often than that."""


class Expiry:
    """Removes messages that are older than their domain allows, before anything is delivered.

    In every turn as much as it may, a little of each queue at a time; a queue that has more is not
    delivered from until it is done.
    """

    def __init__(
        self, context: SharedContext, delivery: SharedDelivery, releasing: Releasing
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._releasing = releasing
        self._deadlines: Agenda[bytes] = Agenda()
        """When the time of the first message of a queue is over, or earlier."""
        self._overdue: OrderedDict[QueueId, bool] = OrderedDict()
        """Queues whose first messages are to be removed; until they are, nothing of the queue is
        delivered. They take turns. Whether something could have been delivered meanwhile."""
        self._searched: dict[str, float] = {}
        """When the store was last searched because a domain was full."""

    @property
    def overdue(self) -> int:
        """Queues that have more that is too old than turns could remove so far."""
        return len(self._overdue)

    def offering(self, turn: Turn) -> Iterator[None]:
        """Look at everything that was touched, some at a time."""
        yield from self.offering_now(turn)
        if self._overdue:
            turn.again.append(Prune())

    def offering_now(self, turn: Turn) -> Iterator[None]:
        """Remove what is too old, then deliver; a queue with too much of it for one turn waits."""
        self.expire(turn)
        if self._overdue:
            for queue in self._delivery.leave_out(self._overdue):
                turn.undo.put(self._overdue, queue, True)
        yield from self._delivery.making(turn)

    def expire(self, turn: Turn, first: SharedQueue | None = None) -> None:
        """Remove what is older than its domain allows: as much as a turn may, a little of each
        queue at a time, of the first one before all others."""
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
        """Need messages that are overdue: of several commands the one that has come least far does
        for all."""
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
        """One page; the rest is another turn. Queues in memory have their deadlines."""
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
        """Have the store searched: what fills a domain may be old, and in queues that nobody
        opened."""
        name = state.domain.name
        is_all_here = len(state.members) == state.queues
        if is_all_here or turn.now - self._searched.get(name, -FULL_SECONDS) < FULL_SECONDS:
            return
        turn.undo.put(self._searched, name, turn.now)
        turn.again.append(ExpireUnopened())

    def _expire(self, queue: SharedQueue, most: int, turn: Turn) -> int:
        """Remove what is older than the domain allows, delivered or not, oldest first."""
        ttl = queue.domain.message_ttl
        if ttl is None:
            return 0
        expired = 0
        for entry in list(islice(queue.entries.values(), most)):
            age = turn.sure - entry.arrived
            # BMQ-87: never too early, and then for all apps.
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
        """Look at a queue when the time of its first message is over."""
        deadline = queue.deadline()
        if deadline is not None:
            self._deadlines.put(deadline, queue.id)

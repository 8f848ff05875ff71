"""Creating and deleting exclusive queues."""

from __future__ import annotations

from headgate.core.commands import Create, Delete
from headgate.core.effects import Deleted, Granted
from headgate.core.exclusive.authorization import Authorization
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.holders import Holders
from headgate.core.exclusive.notifiers import Notifiers
from headgate.core.exclusive.services import Services
from headgate.core.exclusive.subscribing import check_queues
from headgate.core.facts import QueueCreated, QueueDeleted
from headgate.core.model.domain import Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.parties import Address, Party, QueueRecord
from headgate.core.turn.store_requests import Batch
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, Prohibited, QueueExists


class Creating:
    """Carries out `Create` and `Delete`.

    Owned by `ExclusiveQueues`; the shard calls it. No two queues have an id in common, of any
    party.
    """

    def __init__(
        self,
        context: ExclusiveContext,
        authorization: Authorization,
        services: Services,
        notifiers: Notifiers,
        holders: Holders,
    ) -> None:
        self._domains = context.domains
        self._limits = context.limits
        self._session_states = context.session_states
        self._cache = context.cache
        self._authorization = authorization
        self._services = services
        self._notifiers = notifiers
        self._holders = holders

    def create(self, command: Create, turn: Turn) -> None:
        session, queue = command.session, command.queue
        domain = self._domains.get(command.domain)
        error: HeadgateError | None = None
        if domain is None or domain.mode is not Mode.EXCLUSIVE:
            error = Prohibited(f"{command.domain} has no exclusive queues")
        elif not queue:
            error = Prohibited("a queue needs an id")
        elif self._is_taken(command, turn):
            error = QueueExists(queue)
        state = self._session_states.take(session, turn.undo)
        if error is None and state is not None and command.subscribe and command.service is None:
            error = check_queues(state, self._limits)
        if error is not None:
            turn.fail(session, command.ref, queue, error)
            return
        # S000-94, S001-26: the queue is the service's from its creation.
        record = QueueRecord(queue, command.domain, command.service, command.parties)
        turn.batch.create[queue] = record
        turn.used[queue] = None
        cached = self._cache.make(record, turn.undo)
        turn.facts.append(QueueCreated(turn.now, queue, command.domain))
        if state is not None and command.subscribe:
            if command.service is None:
                # SMP-10: subscribed without looking for messages; a new queue has none.
                self._holders.register(session, state, cached, turn)
            else:
                self._services.join(session, state, command.service, queue, turn)
        if command.service is not None:
            self._services.count(queue, None, command.service, turn)
        turn.effects.append(Granted(session, command.ref, queue, command.service))

    def delete(self, command: Delete, turn: Turn) -> None:
        session, queue = command.session, command.queue
        cached = self._authorization.admit(command, turn)
        if cached is None:
            return
        holder = self._holders.holder(cached.record)
        if holder is not None:
            self._holders.release(holder, queue, turn)
            # S000-15, SMP-9, ACC-38: DELD for the subscriber, only OK for the session that deletes.
            if holder != session:
                turn.effects.append(Deleted(holder, queue))
        service = cached.record.service
        if service is not None:
            self._services.count(queue, service, None, turn)
            # S004-2, SMP-34, SMP-35: a deleted queue is in no tally.
            self._services.uncount(queue, service, turn)
        if cached.record.parties is not None and cached.record.parties.notifier is not None:
            self._notifiers.drop(cached.record.parties.notifier, session, turn)
        _drop(queue, turn.batch)
        # ACC-29: the queue cannot be found any more.
        self._cache.forget(queue, turn.undo)
        turn.facts.append(QueueDeleted(turn.now, queue, cached.messages))
        turn.done(session, command.ref)

    def _is_taken(self, command: Create, turn: Turn) -> bool:
        """Whether a queue has one of the ids for a new one, damaged queues included."""
        queue, parties = command.queue, command.parties
        if self._cache.find(queue) is not None:
            return True
        addresses = [Address(Party.RECIPIENT, queue)]
        addresses += parties.addresses() if parties is not None else ()
        return self._authorization.is_taken(addresses, queue, turn)


def _drop(queue: QueueId, batch: Batch) -> None:
    """Remove a queue from the store, and the changes that this turn had for it."""
    if batch.create.pop(queue, None) is None:
        batch.remove.add(queue)
    batch.amend.pop(queue, None)
    batch.associate.pop(queue, None)
    for seq in [seq for seq, stored in batch.append.items() if stored.queue == queue]:
        del batch.append[seq]

"""Finding the queue of a command, and checking its authorization."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headgate.core.commands import Amend, Confirm, Delete, Get, Inspect, Send, Subscribe, Watch
from headgate.core.exclusive.context import ExclusiveContext
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.model.domain import Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.parties import Address, Party
from headgate.core.turn.turn import PROOF_WORK, Turn
from headgate.errors import HeadgateError, NoSuchQueue, StoreError

Guarded: TypeAlias = Delete | Subscribe | Get | Send | Confirm | Amend | Inspect | Watch


def via_of(command: Guarded) -> Address | None:
    """The id under which a command names its queue, if it is not the recipient's."""
    if type(command) is Send or type(command) is Amend:
        return command.via
    return Address(Party.NOTIFIER, command.notifier) if isinstance(command, Watch) else None


def address_of(command: Guarded) -> Address:
    """The id under which a command names its queue."""
    via = via_of(command)
    if via is None:
        assert not isinstance(command, Watch), "a notifier is not the recipient"
        return Address(Party.RECIPIENT, command.queue)
    return via


class Authorization:
    """Finds the queue that a command names by one of its ids, and checks the proof that came with
    it.

    All parts that handle exclusive queues call it first. It changes nothing.
    """

    def __init__(self, context: ExclusiveContext) -> None:
        self._domains = context.domains
        self._cache = context.cache

    def find(self, queue: QueueId) -> CachedQueue | None:
        """An exclusive queue. A shared one is not for these commands, open or not."""
        cached = self._cache.find(queue)
        domain = self._domains.get(cached.record.domain) if cached is not None else None
        return cached if domain is not None and domain.mode is Mode.EXCLUSIVE else None

    def queue_of(self, command: Guarded) -> QueueId | None:
        """The queue that a command names; by the id of another party only if it is in memory."""
        via = via_of(command)
        if via is not None:
            return self._cache.owner(via)
        assert not isinstance(command, Watch), "a notifier is not the recipient"
        return command.queue

    @staticmethod
    def is_damaged(address: Address, turn: Turn) -> bool:
        """Whether the store has a queue of this address that it cannot read."""
        unreadable = turn.loaded.unreadable
        if not unreadable:
            return False
        if address.party is Party.RECIPIENT:
            return address.id in unreadable
        return turn.loaded.addresses.get(address) in unreadable

    def is_taken(self, addresses: Iterable[Address], queue: QueueId, turn: Turn) -> bool:
        """Whether another queue has one of these ids, damaged queues included."""
        return any(
            self._cache.owner(address) not in (None, queue) or self.is_damaged(address, turn)
            for address in addresses
        )

    def admit(self, command: Guarded, turn: Turn) -> CachedQueue | None:
        """The queue of a command. If there is none, or the command has no right to it, the answer
        is given here; the proof is checked in either case, so that both take as long."""
        if turn.loaded.unreadable and self.is_damaged(address := address_of(command), turn):
            damaged = StoreError("the queue cannot be read")
            turn.fail(command.session, command.ref, QueueId(address.id), damaged)
            return None
        queue = self.queue_of(command)
        cached = None
        if queue is not None:
            turn.used[queue] = None
            cached = self.find(queue)
        error: HeadgateError | None = None
        if command.proof is not None:
            # ACC-72: the proof is checked even without a queue, so both take as long.
            record = cached.record if cached is not None else None
            parties = record.parties if record is not None else None
            turn.work += PROOF_WORK * (len(parties.keys) if parties is not None else 1)
            error = command.proof(record)
        # S004-31, S004-40, S004-49: a command is verified in its place, and refused by itself.
        if error is None and cached is not None:
            return cached
        named = queue if queue is not None else QueueId(address_of(command).id)
        turn.fail(command.session, command.ref, named, error or NoSuchQueue(named))
        return None

"""Finding the queue of a command, and whether the command may be carried out on it."""

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


def address_of(command: Guarded) -> Address:
    """The id under which a command names its queue."""
    if isinstance(command, Watch):
        return Address(Party.NOTIFIER, command.notifier)
    via = command.via if isinstance(command, Send | Amend) else None
    return via or Address(Party.RECIPIENT, command.queue)


class Authorization:
    """Finds the queue that a command names by one of its ids, and checks the proof that came with
    it.

    All parts that deal with exclusive queues ask it first. It changes nothing.
    """

    def __init__(self, context: ExclusiveContext) -> None:
        self._domains = context.domains
        self._cache = context.cache

    def find(self, queue: QueueId) -> CachedQueue | None:
        """A queue that is there and exclusive. A shared one is not for these commands, open or
        not."""
        cached = self._cache.find(queue)
        domain = self._domains.get(cached.record.domain) if cached is not None else None
        return cached if domain is not None and domain.mode is Mode.EXCLUSIVE else None

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
        """Whether another queue has one of these, damaged ones included."""
        return any(
            self._cache.owner(address) not in (None, queue) or self.is_damaged(address, turn)
            for address in addresses
        )

    def admit(self, command: Guarded, turn: Turn) -> CachedQueue | None:
        """The queue of a command. Where there is none, or the command has no right to it, the
        answer is given here; a proof is asked in either case, so that both cost one."""
        address = address_of(command)
        if self.is_damaged(address, turn):
            damaged = StoreError("the queue cannot be read")
            turn.fail(command.session, command.ref, QueueId(address.id), damaged)
            return None
        queue = self._cache.owner(address)
        cached = self.find(queue) if queue is not None else None
        error: HeadgateError | None = None
        if command.proof is not None:
            # ACC-72: a queue that is not there is asked for a proof as well, so both take as long.
            record = cached.record if cached is not None else None
            parties = record.parties if record is not None else None
            turn.work += PROOF_WORK * (len(parties.keys) if parties is not None else 1)
            error = command.proof(record)
        # S004-31, S004-40, S004-49: a command is verified in its place, and refused by itself.
        if error is None and cached is not None:
            return cached
        named = queue if queue is not None else QueueId(address.id)
        turn.fail(command.session, command.ref, named, error or NoSuchQueue(named))
        return None

"""Finding the queue of a command, and whether the command may be carried out on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from headgate.core.backlogs import Backlog, Backlogs
from headgate.core.commands import Amend, Confirm, Delete, Get, Inspect, Send, Subscribe, Watch
from headgate.core.domain import Domain, Mode
from headgate.core.names import QueueId
from headgate.core.parties import Address, Party
from headgate.core.turn import Turn
from headgate.errors import HeadgateError, NoSuchQueue, StoreError

Guarded: TypeAlias = Delete | Subscribe | Get | Send | Confirm | Amend | Inspect | Watch


def address_of(command: Guarded) -> Address:
    """The id under which a command names its queue."""
    if isinstance(command, Watch):
        return Address(Party.NOTIFIER, command.notifier)
    via = command.via if isinstance(command, Send | Amend) else None
    return via or Address(Party.RECIPIENT, command.queue)


class Admission:
    def __init__(self, domains: Mapping[str, Domain], backlogs: Backlogs) -> None:
        self._domains = domains
        self._backlogs = backlogs

    def find(self, queue: QueueId) -> Backlog | None:
        """A queue that is there and exclusive. A shared one is not for these commands, open or
        not."""
        backlog = self._backlogs.find(queue)
        domain = self._domains.get(backlog.record.domain) if backlog is not None else None
        return backlog if domain is not None and domain.mode is Mode.EXCLUSIVE else None

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
            self._backlogs.owner(address) not in (None, queue) or self.is_damaged(address, turn)
            for address in addresses
        )

    def admit(self, command: Guarded, turn: Turn) -> Backlog | None:
        """The queue of a command. Where there is none, or the command has no right to it, the
        answer is given here; a proof is asked in either case, so that both take as long."""
        address = address_of(command)
        if self.is_damaged(address, turn):
            damaged = StoreError("the queue cannot be read")
            turn.fail(command.session, command.ref, QueueId(address.id), damaged)
            return None
        queue = self._backlogs.owner(address)
        backlog = self.find(queue) if queue is not None else None
        error: HeadgateError | None = None
        if command.proof is not None:
            error = command.proof(backlog.record if backlog is not None else None)
        if error is None and backlog is not None:
            return backlog
        named = queue if queue is not None else QueueId(address.id)
        turn.fail(command.session, command.ref, named, error or NoSuchQueue(named))
        return None

"""The load plan: the reads of a turn before it can decide.

Every command adds what it needs; what is in memory already is left out. So a turn asks the store
once, however many commands it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from headgate.core.commands import (
    Amend,
    Command,
    Confirm,
    CountDomain,
    Create,
    Delete,
    Drained,
    Expire,
    ExpireUnopened,
    Get,
    Identify,
    Inspect,
    Land,
    Open,
    Purge,
    RemoveUnused,
    Send,
    Subscribe,
    SubscribeService,
    Sweep,
    Watch,
)
from headgate.core.exclusive.authorization import via_of
from headgate.core.exclusive.queues import ExclusiveQueues
from headgate.core.model.domain import Mode
from headgate.core.model.parties import Address, Party, SetLink
from headgate.core.reader_commands import Browse, Feed, OfQueue, Pull
from headgate.core.shared.queues import SharedQueues
from headgate.core.turn.store_requests import Aged, Load
from headgate.core.turn.turn import Turn


class LoadPlan:
    """Collects the reads that the commands of a turn need.

    Owned by the shard, which calls `missing` at the beginning of every turn. Data that is in memory
    is not read again.
    """

    def __init__(self, exclusive: ExclusiveQueues, shared: SharedQueues) -> None:
        context = exclusive.context
        self._domains = context.domains
        self._limits = context.limits
        self._session_states = context.session_states
        self._cache = context.cache
        self._services = exclusive.services
        self._sweeping = exclusive.sweeping
        self._shared = shared
        self._shared_queues = shared.queues
        self._needs: dict[type[Any], Callable[[Any, Load], None]] = {
            Create: self._need_ids,
            Delete: self._need_record,
            Send: self._need_sent_to,
            Amend: self._need_amended,
            Watch: self._need_record,
            Inspect: self._need_head,
            Subscribe: self._need_head,
            Get: self._need_head,
            Confirm: self._need_next,
            Identify: self._need_identity,
            SubscribeService: self._need_tally,
            Sweep: self._need_page,
            Open: shared.catalog.missing,
            Land: shared.catalog.missing,
            Purge: shared.catalog.missing,
            Drained: self._need_waiting,
            Pull: shared.catalog.missing_of_pull,
            Browse: shared.catalog.missing_of_pull,
            CountDomain: shared.catalog.missing_usage,
            Feed: shared.catalog.missing_of_feed,
            **dict.fromkeys(get_args(OfQueue), shared.catalog.missing),
        }

    def missing(self, commands: Sequence[Command], turn: Turn) -> Load:
        """The load needed before these commands can be carried out."""
        # S004-30, S004-32, S004-52, SMP-21, SMP-22: all commands share one request.
        load = Load()
        for command in commands:
            need = self._needs.get(type(command))
            if need is not None:
                need(command, load)
            elif type(command) is Expire:
                self._need_aged(command, load, turn.sure)
            elif type(command) is ExpireUnopened:
                self._shared.expiry.need_overdue(command, load, turn.sure)
            elif type(command) is RemoveUnused:
                self._shared.upkeep.need_listings(command, load, turn.sure)
        turn.needs = load.heads
        # S004-37, S004-38: known queues, even empty ones, are not read again.
        load.heads = {q: n for q, n in load.heads.items() if self._cache.lacks(q, n)}
        load.addresses = {
            address: n for address, n in load.addresses.items() if not self._cache.owner(address)
        }
        return load

    def _need_record(self, command: Delete | Amend | Watch, load: Load) -> None:
        address = via_of(command)
        if address is not None:
            load.addresses[address] = 0
            return
        assert not isinstance(command, Watch), "a notifier is not the recipient"
        if command.queue not in self._shared.queues:
            # S004-41: a record without messages is enough for these.
            load.heads.setdefault(command.queue, 0)

    def _need_sent_to(self, command: Send, load: Load) -> None:
        """Need the record of a queue, unless it is a shared one that is open: of that everything is
        known."""
        if command.via is not None:
            load.addresses[command.via] = 0
        elif command.queue not in self._shared_queues:
            # S004-41: a record without messages is enough.
            load.heads.setdefault(command.queue, 0)

    def _need_ids(self, command: Create, load: Load) -> None:
        """Add the ids of a new queue, to see whether they are taken."""
        if command.queue not in self._shared.queues:
            load.heads.setdefault(command.queue, 0)
            if command.parties is not None:
                load.addresses.update(dict.fromkeys(command.parties.addresses(), 0))

    def _need_amended(self, command: Amend, load: Load) -> None:
        self._need_record(command, load)
        if isinstance(command.change, SetLink):
            load.addresses[Address(Party.LINK, command.change.link.id)] = 0

    def _need_identity(self, command: Identify, load: Load) -> None:
        load.identities.add(command.fingerprint)

    def _need_aged(self, command: Expire, load: Load, sure: float) -> None:
        """Add messages that may be too old. Of several commands, the one that is least far along
        serves all."""
        lives = [
            domain.message_ttl
            for domain in self._domains.values()
            if domain.mode is Mode.EXCLUSIVE and domain.message_ttl is not None
        ]
        if lives and (load.aged is None or command.after < load.aged.after):
            load.aged = Aged(command.after, sure - min(lives), self._limits.expiries)

    def _need_head(self, command: Subscribe | Get | Inspect, load: Load) -> None:
        # S004-46, S004-48, S004-53: every SUB reads its first message alike, alone or among others.
        load.heads[command.queue] = max(load.heads.get(command.queue, 0), 1)

    def _need_next(self, command: Confirm, load: Load) -> None:
        """Load one message more than is confirmed: the answer to a confirm is the next head."""
        if command.queue not in self._shared_queues:
            # S004-51: the next head of every confirm comes with the same question.
            load.heads[command.queue] = max(load.heads.get(command.queue, 0), 1) + 1

    def _need_tally(self, command: SubscribeService, load: Load) -> None:
        load.services.add(command.service)

    def _need_page(self, command: Sweep, load: Load) -> None:
        if self._services.is_sweeping(command):
            load.pages.add(self._sweeping.page(command))

    def _need_waiting(self, command: Drained, load: Load) -> None:
        state = self._session_states.find(command.session)
        for queue in state.waiting if state is not None else ():
            load.heads[queue] = max(load.heads.get(queue, 0), 1)

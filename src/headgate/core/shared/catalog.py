"""The catalog of shared queues in memory: finds, makes, loads and removes them."""

from __future__ import annotations

from collections import Counter
from typing import Protocol, TypeAlias

from headgate.core.commands import CountDomain, Land, Open, Purge
from headgate.core.facts import AppRemoved, QueueCreated, QueueDeleted
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import AppId, QueueId, SessionId
from headgate.core.model.message import MessageEntry
from headgate.core.model.parties import QueueRecord
from headgate.core.reader_commands import (
    Browse,
    Feed,
    FeedPart,
    OfApp,
    OfQueue,
    Pull,
    View,
    Want,
)
from headgate.core.shared.app import App
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.expiry import Expiry
from headgate.core.shared.history import History
from headgate.core.shared.queue import DomainState, OpenGroup, SharedQueue
from headgate.core.shared.quota import judge_domain
from headgate.core.shared.releasing import Releasing
from headgate.core.turn.store_requests import Groups, Load, Loaded, Usage
from headgate.core.turn.turn import Turn
from headgate.errors import LimitReached, NoSuchApp, NoSuchQueue, Prohibited
from headgate.expr.predicate import compile_expression


class NamedQueue(Protocol):
    """A queue by its name, and its domain."""

    @property
    def queue(self) -> QueueId: ...
    @property
    def domain(self) -> str: ...


Making: TypeAlias = Open | Land | Want | View | FeedPart | OfQueue | NamedQueue
Opening: TypeAlias = Making | Purge
"""A command that names a queue and its domain."""


class Catalog:
    """Finds a shared queue, makes it, loads it from the store, and removes it.

    Every command that opens, purges or fills a queue comes here first.
    """

    def __init__(
        self,
        context: SharedContext,
        delivery: SharedDelivery,
        releasing: Releasing,
        expiry: Expiry,
        history: History,
    ) -> None:
        self._history = history
        self._context = context
        self._delivery = delivery
        self._releasing = releasing
        self._expiry = expiry

    def domain_of(self, command: Opening) -> Domain:
        domain = self._context.domains.get(command.domain)
        if domain is None or domain.mode is Mode.EXCLUSIVE:
            raise Prohibited(f"no domain {command.domain} with shared queues")
        return domain

    def of_reader(self, named: Want | View | OfQueue, client: str, verb: str) -> Domain:
        """The domain of a queue that a reader uses by name; raise if it may not."""
        domain = self.domain_of(named)
        if domain.mode is Mode.BROADCAST and verb == "read":
            raise Prohibited("a broadcast queue keeps nothing that could be fetched: subscribe")
        domain.check_rights(client, read=verb == "read", write=verb == "write", create=False)
        return domain

    def check_app(self, named: Want | OfApp, domain: Domain, turn: Turn) -> None:
        """Raise if a queue has no such app, or would have none after being made."""
        if named.app in domain.apps:
            return
        queue = self.find(named, turn)
        if queue is None and domain.is_open:
            raise NoSuchQueue(named.queue)
        if queue is None or not queue.has_app(named.app):
            raise NoSuchApp(named.app, named.queue)

    def find_or_make(self, named: Want | OfQueue, client: str, turn: Turn) -> SharedQueue:
        """The queue, made if it does not exist and the client may make it."""
        queue = self.find(named, turn)
        if queue is None:
            self.domain_of(named).check_rights(client, read=False, write=False, create=True)
            queue = self.make(named, turn)
        return queue

    def find(self, command: Opening, turn: Turn) -> SharedQueue | None:
        """The queue, if it exists; raise if it belongs to another domain."""
        queue = self._context.queues.get(command.queue)
        stored = turn.loaded.backlogs.get(command.queue)
        if (queue is not None and queue.domain.name != command.domain) or (
            stored is not None and stored[0].domain != command.domain
        ):
            raise Prohibited("the queue belongs to another domain")
        return queue

    def check_producers(
        self, domain: Domain, queue: SharedQueue | None, session: SessionId
    ) -> None:
        producers = queue.producers if queue is not None else set()
        check_one_more("max_producers", domain.max_producers, producers, session)

    def make(self, command: Making, turn: Turn) -> SharedQueue:
        domain = self._context.domains[command.domain]
        state = self._context.states.get(command.domain)
        if state is None:
            state = DomainState(domain, Usage())
            turn.undo.put(self._context.states, command.domain, state)
        if domain.max_queues and state.queues >= domain.max_queues:
            raise LimitReached("max_queues", domain.max_queues)
        queue = SharedQueue(command.queue, state, turn.now)
        self._enlist(queue, turn)
        turn.undo.assign(state, "queues", state.queues + 1)
        turn.batch.create[command.queue] = QueueRecord(command.queue, command.domain)
        turn.facts.append(QueueCreated(turn.now, command.queue, command.domain))
        return queue

    def missing(self, command: Opening, load: Load) -> None:
        if command.queue not in self._context.queues:
            load.backlogs.add(command.queue)
        self.missing_usage(command, load)

    def missing_usage(self, command: Opening | CountDomain, load: Load) -> None:
        if command.domain not in self._context.states:
            load.usage.add(command.domain)

    def missing_of_pull(self, command: Pull | Browse, load: Load) -> None:
        for want in command.wants:
            self.missing(want, load)

    def missing_of_feed(self, command: Feed, load: Load) -> None:
        for part in command.parts:
            self.missing(part, load)

    def adopt(self, loaded: Loaded, turn: Turn) -> None:
        """Take over a queue as it was loaded. Apps that the domain no longer has drop their
        messages, which is recorded; if the turn fails, the queue is loaded again."""
        for name, usage in loaded.usage.items():
            domain = self._context.domains.get(name)
            if domain is not None and name not in self._context.states:
                turn.undo.put(self._context.states, name, DomainState(domain, usage))
        for queue_id, (record, entries) in loaded.backlogs.items():
            state = self._context.states.get(record.domain)
            if state is None or queue_id in self._context.queues:
                continue
            queue = SharedQueue(queue_id, state, turn.now)
            self._enlist(queue, turn)
            self._join(queue, loaded.groups.get(queue_id, {}), turn)
            known = loaded.remembered.get(queue_id, {})
            queue.remembered.adopt(known, entries, self._context.limits.remembered_ids)
            gone: Counter[AppId] = Counter()
            for entry in entries:
                if not entry.apps:
                    queue.add_kept(entry, None)
                    continue
                gone.update(app for app in entry.apps if app not in queue.apps)
                apps = tuple(app for app in entry.apps if app in queue.apps)
                kept = MessageEntry(
                    entry.seq, entry.id, entry.arrived, entry.size, entry.properties, apps
                )
                # BMQ-64: in line again in the apps that had not confirmed it.
                queue.add(kept, turn.undo)
                if not apps:
                    self._releasing.retire(queue, kept, turn)
                elif apps != entry.apps:
                    turn.batch.hold[entry.seq] = apps
            turn.facts.extend(
                AppRemoved(turn.now, queue_id, app, count) for app, count in gone.items()
            )
            for each in queue.apps.values():
                self._delivery.note(queue, each)
            queue.latest = max(queue.latest, queue.remembered.newest() or 0.0)
            self.plan(queue)
            self._history.plan(queue, turn)

    def _join(self, queue: SharedQueue, groups: Groups, turn: Turn) -> None:
        """Add the groups that clients made. Where groups are no longer allowed they are dropped."""
        for name, group in sorted(groups.items()):
            if not queue.domain.is_open:
                turn.batch.groups[queue.id, name] = None
                continue
            if name in queue.domain.apps:
                continue
            predicate = None if group.where is None else compile_expression(group.where)
            queue.joined[name] = OpenGroup(predicate, turn.now)
            queue.apps[name] = App(name, turn.now)

    def judge(self, command: CountDomain, turn: Turn) -> None:
        """Record how full a domain is, now that its usage is known."""
        state = self._context.states.get(command.domain)
        if state is not None:
            judge_domain(state, None, turn)

    def _enlist(self, queue: SharedQueue, turn: Turn) -> None:
        """Add a queue to those in memory."""
        turn.undo.put(self._context.queues, queue.id, queue)
        turn.undo.put(queue.state.members, queue.id, queue)
        self._context.chores.put(turn.now + queue.domain.queue_ttl, (queue.id, Chore.UNUSED))

    def plan(self, queue: SharedQueue) -> None:
        """Plan all chores of a queue."""
        self._expiry.plan(queue)
        self._context.chores.put(0.0, (queue.id, Chore.FORGET))
        if queue.domain.max_idle_time:
            self._context.chores.put(0.0, (queue.id, Chore.STUCK))
        self._context.chores.put(0.0, (queue.id, Chore.UNUSED))
        if queue.joined:
            self._context.chores.put(0.0, (queue.id, Chore.IDLE))

    def remove(self, queue: SharedQueue, turn: Turn) -> None:
        """Remove an empty queue that no session has open, and this turn's plans for it."""
        batch = turn.batch
        turn.undo.pop(self._context.queues, queue.id)
        turn.undo.pop(queue.state.members, queue.id)
        turn.undo.assign(queue.state, "queues", queue.state.queues - 1)
        for seq in [seq for seq, stored in batch.append.items() if stored.queue == queue.id]:
            del batch.append[seq]
            batch.delete.discard(seq)
        batch.forget.pop(queue.id, None)
        batch.remember.pop(queue.id, None)
        for key in [key for key in batch.groups if key[0] == queue.id]:
            del batch.groups[key]
        if batch.create.pop(queue.id, None) is None:
            batch.remove.add(queue.id)
        self._delivery.leave_out({queue.id})
        for app in queue.apps.values():
            self._delivery.note(queue, app)
        turn.facts.append(QueueDeleted(turn.now, queue.id, 0))


def check_one_more(name: str, limit: int, members: set[SessionId], session: SessionId) -> None:
    if limit and session not in members and len(members) >= limit:
        raise LimitReached(name, limit)

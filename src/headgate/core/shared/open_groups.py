"""Groups that clients make: apps of one queue, stored with it.

Where a domain allows it, a client makes an app by its name, moves it to another place, and removes
it. A group that is not read for long is dropped, so that it does not hold up messages until there
is no room for others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator

from headgate.core.facts import GroupCreated, GroupDropped, Skipped
from headgate.core.model.ids import AppId, Seq
from headgate.core.model.message import MessageEntry
from headgate.core.model.stream_id import StreamId, id_of
from headgate.core.reader_commands import DropGroup, MakeGroup, MoveGroup
from headgate.core.reader_effects import Counted
from headgate.core.shared.app import App
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.context import Chore, SharedContext
from headgate.core.shared.delivery import SharedDelivery
from headgate.core.shared.expiry import Expiry
from headgate.core.shared.pulling import Pulling
from headgate.core.shared.queue import OpenGroup, SharedQueue
from headgate.core.shared.releasing import Releasing
from headgate.core.shared.subscriptions import SubscriptionCompiler
from headgate.core.turn.store_requests import GroupRecord, Load, Loaded, Parts
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, LimitReached, NoSuchApp, NoSuchQueue, Prohibited

IDLE_LOOK_SECONDS = 60.0
"""A group is dropped at most so many seconds late."""


class OpenGroups:
    """Carries out `MakeGroup`, `DropGroup` and `MoveGroup`, and drops idle groups.

    When the making of a group is answered, the group and its messages are in the store.
    """

    def __init__(
        self,
        context: SharedContext,
        delivery: SharedDelivery,
        catalog: Catalog,
        expiry: Expiry,
        releasing: Releasing,
        pulling: Pulling,
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._catalog = catalog
        self._expiry = expiry
        self._releasing = releasing
        self._pulling = pulling
        self._compiler = SubscriptionCompiler(context.limits)

    def make(self, command: MakeGroup, turn: Turn) -> Parts:
        try:
            domain = self._catalog.of_reader(command, command.client, "read")
            found = self._catalog.find(command, turn)
            if found is None and not command.makes:
                raise NoSuchQueue(command.queue)
            if not domain.is_open and command.app not in domain.apps:
                raise NoSuchApp(command.app, command.queue)
            if found is not None and found.has_app(command.app):
                turn.effects.append(Counted(command.session, command.ref, 0))
                return
            is_new = command.app not in domain.apps
            if is_new and found is not None and len(found.joined) >= domain.max_groups:
                raise LimitReached("max_groups", domain.max_groups)
            predicate = None
            if command.where is not None:
                if turn.expression_bytes <= 0:
                    turn.again.append(command)
                    return
                predicate = self._compiler.compile(command.where, turn)
            queue = self._catalog.find_or_make(command, command.client, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        if is_new:
            # Earlier messages are delivered as if there were no such group.
            yield from self._offering(turn)
            app = self._app(queue, command.app, turn)
            turn.undo.put(queue.joined, command.app, OpenGroup(predicate, turn.now))
            turn.batch.groups[queue.id, command.app] = GroupRecord(command.where)
            count = 0
            if command.after is not None:
                count = yield from self._referring(queue, app, command.after, turn)
            after = queue.last_id if command.after is None else command.after
            turn.undo.assign(app, "passed", after)
            self._context.chores.put(turn.now, (queue.id, Chore.IDLE))
            turn.facts.append(GroupCreated(turn.now, queue.id, command.app, count, command.where))
        turn.effects.append(Counted(command.session, command.ref, 1))

    def drop(self, command: DropGroup, turn: Turn) -> Parts:
        try:
            domain = self._catalog.of_reader(command, command.client, "read")
            queue = self._catalog.find(command, turn)
            if command.app in domain.apps:
                raise Prohibited(
                    f"the group is an app of the domain {domain.name}: change its configuration"
                )
            if queue is None:
                raise NoSuchQueue(command.queue)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        is_there = command.app in queue.joined
        if is_there:
            yield from self._offering(turn)
            yield from self._dropping(queue, command.app, "asked", turn)
        turn.effects.append(Counted(command.session, command.ref, int(is_there)))

    def move(self, command: MoveGroup, turn: Turn) -> Parts:
        try:
            domain = self._catalog.of_reader(command, command.client, "read")
            queue = self._catalog.find(command, turn)
            if queue is None:
                raise NoSuchQueue(command.queue)
            self._catalog.check_app(command, domain, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        yield from self._offering(turn)
        app = queue.apps[command.app]
        after = queue.last_id if command.after is None else command.after
        skipped = 0
        for entry in list(queue.entries.values()):
            if id_of(entry) > after:
                break
            turn.work += 1
            if turn.take_breath():
                app.prune(queue.entries, turn.undo)
                yield None
            if app.id in entry.apps and entry.seq not in app.outstanding:
                self._releasing.dereference(queue, entry, app, turn)
                skipped += 1
        app.prune(queue.entries, turn.undo)
        if skipped:
            turn.facts.append(Skipped(turn.now, queue.id, app.id, skipped))
        yield from self._referring(queue, app, after, turn)
        turn.undo.assign(app, "passed", after)
        turn.effects.append(Counted(command.session, command.ref, skipped))

    def dropping_idle(self, queue: SharedQueue, turn: Turn) -> Iterator[None]:
        """Drop the idle groups of a queue, some of their messages at a time, and plan the next
        look."""
        idle = queue.domain.group_idle
        if not idle or not queue.joined:
            return
        for name, group in list(queue.joined.items()):
            app = queue.apps[name]
            readers = self._pulling.readers.of_app(queue.id, name).values()
            is_used = any(s > 0 for s in app.consumers) or any(r.pulls for r in readers)
            if not is_used and turn.sure - group.used > idle:
                yield from self._dropping(queue, name, "idle", turn)
        if queue.joined:
            when = min(group.used for group in queue.joined.values()) + idle
            when = max(when, turn.now + min(idle, IDLE_LOOK_SECONDS))
            self._context.chores.put(when, (queue.id, Chore.IDLE))
        else:
            self._context.chores.put(turn.now, (queue.id, Chore.UNUSED))

    # Inside.

    def _offering(self, turn: Turn) -> Parts:
        for _ in self._expiry.offering_now(turn):
            yield None

    @staticmethod
    def _app(queue: SharedQueue, name: AppId, turn: Turn) -> App:
        """The app of a group; a session of another wire may have it open already."""
        if name not in queue.apps:
            turn.undo.put(queue.apps, name, App(name, turn.now))
        return queue.apps[name]

    def _dropping(self, queue: SharedQueue, name: AppId, reason: str, turn: Turn) -> Iterator[None]:
        app = queue.apps[name]
        turn.undo.pop(queue.joined, name)
        turn.batch.groups[queue.id, name] = None
        count = 0
        for entry in list(queue.entries.values()):
            if name not in entry.apps:
                continue
            turn.work += 1
            if turn.take_breath():
                app.prune(queue.entries, turn.undo)
                yield
            if entry.seq in app.outstanding:
                self._delivery.take_back(queue, app, entry.seq, turn)
            self._releasing.dereference(queue, entry, app, turn)
            count += 1
        yield from self._pulling.leaving_app(queue, app, turn)
        app.prune(queue.entries, turn.undo)
        if not app.consumers:
            turn.undo.pop(queue.apps, name)
        self._delivery.note(queue, app)
        turn.facts.append(GroupDropped(turn.now, queue.id, name, count, reason))

    def _referring(
        self, queue: SharedQueue, app: App, after: StreamId, turn: Turn
    ) -> Generator[Load | None, Loaded, int]:
        """Reference all later messages of the queue and its history from an app, unless they are
        already; return how many."""
        group = queue.joined.get(app.id)
        first = StreamId(after.milliseconds, after.number + 1)
        kept = [Seq(seq) for seq in queue.kept.seqs[queue.kept.place_of(first) :]]
        appended = turn.batch.append
        missing = {seq for seq in kept if seq not in appended}
        loaded = (yield Load(entries=missing)).entries if missing else {}
        line: list[Seq] = []
        there = [s for s, e in queue.entries.items() if app.id not in e.apps and id_of(e) > after]
        for seq in sorted([*kept, *there]):
            turn.work += 1
            if turn.take_breath():
                yield None
            entry = queue.entries.get(seq) or loaded.get(seq)
            if entry is None:
                stored = appended[seq].message
                entry = MessageEntry(
                    seq, stored.id, stored.arrived, stored.size, stored.properties, ()
                )
            wants = (
                group.wants(entry.properties)
                if group is not None
                else queue.domain.wants(app.id, entry.properties)
            )
            # A message repeated after its id was forgotten is there twice. In line it is once, as
            # consumers of other wires confirm by the id.
            is_twin = queue.by_id.get(entry.id, seq) != seq
            if not wants or is_twin:
                continue
            apps = (*entry.apps, app.id)
            more = MessageEntry(seq, entry.id, entry.arrived, entry.size, entry.properties, apps)
            if entry.apps:
                turn.undo.put(queue.entries, seq, more)
            else:
                queue.revive(more, turn.undo)
            turn.batch.hold[seq] = apps
            line.append(seq)
        if line:
            queue.sort()
            _put_in_line(app, line, turn)
            self._expiry.plan(queue)
            self._delivery.touch(queue, app)
        return len(line)


def _put_in_line(app: App, seqs: list[Seq], turn: Turn) -> None:
    """Put messages that the app was done with back in line, by arrival. A skipped one may still be
    in a line, and must not be there twice."""
    new = set(seqs)
    for name in ("back", "again"):
        line: deque[Seq] = getattr(app, name)
        if any(seq in new for seq in line):
            turn.undo.assign(app, name, deque(seq for seq in line if seq not in new))
    turn.undo.assign(app, "fresh", deque(sorted(new.union(app.fresh))))

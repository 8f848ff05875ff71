"""Shared queues: apps, consumers that take turns, and messages that wait for the right one.

A message is looked at by each of its apps on its own. What nobody wants is put aside and does
not hold up what comes after it; what those who want it have no room for waits for them.
"""

from __future__ import annotations

from itertools import islice

from headgate.core.apps import App
from headgate.core.bodies import Bodies
from headgate.core.commands import (
    Close,
    Configure,
    Confirm,
    Interest,
    Land,
    Look,
    Open,
    Reconfigure,
    Send,
)
from headgate.core.dispatch import Subscription
from headgate.core.domain import Domain, Mode
from headgate.core.effects import Receipt
from headgate.core.facts import (
    Accepted,
    AppUnknown,
    AutoConfirmed,
    Confirmed,
    Expired,
    Poisoned,
    QueueCreated,
    QueueStuck,
    Repeated,
    Returned,
    Subscribed,
    Unsubscribed,
)
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.interests import Interests, tell_interests
from headgate.core.limits import Limits
from headgate.core.marks import judge
from headgate.core.message import Entry, Message, Properties, Stored, check
from headgate.core.names import WHOLE, AppId, QueueId, SessionId
from headgate.core.numbers import Numbers
from headgate.core.offers import Offers
from headgate.core.seats import Seat, Seats
from headgate.core.shared import DomainState, SharedQueue
from headgate.core.steps import Load, Loaded, QueueRecord, Usage
from headgate.core.turn import Turn
from headgate.errors import (
    BadSubscription,
    HeadgateError,
    LimitReached,
    NoSuchQueue,
    Prohibited,
)


class Sharing:
    def __init__(
        self,
        domains: dict[str, Domain],
        seats: Seats,
        numbers: Numbers,
        limits: Limits,
    ) -> None:
        self._domains = domains
        self._seats = seats
        self._numbers = numbers
        self._limits = limits
        self._interests = Interests(limits)
        self.states: dict[str, DomainState] = {}
        self.queues: dict[QueueId, SharedQueue] = {}
        self.bodies = Bodies(limits.bodies_bytes)
        self._offers = Offers(self.queues, seats, self.bodies)

    # What a session asks.

    def open(self, command: Open, turn: Turn) -> None:
        session = command.session
        seat = self._seats.take(session, turn.undo)
        if seat is None:
            return
        try:
            interests = command.interests if command.read else ()
            queue = self._admit(command, seat, interests, turn)
            wanted = self._interests.compile(session, interests, ())
            queue = queue or self.make(command, turn)
        except HeadgateError as error:
            self._refuse(command, error, turn)
            return
        turn.undo.put(seat.opened, (command.queue, command.app), None)
        turn.undo.put(seat.opens, command.queue, seat.opens.get(command.queue, 0) + 1)
        if command.write:
            turn.undo.add(queue.producers, session)
        if command.read:
            if command.app not in queue.apps:
                turn.undo.put(queue.apps, command.app, App(command.app, turn.now))
            app = queue.apps[command.app]
            self._subscribe(queue, app, session, wanted, interests, turn)
            turn.facts.append(Subscribed(turn.now, command.queue, command.app, session))
            tell_interests(command, interests, turn)
            if command.app not in queue.domain.apps:
                turn.facts.append(AppUnknown(turn.now, command.queue, command.app, session))
        turn.done(session, command.ref)

    def configure(self, command: Configure, turn: Turn) -> None:
        session = command.session
        try:
            queue, app = self._reading(session, command.queue, command.app)
            before = app.consumers[session]
            self._interests.check(app, session, command.interests)
            wanted = self._interests.compile(session, command.interests, before)
        except HeadgateError as error:
            self._refuse(command, error, turn)
            return
        self._subscribe(queue, app, session, wanted, command.interests, turn)
        tell_interests(command, command.interests, turn)
        turn.done(session, command.ref)

    def close(self, command: Close, turn: Turn) -> None:
        session = command.session
        seat = self._seats.find(session)
        key = (command.queue, command.app)
        if seat is None or key not in seat.opened:
            turn.fail(session, command.ref, command.queue, NoSuchQueue(command.queue))
            return
        opens = seat.opens[command.queue] - 1
        self._leave(session, command.queue, command.app, opens > 0, lost=False, turn=turn)
        turn.undo.pop(seat.opened, key)
        if opens:
            turn.undo.put(seat.opens, command.queue, opens)
        else:
            turn.undo.pop(seat.opens, command.queue)
        turn.done(session, command.ref)

    def send(self, command: Send, turn: Turn) -> None:
        session, message = command.session, command.message
        queue = self.queues[command.queue]
        try:
            if session not in queue.producers:
                raise Prohibited("the queue is not open for writing")
            check(message, self._limits)
            if turn.outbox_is_full:
                raise LimitReached("outbox_bytes", self._limits.outbox_bytes)
            if queue.remembers(message.id, turn.now):
                turn.facts.append(Repeated(turn.now, queue.id, message.id))
            else:
                self._accept(queue, message, turn)
        except HeadgateError as error:
            turn.fail(session, command.ref, queue.id, error)
            return
        if command.ref is not None:
            turn.effects.append(Receipt(session, command.ref, queue.id, message.id))

    def confirm(self, command: Confirm, turn: Turn) -> None:
        """What is not in the session's hands is ignored: it expired, or was given back."""
        queue = self.queues[command.queue]
        app = queue.apps.get(command.app)
        for message in command.messages:
            seq = queue.by_id.get(message)
            if app is None or seq is None or seq not in app.outstanding:
                continue
            if app.outstanding[seq].session != command.session:
                continue
            entry = queue.entries[seq]
            seconds = turn.now - self._offers.take_back(queue, app, seq, turn)
            turn.facts.append(
                Confirmed(
                    turn.now,
                    queue.id,
                    app.id,
                    message,
                    command.session,
                    seconds,
                    turn.now - entry.arrived,
                )
            )
            self._dereference(queue, entry, app, turn)
        turn.done(command.session, command.ref)

    def reconfigure(self, command: Reconfigure, turn: Turn) -> None:
        """New settings hold at once, for what is stored too; filters only for new messages."""
        domain = command.domain
        before = self._domains.get(domain.name)
        if before is not None and before.mode is not domain.mode:
            return
        turn.undo.put(self._domains, domain.name, domain)
        state = self.states.get(domain.name)
        if state is None:
            return
        turn.undo.assign(state, "domain", domain)
        for queue in [q for q in self.queues.values() if q.state is state]:
            for name in domain.apps:
                if name not in queue.apps:
                    turn.undo.put(queue.apps, name, App(name, turn.now))
            for app in [a for a in queue.apps.values() if a.id not in domain.apps]:
                self._drop_app(queue, app, turn)
            for app in queue.apps.values():
                if app.held is not None:
                    self._offers.touch(queue, app)
            judge(queue, turn)

    # Time.

    def tick(self, turn: Turn) -> None:
        left = self._limits.expiries
        for queue in self.queues.values():
            queue.forget_ids(turn.now)
            outdated = queue.outdated(turn.now)
            if outdated is not None:
                turn.batch.forget[queue.id] = outdated
            left -= self._expire(queue, left, turn)
            if queue.domain.max_delivery_attempts:
                for app in queue.apps.values():
                    if app.back and app.held is not None and turn.now >= app.held[1]:
                        self._offers.touch(queue, app)
            if queue.domain.max_idle_time and queue.domain.mode is not Mode.BROADCAST:
                for app in queue.apps.values():
                    self._look_for_stuck(queue, app, turn)
        self._offers.sample(turn)

    def disconnect(self, session: SessionId, seat: Seat, lost: bool, turn: Turn) -> None:
        for queue, app in seat.opened:
            self._leave(session, queue, app, still_open=False, lost=lost, turn=turn)

    def drained(self, session: SessionId, seat: Seat, turn: Turn) -> None:
        """The mailbox has room again."""
        if seat.opened:
            self._offers.hold(session, held=False, turn=turn)

    def look_on(self, command: Look, turn: Turn) -> None:
        """The queue may be gone, or the app."""
        queue = self.queues.get(command.queue)
        app = queue.apps.get(command.app) if queue is not None else None
        if queue is not None and app is not None:
            self._offers.touch(queue, app)

    # The course of a turn.

    def offer(self, turn: Turn) -> None:
        """Look at everything that was touched."""
        self._offers.make(turn)

    def settle(self, turn: Turn) -> None:
        """The turn has happened: keep bodies and remembered ids true and within their bounds."""
        if not self.queues:
            return
        for group in turn.met:
            group.score.matched += 1
        for seq, stored in turn.batch.append.items():
            if stored.queue in self.queues and seq not in turn.batch.delete:
                self.bodies.keep(seq, stored.message.body)
        for seq in turn.batch.delete:
            self.bodies.forget(seq)
        for queue_id in {fact.queue for fact in turn.facts if type(fact) is Accepted}:
            queue = self.queues.get(queue_id)
            if queue is not None:
                queue.forget_ids(turn.now, self._limits.remembered_ids)
        for queue_id, before in turn.batch.forget.items():
            self.queues[queue_id].dropped(before)
        for queue_id, known in turn.batch.remember.items():
            self.queues[queue_id].keep(known)

    def abandon(self) -> None:
        """The turn did not happen."""
        self._offers.abandon()

    def missing(self, command: Open | Land, load: Load) -> None:
        if command.queue not in self.queues:
            load.backlogs.add(command.queue)
        if command.domain not in self.states:
            load.usage.add(command.domain)

    def adopt(self, loaded: Loaded, turn: Turn) -> None:
        """Take what the store said. Apps that the domain no longer has let go of it all; if
        the turn fails, the queue is loaded anew."""
        for name, usage in loaded.usage.items():
            domain = self._domains.get(name)
            if domain is not None and name not in self.states:
                turn.undo.put(self.states, name, DomainState(domain, usage))
        for queue_id, (record, entries) in loaded.backlogs.items():
            state = self.states.get(record.domain)
            if state is None or queue_id in self.queues:
                continue
            queue = SharedQueue(queue_id, state, turn.now)
            turn.undo.put(self.queues, queue_id, queue)
            known = loaded.remembered.get(queue_id, {})
            if known:
                queue.keep(known)
            queue.remember(known, entries, self._limits.remembered_ids)
            for entry in entries:
                apps = tuple(app for app in entry.apps if app in queue.apps)
                kept = Entry(entry.seq, entry.id, entry.arrived, entry.size, entry.properties, apps)
                queue.add(kept, turn.undo)
                if not apps:
                    self._delete(queue, kept, turn)
                elif apps != entry.apps:
                    turn.batch.hold[entry.seq] = apps

    def _accept(self, queue: SharedQueue, message: Message, turn: Turn) -> None:
        """Evaluate the apps' filters, once; store for those that want it."""
        domain = queue.domain
        apps = wanting(domain, message.properties)
        size = message.size
        if apps and domain.mode is not Mode.BROADCAST:
            queue.meter.check(size, domain.max_messages, domain.max_bytes)
            queue.state.meter.check(size, domain.domain_max_messages, domain.domain_max_bytes)
        self.take(queue, message, size, apps, turn)

    def take(
        self,
        queue: SharedQueue,
        message: Message,
        size: int,
        apps: tuple[AppId, ...],
        turn: Turn,
    ) -> None:
        """Have a message for which there is room."""
        domain = queue.domain
        seq = self._numbers.next()
        entry = Entry(seq, message.id, message.arrived, size, message.properties, apps)
        if domain.mode is Mode.BROADCAST:
            if apps:
                self._offers.broadcast(queue, entry, message.body, turn)
        elif apps:
            turn.batch.append[seq] = Stored(seq, queue.id, message, apps)
            queue.add(entry, turn.undo)
            queue.state.meter.change(1, entry.size, turn.undo)
            for app in apps:
                self._offers.touch(queue, queue.apps[app])
            judge(queue, turn)
        turn.undo.put(queue.remembered, message.id, turn.now)
        body = message.body if domain.journal_bodies else None
        turn.facts.append(
            Accepted(turn.now, queue.id, message.id, entry.size, message.properties, body)
        )
        if apps != domain.apps:
            turn.facts.extend(
                AutoConfirmed(turn.now, queue.id, app, message.id)
                for app in domain.apps
                if app not in apps
            )

    # Consumers.

    def _refuse(self, command: Open | Configure, error: HeadgateError, turn: Turn) -> None:
        turn.fail(command.session, command.ref, command.queue, error)
        limit = self._interests.limit_of(error) if isinstance(error, BadSubscription) else None
        if limit is not None:
            fact = LimitReachedFact(turn.now, limit.name, limit.limit, command.session)
            turn.facts.append(fact)

    def _admit(
        self, command: Open, seat: Seat, interests: tuple[Interest, ...], turn: Turn
    ) -> SharedQueue | None:
        """Raise if the queue may not be opened like this; else the queue, if it is there."""
        domain = self.domain_of(command)
        if (command.queue, command.app) in seat.opened:
            raise Prohibited("the session has the queue open already")
        if len(seat.opened) >= self._limits.opens_per_session:
            raise LimitReached("opens_per_session", self._limits.opens_per_session)
        if domain.mode is not Mode.FANOUT and command.app != WHOLE:
            raise Prohibited(f"a {domain.mode.value} queue has no apps")
        if domain.mode is Mode.FANOUT and command.read and command.app == WHOLE:
            raise Prohibited("a fanout queue is read through one of its apps")
        queue = self.find(command, turn)
        readers = queue.readers() if queue is not None and domain.max_consumers else set()
        if command.read:
            _check_one_more("max_consumers", domain.max_consumers, readers, command.session)
            app = queue.apps.get(command.app) if queue is not None else None
            self._interests.check(app, command.session, interests)
        if command.write:
            self.check_producers(domain, queue, command.session)
        return queue

    # What opening a queue and landing a batch in it have in common.

    def domain_of(self, command: Open | Land) -> Domain:
        domain = self._domains.get(command.domain)
        if domain is None or domain.mode is Mode.EXCLUSIVE:
            raise Prohibited(f"no domain {command.domain} with shared queues")
        return domain

    def find(self, command: Open | Land, turn: Turn) -> SharedQueue | None:
        """The queue, if it is there; raise if it is another domain's."""
        queue = self.queues.get(command.queue)
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
        _check_one_more("max_producers", domain.max_producers, producers, session)

    def make(self, command: Open | Land, turn: Turn) -> SharedQueue:
        domain = self._domains[command.domain]
        state = self.states.get(command.domain)
        if state is None:
            state = DomainState(domain, Usage())
            turn.undo.put(self.states, command.domain, state)
        if domain.max_queues and state.queues >= domain.max_queues:
            raise LimitReached("max_queues", domain.max_queues)
        queue = SharedQueue(command.queue, state, turn.now)
        turn.undo.put(self.queues, command.queue, queue)
        turn.undo.assign(state, "queues", state.queues + 1)
        turn.batch.create[command.queue] = QueueRecord(command.queue, command.domain)
        turn.facts.append(QueueCreated(turn.now, command.queue, command.domain))
        return queue

    def _reading(
        self, session: SessionId, queue_id: QueueId, app_id: AppId
    ) -> tuple[SharedQueue, App]:
        queue = self.queues.get(queue_id)
        app = queue.apps.get(app_id) if queue is not None else None
        if queue is None or app is None or session not in app.consumers:
            raise NoSuchQueue(queue_id)
        return queue, app

    def _subscribe(
        self,
        queue: SharedQueue,
        app: App,
        session: SessionId,
        subscriptions: tuple[Subscription, ...] | None,
        interests: tuple[Interest, ...],
        turn: Turn,
    ) -> None:
        """Replace a session's subscriptions. What was accepted before is delivered under the
        old ones first, as if commands were carried out one by one."""
        self._offers.make(turn)
        app.subscribe(session, subscriptions, interests, turn.undo)
        self._offers.touch(queue, app)

    def _leave(
        self,
        session: SessionId,
        queue_id: QueueId,
        app_id: AppId,
        still_open: bool,
        *,
        lost: bool,
        turn: Turn,
    ) -> None:
        """A session gives up an app of a queue; others get what it did not confirm."""
        queue = self.queues[queue_id]
        if not still_open:
            turn.undo.discard(queue.producers, session)
        app = queue.apps.get(app_id)
        if app is None or session not in app.consumers:
            return
        self._subscribe(queue, app, session, None, (), turn)
        turn.facts.append(Unsubscribed(turn.now, queue_id, app_id, session))
        returned = [s for s, held in app.outstanding.items() if held.session == session]
        for seq in returned:
            self._offers.take_back(queue, app, seq, turn)
            entry = queue.entries[seq]
            turn.facts.append(Returned(turn.now, queue_id, app_id, entry.id, session, lost))
            turn.undo.add(app.returned, seq)
            if lost:
                self._blame(queue, app, entry, turn)
        app.look_again((s for s in returned if s in queue.entries), turn.undo)
        if not app.consumers and app.id not in queue.domain.apps:
            turn.undo.pop(queue.apps, app.id)

    def _blame(self, queue: SharedQueue, app: App, entry: Entry, turn: Turn) -> None:
        """A consumer was lost with this message in its hands; it may have been the cause."""
        attempts = app.attempts.get(entry.seq, 0) + 1
        turn.undo.put(app.attempts, entry.seq, attempts)
        most = queue.domain.max_delivery_attempts
        if most and attempts >= most:
            turn.facts.append(Poisoned(turn.now, queue.id, app.id, entry.id, attempts))
            self._dereference(queue, entry, app, turn)

    # Letting go of messages.

    def _dereference(self, queue: SharedQueue, entry: Entry, app: App, turn: Turn) -> None:
        """An app is done with a message; the last one deletes it."""
        apps = tuple(name for name in entry.apps if name != app.id)
        app.forget(entry.seq, turn.undo)
        if not apps:
            self._delete(queue, entry, turn)
            return
        kept = Entry(entry.seq, entry.id, entry.arrived, entry.size, entry.properties, apps)
        turn.undo.put(queue.entries, entry.seq, kept)
        turn.batch.hold[entry.seq] = apps

    def _delete(self, queue: SharedQueue, entry: Entry, turn: Turn) -> None:
        queue.remove(entry, turn.undo)
        turn.batch.hold.pop(entry.seq, None)
        turn.batch.delete.add(entry.seq)
        at = queue.remembered.get(entry.id)
        seconds = queue.domain.deduplication_time
        if at is not None and seconds and turn.now - at <= seconds:
            turn.batch.remember.setdefault(queue.id, {})[entry.id] = at
        judge(queue, turn)

    def _drop_app(self, queue: SharedQueue, app: App, turn: Turn) -> None:
        """The domain no longer has this app. Its consumers stay, and receive nothing."""
        for entry in [e for e in queue.entries.values() if app.id in e.apps]:
            if entry.seq in app.outstanding:
                self._offers.take_back(queue, app, entry.seq, turn)
            self._dereference(queue, entry, app, turn)
        app.prune(queue.entries, turn.undo)

    def _expire(self, queue: SharedQueue, most: int, turn: Turn) -> int:
        """Remove what is older than the domain allows, delivered or not, oldest first."""
        ttl = queue.domain.message_ttl
        if ttl is None:
            return 0
        expired = 0
        for entry in list(islice(queue.entries.values(), most)):
            if turn.now - entry.arrived <= ttl:
                break
            for name in entry.apps:
                app = queue.apps[name]
                if entry.seq in app.outstanding:
                    self._offers.take_back(queue, app, entry.seq, turn)
                app.forget(entry.seq, turn.undo)
            self._delete(queue, entry, turn)
            turn.facts.append(Expired(turn.now, queue.id, entry.id, turn.now - entry.arrived))
            expired += 1
        if expired:
            for app in queue.apps.values():
                app.prune(queue.entries, turn.undo)
        return expired

    # Watching.

    def _look_for_stuck(self, queue: SharedQueue, app: App, turn: Turn) -> None:
        oldest = app.oldest()
        if oldest is None or oldest not in queue.entries:
            if app.stuck:
                self._offers.unstick(queue, app, turn)
            return
        if app.stuck:
            return
        idle = turn.now - max(app.moved, queue.entries[oldest].arrived)
        if idle > queue.domain.max_idle_time:
            turn.undo.assign(app, "stuck", True)
            turn.facts.append(QueueStuck(turn.now, queue.id, app.id, idle, queue.detail()))


def wanting(domain: Domain, properties: Properties) -> tuple[AppId, ...]:
    """The apps of a domain that want a message."""
    if not domain.filters:
        return domain.apps
    return tuple(app for app in domain.apps if domain.wants(app, properties))


def _check_one_more(name: str, limit: int, members: set[SessionId], session: SessionId) -> None:
    if limit and session not in members and len(members) >= limit:
        raise LimitReached(name, limit)

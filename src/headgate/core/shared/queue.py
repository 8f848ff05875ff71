"""A shared queue in memory: its entries, its apps, and its limits.

Of an open queue all but the bodies is in memory, bounded by the quota of its domain; a body that is
not in the cache is read from the store for its delivery.
"""

from __future__ import annotations

from headgate.core.model.domain import Domain
from headgate.core.model.ids import AppId, MessageId, QueueId, Seq, SessionId
from headgate.core.model.message import Arrival, MessageEntry, Properties
from headgate.core.model.stream_id import StreamId, stream_id
from headgate.core.shared.app import App
from headgate.core.shared.kept import KeptMessages
from headgate.core.shared.quota import Meter
from headgate.core.shared.remembered_ids import RememberedIds
from headgate.core.turn.store_requests import Usage
from headgate.core.turn.undo import Undo
from headgate.expr.predicate import Predicate


class OpenGroup:
    """An app that a client made for one queue."""

    __slots__ = ("predicate", "used")

    def __init__(self, predicate: Predicate | None, now: float) -> None:
        self.predicate = predicate
        self.used = now
        """When it was last read."""

    def wants(self, properties: Properties) -> bool:
        return self.predicate is None or self.predicate.matches(properties)


class DomainState:
    """A domain, and the totals of its queues."""

    __slots__ = ("domain", "members", "meter", "queues")

    def __init__(self, domain: Domain, usage: Usage) -> None:
        self.domain = domain
        self.members: dict[QueueId, SharedQueue] = {}
        """Its queues in memory."""
        self.queues = usage.queues
        """Number of its queues, in memory or not."""
        self.meter = Meter("domain", usage.messages, usage.bytes)

    def has_room(self, size: int) -> bool:
        """Whether the domain as a whole has room for one more message of this size."""
        domain = self.domain
        return self.meter.has_room(size, domain.domain_max_messages, domain.domain_max_bytes)


class SharedQueue:
    """A shared queue in memory: its messages without their bodies, its apps, and its producers.

    Owned by the shared queues of the shard. Every entry has at least one app that is not done with
    it, a message of the history has none; the meter counts exactly both.
    """

    __slots__ = (
        "added",
        "apps",
        "by_id",
        "entries",
        "id",
        "joined",
        "kept",
        "latest",
        "meter",
        "newest",
        "opens",
        "producers",
        "remembered",
        "state",
        "used",
    )

    def __init__(self, id: QueueId, state: DomainState, now: float) -> None:
        self.id = id
        self.state = state
        self.apps: dict[AppId, App] = {app: App(app, now) for app in state.domain.apps}
        self.entries: dict[Seq, MessageEntry] = {}
        """In order of arrival."""
        self.by_id: dict[MessageId, Seq] = {}
        self.kept = KeptMessages()
        """The history: messages that all apps have confirmed, where the domain keeps them."""
        self.joined: dict[AppId, OpenGroup] = {}
        """Apps that clients made, beside those of the domain."""
        self.added = 0
        """Messages that came since it is in memory, with those that were there before."""
        self.remembered = RememberedIds()
        self.producers: set[SessionId] = set()
        self.opens = 0
        """Number of times that sessions have it open, each app counted."""
        self.used = now
        """When it was last opened or closed."""
        self.meter = Meter("queue")
        self.latest = 0.0
        """Arrival of the last message. No later one has an earlier time."""
        self.newest = Seq(0)
        """The number of the last message."""

    @property
    def domain(self) -> Domain:
        return self.state.domain

    @property
    def last_id(self) -> StreamId:
        """The id of the last message, as far as known."""
        return stream_id(self.latest, self.newest)

    def has_app(self, app: AppId) -> bool:
        return app in self.state.domain.apps or app in self.joined

    def app_ids(self) -> tuple[AppId, ...]:
        """Its apps: those of its domain and those that clients made."""
        apps = self.state.domain.apps
        return (*apps, *self.joined) if self.joined else apps

    def deadline(self) -> float | None:
        """When the first message expires."""
        ttl = self.domain.message_ttl
        if ttl is None or not self.entries:
            return None
        return next(iter(self.entries.values())).arrived + ttl

    def is_overdue(self, now: float) -> bool:
        """Whether the first message has expired."""
        ttl = self.domain.message_ttl
        if ttl is None or not self.entries:
            return False
        return now - next(iter(self.entries.values())).arrived > ttl

    def has_room(self, size: int) -> bool:
        """Whether the queue and its domain have room for one more message of this size."""
        state = self.state
        domain = state.domain
        return self.meter.has_room(
            size, domain.max_messages, domain.max_bytes
        ) and state.meter.has_room(size, domain.domain_max_messages, domain.domain_max_bytes)

    def check_room(self, size: int) -> None:
        """Raise if there is no room, naming the limit."""
        domain = self.domain
        self.meter.check(size, domain.max_messages, domain.max_bytes)
        # BMQ-83: all queues of a domain share its limit.
        self.state.meter.check(size, domain.domain_max_messages, domain.domain_max_bytes)

    def readers(self) -> set[SessionId]:
        """The sessions that have it open for reading."""
        # Numbers below zero are readers with a name, which have no session of their own.
        return {s for app in self.apps.values() for s in app.consumers if s > 0}

    def add(self, entry: MessageEntry, undo: Undo) -> None:
        """Add an entry to the queue, its meter and the line of each of its apps."""
        seq = entry.seq
        self.entries[seq] = entry
        self.by_id[entry.id] = seq
        self.latest = entry.arrived  # not undone: later arrivals may get a later time than needed
        self.newest = seq
        self.added += 1
        # S003-17, BMQ-85: it counts until it is removed, matched or not.
        self.meter.count(1, entry.size)
        for app in entry.apps:
            # BMQ-73: in line in each app, with or without consumers.
            self.apps[app].fresh.append(seq)
        undo.note(self._take_out, entry)

    def _take_out(self, entry: MessageEntry) -> None:
        """Undo an `add`: the entry is the last of the queue and of each line."""
        del self.entries[entry.seq], self.by_id[entry.id]
        self.added -= 1
        self.meter.count(-1, -entry.size)
        for app in entry.apps:
            self.apps[app].fresh.pop()

    def add_kept(self, entry: MessageEntry, undo: Undo | None) -> None:
        """Add a message that no app wants, or all have confirmed, to the history and the meter."""
        self.kept.add(entry.seq, entry.arrived, entry.size, undo)
        self.latest = max(self.latest, entry.arrived)
        self.newest = max(self.newest, entry.seq)
        self._count_kept(entry, 1)
        if undo is not None:
            undo.note(self._count_kept, entry, -1)

    def _count_kept(self, entry: MessageEntry, messages: int) -> None:
        self.added += messages
        self.meter.count(messages, messages * entry.size)

    def keep(self, entry: MessageEntry, undo: Undo) -> None:
        """Turn an entry into history."""
        undo.sort_after(self.entries)
        undo.pop(self.entries, entry.seq)
        undo.pop(self.by_id, entry.id)
        self.kept.add(entry.seq, entry.arrived, entry.size, undo)

    def revive(self, entry: MessageEntry, undo: Undo) -> None:
        """Give a message of the history an app again. The entries have to be sorted then."""
        place = self.kept.find(stream_id(entry.arrived, entry.seq))
        assert place is not None, "only what is kept is revived"
        self.kept.remove(place, undo)
        undo.put(self.entries, entry.seq, entry)
        undo.put(self.by_id, entry.id, entry.seq)

    def sort(self) -> None:
        """Sort the entries by arrival, after some were revived."""
        items = sorted(self.entries.items())
        self.entries.clear()
        self.entries.update(items)

    def remove(self, entry: MessageEntry, undo: Undo) -> None:
        undo.sort_after(self.entries)
        del self.entries[entry.seq], self.by_id[entry.id]
        size = entry.size
        for meter in (self.meter, self.state.meter):
            meter.messages -= 1
            meter.bytes -= size
        undo.note(self._put_back, entry)

    def _put_back(self, entry: MessageEntry) -> None:
        """Undo a `remove`."""
        self.entries[entry.seq] = entry
        self.by_id[entry.id] = entry.seq
        self.meter.count(1, entry.size)
        self.state.meter.count(1, entry.size)

    def remembers(self, message: MessageId, now: float) -> bool:
        """Whether the id is that of a message that is here, or was lately."""
        if message in self.by_id:
            return True
        seconds = self.state.domain.deduplication_time
        return self.remembered.find(message, now, seconds) is not None

    def find_repeated(self, message: MessageId, now: float) -> Arrival | None:
        """The message of an id, if it is here or was lately."""
        seq = self.by_id.get(message)
        if seq is not None:
            return Arrival(self.entries[seq].arrived, seq)
        return self.remembered.find(message, now, self.domain.deduplication_time)

    def detail(self) -> str:
        """The places of its undelivered messages, for the operator who gets the alarm."""
        lines = []
        for app in self.apps.values():
            name = app.id or "the only app"
            # BMQ-90: the alarm lists the expressions, and the messages that wait or came back.
            texts = sorted({sub.text or "everything" for sub in app.subscriptions()})
            lines.append(
                f"{name}: {app.in_line()} in line,"
                f" {app.put_aside()} put aside, {len(app.redelivery.returned)} to be redelivered,"
                f" {len(app.outstanding)} unconfirmed; subscriptions:"
                f" {', '.join(texts[:10]) or 'none'}"
            )
            if app.put_aside() and (oldest := app.oldest()) is not None:
                names = ", ".join(sorted(self.entries[oldest].properties)[:10])
                lines.append(
                    f"oldest put aside: {self.entries[oldest].id.hex()} with properties"
                    f" {names or 'none'}"
                )
        return "; ".join(lines)

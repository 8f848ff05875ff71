"""A shared queue in memory: its entries, its apps, and how much it may hold.

Of a queue that somebody has open everything but the bodies is in memory, bounded by the
quota of its domain; bodies are read from the store when they are delivered and not in the
cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum
from operator import itemgetter

from headgate.core.apps import App
from headgate.core.domain import Domain
from headgate.core.message import Entry, Known
from headgate.core.names import AppId, MessageId, QueueId, Seq, SessionId
from headgate.core.steps import Usage
from headgate.core.undo import Undo
from headgate.errors import QuotaReached

OUTDATED_SHARE = 0.1
"""Of the time for which ids are remembered: what is older than that by so much leaves the store."""

METERED = ("messages", "bytes")

HIGH_MARK = 0.8
"""The share of a quota from which on it is called high."""


class Capacity(Enum):
    NORMAL = "normal"
    HIGH = "high"
    FULL = "full"


class Meter:
    """How much something holds, against what it may hold."""

    __slots__ = ("bytes", "capacity", "messages", "scope")

    def __init__(self, scope: str, messages: int = 0, bytes: int = 0) -> None:
        self.scope = scope
        self.messages = messages
        self.bytes = bytes
        self.capacity = Capacity.NORMAL

    def check(self, size: int, messages_max: int | None, bytes_max: int | None) -> None:
        """Raise unless there is room for one more message of this size."""
        if messages_max is not None and self.messages >= messages_max:
            raise QuotaReached(self.scope, "messages", messages_max)
        if bytes_max is not None and self.bytes + size > bytes_max:
            raise QuotaReached(self.scope, "bytes", bytes_max)

    def change(self, messages: int, bytes: int, undo: Undo) -> None:
        undo.keep(self, METERED)
        self.messages += messages
        self.bytes += bytes

    def judge(self, messages_max: int | None, bytes_max: int | None) -> Capacity:
        share = max(_share(self.messages, messages_max), _share(self.bytes, bytes_max))
        if share >= 1:
            return Capacity.FULL
        return Capacity.HIGH if share >= HIGH_MARK else Capacity.NORMAL


def _share(amount: int, limit: int | None) -> float:
    if limit is None:
        return 0.0
    return amount / limit if limit else 1.0


class DomainState:
    """A domain, and what its queues hold in all."""

    __slots__ = ("domain", "meter", "queues")

    def __init__(self, domain: Domain, usage: Usage) -> None:
        self.domain = domain
        self.queues = usage.queues
        self.meter = Meter("domain", usage.messages, usage.bytes)


class SharedQueue:
    __slots__ = (
        "apps",
        "by_id",
        "entries",
        "id",
        "kept",
        "meter",
        "producers",
        "remembered",
        "state",
    )

    def __init__(self, id: QueueId, state: DomainState, now: float) -> None:
        self.id = id
        self.state = state
        self.apps: dict[AppId, App] = {app: App(app, now) for app in state.domain.apps}
        self.entries: dict[Seq, Entry] = {}
        """In order of arrival."""
        self.by_id: dict[MessageId, Seq] = {}
        self.remembered: OrderedDict[MessageId, float] = OrderedDict()
        """Ids of accepted messages and when, oldest first, to recognise a repeated one. The first
        of a plain dictionary is behind everything that was deleted before it."""
        self.kept: tuple[float, float] | None = None
        """Since when, and until when, messages were accepted whose ids the store remembers. It
        has those that are no longer there; the others have their ids with them."""
        self.producers: set[SessionId] = set()
        self.meter = Meter("queue")

    @property
    def domain(self) -> Domain:
        return self.state.domain

    def readers(self) -> set[SessionId]:
        return {session for app in self.apps.values() for session in app.consumers}

    def add(self, entry: Entry, undo: Undo) -> None:
        """An entry of the queue, counted, and in line in each of its apps."""
        undo.put(self.entries, entry.seq, entry)
        undo.put(self.by_id, entry.id, entry.seq)
        self.meter.change(1, entry.size, undo)
        for app in entry.apps:
            fresh = self.apps[app].fresh
            fresh.append(entry.seq)
            undo.note(fresh.pop)

    def remove(self, entry: Entry, undo: Undo) -> None:
        undo.pop_in_order(self.entries, entry.seq)
        undo.pop(self.by_id, entry.id)
        self.meter.change(-1, -entry.size, undo)
        self.state.meter.change(-1, -entry.size, undo)

    def remembers(self, message: MessageId, now: float) -> bool:
        """Whether the id is that of a message that is here, or was lately."""
        if message in self.by_id:
            return True
        at = self.remembered.get(message)
        return at is not None and now - at <= self.domain.deduplication_time

    def forget_ids(self, now: float, keep: int | None = None) -> None:
        """Forget ids whose time is over, and the oldest beyond a bound. Not taken back: what is
        over stays over, and the bound is kept after a turn, not in it."""
        while self.remembered:
            oldest = next(iter(self.remembered))
            is_over = now - self.remembered[oldest] > self.domain.deduplication_time
            if not is_over and (keep is None or len(self.remembered) <= keep):
                return
            self.remembered.popitem(last=False)

    def remember(self, known: Known, entries: Iterable[Entry], keep: int) -> None:
        """Take what the store remembers, and the ids of what it has, the newest of all."""
        ids = {**known, **{entry.id: entry.arrived for entry in entries}}
        ordered = sorted(ids.items(), key=itemgetter(1))
        self.remembered = OrderedDict(ordered[max(0, len(ordered) - keep) :])

    def keep(self, known: Known) -> None:
        """The store remembers these as well."""
        times = [*known.values(), *(self.kept or ())]
        self.kept = min(times), max(times)

    def outdated(self, now: float) -> float | None:
        """Ids of before this time need no longer be in the store; none if there are few of them:
        to remove them costs a transaction."""
        if self.kept is None:
            return None
        oldest = next(iter(self.remembered.values()), now)
        end = max(oldest, now - self.domain.deduplication_time)
        few = max(0.0, now - end) * OUTDATED_SHARE
        return end if end - self.kept[0] > few else None

    def dropped(self, before: float) -> None:
        """The store no longer has ids of before this time."""
        assert self.kept is not None, "only what was kept is dropped"
        until = self.kept[1]
        self.kept = (before, until) if until >= before else None

    def detail(self) -> str:
        """Where the undelivered messages are, for whoever is called because of them."""
        lines = []
        for app in self.apps.values():
            name = app.id or "the only app"
            texts = sorted({sub.text or "everything" for sub in app.subscriptions()})
            lines.append(
                f"{name}: {app.in_line()} in line,"
                f" {app.put_aside()} put aside, {len(app.returned)} to be redelivered,"
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

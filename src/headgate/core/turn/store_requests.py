"""Requests of a turn to the store: load what is not in memory, then apply one batch.

A turn is a generator. It yields a `Load` or a `Batch` and is sent the answer, and does not know
where that comes from: a thread with SQLite, a dictionary, or a simulator that fails on purpose.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.core.commands import Command
from headgate.core.effects import Effect
from headgate.core.facts import Fact
from headgate.core.model.binding import Spoken
from headgate.core.model.ids import AppId, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Known, MessageEntry, Stored
from headgate.core.model.parties import Address, QueueRecord
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.core.turn.outbox import OutboxRow


@value
class ServiceRecord:
    """The identity of a service, kept from the first use of its certificate on."""

    service: ServiceId
    role: str


@value
class SinkRecord:
    """A stored sink: the last batch that it committed, and when."""

    batch: int
    at: float


@value
class GroupRecord:
    """A stored group that a client made."""

    where: str | None = None
    """The expression that selects its messages; none for all."""


Groups: TypeAlias = dict[AppId, GroupRecord]
"""The groups of one queue by name."""


@value
class Page:
    """A page of a service's queues by id, after one of them."""

    service: ServiceId
    after: QueueId
    limit: int


@value
class Aged:
    """A page of messages by number, after one of them, that arrived before a time."""

    after: Seq
    before: float
    limit: int


@value
class Overdue:
    """A page of messages by number, after one of them, that arrived before a time set for their
    domain. The messages of a queue are its first, up to one that came later."""

    domains: tuple[tuple[str, float], ...]
    after: Seq
    limit: int


@value
class Listing:
    """A page of a domain's queues by id, after one of them."""

    domain: str
    after: QueueId
    limit: int


@dataclass(slots=True)
class Load:
    """The reads of a turn: all that it needs before it decides."""

    heads: dict[QueueId, int] = field(default_factory=dict)
    """Queues whose record, number of messages and so many first messages are needed."""

    addresses: dict[Address, int] = field(default_factory=dict)
    """The same for queues named by another id than their own."""

    backlogs: set[QueueId] = field(default_factory=set)
    """Queues whose record, entries and remembered ids are needed, all of them."""

    bodies: set[Seq] = field(default_factory=set)
    """Messages whose bodies are needed."""

    entries: set[Seq] = field(default_factory=set)
    """Messages that are needed without body and apps."""

    services: set[ServiceId] = field(default_factory=set)
    """Services whose tallies are needed."""

    pages: set[Page] = field(default_factory=set)
    """Pages of a service's queues, with the first message of each."""

    usage: set[str] = field(default_factory=set)
    """Domains whose messages and bytes are to be summed."""

    identities: set[bytes] = field(default_factory=set)
    """Fingerprints of certificates whose services are needed."""

    aged: Aged | None = None
    """Pages of messages that may be too old."""

    overdue: Overdue | None = None
    """Pages of messages that are too old."""

    listings: set[Listing] = field(default_factory=set)
    """Pages of a domain's queues, with the contents of each counted."""

    sinks: bool = False
    """Whether all sinks are needed. Asked once, at the start: they are few, and stay in memory."""

    def __bool__(self) -> bool:
        return bool(
            self.heads
            or self.addresses
            or self.backlogs
            or self.bodies
            or self.entries
            or self.services
            or self.pages
            or self.usage
            or self.identities
            or self.aged
            or self.overdue
            or self.listings
            or self.sinks
        )


@value
class Usage:
    """The messages and bytes that the queues of a domain hold in all."""

    queues: int = 0
    messages: int = 0
    bytes: int = 0


@value
class Head:
    """A queue and its first messages, if it has any."""

    record: QueueRecord
    messages: int
    """Number of messages in the queue."""
    first: tuple[Stored, ...]


@value
class Past:
    """An old message, without its body."""

    seq: Seq
    queue: QueueId
    domain: str
    id: MessageId
    arrived: float
    is_marker: bool


@value
class Dated:
    """A message that is too old, without body and properties."""

    seq: Seq
    queue: QueueId
    domain: str
    id: MessageId
    arrived: float
    size: int
    is_kept: bool = False
    """Whether all apps have confirmed it, so that it is only history."""


@value
class Listed:
    """A queue of a domain, and its contents in numbers."""

    queue: QueueId
    messages: int
    bytes: int
    is_whole: bool | None
    """Whether its first unconfirmed message is for the one app of a queue without named apps; false
    if it is for named apps, None if there is no such message."""
    groups: int = 0
    """Groups that clients made."""


@value
class Swept:
    """The queues of a page, and those of them that have messages."""

    queues: list[QueueId] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    """With at most one message each."""


@dataclass(slots=True)
class Loaded:
    """The answer to a `Load`. A queue that is missing from it does not exist."""

    heads: dict[QueueId, Head] = field(default_factory=dict)
    """Heads asked for by `addresses` are included."""
    addresses: dict[Address, QueueId] = field(default_factory=dict)
    unreadable: set[QueueId] = field(default_factory=set)
    """Queues whose record or first message is damaged."""
    backlogs: dict[QueueId, tuple[QueueRecord, list[MessageEntry]]] = field(default_factory=dict)
    remembered: dict[QueueId, Known] = field(default_factory=dict)
    """The remembered ids of those of `backlogs` that have any, in no order."""
    groups: dict[QueueId, Groups] = field(default_factory=dict)
    """The groups of those of `backlogs` that have any."""
    bodies: dict[Seq, bytes] = field(default_factory=dict)
    entries: dict[Seq, MessageEntry] = field(default_factory=dict)
    """Without apps, even if the message has some."""
    services: dict[ServiceId, Tally] = field(default_factory=dict)
    pages: dict[Page, Swept] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    identities: dict[bytes, ServiceRecord] = field(default_factory=dict)
    aged: list[Past] = field(default_factory=list)
    overdue: list[Dated] = field(default_factory=list)
    listings: dict[Listing, list[Listed]] = field(default_factory=dict)
    sinks: dict[str, SinkRecord] = field(default_factory=dict)


@dataclass(slots=True)
class Batch:
    """The changes of a turn, applied all or none, in this order."""

    remove: set[QueueId] = field(default_factory=set)
    """Queues to remove with all their contents. First, so that the same turn may make a queue
    anew."""
    create: dict[QueueId, QueueRecord] = field(default_factory=dict)
    amend: dict[QueueId, QueueRecord] = field(default_factory=dict)
    """Records that replace stored ones; the queue and its domain stay."""
    append: dict[Seq, Stored] = field(default_factory=dict)
    hold: dict[Seq, tuple[AppId, ...]] = field(default_factory=dict)
    """The apps that still have to confirm a message, where that has changed. None are left of a
    message kept as history."""
    delete: set[Seq] = field(default_factory=set)
    forget: dict[QueueId, float] = field(default_factory=dict)
    """Remembered ids to remove, if their messages were accepted before this time. Ids of one batch
    go together, with the newest."""
    remember: dict[QueueId, Known] = field(default_factory=dict)
    """Ids of removed messages to remember, to recognise a repeated one."""
    groups: dict[tuple[QueueId, AppId], GroupRecord | None] = field(default_factory=dict)
    """Groups that clients made, new or changed; None for a removed one."""
    associate: dict[QueueId, ServiceId | None] = field(default_factory=dict)
    tallies: dict[ServiceId, Tally] = field(default_factory=dict)
    """Changes to the tally of each service: counts add up and may be negative, hashes XOR. So a
    turn need not know the tally of the service that a queue was taken from."""

    identities: dict[bytes, ServiceRecord] = field(default_factory=dict)
    """New services, by the fingerprint of their certificate."""

    sinks: dict[str, SinkRecord | None] = field(default_factory=dict)
    """The last batches of sinks; None for a removed sink."""

    outbox: OutboxRow | None = None
    """The facts of the turn, for the journal."""
    sealed: int | None = None
    """Facts up to this number are in a segment, and are removed from the outbox."""

    def __bool__(self) -> bool:
        return bool(
            self.outbox is not None
            or self.sealed is not None
            or self.remove
            or self.create
            or self.amend
            or self.append
            or self.hold
            or self.delete
            or self.forget
            or self.remember
            or self.groups
            or self.associate
            or self.tallies
            or self.identities
            or self.sinks
        )


class Breath:
    """A pause without a request: so much was done in a row that others should get a turn. The shell
    has the clock, and decides."""


BREATH = Breath()


@dataclass(slots=True)
class TurnOutcome:
    """The outcome of a turn: that it happened, or why not."""

    effects: list[Effect]
    facts: list[Fact]
    again: list[Command]
    """Commands to put back at the end of the inbox."""
    spoken: list[Spoken] = field(default_factory=list)
    """Messages to publish on channels, in the order of the queues."""
    mistake: Exception | None = None
    """An error raised after the turn was committed. The turn stands all the same."""


Parts: TypeAlias = Generator["Load | None", "Loaded", None]
"""A command carried out in parts. In between it may yield a `Load`, and is sent the answer."""

Step: TypeAlias = Generator[Load | Batch | Breath, Loaded | None, TurnOutcome]

"""How a turn asks the store: load what is not in memory, then apply one batch.

A turn is a generator. It yields a `Load` or a `Batch` and is sent the answer, and never
learns who answered: a thread with SQLite, a dictionary, or a simulator that fails on purpose.
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
    """An identity: what a certificate is called from its first use on."""

    service: ServiceId
    role: str


@value
class SinkRecord:
    """A sink as it is stored: the last batch that it landed, and when."""

    batch: int
    at: float


@value
class GroupRecord:
    """A group that a client made, as it is stored."""

    where: str | None = None
    """The expression of what it wants; none for everything."""


Groups: TypeAlias = dict[AppId, GroupRecord]
"""Those of one queue, by their names."""


@value
class Page:
    """A service's queues in the order of their ids, after one of them."""

    service: ServiceId
    after: QueueId
    limit: int


@value
class Aged:
    """Messages in the order of their numbers, after one of them, that arrived before a time."""

    after: Seq
    before: float
    limit: int


@value
class Overdue:
    """Messages of domains in the order of their numbers, after one of them, that arrived before a
    time of their domain. Of a queue they are the first, up to one that came later."""

    domains: tuple[tuple[str, float], ...]
    after: Seq
    limit: int


@value
class Listing:
    """A domain's queues in the order of their ids, after one of them."""

    domain: str
    after: QueueId
    limit: int


@dataclass(slots=True)
class Load:
    """The reads of a turn: all that it needs to know before it decides."""

    heads: dict[QueueId, int] = field(default_factory=dict)
    """Record, number of messages and so many first messages of these queues."""

    addresses: dict[Address, int] = field(default_factory=dict)
    """The same of queues that are named by another id than their own."""

    backlogs: set[QueueId] = field(default_factory=set)
    """Record, all entries and all remembered ids of these queues."""

    bodies: set[Seq] = field(default_factory=set)
    """Bodies of these messages."""

    entries: set[Seq] = field(default_factory=set)
    """All of these messages but their bodies and apps."""

    services: set[ServiceId] = field(default_factory=set)
    """Tallies of these services."""

    pages: set[Page] = field(default_factory=set)
    """Queues of a service, with the first message of each."""

    usage: set[str] = field(default_factory=set)
    """How much these domains hold."""

    identities: set[bytes] = field(default_factory=set)
    """The services of these certificates, by fingerprint."""

    aged: Aged | None = None
    """Messages that may be too old."""

    overdue: Overdue | None = None
    """Messages that are too old."""

    listings: set[Listing] = field(default_factory=set)
    """Queues of a domain, with what each holds."""

    sinks: bool = False
    """All sinks. Asked once, when a router starts: they are few, and stay in memory."""

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
    """A queue that has messages, or none."""

    record: QueueRecord
    messages: int
    """How many the queue has in all."""
    first: tuple[Stored, ...]


@value
class Past:
    """A message of long ago, without its body."""

    seq: Seq
    queue: QueueId
    domain: str
    id: MessageId
    arrived: float
    is_marker: bool


@value
class Dated:
    """A message that is too old, without its body and properties."""

    seq: Seq
    queue: QueueId
    domain: str
    id: MessageId
    arrived: float
    size: int
    is_kept: bool = False
    """Every app has confirmed it; it is history."""


@value
class Listed:
    """A queue of a domain, and what it holds."""

    queue: QueueId
    messages: int
    bytes: int
    is_whole: bool | None
    """Whether its first message that some app has not confirmed is for the one app of a queue
    without apps, or for apps with a name; none if it has no such message."""
    groups: int = 0
    """Groups that clients made."""


@value
class Swept:
    """The queues of a page, and those among them that have messages."""

    queues: list[QueueId] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    """At most one message each."""


@dataclass(slots=True)
class Loaded:
    """The answer to a `Load`. A queue that is absent does not exist."""

    heads: dict[QueueId, Head] = field(default_factory=dict)
    """Those of `addresses` included."""
    addresses: dict[Address, QueueId] = field(default_factory=dict)
    unreadable: set[QueueId] = field(default_factory=set)
    """Queues that were asked for, and have a record or a first message that is damaged."""
    backlogs: dict[QueueId, tuple[QueueRecord, list[MessageEntry]]] = field(default_factory=dict)
    remembered: dict[QueueId, Known] = field(default_factory=dict)
    """The ids that those of `backlogs` remember that do, in any order."""
    groups: dict[QueueId, Groups] = field(default_factory=dict)
    """The groups of those of `backlogs` that have any."""
    bodies: dict[Seq, bytes] = field(default_factory=dict)
    entries: dict[Seq, MessageEntry] = field(default_factory=dict)
    """Without any apps, whatever the message has."""
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
    """The changes of a turn, all of them or none, in this order."""

    remove: set[QueueId] = field(default_factory=set)
    """Queues that the store has, with all that is in them. First, so that a queue may be made
    anew in the same turn."""
    create: dict[QueueId, QueueRecord] = field(default_factory=dict)
    amend: dict[QueueId, QueueRecord] = field(default_factory=dict)
    """Records that take the place of those the store has; the queue and its domain stay."""
    append: dict[Seq, Stored] = field(default_factory=dict)
    hold: dict[Seq, tuple[AppId, ...]] = field(default_factory=dict)
    """The apps that are left of messages that some have confirmed, or another one wants. None are
    left of one that is kept as history."""
    delete: set[Seq] = field(default_factory=set)
    forget: dict[QueueId, float] = field(default_factory=dict)
    """Ids that are remembered, if their messages were accepted before this time. What came with
    one batch goes together, with the newest."""
    remember: dict[QueueId, Known] = field(default_factory=dict)
    """Ids of messages that are no longer there, to recognise a repeated one."""
    groups: dict[tuple[QueueId, AppId], GroupRecord | None] = field(default_factory=dict)
    """Groups that clients made, or made anew; none for one that is gone."""
    associate: dict[QueueId, ServiceId | None] = field(default_factory=dict)
    tallies: dict[ServiceId, Tally] = field(default_factory=dict)
    """What to join to the tally of each service: counts add up and may be negative, hashes
    XOR. So a turn need not know the tally of the service that a queue was taken from."""

    identities: dict[bytes, ServiceRecord] = field(default_factory=dict)
    """New services, by the fingerprint of their certificate."""

    sinks: dict[str, SinkRecord | None] = field(default_factory=dict)
    """The last batches of sinks; none for one that is forgotten."""

    outbox: OutboxRow | None = None
    """The facts of the turn, for the journal."""
    sealed: int | None = None
    """Facts up to this number are in a segment, and leave the outbox."""

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
    """Asks nothing of the store: so much was done in a row that others should have their turn. The
    shell has the clock, and decides."""


BREATH = Breath()


@dataclass(slots=True)
class TurnOutcome:
    """The outcome of a turn: it happened, or why not."""

    effects: list[Effect]
    facts: list[Fact]
    again: list[Command]
    """Commands that the core puts back at the end of the inbox."""
    spoken: list[Spoken] = field(default_factory=list)
    """What is to be heard on channels, in the order of the queues."""
    mistake: Exception | None = None
    """What went wrong after the turn was committed. It has happened all the same."""


Parts: TypeAlias = Generator["Load | None", "Loaded", None]
"""A command that is carried out a part at a time. In between it may have something read, and is
sent the answer."""

Step: TypeAlias = Generator[Load | Batch | Breath, Loaded | None, TurnOutcome]

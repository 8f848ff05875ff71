"""Answers about domains, their queues and apps, and messages of them."""

from __future__ import annotations

from typing import Any

from headgate.server.desk.answers.base import Answer


class AppRow(Answer, frozen=True, kw_only=True):
    """An app of a shared queue, in short."""

    queue: str
    """``bmq://DOMAIN/NAME``."""
    domain: str
    name: str
    """Of the queue, in its domain."""
    app: str
    """Empty where the domain has no apps."""
    consumers: int
    subscriptions: int
    full: int
    """Of these, those whose window is full; of the first thousand."""
    in_line: int
    """Messages that nobody has looked at yet, or that are looked at again."""
    waiting: int
    """Messages that wait for consumers with a full window."""
    aside: int
    """Messages that no subscription matches."""
    unconfirmed: int
    growth_per_s: float
    """How many more, or fewer, were undelivered each second of the last half minute."""
    stuck: bool
    oldest_at: float | None
    """When the oldest undelivered message came."""


class DomainRow(Answer, frozen=True, kw_only=True):
    """A domain. Exclusive queues may be millions and are not counted: null in their domains."""

    domain: str
    mode: str
    apps: list[str]
    queues: int | None
    """In memory or not."""
    opened: int | None
    """Of these, those in memory."""
    messages: int | None
    bytes: int | None
    capacity: str | None
    """normal, high or full."""
    max_messages: int | None
    """Of one queue."""
    max_bytes: int | None
    domain_max_messages: int | None
    domain_max_bytes: int | None
    streams: list[str]
    """Keys of Redis clients that are its queues, as patterns."""
    groups: str
    """Whether clients may make groups of these: fixed or open."""
    feeds: list[str]
    """Channels that feed it, as patterns."""
    speaks: str
    """The channel on which its messages are published; empty for none."""


class DomainsAnswer(Answer, frozen=True, kw_only=True):
    """Domains, and the apps with most that is undelivered."""

    rows: list[DomainRow]
    total: int
    apps: list[AppRow]


class QueueRow(Answer, frozen=True, kw_only=True):
    """A shared queue that is in memory."""

    queue: str
    domain: str
    name: str
    messages: int
    bytes: int
    capacity: str
    consumers: int
    producers: int
    undelivered: int
    """In all of its apps."""


class DomainAnswer(Answer, frozen=True, kw_only=True):
    """One domain, with its queues in memory."""

    row: DomainRow
    rows: list[QueueRow]
    total: int


class StoredQueueRow(Answer, frozen=True, kw_only=True):
    """A shared queue, open or not."""

    queue: str
    domain: str
    messages: int
    bytes: int
    consumers: int
    producers: int


class StoredQueuesAnswer(Answer, frozen=True, kw_only=True):
    """Queues of a domain in the order of their names."""

    rows: list[StoredQueueRow]
    next: str | None
    """What `after` is for those that follow; null if these are the last."""


class Undecided(Answer, frozen=True, kw_only=True):
    """Of how many messages an expression had no value, and why; of those it was sampled on."""

    sampled: int
    name: int
    type: int
    arithmetic: int


class GroupRow(Answer, frozen=True, kw_only=True):
    """The subscriptions of an app that have one expression."""

    expression: str | None
    priority: int
    consumers: int
    matched: int
    missed: int
    undecided: Undecided
    reason: str
    """What it has most often instead of a value, as `explain` says it; empty if it always has
    one."""
    advice: str
    """What `expr check` warns of, where it has no value."""
    in_flight: int
    in_flight_bytes: int
    waiting: int
    window: int | None
    """Messages that its subscriptions may have unconfirmed together; null where named consumers
    take what they ask for."""


class AppAnswer(Answer, frozen=True, kw_only=True):
    """An app of a shared queue."""

    app: str
    consumers: int
    subscriptions: int
    in_line: int
    waiting: int
    aside: int
    unconfirmed: int
    to_redeliver: int
    held_until: float | None
    stuck: bool
    growth_per_s: float
    oldest_at: float | None
    counts: dict[str, int]
    """What happened to its messages since the router started."""
    looked_at: int
    filters: list[str]
    """Expressions of the domain, of which one must be true for the app to get a message."""
    expressions: int
    """How many groups there are."""
    groups: list[GroupRow]
    """The hundred that matched most, by priority."""
    is_known: bool
    """Whether the domain has it; if not, whoever reads it gets nothing."""
    reason: str
    """Why nothing comes, if the domain does not have it."""


class SharedQueueAnswer(Answer, frozen=True, kw_only=True):
    """A shared queue with its apps."""

    queue: str
    domain: str
    name: str
    mode: str
    opened: bool
    """Whether it is in memory; if not, nobody has opened it since the router started."""
    messages: int
    bytes: int
    capacity: str
    max_messages: int | None
    max_bytes: int | None
    producers: int
    counts: dict[str, int]
    apps: list[AppAnswer]


class MessageRow(Answer, frozen=True, kw_only=True):
    """A message, without its body."""

    at: float
    message: str
    """Its id, in hex."""
    size: int
    properties: dict[str, Any]
    """Bytes are written as {"hex": "00ff"}."""
    truncated: bool = False
    """Whether properties were left out: the first twenty are shown, and 200 characters of each."""


class RecentAnswer(Answer, frozen=True, kw_only=True):
    """Messages that came lately, the newest first."""

    rows: list[MessageRow]
    kept: int
    """How many the router keeps of this domain now."""


class AsideReason(Answer, frozen=True, kw_only=True):
    """Why messages that were put aside do not match a group."""

    expression: str | None
    priority: int
    false: int
    name: int
    type: int
    arithmetic: int
    reason: str
    """Why it has no value for most of these, as `explain` says it; empty if it has one for
    all."""
    advice: str
    """What `expr check` warns of, where it has no value."""


class AsideAnswer(Answer, frozen=True, kw_only=True):
    """Messages that an app put aside, the oldest first, and why no group matches these."""

    rows: list[MessageRow]
    total: int
    why: list[AsideReason]

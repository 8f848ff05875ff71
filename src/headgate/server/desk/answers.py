"""The answers of the API, version 1. The texts here are those of ``docs/reference/openapi.json``.

Times are seconds since 1970, durations seconds, sizes bytes, and rates by the second. What peers
chose is cut and without control characters: it is text, and nothing else.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Level = Literal["error", "warning"]
FactLevel = Literal["debug", "info", "warning", "error"]
PressureName = Literal["easy", "soft", "hard"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Whatever is answered."""


class Problem(Answer, frozen=True, kw_only=True):
    """Why a request was refused."""

    error: str
    """What is wrong, for people."""
    code: str
    """The same for programs: one word."""
    hint: str = ""
    """What to do next."""


# The live stream.


class Point(Answer, frozen=True, kw_only=True):
    """The numbers of one second. Every one of them is a series."""

    published: float = 0.0
    """Messages published to channels, by the second."""
    fanned_out: float = 0.0
    """Receivers of these, by the second."""
    turns: float = 0.0
    """Turns taken, by the second."""
    statements: float = 0.0
    """Statements that the store was asked, by the second."""
    accepted: float = 0.0
    """Messages that queues took, by the second."""
    delivered: float = 0.0
    """Deliveries of queues, by the second."""
    confirmed: float = 0.0
    """Confirms, by the second."""
    put_aside: float = 0.0
    """Messages that nobody wanted, by the second."""
    returned: float = 0.0
    """Messages that consumers gave back, by the second."""
    opened: float = 0.0
    """Sessions that began, by the second."""
    closed: float = 0.0
    """Sessions that ended, by the second."""
    refused: float = 0.0
    """Commands that were refused, by the second."""
    sessions: float = 0.0
    """Sessions that are open."""
    sessions_slow: float = 0.0
    """Sessions over the soft limit of a mailbox."""
    publishers_waiting: float = 0.0
    """Sessions that wait for one that hears them and does not read."""
    backlog_messages: float = 0.0
    """Messages of shared queues that are not confirmed."""
    backlog_bytes: float = 0.0
    """Their bytes."""
    deliveries_unconfirmed: float = 0.0
    """Deliveries that wait for their confirm."""
    oldest_unconfirmed_seconds: float = 0.0
    """Age of the oldest of exclusive queues."""
    mailbox_bytes: float = 0.0
    """Bytes in the mailboxes of all sessions."""
    journal_lag: float = 0.0
    """Facts committed and not sealed."""
    outbox_bytes: float = 0.0
    """Their bytes, about."""
    inbox_commands: float = 0.0
    """Commands that wait for their turn."""
    channels: float = 0.0
    """Channels with a subscriber."""
    patterns: float = 0.0
    """Distinct patterns with a subscriber."""
    queues_subscribed: float = 0.0
    """Exclusive queues with a subscriber."""
    services_subscribed: float = 0.0
    """Services with a subscriber."""
    notices_waiting: float = 0.0
    """Notices that wait for their notifier."""
    confirm_p50: float = 0.0
    """Half of the confirms of this second took no longer, about."""
    confirm_p99: float = 0.0
    """99 of 100 confirms of this second took no longer, about."""
    turn_seconds: float = 0.0
    """How long a turn took, on average."""
    busy: float = 0.0
    """The part of the second in which a turn was under way, from 0 to 1."""
    loop_lag: float = 0.0
    """How late the event loop was to take this sample, in seconds."""
    memory: float = 0.0
    """Bytes of memory that the process has."""
    cpu: float = 0.0
    """The part of a core that the process took; above 1 with threads."""
    sample_seconds: float = 0.0
    """How long it took to make the sample before this one."""


class Sentence(Answer, frozen=True, kw_only=True):
    """Something that somebody should look at."""

    level: Level
    title: str
    text: str
    since: float
    """When it began."""
    link: str
    """Where on the page it can be seen: what follows the #."""
    command: str
    """What shows the same in a terminal."""
    kind: str
    """Which rule it is of."""
    key: str
    """What it is about; with `kind` it is the same sentence as before."""


class Blocker(Answer, frozen=True, kw_only=True):
    """A session that another one waits for."""

    session: int
    name: str


class SessionRow(Answer, frozen=True, kw_only=True):
    """A session."""

    session: int
    wire: str
    name: str
    """What it calls itself, or else its agent or its address."""
    peer: str
    """Its address; empty where the wire does not keep it."""
    agent: str
    """The library or program that it says it is."""
    user: str
    """Whom it has shown to be."""
    opened: float
    mailbox_bytes: int
    mailbox_hard: int
    """Above it those who publish to the session wait."""
    pressure: PressureName
    slow_since: float | None
    waits_for: Blocker | None
    """Whom it waits for, if it publishes to somebody who does not read."""
    held_up: int
    """How many wait for it."""
    subscriptions: int
    """Channels and patterns."""
    queues: int
    """Queues, exclusive and shared."""
    in_per_s: float
    """Bytes read from its socket, by the second, since this was last asked, or else since it
    came."""
    out_per_s: float
    """Bytes written to it, in the same time."""
    unconfirmed: int
    """Deliveries of queues that it has not confirmed."""
    oldest_unconfirmed: float | None
    """When the oldest of these was made."""
    idle: float
    """Seconds since it last sent anything."""


class ClosedRow(Answer, frozen=True, kw_only=True):
    """A session that ended."""

    session: int
    wire: str
    name: str
    reason: str
    at: float


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


class ChannelRow(Answer, frozen=True, kw_only=True):
    """A channel, in the last ten seconds that were counted."""

    channel: str
    kind: Literal["exact", "sharded", "other"]
    """``other`` is all that is not counted apart."""
    rate: float
    bytes_per_s: float
    receivers: int
    """The most that a message had."""
    deliveries_per_s: float
    patterns_hearing: list[str]
    """At most ten."""


class Tick(Answer, frozen=True, kw_only=True):
    """What the live stream has every second, under the event ``tick``. It is the same for all."""

    at: float
    point: Point
    attention: list[Sentence]
    slow: list[SessionRow]
    """The eight sessions that need attention most."""
    apps: list[AppRow]
    """The eight apps with most that is undelivered."""
    top: list[ChannelRow]
    """The eight busiest channels."""
    closed: list[ClosedRow]
    """The six that ended last."""
    uptime: float
    version: str
    store: str
    """The kind of the store."""
    stage: str
    """What the router does if it does not serve: starting, draining, stopping."""
    journal: bool
    viewers: int


class FactRow(Answer, frozen=True, kw_only=True):
    """Something that happened."""

    id: int
    at: float
    kind: str
    level: FactLevel
    fields: dict[str, Any]


# Lists.


class AttentionAnswer(Answer, frozen=True, kw_only=True):
    """What needs attention, worst first, as of the last sample."""

    at: float
    rows: list[Sentence]


class SessionsAnswer(Answer, frozen=True, kw_only=True):
    """Some sessions."""

    rows: list[SessionRow]
    total: int
    """How many there are of what was asked for."""
    wires: dict[str, int]
    """How many of each wire there are in all."""
    closed: list[ClosedRow]
    """The twenty that ended last."""


class SessionSubscription(Answer, frozen=True, kw_only=True):
    """One subscription of a session to an app of a shared queue."""

    queue: str
    app: str
    expression: str | None
    priority: int
    window: int
    window_bytes: int | None
    unconfirmed: int
    full: bool


class SessionAnswer(Answer, frozen=True, kw_only=True):
    """One session, with what it holds."""

    row: SessionRow
    channels: list[str]
    """A hundred at most, as of all lists here."""
    channels_total: int
    patterns: list[str]
    patterns_total: int
    queues: list[str]
    """Exclusive queues by the digest of their ids, shared ones by name."""
    queues_total: int
    subscriptions: list[SessionSubscription]
    waited_for_by: list[Blocker]
    """Who waits for it."""
    facts: list[FactRow]
    """The last fifty that name it, of those that are kept."""


class DomainRow(Answer, frozen=True, kw_only=True):
    """A domain."""

    domain: str
    mode: str
    apps: list[str]
    queues: int
    """Shared queues, in memory or not."""
    opened: int
    """Of these, those in memory."""
    messages: int
    bytes: int
    capacity: str
    """normal, high or full."""
    max_messages: int | None
    """Of one queue."""
    max_bytes: int | None
    domain_max_messages: int | None
    domain_max_bytes: int | None


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
    in_flight: int
    in_flight_bytes: int
    waiting: int
    window: int
    """Messages that its subscriptions may have unconfirmed together."""


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


class AsideAnswer(Answer, frozen=True, kw_only=True):
    """Messages that an app put aside, the oldest first, and why no group matches these."""

    rows: list[MessageRow]
    total: int
    why: list[AsideReason]


class FactsAnswer(Answer, frozen=True, kw_only=True):
    """Facts that are worth a line, the newest first."""

    rows: list[FactRow]
    last: int
    """The id of the last one that was kept, for `after`."""
    skipped: int
    """How many were not kept because there were more than a hundred in a second."""


class SettingRow(Answer, frozen=True, kw_only=True):
    """A key of the configuration."""

    key: str
    value: str | None
    """As TOML; null if it is not set. Secrets are not shown."""
    origin: str
    """Where it comes from: the default, the file, a variable."""
    default: str | None
    meaning: str
    reloadable: bool
    """Whether SIGHUP takes it over."""
    changed: bool
    """Whether it comes from anywhere but the defaults."""


class Build(Answer, frozen=True, kw_only=True):
    """What is running."""

    version: str
    python: str
    platform: str
    extras: list[str]
    """Optional packages that are installed."""
    process: int
    """The number of the process."""
    descriptors: int
    """File descriptors that it may have open."""


class SettingsAnswer(Answer, frozen=True, kw_only=True):
    """The configuration in effect, changed keys first."""

    rows: list[SettingRow]
    warnings: list[str]
    after_restart: list[str]
    """Keys whose values, since a reload, wait for a restart."""
    source: str | None
    """The file."""
    build: Build


class JournalAnswer(Answer, frozen=True, kw_only=True):
    """The journal on disk."""

    enabled: bool
    directory: str | None
    sealed: int
    lag: int
    outbox_bytes: int
    segments: int
    bytes: int
    max_bytes: int | None
    keep: float | None
    """Seconds; null is for ever."""
    oldest_at: float | None
    """When the oldest segment was written."""
    sealed_per_s: float
    """In the last minute."""
    sealer_starts: int
    problem: str | None


class PipelineAnswer(Answer, frozen=True, kw_only=True):
    """How far the tables of the pipeline are, as `headgate pipeline status` has it."""

    known: bool = False
    tables: str | None = None
    facts_in_journal: int = 0
    facts_in_tables: int = 0
    lag_facts: int = 0
    lag_seconds: float = 0.0
    batch: int | None = None
    """The last one with facts in it."""
    batch_seconds: float | None = None
    """How long the latest batches took: the median, and the most."""
    batch_seconds_max: float | None = None
    batch_facts: float | None = None
    segments_corrupt: int = 0
    at: float | None = None
    """When this was looked at."""
    problem: str | None = None


class ChannelsAnswer(Answer, frozen=True, kw_only=True):
    """Channels that were published to in the last ten seconds."""

    rows: list[ChannelRow]
    total: int
    subscribed: int
    """Channels with a subscriber, heard or not."""
    counted: bool
    """Whether anything was published since the router started."""


class PatternRow(Answer, frozen=True, kw_only=True):
    """A pattern that somebody subscribed to."""

    pattern: str
    sessions: int
    matched_per_s: float
    """Messages of the counted channels that it matches."""


class PatternsAnswer(Answer, frozen=True, kw_only=True):
    """Patterns with their subscribers."""

    rows: list[PatternRow]
    total: int


class TailMessage(Answer, frozen=True, kw_only=True):
    """One message, under the event ``message`` of a tail."""

    at: float
    channel: str | None
    queue: str | None
    size: int
    properties: dict[str, Any]
    body: str | None
    """Cut at 2 KiB; only if `desk.bodies` is set and it was asked for."""


class TailSkipped(Answer, frozen=True, kw_only=True):
    """How many messages of the last second were not shown, under the event ``skipped``."""

    count: int


class ServiceRow(Answer, frozen=True, kw_only=True):
    """A service with a subscriber."""

    service: str
    """The beginning of its id, in hex."""
    role: str
    """Empty if it was first seen before this router started."""
    session: int
    queues_counted: int
    """By the router."""
    queues_expected: int | None = msgspec.field(name="queues_said")
    """By the service, when it subscribed; null if it did not say."""
    drift: str
    swept: int
    """Queues that the sweep is through with: none, or all of them when it has ended."""
    sweep_total: int
    sweep_started: float | None
    """When it subscribed as a whole."""
    sweep_ended: float | None


class ServicesAnswer(Answer, frozen=True, kw_only=True):
    """Services that are subscribed."""

    rows: list[ServiceRow]
    total: int
    queues_in_memory: int
    notices_waiting: int


class QueueAnswer(Answer, frozen=True, kw_only=True):
    """One queue by its name: a shared one by its address, an exclusive one by its id."""

    queue: str
    """Of an exclusive one the digest, as in the journal."""
    kind: Literal["exclusive", "shared"]
    domain: str
    service: str | None
    subscriber: Blocker | None
    backlog_messages: int
    backlog_bytes: int | None
    oldest_at: float | None
    unconfirmed: int
    notifier: bool
    """Whether somebody is to be told of its messages."""
    in_memory: bool


# The playground.


class TreePart(Answer, frozen=True, kw_only=True):
    """A part of an expression, and its value for some properties."""

    label: str
    kind: Literal["operator", "property", "literal"]
    value: str | None
    """Null if it was not reached."""
    parts: list[TreePart]


class Tried(Answer, frozen=True, kw_only=True):
    """What an expression says of recent messages."""

    true: int
    false: int
    name: int
    type: int
    arithmetic: int


class ImpactRow(Answer, frozen=True, kw_only=True):
    """Whose messages a new subscription would take."""

    count: int
    expression: str | None
    priority: int | None
    """Null if nobody gets these messages now."""
    shares: bool
    """The priority is the same: it would get its turn if the expression is the same too, and
    else what the other has no room for."""


class ExpressionAnswer(Answer, frozen=True, kw_only=True):
    """What an expression means, or why it is none."""

    ok: bool
    code: str = ""
    message: str = ""
    offset: int | None = None
    """Where it is wrong: characters before that place."""
    hint: str = ""
    tree: TreePart | None = None
    names: list[str] = []
    keys: list[str] | None = None
    """By which an index finds it; null if it has to be tried on every message."""
    warnings: list[str] = []
    result: str = ""
    """Its value for the properties that were given: true, false, NAME, TYPE or ARITHMETIC."""
    tried: Tried | None = None
    recent: int = 0
    """How many recent messages it was tried on."""
    samples: list[MessageRow] = []
    """Some that it is true for."""
    impact: list[ImpactRow] = []


class Moved(Answer, frozen=True, kw_only=True):
    """Messages that others would get."""

    count: int
    app: str
    before: str | None
    """The expression that takes them now; null if none does."""
    after: str | None
    sample: MessageRow


class CompareAnswer(Answer, frozen=True, kw_only=True):
    """What becomes of recent messages with one set of subscriptions, and with another."""

    recent: int
    unchanged: int
    moved: list[Moved]
    orphaned: int
    """Messages that somebody gets before and nobody after."""
    newly_matched: int
    """Messages that nobody gets before and somebody after."""


# Who asks, and what is done.


class MeAnswer(Answer, frozen=True, kw_only=True):
    """Who asks."""

    operator: bool
    """Whether actions may be asked for."""
    actions: bool
    """Whether there are any: an operator's token is configured."""
    bodies: bool
    """Whether a tail may show bodies."""
    version: str


class ActionAnswer(Answer, frozen=True, kw_only=True):
    """What an action did, or would do."""

    action: str
    target: str
    outcome: str
    count: int | None = None
    """Of what is counted: messages removed, deliveries that come back, sessions left."""
    oldest_at: float | None = None
    changed: list[str] = []
    after_restart: list[str] = []

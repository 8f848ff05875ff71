"""What happened: the vocabulary of journal, metrics and log. A docstring is the documentation.

Facts carry no secrets, and a body only where its domain says so. `at` is the time of the turn, in
seconds. Each class says whether it is rare, as what it is logged, and which metrics count it; the
outbox, the log, the metrics and the statistics of queues take it from there.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import AppId, MessageId, QueueId, ServiceId, SessionId
from headgate.core.model.message import Properties
from headgate.core.model.value import EMPTY

DISPLACEMENTS = FactCounter(
    "displacements", "Queues and services taken by a new session.", ("kind",)
)
REDELIVERIES = FactCounter(
    "redeliveries", "Deliveries of a message that a lost session had before."
)
SERVICE_DRIFT = FactCounter(
    "service_drift", "Services whose tally differed from the router's, and how.", ("kind",)
)
CONFIRM_SECONDS = FactCounter("confirm_seconds", "Time from a delivery to its confirm.")


@fact(FactCounter("starts", "Starts of the router in this process."), rare=False, log=None)
class RouterStarted:
    """The router began; all sessions of before are over, and their numbers are given again."""

    at: float
    version: str


@fact(FactCounter("sessions_opened", "Sessions that began.", ("wire",)), rare=True, log="debug")
class SessionOpened:
    """A session began."""

    at: float
    session: SessionId
    wire: str
    name: str


@fact(
    FactCounter(
        "sessions_closed",
        "Sessions that ended, and why.",
        ("wire", "reason"),
    ),
    rare=True,
    log="debug",
)
class SessionClosed:
    """A session ended, and why."""

    at: float
    session: SessionId
    wire: str
    name: str
    reason: str


@fact(
    FactCounter(
        "handshakes_failed",
        "Clients with whom TLS was not agreed on, and why.",
        ("wire", "reason"),
    ),
    rare=True,
    log=None,
)
class HandshakeFailed:
    """A client and the router did not agree on TLS: there was no session, and why."""

    at: float
    wire: str
    reason: str


@fact(FactCounter("queues_created", "Queues that were made."), rare=False, log=None)
class QueueCreated:
    """A queue was made."""

    at: float
    queue: QueueId
    domain: str


@fact(FactCounter("queues_deleted", "Queues that were removed."), rare=False, log=None)
class QueueDeleted:
    """A queue was removed with this many messages in it."""

    at: float
    queue: QueueId
    messages: int


@fact(FactCounter("queues_damaged", "Times a queue could not be read."), rare=True, log="error")
class QueueDamaged:
    """The store has a queue whose record or first message it cannot read."""

    at: float
    queue: QueueId


@fact(
    FactCounter(
        "queues_amended", "Changes of who may do what with a queue: keys, links, notifiers."
    ),
    rare=False,
    log=None,
)
class QueueAmended:
    """Who may do what with a queue was changed."""

    at: float
    queue: QueueId
    change: str


@fact(
    FactCounter("subscribed", "Sessions that became a subscriber of a queue."), rare=True, log=None
)
class Subscribed:
    """A session became a subscriber of a queue."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@fact(
    FactCounter(
        "interests_set", "Subscriptions of consumers, by expression, that came or were kept."
    ),
    rare=True,
    log=None,
)
class Interested:
    """A session has this subscription of an app of a queue from now on; what it had before is
    over. One fact for each, all with the same `at`; `places` says how many they are. A session
    that wants nothing for now has one with no places."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId
    place: int
    places: int
    expression: str | None
    priority: int


@fact(
    FactCounter("apps_unknown", "Sessions that read an app which the domain does not have."),
    rare=True,
    log="warning",
)
class AppUnknown:
    """A session reads an app that the domain does not have; until it has, nothing comes."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@fact(
    FactCounter(
        "apps_removed", "Times an app that its domain no longer has let go of a queue's messages."
    ),
    rare=False,
    log="warning",
)
class AppRemoved:
    """A domain no longer has this app, which let go of so many messages of a queue."""

    at: float
    queue: QueueId
    app: AppId
    messages: int


@fact(
    FactCounter("modes_kept", "Times a domain was to have another mode while the router ran."),
    rare=True,
    log="error",
)
class ModeKept:
    """A domain was to have another mode while the router runs, and has none of its new settings."""

    at: float
    domain: str
    reason: str


@fact(
    FactCounter("unsubscribed", "Sessions that ceased to be one of a queue."), rare=True, log=None
)
class Unsubscribed:
    """A session is no longer a subscriber of a queue."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@fact(DISPLACEMENTS, rare=True, log="info")
class Displaced:
    """A new session took over an exclusive queue."""

    at: float
    queue: QueueId
    session: SessionId
    by: SessionId


@fact(
    FactCounter("messages_received", "Messages of senders that the router has."),
    FactCounter("messages_received_bytes", "Bytes of the messages received.", adds="size"),
    rare=False,
    log=None,
    per_queue="accepted",
)
class Accepted:
    """The router has a message of a sender. Its properties are told for shared queues, its body
    only where the domain says so."""

    at: float
    queue: QueueId
    message: MessageId
    size: int
    properties: Properties = EMPTY
    body: bytes | None = None


@fact(
    FactCounter("requests_refused", "Requests that were refused, and why.", ("reason",)),
    rare=True,
    log=None,
    per_queue="refused",
)
class Refused:
    """A request was refused."""

    at: float
    queue: QueueId
    reason: str


@fact(
    FactCounter("messages_repeated", "Messages that came again with an id still remembered."),
    rare=False,
    log=None,
    per_queue="repeated",
)
class Repeated:
    """A message came again with an id that is still remembered; it was not stored again."""

    at: float
    queue: QueueId
    message: MessageId


@fact(
    FactCounter(
        "messages_auto_confirmed",
        "Messages confirmed for an app because none of its expressions is true.",
    ),
    rare=False,
    log=None,
    per_queue="auto_confirmed",
)
class AutoConfirmed:
    """A message was confirmed for an app because none of the app's expressions is true."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId


@fact(
    FactCounter("deliveries", "Messages handed to a session."),
    REDELIVERIES,
    rare=False,
    log=None,
    per_queue="delivered",
)
class Delivered:
    """A message was handed to a session."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    session: SessionId
    attempts: int


@fact(
    FactCounter("confirms", "Deliveries that a session is done with."),
    CONFIRM_SECONDS,
    rare=False,
    log=None,
    per_queue="confirmed",
)
class Confirmed:
    """A session is done with a message; it took `seconds` since the delivery, and `age` since
    the router had it."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    session: SessionId
    seconds: float
    age: float = 0.0


@fact(
    FactCounter(
        "messages_put_aside", "Messages that wait because no subscription could take them."
    ),
    rare=False,
    log=None,
    per_queue="put_aside",
)
class PutAside:
    """No subscription of the app is true for a message, or those that are have no room."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    matched: bool


@fact(
    FactCounter("broadcasts_missed", "Broadcasts that a session had no room for in its mailbox."),
    rare=True,
    log=None,
    per_queue="missed",
)
class Missed:
    """A broadcast did not reach a session, because its mailbox had no room."""

    at: float
    queue: QueueId
    message: MessageId
    session: SessionId


@fact(
    FactCounter(
        "deliveries_returned", "Deliveries not confirmed before their session closed or was lost."
    ),
    rare=False,
    log=None,
    per_queue="returned",
)
class Returned:
    """A delivery was not confirmed before its session closed the queue or was lost."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    session: SessionId
    lost: bool


@fact(
    FactCounter(
        "messages_poisoned", "Messages dropped for an app because sessions were lost with them."
    ),
    rare=False,
    log="warning",
    per_queue="poisoned",
)
class Poisoned:
    """A message was dropped for an app because too many sessions were lost with it."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    attempts: int


@fact(
    FactCounter("messages_expired", "Messages removed because their time was over."),
    rare=False,
    log=None,
    per_queue="expired",
)
class Expired:
    """A message was removed because its time was over."""

    at: float
    queue: QueueId
    message: MessageId
    seconds: float


@fact(
    FactCounter("messages_purged", "Messages removed because somebody asked for it."),
    rare=False,
    log=None,
    per_queue="purged",
)
class Purged:
    """A message was removed because somebody asked for an empty queue."""

    at: float
    queue: QueueId
    message: MessageId


@fact(
    FactCounter("queues_purged", "Queues that were emptied by an operator."),
    rare=False,
    log="warning",
)
class QueuePurged:
    """Somebody asked for an empty queue: so many messages were removed, and told one by one."""

    at: float
    queue: QueueId
    messages: int


@fact(FactCounter("watched", "Sessions that became the notifier of a queue."), rare=True, log=None)
class Watched:
    """A session is told of a queue's messages from now on. The queue is named by its notifier."""

    at: float
    queue: QueueId
    session: SessionId


@fact(DISPLACEMENTS, rare=True, log="info")
class WatcherDisplaced:
    """A new session is told of a queue's messages. The queue is named by its notifier."""

    at: float
    queue: QueueId
    session: SessionId
    by: SessionId


@fact(
    FactCounter("notices_sent", "Notices that notifiers were told.", adds="count"),
    rare=True,
    log=None,
)
class NoticesSent:
    """Notifiers were told of messages."""

    at: float
    count: int


@fact(
    FactCounter(
        "notices_dropped",
        "Notices that nobody took and that were given up: too old, or too many.",
        adds="count",
    ),
    rare=True,
    log="warning",
)
class NoticesDropped:
    """Notices that nobody took were given up: too old, or too many."""

    at: float
    count: int
    reason: str


@fact(
    FactCounter(
        "services_identified", "Certificates of services that were seen for the first time."
    ),
    rare=False,
    log="info",
)
class ServiceIdentified:
    """A certificate was seen for the first time, and has a service from now on."""

    at: float
    service: ServiceId
    role: str


@fact(
    FactCounter("service_subscriptions", "Sessions that became the subscriber of a service."),
    SERVICE_DRIFT,
    rare=False,
    log="info",
)
class ServiceSubscribed:
    """A session became the subscriber of a service; drift says how its tally differed."""

    at: float
    service: ServiceId
    session: SessionId
    count: int
    drift: str


@fact(DISPLACEMENTS, rare=False, log="info")
class ServiceDisplaced:
    """A new session took over a service with this many queues."""

    at: float
    service: ServiceId
    session: SessionId
    by: SessionId
    count: int


@fact(
    FactCounter("queues_associated", "Queues that became a service's, or nobody's."),
    rare=False,
    log=None,
)
class Associated:
    """A queue became a service's, or nobody's."""

    at: float
    queue: QueueId
    service: ServiceId | None


@fact(
    FactCounter("service_sweeps", "Services whose queues have all been looked at."),
    rare=False,
    log=None,
)
class SweepEnded:
    """A service's queues have all been looked at."""

    at: float
    service: ServiceId
    session: SessionId


@fact(
    FactCounter("limits_reached", "Bounds of the router that were reached.", ("name",)),
    rare=True,
    log="warning",
)
class LimitReached:
    """A bound of the router was reached."""

    at: float
    name: str
    limit: int
    session: SessionId


@fact(
    FactCounter(
        "capacity_changes",
        "Queues and domains that crossed a mark.",
        ("scope", "state"),
    ),
    rare=False,
    log="warning",
)
class CapacityChanged:
    """A queue or a domain crossed a mark on its way up or down: normal, high or full.

    `detail` says where the messages are: what was put aside and is being redelivered in each
    app, the expressions of its subscriptions, and the oldest message that was put aside.
    """

    at: float
    scope: str
    name: str
    state: str
    detail: str


@fact(
    FactCounter("queues_stuck", "Apps of queues that stopped making progress."),
    rare=False,
    log="warning",
)
class QueueStuck:
    """An app of a queue has undelivered messages and made no progress for `seconds`."""

    at: float
    queue: QueueId
    app: AppId
    seconds: float
    detail: str


@fact(
    FactCounter("queues_moved", "Stuck apps of queues that made progress again."),
    rare=False,
    log="info",
)
class QueueMoved:
    """A stuck app of a queue made progress again."""

    at: float
    queue: QueueId
    app: AppId


@fact(
    FactCounter("channel_counts", "Rows that count what was published on a channel in a second."),
    rare=False,
    log=None,
)
class ChannelCounted:
    """What was published on a channel in the second up to `at`. The busiest are told by name;
    `*other*` are the rest, and `channels` says how many they were."""

    at: float
    channel: bytes
    channels: int
    published: int
    size: int
    deliveries: int
    receivers_max: int


@fact(
    FactCounter("channel_subscriptions", "Subscriptions to channels and patterns."),
    rare=True,
    log=None,
)
class ChannelSubscribed:
    """A session subscribed to a channel or a pattern; `family` is exact, pattern or sharded."""

    at: float
    session: SessionId
    family: str
    channel: bytes


@fact(
    FactCounter(
        "channel_unsubscriptions", "Subscriptions to channels and patterns that ended by request."
    ),
    rare=True,
    log=None,
)
class ChannelUnsubscribed:
    """A session is no longer subscribed to a channel or a pattern."""

    at: float
    session: SessionId
    family: str
    channel: bytes


@fact(
    FactCounter("sessions_slowed", "Times a session's mailbox went over its soft limit."),
    rare=True,
    log="warning",
)
class SessionSlowed:
    """A session reads more slowly than it is sent to: its mailbox went over the soft limit."""

    at: float
    session: SessionId
    name: str
    size: int


@fact(FactCounter("sessions_eased", "Slow sessions that caught up."), rare=True, log="info")
class SessionEased:
    """A slow session caught up; it was slow for `seconds`."""

    at: float
    session: SessionId
    name: str
    seconds: float


@fact(
    FactCounter(
        "publisher_waits", "Times a session had to wait for one that hears it and does not read."
    ),
    rare=True,
    log=None,
)
class PublisherWaited:
    """A session that publishes has to wait for one that hears it and does not read."""

    at: float
    session: SessionId
    by: SessionId


@fact(FactCounter("sessions_evicted", "Slow sessions that were closed."), rare=True, log="warning")
class SessionEvicted:
    """A slow session was closed, with so many bytes in its mailbox."""

    at: float
    session: SessionId
    name: str
    reason: str
    size: int


@fact(
    FactCounter(
        "messages_discarded",
        "Messages of channels that slow or closed sessions did not get.",
        adds="count",
    ),
    rare=True,
    log="warning",
)
class MessagesDiscarded:
    """A slow session, or one that was closed, did not get so many messages."""

    at: float
    session: SessionId
    name: str
    count: int


@fact(
    FactCounter("slot_moves", "Times slots of the cluster went to another node."),
    rare=False,
    log="info",
)
class SlotsMoved:
    """So many slots of a cluster went to another node; so many channels lost their subscribers."""

    at: float
    slots: int
    channels: int


@fact(
    FactCounter("access_denials", "Commands that access rules did not allow."),
    rare=True,
    log="warning",
)
class AccessDenied:
    """A user asked for what its access rules do not allow."""

    at: float
    session: SessionId
    user: str
    command: str


@fact(
    FactCounter("authentications_failed", "Clients that did not show who they are.", ("wire",)),
    rare=True,
    log="warning",
)
class AuthenticationFailed:
    """Somebody did not show who it is: a wrong password or token, or none. The user is told only
    if there is such a user or client; what else was said is nobody's business. The name is the
    client's address."""

    at: float
    session: SessionId
    wire: str
    name: str
    user: str


@fact(
    FactCounter("facts_counted", "Floods of facts that were counted, not told."),
    rare=False,
    log=None,
)
class FactsCounted:
    """So many more facts of a kind came in one second than are told one by one."""

    at: float
    fact: str
    count: int


@fact(FactCounter("sink_batches", "Batches of sinks that were committed."), rare=False, log=None)
class SinkCommitted:
    """A batch of a sink, with so many messages, is in its queue or was published."""

    at: float
    sink: str
    batch: int
    messages: int


@fact(
    FactCounter("sinks_forgotten", "Sinks whose last batch was forgotten."), rare=False, log="info"
)
class SinkForgotten:
    """A sink was not used for long, or somebody asked: its last batch is no longer known."""

    at: float
    sink: str
    batch: int


@fact(
    FactCounter("journal_expirations", "Times old segments were removed."), rare=False, log="info"
)
class SegmentsExpired:
    """The oldest facts of the journal, up to this number, were removed to keep its bounds."""

    at: float
    last: int
    size: int


@fact(FactCounter("turn_failures", "Turns that the store refused."), rare=False, log="error")
class TurnFailed:
    """The store refused a turn; none of its commands happened."""

    at: float
    commands: int
    reason: str


@fact(
    FactCounter("admin_actions", "Actions of operators, and what became of them.", ("action",)),
    rare=False,
    log="warning",
)
class AdminActed:
    """An operator has the router do something. It is told before it is done, with the outcome
    "begun", and again when it is known what came of it."""

    at: float
    actor: str
    action: str
    target: str
    reason: str
    outcome: str


@fact(
    FactCounter("admin_refusals", "Wrong tokens at the login of the admin port."),
    rare=True,
    log="warning",
)
class AdminRefused:
    """Somebody at this address gave a wrong token to the login of the admin port."""

    at: float
    peer: str


Fact: TypeAlias = (
    RouterStarted
    | SessionOpened
    | SessionClosed
    | HandshakeFailed
    | QueueCreated
    | QueueDeleted
    | QueueDamaged
    | QueueAmended
    | Subscribed
    | Interested
    | AppUnknown
    | AppRemoved
    | ModeKept
    | Unsubscribed
    | Displaced
    | Accepted
    | Refused
    | Repeated
    | AutoConfirmed
    | Delivered
    | Confirmed
    | PutAside
    | Missed
    | Returned
    | Poisoned
    | Expired
    | Purged
    | QueuePurged
    | Watched
    | WatcherDisplaced
    | NoticesSent
    | NoticesDropped
    | ServiceIdentified
    | ServiceSubscribed
    | ServiceDisplaced
    | Associated
    | SweepEnded
    | LimitReached
    | CapacityChanged
    | QueueStuck
    | QueueMoved
    | ChannelCounted
    | ChannelSubscribed
    | ChannelUnsubscribed
    | SessionSlowed
    | SessionEased
    | PublisherWaited
    | SessionEvicted
    | MessagesDiscarded
    | SlotsMoved
    | AccessDenied
    | AuthenticationFailed
    | FactsCounted
    | SinkCommitted
    | SinkForgotten
    | SegmentsExpired
    | TurnFailed
    | AdminActed
    | AdminRefused
)

KINDS: tuple[type[Fact], ...] = get_args(Fact)

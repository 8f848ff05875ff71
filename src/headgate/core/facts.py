"""What happened: the vocabulary of journal, metrics and log. A docstring is the documentation.

Facts carry no bodies and no secrets. `at` is the time of the turn, in seconds.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

from headgate.core.message import Properties
from headgate.core.names import AppId, MessageId, QueueId, ServiceId, SessionId
from headgate.core.values import EMPTY, value


@value
class RouterStarted:
    """The router began; all sessions of before are over, and their numbers are given again."""

    at: float
    version: str


@value
class SessionOpened:
    """A session began."""

    at: float
    session: SessionId
    wire: str
    name: str


@value
class SessionClosed:
    """A session ended, and why."""

    at: float
    session: SessionId
    wire: str
    name: str
    reason: str


@value
class HandshakeFailed:
    """A client and the router did not agree on TLS: there was no session, and why."""

    at: float
    wire: str
    reason: str


@value
class QueueCreated:
    """A queue was made."""

    at: float
    queue: QueueId
    domain: str


@value
class QueueDeleted:
    """A queue was removed with this many messages in it."""

    at: float
    queue: QueueId
    messages: int


@value
class QueueDamaged:
    """The store has a queue whose record or first message it cannot read."""

    at: float
    queue: QueueId


@value
class QueueAmended:
    """Who may do what with a queue was changed."""

    at: float
    queue: QueueId
    change: str


@value
class Subscribed:
    """A session became a subscriber of a queue."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@value
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


@value
class AppUnknown:
    """A session reads an app that the domain does not have; until it has, nothing comes."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@value
class Unsubscribed:
    """A session is no longer a subscriber of a queue."""

    at: float
    queue: QueueId
    app: AppId
    session: SessionId


@value
class Displaced:
    """A new session took over an exclusive queue."""

    at: float
    queue: QueueId
    session: SessionId
    by: SessionId


@value
class Accepted:
    """The router has a message of a sender. Its properties are told for shared queues, its body
    only where the domain says so."""

    at: float
    queue: QueueId
    message: MessageId
    size: int
    properties: Properties = EMPTY
    body: bytes | None = None


@value
class Refused:
    """A request was refused."""

    at: float
    queue: QueueId
    reason: str


@value
class Repeated:
    """A message came again with an id that is still remembered; it was not stored again."""

    at: float
    queue: QueueId
    message: MessageId


@value
class AutoConfirmed:
    """A message was confirmed for an app because none of the app's expressions is true."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId


@value
class Delivered:
    """A message was handed to a session."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    session: SessionId
    attempts: int


@value
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


@value
class PutAside:
    """No subscription of the app is true for a message, or those that are have no room."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    matched: bool


@value
class Missed:
    """A broadcast did not reach a session, because its mailbox had no room."""

    at: float
    queue: QueueId
    message: MessageId
    session: SessionId


@value
class Returned:
    """A delivery was not confirmed before its session closed the queue or was lost."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    session: SessionId
    lost: bool


@value
class Poisoned:
    """A message was dropped for an app because too many sessions were lost with it."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    attempts: int


@value
class Expired:
    """A message was removed because its time was over."""

    at: float
    queue: QueueId
    message: MessageId
    seconds: float


@value
class Watched:
    """A session is told of a queue's messages from now on. The queue is named by its notifier."""

    at: float
    queue: QueueId
    session: SessionId


@value
class WatcherDisplaced:
    """A new session is told of a queue's messages. The queue is named by its notifier."""

    at: float
    queue: QueueId
    session: SessionId
    by: SessionId


@value
class NoticesSent:
    """Notifiers were told of messages."""

    at: float
    count: int


@value
class NoticesDropped:
    """Notices that nobody took were given up: too old, or too many."""

    at: float
    count: int
    reason: str


@value
class ServiceIdentified:
    """A certificate was seen for the first time, and has a service from now on."""

    at: float
    service: ServiceId
    role: str


@value
class ServiceSubscribed:
    """A session became the subscriber of a service; drift says how its tally differed."""

    at: float
    service: ServiceId
    session: SessionId
    count: int
    drift: str


@value
class ServiceDisplaced:
    """A new session took over a service with this many queues."""

    at: float
    service: ServiceId
    session: SessionId
    by: SessionId
    count: int


@value
class Associated:
    """A queue became a service's, or nobody's."""

    at: float
    queue: QueueId
    service: ServiceId | None


@value
class SweepEnded:
    """A service's queues have all been looked at."""

    at: float
    service: ServiceId
    session: SessionId


@value
class LimitReached:
    """A bound of the router was reached."""

    at: float
    name: str
    limit: int
    session: SessionId


@value
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


@value
class QueueStuck:
    """An app of a queue has undelivered messages and made no progress for `seconds`."""

    at: float
    queue: QueueId
    app: AppId
    seconds: float
    detail: str


@value
class QueueMoved:
    """A stuck app of a queue made progress again."""

    at: float
    queue: QueueId
    app: AppId


@value
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


@value
class ChannelSubscribed:
    """A session subscribed to a channel or a pattern; `family` is exact, pattern or sharded."""

    at: float
    session: SessionId
    family: str
    channel: bytes


@value
class ChannelUnsubscribed:
    """A session is no longer subscribed to a channel or a pattern."""

    at: float
    session: SessionId
    family: str
    channel: bytes


@value
class SessionSlowed:
    """A session reads more slowly than it is sent to: its mailbox went over the soft limit."""

    at: float
    session: SessionId
    name: str
    size: int


@value
class SessionEased:
    """A slow session caught up; it was slow for `seconds`."""

    at: float
    session: SessionId
    name: str
    seconds: float


@value
class PublisherWaited:
    """A session that publishes has to wait for one that hears it and does not read."""

    at: float
    session: SessionId
    by: SessionId


@value
class SessionEvicted:
    """A slow session was closed, with so many bytes in its mailbox."""

    at: float
    session: SessionId
    name: str
    reason: str
    size: int


@value
class MessagesDiscarded:
    """A slow session, or one that was closed, did not get so many messages."""

    at: float
    session: SessionId
    name: str
    count: int


@value
class SlotsMoved:
    """So many slots of a cluster went to another node; so many channels lost their subscribers."""

    at: float
    slots: int
    channels: int


@value
class AccessDenied:
    """A user asked for what its access rules do not allow."""

    at: float
    session: SessionId
    user: str
    command: str


@value
class FactsCounted:
    """So many more facts of a kind came in one second than are told one by one."""

    at: float
    fact: str
    count: int


@value
class SinkCommitted:
    """A batch of a sink, with so many messages, is in its queue or was published."""

    at: float
    sink: str
    batch: int
    messages: int


@value
class SinkForgotten:
    """A sink was not used for long, or somebody asked: its last batch is no longer known."""

    at: float
    sink: str
    batch: int


@value
class SegmentsExpired:
    """The oldest facts of the journal, up to this number, were removed to keep its bounds."""

    at: float
    last: int
    size: int


@value
class TurnFailed:
    """The store refused a turn; none of its commands happened."""

    at: float
    commands: int
    reason: str


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
    | FactsCounted
    | SinkCommitted
    | SinkForgotten
    | SegmentsExpired
    | TurnFailed
)

KINDS: tuple[type[Fact], ...] = get_args(Fact)

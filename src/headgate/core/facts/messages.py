"""Facts of messages of queues, from the sender to the confirm."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import AppId, MessageId, QueueId, SessionId
from headgate.core.model.message import Properties
from headgate.core.model.value import EMPTY

REDELIVERIES = FactCounter(
    "redeliveries", "Deliveries of a message that a lost session had before."
)
CONFIRM_SECONDS = FactCounter("confirm_seconds", "Time from a delivery to its confirm.")


@fact(
    FactCounter("messages_received", "Messages of senders that the router has."),
    FactCounter("messages_received_bytes", "Bytes of the messages received.", adds="size"),
    rare=False,
    log=None,
    per_queue="accepted",
)
class Accepted:
    """The router accepted a message of a sender. Properties are recorded for shared queues, the
    body only where the domain allows it."""

    at: float
    queue: QueueId
    message: MessageId
    size: int
    properties: Properties = EMPTY
    body: bytes | None = None


@fact(
    FactCounter(
        "bodies_unread",
        "Bodies that a domain's properties could not be read out of.",
        ("domain",),
        "bodies",
    ),
    FactCounter(
        "properties_unfit",
        "Values in bodies that are not of the type that the domain declares, or too long.",
        ("domain",),
        "unfit",
    ),
    rare=True,
    log=None,
)
class BodiesUnread:
    """In the last second: bodies of Redis clients from which the properties of the domain could not
    be read, and values in others of the wrong type. All were accepted without them."""

    at: float
    domain: str
    bodies: int
    unfit: int


@fact(
    FactCounter(
        "feeds_dropped",
        "Messages of a channel that a full domain went without.",
        ("domain",),
    ),
    rare=True,
    log=None,
)
class FeedDropped:
    """A message was published on a channel that feeds the domain, which was full and left it out:
    `when_full` is drop."""

    at: float
    queue: QueueId
    domain: str


@fact(
    FactCounter("messages_unspoken", "Messages without the property that names their channel."),
    rare=True,
    log=None,
)
class Unspoken:
    """A message of a domain that speaks was not published: it lacks a property in the channel's
    name, or that name is too long."""

    at: float
    queue: QueueId
    message: MessageId


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
    """A message was delivered to a session."""

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
    """A session confirmed a message, `seconds` after the delivery and `age` after the router
    accepted it."""

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
    """No subscription of the app matches a message, or those that match have no room."""

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
    """An unconfirmed delivery was taken back when its session closed the queue or was lost."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    session: SessionId
    lost: bool


@fact(
    FactCounter("messages_claimed", "Messages that a reader took over from another one."),
    rare=False,
    log=None,
    per_queue="claimed",
)
class Claimed:
    """A named consumer claimed a message from another one. Its `session` is below zero, as it has
    none of its own."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    session: SessionId


@fact(
    FactCounter(
        "messages_poisoned", "Messages dropped for an app because sessions were lost with them."
    ),
    rare=False,
    log="warning",
    per_queue="poisoned",
)
class Poisoned:
    """A message was removed from an app because too many sessions were lost with it."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    attempts: int


@fact(
    FactCounter("messages_dead", "Poisoned messages that became dead letters."),
    rare=False,
    log=None,
)
class DeadLettered:
    """A poisoned message of an app was moved to another queue."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    target: QueueId
    letter: MessageId
    """Its id in that queue."""


@fact(
    FactCounter(
        "dead_letters_refused", "Times a poisoned message found no room among the dead letters."
    ),
    rare=False,
    log="error",
)
class DeadLetterRefused:
    """A poisoned message could not become a dead letter, and stays in line."""

    at: float
    queue: QueueId
    app: AppId
    message: MessageId
    target: QueueId
    reason: str


@fact(
    FactCounter("messages_expired", "Messages removed because their time was over."),
    rare=False,
    log=None,
    per_queue="expired",
)
class Expired:
    """A message was removed because it was too old."""

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
    """A message was removed because an operator emptied the queue."""

    at: float
    queue: QueueId
    message: MessageId


MessageFact: TypeAlias = (
    Accepted
    | BodiesUnread
    | FeedDropped
    | Unspoken
    | Refused
    | Repeated
    | AutoConfirmed
    | Delivered
    | Confirmed
    | PutAside
    | Missed
    | Returned
    | Claimed
    | Poisoned
    | DeadLettered
    | DeadLetterRefused
    | Expired
    | Purged
)

"""Effects that a shell carries out for the core: replies, deliveries and events, each for one
session."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from headgate.core.model.ids import WHOLE, AppId, MessageId, QueueId, Ref, Seq, ServiceId, SessionId
from headgate.core.model.message import Message, Notice
from headgate.core.model.parties import Parties
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.core.reader_effects import ReaderEffect
from headgate.errors import HeadgateError


@value
class Done:
    """The request was carried out, without further results."""

    session: SessionId
    ref: Ref


@value
class Failed:
    """The request was refused, and left no trace."""

    session: SessionId
    ref: Ref
    error: HeadgateError


@value
class PurgeDone:
    """A queue was emptied of so many messages, and removed if requested."""

    session: SessionId
    ref: Ref
    queue: QueueId
    messages: int


@value
class Removed:
    """A shared queue that the session had open was removed; it is no longer open."""

    session: SessionId
    queue: QueueId


@value
class Granted:
    """The session is the subscriber of the queue, by itself or as its service."""

    session: SessionId
    ref: Ref
    queue: QueueId
    service: ServiceId | None = None


@value
class Receipt:
    """The router has the message; it survives a crash from here on."""

    session: SessionId
    ref: Ref
    queue: QueueId
    message: MessageId


@value
class Deliver:
    """One message handed to one subscription. `ref` is set if it answers a request."""

    session: SessionId
    queue: QueueId
    message: Message
    ref: Ref | None = None
    app: AppId = WHOLE
    interests: tuple[int, ...] = ()
    """The consumer's subscriptions that it is for, by their positions in its list."""
    attempts: int = 0
    """Number of consumers that were lost while they had this message."""
    parties: Parties | None = None
    """The parties of the queue: a wire that seals messages needs the secret."""
    seq: Seq = Seq(0)
    """The message's number in the shard, by which readers know it."""


@value
class Amended:
    """The queue was changed, or read: its parties now."""

    session: SessionId
    ref: Ref
    queue: QueueId
    parties: Parties


class Standing(Enum):
    """The relation of a session to a queue."""

    NONE = "none"
    SUBSCRIBED = "subscribed"
    GETTING = "getting"


@value
class Inspected:
    """The state of a queue, for its recipient."""

    session: SessionId
    ref: Ref
    queue: QueueId
    parties: Parties | None
    messages: int
    head: Message | None
    standing: Standing
    delivered: MessageId | None
    """The message that the session was given and has not confirmed."""


@value
class Watching:
    """The session gets notices of the queue from now on, by itself or as its service."""

    session: SessionId
    ref: Ref
    notifier: bytes
    service: ServiceId | None = None


@value
class Noticed:
    """There is a message in the queue."""

    session: SessionId
    notice: Notice


@value
class WatchEnd:
    """Another session gets notices of the queue now."""

    session: SessionId
    notifier: bytes


@value
class WatchDeleted:
    """The queue does not have this notifier any more."""

    session: SessionId
    notifier: bytes


@value
class Identified:
    """The session's identity."""

    session: SessionId
    ref: Ref
    service: ServiceId


@value
class End:
    """Another session is the subscriber of the queue now."""

    session: SessionId
    queue: QueueId


@value
class Deleted:
    """The queue was deleted by another session."""

    session: SessionId
    queue: QueueId


@value
class ServiceGranted:
    """The session is the subscriber of the service; the tally is the router's."""

    session: SessionId
    ref: Ref
    service: ServiceId
    tally: Tally


@value
class ServiceEnd:
    """Another session is the subscriber of the service now; the tally is of the queues lost."""

    session: SessionId
    service: ServiceId
    tally: Tally


@value
class Damaged:
    """The store cannot read a queue of the service; its messages were not delivered."""

    session: SessionId
    queue: QueueId


@value
class SweepDone:
    """All messages that waited when the service was subscribed have been delivered."""

    session: SessionId
    service: ServiceId


@value
class GoOn:
    """A session that waited to publish may try again."""

    session: SessionId


@value
class Revoked:
    """The session has a queue open that its client has lost the right to."""

    session: SessionId
    domain: str


Effect: TypeAlias = (
    Done
    | Failed
    | PurgeDone
    | Removed
    | Granted
    | Receipt
    | Deliver
    | Amended
    | Inspected
    | Watching
    | Noticed
    | WatchEnd
    | WatchDeleted
    | Identified
    | End
    | Deleted
    | ServiceGranted
    | ServiceEnd
    | Damaged
    | SweepDone
    | GoOn
    | Revoked
    | ReaderEffect
)


def ref_of(effect: object) -> Ref | None:
    """The request that an effect answers; None if the session did not ask for it."""
    return getattr(effect, "ref", None)

"""Commands for readers: named consumers that request messages.

A consumer of another wire has a session, and messages are pushed to it. A reader has a name; any
session may pull, confirm or claim by that name. `ref` comes back in the reply.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from headgate.core.model.ids import AppId, QueueId, Ref, SessionId
from headgate.core.model.interest import Compiled, Interest
from headgate.core.model.message import Message
from headgate.core.model.stream_id import StreamId
from headgate.core.model.value import value


@value
class TrimTo:
    """How far a history is trimmed. Messages that some app has not confirmed stay."""

    messages: int | None = None
    """Number of messages left, if none of the others has to stay."""
    before: StreamId | None = None
    """Messages older than this are removed."""
    most: int | None = None
    """Most messages to remove."""


@value
class Add:
    """Add a message to a shared queue, which the session need not have open."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    message: Message
    """Its time of arrival is set in its turn."""
    makes: bool = True
    """Whether the queue is made if it does not exist; otherwise nothing is added, and the answer
    says so."""
    client: str = ""
    trim: TrimTo | None = None
    """Trim the history after that."""


@value
class Want:
    """An app of a queue that a reader pulls from."""

    queue: QueueId
    domain: str
    app: AppId
    after: StreamId | None = None
    """Show again the messages that the reader holds after this id; None for new messages."""


@value
class Pull:
    """Pull messages for a reader: at most `count` of each queue, at least one if it `waits`."""

    session: SessionId
    ref: Ref
    wants: tuple[Want, ...]
    reader: bytes
    interest: Interest
    count: int | None = None
    waits: bool = False
    confirms: bool = False
    """Messages given are confirmed with it, in the same transaction; claimed ones are not."""
    claims: float | None = None
    """Seconds after which a message that a reader holds is claimed, before what is in line; none
    to claim nothing."""
    client: str = ""
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class View:
    """A queue to look at, and the place to begin."""

    queue: QueueId
    domain: str
    after: StreamId | None = None
    """Messages after this id; None for messages from now on."""


@value
class Browse:
    """Look at messages, confirmed or not: at most `count` of each queue, at least one if it
    `waits`. It changes nothing."""

    session: SessionId
    ref: Ref
    wants: tuple[View, ...]
    count: int | None = None
    waits: bool = False
    client: str = ""


@value
class Range:
    """Look at the messages of a queue between two ids, both included."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    first: StreamId
    last: StreamId
    count: int | None = None
    """None for all of them."""
    newest_first: bool = False
    client: str = ""


@value
class Trim:
    """Remove messages that every app has confirmed, oldest first."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    to: TrimTo
    client: str = ""
    removed: int = 0
    """Number removed in earlier turns."""


@value
class Withdraw:
    """End the wait of a `Pull` or a `Browse`. If it was given messages it is over already."""

    session: SessionId
    ref: Ref


@value
class Acknowledge:
    """Confirm messages for an app, whichever reader holds them, delivered or not."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    messages: tuple[StreamId, ...]
    client: str = ""


@value
class RemoveMessages:
    """Remove messages from every app, whichever consumer has them."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    messages: tuple[StreamId, ...]
    client: str = ""


@value
class TakeOver:
    """Hand messages of other readers over to one: the named messages, or those found."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    reader: bytes
    idle: float
    """Seconds for which they must have been held."""
    messages: tuple[StreamId, ...] | None = None
    """None to go through all held messages, from `start` on, and claim up to `count`."""
    start: StreamId = StreamId(0, 0)
    count: int = 100
    since: float | None = None
    """The new time of their delivery; None for now."""
    deliveries: int | None = None
    """The new number of their deliveries; None to count on."""
    forced: bool = False
    """Claim messages in line as well."""
    only_ids: bool = False
    """Whether only ids are wanted, so that it does not count as a delivery."""
    interest: Interest = Interest()
    """Claim only messages that match its expression."""
    client: str = ""
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class MakeReader:
    """Make a reader by its name, before its first pull."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    reader: bytes
    client: str = ""


@value
class DropReader:
    """Remove a reader. Its messages go back in line."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    reader: bytes
    client: str = ""


@value
class MakeGroup:
    """Make an app of one queue, where clients may."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    after: StreamId | None = None
    """It gets all later messages of the queue and its history; None for messages from now on."""
    makes: bool = False
    """Whether the queue is made if it does not exist."""
    where: str | None = None
    """The expression that selects its messages."""
    client: str = ""
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class DropGroup:
    """Remove an app that a client made, which drops all of its messages."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    client: str = ""


@value
class MoveGroup:
    """Move an app to an id: it is done with earlier messages, and gets later ones of the queue and
    its history. Held messages stay with their consumers."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    after: StreamId | None
    """None for the last message."""
    client: str = ""


@value
class MakeQueue:
    """Make a shared queue, if it does not exist."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    client: str = ""


@value
class Survey:
    """Describe the contents and the readers of a queue."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    client: str = ""
    shows: int = 0
    """Number of held messages to show of each app; and of the queue's messages, from the oldest, or
    the first and the last if it is 1."""
    apps: tuple[AppId, ...] | None = None
    """The apps to describe; None for all. The time grows with their messages and readers."""


@value
class ListPending:
    """List the messages that readers of an app hold, in order of arrival."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    first: StreamId
    last: StreamId
    count: int
    reader: bytes | None = None
    """Only those of this reader."""
    idle: float = 0.0
    """Only those held for so many seconds."""
    client: str = ""


@value
class FeedPart:
    """A queue for the messages of a channel."""

    queue: QueueId
    domain: str
    message: Message
    drops: bool = False
    """Whether a full queue is left out; otherwise the whole is refused, or waits."""
    waits: bool = False
    """Whether the whole waits for room in this queue."""


@value
class Feed:
    """Add a published message to the queues bound to its channel, all or none, then publish it."""

    session: SessionId
    ref: Ref
    channel: bytes
    body: bytes
    parts: tuple[FeedPart, ...]
    is_sharded: bool = False
    may_wait: bool = False
    """Whether it waits for room, if there is none."""
    since: float | None = None
    """When it began to wait."""


OfQueue: TypeAlias = (
    Add
    | Acknowledge
    | RemoveMessages
    | TakeOver
    | MakeReader
    | DropReader
    | MakeGroup
    | DropGroup
    | MoveGroup
    | Range
    | Trim
    | MakeQueue
    | Survey
    | ListPending
)
"""Commands that name one queue, which has to be in memory."""

OfApp: TypeAlias = (
    Acknowledge | TakeOver | MakeReader | DropReader | DropGroup | MoveGroup | ListPending
)
"""Commands that name an app of a queue."""

ReaderRequest: TypeAlias = Pull | Browse | Feed | OfQueue
ReaderCommand: TypeAlias = ReaderRequest | Withdraw


@value
class Block:
    """Commands carried out in one turn, without others in between."""

    commands: tuple[ReaderRequest, ...]

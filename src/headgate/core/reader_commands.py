"""Commands for readers: named consumers that fetch messages when they want some.

The consumer of another wire has a session, and messages are pushed to it. A reader has a name; any
session may fetch, confirm or claim by that name. `ref` comes back in the reply.
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
    """How far a history is trimmed. What some app has not confirmed is never trimmed."""

    messages: int | None = None
    """So many are left, if nothing that has to stay is among the others."""
    before: StreamId | None = None
    """What is older than this goes."""
    most: int | None = None
    """So many go at most."""


@value
class Add:
    """Put a message into a shared queue that the session need not have open."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    message: Message
    """It arrives when its turn comes, whatever it says."""
    makes: bool = True
    """Whether the queue is made if it is not there; else nothing is done, and that is told."""
    client: str = ""
    trim: TrimTo | None = None
    """Trim the history after that."""


@value
class Want:
    """An app of a queue that a reader fetches from."""

    queue: QueueId
    domain: str
    app: AppId
    after: StreamId | None = None
    """What the reader holds beyond this, once more; none for what is in line."""


@value
class Pull:
    """Fetch messages for a reader: at most `count` of each queue, at least one if it `waits`."""

    session: SessionId
    ref: Ref
    wants: tuple[Want, ...]
    reader: bytes
    interest: Interest
    count: int | None = None
    waits: bool = False
    confirms: bool = False
    """What is given is confirmed with it, in the same transaction; not what was claimed."""
    claims: float | None = None
    """Seconds after which a message that a reader holds is claimed, before what is in line; none
    to claim nothing."""
    client: str = ""
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class View:
    """A queue that is looked at, and from where on."""

    queue: QueueId
    domain: str
    after: StreamId | None = None
    """What came later than this; none for what comes from now on."""


@value
class Browse:
    """Look at messages, whoever has confirmed them: at most `count` of each queue, at least one if
    it `waits`. It changes nothing."""

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
    """Remove what every app has confirmed, oldest first."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    to: TrimTo
    client: str = ""
    removed: int = 0
    """In turns before."""


@value
class Withdraw:
    """Wait no longer for messages of a `Pull` or a `Browse`. One that was given some is over
    already."""

    session: SessionId
    ref: Ref


@value
class Acknowledge:
    """An app is done with messages, whoever holds them, and delivered or not."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    messages: tuple[StreamId, ...]
    client: str = ""


@value
class RemoveMessages:
    """Have messages gone for every app, whoever holds them."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    messages: tuple[StreamId, ...]
    client: str = ""


@value
class TakeOver:
    """Have messages that other readers hold handed over to one: these, or what is found."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    reader: bytes
    idle: float
    """Seconds for which they have been held at least."""
    messages: tuple[StreamId, ...] | None = None
    """None to go through all that are held, from `start` on, and take up to `count`."""
    start: StreamId = StreamId(0, 0)
    count: int = 100
    since: float | None = None
    """When they shall be taken to have been given; none for now."""
    deliveries: int | None = None
    """How often they shall be taken to have been given; none to count on."""
    forced: bool = False
    """Take what is in line as well."""
    only_ids: bool = False
    """The messages themselves are not wanted, and it does not count as a delivery."""
    interest: Interest = Interest()
    """Of what is found only that is taken which its expression is true for."""
    client: str = ""
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class MakeReader:
    """Have a reader known by its name, before it fetches anything."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    reader: bytes
    client: str = ""


@value
class DropReader:
    """Forget a reader. What it holds goes back in line."""

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
    """It gets what is there or kept that came later than this; none for what comes from now on."""
    makes: bool = False
    """Whether the queue is made if it is not there."""
    where: str | None = None
    """The expression of what it wants."""
    client: str = ""
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class DropGroup:
    """Have an app gone that a client made. It is done with all that it was to get."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    client: str = ""


@value
class MoveGroup:
    """Have an app go on after an id: it is done with what is before, and gets what is there or
    kept that came later. What somebody holds stays with who has it."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    after: StreamId | None
    """None for the last message there is."""
    client: str = ""


@value
class MakeQueue:
    """Make a shared queue, if it is not there."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    client: str = ""


@value
class Survey:
    """Ask what there is in a queue, and who reads it."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    client: str = ""
    shows: int = 0
    """So many messages that are held are told of each app; and so many of the queue, from the
    oldest, or the first and the last if it is 1."""
    apps: tuple[AppId, ...] | None = None
    """Those that are told of; all of them if it is nothing. It takes as long as they have messages
    and readers."""


@value
class ListPending:
    """Ask what readers of an app hold, in order of arrival."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId
    first: StreamId
    last: StreamId
    count: int
    reader: bytes | None = None
    """Only what this one holds."""
    idle: float = 0.0
    """Only what has been held for so many seconds."""
    client: str = ""


@value
class FeedPart:
    """A queue that takes what is published on a channel."""

    queue: QueueId
    domain: str
    message: Message
    drops: bool = False
    """Whether a full queue goes without; else the whole is refused, or waits."""
    waits: bool = False
    """Whether the whole waits for room in this queue."""


@value
class Feed:
    """Put what is published on a channel into the queues that it is bound to, all or none, and have
    the channel hear it then."""

    session: SessionId
    ref: Ref
    channel: bytes
    body: bytes
    parts: tuple[FeedPart, ...]
    is_sharded: bool = False
    may_wait: bool = False
    """Whether it is carried out when there is room, if there is none."""
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
"""Those that name one queue, which has to be in memory."""

OfApp: TypeAlias = (
    Acknowledge | TakeOver | MakeReader | DropReader | DropGroup | MoveGroup | ListPending
)
"""Those that name an app of it."""

ReaderRequest: TypeAlias = Pull | Browse | Feed | OfQueue
ReaderCommand: TypeAlias = ReaderRequest | Withdraw


@value
class Block:
    """Commands that are carried out in one turn, with nothing of others in between."""

    commands: tuple[ReaderRequest, ...]

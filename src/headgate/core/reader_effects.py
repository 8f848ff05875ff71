"""Effects for sessions that act for readers. Messages are `Deliver`s with the `ref` of the request,
before the effect that ends it."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.ids import AppId, QueueId, Ref, Seq, SessionId
from headgate.core.model.stream_id import FIRST, StreamId
from headgate.core.model.value import value


@value
class Added:
    """The router has the message, and it survives a crash from here on. Without an id there is no
    such queue, and none was to be made."""

    session: SessionId
    ref: Ref
    queue: QueueId
    id: StreamId | None


@value
class Fed:
    """A published message was added to so many domains, and survives a crash from here on."""

    session: SessionId
    ref: Ref
    taken: int


Past: TypeAlias = dict[tuple[QueueId, Seq], tuple[float, int]]
"""Of messages that a pull was given: the seconds for which a reader had held each, and how often it
was given to somebody before."""


@value
class Pulled:
    """The end of a `Pull`; its messages came before this."""

    session: SessionId
    ref: Ref
    past: Past | None = None
    """Of what it was given, if it claims."""


@value
class BrowseDone:
    """The end of a browse; its messages came before this."""

    session: SessionId
    ref: Ref


@value
class Counted:
    """The request was carried out for so many items."""

    session: SessionId
    ref: Ref
    count: int


@value
class ClaimDone:
    """The end of a claim; the messages to show came before this."""

    session: SessionId
    ref: Ref
    ids: tuple[StreamId, ...]
    next: StreamId
    """The id at which to go on; zeros at the end."""
    poisoned: tuple[StreamId, ...]
    """Messages without attempts left, which were removed."""


@value
class ReaderView:
    """A reader as others see it."""

    name: bytes
    pending: int
    idle: float
    """Seconds since its last pull."""
    pulled: float = 0.0
    """Time of its last pull."""
    active: float | None = None
    """Time at which it was last given messages, or claimed some."""
    held: tuple[PendingMessage, ...] = ()
    """The first messages that it holds, if requested."""


@value
class AppView:
    """An app as readers see it."""

    app: AppId
    readers: tuple[ReaderView, ...]
    others: tuple[tuple[SessionId, int], ...]
    """Sessions of other wires that hold messages, and how many."""
    pending: int
    first: StreamId | None
    """Id of the first held message."""
    last: StreamId | None
    undelivered: int
    passed: StreamId = FIRST
    """The last message handed out, or to which the app was moved."""
    held: tuple[PendingMessage, ...] = ()
    """The first held messages, if requested."""
    now: float = 0.0
    """The time of this view."""


@value
class Surveyed:
    """The contents of a queue: its first and last messages, its counts."""

    session: SessionId
    ref: Ref
    exists: bool
    messages: int = 0
    last: StreamId | None = None
    """Id of the last message that came, if any."""
    apps: tuple[AppView, ...] = ()
    added: int = 0
    """Number of messages that came, as far as known."""
    first: StreamId | None = None
    """Id of the oldest message."""
    groups: int = 0
    """Number of apps, described or not."""


@value
class PendingMessage:
    """A message that a consumer holds."""

    id: StreamId
    reader: bytes | None
    """None for a session of another wire."""
    session: SessionId
    idle: float
    deliveries: int


@value
class PendingListed:
    """Messages of an app that readers hold."""

    session: SessionId
    ref: Ref
    messages: tuple[PendingMessage, ...]


ReaderEffect: TypeAlias = (
    Added | Fed | Pulled | BrowseDone | Counted | ClaimDone | Surveyed | PendingListed
)

"""Effects for sessions that act for readers. Messages come as `Deliver`s with the `ref` of the
request, before the effect that ends it."""

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
    """A published message is in so many domains, and survives a crash from here on."""

    session: SessionId
    ref: Ref
    taken: int


Past: TypeAlias = dict[tuple[QueueId, Seq], tuple[float, int]]
"""Of messages that a pull was given: the seconds for which a reader had held each, and how often it
was given to somebody before."""


@value
class Pulled:
    """A `Pull` is over; what it was given came before this."""

    session: SessionId
    ref: Ref
    past: Past | None = None
    """Of what it was given, if it claims."""


@value
class BrowseDone:
    """The end of a browse: all that was looked at came before it."""

    session: SessionId
    ref: Ref


@value
class Counted:
    """The request was carried out, and came to so many."""

    session: SessionId
    ref: Ref
    count: int


@value
class ClaimDone:
    """Messages were handed over; those that were to be told came before this."""

    session: SessionId
    ref: Ref
    ids: tuple[StreamId, ...]
    next: StreamId
    """Where to go on; zeros at the end."""
    poisoned: tuple[StreamId, ...]
    """Those that had no attempts left, and are gone."""


@value
class ReaderView:
    """A reader as others see it."""

    name: bytes
    pending: int
    idle: float
    """Seconds since it last fetched."""
    pulled: float = 0.0
    """When that was."""
    held: tuple[PendingMessage, ...] = ()
    """The first that it holds, if they were asked for."""


@value
class AppView:
    """An app as readers see it."""

    app: AppId
    readers: tuple[ReaderView, ...]
    others: tuple[tuple[SessionId, int], ...]
    """Sessions of other wires that hold something, and how much."""
    pending: int
    first: StreamId | None
    """Of what is held."""
    last: StreamId | None
    undelivered: int
    passed: StreamId = FIRST
    """The last that was handed out, or that it was moved to."""
    held: tuple[PendingMessage, ...] = ()
    """The first that somebody holds, if they were asked for."""
    now: float = 0.0
    """When this was so."""


@value
class Surveyed:
    """The contents of a queue: its first and last messages, its counts."""

    session: SessionId
    ref: Ref
    exists: bool
    messages: int = 0
    last: StreamId | None = None
    """Of the last message that came, if one did."""
    apps: tuple[AppView, ...] = ()
    added: int = 0
    """Messages that came, as far as is known."""
    first: StreamId | None = None
    """Of the oldest that is there."""
    groups: int = 0
    """Apps that there are, told of or not."""


@value
class PendingMessage:
    """A message that somebody holds."""

    id: StreamId
    reader: bytes | None
    """None if it is a session of another wire."""
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

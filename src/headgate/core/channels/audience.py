"""Audiences: the receivers of a channel, and the form in which each wants its messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from headgate.compiled import part
from headgate.core.delivery.registry import Roster
from headgate.core.model.ids import SessionId


class Kind(Enum):
    """The three families of names."""

    EXACT = "exact"
    PATTERN = "pattern"
    SHARDED = "sharded"

    # The hash of an enum's member is a function in Python, and this is the hot path.
    __hash__ = object.__hash__


class Framing(NamedTuple):
    """How the messages of a channel are framed: what comes before a body of some size, and what
    comes after it."""

    lead: Callable[[int], bytes]
    tail: bytes
    parts: tuple[bytes, bytes] | None = None
    """What a lead has before and behind the size in decimals, if it is nothing else."""


class Form(Protocol):
    """How a session wants its messages: the wire's affair, and the same object for all sessions
    that want them alike."""

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        """For messages of a channel to who subscribed by this name."""
        ...


class Bare:
    """Frames that are bodies, for sessions without a wire."""

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        return Framing(lambda size: b"", b"")


BARE = Bare()


class PureLine(list[bytes]):
    """Where the frames of one session are put together."""

    __slots__ = ()


FrameLine = part("headgate.core.channels._passes", "Line", PureLine)

Named: TypeAlias = tuple[Kind, bytes, Roster[Form]]
"""A roster and the name it is found by."""


class PeerAudience(NamedTuple):
    """The other workers that hear a channel."""

    links: tuple[SessionId, ...]
    receivers: int
    """Subscriptions of their sessions, exact and by pattern, as they told them."""
    framing: Framing
    """How each of them is told a message, once."""


class PeerPort(Protocol):
    """The channels' view of the sessions of other workers. A router of one process has none."""

    def hearing(self, kind: Kind, channel: bytes) -> PeerAudience | None:
        """The other workers that hear a channel."""
        ...

    def count(self, kind: Kind, name: bytes) -> int:
        """Subscriptions of other workers' sessions to a name."""
        ...

    def names(self, kind: Kind) -> Collection[bytes]:
        """The names that somebody elsewhere is subscribed to."""
        ...

    def blocking(self, kind: Kind, channel: bytes) -> Iterator[SessionId]:
        """The sessions elsewhere that those who publish to a channel wait for."""
        ...

    def changed(self, session: SessionId, kind: Kind, names: Sequence[bytes]) -> None:
        """A session of this worker was subscribed to names, or taken off them."""
        ...

    def line(self, link: SessionId) -> PureLine:
        """Where the frames of a link are put together."""
        ...


class PureFrameGroup:
    """One form of a channel's messages, and who gets it."""

    __slots__ = ("heard_in", "lead", "lines", "sessions", "tail")

    def __init__(self, framing: Framing, sessions: tuple[SessionId, ...]) -> None:
        self.lead, self.tail, _ = framing
        self.sessions = sessions
        self.lines: list[PureLine] = []
        """Where the frames of each session are put together, once that was needed."""
        self.heard_in = 0
        """The last pass in which it had a frame."""

    def framed(self, bodies: Sequence[bytes]) -> bytes:
        """The frames of a run of messages."""
        sizes = {*map(len, bodies)}
        if len(sizes) > 1:
            parts = zip(map(self.lead, map(len, bodies)), bodies, repeat(self.tail), strict=False)
            return b"".join(chain.from_iterable(parts))
        # Much the same every time, as a pipeline often is: what parts them is the same, too.
        lead = self.lead(*sizes)
        return b"".join((lead, (self.tail + lead).join(bodies), self.tail))


FrameGroup = part("headgate.core.channels._passes", "FrameGroup", PureFrameGroup)


class PureHeard:
    """The counts of an audience, and how messages reach it: all that publishing asks of it."""

    __slots__ = ("frame_groups", "moment", "published", "receivers", "size")

    def __init__(self) -> None:
        self.moment = 0
        """When it was last seen that its rosters are the present ones."""
        self.published = 0
        self.size = 0
        self.receivers = 0
        self.frame_groups: tuple[PureFrameGroup, ...] = ()


if TYPE_CHECKING:
    Heard = PureHeard
else:
    Heard = part("headgate.core.channels._passes", "Heard", PureHeard)


class Audience(Heard):
    """The receivers of a channel, as long as the rosters it was made of are the present ones, and
    what it heard since that was last told."""

    __slots__ = ("elsewhere", "is_apart", "rosters")

    def __init__(
        self, rosters: Sequence[Named], channel: bytes, elsewhere: PeerAudience | None = None
    ) -> None:
        super().__init__()
        self.rosters = rosters
        self.elsewhere = elsewhere
        if rosters:
            # S002-28, RESP-39: subscriptions are counted, exact and by pattern.
            self.receivers = sum([len(roster) for _, _, roster in rosters])
            self.frame_groups = tuple(_frame_groups(rosters, channel))
        if elsewhere is not None:
            self.receivers += elsewhere.receivers
        self.is_apart = len(self.frame_groups) < 2 or self._is_apart()
        """Whether nobody is told a message in two forms."""
        if elsewhere is not None:
            group = FrameGroup(elsewhere.framing, elsewhere.links)
            self.frame_groups = (*self.frame_groups, group)

    def _is_apart(self) -> bool:
        sessions = [*chain.from_iterable(group.sessions for group in self.frame_groups)]
        return len({*sessions}) == len(sessions)

    def is_of(self, rosters: Sequence[Named], elsewhere: PeerAudience | None = None) -> bool:
        """Whether these are the very moments it was made of."""
        return (
            len(rosters) == len(self.rosters)
            and all(
                a[2] is b[2] and a[1] == b[1] for a, b in zip(rosters, self.rosters, strict=True)
            )
            and _is_same(elsewhere, self.elsewhere)
        )


def _is_same(one: PeerAudience | None, other: PeerAudience | None) -> bool:
    """Whether the same workers hear a channel as often. Their framing is the channel's."""
    return (one and one[:2]) == (other and other[:2])


def _frame_groups(rosters: Sequence[Named], channel: bytes) -> Iterator[PureFrameGroup]:
    """The forms in which these rosters hear a channel."""
    for kind, name, roster in rosters:
        by_form: dict[Form, list[SessionId]] = {}
        for session, form in roster.items():
            by_form.setdefault(form, []).append(session)
        for form, sessions in by_form.items():
            yield FrameGroup(form.framing(kind, name, channel), tuple(sessions))

"""Audiences: the receivers of a channel, and the form in which each gets its messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from headgate.compiled import part
from headgate.core.delivery.registry import Roster
from headgate.core.model.ids import SessionId


class Kind(Enum):
    """The three families of names: exact channels, patterns and sharded channels."""

    EXACT = "exact"
    PATTERN = "pattern"
    SHARDED = "sharded"

    # The hash of an enum's member is a function in Python, and this is the hot path.
    __hash__ = object.__hash__


class Framing(NamedTuple):
    """The bytes around a message of a channel: what precedes a body of a given size, and what
    follows it."""

    lead: Callable[[int], bytes]
    tail: bytes
    parts: tuple[bytes, bytes] | None = None
    """The parts of the lead before and after the decimal size, if it consists of nothing else."""


class Form(Protocol):
    """The form in which a session gets messages. The wire defines it; sessions with the same form
    share one object."""

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        """The framing of a channel's messages for a subscriber of this name."""
        ...


class Bare:
    """Frames that are bare bodies, for sessions without a wire."""

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        return Framing(lambda size: b"", b"")


BARE = Bare()


class PureLine(list[bytes]):
    """A buffer in which the frames of one session are put together."""

    __slots__ = ()


FrameLine = part("headgate.core.channels._passes", "Line", PureLine)

Named: TypeAlias = tuple[Kind, bytes, Roster[Form]]
"""A roster with its kind and name."""


class PeerAudience(NamedTuple):
    """The links to other workers that have subscribers of a channel."""

    links: tuple[SessionId, ...]
    receivers: int
    """Number of their sessions' subscriptions, exact and by pattern, as they announced it."""
    framing: Framing
    """How a message is sent to each of these workers, once."""


class PeerPort(Protocol):
    """The channels' view of other workers' sessions. A router of one process has none."""

    def hearing(self, kind: Kind, channel: bytes) -> PeerAudience | None:
        """The workers that have subscribers of a channel."""
        ...

    def count(self, kind: Kind, name: bytes) -> int:
        """Subscriptions of other workers' sessions to a name."""
        ...

    def names_only_there(self, kind: Kind) -> Collection[bytes]:
        """The names that sessions of other workers are subscribed to, and none of this one."""
        ...

    def blocking(self, kind: Kind, channel: bytes) -> Iterator[SessionId]:
        """The sessions of other workers that block the publishers of a channel."""
        ...

    def changed(self, session: SessionId, kind: Kind, names: Sequence[bytes]) -> None:
        """Note that a session of this worker was subscribed to names, or taken off them."""
        ...

    def line(self, link: SessionId) -> PureLine:
        """The buffer for the frames of a link."""
        ...


class PureFrameGroup:
    """The receivers of a channel that get its messages in the same form."""

    __slots__ = ("heard_in", "lead", "lines", "sessions", "tail")

    def __init__(self, framing: Framing, sessions: tuple[SessionId, ...]) -> None:
        self.lead, self.tail, _ = framing
        self.sessions = sessions
        self.lines: list[PureLine] = []
        """The buffers of the sessions, once they are needed."""
        self.heard_in = 0
        """The last pass in which the group got a frame."""

    def framed(self, bodies: Sequence[bytes]) -> bytes:
        """The frames of a run of messages."""
        sizes = {*map(len, bodies)}
        if len(sizes) > 1:
            parts = zip(map(self.lead, map(len, bodies)), bodies, repeat(self.tail), strict=False)
            return b"".join(chain.from_iterable(parts))
        # The bodies of a pipeline are often of one size, and then the bytes between them are the
        # same.
        lead = self.lead(*sizes)
        return b"".join((lead, (self.tail + lead).join(bodies), self.tail))


FrameGroup = part("headgate.core.channels._passes", "FrameGroup", PureFrameGroup)


class PureHeard:
    """The counts of an audience and the ways to reach it: all that publishing needs."""

    __slots__ = ("frame_groups", "is_apart", "moment", "published", "receivers", "size")

    def __init__(self) -> None:
        self.moment = 0
        """The moment for which its rosters were last found to be current."""
        self.published = 0
        self.size = 0
        self.receivers = 0
        self.frame_groups: tuple[PureFrameGroup, ...] = ()
        self.is_apart = False
        """Whether nobody is told a message in two forms."""


if TYPE_CHECKING:
    Heard = PureHeard
else:
    Heard = part("headgate.core.channels._passes", "Heard", PureHeard)


class Audience(Heard):
    """The receivers of a channel, valid while the rosters it was made of are current, and its
    counts since they were last taken."""

    __slots__ = ("elsewhere", "rosters")

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
        if elsewhere is not None:
            group = FrameGroup(elsewhere.framing, elsewhere.links)
            self.frame_groups = (*self.frame_groups, group)

    def _is_apart(self) -> bool:
        sessions = [*chain.from_iterable(group.sessions for group in self.frame_groups)]
        return len({*sessions}) == len(sessions)

    def is_of(self, rosters: Sequence[Named], elsewhere: PeerAudience | None = None) -> bool:
        """Whether the audience was made of these very rosters."""
        return (
            len(rosters) == len(self.rosters)
            and all(
                a[2] is b[2] and a[1] == b[1] for a, b in zip(rosters, self.rosters, strict=True)
            )
            and _is_same(elsewhere, self.elsewhere)
        )


def _is_same(one: PeerAudience | None, other: PeerAudience | None) -> bool:
    """Whether both mean the same workers with the same counts. The framing depends on the channel
    alone."""
    return (one and one[:2]) == (other and other[:2])


def _frame_groups(rosters: Sequence[Named], channel: bytes) -> Iterator[PureFrameGroup]:
    """The frame groups of these rosters."""
    for kind, name, roster in rosters:
        by_form: dict[Form, list[SessionId]] = {}
        for session, form in roster.items():
            by_form.setdefault(form, []).append(session)
        for form, sessions in by_form.items():
            yield FrameGroup(form.framing(kind, name, channel), tuple(sessions))

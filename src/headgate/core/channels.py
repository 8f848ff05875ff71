"""Ephemeral fan-out by name.

Publishing is the hot path of the router: it happens far more often than anything else and has
nothing to write. So nothing is made per delivery and nothing per message but its frame. A
publish looks its channel up once per loop pass, appends the frame to a log, and counts. At
the end of the pass `take` joins the log into one blob per distinct audience, and the shell
writes each blob to many sessions as it is. Every session sees the frames of its channels in
the order in which they were published.

What is in the log belongs to the rosters of its moment. The registry calls `flush` before it
replaces a roster, so a subscriber neither misses what was published before it left nor gets
what was published before it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from headgate.core.facts import ChannelCounted
from headgate.core.limits import Limits
from headgate.core.names import Channel, SessionId
from headgate.core.registry import Registry
from headgate.errors import LimitReached

Encode = Callable[[Channel, bytes], bytes]


OTHER = Channel(b"*other*")
COUNTED_MOST = 10
"""Channels that are counted apart, as a multiple of those that are told by name: room to find
the busiest among, and a bound."""


class Heard:
    """A channel in this pass: who hears it, and how much was said."""

    __slots__ = ("bit", "published", "receivers", "size", "targets")

    def __init__(self, bit: int, targets: tuple[SessionId, ...]) -> None:
        self.size = 0
        self.bit = bit
        self.targets = targets
        self.receivers = len(targets)
        self.published = 0


class Channels:
    def __init__(self, limits: Limits, *, shards: int = 16) -> None:
        self._limits = limits
        self._registry: Registry[Channel, bool] = Registry(shards=shards, before_change=self.flush)
        self._by_session: dict[SessionId, set[Channel]] = {}
        self._heard: dict[Channel, Heard] = {}
        self._audible = 0
        """Channels of this pass that somebody hears; each has a bit."""
        self._log: list[tuple[int, bytes]] = []
        self._log_bytes = 0
        self._counts: dict[Channel, list[int]] = {}
        """Since they were last told: messages, bytes, deliveries, most receivers."""
        self._ready: list[tuple[bytes, Sequence[SessionId]]] = []
        self.published = 0
        """Messages published to somebody or nobody, since the start."""
        self.deliveries = 0
        """Receivers of all of them."""

    def subscribe(self, session: SessionId, channels: Iterable[Channel]) -> None:
        """Add a session to channels, all of them or, beyond a limit, none."""
        mine = self._by_session.get(session, set())
        new = [channel for channel in dict.fromkeys(channels) if channel not in mine]
        if len(mine) + len(new) > self._limits.channels_per_session:
            raise LimitReached("channels_per_session", self._limits.channels_per_session)
        unheard = sum(not self._registry.roster(channel) for channel in new)
        if len(self._registry) + unheard > self._limits.channels:
            raise LimitReached("channels", self._limits.channels)
        if new:
            self._registry.change(session, add=((channel, True) for channel in new))
            self._by_session[session] = mine.union(new)

    def unsubscribe(self, session: SessionId, channels: Iterable[Channel]) -> None:
        mine = self._by_session.get(session)
        if mine is None:
            return
        gone = mine.intersection(channels)
        self._registry.change(session, remove=gone)
        mine -= gone
        if not mine:
            del self._by_session[session]

    def disconnect(self, session: SessionId) -> None:
        self.unsubscribe(session, self.of(session))

    def of(self, session: SessionId) -> frozenset[Channel]:
        """What a session is subscribed to."""
        return frozenset(self._by_session.get(session, ()))

    def subscribers(self, channel: Channel) -> int:
        return len(self._registry.roster(channel))

    def __iter__(self) -> Iterator[Channel]:
        """The channels that somebody is subscribed to."""
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)

    def publish(self, pairs: Iterable[tuple[Channel, bytes]], encode: Encode) -> list[int]:
        """Publish a run of messages; return the number of receivers of each."""
        heard_of = self._heard.get
        log = self._log
        log_bytes = 0
        counts = []
        for channel, body in pairs:
            heard = heard_of(channel) or self._hear(channel)
            heard.published += 1
            heard.size += len(body)
            receivers = heard.receivers
            counts.append(receivers)
            if receivers:
                frame = encode(channel, body)
                log.append((heard.bit, frame))
                log_bytes += len(frame)
        self._log_bytes += log_bytes
        if (
            len(log) > self._limits.publish_frames
            or self._log_bytes > self._limits.publish_bytes
            or len(self._heard) > self._limits.publish_frames
        ):
            self.flush()
        return counts

    def flush(self) -> None:
        """Join what was logged into one blob per audience, to be taken by the shell."""
        if not self._heard:
            return
        audible = [heard for heard in self._heard.values() if heard.receivers]
        for channel, heard in self._heard.items():
            self.published += heard.published
            self.deliveries += heard.published * heard.receivers
            self._count(channel, heard)
        if len(audible) == 1:
            frames = [frame for _, frame in self._log]
            self._ready.append((b"".join(frames), audible[0].targets))
        elif audible:
            self._join(audible)
        self._heard.clear()
        self._audible = 0
        self._log.clear()
        self._log_bytes = 0

    def counted(self, at: float) -> list[ChannelCounted]:
        """What was published since the last time, by channel: the busiest by name, the rest in
        one. Facts are made of this, once a second, and never of a single message."""
        self.flush()
        counts, self._counts = self._counts, {}
        rest = [counts.pop(OTHER)] if OTHER in counts else []
        most = self._limits.journal_channels_per_second
        busiest = sorted(counts.items(), key=lambda item: -item[1][0])
        told = [_told(at, channel, [count]) for channel, count in busiest[:most]]
        rest += [count for _, count in busiest[most:]]
        return [*told, _told(at, OTHER, rest)] if rest else told

    def _count(self, channel: Channel, heard: Heard) -> None:
        count = self._counts.get(channel)
        if count is None:
            if len(self._counts) >= COUNTED_MOST * self._limits.journal_channels_per_second:
                channel = OTHER
            count = self._counts.setdefault(channel, [0, 0, 0, 0])
        count[0] += heard.published
        count[1] += heard.size
        count[2] += heard.published * heard.receivers
        count[3] = max(count[3], heard.receivers)

    def take(self) -> list[tuple[bytes, Sequence[SessionId]]]:
        """What is to be written: a blob and the sessions that get it, in this order."""
        self.flush()
        ready, self._ready = self._ready, []
        return ready

    def _hear(self, channel: Channel) -> Heard:
        targets = tuple(self._registry.roster(channel))
        heard = Heard(1 << self._audible if targets else 0, targets)
        self._audible += bool(targets)
        self._heard[channel] = heard
        return heard

    def _join(self, audible: list[Heard]) -> None:
        """Sessions that hear the same channels of this pass share one blob."""
        masks: dict[SessionId, int] = {}
        for heard in audible:
            for session in heard.targets:
                masks[session] = masks.get(session, 0) | heard.bit
        audiences: dict[int, list[SessionId]] = {}
        for session, mask in masks.items():
            audiences.setdefault(mask, []).append(session)
        for mask, sessions in audiences.items():
            blob = b"".join([frame for bit, frame in self._log if bit & mask])
            self._ready.append((blob, sessions))


def _told(at: float, channel: Channel, counts: list[list[int]]) -> ChannelCounted:
    published, size, deliveries, receivers = zip(*counts, strict=True)
    return ChannelCounted(
        at, channel, len(counts), sum(published), sum(size), sum(deliveries), max(receivers)
    )

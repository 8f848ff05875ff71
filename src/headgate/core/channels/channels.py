"""Ephemeral fan-out by name: exact channels, patterns over them, and sharded channels.

Publishing is the hot path of the router: it happens far more often than anything else and has
nothing to write. So no object is made per delivery, and per message only its frames. A publish
finds the audience of its channel, which is kept until a roster of it is replaced, appends a frame
for each form its receivers want, and counts. At the end of a pass of the loop `take` makes blobs of
the frames, one at a time: each is written before the next is made, so that only one exists and it
is still in the cache. Sessions that get the same messages share a blob; otherwise each has its own.
Every session sees the frames of its channels in the order in which they were published.

Messages that wait for the end of a pass go to the rosters as they were when they were published.
The registries call `flush` before they replace a roster, so a subscriber gets every message
published before it left and none published before it came.

Exact and sharded channels are separate, as in Redis: an `smessage` is not a `message`. Patterns
match exact channels only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from headgate.core.channels.audience import Audience, FrameLine, Kind, Named, PeerPort, PureLine
from headgate.core.channels.channel_counts import ChannelCounts
from headgate.core.channels.publish_pass import Blob, OpenPass, Pass, PurePass
from headgate.core.channels.subscriptions import ChannelSubscriptions
from headgate.core.delivery.mailbox import Budget
from headgate.core.facts import ChannelCounted
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.errors import LimitReached

AUDIENCES = 8192
"""Channels whose audience is kept from pass to pass. Beyond this all are dropped."""
UNHEARD = 32
"""New channels without receivers published to in a row, if every pattern is cheap to match."""


class Channels(ChannelSubscriptions, OpenPass):
    """Subscriptions to channels and patterns, and messages that are published and not written yet.

    The broker owns it. Wires subscribe and publish at any time; whoever runs the event loop calls
    `take` at the end of a pass and writes what it gets.
    """

    def __init__(self, limits: Limits, *, shards: int = 16) -> None:
        super().__init__(limits, shards=shards, before_change=self._before_change)
        self._moment = 1
        self._exact: dict[bytes, Audience] = {}
        self._known: dict[Kind, dict[bytes, Audience]] = {Kind.EXACT: self._exact, Kind.SHARDED: {}}
        self._pass = Pass(1, limits.publish_frames, limits.publish_bytes)
        self._passes = []
        self._counts = ChannelCounts(limits)
        self.is_unwritten = False
        self.tap = None
        self._exact_here: dict[bytes, Audience] = {}
        self._known_here = {Kind.EXACT: self._exact_here, Kind.SHARDED: dict[bytes, Audience]()}
        """Audiences of this worker's own sessions, for messages published on another worker."""

    # Other workers.

    def link_up(self, peers: PeerPort) -> None:
        """Publish to other workers, too, from here on; `peers` knows their subscriptions."""
        self._peers = peers

    def before_peers_change(self) -> None:
        """Close the current pass, so that it goes to the other workers' subscribers as they are
        before a change."""
        self._before_change()

    def deliver(self, kind: Kind, channel: bytes, bodies: Sequence[bytes]) -> None:
        """Publish messages from another worker to sessions of this one only, so that none goes in
        circles. The other worker counted them."""
        audience = self._known_here[kind].get(channel)
        if audience is None or audience.moment != self._moment:
            audience = self._hear_here(channel, kind)
        if audience.frame_groups:
            self._log_all(audience, bodies)
            if self.tap is not None:
                self.tap(channel, bodies)

    # Receivers of a channel.

    def blocker(
        self,
        kind: Kind,
        channel: bytes,
        budget: Budget,
        among: Collection[SessionId] | None = None,
    ) -> SessionId | None:
        """A session that hears this channel and for which its publishers have to wait: one of
        those that are stuck, or of some of them."""
        for session in self.hearing(kind, channel, budget.stuck if among is None else among):
            # S002-29, S002-61: only those who hear this channel are asked.
            if budget.is_blocking(session):
                return session
        return None

    def has_room(self, kind: Kind, names: Iterable[bytes], size: int, budget: Budget) -> bool:
        """Whether all stuck receivers of these channels could hold so many more bytes without
        becoming slow."""
        stuck = budget.stuck
        hearing = {s for name in names for s in self.hearing(kind, name, stuck)}
        if not hearing:
            return True
        most = min(budget.mailbox_soft, budget.mailbox_hard)
        return budget.bytes + size * len(hearing) <= budget.limit and all(
            stuck[session].bytes + size <= most for session in hearing
        )

    def hearing(
        self, kind: Kind, channel: bytes, sessions: Collection[SessionId]
    ) -> Iterator[SessionId]:
        """The sessions among these that receive a channel. The cost is that of the smaller set."""
        known = self._known[kind].get(channel)
        if len(channel) > self._limits.name_bytes:
            return  # no message can be published to a pattern
        if self._peers is not None:
            yield from self._hearing_elsewhere(self._peers, kind, channel, sessions)
        if known is None or known.moment != self._moment:
            named: Sequence[Named] = self._rosters(kind, channel)
        else:
            named = known.rosters
        if not named or not sessions:
            return
        rosters = [roster for _, _, roster in named]
        if len(sessions) < sum(map(len, rosters)):
            for session in sessions:
                if any(session in roster for roster in rosters):
                    yield session
        else:
            for roster in rosters:
                yield from (session for session in roster if session in sessions)

    def _hearing_elsewhere(
        self, peers: PeerPort, kind: Kind, channel: bytes, sessions: Collection[SessionId]
    ) -> Iterator[SessionId]:
        """The links among these that receive a channel, and the sessions of other workers that
        block it."""
        elsewhere = peers.hearing(kind, channel)
        if elsewhere is not None:
            yield from (link for link in elsewhere.links if link in sessions)
        yield from (session for session in peers.blocking(kind, channel) if session in sessions)

    def heard_by(
        self, kind: Kind, channel: bytes, session: SessionId
    ) -> Iterator[tuple[Kind, bytes]]:
        """The names by which a session of this worker receives a channel."""
        for of, name, roster in self._rosters(kind, channel):
            if session in roster:
                yield of, name

    # Publishing.

    def publish(
        self,
        kind: Kind,
        pairs: Iterable[Sequence[bytes]],
        is_over: Callable[[], bool] | None = None,
    ) -> list[int]:
        """Publish messages, each a channel and a body: see `publish_run`."""
        names, bodies = [], []
        for channel, body in pairs:
            names.append(channel)
            bodies.append(body)
        return self.publish_run(kind, names, bodies, is_over)

    def publish_run(
        self,
        kind: Kind,
        names: Sequence[bytes],
        bodies: Sequence[bytes],
        is_over: Callable[[], bool] | None = None,
    ) -> list[int]:
        """Publish a run of messages; return the receivers of each. The run ends early when
        `is_over` is true, which is asked after channels without a known audience, since they take
        long."""
        known, counts = self._known[kind], list[int]()
        every = 1 if self._patterns.weight else UNHEARD
        at = unheard = 0
        while at < len(names):
            if self.tap is None:
                at = self._pass.run(known, self._moment, names, bodies, at, counts)
                if self._logged() or at == len(names):
                    continue
            channel, body = names[at], bodies[at]
            audience = known.get(channel)
            if audience is None or audience.moment != self._moment:
                audience = self._hear(kind, channel)
                unheard = every if audience.frame_groups else unheard + 1
            counts.append(self.publish_one(kind, channel, body))
            at += 1
            if unheard >= every:
                if is_over is not None and is_over():
                    break
                unheard = 0
        return counts

    def publish_one(self, kind: Kind, channel: bytes, body: bytes) -> int:
        """Publish one message; return its receivers."""
        audience = self._known[kind].get(channel)
        if audience is None or audience.moment != self._moment:
            audience = self._hear(kind, channel)
        audience.published += 1
        audience.size += len(body)
        if audience.frame_groups:
            this = self._pass
            this.add(audience.frame_groups, body)
            self.is_unwritten = True
            if this.is_full:
                self.flush()
        if self.tap is not None:
            self.tap(channel, (body,))
        return audience.receivers

    def publish_all(self, kind: Kind, channel: bytes, bodies: Sequence[bytes]) -> int:
        """Publish messages on one channel; return the receivers of each. As `publish_run` for one
        channel, with every loop in C if all receivers use one form."""
        audience = self._known[kind].get(channel)
        if audience is None or audience.moment != self._moment:
            audience = self._hear(kind, channel)
        audience.published += len(bodies)
        audience.size += sum(map(len, bodies))
        self._log_all(audience, bodies)
        if self.tap is not None:
            self.tap(channel, bodies)
        return audience.receivers

    def receivers(self, kind: Kind, channel: bytes) -> int:
        """Number of subscriptions that receive a channel, as PUBLISH counts them."""
        return self._hear(kind, channel).receivers

    def _log_all(self, audience: Audience, bodies: Sequence[bytes]) -> None:
        """Messages on one channel: at once, if nobody is told them in two forms."""
        groups = audience.frame_groups
        if audience.is_apart:
            for group in groups:
                self._pass.add_all(group, bodies)
            self._logged()
        else:
            for body in bodies:
                self._pass.add(groups, body)
                self._logged()

    def _logged(self) -> bool:
        """Note that there may be messages to take; return whether the pass is full."""
        this = self._pass
        if this.is_full:
            self.flush()
            return True
        if this:
            self.is_unwritten = True
        return False

    def counted(self, at: float) -> list[ChannelCounted]:
        """The counts of messages by channel since the last call. They become facts once a second; a
        single message never does."""
        self._fold()
        return self._counts.take(at)

    def _before_change(self) -> None:
        """End the current pass before a roster changes."""
        self.flush()
        for earlier in self._passes:
            earlier.prepare(self._line)
        # S002-38, RESP-45, RESP-49: earlier messages go to the earlier subscribers.
        self._moment += 1

    def _hear(self, kind: Kind, channel: bytes) -> Audience:
        """The present audience of a channel: the known one, if its rosters are still current."""
        if len(channel) > self._limits.name_bytes:
            raise LimitReached("name_bytes", self._limits.name_bytes)
        known = self._known[kind]
        audience = known.get(channel)
        # Most new channels are not seen again before a roster changes, and until then they are
        # known here: the index need not remember their patterns as well.
        rosters = self._rosters(kind, channel, is_new=audience is None)
        elsewhere = None if self._peers is None else self._peers.hearing(kind, channel)
        if audience is None or not audience.is_of(rosters, elsewhere):
            if audience is not None:
                self._counts.add(channel, audience)
            elif len(known) >= AUDIENCES:
                self._fold()
                known.clear()
            audience = known[channel] = Audience(rosters, channel, elsewhere)
        audience.moment = self._moment
        return audience

    def _hear_here(self, channel: bytes, kind: Kind = Kind.EXACT) -> Audience:
        """The present audience of a channel among this worker's own sessions."""
        known = self._known_here[kind]
        audience = known.get(channel)
        rosters = self._rosters(kind, channel, is_new=audience is None)
        if audience is None or not audience.is_of(rosters):
            if len(known) >= AUDIENCES:
                known.clear()
            audience = known[channel] = Audience(rosters, channel)
        audience.moment = self._moment
        return audience

    @property
    def published(self) -> int:
        """Messages published since the start, with and without receivers."""
        return self.totals()[0]

    @property
    def deliveries(self) -> int:
        """Deliveries of all messages since the start."""
        return self.totals()[1]

    def totals(self) -> tuple[int, int]:
        """Messages published and their deliveries since the start."""
        self._fold()
        return self._counts.published, self._counts.deliveries

    def _fold(self) -> None:
        """Add the audiences' counts to the counts by channel."""
        for known in self._known.values():
            for channel, audience in known.items():
                if audience.published:
                    self._counts.add(channel, audience)

    def _all_blobs(self, passes: Sequence[PurePass]) -> Iterator[Blob]:
        for each in passes:
            # While the blobs of one are written, a receiver may be lost that hears the next, too.
            each.prepare(self._line)
        return chain.from_iterable(each.blobs(self._line) for each in passes)

    def _line(self, session: SessionId) -> PureLine:
        mine = self._by_session.get(session)
        if mine is None:
            assert self._peers is not None, "who hears something is a session or a link"
            return self._peers.line(session)
        if mine.line is None:
            mine.line = FrameLine()
        return mine.line

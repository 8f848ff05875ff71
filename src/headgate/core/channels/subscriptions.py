"""Subscriptions to channels and patterns, by name and by session.

Both directions always agree: the registries have the roster of each name, and every session with a
name has its `SessionChannels`. A request is granted as a whole or, beyond a limit, not at all.
`Channels` is called before a roster is replaced: earlier messages go to the earlier roster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, islice

from headgate.core.channels.audience import Form, Kind, Named, PeerPort
from headgate.core.channels.pattern_index import PatternIndex
from headgate.core.channels.session_channels import NO_CHANNELS, SessionChannels
from headgate.core.delivery.registry import Registry
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.errors import LimitReached

LEAVING = 500
"""Names that a closed session is taken off in a row."""


class ChannelSubscriptions:
    """The part of `Channels` that keeps who is subscribed to what.

    It is a base class and not a part that `Channels` holds: wires use both under one name, and
    every publish asks whether its session subscribes.
    """

    def __init__(self, limits: Limits, *, shards: int, before_change: Callable[[], None]) -> None:
        self._limits = limits
        # S002-5, S002-6, S002-71, RESP-42: each family has its own names.
        self._registries: dict[Kind, Registry[bytes, Form]] = {
            kind: Registry(shards=shards, before_change=before_change) for kind in Kind
        }
        self._patterns = PatternIndex()
        self._by_session: dict[SessionId, SessionChannels] = {}
        self._leaving: dict[SessionId, None] = {}
        self._peers: PeerPort | None = None
        """The other workers of the router, if there are any."""

    def subscribe(
        self, session: SessionId, kind: Kind, names: Sequence[bytes], form: Form
    ) -> list[int]:
        """Add a session to names, all of them or, beyond a limit, none; return how many it has
        after each."""
        mine = self._by_session.get(session) or SessionChannels()
        held = mine.of(kind)
        # S002-18, RESP-26: a name that comes twice is one subscription.
        new = [name for name in dict.fromkeys(names) if name not in held]
        self.check_names(session, kind, new)
        self._check_room(mine, kind, new)
        self._registries[kind].change(session, add=[(name, form) for name in new])
        if new:
            # S002-10: a session has no state here before it subscribes.
            self._by_session[session] = mine
            if self._peers is not None:
                self._peers.changed(session, kind, new)
        counts = []
        for name in names:
            held[name] = None
            counts.append(mine.count(kind))
        if kind is Kind.PATTERN:
            for name in new:
                self._patterns.add(name)
                mine.weight += self._patterns.weigh(name)
        return counts

    def unsubscribe(
        self, session: SessionId, kind: Kind, names: Sequence[bytes] | None
    ) -> list[tuple[bytes | None, int]]:
        """Remove a session from names, or from all; return each with the number that is left. A
        session without any gets one entry without a name."""
        mine = self._by_session.get(session) or SessionChannels()
        held = mine.of(kind)
        wanted = list(held) if names is None else names
        registry = self._registries[kind]
        gone = [name for name in wanted if name in held]
        registry.change(session, remove=gone)
        if self._peers is not None:
            self._peers.changed(session, kind, gone)
        result: list[tuple[bytes | None, int]] = []
        for name in wanted:
            if name in held:
                del held[name]
                if kind is Kind.PATTERN:
                    mine.weight -= self._patterns.weigh(name)
                    if not registry.count(name):
                        self._patterns.remove(name)
            result.append((name, mine.count(kind)))
        # S002-24: with the last name gone it is no subscriber.
        if not mine:
            self._by_session.pop(session, None)
        # RESP-28, RESP-29, RESP-30: each name with what remains, and no name if there was none.
        return result if names is not None or result else [(None, mine.count(kind))]

    def disconnect(self, session: SessionId) -> None:
        """Remove a session that is gone. One with very many names leaves some now and the rest by
        `clear_away`, bit by bit; until then it counts as a receiver of those."""
        # S002-26, RESP-37: taken off everything, whatever ended it.
        self._leaving[session] = None
        self._leave(session, LEAVING)

    def clear_away(self) -> None:
        """Go on with one of the closed sessions that still have names."""
        for session in self._leaving:
            self._leave(session, LEAVING)
            break

    @property
    def is_leaving(self) -> bool:
        """Whether a closed session still has names."""
        return bool(self._leaving)

    def _leave(self, session: SessionId, most: int) -> None:
        """Take a session off so many of its names."""
        for kind in Kind:
            names = list(islice(self.of(session).of(kind), most))
            if names:
                self.unsubscribe(session, kind, names)
                most -= len(names)
        if not self.has(session):
            del self._leaving[session]

    def change_form(self, session: SessionId, form: Form) -> None:
        """Change the form in which a session gets its messages."""
        mine = self.of(session)
        for kind, registry in self._registries.items():
            registry.change(session, add=[(name, form) for name in mine.of(kind)])

    def evict(self, kind: Kind, names: Iterable[bytes]) -> list[tuple[SessionId, bytes, int]]:
        """Take all sessions off these names; return who lost which, and how many each has left."""
        result = []
        # S002-74: removed here before any session is notified.
        for name, roster in self._registries[kind].clear(list(names)).items():
            for session in roster:
                mine = self._by_session[session]
                del mine.of(kind)[name]
                result.append((session, name, mine.count(kind)))
                # S002-75: a session that lost its last channel is no longer a subscriber.
                if not mine:
                    del self._by_session[session]
        return result

    def check_names(self, session: SessionId, kind: Kind, names: Collection[bytes]) -> None:
        """Refuse names that are too long, or more than a session may have, before the session is
        added to the first. Callers that subscribe in parts call it beforehand."""
        limits = self._limits
        if max(map(len, names), default=0) > limits.name_bytes:
            raise LimitReached("name_bytes", limits.name_bytes)
        name, most = "channels_per_session", limits.channels_per_session
        if kind is Kind.PATTERN:
            name, most = "patterns_per_session", limits.patterns_per_session
        held = self.of(session).of(kind)
        if len(held) + len(names) > most and len(held.keys() | names) > most:
            raise LimitReached(name, most)

    def check_name(self, name: bytes) -> None:
        """Refuse a name that is too long."""
        if len(name) > self._limits.name_bytes:
            raise LimitReached("name_bytes", self._limits.name_bytes)

    def _check_room(self, mine: SessionChannels, kind: Kind, new: list[bytes]) -> None:
        """Refuse names for which there is no room in all."""
        limits, registry = self._limits, self._registries[kind]
        name, most = "channels", limits.channels
        if kind is Kind.PATTERN:
            name, most = "patterns", limits.patterns
        if len(registry) + sum(not registry.count(name) for name in new) > most:
            raise LimitReached(name, most)
        if kind is Kind.PATTERN:
            self._check_weight(mine, new)

    def _check_weight(self, mine: SessionChannels, new: list[bytes]) -> None:
        limits, patterns = self._limits, self._patterns
        weights = {name: patterns.weigh(name) for name in new}
        if mine.weight + sum(weights.values()) > limits.slow_patterns_per_session:
            raise LimitReached("slow_patterns_per_session", limits.slow_patterns_per_session)
        added = sum(weight for name, weight in weights.items() if name not in patterns)
        if added and patterns.weight + added > limits.slow_patterns:
            raise LimitReached("slow_patterns", limits.slow_patterns)

    # Questions of other parts.

    def of(self, session: SessionId) -> SessionChannels:
        """The channels and patterns that a session is subscribed to."""
        return self._by_session.get(session, NO_CHANNELS)

    def has(self, session: SessionId) -> bool:
        """Whether a session is subscribed to anything."""
        return session in self._by_session

    def subscribers(self, kind: Kind, name: bytes) -> int:
        """Number of sessions subscribed to a name, on all workers."""
        count = self._registries[kind].count(name)
        return count if self._peers is None else count + self._peers.count(kind, name)

    def subscribers_here(self, kind: Kind, name: bytes) -> int:
        """Number of this worker's sessions subscribed to a name."""
        return self._registries[kind].count(name)

    def names(self, kind: Kind) -> Iterable[bytes]:
        """The names with subscribers, on all workers."""
        here = iter(self._registries[kind])
        if self._peers is None:
            return here
        return chain(here, self._peers.names_only_there(kind))

    def patterns_of(self, channel: bytes) -> tuple[bytes, ...]:
        """The patterns that match a channel."""
        return self._patterns.matching(channel, remember=False)

    def count(self, kind: Kind) -> int:
        """Number of names with subscribers, on all workers."""
        registry = self._registries[kind]
        if self._peers is None:
            return len(registry)
        return len(registry) + len(self._peers.names_only_there(kind))

    def _rosters(self, kind: Kind, channel: bytes, *, is_new: bool = False) -> tuple[Named, ...]:
        """The rosters of a channel: its own first, then those of its patterns."""
        # S002-34: one lookup, however many channels there are.
        roster = self._registries[kind].roster(channel)
        found: tuple[Named, ...] = ((kind, channel, roster),) if roster else ()
        if kind is Kind.EXACT and (
            matching := self._patterns.matching(channel, remember=not is_new)
        ):
            patterns = self._registries[Kind.PATTERN].roster
            # S002-36, RESP-40, RESP-41: its own roster first, then one copy for each pattern.
            found += tuple([(Kind.PATTERN, pattern, patterns(pattern)) for pattern in matching])
        return found

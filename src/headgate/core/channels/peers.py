"""Peers: the subscriptions that other workers of a router announced, and those of their sessions
that block publishers.

A worker is like a session of every other worker, with two differences. It stands for many: each
name that it subscribes to has a count. And it gets each message once, by whatever names, since it
passes it on to its own sessions itself.

A session of another worker that cannot take more is known here by its number, and in the budget as
a full mailbox. So its publishers wait as for a session of this worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from headgate.core.channels.audience import Form, FrameLine, Kind, PeerAudience, PureLine
from headgate.core.channels.pattern_index import PatternIndex
from headgate.core.delivery.mailbox import Budget, Mailbox
from headgate.core.model.glob import Glob
from headgate.core.model.ids import SessionId

FULL_BYTES = 2**62
"""Size of a mailbox of another worker that is over its limit: more than any limit."""

Name: TypeAlias = tuple[Kind, bytes]
"""A channel, a pattern or a sharded channel."""

Changed: TypeAlias = Callable[[SessionId, Kind, Sequence[bytes]], None]


class InterestChange(NamedTuple):
    """A change of the number of a worker's sessions that are subscribed to a name; 0 if none is
    left."""

    kind: Kind
    name: bytes
    subscribers: int


class FullMailbox(Mailbox):
    """Stands for the mailbox of another worker's session that blocks publishers."""

    __slots__ = ()

    def __init__(self, session: SessionId, budget: Budget) -> None:
        super().__init__(session, budget)
        self.bytes = FULL_BYTES


class Peers:
    """Subscriptions of the other workers. Owned by the channels of a worker, which ask it when they
    look for an audience; each link is known by the number of its mailbox here."""

    def __init__(self, form: Form, changed: Changed, here: Callable[[Kind, bytes], int]) -> None:
        self._form = form
        """How a message is sent over a link."""
        self._report = changed
        """Called when sessions of this worker were subscribed to names, or taken off them."""
        self._here = here
        """The number of this worker's sessions that are subscribed to a name."""
        self._links: dict[SessionId, dict[Name, None]] = {}
        """The names that each link is subscribed to."""
        self._gone: dict[SessionId, dict[Name, None]] = {}
        """The same of links that are gone, as far as it is still to be removed."""
        self._lines: dict[SessionId, PureLine] = {}
        self._counts: dict[Kind, dict[bytes, dict[SessionId, int]]] = {kind: {} for kind in Kind}
        self._only_there: dict[Kind, set[bytes]] = {kind: set() for kind in Kind}
        """Names with subscribers of other workers, and none here."""
        self._patterns = PatternIndex()
        self._blocking: dict[SessionId, tuple[SessionId, dict[Name, None]]] = {}
        """Sessions of other workers that block publishers: by which link, and by which names."""
        self._blocked: dict[Name, dict[SessionId, None]] = {}
        """The same sessions by name."""
        self._blocked_patterns: dict[bytes, Glob] = {}

    # Calls of links.

    def join(self, link: SessionId) -> None:
        """Add the link to a worker that has no subscriptions yet."""
        self._links[link] = {}

    def leave(self, link: SessionId) -> None:
        """Remove the link to a worker that is gone. Its subscriptions, which may be many, are for
        `clear_away`; until then they are counted, and lead nowhere."""
        names = self._links.pop(link, None)
        if names:
            self._gone[link] = names
        self._lines.pop(link, None)

    @property
    def is_cluttered(self) -> bool:
        """Whether subscriptions of links that are gone are left."""
        return bool(self._gone)

    def clear_away(self, most: int) -> None:
        """Remove so many subscriptions of links that are gone."""
        while self._gone and most:
            link, names = next(iter(self._gone.items()))
            for kind, name in [*islice(names, most)]:
                del names[kind, name]
                self._remove(link, kind, name)
                most -= 1
            if not names:
                del self._gone[link]

    def change(self, link: SessionId, changes: Iterable[InterestChange]) -> None:
        """Apply a worker's announced counts of its subscribers."""
        names = self._links[link]
        for kind, name, count in changes:
            if count:
                links = self._counts[kind].setdefault(name, {})
                if not links and not self._here(kind, name):
                    self._only_there[kind].add(name)
                links[link] = count
                names[kind, name] = None
                if kind is Kind.PATTERN:
                    self._patterns.add(name)
            elif (kind, name) in names:
                del names[kind, name]
                self._remove(link, kind, name)

    def _remove(self, link: SessionId, kind: Kind, name: bytes) -> None:
        links = self._counts[kind][name]
        del links[link]
        if not links:
            del self._counts[kind][name]
            self._only_there[kind].discard(name)
            if kind is Kind.PATTERN:
                self._patterns.remove(name)

    # Calls of the channels.

    def hearing(self, kind: Kind, channel: bytes) -> PeerAudience | None:
        """The links that receive a channel, the number of their subscriptions, and the form of
        their messages."""
        found = dict(self._counts[kind].get(channel, {}))
        if kind is Kind.EXACT:
            for pattern in self._patterns.matching(channel, remember=False):
                for link, count in self._counts[Kind.PATTERN][pattern].items():
                    found[link] = found.get(link, 0) + count
        if not found:
            return None
        framing = self._form.framing(kind, channel, channel)
        return PeerAudience(tuple(found), sum(found.values()), framing)

    def count(self, kind: Kind, name: bytes) -> int:
        """Subscriptions of other workers' sessions to a name."""
        return sum(self._counts[kind].get(name, {}).values())

    def names_only_there(self, kind: Kind) -> Collection[bytes]:
        """The names that sessions of other workers are subscribed to, and none of this one."""
        return self._only_there[kind]

    def changed(self, session: SessionId, kind: Kind, names: Sequence[bytes]) -> None:
        """Note that a session of this worker was subscribed to names, or taken off them."""
        known, only_there = self._counts[kind], self._only_there[kind]
        for name in names:
            if name in known:
                (only_there.discard if self._here(kind, name) else only_there.add)(name)
        self._report(session, kind, names)

    def line(self, link: SessionId) -> PureLine:
        """The buffer for the frames of a link."""
        if link not in self._links:
            return FrameLine()
        return self._lines.setdefault(link, FrameLine())

    def __len__(self) -> int:
        return len(self._links)

    # Sessions that block publishers.

    def block(self, link: SessionId, session: SessionId, name: Name, budget: Budget) -> None:
        """Note that a session of another worker cannot take more messages by this name."""
        # S002-58, S002-61: only its publishers wait, on any worker.
        _, names = self._blocking.setdefault(session, (link, {}))
        names[name] = None
        self._blocked.setdefault(name, {})[session] = None
        if name[0] is Kind.PATTERN:
            self._blocked_patterns.setdefault(name[1], Glob(name[1]))
        budget.stuck[session] = FullMailbox(session, budget)

    def ease(self, session: SessionId, budget: Budget) -> bool:
        """Note that such a session takes messages again, or is gone; return whether it blocked
        publishers."""
        if session not in self._blocking:
            return False
        _, names = self._blocking.pop(session)
        for name in names:
            blocked = self._blocked[name]
            del blocked[session]
            if not blocked:
                del self._blocked[name]
                if name[0] is Kind.PATTERN:
                    del self._blocked_patterns[name[1]]
        budget.stuck.pop(session, None)
        return True

    def blocking_of(self, link: SessionId) -> list[SessionId]:
        """The sessions of a worker that block publishers."""
        return [session for session, (by, _) in self._blocking.items() if by == link]

    def blocking(self, kind: Kind, channel: bytes) -> Iterator[SessionId]:
        """The sessions of other workers that block the publishers of a channel."""
        yield from self._blocked.get((kind, channel), ())
        if kind is Kind.EXACT:
            for pattern, glob in self._blocked_patterns.items():
                if glob.matches(channel):
                    yield from self._blocked[Kind.PATTERN, pattern]

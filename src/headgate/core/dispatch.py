"""Who gets this message: everybody, or one by priority. An exclusive queue has only the one.

Subscriptions of an app with the same text form a group. Of a group only those with its
highest priority are active: when they are full the message waits for them, and is not given
to a lower one. Groups are tried from the highest priority down, those of one priority in the
order in which their consumers came; a priority at which something matches ends the search,
whether or not anybody has room. Which groups match is found by an index, so a message does
not pay for groups that cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from headgate.core.gate import Gate, Window
from headgate.core.message import Properties
from headgate.core.names import Seq, SessionId
from headgate.core.scores import SAMPLE_GROUPS, Score
from headgate.core.undo import Undo
from headgate.expr.index import PredicateIndex
from headgate.expr.predicate import Predicate


class Subscription:
    """One subscription of a consumer, with its window."""

    __slots__ = ("gate", "group", "index", "place", "predicate", "priority", "session")

    def __init__(
        self,
        session: SessionId,
        index: int,
        predicate: Predicate | None,
        priority: int,
        gate: Gate[Seq],
    ) -> None:
        self.session = session
        self.index = index
        """Its place in the consumer's own list."""
        self.predicate = predicate
        self.priority = priority
        self.gate = gate
        self.place = 0
        """Its consumer's place among those of the app."""
        self.group: Group | None = None
        """Where it is active; none while another of the same text has a higher priority."""

    @property
    def text(self) -> str | None:
        return self.predicate.text if self.predicate is not None else None


May: TypeAlias = Callable[[Subscription], bool]
"""Whether a subscription may be given a message now, if it has room."""


class Group:
    """The subscriptions of one text. The active ones take turns."""

    __slots__ = ("members", "predicate", "priority", "rotation", "score", "waiting")

    def __init__(self, members: Sequence[Subscription], score: Score) -> None:
        self.members = tuple(sorted(members, key=lambda member: (member.place, member.index)))
        self.predicate = self.members[0].predicate
        self.priority = max(member.priority for member in members)
        self.rotation = deque(m for m in self.members if m.priority == self.priority)
        self.waiting: deque[Seq] = deque()
        """Messages that matched while everybody here was full, oldest first."""
        self.score = score
        """Goes on when the members change."""

    @property
    def text(self) -> str | None:
        return self.predicate.text if self.predicate is not None else None

    @property
    def capacity(self) -> Window:
        """What its members can hold together."""
        windows = [member.gate.window for member in self.rotation]
        sizes = [window.bytes for window in windows]
        return Window(
            sum(window.messages for window in windows),
            None if None in sizes else sum(size for size in sizes if size is not None),
        )

    def next_open(self) -> Subscription | None:
        """Whose turn it is. A full one is passed over and keeps its place."""
        for member in self.rotation:
            if member.gate.is_open:
                return member
        return None

    def next_who(self, may: May) -> Subscription | None:
        """The same, of those who may."""
        for member in self.rotation:
            if member.gate.is_open and may(member):
                return member
        return None

    def rotate(self, member: Subscription, undo: Undo) -> None:
        """The member has had its turn."""
        if len(self.rotation) == 1:
            return
        place = self.rotation.index(member)
        del self.rotation[place]
        self.rotation.append(member)
        undo.note(self._unrotate, place)

    def _unrotate(self, place: int) -> None:
        self.rotation.insert(place, self.rotation.pop())


class Groups:
    """The groups of an app by text, and those that match a message in the order of dispatch."""

    __slots__ = ("_by_text", "_index", "_unsampled", "looked_at")

    def __init__(self) -> None:
        self._by_text: dict[str | None, Group] = {}
        self._index: PredicateIndex[Group] = PredicateIndex()
        self.looked_at = 0
        """Messages, each as often as somebody was sought for it."""
        self._unsampled: list[Group] = []
        """Whose turn it is to be evaluated in full, from the end."""

    def find(self, text: str | None) -> Group | None:
        return self._by_text.get(text)

    def replace(self, text: str | None, members: Sequence[Subscription], undo: Undo) -> None:
        """Give a text these members. Its rotation begins anew; other groups go on with theirs."""
        before = undo.pop(self._by_text, text)
        if before is not None:
            undo.note(self._index.restore, self._index.remove(before))
            for member in before.rotation:
                undo.assign(member, "group", None)
        if members:
            score = before.score if before is not None else Score(self.looked_at)
            after = Group(members, score)
            first = after.members[0]
            order = first.place * PLACES + first.index
            self._index.add(after.predicate, after, after.priority, order)
            undo.note(self._index.remove, after)
            undo.put(self._by_text, text, after)
            for member in after.rotation:
                undo.assign(member, "group", after)

    def matching(self, properties: Properties) -> Iterator[Group]:
        """The groups whose predicate is true, from the highest priority down, lazily."""
        return self._index.matching(properties)

    def sample(self, properties: Properties, undo: Undo) -> None:
        """Evaluate some expressions in full, in turns, on a message that was looked at."""
        if not self._unsampled:
            undo.assign(self, "_unsampled", list(self._by_text.values()))
        for _ in range(min(SAMPLE_GROUPS, len(self._unsampled))):
            group = self._unsampled.pop()
            undo.note(self._unsampled.append, group)
            if group.predicate is not None:
                failure = group.score.sample(group.predicate, properties)
                undo.note(group.score.unsample, failure)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_text.values())

    def __len__(self) -> int:
        return len(self._by_text)


PLACES = 1 << 20
"""Subscriptions of one consumer that have a place of their own in the order."""


def by_priority(
    matching: Iterable[Group], met: list[Group] | None = None, may: May | None = None
) -> tuple[Subscription | None, Sequence[Group]]:
    """The subscription that takes a message; or the groups that would if somebody had room and
    may have it. `met` gets these groups, or that of the taker and those that were met before it."""
    full: list[Group] = []
    for group in matching:
        if full and group.priority < full[0].priority:
            break
        if met is not None:
            met.append(group)
        taker = group.next_open() if may is None else group.next_who(may)
        if taker is not None:
            return taker, ()
        full.append(group)
    return None, full


def everybody(matching: Iterable[Group]) -> Iterator[Subscription]:
    """One subscription of every session that has a matching, active one. A window of nothing
    pauses; other windows do not count, for nothing is confirmed."""
    reached: set[SessionId] = set()
    for group in matching:
        for member in group.rotation:
            if member.session not in reached and member.gate.is_open:
                reached.add(member.session)
                yield member

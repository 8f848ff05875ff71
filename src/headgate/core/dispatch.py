"""Who gets this message: everybody, or one by priority. An exclusive queue has only the one.

Subscriptions of an app with the same text form a group. Of a group only those with its
highest priority are active: when they are full the message waits for them, and is not given
to a lower one. Groups of one priority form a level, and levels are tried from the highest
down; a level in which something matches ends the search, whether or not anybody has room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from headgate.core.gate import Gate, Window
from headgate.core.message import Properties
from headgate.core.names import Seq, SessionId
from headgate.core.undo import Undo
from headgate.expr.predicate import Predicate


class Subscription:
    """One subscription of a consumer, with its window."""

    __slots__ = ("gate", "group", "index", "predicate", "priority", "session")

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
        self.group: Group | None = None
        """Where it is active; none while another of the same text has a higher priority."""

    @property
    def text(self) -> str | None:
        return self.predicate.text if self.predicate is not None else None


class Group:
    """The active subscriptions of one text. They take turns."""

    __slots__ = ("predicate", "priority", "rotation", "waiting")

    def __init__(self, members: Sequence[Subscription]) -> None:
        self.predicate = members[0].predicate
        self.priority = max(member.priority for member in members)
        self.rotation = deque(m for m in members if m.priority == self.priority)
        self.waiting: deque[Seq] = deque()
        """Messages that matched while everybody here was full, oldest first."""

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

    def matches(self, properties: Properties) -> bool:
        return self.predicate is None or self.predicate.matches(properties)

    def next_open(self) -> Subscription | None:
        """Whose turn it is. A full one is passed over and keeps its place."""
        for member in self.rotation:
            if member.gate.is_open:
                return member
        return None

    def rotate(self, member: Subscription, undo: Undo) -> None:
        """The member has had its turn."""
        place = self.rotation.index(member)
        del self.rotation[place]
        self.rotation.append(member)
        undo.note(self._unrotate, place)

    def _unrotate(self, place: int) -> None:
        self.rotation.insert(place, self.rotation.pop())


def levels_of(subscriptions: Iterable[Subscription]) -> list[list[Group]]:
    """Groups by priority, the highest first; within one priority in the order of arrival."""
    by_text: dict[str | None, list[Subscription]] = {}
    for subscription in subscriptions:
        by_text.setdefault(subscription.text, []).append(subscription)
    groups = [Group(members) for members in by_text.values()]
    groups.sort(key=lambda group: -group.priority)
    return [list(level) for _, level in groupby(groups, key=lambda group: group.priority)]


def by_priority(
    properties: Properties, levels: Sequence[Sequence[Group]]
) -> tuple[Subscription | None, Sequence[Group]]:
    """The subscription that takes a message; or the groups that would if they had room."""
    for level in levels:
        full = []
        for group in level:
            if group.matches(properties):
                taker = group.next_open()
                if taker is not None:
                    return taker, ()
                full.append(group)
        if full:
            return None, full
    return None, ()


def everybody(properties: Properties, levels: Sequence[Sequence[Group]]) -> Iterator[Subscription]:
    """One subscription of every session that has a matching, active one. A window of nothing
    pauses; other windows do not count, for nothing is confirmed."""
    reached: set[SessionId] = set()
    for level in levels:
        for group in level:
            if all(m.session in reached for m in group.rotation) or not group.matches(properties):
                continue
            for member in group.rotation:
                if member.session not in reached and member.gate.is_open:
                    reached.add(member.session)
                    yield member

"""Dispatch: the choice of the consumers of a message, all of them or one by priority.

Subscriptions of an app with the same text form a group. Only the subscriptions with a group's
highest priority are active: when they are full the message waits for them, and does not go to a
lower one. Groups are tried from the highest priority down, those of one priority in the order in
which their consumers came; the search ends at the first priority at which a group matches, with or
without room. An index finds the groups, so a message costs nothing for groups that cannot match.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from headgate.core.delivery.gate import Gate
from headgate.core.model.ids import Seq, SessionId
from headgate.core.model.message import Properties
from headgate.core.model.window import Window
from headgate.core.shared.expression_stats import SAMPLE_GROUPS, ExpressionStats
from headgate.core.turn.turn import Matched
from headgate.core.turn.undo import Undo
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
        """Its position in the consumer's own list."""
        self.predicate = predicate
        self.priority = priority
        self.gate = gate
        self.place = 0
        """The place of its consumer among those of the app."""
        self.group: Group | None = None
        """The group of its expression, while it belongs to the app."""

    @property
    def is_active(self) -> bool:
        """Whether it may get messages: no subscription with the same expression has a higher
        priority."""
        return self.group is not None and self.priority == self.group.priority

    @property
    def text(self) -> str | None:
        return self.predicate.text if self.predicate is not None else None


May: TypeAlias = Callable[[Subscription], bool]
"""Tells whether a subscription with room may get a message now."""


class Group:
    """The subscriptions with one expression. The active ones take turns, and begin anew when a
    member comes or leaves. That costs the other members nothing: the rotation is made when a
    message needs it."""

    __slots__ = (
        "_levels",
        "_rotation",
        "filed",
        "members",
        "predicate",
        "priority",
        "stats",
        "waiting",
    )

    def __init__(self, predicate: Predicate | None, stats: ExpressionStats) -> None:
        self.predicate = predicate
        self.members: list[Subscription] = []
        """In the order in which they joined."""
        self._levels: dict[int, int] = {}
        """Number of members with each priority."""
        self.priority = 0
        """The highest priority of the members."""
        self._rotation: deque[Subscription] | None = None
        self.waiting: deque[Seq] = deque()
        """Messages that matched while all members were full, oldest first."""
        self.stats = stats
        """Kept when the members change."""
        self.filed: tuple[int, int] | None = None
        """The priority and place under which the index has it."""

    @property
    def text(self) -> str | None:
        return self.predicate.text if self.predicate is not None else None

    @property
    def rotation(self) -> deque[Subscription]:
        """The active members, the next one in turn first."""
        if self._rotation is None:
            # S003-35, BMQ-27: only the highest priority of an expression gets messages.
            self._rotation = deque(m for m in self.members if m.priority == self.priority)
        return self._rotation

    @rotation.setter
    def rotation(self, members: deque[Subscription]) -> None:
        self._rotation = members

    @property
    def order(self) -> int:
        """Its order among the groups of one priority."""
        first = self.members[0]
        return first.place * PLACES + first.index

    def add(self, member: Subscription, undo: Undo) -> None:
        place = bisect_left(self.members, _place(member), key=_place)
        self.members.insert(place, member)
        undo.note(self.members.pop, place)
        undo.assign(member, "group", self)
        self._count(member.priority, 1, undo)

    def remove(self, member: Subscription, undo: Undo) -> None:
        place = bisect_left(self.members, _place(member), key=_place)
        assert self.members[place] is member, "a member is where it came"
        del self.members[place]
        undo.note(self.members.insert, place, member)
        undo.assign(member, "group", None)
        self._count(member.priority, -1, undo)

    def _count(self, priority: int, more: int, undo: Undo) -> None:
        count = self._levels.get(priority, 0) + more
        if count:
            undo.put(self._levels, priority, count)
        else:
            undo.pop(self._levels, priority)
        # S003-38, BMQ-53: when the highest leaves, the next takes over.
        undo.assign(self, "priority", max(self._levels, default=0))
        # BMQ-38: a new member takes part from now on, one that left is skipped.
        undo.assign(self, "_rotation", None)

    @property
    def capacity(self) -> Window:
        """The sum of the members' windows."""
        windows = [member.gate.window for member in self.rotation]
        sizes = [window.bytes for window in windows]
        return Window(
            # S003-39: the group can hold as much as its members together.
            sum(window.messages for window in windows),
            None if None in sizes else sum(size for size in sizes if size is not None),
        )

    def count_match(self) -> None:
        self.stats.matched += 1

    def next_open(self) -> Subscription | None:
        """The next open member in turn. A full one is skipped and keeps its place."""
        for member in self._rotation or self.rotation:
            # BMQ-39, BMQ-48: a full one is skipped, subscription by subscription.
            if member.gate.is_open:
                return member
        return None

    def next_who(self, may: May) -> Subscription | None:
        """The next member in turn of those for which `may` is true."""
        for member in self.rotation:
            if member.gate.is_open and may(member):
                return member
        return None

    def rotate(self, member: Subscription, undo: Undo) -> None:
        """Move a member that has had its turn to the end."""
        rotation = self._rotation or self.rotation
        if len(rotation) == 1:
            return
        place = rotation.index(member)
        del rotation[place]
        # S003-36, S003-41, BMQ-36, BMQ-37: the last served is the last of its group.
        rotation.append(member)
        undo.note(self._unrotate, place)

    def _unrotate(self, place: int) -> None:
        self.rotation.insert(place, self.rotation.pop())


class Groups:
    """The groups of an app by expression, and those that match a message in the order of dispatch.

    Owned by `App`; delivery asks it.
    """

    __slots__ = ("_by_text", "_index", "_unsampled", "looked_at")

    def __init__(self) -> None:
        self._by_text: dict[str | None, Group] = {}
        self._index: PredicateIndex[Group] = PredicateIndex()
        self.looked_at = 0
        """Number of times that a consumer was sought for a message."""
        self._unsampled: list[Group] = []
        """Groups still to be evaluated in full, the next one at the end."""

    def find(self, text: str | None) -> Group | None:
        return self._by_text.get(text)

    def add(self, member: Subscription, undo: Undo) -> Group:
        """Add a subscription. Call `file` for its group when all changes are made."""
        # S003-29, S003-40, S003-43, BMQ-22: equal texts are one group, and one evaluation.
        group = self._by_text.get(member.text)
        if group is None:
            group = Group(member.predicate, ExpressionStats(self.looked_at))
            undo.put(self._by_text, member.text, group)
        group.add(member, undo)
        return group

    def file(self, text: str | None, undo: Undo) -> None:
        """Place a group in the index as its members demand; an empty one is removed. The rotation
        of other groups goes on."""
        group = self._by_text.get(text)
        if group is None:
            return
        place = (group.priority, group.order) if group.members else None
        if place == group.filed and place is not None:
            return
        if group.filed is not None:
            undo.note(self._index.restore, self._index.remove(group))
        undo.assign(group, "filed", place)
        if place is None:
            undo.pop(self._by_text, text)
        else:
            # BMQ-28, BMQ-34: found from the highest priority down.
            self._index.add(group.predicate, group, *place)
            undo.note(self._index.remove, group)

    def matching(self, properties: Properties) -> Iterator[Group]:
        """The groups whose predicate is true, from the highest priority down, lazily."""
        return self._index.matching(properties)

    @property
    def candidates(self) -> int:
        """Number of groups found under the keys of the last message, where they are many."""
        return self._index.candidates

    def sample(self, properties: Properties, undo: Undo) -> None:
        """Evaluate some expressions in full, in turns, on a message that was dispatched."""
        if not self._unsampled:
            undo.assign(self, "_unsampled", list(self._by_text.values()))
        for _ in range(min(SAMPLE_GROUPS, len(self._unsampled))):
            group = self._unsampled.pop()
            undo.note(self._unsampled.append, group)
            if group.predicate is not None:
                sampled = group.stats.sample(group.predicate, properties)
                undo.note(group.stats.unsample, *sampled)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_text.values())

    def __len__(self) -> int:
        return len(self._by_text)


PLACES = 1 << 20
"""Subscriptions of one consumer that have an order of their own."""


def _place(member: Subscription) -> tuple[int, int]:
    return member.place, member.index


def by_priority(
    matching: Iterable[Group], met: list[Matched] | None = None, may: May | None = None
) -> tuple[Subscription | None, Sequence[Group]]:
    """The subscription that takes a message; or the groups that would if they had room and may.
    `met` gets these groups, or that of the taker and all before it."""
    full: list[Group] = []
    for group in matching:
        # S003-37, BMQ-41: no message spills over to a lower priority.
        if full and group.priority < full[0].priority:
            break
        if met is not None:
            met.append(group)
        # S003-13: within a priority, rotation and windows decide.
        taker = group.next_open() if may is None else group.next_who(may)
        if taker is not None:
            # S003-27, S003-30, S003-31, BMQ-30: the first match with room has it, and nobody else.
            return taker, ()
        full.append(group)
    return None, full


def everybody(matching: Iterable[Group]) -> Iterator[Subscription]:
    """One subscription of every session that has a matching, active one. An empty window pauses it;
    other windows do not count, since broadcasts are not confirmed."""
    reached: set[SessionId] = set()
    for group in matching:
        # BMQ-79, BMQ-80: for each expression all members with its highest priority.
        for member in group.rotation:
            # BMQ-78: all present consumers, once each.
            if member.session not in reached and member.gate.is_open:
                reached.add(member.session)
                yield member

"""The apps of a shared queue: what each still has to see, what it holds, what it put aside."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable

from headgate.core.dispatch import Group, Subscription, levels_of
from headgate.core.gate import Window
from headgate.core.names import AppId, Seq, SessionId
from headgate.core.undo import Undo


class App:
    """An independent reader of a queue.

    A message that the app references is in exactly one place: `fresh` or `again` while it is
    to be looked at, `aside` or `waiting` when nobody took it, `outstanding` while it is with a
    consumer. `again` holds what was looked at before and shall be looked at once more, because
    the subscriptions changed or a consumer gave it back; it goes before `fresh`.
    """

    __slots__ = (
        "again",
        "aside",
        "attempts",
        "consumers",
        "fresh",
        "id",
        "is_stale",
        "levels",
        "moved",
        "open",
        "outstanding",
        "returned",
        "size",
        "stuck",
        "texts",
        "waiting",
    )

    def __init__(self, id: AppId, now: float) -> None:
        self.id = id
        self.consumers: dict[SessionId, tuple[Subscription, ...]] = {}
        """By session, in the order in which they came."""
        self.size = 0
        """How many subscriptions all consumers have together."""
        self.texts: dict[str | None, int] = {}
        """The different expressions, and how many subscriptions have each."""
        self.levels: list[list[Group]] = []
        self.is_stale = False
        """The levels are not those of the consumers any more."""
        self.open = 0
        """Active subscriptions whose gate is open. While there is none, nothing is looked at."""
        self.fresh: deque[Seq] = deque()
        self.again: deque[Seq] = deque()
        self.aside: dict[Seq, None] = {}
        """Matched by nobody; not looked at again before the subscriptions change."""
        self.waiting: dict[Seq, tuple[Group, ...]] = {}
        """Matched by groups that were full."""
        self.outstanding: dict[Seq, Subscription] = {}
        self.attempts: dict[Seq, int] = {}
        """How often a consumer was lost with a message in its hands."""
        self.returned: set[Seq] = set()
        """Given back by a consumer and not delivered since."""
        self.moved = now
        """When it last made progress."""
        self.stuck = False

    def subscriptions(self) -> Iterable[Subscription]:
        for subscriptions in self.consumers.values():
            yield from subscriptions

    def undelivered(self) -> int:
        return len(self.fresh) + len(self.again) + len(self.aside) + len(self.waiting)

    def put_aside(self) -> int:
        return len(self.aside) + len(self.waiting)

    def oldest(self) -> Seq | None:
        """An undelivered message, the oldest of what was put aside first."""
        for place in (self.aside, self.waiting, self.again, self.fresh):
            if place:
                return min(place) if isinstance(place, dict) else place[0]
        return None

    def subscribe(
        self, session: SessionId, subscriptions: tuple[Subscription, ...] | None, undo: Undo
    ) -> None:
        """Replace a consumer's subscriptions, or remove the consumer. Rotation begins anew,
        and whatever was put aside is looked at again, before newer messages."""
        for subscription in self.consumers.get(session, ()):
            self._count(subscription.text, -1, undo)
        for subscription in subscriptions or ():
            self._count(subscription.text, +1, undo)
        # A new dictionary, since putting an item back would not put it back in its place.
        consumers = dict(self.consumers)
        if subscriptions is None:
            del consumers[session]
        else:
            consumers[session] = subscriptions
        undo.assign(self, "consumers", consumers)
        undo.assign(self, "is_stale", True)
        self.look_again((*self.aside, *self.waiting), undo)
        undo.assign(self, "aside", {})
        undo.assign(self, "waiting", {})

    def refresh(self, undo: Undo) -> None:
        """Build the levels of the subscriptions as they are now. It waits until something is
        in line: consumers that come one after another to an idle queue cost one building."""
        if not self.is_stale:
            return
        levels = levels_of(self.subscriptions())
        _mark(self.levels, levels)
        undo.note(_mark, levels, self.levels)
        undo.assign(self, "levels", levels)
        undo.assign(self, "open", self._count_open())
        undo.assign(self, "is_stale", False)

    def hold(self, session: SessionId, held: bool, undo: Undo) -> list[Group]:
        """Shut or open all gates of a consumer whose mailbox is full, or has room again.
        Return the groups that have room by it and messages waiting for that."""
        roomy = []
        for subscription in self.consumers.get(session, ()):
            was_open = subscription.gate.is_open
            undo.assign(subscription.gate, "held", held)
            group = subscription.group
            if group is not None and subscription.gate.is_open != was_open:
                undo.assign(self, "open", self.open + (1 if was_open is False else -1))
                if group.waiting and not was_open:
                    roomy.append(group)
        return roomy

    def look_again(self, seqs: Iterable[Seq], undo: Undo) -> None:
        """Put messages back in line: what a consumer gave back first, then in the order in
        which they arrived."""
        line = sorted({*self.again, *seqs}, key=lambda seq: (seq not in self.returned, seq))
        undo.assign(self, "again", deque(line))

    def admit(
        self, subscription: Subscription, seq: Seq, size: int, now: float, undo: Undo
    ) -> None:
        gate = subscription.gate
        was_full = gate.full
        gate.admit(seq, size, now)
        undo.note(gate.unadmit, seq, was_full)
        if subscription.group is not None and not gate.is_open:
            undo.assign(self, "open", self.open - 1)
        undo.put(self.outstanding, seq, subscription)

    def release(self, seq: Seq, undo: Undo) -> tuple[Subscription, float, Group | None] | None:
        """Take a message out of a consumer's hands. Return the subscription, when it was
        delivered, and the group that has room by it and messages waiting for that."""
        subscription = undo.pop(self.outstanding, seq)
        if subscription is None:
            return None
        gate = subscription.gate
        was_open, was_full = gate.is_open, gate.full
        delivery = gate.outstanding[seq]
        gate.confirm(seq)
        undo.note(gate.unconfirm, seq, delivery, was_full)
        group = subscription.group
        if group is None or was_open or not gate.is_open:
            return subscription, delivery[1], None
        undo.assign(self, "open", self.open + 1)
        return subscription, delivery[1], group if group.waiting else None

    def resize(self, subscription: Subscription, window: Window, undo: Undo) -> None:
        gate = subscription.gate
        undo.assign(gate, "full", gate.full)
        undo.note(gate.resize, gate.window)
        gate.resize(window)

    def forget(self, seq: Seq, undo: Undo) -> None:
        """The message is gone for this app. Where it stands in line it is passed over later."""
        undo.pop(self.aside, seq)
        undo.pop(self.waiting, seq)
        undo.pop(self.attempts, seq)
        undo.discard(self.returned, seq)

    def _count(self, text: str | None, change: int, undo: Undo) -> None:
        undo.assign(self, "size", self.size + change)
        count = self.texts.get(text, 0) + change
        if count:
            undo.put(self.texts, text, count)
        else:
            undo.pop(self.texts, text)

    def prune(self, entries: Container[Seq], undo: Undo) -> None:
        """Drop from the front of the lines what is gone. Without a consumer nobody else would
        look at it, and expired messages would pile up there."""
        for line in (self.again, self.fresh):
            while line and line[0] not in entries:
                undo.note(line.appendleft, line.popleft())

    def _count_open(self) -> int:
        return sum(
            member.gate.is_open
            for level in self.levels
            for group in level
            for member in group.rotation
        )


def _mark(before: list[list[Group]], after: list[list[Group]]) -> None:
    """Tell each subscription the group in which it is active, or that it is not any more."""
    for level in before:
        for group in level:
            for member in group.rotation:
                member.group = None
    for level in after:
        for group in level:
            for member in group.rotation:
                member.group = group

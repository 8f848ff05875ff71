"""The apps of a shared queue: what each still has to see, what it holds, what it put aside."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence

from headgate.core.commands import Interest
from headgate.core.dispatch import Group, Groups, Subscription
from headgate.core.gate import Window
from headgate.core.names import AppId, Seq, SessionId
from headgate.core.undo import Undo


class App:
    """An independent reader of a queue.

    A message that the app references is in exactly one place: `back`, `again` or `fresh` while
    it is to be looked at, `aside` or `waiting` when nobody took it, `outstanding` while it is with
    a consumer. `back` holds what a consumer gave back; `again` what nobody took and shall be looked
    at once more, because the subscriptions changed. They go before `fresh`.
    """

    __slots__ = (
        "again",
        "aside",
        "attempts",
        "back",
        "consumers",
        "fresh",
        "groups",
        "held",
        "id",
        "last_place",
        "moved",
        "open",
        "outstanding",
        "places",
        "pushed",
        "returned",
        "size",
        "stuck",
        "waiting",
    )

    def __init__(self, id: AppId, now: float) -> None:
        self.id = id
        self.consumers: dict[SessionId, tuple[Subscription, ...]] = {}
        """By session, in the order in which they came."""
        self.size = 0
        """How many subscriptions all consumers have together."""
        self.places: dict[SessionId, int] = {}
        self.last_place = 0
        """Who came first: of two that match, the earlier is asked first."""
        self.groups = Groups()
        self.open = 0
        """Active subscriptions whose gate is open. While there is none, nothing is looked at."""
        self.fresh: deque[Seq] = deque()
        self.again: deque[Seq] = deque()
        self.back: deque[Seq] = deque()
        self.aside: dict[Seq, None] = {}
        """Matched by nobody; not looked at again before the subscriptions change."""
        self.waiting: dict[Seq, tuple[Group, ...]] = {}
        """Matched by groups that were full."""
        self.outstanding: dict[Seq, Subscription] = {}
        self.attempts: dict[Seq, int] = {}
        """How often a consumer was lost with a message in its hands."""
        self.returned: set[Seq] = set()
        """Given back by a consumer and not delivered since."""
        self.pushed: dict[SessionId, tuple[Seq, float]] = {}
        """What each consumer was given last, and when, while it has it. Only where messages have a
        number of attempts."""
        self.held: tuple[Seq, float] | None = None
        """The first of `back`, if consumers are spared it, and until when."""
        self.moved = now
        """When it last made progress."""
        self.stuck = False

    def subscriptions(self) -> Iterable[Subscription]:
        for subscriptions in self.consumers.values():
            yield from subscriptions

    def in_line(self) -> int:
        return len(self.back) + len(self.again) + len(self.fresh)

    def undelivered(self) -> int:
        return self.in_line() + self.put_aside()

    def put_aside(self) -> int:
        return len(self.aside) + len(self.waiting)

    def waiting_for(self, group: Group) -> int:
        """How many messages wait for a group. Its line may have some that no longer do."""
        return len({seq for seq in group.waiting if group in self.waiting.get(seq, ())})

    def oldest(self) -> Seq | None:
        """An undelivered message, the oldest of what was put aside first."""
        for place in (self.aside, self.waiting, self.back, self.again, self.fresh):
            if place:
                return min(place) if isinstance(place, dict) else place[0]
        return None

    def subscribe(
        self,
        session: SessionId,
        subscriptions: tuple[Subscription, ...] | None,
        interests: Sequence[Interest],
        undo: Undo,
    ) -> None:
        """Replace a consumer's subscriptions, or remove the consumer. Rotation begins anew in
        the groups it was or is in, and whatever was put aside is looked at again, before newer
        messages. A subscription that stays takes on what its interest says now."""
        wanted: dict[str | None, list[Subscription]] = {
            old.text: [] for old in self.consumers.get(session, ())
        }
        for subscription in subscriptions or ():
            wanted.setdefault(subscription.text, []).append(subscription)
        groups = [self.groups.find(text) for text in wanted]
        undo.assign(self, "open", self.open - sum(map(_open_in, groups)))
        place = self._place_of(session, undo)
        pairs = zip(subscriptions or (), interests, strict=True)
        for index, (subscription, interest) in enumerate(pairs):
            undo.assign(subscription, "place", place)
            undo.assign(subscription, "index", index)
            undo.assign(subscription, "priority", interest.priority)
            self._resize(subscription, interest.window, undo)
        for text, members in wanted.items():
            self._regroup(session, text, members, undo)
        # A new dictionary, since putting an item back would not put it back in its place.
        consumers = dict(self.consumers)
        if subscriptions is None:
            del consumers[session]
            undo.pop(self.places, session)
            undo.pop(self.pushed, session)
        else:
            consumers[session] = subscriptions
        undo.assign(self, "consumers", consumers)
        if wanted:
            self._look_at_all_again(undo)

    def _place_of(self, session: SessionId, undo: Undo) -> int:
        """A consumer keeps its place among the others while it stays."""
        if session not in self.places:
            undo.assign(self, "last_place", self.last_place + 1)
            undo.put(self.places, session, self.last_place)
        return self.places[session]

    def _regroup(
        self, session: SessionId, text: str | None, members: list[Subscription], undo: Undo
    ) -> None:
        """Replace a consumer's subscriptions of one text; nobody else's are touched."""
        before = self.groups.find(text)
        others = [m for m in before.members if m.session != session] if before else []
        self.groups.replace(text, [*others, *members], undo)
        after = self.groups.find(text)
        undo.assign(self, "open", self.open + _open_in(after))
        size = self.size - len(before.members if before else ())
        undo.assign(self, "size", size + len(after.members if after else ()))

    def _look_at_all_again(self, undo: Undo) -> None:
        """Put aside or waiting for somebody: all of it goes back in line."""
        for group in {group for groups in self.waiting.values() for group in groups}:
            undo.assign(group, "waiting", deque())
        self.look_again((*self.aside, *self.waiting), undo)
        undo.assign(self, "aside", {})
        undo.assign(self, "waiting", {})

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
        """Put messages back in line, in the order in which they arrived."""
        line = sorted({*self.back, *self.again, *seqs})
        undo.assign(self, "back", deque(seq for seq in line if seq in self.returned))
        undo.assign(self, "again", deque(seq for seq in line if seq not in self.returned))

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
        if self.pushed and self.pushed.get(subscription.session, (None,))[0] == seq:
            undo.pop(self.pushed, subscription.session)
        gate.confirm(seq)
        undo.note(gate.unconfirm, seq, delivery, was_full)
        group = subscription.group
        if group is None or was_open or not gate.is_open:
            return subscription, delivery[1], None
        undo.assign(self, "open", self.open + 1)
        return subscription, delivery[1], group if group.waiting else None

    @staticmethod
    def _resize(subscription: Subscription, window: Window, undo: Undo) -> None:
        gate = subscription.gate
        undo.assign(gate, "full", gate.full)
        undo.note(gate.resize, gate.window)
        gate.resize(window)

    def is_rested(self, subscription: Subscription, since: float) -> bool:
        """Whether the last message that the consumer was given is that long ago, or done with."""
        last = self.pushed.get(subscription.session)
        return last is None or last[1] <= since

    def spare(self, seq: Seq, groups: Iterable[Group], seconds: float, undo: Undo) -> None:
        """Spare the consumers of these groups a message until the first of them is rested. Once
        said it is not put off, however many others they are given meanwhile."""
        if self.held is not None and self.held[0] == seq:
            return
        open_ = (m for group in groups for m in group.rotation if m.gate.is_open)
        until = min(self.pushed[member.session][1] for member in open_) + seconds
        undo.assign(self, "held", (seq, until))

    def forget(self, seq: Seq, undo: Undo) -> None:
        """The message is gone for this app. Where it stands in line it is passed over later."""
        undo.pop(self.aside, seq)
        undo.pop(self.waiting, seq)
        undo.pop(self.attempts, seq)
        undo.discard(self.returned, seq)

    def prune(self, entries: Container[Seq], undo: Undo) -> None:
        """Drop from the front of the lines what is gone. Without a consumer nobody else would
        look at it, and expired messages would pile up there."""
        for line in (self.back, self.again, self.fresh):
            while line and line[0] not in entries:
                undo.note(line.appendleft, line.popleft())


def _open_in(group: Group | None) -> int:
    return sum(member.gate.is_open for member in group.rotation) if group is not None else 0

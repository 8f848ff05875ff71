"""The apps of a shared queue: the messages that each has in line, has put aside and has with its
consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence

from headgate.core.commands import Interest
from headgate.core.delivery.gate import Gate
from headgate.core.model.ids import AppId, Seq, SessionId
from headgate.core.model.stream_id import FIRST
from headgate.core.model.window import Window
from headgate.core.shared.dispatch import Group, Groups, Subscription
from headgate.core.shared.redelivery import Redelivery
from headgate.core.turn.undo import Undo

BREATH_SUBSCRIPTIONS = 32
"""Subscriptions added or removed in a row, at ten microseconds to a millisecond each."""


class App:
    """An independent reader of a queue.

    A message that the app references is in exactly one place: `back`, `again` or `fresh` while it
    is in line, `aside` or `waiting` when no consumer took it, `outstanding` while it is with a
    consumer. `back` holds messages that consumers gave back; `again` those that are looked at once
    more because the subscriptions changed. Both go before `fresh`.
    """

    __slots__ = (
        "again",
        "aside",
        "back",
        "consumers",
        "fresh",
        "groups",
        "id",
        "last_place",
        "moved",
        "open",
        "outstanding",
        "passed",
        "places",
        "redelivery",
        "size",
        "stuck",
        "waiting",
    )

    def __init__(self, id: AppId, now: float) -> None:
        self.id = id
        self.consumers: dict[SessionId, tuple[Subscription, ...]] = {}
        """By session, in the order in which they subscribed."""
        self.size = 0
        """Number of subscriptions of all consumers."""
        self.places: dict[SessionId, int] = {}
        self.last_place = 0
        """The last place given to a consumer: of two that match, the earlier is asked first."""
        # BMQ-74: priorities and rotation are per app.
        self.groups = Groups()
        self.open = 0
        """Active subscriptions whose gate is open. Without any, no message is looked at."""
        self.fresh: deque[Seq] = deque()
        self.again: deque[Seq] = deque()
        self.back: deque[Seq] = deque()
        self.aside: dict[Seq, None] = {}
        """Messages that no subscription matched; not looked at again before the subscriptions
        change."""
        self.waiting: dict[Seq, tuple[Group, ...]] = {}
        """Messages whose matching groups were full."""
        self.outstanding: dict[Seq, Subscription] = {}
        self.redelivery = Redelivery()
        self.moved = now
        """Time of its last progress."""
        self.passed = FIRST
        """The last message that a reader was given, or that the app was moved to."""
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
        """Number of messages that wait for a group. Its own line may still have some that no longer
        do."""
        return len({seq for seq in group.waiting if group in self.waiting.get(seq, ())})

    def oldest(self) -> Seq | None:
        """An undelivered message: the oldest one put aside, if there is any."""
        for place in (self.aside, self.waiting, self.back, self.again, self.fresh):
            if place:
                return min(place) if isinstance(place, dict) else place[0]
        return None

    def subscribing(
        self,
        session: SessionId,
        subscriptions: tuple[Subscription, ...] | None,
        interests: Sequence[Interest],
        undo: Undo,
    ) -> Iterator[None]:
        """Replace a consumer's subscriptions, or remove the consumer, some subscriptions at a time.
        Rotation begins anew in its old and new groups, and messages put aside are looked at again,
        before newer ones. A subscription that stays takes on its new settings."""
        mine = self.consumers.get(session, ())
        texts = dict.fromkeys(each.text for each in (*mine, *(subscriptions or ())))
        levels = {text: self._level(text) for text in texts}
        self._count_open(-sum(each.is_active and each.gate.is_open for each in mine), undo)
        for number, each in enumerate(mine, 1):
            assert each.group is not None, "a consumer's subscriptions are in groups"
            each.group.remove(each, undo)
            if number % BREATH_SUBSCRIPTIONS == 0:
                yield
        place = self._place_of(session, undo)
        coming: dict[str | None, list[Subscription]] = {text: [] for text in texts}
        pairs = zip(subscriptions or (), interests, strict=True)
        for index, (subscription, interest) in enumerate(pairs):
            undo.assign(subscription, "place", place)
            undo.assign(subscription, "index", index)
            # S003-24, BMQ-32: each subscription has its own priority.
            undo.assign(subscription, "priority", interest.priority)
            self._resize(subscription, interest.window, undo)
            self.groups.add(subscription, undo)
            coming[subscription.text].append(subscription)
            if index % BREATH_SUBSCRIPTIONS == BREATH_SUBSCRIPTIONS - 1:
                yield
        for number, text in enumerate(texts, 1):
            self._count_open(self._opened(text, levels[text], coming[text]), undo)
            self.groups.file(text, undo)
            if number % BREATH_SUBSCRIPTIONS == 0:
                yield
        undo.assign(self, "size", self.size - len(mine) + len(subscriptions or ()))
        self._replace(session, subscriptions, undo)
        if texts:
            # S003-16, S003-23, BMQ-25, BMQ-42: a change applies to all messages that no consumer
            # took so far.
            self.look_at_all_again(undo)

    def _replace(
        self, session: SessionId, subscriptions: tuple[Subscription, ...] | None, undo: Undo
    ) -> None:
        """Set or remove the subscriptions of a consumer."""
        if subscriptions is not None:
            undo.put(self.consumers, session, subscriptions)
            return
        undo.note(self._put_in_order)
        undo.pop(self.consumers, session)
        undo.pop(self.places, session)
        self.redelivery.leave(session, undo)

    def _put_in_order(self) -> None:
        """Sort the consumers: one that is restored comes last, and may have come earlier. The
        dictionary stays the same object, since earlier changes of the turn are still undone in
        it."""
        ordered = sorted(self.consumers.items(), key=lambda item: self.places[item[0]])
        self.consumers.clear()
        self.consumers.update(ordered)

    def _level(self, text: str | None) -> int | None:
        """The priority at which the subscriptions of an expression are active."""
        group = self.groups.find(text)
        return group.priority if group is not None else None

    def _count_open(self, more: int, undo: Undo) -> None:
        if more:
            undo.assign(self, "open", self.open + more)

    def _opened(self, text: str | None, before: int | None, coming: list[Subscription]) -> int:
        """How many more open active subscriptions an expression has after some came and others
        left. Subscriptions that stayed count only if another priority is active now."""
        group = self.groups.find(text)
        if group is None or not group.members:
            return 0
        after = group.priority
        opened = sum(each.gate.is_open for each in coming if each.priority == after)
        if before is not None and before != after:
            new = set(coming)
            stayed = [each for each in group.members if each not in new and each.gate.is_open]
            opened += sum((m.priority == after) - (m.priority == before) for m in stayed)
        return opened

    def _place_of(self, session: SessionId, undo: Undo) -> int:
        """The place of a consumer, which it keeps until it leaves."""
        if session not in self.places:
            undo.assign(self, "last_place", self.last_place + 1)
            undo.put(self.places, session, self.last_place)
        return self.places[session]

    def look_at_all_again(self, undo: Undo) -> None:
        """Put all messages back in line that were put aside or wait for a group."""
        for group in {group for groups in self.waiting.values() for group in groups}:
            undo.assign(group, "waiting", deque())
        self.look_again((*self.aside, *self.waiting), undo)
        undo.assign(self, "aside", {})
        undo.assign(self, "waiting", {})

    def hold(self, session: SessionId, held: bool, undo: Undo) -> list[Group]:
        """Shut or open all gates of a consumer whose mailbox is full, or has room again. Return the
        groups that now have room and messages waiting for it."""
        roomy = []
        for subscription in self.consumers.get(session, ()):
            gate = subscription.gate
            if gate.held == held:
                continue
            undo.assign(gate, "held", held)
            if not gate.full and subscription.is_active:
                group = subscription.group
                assert group is not None, "what is active is in a group"
                undo.assign(self, "open", self.open + (-1 if held else 1))
                if group.waiting and not held:
                    roomy.append(group)
        return roomy

    def look_again(self, seqs: Iterable[Seq], undo: Undo) -> None:
        """Put messages back in line, in the order of arrival."""
        # Each part is nearly sorted, which makes sorting fast.
        # BMQ-24: messages that waited go back in line oldest first.
        line = dict.fromkeys(sorted([*self.back, *self.again, *seqs]))
        returned = self.redelivery.returned
        undo.assign(self, "back", deque(seq for seq in line if seq in returned))
        undo.assign(self, "again", deque(seq for seq in line if seq not in returned))

    def move(self, now: float, undo: Undo) -> None:
        """Note that it makes progress."""
        if self.moved != now:
            undo.assign(self, "moved", now)

    def admit(
        self, subscription: Subscription, seq: Seq, size: int, now: float, undo: Undo
    ) -> None:
        gate = subscription.gate
        was_full = gate.full
        gate.admit(seq, size, now)
        self.outstanding[seq] = subscription
        undo.note(self._unadmit, gate, seq, was_full)
        if gate.full and subscription.is_active:
            undo.assign(self, "open", self.open - 1)

    def _unadmit(self, gate: Gate[Seq], seq: Seq, was_full: bool) -> None:
        """Take back an `admit`."""
        gate.unadmit(seq, was_full)
        del self.outstanding[seq]

    def hand_over(
        self, subscription: Subscription, seq: Seq, size: int, at: float, undo: Undo
    ) -> None:
        """Give a message to a reader that claimed it, even if it has no pull under way."""
        gate = subscription.gate
        gate.hold(seq, size, at)
        undo.note(gate.unadmit, seq, gate.full)
        undo.put(self.outstanding, seq, subscription)

    def take_out(self, seq: Seq, undo: Undo) -> None:
        """Take a message out of the line it is in. The time grows with the length of the line."""
        undo.pop(self.aside, seq)
        undo.pop(self.waiting, seq)
        for line in (self.back, self.again, self.fresh):
            if seq in line:
                place = line.index(seq)
                del line[place]
                undo.note(line.insert, place, seq)

    def release(self, seq: Seq, undo: Undo) -> tuple[Subscription, float, Group | None] | None:
        """Take a message out of a consumer's hands. Return the subscription, when it was
        delivered, and the group that has room by it and messages waiting for that."""
        subscription = self.outstanding.pop(seq, None)
        if subscription is None:
            return None
        gate = subscription.gate
        was_full = gate.full
        delivery = gate.outstanding[seq]
        if self.redelivery.last_given:
            self.redelivery.release(seq, subscription.session, undo)
        gate.confirm(seq)
        undo.note(self._unrelease, subscription, seq, delivery, was_full)
        if not was_full or gate.full or gate.held:
            return subscription, delivery[1], None
        group = subscription.group
        if group is None or not subscription.is_active:
            return subscription, delivery[1], None
        undo.assign(self, "open", self.open + 1)
        return subscription, delivery[1], group if group.waiting else None

    def _unrelease(
        self, subscription: Subscription, seq: Seq, delivery: tuple[int, float], was_full: bool
    ) -> None:
        """Take back a `release`."""
        self.outstanding[seq] = subscription
        subscription.gate.unconfirm(seq, delivery, was_full)

    @staticmethod
    def _resize(subscription: Subscription, window: Window, undo: Undo) -> None:
        gate = subscription.gate
        undo.assign(gate, "full", gate.full)
        undo.note(gate.resize, gate.window)
        gate.resize(window)

    def forget(self, seq: Seq, undo: Undo) -> None:
        """Remove a message from the app. If it is in line it is skipped later."""
        if self.aside:
            undo.pop(self.aside, seq)
        if self.waiting:
            undo.pop(self.waiting, seq)
        redelivery = self.redelivery
        if redelivery.attempts or redelivery.repeats or redelivery.returned:
            redelivery.forget(seq, undo)

    def prune(self, entries: Container[Seq], undo: Undo) -> None:
        """Drop removed messages from the front of the lines. Without a consumer no delivery would
        do so, and expired messages would pile up."""
        for line in (self.back, self.again, self.fresh):
            while line and line[0] not in entries:
                undo.note(line.appendleft, line.popleft())

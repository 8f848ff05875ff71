"""Redelivery: how often a message is tried again, when, and which consumers are spared it.

A message may be the reason why its consumer was lost. Every such loss is an attempt; a message
without attempts left is poisoned, and removed. One with few left is delayed: it is given only to a
consumer that was given nothing for a while, or has confirmed its last message, so that few such
messages are with one consumer at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.model.domain import Domain
from headgate.core.model.ids import Seq, SessionId
from headgate.core.shared.dispatch import Group, Subscription
from headgate.core.turn.undo import Undo

ATTEMPTS_MANY, ATTEMPTS_FEW = 4, 2
"""More than four attempts left: no delay. Three or four: `suspicious_delay_low`. One or two:
`suspicious_delay_high`."""


def delay_after(attempts: int, domain: Domain) -> float:
    """Seconds that a consumer is spared a message that caused so many losses."""
    left = domain.max_delivery_attempts - attempts
    if not attempts or not domain.max_delivery_attempts or left > ATTEMPTS_MANY:
        return 0.0
    return domain.suspicious_delay_low if left > ATTEMPTS_FEW else domain.suspicious_delay_high


class Redelivery:
    """Messages of an app that came back: the number of losses with each, and those that consumers
    are spared.

    Owned by `App`. Delivery asks it before a message is given again.
    """

    __slots__ = ("attempts", "last_given", "repeats", "returned", "spared")

    def __init__(self) -> None:
        self.attempts: dict[Seq, int] = {}
        """How often a consumer was lost while it had a message."""
        self.repeats: dict[Seq, int] = {}
        """How often a message was given beyond the first time."""
        self.returned: set[Seq] = set()
        """Messages given back by a consumer and not delivered since."""
        self.last_given: dict[SessionId, tuple[Seq, float]] = {}
        """The last message of each consumer and its time, while it has it. Only in domains that
        limit attempts."""
        self.spared: tuple[Seq, float] | None = None
        """The first message to be redelivered, if consumers are spared it, and until when."""

    def delay(self, seq: Seq, domain: Domain) -> float:
        """Seconds that a consumer must have been given nothing else before it gets this message."""
        return delay_after(self.attempts.get(seq, 0), domain)

    def delay_left(self, seq: Seq, domain: Domain, now: float) -> float:
        """The delay that is left: 0 if consumers were spared the message long enough."""
        if self.spared is not None and self.spared[0] == seq and now >= self.spared[1]:
            return 0.0
        return self.delay(seq, domain)

    def is_due(self, now: float) -> bool:
        """Whether consumers were spared a message long enough."""
        return self.spared is not None and now >= self.spared[1]

    def blame(self, seq: Seq, undo: Undo) -> int:
        """Count the loss of a consumer with the message; return the number of losses."""
        attempts = self.attempts.get(seq, 0) + 1
        undo.put(self.attempts, seq, attempts)
        return attempts

    def give_back(self, seq: Seq, undo: Undo) -> None:
        """Note that a consumer gave the message back."""
        undo.add(self.returned, seq)

    def deliver(self, seq: Seq, session: SessionId, domain: Domain, now: float, undo: Undo) -> None:
        """Note that a consumer gets the message."""
        if seq in self.returned:
            undo.discard(self.returned, seq)
            self.count(seq, undo)
        if domain.max_delivery_attempts:
            undo.put(self.last_given, session, (seq, now))

    def count(self, seq: Seq, undo: Undo) -> None:
        """Count one more delivery of the message."""
        undo.put(self.repeats, seq, self.repeats.get(seq, 0) + 1)

    def release(self, seq: Seq, session: SessionId, undo: Undo) -> None:
        """Note that the consumer no longer has the message."""
        if self.last_given and self.last_given.get(session, (None,))[0] == seq:
            undo.pop(self.last_given, session)

    def leave(self, session: SessionId, undo: Undo) -> None:
        """Remove a consumer that is gone."""
        undo.pop(self.last_given, session)

    def is_rested(self, subscription: Subscription, since: float) -> bool:
        """Whether the consumer's last message was given that long ago, or is confirmed."""
        last = self.last_given.get(subscription.session)
        return last is None or last[1] <= since

    def spare(self, seq: Seq, groups: Iterable[Group], seconds: float, undo: Undo) -> None:
        """Spare the consumers of these groups a message until the first of them is rested. The time
        is set once and not moved, whatever they are given meanwhile."""
        if self.spared is not None and self.spared[0] == seq:
            return
        open_ = (m for group in groups for m in group.rotation if m.gate.is_open)
        until = min(self.last_given[member.session][1] for member in open_) + seconds
        undo.assign(self, "spared", (seq, until))

    def spare_no_longer(self, undo: Undo) -> None:
        """End the sparing: the message was given to a consumer."""
        if self.spared is not None:
            undo.assign(self, "spared", None)

    def forget(self, seq: Seq, undo: Undo) -> None:
        """Remove a message that the app no longer has."""
        if self.attempts:
            undo.pop(self.attempts, seq)
        if self.repeats:
            undo.pop(self.repeats, seq)
        if self.returned:
            undo.discard(self.returned, seq)

"""One turn under way: what it knows, what it changed, what it will say."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.core.commands import Command, Drained
from headgate.core.dispatch import Group
from headgate.core.effects import Deliver, Done, Effect, Failed
from headgate.core.facts import Fact
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.facts import Refused as RefusedFact
from headgate.core.names import MessageId, QueueId, Ref, Seq, SessionId
from headgate.core.parties import SEALED_BYTES
from headgate.core.steps import Batch, Loaded
from headgate.core.undo import Undo
from headgate.errors import HeadgateError, LimitReached

DELIVERY_BYTES = 64
"""What a wire writes around a message of a shared queue, about."""


@dataclass(slots=True)
class Turn:
    """Handed to every part of a shard that has a say in the turn."""

    now: float
    outbox_is_full: bool = False
    """The journal does not keep up: messages are refused, as on a full disk."""
    needs: dict[QueueId, int] = field(default_factory=dict)
    """How many first messages of exclusive queues its commands need at most, loaded or not."""
    loaded: Loaded = field(default_factory=Loaded)
    batch: Batch = field(default_factory=Batch)
    undo: Undo = field(default_factory=Undo)
    effects: list[Effect] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    again: list[Command] = field(default_factory=list)
    expires: bool = False
    """Whether messages whose time is over are to be removed, when all else is decided."""
    bodiless: list[tuple[int, Seq]] = field(default_factory=list)
    """Deliveries, by their place among the effects, whose body is still to be read."""
    sent: dict[SessionId, int] = field(default_factory=dict)
    """Bytes of the deliveries of this turn, by session."""
    looks: int = 0
    """For so many messages a consumer may still be sought."""
    met: list[Group] = field(default_factory=list)
    """Groups that match a message that was looked at, counted when the turn has happened."""
    _full: set[SessionId] = field(default_factory=set)
    _pushed: dict[tuple[SessionId, QueueId], MessageId] = field(default_factory=dict)

    def push(self, delivery: Deliver) -> bool:
        """Say a delivery that nobody asked for, unless this turn has said it already.

        Two subscribes of one queue in one turn each deliver its head; the peer needs it once.
        """
        key = (delivery.session, delivery.queue)
        if self._pushed.get(key) == delivery.message.id:
            return False
        self._pushed[key] = delivery.message.id
        self.deliver(delivery)
        return True

    def forget_pushes(self, session: SessionId, queue: QueueId | None = None) -> None:
        """The session lost the queue, or all of them: should it get one back, it is told again."""
        if queue is not None:
            self._pushed.pop((session, queue), None)
            return
        for key in [key for key in self._pushed if key[0] == session]:
            del self._pushed[key]

    def deliver(self, delivery: Deliver, size: int | None = None) -> None:
        """Say a delivery. Its size is given if its body is still to be read."""
        self.effects.append(delivery)
        if size is not None:
            size += DELIVERY_BYTES
        else:
            size = delivery.message.size if delivery.parties is None else SEALED_BYTES
        self.sent[delivery.session] = self.sent.get(delivery.session, 0) + size

    def look_again(self, session: SessionId) -> None:
        """Come back to a session that had no room, once this turn's deliveries are out."""
        if session not in self._full:
            self._full.add(session)
            self.again.append(Drained(session))

    def done(self, session: SessionId, ref: Ref) -> None:
        if ref is not None:
            self.effects.append(Done(session, ref))

    def fail(self, session: SessionId, ref: Ref, queue: QueueId, error: HeadgateError) -> None:
        # An error that becomes a value keeps no frames alive: one of them holds this turn.
        self.effects.append(Failed(session, ref, error.with_traceback(None)))
        if isinstance(error, LimitReached):
            self.facts.append(LimitReachedFact(self.now, error.name, error.limit, session))
        else:
            self.facts.append(RefusedFact(self.now, queue, type(error).__name__))

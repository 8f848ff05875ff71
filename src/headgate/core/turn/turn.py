"""One turn under way: what it knows, what it changed, what it will say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from headgate.core.commands import Command, Drained
from headgate.core.effects import Deliver, Done, Effect, Failed
from headgate.core.facts import Delivered, Fact
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.facts import Refused as RefusedFact
from headgate.core.model.binding import Spoken
from headgate.core.model.ids import AppId, MessageId, QueueId, Ref, Seq, SessionId
from headgate.core.model.parties import SEALED_BYTES
from headgate.core.model.value import value
from headgate.core.turn.store_requests import Batch, Loaded
from headgate.core.turn.undo import Undo
from headgate.errors import HeadgateError, LimitReached

DELIVERY_BYTES = 64
"""What a wire writes around a message of a shared queue, about."""

TESTS_PER_LOOK = 4
"""Tests of expressions that take as long as the rest of a look, at the worst."""

COMMAND_WORK = 4
EXPRESSION_BYTE_WORK = 2
PROOF_WORK = 20
"""What a command costs, to compile a byte of an expression, and to try a key on a signature, in
looks."""

BREATH_WORK = 256
"""Looks, or their like, that are done in a row: two or three milliseconds."""


class Matched(Protocol):
    """Something that counts the messages it matches, once they were looked at for good."""

    def count_match(self) -> None: ...


@value
class Pushed:
    """A delivery that nobody asked for, and its places among the effects and the facts."""

    message: MessageId
    effect: int
    fact: int


@dataclass(slots=True)
class Turn:
    """Handed to every part of a shard that has a say in the turn."""

    now: float
    sure: float
    """The latest time beyond doubt: by it things are too old. It is `now`, unless somebody has
    set the machine's clock."""
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
    spoken: list[Spoken] = field(default_factory=list)
    """What is to be heard on channels, in order."""
    expires: bool = False
    """Whether messages whose time is over are to be removed, when all else is decided."""
    bodiless: list[tuple[int, Seq]] = field(default_factory=list)
    """Deliveries, by their place among the effects, whose body is still to be read."""
    sent: dict[SessionId, int] = field(default_factory=dict)
    """Bytes of the deliveries of this turn, by session."""
    sent_bytes: int = 0
    """Bytes of its deliveries. All of them are in memory together, so that who asks for more when
    it has many is told in the next turn."""
    looks: int = 0
    """For so many messages a consumer may still be sought, at about ten microseconds each."""
    work: int = 0
    """What was done since others were served, counted in looks."""
    expression_bytes: int = 0
    """So many bytes of expressions may still be compiled."""
    returns: int = 0
    """So many messages may still be taken back from consumers that left."""
    expiries: int = 0
    """So many messages of shared queues may still be removed because their time is over."""
    met: list[Matched] = field(default_factory=list)
    """Each time that something matched a message, counted when the turn has happened."""
    used: dict[QueueId, None] = field(default_factory=dict)
    """Exclusive queues that its commands named or that were loaded, in order."""
    gated: set[SessionId] = field(default_factory=set)
    """Sessions whose unconfirmed deliveries of exclusive queues may be others now."""
    doomed: list[tuple[QueueId, AppId, Seq, int]] = field(default_factory=list)
    """Messages without attempts left that are to be dead letters, each of an app, and how often
    consumers were lost with it. They stand in no line until that is decided."""
    _full: set[SessionId] = field(default_factory=set)
    _pushed: dict[tuple[SessionId, QueueId], Pushed] = field(default_factory=dict)
    """The last that nobody asked for."""
    _needless: list[Pushed] = field(default_factory=list)
    """Deliveries that nobody needs to be told any more."""

    def charge(self, looks: int) -> None:
        """Seeking consumers takes, or took, so much."""
        self.looks -= looks
        self.work += looks

    def take_breath(self) -> bool:
        """Whether so much was done in a row that others are to be served; then it counts anew."""
        if self.work < BREATH_WORK:
            return False
        self.work = 0
        return True

    def push(self, delivery: Deliver, fact: Delivered) -> None:
        """Say a delivery that nobody asked for, unless this turn has said it already.

        Two subscribes of one queue in one turn each deliver its head; the peer needs it once.
        """
        key = (delivery.session, delivery.queue)
        before = self._pushed.get(key)
        # S004-50: twice subscribed in one turn is delivered once.
        if before is None or before.message != delivery.message.id:
            self._pushed[key] = Pushed(delivery.message.id, len(self.effects), len(self.facts))
            self.deliver(delivery)
            self.facts.append(fact)

    def confirmed(self, session: SessionId, queue: QueueId, message: MessageId) -> None:
        """The session knows the message already, so it is not told what this turn had to say of
        it. It would hear of it after the answer to its confirm, as if it had come again."""
        pushed = self._pushed.get((session, queue))
        if pushed is not None and pushed.message == message:
            del self._pushed[session, queue]
            self._needless.append(pushed)
            delivery = self.effects[pushed.effect]
            assert isinstance(delivery, Deliver), "a push is a delivery"
            self.sent[session] -= delivery_size(delivery)

    def leave_out_needless(self) -> None:
        """Leave out deliveries that turned out to be needless, when everything is decided and no
        place is remembered any more."""
        if self._needless:
            effects = {pushed.effect for pushed in self._needless}
            facts = {pushed.fact for pushed in self._needless}
            self.effects = [e for place, e in enumerate(self.effects) if place not in effects]
            self.facts = [f for place, f in enumerate(self.facts) if place not in facts]

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
        size = delivery_size(delivery) if size is None else size + DELIVERY_BYTES
        self.sent[delivery.session] = self.sent.get(delivery.session, 0) + size
        self.sent_bytes += size

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


def delivery_size(delivery: Deliver) -> int:
    """The bytes of a delivery whose body is known."""
    return delivery.message.size if delivery.parties is None else SEALED_BYTES

"""One turn under way: what it knows, its changes and its effects."""

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
"""Bytes that a wire adds to a message of a shared queue, about."""

TESTS_PER_LOOK = 4
"""Tests of expressions that cost as much as the rest of a look, at worst."""

COMMAND_WORK = 4
EXPRESSION_BYTE_WORK = 2
PROOF_WORK = 20
"""Costs in looks: of a command, of compiling a byte of an expression, and of checking a signature
with one key."""

BREATH_WORK = 256
"""Work done in a row, in looks: two or three milliseconds."""


class Matched(Protocol):
    """A matcher that counts its messages, once they were decided on for good."""

    def count_match(self) -> None: ...


@value
class Pushed:
    """A delivery that no command asked for, and its places among the effects and the facts."""

    message: MessageId
    effect: int
    fact: int


@dataclass(slots=True)
class Turn:
    """The state of one turn: its time, batch, effects, facts, and the notes to undo it.

    Made by the shard for each turn, and passed to every part of it that decides. Its effects leave
    the shard when the batch is in the store.
    """

    now: float
    sure: float
    """The time by which messages are certainly too old: `now`, unless the machine's clock was
    set."""
    outbox_is_full: bool = False
    """Whether the journal does not keep up: messages are then refused, as on a full disk."""
    needs: dict[QueueId, int] = field(default_factory=dict)
    """The number of first messages of each exclusive queue that its commands need at most, loaded
    or not."""
    loaded: Loaded = field(default_factory=Loaded)
    batch: Batch = field(default_factory=Batch)
    undo: Undo = field(default_factory=Undo)
    effects: list[Effect] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    again: list[Command] = field(default_factory=list)
    spoken: list[Spoken] = field(default_factory=list)
    """Messages to publish on channels, in order."""
    expires: bool = False
    """Whether expired messages are to be removed after everything else."""
    bodiless: list[tuple[int, Seq]] = field(default_factory=list)
    """Deliveries whose body is still to be read, by their place among the effects."""
    sent: dict[SessionId, int] = field(default_factory=dict)
    """Bytes of the deliveries of this turn, by session."""
    sent_bytes: int = 0
    """Bytes of all its deliveries. They are in memory together, so beyond a limit a session that
    asks for more is answered in the next turn."""
    looks: int = 0
    """Messages for which a consumer may still be sought, at about ten microseconds each."""
    work: int = 0
    """Work done since others got a turn, in looks."""
    expression_bytes: int = 0
    """Bytes of expressions that may still be compiled."""
    returns: int = 0
    """Messages that may still be taken back from consumers that left."""
    expiries: int = 0
    """Expired messages of shared queues that may still be removed."""
    met: list[Matched] = field(default_factory=list)
    """Each time that something matched a message, counted when the turn has happened."""
    used: dict[QueueId, None] = field(default_factory=dict)
    """Exclusive queues that its commands named or that were loaded, in order."""
    gated: set[SessionId] = field(default_factory=set)
    """Sessions whose unconfirmed deliveries of exclusive queues may have changed."""
    doomed: list[tuple[QueueId, AppId, Seq, int]] = field(default_factory=list)
    """Messages without attempts left that will be dead letters, each of an app, with the number of
    losses. They are in no line until that is decided."""
    _full: set[SessionId] = field(default_factory=set)
    _pushed: dict[tuple[SessionId, QueueId], Pushed] = field(default_factory=dict)
    """The last deliveries that no command asked for."""
    _needless: list[Pushed] = field(default_factory=list)
    """Deliveries to leave out, since they are no longer needed."""

    def charge(self, looks: int) -> None:
        """Count the work of seeking consumers for so many messages."""
        self.looks -= looks
        self.work += looks

    def take_breath(self) -> bool:
        """Whether others should get a turn now; if so, the count starts anew."""
        if self.work < BREATH_WORK:
            return False
        self.work = 0
        return True

    def push(self, delivery: Deliver, fact: Delivered) -> None:
        """Add a delivery that no command asked for, unless this turn has it already.

        Two subscribe commands of one queue in one turn each deliver its first message; the client
        needs it once.
        """
        key = (delivery.session, delivery.queue)
        before = self._pushed.get(key)
        # S004-50: twice subscribed in one turn is delivered once.
        if before is None or before.message != delivery.message.id:
            self._pushed[key] = Pushed(delivery.message.id, len(self.effects), len(self.facts))
            self.deliver(delivery)
            self.facts.append(fact)

    def confirmed(self, session: SessionId, queue: QueueId, message: MessageId) -> None:
        """Leave out the delivery of a message that the session has just confirmed. After the answer
        to its confirm, it would look like a new delivery."""
        pushed = self._pushed.get((session, queue))
        if pushed is not None and pushed.message == message:
            del self._pushed[session, queue]
            self._needless.append(pushed)
            delivery = self.effects[pushed.effect]
            assert isinstance(delivery, Deliver), "a push is a delivery"
            self.sent[session] -= delivery_size(delivery)

    def leave_out_needless(self) -> None:
        """Remove the deliveries that are not needed, after all decisions, when no place among the
        effects is used any more."""
        if self._needless:
            effects = {pushed.effect for pushed in self._needless}
            facts = {pushed.fact for pushed in self._needless}
            self.effects = [e for place, e in enumerate(self.effects) if place not in effects]
            self.facts = [f for place, f in enumerate(self.facts) if place not in facts]

    def forget_pushes(self, session: SessionId, queue: QueueId | None = None) -> None:
        """Forget the pushes to a session that lost the queue, or all queues: if it gets one back,
        its message is delivered again."""
        if queue is not None:
            self._pushed.pop((session, queue), None)
            return
        for key in [key for key in self._pushed if key[0] == session]:
            del self._pushed[key]

    def deliver(self, delivery: Deliver, size: int | None = None) -> None:
        """Add a delivery. Its size is given if its body is still to be read."""
        self.effects.append(delivery)
        size = delivery_size(delivery) if size is None else size + DELIVERY_BYTES
        self.sent[delivery.session] = self.sent.get(delivery.session, 0) + size
        self.sent_bytes += size

    def look_again(self, session: SessionId) -> None:
        """Look again at a session without room, after this turn's deliveries are written."""
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
    """The size of a delivery whose body is known."""
    return delivery.message.size if delivery.parties is None else SEALED_BYTES

"""Answers that wait for turns, in order.

A command on a stream is carried out in a turn of the core. Several such commands of one client may
be under way together, and are answered in order; any other command waits for them, so that when a
client adds an entry and then publishes, the entry is there first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from headgate.core.commands import Command, Open
from headgate.core.effects import Deliver, Effect, Failed, ref_of
from headgate.core.model.limits import MiB
from headgate.core.reader_commands import Block, ReaderRequest, Withdraw
from headgate.core.reader_effects import Fed
from headgate.errors import HeadgateError, Overloaded, StoreError
from headgate.wire.resp.codec.replies import CommandError, Decided, Deferred, Reply

if TYPE_CHECKING:
    from headgate.wire.resp.commands.table import CommandEntry
    from headgate.wire.resp.session import RespSession

UNDER_WAY_MAX = 4096
"""Most commands of one client that wait for turns; others wait until these are answered."""
UNDER_WAY_BYTES = 16 * MiB
"""Most bytes of them."""
ENTRY_BYTES = 64
"""Bytes of an entry in an answer besides its body, about."""
AGAIN_SECONDS = 0.02
"""Seconds until commands are submitted again, if the inbox had no room."""

STORE_FAILED = "ERR the store failed, and nothing was done: try again"
UNBLOCKED = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

Answer: TypeAlias = Callable[[list[Deliver], Effect], Reply]
"""Makes the answer of the messages that came and the effect that ends the request."""
Refusal: TypeAlias = Callable[[HeadgateError], CommandError | None]
"""Makes the answer of an error, if there is a better one than its text."""


class ReplyRoom:
    """Bytes that the answers of one transaction may have, and the error beyond that."""

    __slots__ = ("bytes", "refusal")

    def __init__(self, bytes: int, refusal: Callable[[], CommandError]) -> None:
        self.bytes = bytes
        self.refusal = refusal


class Asked(Deferred):
    """A request of a stream command to the core, and the function that makes the answer.

    A handler returns it instead of a reply.
    """

    __slots__ = ("answer", "command", "has_entries", "make", "refusal", "seconds")

    def __init__(
        self,
        make: Callable[[PendingAnswer], ReaderRequest | Open],
        answer: Answer,
        *,
        refusal: Refusal | None = None,
        seconds: float | None = None,
        has_entries: bool = False,
    ) -> None:
        self.make = make
        """Makes the command, given its `ref`."""
        self.answer = answer
        self.refusal = refusal
        self.seconds = seconds
        """Seconds that it may wait for messages; 0 is for ever, and None not at all."""
        self.has_entries = has_entries
        """Whether the answer has entries, which may be megabytes: the next command waits for it, so
        that it is made only if the client reads."""
        self.command: tuple[CommandEntry, list[bytes]] | None = None
        """Its stream command, if it waits: the rights to it may be withdrawn meanwhile."""


class AskedTogether(Deferred):
    """Several requests with one answer: the requests of a transaction, whose other commands follow
    when they are settled, or those of a command that names several queues."""

    __slots__ = ("finish", "is_block", "parts", "room")

    def __init__(
        self,
        parts: dict[int, Asked],
        finish: Callable[[dict[int, Reply]], Reply],
        room: ReplyRoom,
        *,
        is_block: bool,
    ) -> None:
        self.room = room
        self.is_block = is_block
        """Whether they are carried out in one turn."""
        self.parts = parts
        """The requests by their places among the commands of the transaction, or the names of the
        command."""
        self.finish = finish


class PendingAnswer:
    """The place of an answer among those of its session, and the `ref` of its command."""

    __slots__ = (
        "asked",
        "delivered",
        "is_done",
        "is_wanted",
        "reply",
        "room",
        "timer",
        "unblocked",
    )

    def __init__(self, asked: Asked | None, *, is_wanted: bool = True) -> None:
        self.asked = asked
        self.is_wanted = is_wanted
        self.delivered: list[Deliver] = []
        self.is_done = False
        self.reply: Reply = None
        self.unblocked: CommandError | None = None
        """The error with which another client ended its wait, if one did."""
        self.timer: Callable[[], None] | None = None
        """Cancels the timer of a waiting request."""
        self.room: ReplyRoom | None = None
        """Room left for the answers of its transaction; a single answer is bounded by its
        request."""

    @property
    def waits(self) -> bool:
        return self.asked is not None and self.asked.seconds is not None and not self.is_done

    def take(self, effect: Effect) -> None:
        """Take an effect of the command, the last or one of several."""
        if isinstance(effect, Deliver):
            if self.room is not None:
                self.room.bytes -= len(effect.message.body) + ENTRY_BYTES
            self.delivered.append(effect)
            return
        asked = self.asked
        assert asked is not None, "only what was asked for has an outcome"
        reply: Reply
        if isinstance(effect, Failed):
            reply = failure(effect.error, asked.refusal)
        elif self.unblocked is not None and not self.delivered and not isinstance(effect, Fed):
            reply = self.unblocked
        elif self.room is not None and self.room.bytes < 0 and self.delivered:
            reply = self.room.refusal()
        else:
            reply = asked.answer(self.delivered, effect)
        self.settle(reply)

    def settle(self, reply: Reply) -> None:
        self.reply = reply
        self.is_done = True
        self.delivered = []
        if self.timer is not None:
            self.timer()


class PendingTransaction(PendingAnswer):
    """The place of an answer that is made when all of its parts are."""

    __slots__ = ("finish", "parts")

    def __init__(self, asked: AskedTogether, *, is_wanted: bool) -> None:
        super().__init__(None, is_wanted=is_wanted)
        self.parts = {place: PendingAnswer(each) for place, each in asked.parts.items()}
        for part in self.parts.values():
            part.room = asked.room
        self.finish = asked.finish

    def look(self) -> None:
        """Check whether all parts are there."""
        if not self.is_done and all(part.is_done for part in self.parts.values()):
            self.settle(self.finish({place: part.reply for place, part in self.parts.items()}))


class Awaited:
    """The answers of one session that wait for turns, while there are any.

    Owned by the session; the hub passes on the effects of the core.
    """

    __slots__ = ("_bytes", "_pending", "_session", "_unsent")

    def __init__(self, session: RespSession) -> None:
        self._session = session
        self._pending: deque[PendingAnswer] = deque()
        self._unsent: list[Command | Block] = []
        self._bytes = 0

    @property
    def waiting(self) -> PendingAnswer | None:
        """The request that waits for messages, if there is one. It is the last."""
        last = self._pending[-1] if self._pending else None
        return last if last is not None and last.waits else None

    def may_follow(self, size: int) -> bool:
        """Whether another stream command of so many bytes may be submitted before these are
        answered."""
        last = self._pending[-1].asked if self._pending else None
        if self.waiting is not None or (last is not None and last.has_entries):
            return False
        self._bytes += size
        return len(self._pending) < UNDER_WAY_MAX and self._bytes < UNDER_WAY_BYTES

    def add(self, reply: Reply, *, is_wanted: bool) -> None:
        """Add the answer of one more command, or the request it is waiting for."""
        if isinstance(reply, Asked):
            pending = PendingAnswer(reply, is_wanted=is_wanted)
            self._unsent.append(reply.make(pending))
        elif isinstance(reply, AskedTogether):
            pending = whole = PendingTransaction(reply, is_wanted=is_wanted)
            made = [reply.parts[place].make(part) for place, part in whole.parts.items()]
            if reply.is_block:
                # Only commands on streams are asked for in a transaction.
                self._unsent.append(Block(cast("tuple[ReaderRequest, ...]", tuple(made))))
            else:
                self._unsent += made
        else:
            pending = PendingAnswer(None, is_wanted=is_wanted)
            pending.settle(reply)
        self._pending.append(pending)

    def begin(self) -> None:
        """Submit the requests. If the inbox has no room, they wait."""
        hub, session = self._session.hub, self._session
        unsent, self._unsent = self._unsent, []
        if unsent:
            try:
                hub.shell.submit(session.id, unsent)
            except Overloaded:
                self._unsent = unsent
                hub.shell.later(AGAIN_SECONDS, partial(hub.ask_again, session.id))
                return
        waiting = self.waiting
        if waiting is not None and waiting.timer is None:
            assert waiting.asked is not None, "it was asked for"
            if waiting.asked.seconds:
                timer = hub.shell.later(waiting.asked.seconds, partial(self._give_up, waiting))
                waiting.timer = timer.cancel

    def take(self, effects: Sequence[Effect]) -> None:
        """Take the effects of the core for commands of this session."""
        for effect in effects:
            pending = ref_of(effect)
            if isinstance(pending, PendingAnswer):
                pending.take(effect)

    def answers(self) -> list[tuple[Reply, bool]]:
        """The answers that are ready, each with whether it is wanted, in the order of the
        commands."""
        found = []
        while self._pending:
            first = self._pending[0]
            if isinstance(first, PendingTransaction):
                first.look()
            if not first.is_done:
                break
            self._pending.popleft()
            found.append((first.reply, first.is_wanted or type(first.reply) is Decided))
        return found

    def unblock(self, error: CommandError | None = None) -> bool:
        """End the wait of a read; return whether there was one. Its answer is empty, or the
        error."""
        waiting = self.waiting
        if waiting is None:
            return False
        waiting.unblocked = error
        self._give_up(waiting)
        return True

    def let_go(self) -> None:
        """Drop everything: the session is over."""
        waiting = self.waiting
        if waiting is not None and waiting.timer is not None:
            waiting.timer()

    @property
    def is_over(self) -> bool:
        return not self._pending

    def _give_up(self, waiting: PendingAnswer) -> None:
        """Request the end of a wait. A message that came first wins: a turn decides."""
        if not waiting.is_done:
            self._unsent.append(Withdraw(self._session.id, waiting))
            self.begin()


def failure(error: HeadgateError, refusal: Refusal | None) -> CommandError:
    """The answer for an error of the core."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, StoreError):
        return CommandError(STORE_FAILED)
    found = refusal(error) if refusal is not None else None
    return found or CommandError(f"ERR {error}")

"""One Redis client: its requests, its state, its answers.

There is no I/O here. The shell gives bytes to `receive`; answers go out through the shell's port. A
run of PUBLISHes, the usual content of a busy read, is one call to the core. All other commands are
looked up in the table and carried out one by one.

The order of the checks is that of Redis: unknown command, arity, authentication, access rules,
slots, subscriber mode, transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.core.channels.session_channels import SessionChannels
from headgate.core.effects import Effect
from headgate.core.model.ids import SessionId
from headgate.core.redis.acl import User
from headgate.errors import HeadgateError, LimitReached
from headgate.wire.resp.checks import check
from headgate.wire.resp.codec.message_frames import FORMS
from headgate.wire.resp.codec.publish_runs import PUBLISH
from headgate.wire.resp.codec.replies import (
    NOTHING,
    CommandError,
    Decided,
    Deferred,
    Parts,
    Reply,
    encode,
    error,
    text_of,
)
from headgate.wire.resp.codec.requests import RequestParser
from headgate.wire.resp.command_cost import FEW, charge, refusal
from headgate.wire.resp.commands.monitor import send_to_monitors
from headgate.wire.resp.commands.table import CommandEntry
from headgate.wire.resp.commands.transactions import queue, rejected, size_of
from headgate.wire.resp.plain import PlainSession, PurePlainSession
from headgate.wire.resp.port import HERE, WAIT, RespPort
from headgate.wire.resp.publishing import (
    is_fed,
    is_plain,
    may_run,
    publish,
    run_of_publishes,
)
from headgate.wire.resp.reply_buffer import FULL_BYTES, ReplyBuffer
from headgate.wire.resp.reply_mode import FOLLOWING, ReplyMode, is_confirmation
from headgate.wire.resp.streams.awaited import Asked, Awaited

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub

FORM_STEPS = 4
"""Work of changing the form of a subscription's messages."""
SLICE_SECONDS = 0.005
"""How long one session's commands are carried out before others get their turn."""
TAKEN_SECONDS = SLICE_SECONDS / 8
"""How long commands between PUBLISHes may take, each time that some are taken."""


class RespSession(PlainSession):
    """One Redis client: its requests in, replies and messages out.

    The server owns it with a connection, and calls `receive` with bytes; it writes through its
    port. It answers requests in their order, and reads no more while it is behind.
    """

    __slots__ = (
        "broken",
        "db",
        "delayed",
        "failures",
        "is_delayed",
        "is_executing",
        "library",
        "local",
        "name",
        "out",
        "parts",
        "parts_are_wanted",
        "peer",
        "protocol",
        "queued_bytes",
        "queued_steps",
        "since",
        "typed",
        "watched",
    )

    def __init__(self, hub: Hub, id: SessionId, outlet: RespPort, peer: str, local: str) -> None:
        self.hub = hub
        self.id = id
        self.outlet = outlet
        self.peer = peer
        self.local = local
        self.since = hub.shell.clock()
        self.requests = RequestParser(hub.broker.limits)
        self.library = {"lib-name": b"", "lib-ver": b""}
        self.held = 0
        self.out = ReplyBuffer(hub, outlet)
        self.pending = []
        self.parts: Iterator[Reply] | None = None
        """The rest of an answer in parts, which goes out before anything else."""
        self.parts_are_wanted = True
        self.awaited = None
        self.is_closing = False
        self.failures = 0
        """Wrong passwords since it connected."""
        self.delayed = -1.0
        """Seconds by which the answers not written yet are delayed; negative for none."""
        self.is_delayed = False
        self.last_command = ""
        self.typed = b""
        """The subcommand as the client wrote it, for errors that quote it."""
        self.start_anew()

    def start_anew(self) -> None:
        """Set the state of a new connection, as RESET does."""
        self.protocol = 2
        self.name = b""
        self.db = 0
        self.user = self.hub.access.entrant()
        self.requests.is_trusted = self.user is not None
        self.queued = None
        self.queued_bytes = 0
        self.queued_steps = 0
        self.watched: dict[tuple[int, bytes], int] = {}
        """Keys watched until EXEC, with their stamps."""
        self.is_executing = False
        """Inside of EXEC."""
        self.broken = False
        """Whether a command of the transaction was refused, so that it will not be carried out."""
        self.answers = ReplyMode.ON

    @property
    def interests(self) -> SessionChannels:
        return self.hub.channels.of(self.id)

    @property
    def is_subscriber(self) -> bool:
        """Whether it is in subscriber mode: in RESP2 a session with subscriptions may do little
        else."""
        # RESP-32, RESP-34: in RESP3 a subscriber may run any command.
        return self.protocol == 2 and self.hub.channels.has(self.id)

    @property
    def is_busy(self) -> bool:
        """Whether some of its commands are still to be carried out."""
        return bool(self.pending) or self.parts is not None or self.awaited is not None

    @property
    def waits_for_messages(self) -> bool:
        """Whether its last command is a read that waits for messages."""
        return self.awaited is not None and self.awaited.waiting is not None

    # Calls of the shell.

    # What is left over by the short way.
    _receive_by_steps = PurePlainSession.receive

    def _receive_later(self, data: bytes) -> None:
        """Queue commands behind those that wait for a turn: no more is read until these are
        answered."""
        assert self.awaited is not None, "some wait"
        self.pending += self.requests.feed(data)
        self.outlet.pause(may_leave=self.waits_for_messages)
        self._may_hold()

    owes_answers = False
    """A client that hangs up is gone."""

    def go_on(self) -> None:
        """Try the pending commands again: the wait is over."""
        if self.is_closing or self.is_delayed:
            return
        if (self.hub.channels.is_unwritten or self.hub.left) and self.interests:
            self.hub.flush_for((self.id,))
        commands, self.pending = self.pending, []
        self._run(commands)
        self._may_hold()
        if self.is_busy:
            return
        if self.requests.error is not None:
            self._break_off()
        elif not self.is_closing:
            self.outlet.resume()

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """End the session. Later commands are not carried out."""
        self.out.write()
        self.is_closing = True
        self.outlet.close(reason, at_once=at_once)

    def delay(self, seconds: float) -> None:
        """Delay the answer to the present command, and all that follows, by so many seconds."""
        self.delayed = max(self.delayed, seconds)

    def release(self) -> None:
        """End the delay. A session with too many failures is closed with the answer."""
        self.is_delayed = False
        if self.user is not None:
            self.hub.shell.known(self.id)
        if self.failures >= self.hub.broker.limits.auth_failures:
            self.close("too many wrong passwords")
        else:
            self.out.write()
            self.go_on()

    def let_go(self) -> None:
        """Drop all references: the session is over."""
        self.pending, self.parts, self.queued, self.watched = [], None, None, {}
        if self.awaited is not None:
            self.awaited.let_go()

    # Calls of command handlers.

    def become(self, user: User) -> None:
        self.user = user
        self.requests.is_trusted = True
        alive = self.hub.broker.sessions.get(self.id)
        if alive is not None:
            alive.user = user.name
        self.hub.shell.known(self.id)

    def rename(self, name: bytes) -> None:
        """Take the name that the client chose, for logs and status."""
        self.name = name
        alive = self.hub.broker.sessions.get(self.id)
        if alive is not None:
            alive.called = text_of(name)

    def speak(self, protocol: int) -> None:
        """Use this version of the protocol from here on, for messages too."""
        if protocol != self.protocol:
            most = self.hub.broker.limits.command_steps
            if FORM_STEPS * len(self.interests) > most:
                raise LimitReached("command_steps", most)
            self.protocol = protocol
            if self.interests:
                self.hub.channels.change_form(self.id, FORMS[protocol])

    def push(self, frame: Reply) -> None:
        """Send a frame that is not an answer to a command of the session."""
        self.outlet.write(encode(frame, self.protocol))

    # Inside.

    def _run(self, commands: list[list[bytes]]) -> None:
        channels, clock, out = self.hub.channels, self.hub.shell.clock, self.out
        position, count = 0, len(commands)
        end = clock() + SLICE_SECONDS
        while not self.is_closing:
            if self.parts is not None:
                if self._write_parts(end):
                    continue
                self.pending = commands[position:]
                break
            if position == count:
                break
            if self.awaited is not None and not self._may_follow(commands[position]):
                self.pending = commands[position:]
                self.outlet.pause(may_leave=self.waits_for_messages)
                break
            is_publish = commands[position][0] in PUBLISH and is_plain(self)
            if is_publish and (run := run_of_publishes(commands, position, self.hub.feeds)):
                done = publish(self, run)
                position += done
                if done < len(run):
                    self.pending = commands[position:]
                    break
                continue
            command = commands[position]
            if not self._answer_at_once(command) and not self._execute(command):
                self.pending = commands[position:]
                break
            position += 1
            if self.delayed >= 0.0:
                self._delay(commands[position:])
                self.hub.commands += position
                return
            if out.bytes > FULL_BYTES:
                out.write()
                if self.outlet.is_full:
                    self.pending = commands[position:]
                    break
            if position < count and clock() > end:
                # Others get a turn between the commands of a long line.
                self.pending = commands[position:]
                self._give_way()
                break
            # RESP-44: a session that publishes to itself is answered first.
            if channels.is_unwritten and channels.has(self.id):
                # Its own messages come after the answer and before the next one.
                out.write()
                self.hub.flush_for((self.id,))
        self.hub.commands += position
        out.write()
        if self.awaited is not None:
            self.awaited.begin()

    def _take(self, commands: list[list[bytes]], data: bytes, end: int) -> bool:
        """Carry out commands that stand between PUBLISHes in a read, and take no turn. False if the
        rest of the read was taken as well, since these have to wait or took a while."""
        clock = self.hub.shell.clock
        began = clock()
        self._run(commands)
        if self.is_busy or self.is_delayed:
            self.pending += self.requests.feed(data[end:])
            self._may_hold()
            return False
        if self.queued is not None:
            self._may_hold()
        if clock() - began < TAKEN_SECONDS:
            return True
        self._receive_by_steps(data[end:])
        return False

    def _may_follow(self, command: list[bytes]) -> bool:
        """Whether a command may be submitted before those that wait for a turn are answered."""
        assert self.awaited is not None, "some wait"
        is_turn = command[0][:1] in b"xX" or is_fed(self.hub, command)
        return is_turn and self.awaited.may_follow(sum(map(len, command)))

    def answer_awaited(self, effects: Sequence[Effect]) -> None:
        """Write the answers that turns completed, and go on when none is left."""
        awaited = self.awaited
        if awaited is None or self.is_closing:
            return
        awaited.take(effects)
        for reply, is_wanted in awaited.answers():
            if is_wanted and reply is not NOTHING:
                self.out.put(reply, self.protocol)
        self.out.write()
        if awaited.is_over:
            self.awaited = None
            if self.outlet.is_full:
                return  # it goes on when the client has read
            if self.pending or self.requests.error is not None:
                self.hub.go_on_soon(self.id)
            else:
                self.outlet.resume()

    def _delay(self, rest: list[list[bytes]]) -> None:
        seconds, self.delayed = self.delayed, -1.0
        self.pending = rest
        self.is_delayed = True
        self.outlet.pause(may_leave=False)
        self.hub.logins.release_later(self, seconds)

    def _write_parts(self, end: float) -> bool:
        """Go on with an answer in parts; false if others get a turn first, or the client has to
        read its answers."""
        clock, out, is_wanted = self.hub.shell.clock, self.out, self.parts_are_wanted
        while (part := self._next_part()) is not None:
            if is_wanted and part is not NOTHING:
                out.put(part, self.protocol)
                if out.bytes > FULL_BYTES:
                    out.write()
                    if self.outlet.is_full:
                        return False
            if clock() > end:
                self._give_way()
                return False
        self.parts = None
        return True

    def _next_part(self) -> Reply:
        """The next part of an answer; None after the last, or when the session is over."""
        try:
            return None if self.parts is None else next(self.parts, None)
        except HeadgateError as failed:
            return self.failure(failed)

    def _give_way(self) -> None:
        """Let others get a turn, then go on."""
        self.outlet.pause(may_leave=False)
        self.hub.go_on_later(self.id)

    def _may_hold(self) -> bool:
        held = self.requests.held
        if self.queued is not None:
            held += self.queued_bytes
        if self.pending:
            held += sum(map(size_of, self.pending))
        return held == self.held or self.hub.may_hold(self, held)

    def _answer_at_once(self, command: list[bytes]) -> bool:
        """Carry out a command that needs one call, if nothing stands between it and its answer."""
        hub = self.hub
        call = hub.at_once.get(command[0])
        if (
            call is None
            or hub.elsewhere is not None
            or self.awaited is not None
            or not is_plain(self)
            or (answer := call(self, command)) is None
        ):
            return False
        self.out.append(answer)
        return True

    def _execute(self, command: list[bytes]) -> bool:
        """Carry out one command; false if it has to wait."""
        elsewhere = self.hub.elsewhere
        if elsewhere is not None and (known := elsewhere.resume(self)) is not HERE:
            return self._placed(known)
        try:
            entry = self.hub.table.find(command)
            self.last_command = entry.name
            check(self, entry, command)
            if elsewhere is not None and self.queued is not None:
                elsewhere.check_queued(entry)
        except CommandError as refused:
            self._answer(rejected(self, command, refused))
            return True
        if self.queued is not None and entry.is_queued:
            self._answer(queue(self, entry, command))
            return True
        try:
            if elsewhere is not None:
                known = elsewhere.step(self, entry, command)
                if known is not HERE:
                    return self._placed(known)
            if not may_run(self, entry, command):
                return False
            if len(command) > FEW or type(entry.steps) is not int:
                charge(self, entry, command)
        except HeadgateError as refused:
            self._answer(self.failure(refused))
            return True
        reply = self.attempt(entry, command)
        if type(reply) is Asked and reply.seconds is not None:
            reply.command = entry, command
        # RESP-35: confirmations are not silenced.
        is_certain = type(reply) is Decided or is_confirmation(entry, reply)
        self._answer(reply, is_certain=is_certain)
        return True

    def _placed(self, reply: Reply) -> bool:
        """Answer a command that another worker carries out; false if it has to wait."""
        if reply is not WAIT:
            self._answer(reply, is_certain=type(reply) is Decided)
        return reply is not WAIT

    def attempt(self, entry: CommandEntry, command: list[bytes]) -> Reply:
        """Carry out a command; errors become its answer."""
        assert entry.run is not None, "the table finds what can be run"
        if self.hub.monitors:
            send_to_monitors(self.hub, self, entry, command)
        names = 1
        if "|" in entry.name:
            names, self.typed = 2, command[1]
        try:
            return entry.run(self, command[names:])
        except HeadgateError as failed:
            return self.failure(failed)

    def failure(self, failed: HeadgateError) -> CommandError:
        """The answer for an error."""
        if isinstance(failed, CommandError):
            return failed
        if isinstance(failed, LimitReached):
            return refusal(self, failed)
        return CommandError(f"ERR {failed}")

    def _answer(self, reply: Reply, *, is_certain: bool = False) -> None:
        is_wanted = self._is_answered() or is_certain
        if self.awaited is not None or isinstance(reply, Deferred):
            if self.awaited is None:
                self.awaited = Awaited(self)
            self.awaited.add(reply, is_wanted=is_wanted)
        elif type(reply) is Parts:
            self.parts, self.parts_are_wanted = iter(reply), is_wanted
        elif is_wanted and reply is not NOTHING:
            self.out.put(reply, self.protocol)

    def _is_answered(self) -> bool:
        """Whether CLIENT REPLY lets this answer through. Called once for each command."""
        before = self.answers
        if before is ReplyMode.ON:
            return True
        self.answers = FOLLOWING[before]
        return before is ReplyMode.SKIP_NEXT

    def _may_break_off(self) -> None:
        if not self.is_busy and not self.is_delayed:
            self._break_off()

    def _break_off(self) -> None:
        """Answer a breach of the protocol, and close."""
        assert self.requests.error is not None, "asked for after an error"
        if self.requests.error:
            self.out.append(error(f"ERR Protocol error: {self.requests.error}"))
        self.close(f"protocol error: {self.requests.error or 'another protocol'}")

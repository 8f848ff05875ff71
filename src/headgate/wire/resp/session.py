"""One Redis client: what it sent, what state that left, what it is answered.

There is no I/O here. The shell gives bytes to `receive`; answers go out through the outlet, which
the shell provides. A run of PUBLISHes, the usual content of a busy read, is one call to the core.
Everything else is looked up in the table and carried out one by one.

The order of the checks is that of Redis: unknown command, arity, authentication, access rules,
slots, subscriber mode, transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from headgate.core.access import User
from headgate.core.channels import Interests, Kind
from headgate.core.names import SessionId
from headgate.errors import HeadgateError, LimitReached
from headgate.wire.resp.answers import Answers
from headgate.wire.resp.forms import FORMS
from headgate.wire.resp.monitor import tell_monitors
from headgate.wire.resp.replies import (
    NOTHING,
    QUEUED,
    CommandError,
    Reply,
    encode,
    error,
    integer_reply,
    integers,
    text_of,
)
from headgate.wire.resp.requests import Requests
from headgate.wire.resp.slots import check_slots
from headgate.wire.resp.table import Entry
from headgate.wire.resp.users import check_access

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub

PUBLISH = frozenset((b"PUBLISH", b"publish"))
"""As nearly all clients spell it; other spellings go the ordinary way."""
OF_PUBLISH = frozenset((3,))
LARGE_BYTES, LARGE_COUNT = 16 * 1024, 1000
"""An answer that is larger, or so many of them, are written before the next command: a read may
have thousands of commands whose answers are megabytes each."""
SLICE_SECONDS = 0.01
ARGUMENT_BYTES = 64
"""About what an argument takes besides its bytes."""
FRAME_BYTES = 128
"""About what a frame has besides the body, for channels with names of usual length."""

WITHOUT_AUTH = frozenset(("auth", "hello", "quit", "reset"))
SUBSCRIBING = frozenset(
    ("subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe")
)
"""CLIENT REPLY does not silence these."""
WITH_SUBSCRIPTIONS = SUBSCRIBING | {"ping", "quit", "reset"}
NOT_QUEUED = frozenset(("multi", "exec", "discard", "watch", "quit", "reset"))


REDIRECTIONS = frozenset(("MOVED", "CROSSSLOT", "CLUSTERDOWN"))
"""Errors that a cluster client acts upon, so they are told as they are."""


class Outlet(Protocol):
    """The shell's end of a session."""

    def write(self, blob: bytes) -> None:
        """Answers: in line behind what waits already."""
        ...

    def deliver(self, blob: bytes, messages: int) -> None:
        """Messages, for which the session's mailbox is charged."""
        ...

    def pause(self, *, may_leave: bool = True) -> None:
        """Read no more from the client, until `resume`. One that hangs up meanwhile is gone, unless
        what it sent before is still to be carried out."""
        ...

    def resume(self) -> None: ...

    @property
    def is_full(self) -> bool:
        """Whether the client has too many answers that it did not take. Then no more commands are
        carried out until it did, and `go_on` is called."""
        ...

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """End the session, after what waits was written unless it has to be at once."""
        ...


class RespSession:
    __slots__ = (
        "answers",
        "broken",
        "db",
        "held",
        "hub",
        "id",
        "is_closing",
        "is_executing",
        "last_command",
        "library",
        "local",
        "name",
        "out",
        "outlet",
        "peer",
        "pending",
        "protocol",
        "queued",
        "queued_bytes",
        "requests",
        "since",
        "typed",
        "user",
        "watched",
    )

    def __init__(self, hub: Hub, id: SessionId, outlet: Outlet, peer: str, local: str) -> None:
        self.hub = hub
        self.id = id
        self.outlet = outlet
        self.peer = peer
        self.local = local
        self.since = hub.shell.clock()
        self.requests = Requests(hub.broker.limits)
        self.library = {"lib-name": b"", "lib-ver": b""}
        self.held = 0
        """Bytes of a request that is not whole, as the hub knows them."""
        self.out: list[bytes] = []
        """Answers of this read that are not written yet."""
        self.pending: list[list[bytes]] = []
        """Commands behind one that has to wait: a PUBLISH for who does not read, or any for the
        client to take the answers it has."""
        self.is_closing = False
        self.last_command = ""
        self.typed = b""
        """The subcommand as the client wrote it; some errors quote it."""
        self.start_anew()

    def start_anew(self) -> None:
        """The state of a new connection, as RESET wants it."""
        self.protocol = 2
        self.name = b""
        self.db = 0
        self.user = self.hub.access.entrant()
        """Nobody, until the client says who it is, if it has to."""
        self.requests.is_trusted = self.user is not None
        self.queued: list[tuple[Entry, list[bytes]]] | None = None
        """The commands of a transaction, while there is one."""
        self.queued_bytes = 0
        self.watched: dict[tuple[int, bytes], int] = {}
        """Keys that must not change before EXEC, and their stamps."""
        self.is_executing = False
        """Inside of EXEC."""
        self.broken = False
        """The transaction has a command that was refused; it will not be carried out."""
        self.answers = Answers.ON

    @property
    def interests(self) -> Interests:
        return self.hub.channels.of(self.id)

    @property
    def is_subscriber(self) -> bool:
        """In RESP2 who has subscriptions may do little else."""
        return self.protocol == 2 and len(self.interests) > 0

    # From the shell.

    def receive(self, data: bytes) -> None:
        """Carry out what the client sent, as far as it is whole."""
        hub = self.hub
        if hub.channels.is_unwritten and self.interests:
            # What was published before these commands comes before their answers.
            hub.flush()
        requests = self.requests
        commands = requests.feed(data)
        if (self.held or requests.unread is not None) and not self._may_hold():
            return
        if len(commands) == 1 and commands[0][0] in PUBLISH and self._published(*commands):
            return
        if commands:
            self._run(commands)
            self._may_hold()
        if requests.error is not None and not self.pending:
            self._break_off()

    def go_on(self) -> None:
        """What it waited for is over: try again."""
        if self.is_closing:
            return
        if self.hub.channels.is_unwritten and self.interests:
            self.hub.flush()
        commands, self.pending = self.pending, []
        self._run(commands)
        self._may_hold()
        if self.pending:
            return
        if self.requests.error is not None:
            self._break_off()
        elif not self.is_closing:
            self.outlet.resume()

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """End the session. What it sent after this is not carried out."""
        self._write()
        self.is_closing = True
        self.outlet.close(reason, at_once=at_once)

    def let_go(self) -> None:
        """It is over: hold nothing any longer."""
        self.pending, self.queued, self.watched = [], None, {}

    # For the handlers of commands.

    def become(self, user: User) -> None:
        self.user = user
        self.requests.is_trusted = True

    def rename(self, name: bytes) -> None:
        """Take the name that the client gave itself; logs and status show it."""
        self.name = name
        alive = self.hub.broker.sessions.get(self.id)
        if alive is not None:
            alive.name = f"{self.peer} {text_of(name)}" if name else self.peer

    def speak(self, protocol: int) -> None:
        """Use this version from here on, for messages too."""
        if protocol != self.protocol:
            self.protocol = protocol
            if self.interests:
                self.hub.channels.change_form(self.id, FORMS[protocol])

    def push(self, frame: Reply) -> None:
        """Send a frame that is no answer to a command of its own."""
        self.outlet.write(encode(frame, self.protocol))

    # Inside.

    def _run(self, commands: list[list[bytes]]) -> None:
        channels, clock = self.hub.channels, self.hub.shell.clock
        position, count = 0, len(commands)
        end = clock() + SLICE_SECONDS
        while position < count and not self.is_closing:
            if commands[position][0] in PUBLISH and self._is_plain():
                run = _run_of_publishes(commands, position)
                done = self._publish(run)
                position += done
                if done < len(run):
                    self.pending = commands[position:]
                    break
                if run:
                    continue
            if not self._execute(commands[position]):
                self.pending = commands[position:]
                break
            position += 1
            if sum(map(len, self.out[-1:])) > LARGE_BYTES or len(self.out) > LARGE_COUNT:
                self._write()
                if self.outlet.is_full:
                    self.pending = commands[position:]
                    break
            if position < count and clock() > end:
                # Others get their turn between the commands of a long line.
                self.pending = commands[position:]
                self.outlet.pause(may_leave=False)
                self.hub.go_on_soon(self.id)
                break
            if channels.is_unwritten and channels.has(self.id):
                # It may hear what it published: after the answer, before that to the next command.
                self._write()
                self.hub.flush()
        self.hub.commands += position
        self._write()

    def _may_hold(self) -> bool:
        """Tell the hub what it has sent that is not carried out yet; false if that is too much."""
        held = self.requests.held
        if self.queued is not None:
            held += self.queued_bytes
        if self.pending:
            held += sum(map(_size, self.pending))
        return held == self.held or self.hub.may_hold(self, held)

    def _is_plain(self) -> bool:
        """Whether nothing stands between this session and the channels."""
        hub, user = self.hub, self.user
        return (
            user is not None
            and user.is_unrestricted
            and self.queued is None
            and self.answers is Answers.ON
            and hub.cluster is None
            and not hub.monitors
            and not hub.channels.has(self.id)
        )

    def _publish(self, run: Sequence[Sequence[bytes]]) -> int:
        """Publish a run of messages; return how many did not have to wait."""
        hub = self.hub
        channels = hub.channels
        if hub.budget.stuck and not self._have_room(run):
            return self._publish_carefully(run)
        if len({each[1] for each in run}) == 1:
            receivers = channels.publish_all(Kind.EXACT, run[0][1], [each[2] for each in run])
            self.out.append(integer_reply(receivers) * len(run))
        else:
            self.out.append(integers(channels.publish(Kind.EXACT, [each[1:] for each in run])))
        if channels.is_unwritten:
            hub.flush_soon()
        return len(run)

    def _published(self, command: list[bytes]) -> bool:
        """Publish the only message of a read, if nothing is in its way. Everything that the
        general way looks at is looked at here; this is for those who wait for each answer."""
        hub = self.hub
        channels, user = hub.channels, self.user
        if (
            len(command) != 3
            or hub.budget.stuck
            or user is None
            or not user.is_unrestricted
            or self.queued is not None
            or self.answers is not Answers.ON
            or hub.cluster is not None
            or hub.monitors
            or channels.has(self.id)
            or self.requests.error is not None
            or self.is_closing
        ):
            return False
        hub.commands += 1
        self.outlet.write(integer_reply(channels.publish_one(Kind.EXACT, command[1], command[2])))
        if channels.is_unwritten:
            hub.flush_soon()
        return True

    def _have_room(self, run: Sequence[Sequence[bytes]]) -> bool:
        """Whether all who hear these messages could hold them without being slow."""
        hub = self.hub
        if hub.channels.is_unwritten:
            hub.flush()  # what is not charged yet would not count
        stuck = hub.budget.stuck
        most = min(hub.budget.mailbox_soft, hub.budget.mailbox_hard)
        size = sum([len(each[2]) for each in run]) + FRAME_BYTES * len(run)
        if hub.budget.bytes + size * len(stuck) > hub.budget.limit:
            return False
        return all(
            stuck[session].bytes + size <= most
            for channel in {each[1] for each in run}
            for session in hub.channels.hearing(Kind.EXACT, channel, stuck)
        )

    def _publish_carefully(self, run: Sequence[Sequence[bytes]]) -> int:
        """Judge each message for itself. What somebody stuck hears is charged before the next one
        is judged, so a mailbox goes over its limit by one message at most."""
        hub = self.hub
        for done, (_, channel, body) in enumerate(run):
            if not self._may_publish(Kind.EXACT, channel):
                return done
            self.out.append(integers(hub.channels.publish(Kind.EXACT, [(channel, body)])))
            if any(True for _ in hub.channels.hearing(Kind.EXACT, channel, hub.budget.stuck)):
                hub.flush()
        if hub.channels.is_unwritten:
            hub.flush_soon()
        return len(run)

    def _may_publish(self, kind: Kind, channel: bytes) -> bool:
        """Whether nobody who hears this channel keeps its publishers waiting."""
        hub = self.hub
        if not hub.budget.stuck or hub.settings.slow_session != "wait":
            return True
        blocker = hub.channels.blocker(kind, channel, hub.budget)
        if blocker is None:
            return True
        # It may wait for itself: its mailbox is written while its commands are not read.
        hub.wait(self.id, blocker)
        self.outlet.pause()
        return False

    def _execute(self, command: list[bytes]) -> bool:
        """Carry one command out; false if it has to wait."""
        try:
            entry = self.hub.table.find(command)
            self.last_command = entry.name
            self._check(entry, command)
        except CommandError as refused:
            self._answer(self._rejected(command, refused))
            return True
        if self.queued is not None and entry.name not in NOT_QUEUED:
            self._answer(self._queue(entry, command))
            return True
        if not self._has_room(entry, command):
            return False
        reply = self.attempt(entry, command)
        self._answer(reply, is_certain=entry.name in SUBSCRIBING)
        return True

    def attempt(self, entry: Entry, command: list[bytes]) -> Reply:
        """Carry a command out; what goes wrong is its answer."""
        assert entry.run is not None, "the table finds what can be run"
        if self.hub.monitors:
            tell_monitors(self.hub, self, entry, command)
        names = 1
        if "|" in entry.name:
            names, self.typed = 2, command[1]
        try:
            return entry.run(self, command[names:])
        except CommandError as refused:
            return refused
        except LimitReached as reached:
            self.hub.tell_limit(self.id, reached)
            return CommandError(f"ERR {reached}")
        except HeadgateError as failed:
            return CommandError(f"ERR {failed}")

    def _queue(self, entry: Entry, command: list[bytes]) -> Reply:
        """Keep a command for EXEC, if there is room."""
        assert self.queued is not None, "there is a transaction"
        limits = self.hub.broker.limits
        self.queued_bytes += _size(command)
        for name, most, now in (
            ("transaction_commands", limits.transaction_commands, len(self.queued) + 1),
            ("transaction_bytes", limits.transaction_bytes, self.queued_bytes),
        ):
            if now > most:
                self.broken = True
                self.queued.clear()
                self.hub.tell_limit(self.id, LimitReached(name, most))
                return CommandError(f"ERR limit {name} of {most} reached")
        self.queued.append((entry, command))
        return QUEUED

    def _rejected(self, command: list[bytes], error: CommandError) -> CommandError:
        """A command that was not even tried spoils the transaction it was for; an EXEC ends it."""
        if command[0].upper() != b"EXEC":
            self.broken = True
            return error
        self.queued, self.watched = None, {}
        code, _, text = str(error).partition(" ")
        if code in REDIRECTIONS:
            return error
        why = text if code == "ERR" else str(error)
        return CommandError(f"EXECABORT Transaction discarded because of: {why}")

    def _answer(self, reply: Reply, *, is_certain: bool = False) -> None:
        if reply is not NOTHING and (self._is_answered() or is_certain):
            self.out.append(encode(reply, self.protocol))

    def check_rights(self, entry: Entry, command: list[bytes]) -> None:
        """Whether the client said who it is, and may do this."""
        if entry.name in WITHOUT_AUTH:
            return
        if self.user is None:
            raise CommandError("NOAUTH Authentication required.")
        if not self.user.is_unrestricted:
            check_access(self, self.user, entry, command)

    def _check(self, entry: Entry, command: list[bytes]) -> None:
        name = entry.name
        self.check_rights(entry, command)
        if self.hub.cluster is not None:
            check_slots(self, entry, command)
        if self.is_subscriber and name not in WITH_SUBSCRIPTIONS:
            raise CommandError(
                f"ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING /"
                " QUIT / RESET are allowed in this context"
            )

    def _has_room(self, entry: Entry, command: list[bytes]) -> bool:
        """Whether nobody who hears what this publishes keeps its publishers waiting."""
        if entry.name == "publish":
            return self._may_publish(Kind.EXACT, command[1])
        if entry.name == "spublish":
            return self._may_publish(Kind.SHARDED, command[1])
        if entry.name == "exec" and self.queued is not None:
            kinds = {"publish": Kind.EXACT, "spublish": Kind.SHARDED}
            return all(
                self._may_publish(kinds[each.name], arguments[1])
                for each, arguments in self.queued
                if each.name in kinds
            )
        return True

    def _is_answered(self) -> bool:
        """Whether CLIENT REPLY lets this answer through."""
        if self.answers is Answers.SKIP:
            self.answers = Answers.ON
            return False
        return self.answers is Answers.ON

    def _write(self) -> None:
        """Hand the answers so far to the shell."""
        if self.out:
            blob = self.out[0] if len(self.out) == 1 else b"".join(self.out)
            self.out.clear()
            self.outlet.write(blob)

    def _break_off(self) -> None:
        """The client broke the protocol: tell it, and end."""
        assert self.requests.error is not None, "asked for after an error"
        if self.requests.error:
            self.out.append(error(f"ERR Protocol error: {self.requests.error}"))
        self.close(f"protocol error: {self.requests.error or 'another protocol'}")


def _size(command: list[bytes]) -> int:
    return sum(map(len, command)) + ARGUMENT_BYTES * len(command)


def _run_of_publishes(commands: list[list[bytes]], start: int) -> list[list[bytes]]:
    """The well-formed PUBLISHes that follow one another from here."""
    if len(commands) == 1:
        return commands if len(commands[0]) == 3 else []
    are_alike = not start and {*map(len, commands)} == OF_PUBLISH
    if are_alike and {each[0] for each in commands} <= PUBLISH:
        return commands
    end = start
    while end < len(commands) and commands[end][0] in PUBLISH and len(commands[end]) == 3:
        end += 1
    return commands[start:end]

"""One Redis client: what it sent, what state that left, what it is answered.

There is no I/O here. The shell gives bytes to `receive`; answers go out through the outlet, which
the shell provides. A run of PUBLISHes, the usual content of a busy read, is one call to the core.
Everything else is looked up in the table and carried out one by one.

The order of the checks is that of Redis: unknown command, arity, authentication, access rules,
slots, subscriber mode, transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.access import User
from headgate.core.channels import Interests
from headgate.core.names import SessionId
from headgate.errors import HeadgateError, LimitReached
from headgate.wire.resp.answers import Answers
from headgate.wire.resp.forms import FORMS
from headgate.wire.resp.monitor import tell_monitors
from headgate.wire.resp.outlet import Outlet
from headgate.wire.resp.publishing import (
    is_plain,
    may_run,
    publish,
    publish_at_once,
    run_of_publishes,
)
from headgate.wire.resp.replies import (
    NOTHING,
    CommandError,
    Reply,
    encode,
    error,
    text_of,
)
from headgate.wire.resp.requests import Requests
from headgate.wire.resp.runs import PUBLISH, STARTS
from headgate.wire.resp.slots import check_slots
from headgate.wire.resp.table import Entry
from headgate.wire.resp.transactions import queue, rejected, size_of
from headgate.wire.resp.users import check_access

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub

OUT_BYTES = 16 * 1024
"""So many bytes of answers are written before the next command: a read may have thousands of
commands whose answers are megabytes each."""
SLICE_SECONDS = 0.01
"""How long one session's commands are carried out before others get their turn."""

WITHOUT_AUTH = frozenset(("auth", "hello", "quit", "reset"))
SUBSCRIBING = frozenset(
    ("subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe")
)
"""CLIENT REPLY does not silence these."""
WITH_SUBSCRIPTIONS = SUBSCRIBING | {"ping", "quit", "reset"}
NOT_QUEUED = frozenset(("multi", "exec", "discard", "watch", "quit", "reset"))


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
        "out_bytes",
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
        """Bytes that it sent and that are not carried out yet, as the hub knows them."""
        self.out: list[bytes] = []
        """Answers of this read that are not written yet."""
        self.out_bytes = 0
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
        if data.startswith(STARTS):
            end = publish_at_once(self, data)
            if end == len(data):
                return
            data = data[end:]
        requests = self.requests
        commands = requests.feed(data)
        if (self.held or requests.unread is not None) and not self._may_hold():
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
            is_publish = commands[position][0] in PUBLISH and is_plain(self)
            if is_publish and (run := run_of_publishes(commands, position)):
                done = publish(self, run)
                position += done
                if done < len(run):
                    self.pending = commands[position:]
                    break
                continue
            if not self._execute(commands[position]):
                self.pending = commands[position:]
                break
            position += 1
            if self.out_bytes > OUT_BYTES:
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
            held += sum(map(size_of, self.pending))
        return held == self.held or self.hub.may_hold(self, held)

    def _execute(self, command: list[bytes]) -> bool:
        """Carry one command out; false if it has to wait."""
        try:
            entry = self.hub.table.find(command)
            self.last_command = entry.name
            self._check(entry, command)
        except CommandError as refused:
            self._answer(rejected(self, command, refused))
            return True
        if self.queued is not None and entry.name not in NOT_QUEUED:
            self._answer(queue(self, entry, command))
            return True
        if not may_run(self, entry, command):
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

    def _answer(self, reply: Reply, *, is_certain: bool = False) -> None:
        if reply is not NOTHING and (self._is_answered() or is_certain):
            blob = encode(reply, self.protocol)
            self.out.append(blob)
            self.out_bytes += len(blob)

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
            self.out_bytes = 0
            self.outlet.write(blob)

    def _break_off(self) -> None:
        """The client broke the protocol: tell it, and end."""
        assert self.requests.error is not None, "asked for after an error"
        if self.requests.error:
            self.out.append(error(f"ERR Protocol error: {self.requests.error}"))
        self.close(f"protocol error: {self.requests.error or 'another protocol'}")

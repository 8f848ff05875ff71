"""The router as the durable wires of a front see it: its core is in another process, worker 0.

Sessions are the front's own, with their mailboxes and facts; their commands go to worker 0, and
effects come back. Numbers of sessions are unique in a router, so a session has the same one there.
The commands under way to worker 0 are bounded by the front's share of its inbox: beyond it they are
refused, as they are there.

While worker 0 is away, commands wait. Sessions with unanswered commands whose outcome is unknown
are closed, and their clients connect again; the others keep their connections, and their
subscriptions are requested again when it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, get_args

from headgate.core.commands import Command
from headgate.core.delivery.mailbox import Mailbox
from headgate.core.delivery.sessions import Session
from headgate.core.effects import Deliver, Effect, Failed
from headgate.core.facts import Fact
from headgate.core.model.domain import Domain
from headgate.core.model.ids import Ref, SessionId
from headgate.core.model.limits import KiB, Limits
from headgate.core.reader_commands import Block, ReaderRequest, Withdraw
from headgate.core.turn.inbox import size_of
from headgate.errors import LimitReached
from headgate.server.router_port import Outlet
from headgate.server.workers import lane_items as items
from headgate.server.workers.lane_items import Item, Numbered
from headgate.server.workers.membership import WorkerRouter
from headgate.server.workers.standings import Standings
from headgate.wire.smp.remote_proofs import KnownKeys, Whose

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.01
"""Seconds of handing out effects before others are served."""
CREDIT_BYTES = 256 * KiB
"""Bytes taken by a session's client that are reported at once; fewer are reported now and then."""
CREDIT_SECONDS = 0.05
INTRODUCE_SECONDS = 0.2
"""Seconds after which a client has named itself."""
CHANNELS = "resp"
"""The wire of sessions with channels, which are the front's own."""
READERS = frozenset(get_args(ReaderRequest))
"""Requests that are answered with messages before the end of the answer."""
RESENT = frozenset(("bmq",))
"""Wires whose message ids are remembered: unanswered messages can be sent again."""
AWAY = "worker 0 was started again, and what it was asked is not known"
NOT_AGAIN = "worker 0 was started again, and it could not have back what it had"


class RemoteSession:
    """A session of this front, in its relation to worker 0."""

    __slots__ = (
        "again",
        "id",
        "is_open",
        "last",
        "outlet",
        "owed",
        "standings",
        "unanswered",
        "wire",
    )

    def __init__(self, id: SessionId, wire: str, outlet: Outlet) -> None:
        self.id = id
        self.wire = wire
        self.outlet = outlet
        self.is_open = False
        """Whether worker 0 knows it."""
        self.last = 0
        self.unanswered: dict[int, Command] = {}
        """Unanswered requests by number, in order."""
        self.again: set[int] = set()
        """Commands that the session sent before worker 0 was started again: their answers are
        dropped."""
        self.owed = 0
        """Bytes that worker 0 charged and that were not reported as taken."""
        self.standings = Standings(id)

    def number_of(self, ref: Ref) -> int:
        """The number of a request under way; 0 if it is over."""
        for number, command in reversed(self.unanswered.items()):
            if getattr(command, "ref", None) is ref:
                return number
        return 0


class RemoteRouter:
    """A `RouterPort` with a link behind it. `local` is the front's own router, which has its
    sessions and takes its facts; `end` closes a session."""

    def __init__(
        self,
        local: WorkerRouter,
        domains: Mapping[str, Domain],
        workers: int,
        end: Callable[[SessionId, str], None],
    ) -> None:
        self._local = local
        self.domains = domains
        self._end = end
        limits = local.limits
        self._commands_most = max(1, limits.inbox_commands // workers)
        self._bytes_most = max(1, limits.inbox_bytes // workers)
        self._credit_bytes = min(CREDIT_BYTES, limits.mailbox_bytes_soft // 4)
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[SessionId, RemoteSession] = {}
        self.keys = KnownKeys()
        self._send: Callable[[bytes], None] | None = None
        """Sends to worker 0; None while that is away."""
        self._out: list[Item] = []
        self._is_due = False
        self._commands = self._bytes = 0
        """Commands under way that no turn has taken."""
        self._received: deque[Item] = deque()
        """Items from worker 0 that were not handed out yet."""
        self._is_handing_out = False
        self._owing: dict[SessionId, None] = {}
        """Sessions whose clients took bytes that were not reported yet."""
        self._crediting: asyncio.TimerHandle | None = None

    @property
    def limits(self) -> Limits:
        return self._local.limits

    @property
    def clock(self) -> Callable[[], float]:
        return self._local.clock

    # Sessions.

    def expect(self, wire: str) -> None:
        self._local.expect(wire)

    def connect(self, wire: str, name: str, outlet: Outlet) -> SessionId:
        id = self._local.connect(wire, name, outlet)
        remote = self._sessions[id] = RemoteSession(id, wire, outlet)
        self._loop.call_later(INTRODUCE_SECONDS, self._introduce, remote)
        return id

    def _introduce(self, remote: RemoteSession) -> None:
        """Introduce a session without commands to worker 0, so that it is listed."""
        if self._sessions.get(remote.id) is remote:
            self._open(remote)

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        with self._local.recording_limits(session):
            self._submit(session, commands)

    def submit_again(self, commands: Sequence[Command]) -> None:
        self._submit(commands[0].session, commands)  # type: ignore[union-attr]

    def adopt(self, session: SessionId, outlet: Outlet) -> None:
        """Know a session of the front's own channels that needs a turn."""
        if session not in self._sessions:
            self._sessions[session] = RemoteSession(session, CHANNELS, outlet)

    def forget(self, session: SessionId, *, lost: bool) -> None:
        """Forget a session that is over."""
        remote = self._sessions.pop(session, None)
        if remote is not None and remote.is_open:
            self._put([items.CLOSED, session, lost])
        self._owing.pop(session, None)

    def disconnect(self, session: SessionId, reason: str, *, lost: bool = True) -> None:
        self.forget(session, lost=lost)
        self._local.disconnect(session, reason, lost=lost)

    def _submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        size = sum(map(size_of, commands))
        if self._commands and self._commands + len(commands) > self._commands_most:
            raise LimitReached("inbox_commands", self.limits.inbox_commands)
        if self._commands and self._bytes + size > self._bytes_most:
            raise LimitReached("inbox_bytes", self.limits.inbox_bytes)
        remote = self._sessions[session]
        self._commands += len(commands)
        self._bytes += size
        self._open(remote)
        self._put([items.COMMANDS, session, [self._packed(remote, each) for each in commands]])

    def _open(self, remote: RemoteSession) -> None:
        if not remote.is_open:
            remote.is_open = True
            session = self._local.session(remote.id)
            parts = ("", "", "", "") if session is None else session.parts
            self._put([items.OPENED, remote.id, remote.wire, *parts])

    def _packed(self, remote: RemoteSession, command: Command | Block) -> Item:
        if isinstance(command, Block):
            return [items.BLOCK, [self._packed(remote, each) for each in command.commands]]
        number = 0
        if type(command) is Withdraw:
            number = remote.number_of(command.ref)
        elif getattr(command, "ref", None) is not None:
            remote.last += 1
            number = remote.last
            remote.unanswered[number] = command
            self.keys.see(command)
        return items.pack_command(Numbered(number, command), self.keys.pack)

    # Pressure.

    def record_pressure(self) -> None:
        """Have worker 0 send nothing more to sessions that became slow, also by answers of its
        own."""
        for id, size, slow_since in self._local.budget.crossings:
            remote = self._sessions.get(id)
            if remote is not None and remote.is_open and slow_since is None:
                remote.owed += size
                self._put([items.HELD, id, size])
        self._local.record_pressure()

    def relieve(self, session: SessionId | None = None) -> None:
        self._local.relieve(session)

    def drained(self, session: SessionId) -> None:
        """Note that a session's client took its data."""
        remote = self._sessions.get(session)
        if remote is not None and remote.owed:
            self._credit(remote)

    def _credit(self, remote: RemoteSession) -> None:
        owed, remote.owed = remote.owed, 0
        self._owing.pop(remote.id, None)
        self._put([items.READ, remote.id, owed])

    def _credit_later(self) -> None:
        self._crediting = None
        for id in list(self._owing):
            self._credit(self._sessions[id])

    # Requests.

    def session(self, session: SessionId) -> Session | None:
        return self._local.session(session)

    def stuck(self) -> Iterable[tuple[SessionId, Mailbox]]:
        return self._local.stuck()

    def domain(self, name: str) -> Domain | None:
        return self.domains.get(name)

    def is_subscribed(self, session: SessionId) -> bool:
        remote = self._sessions.get(session)
        return remote is not None and remote.standings.is_subscribed

    def notify(self) -> None:
        """Do nothing: worker 0 has a clock of its own for it."""

    # Facts.

    def announce(self, facts: Sequence[Fact]) -> None:
        self._local.announce(facts)

    def recording_limits(self, session: SessionId) -> AbstractContextManager[None]:
        return self._local.recording_limits(session)

    def sessions(self) -> Iterable[RemoteSession]:
        """The sessions of this front."""
        return self._sessions.values()

    # The link.

    def joined(self, send: Callable[[bytes], None]) -> None:
        """Note that worker 0 is there, and knows nothing of this front."""
        self._send = send
        self._due()

    def left(self) -> None:
        """Note that worker 0 is gone, with all that it knew. Commands put in line from now on wait
        for the next one, behind the requests that sessions repeat."""
        self._send = None
        self._hand_out(None)  # effects that came before count
        self._out.clear()
        self._commands = self._bytes = 0
        again: list[tuple[int, RemoteSession, Command]] = []
        resent: list[tuple[RemoteSession, list[Command]]] = []
        for remote in list(self._sessions.values()):
            if not remote.is_open:
                continue
            remote.is_open, remote.owed = False, 0
            unanswered = [each for n, each in remote.unanswered.items() if n not in remote.again]
            remote.unanswered, remote.again = {}, set()
            if unanswered and remote.wire not in RESENT:
                # Whether they were carried out is unknown, and their clients repeat them later.
                self._loop.call_soon(self._end, remote.id, AWAY)
                continue
            again += [(number, remote, each) for number, each in remote.standings.commands()]
            if unanswered:
                resent.append((remote, unanswered))
        self._owing.clear()
        for _, remote, command in sorted(again, key=lambda each: each[0]):
            self._ask_again(remote, command)
        for remote, commands in resent:
            self._open(remote)
            self._commands += len(commands)
            self._bytes += sum(map(size_of, commands))
            self._put([items.COMMANDS, remote.id, [self._packed(remote, c) for c in commands]])

    def _ask_again(self, remote: RemoteSession, command: Command) -> None:
        self._open(remote)
        self._commands += 1
        remote.last += 1
        remote.unanswered[remote.last] = command
        remote.again.add(remote.last)
        packed = items.pack_command(Numbered(remote.last, command), self.keys.pack)
        self._put([items.COMMANDS, remote.id, [packed]])

    def _put(self, item: Item) -> None:
        self._out.append(item)
        if not self._is_due:
            self._due()

    def _due(self) -> None:
        if self._send is not None:
            self._is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        if self._send is not None and self._out:
            out, self._out = self._out, []
            for blob in items.batches(out):
                self._send(blob)

    # Items from worker 0.

    def receive(self, blob: bytes) -> None:
        self._received.extend(items.decode(blob))
        if not self._is_handing_out:
            self._hand_out(SLICE_SECONDS)

    def _hand_out(self, seconds: float | None) -> None:
        """Hand out items of worker 0 for so many seconds; then others get a turn."""
        self._is_handing_out = False
        end = None if seconds is None else self._loop.time() + seconds
        while self._received:
            self._take(self._received.popleft())
            if end is not None and self._loop.time() > end and self._received:
                self._is_handing_out = True
                self._loop.call_soon(self._hand_out, seconds)
                return

    def _take(self, item: Item) -> None:
        kind = item[0]
        if kind == items.EFFECTS:
            remote = self._sessions.get(item[1])
            if remote is not None:
                self._hand_over(remote, item[2], item[3])
        elif kind == items.TAKEN:
            self._commands = max(0, self._commands - item[1])
            self._bytes = max(0, self._bytes - item[2])
        elif kind == items.KEY:
            self.keys.learn((Whose(item[1]), item[2]), item[3])

    def _hand_over(self, remote: RemoteSession, packed: list[Any], charged: int) -> None:
        effects = [effect for each in packed if (effect := self._effect(remote, each)) is not None]
        remote.owed += charged
        if effects:
            try:
                remote.outlet(effects)
            except Exception:
                log.exception("what worker 0 has for a session was not taken")
        if remote.owed and self._sessions.get(remote.id) is remote:
            session = self._local.session(remote.id)
            if session is None or not len(session.mailbox):
                self._owe(remote)

    def _owe(self, remote: RemoteSession) -> None:
        """Report that a session's client took everything."""
        if remote.owed >= self._credit_bytes:
            self._credit(remote)
            return
        self._owing[remote.id] = None
        if self._crediting is None:
            self._crediting = self._loop.call_later(CREDIT_SECONDS, self._credit_later)

    def _effect(self, remote: RemoteSession, packed: Item) -> Effect | None:
        """The effect for a session; None if it answers a request from before worker 0's restart."""
        number = items.number_of(packed)
        if not number:
            effect = items.unpack_effect(packed, None)
            remote.standings.lost(effect)
            return effect
        command = remote.unanswered[number]
        effect = items.unpack_effect(packed, getattr(command, "ref", None))
        if type(effect) is Deliver and type(command) in READERS:
            return effect  # the answer has more parts
        del remote.unanswered[number]
        if number not in remote.again:
            remote.standings.answered(command, effect)
            return effect
        remote.again.discard(number)
        if isinstance(effect, Failed):
            self._loop.call_soon(self._end, remote.id, NOT_AGAIN)
        return None

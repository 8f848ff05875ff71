"""The sessions of a front at the worker with the shard: their commands come over its link, and
their effects go back over it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from headgate.core.commands import Command
from headgate.core.delivery.mailbox import Budget
from headgate.core.delivery.remote_mailbox import RemoteMailbox
from headgate.core.delivery.sessions import Session
from headgate.core.effects import Deliver, Effect
from headgate.core.model.ids import SessionId
from headgate.core.reader_commands import Block
from headgate.core.turn.inbox import size_of
from headgate.core.turn.turn import delivery_size
from headgate.server.router_port import Outlet
from headgate.server.workers import lane_items as items
from headgate.server.workers.lane_items import Item
from headgate.wire.smp.remote_proofs import Place, unpack_proof


class ShardPort(Protocol):
    """The router with the shard, as the sessions of a front call it."""

    @property
    def clock(self) -> Callable[[], float]: ...

    @property
    def budget(self) -> Budget: ...

    def admit(self, session: Session, outlet: Outlet) -> None:
        """Admit a session whose socket is at another worker."""
        ...

    def release(self, session: SessionId, *, lost: bool) -> None:
        """Release a session that is over."""
        ...

    def insist(self, commands: Sequence[Command | Block]) -> int:
        """Put commands in line; return the number of commands ever put in."""
        ...

    def drained(self, session: SessionId) -> None:
        """Note that the client of a session has room again."""
        ...


class FrontSessions:
    """The sessions of one front in one of its lives. Everything for the front in one pass of the
    loop is one blob. When its link ends they are over, and their unconfirmed messages do not count
    as attempts."""

    def __init__(self, shard: ShardPort, send: Callable[[bytes], None]) -> None:
        self._shard = shard
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._mailboxes: dict[SessionId, RemoteMailbox] = {}
        self._out: list[Item] = []
        self._in_line: deque[tuple[int, int, int]] = deque()
        """The commands of the front in the inbox: the number of the last of them there, their count
        and bytes."""
        self._is_due = False

    def __len__(self) -> int:
        return len(self._mailboxes)

    def close(self) -> None:
        """Release all sessions of a front that is gone."""
        for session in list(self._mailboxes):
            self._release(session, lost=False)

    # Items from the front.

    def receive(self, blob: bytes) -> None:
        now = self._shard.clock()
        for item in items.decode(blob):
            kind, id = item[0], SessionId(item[1])
            if kind == items.COMMANDS:
                self._take(item[2], now)
            elif kind == items.READ:
                mailbox = self._mailboxes.get(id)
                if mailbox is not None:
                    mailbox.credit(item[2], now)
                    self._shard.drained(id)
            elif kind == items.HELD:
                mailbox = self._mailboxes.get(id)
                if mailbox is not None:
                    mailbox.sent(item[2], now)
            elif kind == items.OPENED:
                self._open(id, item[2], item[3:], now)
            elif kind == items.CLOSED:
                self._release(id, lost=item[2])

    def _take(self, packed: list[Item], now: float) -> None:
        proof = partial(unpack_proof, learn=self._learn)
        commands = [items.unpack_command(each, proof, now) for each in packed]
        put = self._shard.insist(commands)
        self._in_line.append((put, len(commands), sum(map(size_of, commands))))

    def _open(self, id: SessionId, wire: str, parts: list[Any], now: float) -> None:
        mailbox = self._mailboxes[id] = RemoteMailbox(id, self._shard.budget)
        session = Session(id, wire, "", now, mailbox)
        session.peer, session.called, session.agent, session.user = parts
        session.is_listed_elsewhere = wire == "resp"  # it has channels, too, which are at the front
        self._shard.admit(session, partial(self._send_effects, id))

    def _release(self, id: SessionId, *, lost: bool) -> None:
        if self._mailboxes.pop(id, None) is not None:
            self._shard.release(id, lost=lost)

    # Items to the front.

    def turned(self, taken: int) -> None:
        """Credit the front after a turn, by the number of commands ever taken."""
        line, commands, size = self._in_line, 0, 0
        while line and line[0][0] <= taken:
            _, more, bytes = line.popleft()
            commands += more
            size += bytes
        if commands:
            self._put([items.TAKEN, commands, size])

    def _send_effects(self, id: SessionId, effects: Sequence[Effect]) -> None:
        """Send the effects of a turn, or of a part of it."""
        charged = sum(delivery_size(each) for each in effects if type(each) is Deliver)
        mailbox = self._mailboxes.get(id)
        if mailbox is None:
            return
        if charged:
            mailbox.sent(charged, self._shard.clock())
        self._put([items.EFFECTS, id, list(map(items.pack_effect, effects)), charged])

    def _learn(self, place: Place, key: bytes) -> None:
        self._put([items.KEY, *place, key])

    def _put(self, item: Item) -> None:
        self._out.append(item)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        out, self._out = self._out, []
        for blob in items.batches(out):
            self._send(blob)

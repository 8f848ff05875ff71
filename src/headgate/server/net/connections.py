"""The connections of one wire: opened, watched for pressure, and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from headgate.core.delivery.mailbox import Mailbox, Pressure
from headgate.core.facts import MessagesDiscarded, SessionEvicted
from headgate.core.model.ids import SessionId
from headgate.errors import LimitReached
from headgate.server.net.connection import Connection
from headgate.server.net.endpoint import Guest
from headgate.server.net.poller import poller_of
from headgate.server.net.pump import Pipe
from headgate.server.router_port import Outlet, RouterPort

Gone = Callable[[Connection, str], None]
"""Called when a session is over, with the reason."""

SlowAction: TypeAlias = Literal["wait", "close", "drop-oldest"]


@dataclass(frozen=True, slots=True)
class SlowRule:
    """A wire's rule for sessions that do not read."""

    action: Callable[[SessionId], SlowAction]
    """The policy for a session that holds more than its share while the budget is spent: others
    wait for it, or it is closed, or it loses its oldest messages."""
    timeout: Callable[[], float]
    """Seconds after which a slow session that took nothing is closed; 0 is never."""


WAIT = SlowRule(lambda _: "wait", lambda: 0.0)
"""Messages without room in the mailbox stay in the store."""

QUOTA = 100
"""Items of one mailbox written in a row before others get a turn."""


class Connections:
    """The connections of one wire: opened, watched for pressure, and closed together.

    Owned by the wire's server, which is called when one of them is gone.
    """

    def __init__(self, router: RouterPort, wire: str, gone: Gone, slow: SlowRule = WAIT) -> None:
        self._router = router
        self._wire = wire
        self._gone = gone
        self._slow = slow
        self._loop = asyncio.get_running_loop()
        self._poller = poller_of(self._loop)
        self._live: dict[SessionId, Connection] = {}
        self._open: set[Connection] = set()
        """All connections, with those whose session is over but that may still read the last
        bytes."""

    def __getitem__(self, session: SessionId) -> Connection:
        return self._live[session]

    def __contains__(self, session: object) -> bool:
        """Whether a session is open."""
        return session in self._live

    def __len__(self) -> int:
        return len(self._live)

    def open(
        self,
        pipe: Pipe,
        guest: Guest,
        outlet: Outlet,
        *,
        name: str = "",
        quota: int = QUOTA,
        full: bytes = b"",
    ) -> Connection | None:
        """Open a connection with a session of its own. If there are too many, send the client
        `full`, close the pipe and return None."""
        router = self._router
        try:
            id = router.connect(self._wire, name, outlet)
        except LimitReached:
            self.refuse(pipe, guest, full)
            return None
        session = router.session(id)
        assert session is not None, "it was just opened"
        connection = Connection(
            self._loop,
            self._poller,
            pipe,
            self,
            id,
            session.mailbox,
            router.clock,
            quota,
            router.limits.answer_bytes,
        )
        session.peer, session.called, session.traffic = name, "", connection
        self._live[id] = connection
        self._open.add(connection)
        guest.leave = partial(connection.close, at_once=True)
        return connection

    def refuse(self, pipe: Pipe, guest: Guest, full: bytes) -> None:
        """Refuse a client for which there is no room."""
        with suppress(OSError):
            pipe.send(full)
        guest.known()
        pipe.close()

    def close(self) -> None:
        for connection in list(self._open):
            connection.close("the router stops", at_once=True)

    def look_at_slow(self) -> None:
        """Close sessions that were slow for too long; limits and rule may have changed, too."""
        timeout, now = self._slow.timeout(), self._router.clock()
        for id, mailbox in list(self._router.stuck()):
            connection = self._live.get(id)
            if connection is None:
                continue
            budget = mailbox.budget
            is_slow = mailbox.bytes > budget.mailbox_soft or budget.is_over(mailbox)
            if timeout and is_slow and now - mailbox.moved_at >= timeout:
                self._evict(connection, "slow for too long")
            else:
                self._judge(connection)

    def drop(self, connection: Connection) -> None:
        """Drop the mailbox of a session that is over, and record the loss."""
        self._record_discarded(connection, connection.mailbox.close())

    # Calls of connections.

    def pressed(self, connection: Connection) -> None:
        self._router.record_pressure()
        self._judge(connection)

    def eased(self, connection: Connection, before: Pressure) -> None:
        mailbox = connection.mailbox
        self._router.relieve(connection.id)
        is_easy = mailbox.pressure is Pressure.EASY
        if not len(mailbox) or (is_easy and before is not Pressure.EASY):
            self._router.drained(connection.id)

    def gone(self, connection: Connection, reason: str) -> None:
        del self._live[connection.id]
        self._gone(connection, reason)

    def ended(self, connection: Connection) -> None:
        self._open.discard(connection)

    # Inside.

    def _judge(self, connection: Connection) -> None:
        """Apply the rule to a session that holds too much."""
        action = self._slow.action(connection.id)
        if action == "wait" or not self._has_too_much(connection.mailbox):
            return
        # RESP-64: a policy may close a session that is over its limit.
        if action == "close":
            # Not at once: the caller may be iterating over the sessions of an audience.
            self._poller.soon(lambda: self._evict(connection, "over its limit"))
            return
        dropped = connection.mailbox.drop_oldest(connection.mailbox.budget.share)
        if dropped:
            self._record_discarded(connection, dropped)
            self._router.relieve(connection.id)

    def _has_too_much(self, mailbox: Mailbox) -> bool:
        """Whether it holds too many messages. Its answers are bounded by reading no more
        commands."""
        budget = mailbox.budget
        return budget.is_over(mailbox) and mailbox.bytes - mailbox.answers > budget.share

    def _evict(self, connection: Connection, reason: str) -> None:
        if connection.id in self._live:
            now, size = self._router.clock(), connection.mailbox.bytes
            session = self._router.session(connection.id)
            name, parts = ("", ()) if session is None else (session.name, session.parts)
            fact = SessionEvicted(now, connection.id, name, reason, size, *parts)
            self._router.announce([fact])
            connection.close(f"evicted: {reason}", at_once=True)

    def _record_discarded(self, connection: Connection, messages: int) -> None:
        if messages:
            now, name = self._router.clock(), self._name(connection)
            self._router.announce([MessagesDiscarded(now, connection.id, name, messages)])

    def _name(self, connection: Connection) -> str:
        session = self._router.session(connection.id)
        return "" if session is None else session.name

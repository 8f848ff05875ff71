"""The connections of a wire whose messages come out of turns: they are made, watched for
pressure, and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headgate.core.commands import Drained
from headgate.core.facts import SessionEased, SessionSlowed
from headgate.core.mailbox import Pressure
from headgate.core.names import SessionId
from headgate.server.connection import Connection, Pipe
from headgate.server.poller import poller_of
from headgate.server.router import Outlet, Router

Gone = Callable[[Connection, str], None]
"""Told that a session is over, and why."""


class Links:
    def __init__(self, router: Router, gone: Gone) -> None:
        self._router = router
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._poller = poller_of(self._loop)
        self._open: set[Connection] = set()
        """Those included whose session is over, and that may still read our last words."""
        self._slow_since: dict[SessionId, float] = {}

    def make(self, wire: str, name: str, pipe: Pipe, outlet: Outlet) -> Connection:
        """A connection with a session of its own. Raises if there are too many."""
        router = self._router
        id = router.connect(wire, name, outlet)
        session = router.broker.sessions.get(id)
        assert session is not None, "it was just opened"
        connection = Connection(
            self._loop,
            self._poller,
            pipe,
            self,
            id,
            session.mailbox,
            router.clock,
            0,
            router.limits.answer_bytes,
        )
        self._open.add(connection)
        return connection

    def close(self) -> None:
        for connection in list(self._open):
            connection.close("the router stops", at_once=True)

    # What connections say.

    def pressed(self, connection: Connection, before: Pressure) -> None:
        mailbox, now = connection.mailbox, self._router.clock()
        if mailbox.pressure is before:
            return
        name = self._name(connection.id)
        if before is Pressure.EASY:
            self._slow_since[connection.id] = now
            self._router.announce([SessionSlowed(now, connection.id, name, mailbox.bytes)])
        elif mailbox.pressure is Pressure.EASY:
            seconds = now - self._slow_since.pop(connection.id)
            self._router.announce([SessionEased(now, connection.id, name, seconds)])
            self._drained(connection.id)

    def eased(self, connection: Connection) -> None:
        if not len(connection.mailbox):
            self._drained(connection.id)

    def gone(self, connection: Connection, reason: str) -> None:
        self._slow_since.pop(connection.id, None)
        connection.mailbox.close(self._router.clock())
        self._gone(connection, reason)

    def ended(self, connection: Connection) -> None:
        self._open.discard(connection)

    # Inside.

    def _drained(self, session: SessionId) -> None:
        """What waited for room may go on, if something could."""
        seat = self._router.broker.shard.seats.find(session)
        if seat is not None and (seat.waiting or seat.sweep is not None or seat.opened):
            self._router.turns.insist([Drained(session)])

    def _name(self, session: SessionId) -> str:
        found = self._router.broker.sessions.get(session)
        return "" if found is None else found.name

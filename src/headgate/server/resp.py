"""The Redis wire on a listener: connections, policies for slow sessions, and the clock."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from headgate.core.access import Access
from headgate.core.facts import (
    Fact,
    MessagesDiscarded,
    SessionEased,
    SessionEvicted,
    SessionSlowed,
)
from headgate.core.mailbox import Mailbox, Pressure
from headgate.core.names import SessionId
from headgate.core.slots import Cluster, Node
from headgate.errors import LimitReached
from headgate.server.config.sections import ListenResp
from headgate.server.connection import Connection, Pipe
from headgate.server.door import Door
from headgate.server.poller import poller_of
from headgate.server.router import NOBODY, Router
from headgate.wire.resp.hub import Hub
from headgate.wire.resp.replies import error
from headgate.wire.resp.settings import Settings, SlowPolicy

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
"""How often keys are swept and slow sessions looked at."""
FULL = "ERR max number of clients reached"


class RespServer:
    def __init__(self, router: Router, config: ListenResp, directory: Path) -> None:
        self._router = router
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._poller = poller_of(self._loop)
        self._connections: dict[SessionId, Connection] = {}
        self._open_sockets: set[Connection] = set()
        """Those included whose session is over, and that may still read our last words."""
        self._slow_since: dict[SessionId, float] = {}
        self._door = Door(
            router, "resp", config.host, config.port, config.tls, directory, self._open
        )
        host, port = self._door.address
        password = None if config.password is None else config.password.reveal()
        budget = router.broker.budget
        budget.limit = config.publish_buffer_limit
        budget.mailbox_soft = config.mailbox_soft
        budget.mailbox_hard = config.mailbox_hard
        self.hub = Hub(
            self,
            router.broker,
            Settings(
                host=host,
                port=port,
                process_id=os.getpid(),
                notify_keyspace_events=config.notify_keyspace_events,
                slow_session=cast("SlowPolicy", config.slow_session),
                slow_timeout=config.slow_timeout,
                dispatch_quota=config.async_dispatch_quota,
                max_clients=router.limits.sessions,
            ),
            Access(password, router.limits),
            Cluster(Node(node_id(directory), host, port)) if config.cluster else None,
        )
        self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)

    @property
    def address(self) -> tuple[str, int]:
        return self._door.address

    def close(self) -> None:
        """Accept nothing more, and end every session."""
        self._door.close()
        self._ticking.cancel()
        for connection in list(self._open_sockets):
            connection.close("the router stops", at_once=True)

    # What the hub asks.

    def soon(self, call: Callable[[], None]) -> None:
        self._poller.soon(call)

    def announce(self, facts: Sequence[Fact]) -> None:
        self._router.announce(facts)

    def clock(self) -> float:
        return self._router.clock()

    def evict(self, session: SessionId, reason: str) -> None:
        connection = self._connections.get(session)
        if connection is not None:
            self._evict(connection, reason)

    def memory(self) -> int:
        """Resident bytes of this process."""
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return pages * resource.getpagesize()

    # New connections.

    def _open(self, pipe: Pipe, peer: str, local: str) -> None:
        try:
            self._check_clients()
            id = self._router.connect("resp", peer, lambda effects: None)
        except LimitReached:
            with suppress(OSError):
                pipe.send(error(FULL))
            pipe.close()
            return
        session = self._router.broker.sessions.get(id)
        assert session is not None, "it was just opened"
        connection = Connection(
            self._loop,
            self._poller,
            pipe,
            self,
            id,
            session.mailbox,
            self._router.clock,
            self.hub.settings.dispatch_quota,
            self._router.limits.answer_bytes,
        )
        self._connections[id] = connection
        self._open_sockets.add(connection)
        connection.start(self.hub.connect(id, connection, peer, local))

    def _check_clients(self) -> None:
        """CONFIG SET may have asked for fewer than the router allows."""
        most = self.hub.settings.max_clients
        if len(self.hub.sessions) >= most < self._router.limits.sessions:
            reached = LimitReached("maxclients", most)
            self.hub.tell_limit(NOBODY, reached)
            raise reached

    # What connections say.

    def pressed(self, connection: Connection, before: Pressure) -> None:
        mailbox = connection.mailbox
        if mailbox.pressure is not before:
            self._tell_pressure(connection, before)
        if self._has_too_much(mailbox):
            self._apply_policy(connection)

    def _has_too_much(self, mailbox: Mailbox) -> bool:
        """Of messages: what it asked for itself is bounded by not reading more of its commands."""
        budget = self.hub.budget
        return budget.is_over(mailbox) and mailbox.bytes - mailbox.answers > budget.share

    def _apply_policy(self, connection: Connection) -> None:
        mailbox = connection.mailbox
        policy = self.hub.settings.slow_session
        if connection.id in self.hub.monitors:
            policy = "close"  # those it listens to cannot be made to wait
        match policy:
            case "close":
                # Not from here: somebody is going through the sessions of an audience.
                self.soon(lambda: self._evict(connection, "over its limit"))
            case "drop-oldest":
                now = self.clock()
                dropped = mailbox.drop_oldest(self.hub.budget.share, now)
                if dropped:
                    told = MessagesDiscarded(now, connection.id, self._name(connection), dropped)
                    self.announce([told])

    def _tell_pressure(self, connection: Connection, before: Pressure) -> None:
        now, name = self.clock(), self._name(connection)
        if before is Pressure.EASY:
            self._slow_since[connection.id] = now
            self.announce([SessionSlowed(now, connection.id, name, connection.mailbox.bytes)])
        elif connection.mailbox.pressure is Pressure.EASY:
            seconds = now - self._slow_since.pop(connection.id)
            self.announce([SessionEased(now, connection.id, name, seconds)])

    def eased(self, connection: Connection) -> None:
        if self.hub.waiting:
            self.hub.wake()

    def gone(self, connection: Connection, reason: str) -> None:
        del self._connections[connection.id]
        self._slow_since.pop(connection.id, None)
        now, name = self.clock(), self._name(connection)
        dropped = connection.mailbox.close(now)
        if dropped:
            self.announce([MessagesDiscarded(now, connection.id, name, dropped)])
        self._router.disconnect(connection.id, reason)
        self.hub.disconnect(connection.id)

    def ended(self, connection: Connection) -> None:
        self._open_sockets.discard(connection)

    # The clock.

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)
        self.hub.sweep()
        budget, timeout, now = self.hub.budget, self.hub.settings.slow_timeout, self.clock()
        for id, mailbox in list(budget.stuck.items()):
            connection = self._connections.get(id)
            if connection is None:
                continue
            is_slow = mailbox.bytes > budget.mailbox_soft or budget.is_over(mailbox)
            if timeout and is_slow and now - mailbox.moved_at >= timeout:
                self._evict(connection, "slow for too long")
            elif self._has_too_much(mailbox):
                self._apply_policy(connection)  # limits and policy may have changed

    def _evict(self, connection: Connection, reason: str) -> None:
        if connection.id in self._connections:
            size = connection.mailbox.bytes
            fact = SessionEvicted(self.clock(), connection.id, self._name(connection), reason, size)
            self.announce([fact])
            connection.close(f"evicted: {reason}", at_once=True)

    def _name(self, connection: Connection) -> str:
        session = self._router.broker.sessions.get(connection.id)
        return "" if session is None else session.name


def node_id(directory: Path) -> str:
    """The name of this node in a cluster: drawn at the first start, and kept."""
    path = directory / "node"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        drawn = secrets.token_hex(20)
        with suppress(OSError):  # then it has another name after a restart
            path.write_text(drawn + "\n")
        return drawn

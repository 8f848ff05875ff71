"""The BlazingMQ wire on a listener: connections, their pulse, and what waits for room."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.core.commands import Command
from headgate.core.domain import Domain
from headgate.core.effects import Effect
from headgate.core.facts import Fact
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.facts import Refused as RefusedFact
from headgate.core.names import QueueId, SessionId
from headgate.errors import HeadgateError, LimitReached
from headgate.server.config.sections import ListenBmq
from headgate.server.connection import Connection, Pipe
from headgate.server.door import Door
from headgate.server.links import Links
from headgate.server.router import Router
from headgate.wire.bmq.control import ClientIdentity, ClientType
from headgate.wire.bmq.events import HEARTBEAT_REQUEST
from headgate.wire.bmq.hello import FEATURES, Pulse
from headgate.wire.bmq.session import BmqSession

log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
"""For a client to say hello."""
AGAIN_SECONDS = 0.05
"""After so long the router may have room for what it had none for."""


class BmqServer:
    def __init__(self, router: Router, config: ListenBmq, directory: Path) -> None:
        self.router = router
        self.pulse = Pulse(config.heartbeat, config.heartbeats_missed)
        self._loop = asyncio.get_running_loop()
        self._links = Links(router, self._gone)
        self._clients: dict[SessionId, Client] = {}
        self._input_bytes = 0
        self._is_stopping = False
        self._identity = ClientIdentity(
            client_type=ClientType.TCPBROKER,
            process_name="headgate",
            pid=os.getpid(),
            host_name=socket.gethostname(),
            features=FEATURES,
        )
        self._door = Door(
            router, "bmq", config.host, config.port, config.tls, directory, self._open
        )
        self._beating: asyncio.TimerHandle | None = None
        self._beat_later()

    @property
    def address(self) -> tuple[str, int]:
        return self._door.address

    def close(self) -> None:
        """Accept nothing more, and end every session."""
        self._is_stopping = True
        self._door.close()
        if self._beating is not None:
            self._beating.cancel()
        self._links.close()

    # New connections.

    def _open(self, pipe: Pipe, peer: str, local: str) -> None:
        client = Client(self, peer)
        try:
            connection = self._links.make("bmq", peer, pipe, client.tell)
        except LimitReached:
            pipe.close()
            return
        id = connection.id
        self._clients[id] = client
        deadline = self._loop.call_later(HELLO_SECONDS, client.close, "no hello")
        client.start(
            connection,
            BmqSession(client, id, self._identity, self.pulse, self.router.limits),
            deadline,
        )

    def _gone(self, connection: Connection, reason: str) -> None:
        client = self._clients.pop(connection.id)
        client.end()
        self._input_bytes -= client.held
        is_lost = not (client.session.has_left or self._is_stopping)
        self.router.disconnect(connection.id, reason, lost=is_lost)

    # What clients ask.

    def count_input(self, client: Client) -> None:
        """Bytes of events that are not whole. Who holds the most of too many is closed."""
        if client.session.id not in self._clients:
            return  # closed for what it sent
        more = client.session.held - client.held
        client.held += more
        self._input_bytes += more
        limit = self.router.limits.input_bytes
        if more > 0 and self._input_bytes > limit:
            most = max(self._clients.values(), key=lambda client: client.held)
            with suppress(LimitReached), self.router.telling_limits(most.session.id):
                raise LimitReached("input_bytes", limit)
            most.connection.close("over the limit input_bytes", at_once=True)

    def later(self, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(AGAIN_SECONDS, call)

    # The pulse.

    def _beat_later(self) -> None:
        if self.pulse.seconds:
            self._beating = self._loop.call_later(self.pulse.seconds, self._beat)

    def _beat(self) -> None:
        """Ask those who are silent for a sign of life; who gives none is gone. Those whom we do not
        read cannot give one."""
        self._beat_later()
        now = self.router.clock()
        for client in list(self._clients.values()):
            is_heard = client.session.has_greeted and not client.is_paused
            if not is_heard or now - client.active_at < self.pulse.seconds:
                continue
            if client.missed >= self.pulse.missed_max:
                client.connection.close("no heartbeat", at_once=True)
            else:
                client.missed += 1
                client.connection.write(HEARTBEAT_REQUEST)


class Client:
    """The shell of one session."""

    __slots__ = (
        "_again",
        "_deadline",
        "_is_held",
        "_peer",
        "_server",
        "active_at",
        "connection",
        "held",
        "is_paused",
        "missed",
        "name",
        "session",
    )

    connection: Connection
    session: BmqSession

    def __init__(self, server: BmqServer, peer: str) -> None:
        self._server = server
        self._peer = peer
        self._deadline: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._is_held = False
        self.name = peer
        self.active_at = server.router.clock()
        self.missed = 0
        """Heartbeats that were asked for in vain."""
        self.held = 0
        self.is_paused = False

    def start(
        self, connection: Connection, session: BmqSession, deadline: asyncio.TimerHandle
    ) -> None:
        self.connection = connection
        self.session = session
        self._deadline = deadline
        connection.start(self)

    def end(self) -> None:
        """The session is over."""
        for timer in (self._deadline, self._again):
            if timer is not None:
                timer.cancel()

    def receive(self, data: bytes) -> None:
        self.active_at = self._server.router.clock()
        self.missed = 0
        self.session.receive(data)
        self._server.count_input(self)

    def go_on(self) -> None:
        """The client took its answers."""
        self.session.go_on()
        self._server.count_input(self)

    def tell(self, effects: Sequence[Effect]) -> None:
        with self._safely():
            self.session.tell(effects)
            self._server.count_input(self)

    def _try_again(self) -> None:
        self._again = None
        with self._safely():
            self.go_on()

    @contextmanager
    def _safely(self) -> Iterator[None]:
        """A mistake of ours costs the client that met it its session, and nobody else."""
        try:
            yield
        except Exception:
            log.exception("a session failed")
            self.connection.close("internal error", at_once=True)

    # What the session asks.

    def now(self) -> float:
        return self._server.router.clock()

    def domain(self, name: str) -> Domain | None:
        return self._server.router.broker.shard.domains.get(name)

    def write(self, events: bytes, messages: int) -> None:
        self.connection.deliver(events, messages)

    def takes_answers(self) -> bool:
        return not self.connection.is_full

    def submit(self, commands: Sequence[Command]) -> None:
        """That there is no room is told once, not each time that it is tried again."""
        router = self._server.router
        if self._is_held:
            router.turns.submit(commands)
        else:
            self._is_held = True
            router.submit(self.session.id, commands)
        self._is_held = False

    def refused(self, queue: QueueId, error: HeadgateError) -> None:
        now = self.now()
        fact: Fact = RefusedFact(now, queue, type(error).__name__)
        if isinstance(error, LimitReached):
            fact = LimitReachedFact(now, error.name, error.limit, self.session.id)
        self._server.router.announce([fact])

    def named(self, name: str) -> None:
        assert self._deadline is not None, "a client says hello once"
        self._deadline.cancel()
        most = self._server.router.limits.client_name_bytes
        self.name = f"{self._peer} {name.encode()[:most].decode(errors='ignore')}"
        alive = self._server.router.broker.sessions.get(self.session.id)
        if alive is not None:
            alive.name = self.name

    def again(self) -> None:
        if self._again is None:
            self._again = self._server.later(self._try_again)

    def pause(self) -> None:
        self.is_paused = True
        self.connection.pause(may_leave=False)

    def resume(self) -> None:
        self.is_paused = False
        self.active_at = self.now()
        self.connection.resume()

    def close(self, reason: str) -> None:
        self.connection.close(reason)

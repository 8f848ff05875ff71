"""The BlazingMQ wire on a listener: connections, their pulse, and what waits for room."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.core.commands import Command
from headgate.core.effects import Effect
from headgate.core.facts import AuthenticationFailed, Fact
from headgate.core.facts import LimitReached as LimitReachedFact
from headgate.core.facts import Refused as RefusedFact
from headgate.core.login.client_tokens import ClientTokens
from headgate.core.login.failed_logins import FailedLogins
from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId, SessionId
from headgate.errors import HeadgateError, LimitReached
from headgate.server.config import Config
from headgate.server.config.sections import ListenBmq
from headgate.server.net.connection import Connection
from headgate.server.net.connections import Connections
from headgate.server.net.endpoint import Endpoint, Guest, Listen, opening
from headgate.server.net.pump import Pipe
from headgate.server.net.session_shell import SessionShell
from headgate.server.net.tls import TlsPipe
from headgate.server.router_port import RouterPort
from headgate.server.wires.wire import Finding, Listening, Wire
from headgate.wire.bmq.codec.control import ClientIdentity, ClientType
from headgate.wire.bmq.codec.frames import HEARTBEAT_REQUEST
from headgate.wire.bmq.negotiation import FEATURES, Pulse, Token
from headgate.wire.bmq.session import BmqSession

HELLO_SECONDS = 10.0
"""For a client to say hello."""
AGAIN_SECONDS = 0.05
"""After so long the router may have room for what it had none for."""
SOON_SECONDS = 0.001
"""After so long others had their turn. At once would be in the same pass of the loop."""


class BmqServer(Listening):
    """Listens for BlazingMQ clients, and puts a `BmqSession` on each connection.

    Opened and closed by the service, through `Wire`. It bounds the bytes of incomplete events over
    all sessions, and sends heartbeats.
    """

    def __init__(
        self,
        router: RouterPort,
        config: ListenBmq,
        directory: Path,
        source: Listen | None = None,
    ) -> None:
        self.router = router
        self.pulse = Pulse(config.heartbeat, config.heartbeats_missed)
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(router, "bmq", self._gone)
        self._clients: dict[SessionId, BmqConnection] = {}
        self._input_bytes = 0
        self._is_stopping = False
        self._identity = ClientIdentity(
            client_type=ClientType.TCPBROKER,
            process_name="headgate",
            pid=os.getpid(),
            host_name=socket.gethostname(),
            features=FEATURES,
        )
        self.clients = ClientTokens(
            {name: token.reveal() for name, token in config.clients.items()}
        )
        self._suspects = FailedLogins()
        self._opening = opening(
            router, "bmq", config.tls, directory, needs_certificate=not config.clients
        )
        self._endpoint = Endpoint(
            router,
            "bmq",
            config.host,
            config.port,
            self._opening,
            self._open,
            listen=source,
        )
        self._beating: asyncio.TimerHandle | None = None
        self._beat_later()

    @property
    def url(self) -> str:
        return "tcp://{}:{}".format(*self.address)

    def reload(self) -> None:
        """Read the certificate again."""
        self._opening.reload()

    def close(self) -> None:
        """Accept nothing more, and end every session."""
        self._is_stopping = True
        self._endpoint.close()
        if self._beating is not None:
            self._beating.cancel()
        self._connections.close()

    # New connections.

    def _open(self, pipe: Pipe, guest: Guest) -> None:
        client = BmqConnection(self, guest, pipe.peer_name if isinstance(pipe, TlsPipe) else "")
        connection = self._connections.open(pipe, guest, client.write_effects, name=guest.peer)
        if connection is None:
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

    def count_input(self, client: BmqConnection) -> None:
        """Bytes of events that are not whole. If there are too many, the session with the most is
        closed."""
        if not self.has(client):
            return  # closed for what it sent
        more = client.session.held - client.held
        client.held += more
        self._input_bytes += more
        limit = self.router.limits.input_bytes
        if more > 0 and self._input_bytes > limit:
            most = max(self._clients.values(), key=lambda client: client.held)
            with suppress(LimitReached), self.router.recording_limits(most.connection.id):
                raise LimitReached("input_bytes", limit)
            most.connection.close("over the limit input_bytes", at_once=True)

    def later(
        self, call: Callable[[], None], seconds: float = AGAIN_SECONDS
    ) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, call)

    def has(self, client: BmqConnection) -> bool:
        return client.connection.id in self._clients

    def failed(self, client: BmqConnection, name: str) -> float:
        """A client did not show who it is; so many seconds later it is told."""
        known = name if name in self.clients else ""
        fact = AuthenticationFailed(
            self.router.clock(), client.connection.id, "bmq", client.guest.peer, known
        )
        self.router.announce([fact])
        return self._suspects.failed(client.guest.network, self._loop.time())

    # The pulse.

    def _beat_later(self) -> None:
        if self.pulse.seconds:
            self._beating = self._loop.call_later(self.pulse.seconds, self._beat)

    def _beat(self) -> None:
        """Ask silent clients for a sign of life; a client that gives none is gone. Clients that are
        not read cannot give one."""
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


class BmqConnection(SessionShell):
    """The shell of one session: between its connection, its `BmqSession` and the router.

    Owned by `BmqServer`; implements `BmqPort`.
    """

    __slots__ = (
        "_again",
        "_certified",
        "_deadline",
        "_is_held",
        "_is_turned_away",
        "_server",
        "held",
        "is_paused",
        "missed",
        "name",
        "session",
    )

    session: BmqSession

    def __init__(self, server: BmqServer, guest: Guest, certified: str) -> None:
        super().__init__(server.router, guest)
        self._server = server
        self._certified = certified
        """The name in its certificate, if it has one."""
        self._deadline: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._is_held = False
        self._is_turned_away = False
        self.name = guest.peer
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
        if not self._is_turned_away:
            self.guest.known()
        for timer in (self._deadline, self._again):
            if timer is not None:
                timer.cancel()

    def let_go(self) -> None:
        del self.session

    def receive(self, data: bytes) -> None:
        self.active_at = self.now()
        self.missed = 0
        self.session.receive(data)
        self._server.count_input(self)

    def go_on(self) -> None:
        """The client took its answers."""
        self.session.go_on()
        self._server.count_input(self)

    @property
    def owes_answers(self) -> bool:
        """Whether requests of the client are under way."""
        return self.session.is_unanswered

    def write_effects(self, effects: Sequence[Effect]) -> None:
        session = self.session
        with self.safely():
            session.write_effects(effects)
            self._server.count_input(self)
            if self.connection.has_hung_up and not session.is_unanswered:
                self.connection.close("closed by the client")

    def _try_again(self) -> None:
        self._again = None
        with self.safely():
            self.go_on()

    # What the session asks.

    def domain(self, name: str) -> Domain | None:
        return self.router.domain(name)

    def write(self, events: bytes, messages: int) -> None:
        self.connection.deliver(events, messages)

    def takes_answers(self) -> bool:
        return not self.connection.is_full

    def submit(self, commands: Sequence[Command]) -> None:
        """That there is no room is told once, not each time that it is tried again."""
        if self._is_held:
            self.router.submit_again(commands)
        else:
            self._is_held = True
            self.router.submit(self.connection.id, commands)
        self._is_held = False

    def refused(self, queue: QueueId, error: HeadgateError) -> None:
        now = self.now()
        fact: Fact = RefusedFact(now, queue, type(error).__name__)
        if isinstance(error, LimitReached):
            fact = LimitReachedFact(now, error.name, error.limit, self.connection.id)
        self.router.announce([fact])

    def identify(self, token: Token | None) -> str | None:
        clients = self._server.clients
        if token is not None and len(clients):
            name = token.name if clients.accept(token.name, token.secret) else None
        else:
            name = self._certified or (None if len(clients) else "")
        if name is not None:
            self.guest.known()
            alive = self.router.session(self.connection.id)
            if alive is not None:
                alive.user = name
        return name

    def turn_away(self, token: Token | None, events: bytes) -> None:
        """If it is gone by then, its place is taken until then: who hangs up when the answer is
        late has not saved time."""

        def write() -> None:
            self.guest.known()
            if self._server.has(self):
                self.connection.write(events)
                self.close("not authenticated")

        seconds = self._server.failed(self, token.name if token is not None else "")
        if not seconds:
            write()
            return
        self._is_turned_away = True
        self.pause()
        self._server.later(write, seconds)

    def named(self, name: str) -> None:
        assert self._deadline is not None, "a client says hello once"
        self._deadline.cancel()
        most = self.router.limits.client_name_bytes
        given = name.encode()[:most].decode(errors="ignore")
        self.name = f"{self.guest.peer} {given}"
        alive = self.router.session(self.connection.id)
        if alive is not None:
            alive.called = given

    def again(self) -> None:
        if self._again is None:
            self._again = self._server.later(self._try_again)

    def soon(self) -> None:
        if self._again is None:
            self._again = self._server.later(self._try_again, SOON_SECONDS)

    def pause(self) -> None:
        self.is_paused = True
        super().pause()

    def resume(self) -> None:
        self.is_paused = False
        self.active_at = self.now()
        super().resume()


def open_bmq(router: RouterPort, config: Config, source: Listen | None = None) -> BmqServer:
    assert config.listen.bmq is not None, "its section is there"
    return BmqServer(router, config.listen.bmq, config.directory, source)


def check_bmq(config: Config) -> Iterator[Finding]:
    """Its clients are all in its section, which was read."""
    yield from ()


BMQ = Wire("bmq", ListenBmq, open_bmq, check_bmq)

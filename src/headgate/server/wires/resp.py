"""The Redis wire on a listener: connections, policies for slow sessions, and the clock."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

from headgate.core.commands import Command
from headgate.core.facts import Fact
from headgate.core.model.ids import SessionId
from headgate.core.reader_commands import Block
from headgate.core.redis.cluster import Cluster, Node
from headgate.errors import HeadgateError, LimitReached
from headgate.server.config import Config
from headgate.server.config.sections import ListenResp
from headgate.server.net.connection import Connection
from headgate.server.net.connections import Connections, SlowAction, SlowRule
from headgate.server.net.endpoint import Endpoint, Guest, Listen, opening
from headgate.server.net.poller import poller_of
from headgate.server.net.pump import Pipe, deliver_all
from headgate.server.router_port import NOBODY, ChannelRouterPort
from headgate.server.wires.acl_file import access_of, acl_file
from headgate.server.wires.wire import Finding, Listening, Wire
from headgate.wire.resp.codec.replies import error
from headgate.wire.resp.hub import Hub
from headgate.wire.resp.settings import Settings, SlowPolicy

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
"""How often keys are swept and slow sessions looked at."""
FULL = "ERR max number of clients reached"


class RespServer(Listening):
    """Listens for Redis clients, and puts a `RespSession` on each connection.

    Opened and closed by the service, through `Wire`. It owns the hub that the sessions share, and
    calls its tick.
    """

    def __init__(
        self,
        router: ChannelRouterPort,
        config: ListenResp,
        directory: Path,
        listen: Listen | None = None,
    ) -> None:
        self._router = router
        self.clock = router.clock
        self._config = config
        self._loop = asyncio.get_running_loop()
        poller = poller_of(self._loop)
        self.soon, self.next_pass = poller.soon, poller.later
        self.deliver_all = deliver_all
        self._connections = Connections(
            router, "resp", self._gone, SlowRule(self._slow, self._patience)
        )
        access = access_of(config, directory, router.limits)
        self._guests: dict[SessionId, Guest] = {}
        """Clients that have to authenticate, and have not, or failed to."""
        self._strangers: dict[SessionId, float] = {}
        """Of those, who has said nothing that was right since it connected, and when that was."""
        self._opening = opening(router, "resp", config.tls, directory)
        self._endpoint = Endpoint(
            router,
            "resp",
            config.host,
            config.port,
            self._opening,
            self._open,
            full=b"" if config.tls is not None else error(FULL),
            listen=listen,
        )
        host, port = self._endpoint.address
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
            access,
            Cluster(Node(node_id(directory), host, port)) if config.cluster else None,
            acl_file(config, directory),
        )
        budget, own = self.hub.budget, config.mailboxes(router.limits)
        budget.limit, budget.mailbox_soft, budget.mailbox_hard = own
        self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)

    @property
    def url(self) -> str:
        return "{}:{}".format(*self.address)

    def reload(self) -> None:
        """Read the certificate again."""
        self._opening.reload()

    def close(self) -> None:
        """Accept nothing more, and end every session."""
        self._endpoint.close()
        self._ticking.cancel()
        self._connections.close()

    # What the hub asks.

    def announce(self, facts: Sequence[Fact]) -> None:
        self._router.announce(facts)

    def known(self, session: SessionId) -> None:
        self._strangers.pop(session, None)
        guest = self._guests.pop(session, None)
        if guest is not None:
            guest.known()

    def suspect(self, session: SessionId) -> None:
        if session in self._guests:
            return
        connection, client = self._connections[session], self.hub.sessions[session]
        guest = Guest(self._endpoint, client.peer, client.local)
        guest.leave = partial(connection.close, at_once=True)
        self._guests[session] = guest
        try:
            self._endpoint.admit(guest)
        except LimitReached as reached:
            # Not from here: it is in the middle of a command.
            reason = f"over the limit {reached.name}"
            self.soon(partial(connection.close, reason, at_once=True))

    def later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, call)

    def submit(self, session: SessionId, commands: Sequence[Command | Block]) -> None:
        self._router.submit(session, commands)

    def draw(self, length: int) -> bytes:
        return secrets.token_bytes(length)

    def memory(self) -> int:
        """Resident bytes of this process."""
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return pages * resource.getpagesize()

    # New connections.

    def _open(self, pipe: Pipe, guest: Guest) -> None:
        peer, full = guest.peer, error(FULL)
        try:
            self._check_clients()
        except LimitReached:
            self._connections.refuse(pipe, guest, full)
            return
        connection = self._connections.open(
            pipe,
            guest,
            self.hub.write_effects,
            name=peer,
            quota=self.hub.settings.dispatch_quota,
            full=full,
        )
        if connection is None:
            return
        id = connection.id
        client = self.hub.connect(id, connection, peer, guest.local)
        if client.user is None:
            self._guests[id] = guest
            self._strangers[id] = self._loop.time()
        else:
            guest.known()
        connection.start(client)

    def _check_clients(self) -> None:
        """CONFIG SET may have asked for fewer than the router allows."""
        most = self.hub.settings.max_clients
        if len(self.hub.sessions) >= most < self._router.limits.sessions:
            reached = LimitReached("maxclients", most)
            self.hub.record_limit(NOBODY, reached)
            raise reached

    # What connections say.

    def _slow(self, session: SessionId) -> SlowAction:
        """Clients that are monitored cannot be made to wait."""
        return "close" if session in self.hub.monitors else self.hub.settings.slow_session

    def _patience(self) -> float:
        return self.hub.settings.slow_timeout

    def _gone(self, connection: Connection, reason: str) -> None:
        self._strangers.pop(connection.id, None)
        if not self.hub.sessions[connection.id].is_delayed:
            self.known(connection.id)
        self._connections.drop(connection)
        self._router.disconnect(connection.id, reason)
        self.hub.disconnect(connection.id)

    # The clock.

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)
        self.hub.tick()
        self._close_strangers()
        self._connections.look_at_slow()

    def _close_strangers(self) -> None:
        """Close clients that had to authenticate, and had time to."""
        limit, now = self._config.auth_timeout, self._loop.time()
        while limit and self._strangers:
            id, since = next(iter(self._strangers.items()))
            if now - since < limit:
                break
            del self._strangers[id]
            self._connections[id].close("not authenticated in time", at_once=True)


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


def open_resp(
    router: ChannelRouterPort, config: Config, source: Listen | None = None
) -> RespServer:
    assert config.listen.resp is not None, "its section is there"
    return RespServer(router, config.listen.resp, config.directory, source)


def check_resp(config: Config) -> Iterator[Finding]:
    """Whether its users can be read."""
    assert config.listen.resp is not None, "its section is there"
    try:
        count = len(access_of(config.listen.resp, config.directory, config.limits).users())
    except HeadgateError as error:
        yield Finding("users", False, str(error))
    else:
        yield Finding("users", True, f"{count} user{'' if count == 1 else 's'}")


RESP = Wire("resp", ListenResp, open_resp, check_resp)

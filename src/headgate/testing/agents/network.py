"""The network of a world of agents: connections that keep their order, are held, and break.

An agent has its real `Link` over them. TLS, padding and signatures are missing: a block is the
payload, and a router trusts every client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from dataclasses import dataclass
from itertools import count
from math import inf, nextafter
from random import Random
from typing import TYPE_CHECKING, Any

from headgate.client.smp.greeting import Stream
from headgate.client.smp.handler import LinkHandler
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.service import Service
from headgate.client.smp.session_keys import SessionKeys
from headgate.client.smp.timing import Timing
from headgate.errors import BadService, NotConnected, RequestRefused, TimedOut
from headgate.testing.agents.loop import Process, WorldLoop
from headgate.testing.agents.weather import AgentWeather
from headgate.testing.trace import Trace
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.transmissions import Transmission, encode
from headgate.wire.smp.handshake import Role, TransportError, Versions
from headgate.wire.smp.session import MESSAGING_SINCE

if TYPE_CHECKING:
    from headgate.testing.agents.router import RouterSession, WorldRouter

NOTICE_SECONDS = 20.0
"""At most so long after a break an end of the connection learns of it."""


class NoCipher:
    """A cipher that leaves blocks as they are."""

    def seal(self, payload: bytes) -> bytes:
        return payload

    def open(self, block: bytes) -> bytes:
        return block


@dataclass
class PlainKeys(SessionKeys):
    """Session keys that do not sign: requests go without signatures."""

    def encode(self, request: Request, correlation: bytes) -> bytes:
        command = request.command
        assert not isinstance(command, bytes), "an agent sends commands"
        if isinstance(command, c.Subs) and self.service_id is None:
            raise BadService("this session has no service")
        raw = c.encode_command(command, self.version)
        return encode(Transmission(b"", None, correlation, request.entity, raw), self.version)


class WorldStream(Stream):
    """The agent's end of a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.session_id = b"session %d" % connection.number
        self.leaf = b""

    async def block(self) -> bytes:
        return await self.connection.read()

    def write(self, data: bytes) -> None:
        self.connection.send(data)

    async def drain(self) -> None:
        if self.connection.is_broken:
            raise NotConnected("the connection broke")

    def abort(self) -> None:
        self.connection.hang_up()

    async def wait_closed(self) -> None:
        pass


class Connection:
    """One connection of a process with a router."""

    def __init__(self, network: Network, process: Process, router: WorldRouter) -> None:
        self.network = network
        self.process = process
        self.router = router
        self.number = next(network.numbers)
        self.session: RouterSession | None = None
        self.is_cut = False
        """Nothing arrives any more, at either end."""
        self.is_broken = False
        """The agent's end knows that it is over."""
        self.asked_held_until = 0.0
        self.answers_held_until = 0.0
        self._asked_at = 0.0
        self._answered_at = 0.0
        self._received: deque[bytes] = deque()
        self._reader: asyncio.Future[None] | None = None

    def __str__(self) -> str:
        return f"connection {self.number} of {self.process.name} with {self.router.name}"

    # The agent's end.

    def send(self, payload: bytes) -> None:
        if self.is_cut or self.is_broken or not self.process.is_alive:
            return
        network = self.network
        if network.random.random() < network.weather.loss:
            self.cut()
            return
        self._asked_at = max(_after(self._asked_at), self.asked_held_until, network.arrival())
        network.at(self._asked_at, self._arrive, payload)

    async def read(self) -> bytes:
        while not self._received:
            if self.is_broken:
                raise NotConnected("the router closed the connection")
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._received.popleft()

    def hang_up(self) -> None:
        """The agent's end is closed; the router learns of it after what was sent."""
        if self.is_broken:
            return
        self.is_broken = True
        self._wake()
        if not self.is_cut:
            arrival = max(_after(self._asked_at), self.asked_held_until, self.network.arrival())
            self.network.at(arrival, self._end_at_router)

    # The router's end.

    def answer(self, payload: bytes) -> None:
        if self.is_cut:
            return
        network = self.network
        if network.random.random() < network.weather.loss:
            self.cut()
            return
        self._answered_at = max(
            _after(self._answered_at), self.answers_held_until, network.arrival()
        )
        network.at(self._answered_at, self._receive, payload)

    # What happens to it.

    def cut(self, notice: float = NOTICE_SECONDS) -> None:
        """Break. Blocks on their way are lost, and each end notices in its own time."""
        if self.is_cut:
            return
        self.is_cut = True
        network = self.network
        network.trace.add("network", f"cuts {self}")
        network.at(network.now + network.random.uniform(0.0, notice), self._end_at_router)
        network.at(network.now + network.random.uniform(0.0, notice), self._break)

    def let_go(self) -> None:
        """Hold nothing more; what was held comes when it would have come."""
        self.asked_held_until = self.answers_held_until = 0.0

    def _arrive(self, payload: bytes) -> None:
        if not self.is_cut and self.session is not None:
            self.router.asked(self.session, payload)

    def _receive(self, payload: bytes) -> None:
        if not self.is_cut and not self.is_broken:
            self._received.append(payload)
            self._wake()

    def _end_at_router(self) -> None:
        self.is_cut = True
        if self.session is not None:
            self.router.ended(self.session)
        self.network.connections.pop(self.number, None)

    def _break(self) -> None:
        self.is_broken = True
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _after(moment: float) -> float:
    """The next moment: what is planned for one and the same has no order."""
    return nextafter(moment, inf)


class Network:
    """All connections of a world. Time and chance are those of the world."""

    def __init__(
        self, loop: WorldLoop, random: Random, weather: AgentWeather, trace: Trace
    ) -> None:
        self.random = random
        self.weather = weather
        self.trace = trace
        self.numbers = count(1)
        self.connections: dict[int, Connection] = {}
        self.routers: dict[RouterAddress, WorldRouter] = {}
        self._loop = loop
        # Whatever is on its way goes on when the process that sent it is dead.
        self._context = copy_context()

    @property
    def now(self) -> float:
        return self._loop.now

    def arrival(self) -> float:
        return self.now + self.random.uniform(0.0, self.weather.latency)

    def at(self, moment: float, action: Any, *args: Any) -> None:  # noqa: ANN401
        self._context.run(self._loop.call_at, moment, action, *args)

    def ended(self, process: Process) -> None:
        """A process was killed: the system closes its connections, or the machine was cut off."""
        for connection in list(self.connections.values()):
            if connection.process is process:
                if self.random.random() < 0.5:
                    connection.cut()
                else:
                    connection.hang_up()

    async def connect(
        self,
        process: Process,
        address: RouterAddress,
        handler: LinkHandler,
        *,
        service: Service | None,
        role: Role,
        versions: Versions,
        timing: Timing,
        slot: int,
    ) -> Link:
        """As `Link.connect`."""
        router = self.routers[address]
        await asyncio.sleep(self.arrival() - self.now)
        if self.random.random() < self.weather.connect_failure:
            await self._fail(service, timing)
        if not router.is_up:
            raise NotConnected(f"no router answers at {router.name}")
        if router.version < MESSAGING_SINCE:
            service = None
        connection = Connection(self, process, router)
        self.connections[connection.number] = connection
        connection.session = session = router.greeted(connection, service)
        try:
            await asyncio.sleep(self.arrival() - self.now)
        except BaseException:
            connection.hang_up()
            raise
        keys = PlainKeys(b"session %d" % connection.number, router.version, b"", NoCipher())
        keys.service_id = session.service
        link = Link(WorldStream(connection), keys, handler, timing=timing, slot=slot)
        link.start()
        return link

    async def _fail(self, service: Service | None, timing: Timing) -> None:
        how = self.random.randrange(3)
        if how == 0:
            await asyncio.sleep(timing.connect_seconds)
            raise TimedOut("connecting", timing.connect_seconds)
        if how == 1 and service is not None:
            error = self.random.choice((TransportError.BAD_SERVICE, TransportError.BAD_AUTH))
            raise RequestRefused(error.value.decode())
        raise NotConnected("the network cannot be reached")

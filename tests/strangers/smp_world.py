"""A router over TLS, and connections that keep every frame they are sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.client.smp.handler import Unexpected
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.service import Service, make_service
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import pack
from headgate.wire.smp.codec.replies import Reply
from headgate.wire.smp.handshake import Role
from tests.strangers.smp_model import service_of
from tests.support.smp_router import Rig

QUOTA = 3
FLUSH = 0.005
PATIENCE = 30.0
"""Seconds that something promised may take."""
LOOKS = 30
"""Parts in which patience is spent. A process that gets no processor for a while wakes up late for
one of them, and finds what came meanwhile before the next; waiting in one piece, it would give up
before it has read."""


class Difference(AssertionError):
    """The router did something else than the model says."""


@dataclass(frozen=True)
class Frame:
    """One transmission as it came."""

    correlation: bytes
    entity: bytes
    reply: Reply


class Listener(SmpClient):
    """A connection that keeps what it receives, answers and events alike, in their order. It
    writes its requests itself, so that no answer is expected."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.came = asyncio.Event()

    def received(self, link: Link, entity: bytes, event: Reply) -> None:
        self.frames.append(Frame(b"", entity, event))
        self.came.set()

    def unexpected(self, link: Link, report: Unexpected) -> None:
        if report.reply is None:
            raise Difference(report.why)
        self.frames.append(Frame(report.correlation, report.entity, report.reply))
        self.came.set()

    def lost(self, link: Link, reason: str) -> None:
        self.came.set()

    def hang_up(self) -> None:
        """Close as TLS and TCP do, so that all that was written arrives before."""
        self.link.stream.writer.close()

    async def until(self, holds: Callable[[], bool], patience: float) -> bool:
        """Whether it holds before patience ends; looked at whenever something came."""
        for _ in range(LOOKS):
            with suppress(TimeoutError):
                async with asyncio.timeout(patience / LOOKS):
                    while not holds():
                        if not self.link.is_open:
                            raise Difference(f"a connection has ended: {self.link.reason}")
                        self.came.clear()
                        await self.came.wait()
                    return True
        return False


class World:
    """A router, the certificates of the services, and the connections by the names of their
    sessions. Connections outlive a sequence unless it ends them."""

    def __init__(self, rig: Rig, services: Iterable[str], patience: float) -> None:
        self.rig = rig
        self.patience = patience
        self.clients: dict[str, Listener] = {}
        self.services: dict[str, Service] = {name: make_service(time.time()) for name in services}
        self.service_ids: dict[str, bytes] = {}
        self.steps = 0
        self._number = 0

    @classmethod
    async def start(
        cls, folder: Path, services: Iterable[str], url: str = "memory:", patience: float = PATIENCE
    ) -> World:
        rig = Rig(url, folder, queue_quota=QUOTA, end_flush=FLUSH, notification_flush=FLUSH)
        await rig.start()
        return cls(rig, services, patience)

    async def stop(self) -> None:
        for client in self.clients.values():
            client.close()
            await client.closed()
        await self.rig.stop()

    def gauges(self) -> Mapping[str, float]:
        return self.rig.router.gauges()

    async def meet(self, name: str) -> Listener:
        """The connection of a session, made when it is first needed."""
        if name in self.clients:
            return self.clients[name]
        service, role = service_of(name)
        client = await Listener.connect(
            self.rig.host,
            self.rig.port,
            self.rig.fingerprint,
            service=None if service is None else self.services[service],
            role=Role.NOTIFIER if role == "N" else Role.MESSAGING,
        )
        self.clients[name] = client
        if service is not None:
            id = client.service_id
            assert id is not None, "the third message of the handshake has it"
            if self.service_ids.setdefault(service, id) != id:
                raise Difference(f"service {service} has got another id")
        return client

    async def part(self, name: str, *, at_once: bool = True) -> None:
        """Hang up, and wait until the router knows."""
        client = self.clients.pop(name)
        if at_once:
            client.close()
        else:
            client.hang_up()
        await client.closed()
        if not await self.settles({"sessions": len(self.clients)}):
            raise Difference(f"the session of {name} does not end")

    async def settles(self, gauges: Mapping[str, int]) -> bool:
        """Whether the router comes to these numbers: who hangs up is cleaned up after."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                while not gauges.items() <= self.gauges().items():  # noqa: ASYNC110  there is no event
                    await asyncio.sleep(0.001)
                return True
        return False

    def correlation(self) -> bytes:
        """One that was not used before."""
        self._number += 1
        return b"%024d" % self._number

    async def fence(self, names: Iterable[str]) -> None:
        """Each of them has answered a PING, and so has what was written to it before."""
        sent: dict[str, bytes] = {}
        for name in names:
            client, sent[name] = self.clients[name], self.correlation()
            ping = client.encode(Request(c.Ping(), correlation=sent[name]))
            await client.send_block(pack([ping])[0])
        for name, correlation in sent.items():
            await self._pong(name, correlation)

    async def _pong(self, name: str, correlation: bytes) -> None:
        client = self.clients[name]

        def answered() -> bool:
            return any(frame.correlation == correlation for frame in client.frames)

        if not await client.until(answered, self.patience):
            raise Difference(f"{name} has no answer to PING")
        client.frames = [frame for frame in client.frames if frame.correlation != correlation]

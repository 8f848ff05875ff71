"""A router with the SMP wire in the loop of a test, and the clients that the test has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, Unpack

from headgate.client.smp.service import Service
from headgate.core.delivery.mailbox import Budget
from headgate.core.facts import Fact
from headgate.core.model.limits import Limits
from headgate.server.config.sections import Config, ListenSmp, Smp
from headgate.server.identity import Identity
from headgate.server.router import Router
from headgate.server.router_port import RouterPort
from headgate.server.wires.smp import SmpServer
from headgate.server.workers.membership import WorkerRouter
from headgate.store import Store, open_store
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import Role, Versions
from tests.support.fronts import FRONTED, Front

FLUSH = 0.05
"""Seconds that ENDs and notices are collected."""
NEVER = 600.0
"""Longer than a test takes: ENDs and notices are sent when it says so."""


class Options(TypedDict, total=False):
    """Those of `SmpClient.connect`."""

    versions: Versions
    service: Service | None
    role: Role
    alpn: bool
    with_key: bool


class Rig:
    """Started by its fixture. The identity and the store outlive a `restart`."""

    router: Router
    server: SmpServer
    store: Store

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
        keeps_port: bool = False,
        fronted: bool = FRONTED,
        **settings: object,
    ) -> None:
        self._url = url
        self._folder = folder
        self._limits = limits or Limits()
        self._clock = clock
        self._keeps_port = keeps_port
        self._fronted = fronted
        """Whether its clients are at a front of the router."""
        self.front: Front | None = None
        self.port = 0
        self.is_running = False
        quick = {"end_flush": FLUSH, "notification_flush": FLUSH, "handshake_timeout": 10.0}
        self.settings = Smp(**quick | settings)  # type: ignore[arg-type]
        self.identity = Identity.open(folder / "identity", "localhost", time.time())
        self._domains = Config(directory=folder, smp=self.settings).all_domains()
        self.facts: list[Fact] = []
        self._clients: list[SmpClient] = []

    @property
    def fingerprint(self) -> bytes:
        return self.identity.fingerprint

    @property
    def address(self) -> RouterAddress:
        return RouterAddress((self.host,), self.port, self.fingerprint)

    @property
    def budget(self) -> Budget:
        """Of the mailboxes that sockets have."""
        owner = self.router if self.front is None else self.front.local
        return owner.broker.budget

    @property
    def statements(self) -> int:
        """How many the store has carried out."""
        return self.store.statements

    async def start(self) -> None:
        await self._start_router()
        await self._listen()

    async def _start_router(self) -> None:
        self.store = open_store(self._url, self._folder)
        make = WorkerRouter if self._fronted else Router
        self.router = make(
            store=self.store, domains=self._domains, limits=self._limits, clock=self._clock
        )
        self.router.watch(self.facts.extend)
        await self.router.start()
        while not self.router.turns.count or len(self.router.turns):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # what it looks for at its start costs statements

    async def _listen(self) -> None:
        port: RouterPort = self.router
        if isinstance(self.router, WorkerRouter):
            self.front = Front(self.router, self._domains)
            await self.front.start(lambda session, reason: self.server.end(session, reason))
            port = self.front.remote
            self._notifying = asyncio.create_task(self._notify())
        self.server = SmpServer(
            port,
            ListenSmp(host="127.0.0.1", port=self.port if self._keeps_port else 0),
            self.settings,
            self._folder,
        )
        self.host, self.port = self.server.address
        self.is_running = True

    async def stop(self) -> None:
        self.is_running = False
        for client in self._clients:
            client.close()
            await client.closed()
        self._clients.clear()
        self.server.close()
        if self.front is not None:
            self._notifying.cancel()
            await asyncio.sleep(0.01)  # what the front still has to say
            await self.front.stop()
        await self.router.stop()

    async def restart_home(self) -> None:
        """Of one with a front: the worker that has the shard is gone, and started again. The front
        keeps its clients."""
        assert self.front is not None, "it has a front"
        self.front.part()
        await self.router.stop()
        await self._start_router()
        assert isinstance(self.router, WorkerRouter), "it has a front"
        self.front.join(self.router)

    async def _notify(self) -> None:
        """The clock that worker 0 has for notices."""
        while True:
            await asyncio.sleep(self.settings.notification_flush)
            self.router.notify()

    def write_losses(self) -> None:
        """Send the ENDs that wait, as the timer of `end_flush` does."""
        self.server.write_losses()

    def write_notices(self) -> None:
        """Send the notices that wait, as the timer of `notification_flush` does."""
        self.router.notify()

    async def restart(self) -> None:
        """Stop, and start again with what is stored. Every connection ends."""
        await self.stop()
        await self.start()

    async def connect(self, **options: Unpack[Options]) -> SmpClient:
        """A client with the options of `SmpClient.connect`; it leaves when the test ends."""
        client = await SmpClient.connect(self.host, self.port, self.fingerprint, **options)
        self._clients.append(client)
        return client

"""A router with the SMP wire in the loop of a test, and the clients that the test has."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, Unpack

from headgate.core.facts import Fact
from headgate.core.limits import Limits
from headgate.server.config.sections import Config, ListenSmp, Smp
from headgate.server.identity import Identity
from headgate.server.router import Router
from headgate.server.smp import SmpServer
from headgate.store import Store, open_store
from headgate.testing.services import Service
from headgate.testing.smp import SmpClient
from headgate.wire.smp.handshake import Role, Versions

FLUSH = 0.05
"""Seconds that ENDs and notices are collected."""


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
        **settings: object,
    ) -> None:
        self._url = url
        self._folder = folder
        self._limits = limits or Limits()
        self._clock = clock
        quick = {"end_flush": FLUSH, "notification_flush": FLUSH, "handshake_timeout": 10.0}
        self.settings = Smp(**quick | settings)  # type: ignore[arg-type]
        self.identity = Identity.open(folder / "identity", "localhost", time.time())
        self.facts: list[Fact] = []
        self._clients: list[SmpClient] = []

    @property
    def fingerprint(self) -> bytes:
        return self.identity.fingerprint

    @property
    def statements(self) -> int:
        """How many the store has carried out."""
        return self.store.statements

    async def start(self) -> None:
        self.store = open_store(self._url, self._folder)
        domains = Config(directory=self._folder, smp=self.settings).all_domains()
        self.router = Router(
            store=self.store, domains=domains, limits=self._limits, clock=self._clock
        )
        self.router.watch(self.facts.extend)
        await self.router.start()
        self.server = SmpServer(
            self.router, ListenSmp(host="127.0.0.1", port=0), self.settings, self.identity
        )
        self.host, self.port = self.server.address

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
            await client.closed()
        self._clients.clear()
        self.server.close()
        await self.router.stop()

    async def restart(self) -> None:
        """Stop, and start again with what is stored. Every connection ends."""
        await self.stop()
        await self.start()

    async def connect(self, **options: Unpack[Options]) -> SmpClient:
        """A client with the options of `SmpClient.connect`; it leaves when the test ends."""
        client = await SmpClient.connect(self.host, self.port, self.fingerprint, **options)
        self._clients.append(client)
        return client

"""A server for apps on loopback, whose pushes and routers are those of the test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.facts import Fact
from headgate.core.model.limits import Limits
from headgate.notify.subscriptions import NotifierSubscription
from headgate.notify.tokens import Token
from headgate.ntf_server.apps.commands import AppCommands
from headgate.ntf_server.apps.server import AppServer
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.records import Records
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.records.subscriptions import RemovedSubscription
from headgate.server.identity import Identity
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import Provider

ALL_PROVIDERS = AppSettings(providers=frozenset(Provider))


@dataclass
class Others:
    """What the server for apps asks of other parts, kept for the test."""

    codes: list[Token] = field(default_factory=list)
    wanted: list[tuple[RouterNumber, NotifierSubscription]] = field(default_factory=list)
    removed: list[RemovedSubscription] = field(default_factory=list)
    active: set[RouterNumber] = field(default_factory=set)

    def push_code(self, token: Token) -> None:
        self.codes.append(token)

    def want(self, router: RouterNumber, subscription: NotifierSubscription) -> None:
        self.wanted.append((router, subscription))

    def forget(self, removed: Iterable[RemovedSubscription]) -> None:
        self.removed += removed

    def is_service_active(self, router: RouterNumber) -> bool:
        return router in self.active


@dataclass
class AppScene:
    """A server that runs, and what it reported."""

    server: AppServer
    records: Records
    others: Others
    facts: list[Fact]

    @property
    def address(self) -> NtfAddress:
        return self.server.address


@asynccontextmanager
async def serving_apps(
    folder: Path,
    url: str = "sqlite:ntf.db",
    settings: AppSettings = ALL_PROVIDERS,
    limits: Limits | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[AppScene]:
    """A server in this folder, with the identity and the records that it had there before."""
    host, others, facts = NtfHost(limits, clock), Others(), list[Fact]()
    host.watch(facts.extend)
    identity = await asyncio.to_thread(Identity.open, folder / "ntf", "localhost", time.time())
    async with await Records.open(url, folder) as records:
        commands = AppCommands(records, settings, others, others, clock)
        server = AppServer(host, commands, identity, settings, ("127.0.0.1", 0))
        try:
            yield AppScene(server, records, others, facts)
        finally:
            await server.close()

"""A router with the BlazingMQ wire in the loop of a test, and the raw clients that the test has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest

from headgate.core.facts import Fact, LimitReached
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.limits import Limits
from headgate.core.turn.store_requests import Batch
from headgate.expr.predicate import compile_expression
from headgate.server.config.sections import ListenBmq
from headgate.server.router import Router
from headgate.server.wires.bmq import BmqServer
from headgate.store import Store, open_store
from tests.support.bmq_raw import DEADLINE_SECONDS, RawClient

F = TypeVar("F", bound=Fact)
T = TypeVar("T")

FENCE = Domain("fence", Mode.PRIORITY)
DOMAINS = (
    Domain("work", Mode.PRIORITY),
    Domain("fan", Mode.FANOUT, apps=("foo", "bar")),
    Domain("news", Mode.BROADCAST),
)

StartRig: TypeAlias = Callable[..., Awaitable["Rig"]]


class Rig:
    """Started by its fixture. The store outlives a `restart`."""

    router: Router
    server: BmqServer
    store: Store

    def __init__(
        self,
        folder: Path,
        *,
        url: str = "memory:",
        domains: Iterable[Domain] = DOMAINS,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
        **settings: object,
    ) -> None:
        self._folder = folder
        self._url = url
        self._domains = {domain.name: domain for domain in (*domains, FENCE)}
        self._limits = limits or Limits()
        self._clock = clock
        self._settings = ListenBmq(port=0, **settings)  # type: ignore[arg-type]
        self._clients: list[RawClient] = []
        self._gates: list[asyncio.Event] = []
        self._told = asyncio.Event()
        self._is_running = False
        self.facts: list[Fact] = []

    async def start(self) -> None:
        self.store = open_store(self._url, self._folder)
        self.router = Router(
            store=self.store, domains=self._domains, limits=self._limits, clock=self._clock
        )
        self.router.watch(self._tell)
        await self.router.start()
        try:
            self.server = BmqServer(self.router, self._settings, self._folder)
        except BaseException:
            await self.router.stop()
            raise
        self._is_running = True

    async def stop(self) -> None:
        """The server first, as `headgate serve` does it."""
        if not self._is_running:
            return
        self._is_running = False
        for gate in self._gates:
            gate.set()  # a test that failed may have left it shut
        self.server.close()
        await self.router.stop()
        for client in self._clients:
            client.vanish()
        self._clients.clear()
        await asyncio.sleep(0)

    async def restart(self) -> None:
        """Stop, and start again with what is stored. Every connection ends."""
        await self.stop()
        await self.start()

    def stall(self) -> asyncio.Event:
        """Have the store take nothing until the event is set."""
        gate, apply = asyncio.Event(), self.store.apply
        self._gates.append(gate)

        async def wait(batch: Batch) -> None:
            await gate.wait()
            await apply(batch)

        self.store.apply = wait  # type: ignore[method-assign]
        return gate

    async def connect(self, **options: Any) -> RawClient:  # noqa: ANN401
        """A client with the options of `RawClient.connect`; it leaves when the test ends."""
        client = await RawClient.connect(self.server.address, **options)
        self._clients.append(client)
        return client

    # What it says of itself.

    def _tell(self, facts: Iterable[Fact]) -> None:
        self.facts += facts
        self._told.set()

    async def until(self, what: str, found: Callable[[], T | None]) -> T:
        """What a function finds, as soon as it finds something."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while (value := found()) is None:
                    self._told.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.05):
                            await self._told.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not come in time") from None
        return value

    async def fact(self, kind: type[F]) -> F:
        """The first fact of a kind, as soon as there is one."""
        return await self.until(kind.__name__, lambda: next(iter(self.facts_of(kind)), None))

    def facts_of(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def limits_reached(self) -> list[str]:
        return [fact.name for fact in self.facts_of(LimitReached)]

    async def reason(self, client: RawClient) -> str:
        """Why the router closed a client, which the status and the facts tell."""
        pid = f"pid {client.name}"

        def find() -> str | None:
            rows: Any = self.router.status()["closed"]
            return next((row["reason"] for row in rows if row["name"].endswith(pid)), None)

        return await self.until("the closing", find)

    def closed(self) -> list[str]:
        """Why sessions were closed, the last one first."""
        rows: Any = self.router.status()["closed"]
        return [row["reason"] for row in rows]

    def sessions(self) -> list[Mapping[str, Any]]:
        rows: Any = self.router.status()["sessions"]
        return list(rows)

    def queue(self, uri: str) -> Mapping[str, Any]:
        """The status of a queue; its "apps" are a mapping here."""
        rows: Any = self.router.status()["queues"]
        [found] = [row for row in rows if row["queue"] == uri]
        return {**found, "apps": {row["app"]: row for row in found["apps"]}}

    @property
    def mailbox_bytes(self) -> int:
        """What waits for the sockets of all clients."""
        return self.router.broker.budget.bytes


def domain(name: str, mode: Mode, filters: Mapping[str, str] | None = None, **more: Any) -> Domain:  # noqa: ANN401
    """With at most one expression for each app."""
    compiled = {app: (compile_expression(text),) for app, text in (filters or {}).items()}
    return Domain(name, mode, filters=compiled, **more)


@pytest.fixture
async def start_rig(tmp_path: Path) -> AsyncIterator[StartRig]:
    """Starts a router with the options of `Rig`, as the test wishes."""
    rigs: list[Rig] = []

    async def start(**options: Any) -> Rig:  # noqa: ANN401
        rig = Rig(tmp_path, **options)
        await rig.start()
        rigs.append(rig)
        return rig

    yield start
    for rig in rigs:
        await rig.stop()


@pytest.fixture
async def rig(start_rig: StartRig) -> Rig:
    return await start_rig()

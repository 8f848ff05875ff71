"""Agents and their routers: real ones that keep their port, scripted ones, and one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from headgate.agent.records import Records, users
from headgate.crypto.kem import Kem
from tests.support.agent_delivery import LinkPort, ModelPort, ModelRouter, Party
from tests.support.smp_peer_fixtures import clock as clock
from tests.support.smp_peer_fixtures import identity_folder as identity_folder
from tests.support.smp_peer_fixtures import peer as peer
from tests.support.smp_router import Rig

StartRig: TypeAlias = Callable[..., Awaitable[Rig]]
MakeParty: TypeAlias = Callable[..., Awaitable[Party]]


@pytest.fixture
async def start_rig(tmp_path: Path) -> AsyncIterator[StartRig]:
    """Starts routers that can be restarted on their ports, with what they had."""
    rigs: list[Rig] = []

    async def start(name: str = "router", **settings: object) -> Rig:
        folder = tmp_path / name
        folder.mkdir()
        rig = Rig("sqlite:router.db", folder, keeps_port=True, **settings)  # type: ignore[arg-type]
        await rig.start()
        rigs.append(rig)
        return rig

    yield start
    for rig in rigs:
        if rig.is_running:
            await rig.stop()


@pytest.fixture
async def rig(start_rig: StartRig) -> Rig:
    return await start_rig()


@pytest.fixture
def model() -> ModelRouter:
    return ModelRouter()


@pytest.fixture
async def parties(model: ModelRouter) -> AsyncIterator[MakeParty]:
    """Makes agents with a router in memory."""
    async with making_parties(lambda records: ModelPort(model)) as make:
        yield make


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig("memory:", tmp_path)
    await rig.start()
    yield rig
    await rig.stop()


@pytest.fixture
async def linked(router: Rig) -> AsyncIterator[MakeParty]:
    """Makes agents that have links with a real router."""
    async with making_parties(LinkPort) as make:
        yield make


@asynccontextmanager
async def making_parties(
    port: Callable[[Records], ModelPort | LinkPort],
) -> AsyncIterator[MakeParty]:
    """All of them are closed at the end."""
    made: list[Party] = []

    async def make(inbox_max: int = 1000, kem: Kem | None = None) -> Party:
        records = await Records.memory()
        await records.write(users.add)
        made.append(Party(records, port(records), inbox_max=inbox_max, kem=kem))
        return made[-1]

    yield make
    for party in made:
        await party.close()

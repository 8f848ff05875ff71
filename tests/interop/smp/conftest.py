"""A router for each test, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.smp_router import Rig

StartRig: TypeAlias = Callable[..., Awaitable[Rig]]


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty store. Tests that are not about what is kept ask for "memory"."""
    if request.param != "postgres":
        return {"memory": "memory:", "sqlite": "sqlite:headgate.db"}[request.param]
    address: str = request.getfixturevalue("url")
    return address


@pytest.fixture
async def start_rig(store_url: str, tmp_path: Path) -> AsyncIterator[StartRig]:
    """Starts a router with settings of `[smp]`, `limits` or a `clock`, as the test wishes."""
    rigs: list[Rig] = []

    async def start(**options: object) -> Rig:
        rig = Rig(store_url, tmp_path, **options)  # type: ignore[arg-type]
        await rig.start()
        rigs.append(rig)
        return rig

    yield start
    for rig in rigs:
        await rig.stop()


@pytest.fixture
async def router(start_rig: StartRig) -> Rig:
    return await start_rig()

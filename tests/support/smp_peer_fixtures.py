"""Fixtures of the scripted router, for every folder of tests that has a client of routers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.smp_peer import Peer, StillClock


@pytest.fixture(scope="session")
def identity_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peer") / "identity"


@pytest.fixture
async def peer(identity_folder: Path) -> AsyncIterator[Peer]:
    peer = Peer(identity_folder)
    await peer.start()
    yield peer
    await peer.stop()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    """The loop's clock stands still from here on."""
    clock = StillClock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock)
    return clock

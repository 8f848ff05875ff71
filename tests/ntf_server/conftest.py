"""Notification servers: where they keep things, the router that they ask, and their processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.ntf_process import CONFIG, ServedNtf, ServeNtf
from tests.support.smp_router import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A router that keeps its port when it is started again."""
    rig = Rig("sqlite:q.db", tmp_path / "router", keeps_port=True)
    await rig.start()
    yield rig
    await rig.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    """Where a server keeps what it knows: each kind in turn."""
    if request.param == "sqlite":
        return "sqlite:ntf.db"
    found: str = request.getfixturevalue("url")
    return found


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[ServeNtf]:
    """Starts servers of this folder; all of them are gone after the test."""
    running: list[ServedNtf] = []

    def serve(config: str = CONFIG, ready: str = "ready.json", **environ: str) -> ServedNtf:
        (tmp_path / "ntf.toml").write_text(config)
        served = ServedNtf(tmp_path, ready, **environ)
        running.append(served)
        return served

    yield serve
    for served in running:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()

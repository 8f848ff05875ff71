from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.agent.records import Records
from tests.support.agent_records import Scene, prepare


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
async def records(path: Path) -> AsyncIterator[Records]:
    async with await Records.open(path, busy_seconds=0.1) as records:
        yield records


@pytest.fixture
async def scene(records: Records) -> Scene:
    return await prepare(records)

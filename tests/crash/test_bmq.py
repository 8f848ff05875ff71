"""What a router of the BlazingMQ wire acknowledged survives kill -9."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.bmq import run

ROUNDS = 3


@pytest.mark.serial
async def test_every_message_is_kept_once_for_each_app_whatever_is_killed_when(
    tmp_path: Path,
) -> None:
    """BMQ-59, BMQ-64, BMQ-72, S003-10."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    result = await run(tmp_path, ROUNDS, seed)
    print(result)
    assert result.wrong == []
    assert any(result.acked_at_kills), "a kill came amid posts"

"""What agents accepted, showed and acknowledged survives kill -9, of them and of their router."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.agents import run

ROUNDS = 10


@pytest.mark.serial
async def test_every_message_comes_once_and_in_order_whatever_is_killed_when(
    tmp_path: Path,
) -> None:
    """ACC-99; S000-68."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    result = await run(tmp_path, ROUNDS, seed)
    print(result)
    assert result.wrong == []
    assert result.sent
    assert result.acknowledged

"""What agents accepted, showed and acknowledged survives kill -9, of them and of their router."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.agents import Connections, run

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


@pytest.mark.serial
async def test_connections_are_made_and_lose_nothing_whatever_is_killed_when(
    tmp_path: Path,
) -> None:
    """Every step of the handshake is written before it is sent; what both write comes in order."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    result = await run(tmp_path, ROUNDS, seed, Connections)
    print(result)
    assert result.wrong == []
    assert result.sent
    assert result.acknowledged

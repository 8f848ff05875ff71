"""What a notification server answered survives kill -9, of it and of its router, and it goes on
pushing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.ntf import run

ROUNDS = 10


@pytest.mark.serial
async def test_tokens_and_subscriptions_are_kept_whatever_is_killed_when(tmp_path: Path) -> None:
    """ACC-110, ACC-113; S001-92: and every later message is pushed."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    result = await run(tmp_path, ROUNDS, seed)
    print(result)
    assert result.wrong == []
    assert result.devices
    assert result.pushed

"""What a router answered to clients of streams survives kill -9."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.streams import run

ROUNDS = 10
ENTRIES = 30


@pytest.mark.serial
def test_nothing_added_is_lost_and_nothing_acknowledged_comes_back(tmp_path: Path) -> None:
    """Checks 11, 22 and 33, while everybody works: with the group of a domain, and with groups that
    clients made and a history."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    seen = run(tmp_path, ROUNDS, ENTRIES, seed)
    assert seen.troubles() == []
    assert len(seen.kept) >= ROUNDS * ENTRIES
    assert sum(seen.kills.values()) == ROUNDS

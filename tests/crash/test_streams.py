"""What a router answered to clients of streams survives kill -9."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.streams import run

ROUNDS = 3
ENTRIES = 40


@pytest.mark.serial
def test_nothing_added_is_lost_and_nothing_acknowledged_comes_back(tmp_path: Path) -> None:
    """Checks 11 and 33, while everybody works."""
    seen = run(tmp_path, ROUNDS, ENTRIES)
    assert seen.wrong == []
    assert len(seen.added) >= ROUNDS * ENTRIES
    assert seen.added <= seen.delivered.keys()

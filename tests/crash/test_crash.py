"""An accepted message survives kill -9."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.rounds import Ledger, play

ROUNDS = 10
ROUNDS_MAX = 100
"""On a machine so slow that a life of the router comes to nothing."""
ENOUGH = 100


@pytest.mark.serial
def test_no_receipt_is_lost_nothing_confirmed_comes_back_and_facts_equal_the_store_after_a_kill(
    tmp_path: Path,
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    ledger = Ledger()
    for number in range(ROUNDS_MAX):
        if number >= ROUNDS and len(ledger.receipts) > ENOUGH:
            break
        result = play(tmp_path, ledger, seed + number)
        assert result.lost == []
        assert result.risen == []
        assert result.untold == []
    assert len(ledger.receipts) > ENOUGH, "the rounds were too quiet to say anything"

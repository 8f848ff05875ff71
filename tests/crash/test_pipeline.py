"""The tables tell what happened, and what is sent again is sent once, whatever is killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.pipelines import run

ROUNDS = 5


@pytest.mark.serial
@pytest.mark.timeout(900)
def test_tables_equal_the_store_and_nothing_is_sent_twice_whatever_is_killed(
    tmp_path: Path,
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    result = run(tmp_path, ROUNDS, seed)
    print(result.kills, result.moments, result.facts, "facts", result.sent, "sent", result.looks)
    assert result.wrong == []
    assert result.facts > 1000, "the rounds were too quiet to say anything"

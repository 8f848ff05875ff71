"""Kill -9 at every statement of every transaction that comes before something is sent or shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agent_records_killed import STEPS
from tests.support.repository import ROOT


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_is_killed_happened_or_did_not(step: str, tmp_path: Path) -> None:
    """S001-84, S001-86: a reader finds the state before the step or the one after it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.agent_records_killed", str(tmp_path), step],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    before, *states, after = done.stdout.split()
    assert before != after
    assert len(states) >= 3  # before BEGIN, before something is changed, before COMMIT
    # Killed before COMMIT it did not happen; once COMMIT was done it did.
    assert states == [before] * len(states)

"""Histories that nobody wrote down, against a model that knows the documents alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.strangers.smp_drawing import SERVICES
from tests.strangers.smp_model import Act, Cmd, Model
from tests.strangers.smp_play import Play
from tests.strangers.smp_sequences import shorter
from tests.strangers.smp_world import QUOTA, Difference, World

ROOT = Path(__file__).parents[2]
PARTS = 20
IN_A_PART = 100
"""Sequences; each has 8 to 20 drawn steps and a closing."""
ON_DISK = 2
"""Parts that are."""


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_histories_of_queues_and_services_are_those_of_the_model(part: int) -> None:
    """S000-1, S000-13, S000-15, S000-28, S001-40, S001-58, S004-50, SMP-1, SMP-9, SMP-13, SMP-20,
    SMP-25, SMP-26, SMP-28, SMP-30, SMP-40: in a process of their own, where nobody counts the lines
    that are run."""
    url = "sqlite:headgate.db" if part < ON_DISK else "memory:"
    program = [sys.executable, "-W", "error", "-m", "tests.strangers.smp_sequences", "--seed", "ci"]
    drawn = ["--first", str(part * IN_A_PART), "--count", str(IN_A_PART), "--store", url]
    played = subprocess.run(
        [*program, *drawn], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert f"{IN_A_PART} sequences of " in played.stdout


async def test_what_the_model_did_not_say_is_found(tmp_path: Path) -> None:
    """A router that takes one message more than the model has room for."""
    world = await World.start(tmp_path, SERVICES)
    fills = Act("p1", tuple(Cmd("SEND", "q0", text=f"m{n}") for n in range(QUOTA)))
    acts = [Act("p0", (Cmd("NEW", "q0", text="S"),)), fills]
    try:
        await Play(world).replay(["p0", "p1"], acts)
        with pytest.raises(Difference, match="the answer to SEND q0 m2 is OK"):
            await Play(world, Model(QUOTA - 1)).replay(["p0", "p1"], acts)
    finally:
        await world.stop()


def test_a_failure_is_made_smaller_step_by_step_and_command_by_command() -> None:
    one, two = Act("p0", (Cmd("PING"),)), Act("p1", (Cmd("PING"), Cmd("GET", "q0")))
    assert list(shorter([one, two])) == [
        [one],
        [two],
        [one, Act("p1", (Cmd("GET", "q0"),))],
        [one, Act("p1", (Cmd("PING"),))],
    ]

"""Worlds: time, order and failure, with checkers that watch everything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headgate.testing.faults import AFTER, BEFORE, Weather
from headgate.testing.trace import Violation
from headgate.testing.world import World, play
from tests.simulation import variants
from tests.simulation.variants import Variant

SEEDS = 300
CHUNK = 10
SEEDS_MAX = 60
"""Within so many seeds a broken variant has to be caught."""

EVERYTHING = {
    "Accepted",
    "Associated",
    "AutoConfirmed",
    "Confirmed",
    "Delivered",
    "Displaced",
    "PutAside",
    "QueueDeleted",
    "Repeated",
    "Returned",
    "ServiceDisplaced",
    "SweepEnded",
    "TurnFailed",
}

FAIR = Weather(loss=0.0, store_failure=0.0, crash=0.0)
"""Only what a test does to it on purpose goes wrong."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_promises_hold_in_every_world(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed)


def test_a_world_has_everything_in_it() -> None:
    """Else the checkers would have had nothing to see."""
    seen: set[str] = set()
    crashes = failures = 0
    for seed in range(SEEDS):
        world = play(seed)
        seen |= set(world.counts)
        crashes += world.crashes
        failures += world.store.failures
        if seen >= EVERYTHING and crashes and failures:
            return
    pytest.fail(f"no world has {EVERYTHING - seen}; {crashes} crashes, {failures} failures")


def test_a_seed_always_gives_the_same_world() -> None:
    first, second = play(7), play(7)
    assert first.trace.lines() == second.trace.lines()
    assert len(first.trace) > 100


def test_a_seed_gives_the_same_world_in_another_process() -> None:
    """Where sets of names have another order."""
    script = "from headgate.testing.world import play; print('\\n'.join(play(11).trace.lines()))"
    traces = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": number},
            check=True,
            capture_output=True,
        ).stdout
        for number in ("1", "2")
    }
    assert len(traces) == 1


STEPS = 160
"""Of the worlds that fail or crash at one place."""


def calls(seed: int) -> int:
    """How often the store is asked in a world where nothing goes wrong."""
    world = World(seed, weather=FAIR)
    world.run(STEPS)
    return world.store.calls


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_failure_at_any_store_call_leaves_no_trace(seed: int) -> None:
    for call in range(calls(seed)):
        world = play(seed, STEPS, weather=Weather(0.0, store_failure=0.0, crash=0.0, fail_at=call))
        assert world.store.failures == 1


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_crash_at_any_store_call_loses_nothing(seed: int, when: str) -> None:
    for call in range(calls(seed)):
        weather = Weather(0.0, store_failure=0.0, crash=0.0, crash_at=(call, when))
        world = play(seed, STEPS, weather=weather)
        assert world.crashes == 1


@pytest.mark.parametrize(
    ("variant", "checker"),
    [
        (variants.no_end, "exclusive"),
        (variants.no_displacement, "exclusive"),
        (variants.no_window, "window"),
        (variants.no_window_of_one, "window"),
        (variants.two_turns_at_once, "memory"),
        (variants.session_ids_reused, "answers"),
        (variants.effects_before_commit, "losses"),
    ],
    ids=lambda part: getattr(part, "__name__", part),
)
# A turn that is thrown away in the middle of two cannot be taken back.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_router_is_caught(
    variant: Variant, checker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the checker that is there for it, alone."""
    violation = first_violation(checker, variant(monkeypatch))
    assert f"seed {violation.seed}: {checker}: " in str(violation)


def first_violation(checker: str, settings: variants.Settings) -> Violation:
    for seed in range(SEEDS_MAX):
        try:
            play(seed, watch={checker}, **settings)
        except Violation as violation:
            if violation.checker == checker:
                return violation
    raise AssertionError(f"not caught by {checker} within {SEEDS_MAX} seeds")

"""Worlds of agents: real ones, with routers, networks and disks that fail by a seed."""

from __future__ import annotations

import logging

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.testing.agents.router_world import STEPS
from headgate.testing.agents.world import play, shortest
from headgate.testing.trace import Violation
from tests.simulation import agent_variants as variants
from tests.simulation.agent_variants import Variant
from tests.support.elsewhere import traces_elsewhere

SEEDS = 2000
CHUNK = 50
SEEDS_MAX = 100
"""Within so many seeds a broken variant has to be caught."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_promises_of_agents_hold_in_every_world(first: int) -> None:
    """S000-63, S000-68, S000-72, S000-83, S001-86; ACC-99."""
    for seed in range(first, first + CHUNK):
        play(seed)


def test_a_world_of_agents_has_everything_in_it() -> None:
    """Else there would have been nothing to see."""
    names = {doing.__name__.strip("_") for _, doing in play(0).doings}
    seen: set[str] = set()
    events: set[str] = set()
    wanted = {"UP", "DOWN", "END", "ServiceUp", "ServiceDown", "ServiceEnd", "QueueFull", "Warned"}
    again = 0
    for seed in range(SEEDS):
        world = play(seed)
        seen |= set(world.counts)
        events |= {line.split()[2] for line in world.trace.lines()}
        again += sum(times > 1 for queue in world.queues for times in queue.book.shown.values())
        if seen >= names and events >= wanted and again:
            return
    pytest.fail(f"no world has {names - seen} or {wanted - events}; {again} shown again")


def test_a_world_leaves_the_log_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(5):
        play(seed)
    logging.getLogger("headgate.agent").error("after the worlds")
    assert "after the worlds" in caplog.text


def test_a_seed_always_gives_the_same_world_of_agents() -> None:
    """Also in another process, where sets of names have another order."""
    assert len(traces_elsewhere("headgate.testing.agents.world")) == 1


@pytest.mark.parametrize(
    ("variant", "law"),
    [
        (variants.no_down, "up"),
        (variants.no_second_round, "wanted"),
        (variants.losses_pass_unseen, "wanted"),
        (variants.tallies_without_what_left, "tally"),
        (variants.associations_are_not_stored, "tally"),
        (variants.acknowledged_without_a_mark, "acknowledged"),
        (variants.removed_before_it_is_sent, "lost"),
        (variants.last_comes_first, "order"),
    ],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_a_broken_agent_is_caught(
    variant: Variant, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the law that it breaks; others may be broken before it."""
    variant(monkeypatch)
    violation = first_violation(law)
    assert f"seed {violation.seed}: {law}: " in str(violation)


def first_violation(law: str) -> Violation:
    for seed in range(SEEDS_MAX):
        try:
            play(seed)
        except Violation as violation:
            if violation.checker == law:
                return violation
    raise AssertionError(f"{law} is not broken within {SEEDS_MAX} seeds")


def test_a_world_that_fails_is_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    variants.last_comes_first(monkeypatch)
    seed = first_violation("order").seed
    steps = shortest(seed)
    assert steps <= STEPS
    with pytest.raises(Violation):
        play(seed, steps)
    for fewer in range(steps):
        play(seed, fewer)


def test_simulate_plays_worlds_of_agents() -> None:
    result = CliRunner().invoke(simulate, ["--agents", "--seed", "1"])
    assert result.exit_code == 0
    assert result.output.startswith("seed 1: ")
    assert result.output.count("\n") == 1


def test_simulate_names_the_shortest_world_of_agents_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variants.last_comes_first(monkeypatch)
    result = CliRunner().invoke(simulate, ["--agents", "--count", str(SEEDS_MAX)])
    assert result.exit_code == 1
    assert "To see all of it: headgate simulate --agents --seed" in result.output

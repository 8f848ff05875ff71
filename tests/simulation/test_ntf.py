"""Worlds of a notification server: a real one, with apps, routers, a provider and a disk that fail
by a seed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.ntf_server.testing.world import play, shortest
from headgate.testing.trace import Violation
from tests.simulation import ntf_variants as variants
from tests.support.elsewhere import traces_elsewhere

SEEDS = 800
CHUNK = 50
SEEDS_MAX = 150
"""Within so many seeds a broken variant has to be caught."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_promises_of_a_notification_server_hold_in_every_world(first: int) -> None:
    """S001-90, S001-91, S001-92, S004-28, S004-29; ACC-110, ACC-113, ACC-114."""
    for seed in range(first, first + CHUNK):
        play(seed)


def test_a_world_of_a_notification_server_has_everything_in_it() -> None:
    """Else there would have been nothing to see."""
    names = {doing.__name__.strip("_") for _, doing in play(0).doings}
    answers = ("Delivered", "Later", "Dead", "Failed", "raises", "STORE")
    commands = ("TNEW", "TVFY", "TCHK", "TRPL", "TDEL", "TCRN", "SNEW", "SCHK", "SDEL")
    events = ("NMSG", "END", "ENDS", "DELD", "SOKS", "ERR SERVICE", "again")
    wanted = {*answers, *commands, *events}
    seen: set[str] = set()
    for seed in range(SEEDS):
        world = play(seed)
        text = "\n".join(world.trace.lines())
        seen |= set(world.counts) | {word for word in wanted if word in text}
        if seen >= names | wanted:
            return
    pytest.fail(f"no world has {(names | wanted) - seen}")


def test_a_seed_always_gives_the_same_world_of_a_notification_server() -> None:
    """Also in another process, where sets of names have another order."""
    assert len(traces_elsewhere("headgate.ntf_server.testing.world")) == 1


@pytest.mark.parametrize(
    ("variant", "law"),
    [
        (variants.notices_go_with_a_failure, "lost"),
        (variants.tallies_change_outside_of_the_transaction, "tally"),
        (variants.losses_pass_unseen, "wanted"),
        (variants.the_dead_are_pushed_to, "active"),
        (variants.ends_is_answered_with_a_fight, "fight"),
        (variants.removals_are_kept_from_the_engine, "tally"),
        (variants.kept_notices_wait_for_the_next, "lost"),
        (variants.tokens_wait_for_each_notice, "once"),
        (variants.failures_are_not_counted, "counted"),
        (variants.statuses_are_not_stored, "kept"),
    ],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_a_broken_notification_server_is_caught(
    variant: Callable[[pytest.MonkeyPatch], None], law: str, monkeypatch: pytest.MonkeyPatch
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


def test_simulate_plays_worlds_of_a_notification_server() -> None:
    result = CliRunner().invoke(simulate, ["--ntf", "--seed", "1"])
    assert result.exit_code == 0
    assert result.output.startswith("seed 1: ")
    assert result.output.count("\n") == 1


def test_simulate_plays_one_kind_of_worlds() -> None:
    result = CliRunner().invoke(simulate, ["--ntf", "--agents"])
    assert result.exit_code == 2


def test_simulate_names_the_shortest_world_of_a_notification_server_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variants.statuses_are_not_stored(monkeypatch)
    seed = first_violation("kept").seed
    result = CliRunner().invoke(simulate, ["--ntf", "--seed", str(seed)])
    assert result.exit_code == 1
    again = f"headgate simulate --ntf --seed {seed} --steps {shortest(seed)} --trace"
    assert again in result.output

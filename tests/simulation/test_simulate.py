"""``headgate simulate``."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from tests.simulation import variants


def test_a_seed_without_a_violation_is_one_line() -> None:
    result = CliRunner().invoke(simulate, ["--seed", "1", "--steps", "100"])
    assert result.exit_code == 0
    assert result.output.startswith("seed 1: ")
    assert result.output.count("\n") == 1


def test_the_trace_has_a_line_per_step() -> None:
    result = CliRunner().invoke(simulate, ["--seed", "1", "--steps", "100", "--trace"])
    lines = result.output.splitlines()
    assert len(lines) > 50
    assert lines[0].split()[:2] == ["1000.000", "world"]


def test_many_seeds_are_one_line() -> None:
    result = CliRunner().invoke(simulate, ["--seed", "5", "--count", "3", "--steps", "50"])
    assert result.exit_code == 0
    assert result.output == "3 seeds from 5 on: no violation\n"


def test_a_violation_says_its_seed_and_how_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    variants.no_end(monkeypatch)
    result = CliRunner().invoke(simulate, ["--count", "100"])
    assert result.exit_code == 1
    assert "exclusive: " in result.output
    assert "To see all of it: headgate simulate --seed" in result.output

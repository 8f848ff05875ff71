"""A plugin of pytest: laws draw the same examples each time, and each test that ran is noted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

PROFILE = "mutants"

settings.register_profile(
    PROFILE,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--notes", type=Path, help="where to note what ran, a line for each phase")


def pytest_configure(config: pytest.Config) -> None:
    notes: Path | None = config.getoption("--notes")
    if notes is not None:
        config.pluginmanager.register(Notes(notes))


class Notes:
    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        note = {"test": report.nodeid, "outcome": report.outcome, "seconds": report.duration}
        with self._path.open("a") as file:
            file.write(json.dumps(note) + "\n")

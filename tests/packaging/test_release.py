"""A release: one version everywhere, changes that move under it, a workflow that can be run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.repository import ROOT
from tools.packages.release_version import PLACES, released, set_version, versions

WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())


def test_every_file_has_the_same_version() -> None:
    assert {frozenset(found) for found in versions().values()} == {
        frozenset(versions()["pyproject.toml"])
    }


def test_a_release_sets_it_everywhere(tmp_path: Path) -> None:
    for name in (*PLACES, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    set_version("7.8.9", "2030-01-02", tmp_path)
    assert set(map(frozenset, versions(tmp_path).values())) == {frozenset({"7.8.9"})}
    changes = (tmp_path / "CHANGELOG.md").read_text()
    assert "\n## Unreleased\n\n## 7.8.9, 2030-01-02\n" in changes


def test_changes_wait_under_unreleased_until_there_is_a_version() -> None:
    changes = "# Changes\n\n## Unreleased\n\n- new\n\n## 0.1.0\n\n- old\n"
    assert released(changes, "0.2.0", "2030-01-02") == (
        "# Changes\n\n## Unreleased\n\n## 0.2.0, 2030-01-02\n\n- new\n\n## 0.1.0\n\n- old\n"
    )


@pytest.mark.parametrize("changes", ["# Changes\n", "## Unreleased\n\n## 0.1.0\n\n- old\n"])
def test_nothing_to_release_is_an_error(changes: str) -> None:
    with pytest.raises(ValueError, match="nothing under Unreleased"):
        released(changes, "0.2.0", "2030-01-02")


def test_what_is_no_version_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a version"):
        set_version("next", "2030-01-02", tmp_path)


def test_the_workflow_runs_verbs_of_the_makefile() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    named = {
        name for step in steps for name in re.findall(r"\bmake ([a-z-]+)$", step.get("run", ""))
    }
    assert named == {"test", "release-check"}
    assert named <= verbs


def test_nothing_is_published_before_it_was_tested_and_every_job_may_do_little() -> None:
    jobs = WORKFLOW["jobs"]
    assert jobs["build"]["needs"] == "test"
    assert jobs["publish"]["needs"] == jobs["container"]["needs"] == "build"
    assert WORKFLOW["permissions"] == {}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}

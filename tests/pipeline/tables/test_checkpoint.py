"""Spark's checkpoint against the tables: going on gives every fact once, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.errors import PipelineError
from headgate.pipeline.tables.checkpoint import Checkpoint
from headgate.pipeline.tables.manifests import Batch, Manifest, State
from headgate.pipeline.tables.storage import Storage


def checkpoint(root: Path, offsets: int, commits: int, query: str = "q") -> Checkpoint:
    """One of so many batches; batch N ends with fact 10 * (N + 1)."""
    folder = root / "_checkpoint"
    for kind in ("offsets", "commits"):
        (folder / kind).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    for batch in range(offsets):
        offset = json.dumps({"number": 10 * (batch + 1)})
        (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset}")
    for batch in range(commits):
        (folder / "commits" / str(batch)).write_text("v1\n{}")
    return Checkpoint(Storage(str(root)))


def state(batches: int) -> State:
    found = State()
    for n in range(batches):
        batch = Batch(n, "q", "", 10 * n, 10 * (n + 1), 10, 1.0, 1.0, 1.0)
        found.apply(Manifest(n, 1.0, 1, batch=batch))
    return found


@pytest.mark.parametrize(
    ("offsets", "commits", "batches"),
    [
        (0, 0, 0),  # nothing has happened
        (1, 0, 0),  # died in the first batch
        (3, 3, 3),
        (4, 3, 3),  # died in a batch
        (3, 2, 3),  # died between the manifest and Spark's note
    ],
)
def test_what_a_death_can_leave_goes_on(
    tmp_path: Path, offsets: int, commits: int, batches: int
) -> None:
    checkpoint(tmp_path, offsets, commits).check(state(batches))


def test_none_at_all_will_do(tmp_path: Path) -> None:
    Checkpoint(Storage(str(tmp_path))).check(state(3))


@pytest.mark.parametrize("offsets", [0, 1])
def test_a_new_one_that_has_done_nothing_goes_on(tmp_path: Path, offsets: int) -> None:
    checkpoint(tmp_path, offsets, 0, query="new").check(state(3))


@pytest.mark.parametrize(
    ("offsets", "commits", "query", "problem"),
    [
        (0, 0, "q", "is behind the tables"),
        (2, 2, "q", r"is behind the tables \(batch 1, they have 3\)"),
        (6, 6, "q", "is ahead of the tables"),
        (1, 4, "q", "is not whole"),
        (4, 4, "another", "is of another query"),
    ],
)
def test_one_that_does_not_fit_is_refused_and_says_what_to_do(
    tmp_path: Path, offsets: int, commits: int, query: str, problem: str
) -> None:
    found = checkpoint(tmp_path, offsets, commits, query)
    with pytest.raises(PipelineError, match=problem) as caught:
        found.check(state(4))
    assert "remove that folder and run again; the tables hold the facts up to 40" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("name", "content"), [("metadata", "{"), ("offsets/3", "v1\n{}\ngarbage"), ("offsets/3", "")]
)
def test_a_garbled_one_is_refused(tmp_path: Path, name: str, content: str) -> None:
    found = checkpoint(tmp_path, 4, 3)
    (tmp_path / "_checkpoint" / name).write_text(content)
    with pytest.raises(PipelineError, match="is damaged"):
        found.check(state(3))


def test_offsets_that_mean_other_facts_are_refused(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, 3, 3)
    (tmp_path / "_checkpoint/offsets/2").write_text('v1\n{}\n{"number": 17}')
    with pytest.raises(PipelineError, match="is behind the tables"):
        found.check(state(3))


def test_batches_without_a_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="put the folder _log back, or begin with an empty"):
        checkpoint(tmp_path, 2, 1).check(State())

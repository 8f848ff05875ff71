"""What follows from manifests: which files count, and which manifest may be the next."""

from __future__ import annotations

import pytest

from headgate.errors import PipelineError
from headgate.pipeline.tables.manifests import (
    RECENT,
    SCHEMA_VERSION,
    Batch,
    File,
    Manifest,
    Outdated,
    State,
    decode_manifest,
    decode_state,
    encode,
)


def batch(number: int, after: int, upto: int, query: str = "q") -> Batch:
    return Batch(number, query, "journal", after, upto, upto - after, 5.0, 1.0, 0.5)


def file(path: str, after: int = 0, upto: int = 10) -> File:
    return File(path, 100, after, upto)


def manifest(number: int, batch: Batch | None = None, schema: int = SCHEMA_VERSION) -> Manifest:
    added = {"messages": [file(f"m{number}")]} if batch is not None else {}
    return Manifest(number, 1.0, schema, added, {}, batch)


def test_files_count_from_the_manifest_that_adds_them_to_the_one_that_removes_them() -> None:
    state = State()
    state.apply(manifest(0, batch(0, 0, 10)))
    state.apply(manifest(1, batch(1, 10, 20)))
    replaced = Manifest(2, 1.0, 1, {"messages": [file("m", 0, 20)]}, {"messages": ["m0", "m1"]})
    state.apply(replaced)
    assert [each.path for each in state.table("messages")] == ["m"]
    assert (state.upto, state.number, state.table("minutes")) == (20, 2, [])


def test_files_are_in_the_order_of_facts_and_know_their_day() -> None:
    added = [file("_data/t/batches=1/on=2026-11-15/b", 10, 20), file("a", 0, 10)]
    state = State()
    state.apply(Manifest(0, 1.0, 1, {"t": added}))
    assert [each.day for each in state.table("t")] == ["", "2026-11-15"]


def test_a_batch_that_counts_cannot_count_again() -> None:
    state = State()
    state.apply(manifest(0, batch(7, 0, 10)))
    assert state.has("q", 7)
    assert not state.has("q", 8)
    assert not state.has("another", 7)
    with pytest.raises(Outdated, match="written by another pipeline meanwhile"):
        state.check(batch(7, 10, 20), {})


def test_facts_that_the_tables_hold_are_refused_whatever_batch_brings_them() -> None:
    state = State()
    state.apply(manifest(0, batch(0, 0, 10)))
    state.check(batch(0, 10, 20, "another"), {})
    with pytest.raises(PipelineError, match="begins with fact 10, and the tables hold"):
        state.check(batch(0, 9, 20, "another"), {})


def test_what_does_not_count_any_more_cannot_be_removed() -> None:
    state = State()
    state.apply(manifest(0, batch(0, 0, 10)))
    state.check(None, {"messages": ["m0"]})
    with pytest.raises(Outdated, match="m1 of messages does not count any more"):
        state.check(None, {"messages": ["m0", "m1"]})


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"version 3, and this Headgate knows 2: upgrade"):
        State().apply(manifest(0, schema=SCHEMA_VERSION + 1))


def test_a_state_tells_of_so_many_batches() -> None:
    state = State()
    for number in range(RECENT + 5):
        state.apply(manifest(number, batch(number, number, number + 1)))
    assert [each.number for each in state.recent] == list(range(5, RECENT + 5))


def test_manifests_and_states_come_back_as_they_were() -> None:
    one = manifest(0, batch(0, 0, 10))
    state = State()
    state.apply(one)
    assert decode_manifest(encode(one)) == one
    assert decode_state(encode(state)) == state

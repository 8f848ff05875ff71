"""Moments in the life of a pipeline at which it is killed, from within: a kill from outside seldom
finds the instant between two writes.

A moment is a place in the code and how often it is passed before the end comes. Whoever comes there
kills its process group, Java included, as a machine that stops would.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from headgate.pipeline.tables import iceberg
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.manifests import Batch, Files, State
from headgate.pipeline.tables.tables import Table


class Moment(Enum):
    """What has just happened, and what has not yet."""

    BETWEEN_FILES = "between-files"
    """A table of a batch is written, and others are not."""
    BEFORE_MANIFEST = "before-manifest"
    """All files of a batch are written, and none of them counts."""
    BEFORE_CHECKPOINT = "before-checkpoint"
    """A batch counts, and Spark has not noted that it is done."""
    IN_COMPACTION = "in-compaction"
    """A larger file is written, and the smaller ones count."""
    AFTER_COMPACTION = "after-compaction"
    """The larger file counts, and Iceberg shows the smaller ones."""
    IN_MIRROR = "in-mirror"
    """Iceberg shows a batch in one table and not in another."""


def die_at(moment: Moment, times: int, note: Path) -> None:
    """Have this process die when it comes to a moment for so many times, and note that it did."""
    left = times

    def passed() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            with note.open("a") as file:
                file.write(f"{moment.value}\n")
            os.killpg(0, signal.SIGKILL)

    HOOKS[moment](passed)


def _after_write(passed: Callable[[], None]) -> None:
    write = Archive.write

    def wrapped(self: Archive, table: Table, attempt: str, rows: DataFrame | pa.Table) -> None:
        write(self, table, attempt, rows)
        if attempt[0].isdigit():  # of a batch
            passed()

    Archive.write = wrapped  # type: ignore[method-assign]


def _around_commit(is_batch: bool, is_after: bool) -> Callable[[Callable[[], None]], None]:
    def hook(passed: Callable[[], None]) -> None:
        commit = Archive.commit

        def wrapped(
            self: Archive,
            added: Files,
            removed: Mapping[str, list[str]] | None = None,
            batch: Batch | None = None,
            revises: bool = False,
        ) -> State:
            is_meant = batch is not None if is_batch else removed is not None
            if is_meant and not is_after:
                passed()
            state = commit(self, added, removed, batch, revises)
            if is_meant and is_after:
                passed()
            return state

        Archive.commit = wrapped  # type: ignore[method-assign]

    return hook


def _after_table(passed: Callable[[], None]) -> None:
    follow = iceberg.Mirror._follow

    def wrapped(self: iceberg.Mirror, table: Table, state: State) -> bool:
        is_new = follow(self, table, state)
        if is_new:
            passed()
        return is_new

    iceberg.Mirror._follow = wrapped  # type: ignore[method-assign]


HOOKS: Mapping[Moment, Callable[[Callable[[], None]], None]] = {
    Moment.BETWEEN_FILES: _after_write,
    Moment.BEFORE_MANIFEST: _around_commit(is_batch=True, is_after=False),
    Moment.BEFORE_CHECKPOINT: _around_commit(is_batch=True, is_after=True),
    Moment.IN_COMPACTION: _around_commit(is_batch=False, is_after=False),
    Moment.AFTER_COMPACTION: _around_commit(is_batch=False, is_after=True),
    Moment.IN_MIRROR: _after_table,
}

"""Answers about what happened: facts, the journal, the pipeline."""

from __future__ import annotations

from typing import Any, Literal

from headgate.server.desk.answers.base import Answer

FactLevel = Literal["debug", "info", "warning", "error"]


class FactRow(Answer, frozen=True, kw_only=True):
    """Something that happened."""

    id: int
    at: float
    kind: str
    level: FactLevel
    fields: dict[str, Any]


class FactsAnswer(Answer, frozen=True, kw_only=True):
    """Facts that are worth a line, the newest first."""

    rows: list[FactRow]
    last: int
    """The id of the last one that was kept, for `after`."""
    skipped: int
    """How many were not kept because there were more than a hundred in a second."""


class JournalAnswer(Answer, frozen=True, kw_only=True):
    """The journal on disk."""

    enabled: bool
    directory: str | None
    sealed: int
    lag: int
    outbox_bytes: int
    segments: int
    bytes: int
    max_bytes: int | None
    keep: float | None
    """Seconds; null is for ever."""
    oldest_at: float | None
    """When the oldest segment was written."""
    sealed_per_s: float
    """In the last minute."""
    sealer_starts: int
    problem: str | None


class PipelineAnswer(Answer, frozen=True, kw_only=True):
    """How far the tables of the pipeline are, as `headgate pipeline status` has it."""

    known: bool = False
    tables: str | None = None
    facts_in_journal: int = 0
    facts_in_tables: int = 0
    lag_facts: int = 0
    lag_seconds: float = 0.0
    batch: int | None = None
    """The last one with facts in it."""
    batch_seconds: float | None = None
    """How long the latest batches took: the median, and the most."""
    batch_seconds_max: float | None = None
    batch_facts: float | None = None
    segments_corrupt: int = 0
    at: float | None = None
    """When this was looked at."""
    problem: str | None = None

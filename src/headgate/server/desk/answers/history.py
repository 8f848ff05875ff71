"""Answers about what happened: facts, the journal, the pipeline."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

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
    skipped_kinds: dict[str, int]
    """How many of each kind."""
    left_out: list[str]
    """Kinds that are never kept here, as they happen for every message or are only counted; the
    journal has them all."""


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


class AuditRow(Answer, frozen=True, kw_only=True):
    """A service whose tally was counted again."""

    service: str
    counted: int
    """Queues, in the store."""
    in_tally: int = msgspec.field(name="told")
    """Queues, in the router's tally."""
    drift: str
    """none, or how the two differ."""


class AuditAnswer(Answer, frozen=True, kw_only=True):
    """The last audit that an operator asked this router for."""

    state: Literal["never", "running", "done", "failed"]
    started: float | None = None
    ended: float | None = None
    services: int = 0
    drifting: int = 0
    rows: list[AuditRow] = msgspec.field(default_factory=list)
    """Those that drift, a hundred at most."""
    problem: str = ""
    """Why it failed."""


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

"""History: facts, the journal, the pipeline, the last audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from headgate.server.desk.answers import (
    AuditAnswer,
    FactsAnswer,
    JournalAnswer,
    PipelineAnswer,
)
from headgate.server.desk.asking import (
    Asked,
)
from headgate.server.desk.kept import LEFT_OUT

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk

FACTS_MAX = 500

TABLES = "pipeline"
"""Where the pipeline has its tables, in the state directory, if nobody says where."""


async def facts(desk: Desk, request: Request) -> FactsAnswer:
    """Facts that are worth a line, the newest first."""
    asked = Asked(request, "level", "kind", "after", "limit")
    kept = desk.sampler.facts
    return FactsAnswer(
        rows=kept.newest(
            level=asked.choice("level", "debug", "info", "warning", "error"),
            kind=asked.text("kind"),
            after=asked.number("after", 0, 0, 10**15 - 1),
            most=asked.number("limit", 200, 1, FACTS_MAX),
        ),
        last=kept.last,
        skipped=kept.skipped.total(),
        skipped_kinds=dict(kept.skipped),
        left_out=LEFT_OUT,
    )


async def journal(desk: Desk, request: Request) -> JournalAnswer:
    """The journal on disk."""
    return await desk.journal.answer(desk.latest().journal)


async def pipeline(desk: Desk, request: Request) -> PipelineAnswer:
    """How far the tables of the pipeline are."""
    config, found = desk.started(), desk.router.journal
    tables = config.directory / (config.desk.tables or TABLES)
    known = config.desk.tables is not None or tables.is_dir()
    return await desk.pipeline.answer(
        tables if known else None, None if found is None else found.directory
    )


async def audit(desk: Desk, request: Request) -> AuditAnswer:
    """The last audit of the tallies of services that was asked for here, and what came of it."""
    return desk.audits.answer

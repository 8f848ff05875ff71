"""The status of the pipeline, if its tables are on this machine. The router knows neither tables
nor Spark: it asks `headgate pipeline status`, in a process of its own, twice a minute at most."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from headgate.server.desk.answers import PipelineAnswer
from headgate.server.desk.asking import shown

FRESH_SECONDS = 30.0
ANSWER_SECONDS = 20.0
ANSWER_BYTES = 64 * 1024
PROBLEM_CHARS = 500
NO_JOURNAL = "without a journal there are none"
NO_TABLES = "set desk.tables to their folder, if it is on this machine"
COMMAND = "from headgate.cli import main; main()"


class PipelinePage:
    """The status of the pipeline, as it last said of itself."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: PipelineAnswer | None = None
        self._one = asyncio.Lock()

    async def answer(self, tables: Path | None, journal: Path | None) -> PipelineAnswer:
        if tables is None or journal is None:
            return PipelineAnswer(known=False, problem=NO_JOURNAL if journal is None else NO_TABLES)
        async with self._one:
            if self._last is None or self._clock() - (self._last.at or 0.0) > FRESH_SECONDS:
                self._last = await self._asked(tables, journal)
            return self._last

    async def _asked(self, tables: Path, journal: Path) -> PipelineAnswer:
        line = (sys.executable, "-c", COMMAND, "pipeline", "status", "--json")
        process = await asyncio.create_subprocess_exec(
            *line,
            *("--tables", str(tables), "--journal", str(journal)),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            preexec_fn=lambda: os.nice(10),
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                out, error = await process.communicate()
        except TimeoutError:
            out, error = b"", b"it did not answer in time"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        try:
            found = msgspec.json.decode(out[:ANSWER_BYTES], type=PipelineAnswer)
        except msgspec.MsgspecError:
            problem = shown(error.decode(errors="replace").strip(), PROBLEM_CHARS)
            return PipelineAnswer(
                known=False, tables=str(tables), at=self._clock(), problem=problem or "no answer"
            )
        return msgspec.structs.replace(found, known=True, at=self._clock())

"""An audit that an operator asks for: `headgate pipeline audit` in a process of its own, one at a
time. The router knows neither Spark nor how to count; it keeps what came of the last one."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGKILL

import msgspec

from headgate.core.model.drift import Drift
from headgate.server.admin.responses import Refusal
from headgate.server.desk.answers import AuditAnswer, AuditRow
from headgate.server.desk.asking import shown
from headgate.server.desk.words import some

COMMAND = (sys.executable, "-c", "from headgate.cli import main; main()")
ARGUMENTS = ("pipeline", "audit", "--all", "--json")
AUDIT_SECONDS = 3600.0
"""Longer than that it is ended."""
END_SECONDS = 2.0
ANSWER_BYTES = 16 * 1024 * 1024
ROWS_SHOWN = 100
PROBLEM_CHARS = 500
FOUND = (0, 3)
"""How the command ends if it has counted: nothing drifts, or something does."""


async def _end(process: Process) -> None:
    """Have a process end that has not: with a signal on which it removes what it made. Then
    whatever is left of it, and of what it started, is ended: Spark would stay."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(SIGINT)
        await _shortly(process.wait())
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, SIGKILL)
    await _shortly(process.communicate())  # so that its pipes are closed


async def _shortly(end: Coroutine[object, object, object]) -> None:
    """Wait for an end, and not for long. `asyncio.timeout` is no way to do it where the task is
    cancelled already: before Python 3.11.3 it takes one for the other."""
    waiting = asyncio.ensure_future(end)
    await asyncio.wait([waiting], timeout=END_SECONDS)
    waiting.cancel()


class Audits:
    """The audits of one desk, of which one runs at a time and the last is remembered. The desk owns
    them, and ends what runs."""

    def __init__(
        self,
        clock: Callable[[], float],
        config: Callable[[], Path | None],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._clock = clock
        self._config = config
        """The file of the configuration, if there is one."""
        self._command = command
        self._task: asyncio.Task[None] | None = None
        self.answer = AuditAnswer(state="never")

    def check_idle(self) -> None:
        if self.answer.state == "running":
            raise Refusal(409, "an audit is running", "running", "ask again when it has ended")

    def begin(self, announce: Callable[[str], None]) -> None:
        """Start one; `announce` is told what came of it."""
        self.check_idle()
        self.answer = AuditAnswer(state="running", started=self._clock())
        self._task = asyncio.create_task(self._run(announce), name="audit")

    async def end(self) -> None:
        """End what runs."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, announce: Callable[[str], None]) -> None:
        started = self.answer.started
        try:
            rows = await self._counted()
        except (OSError, ValueError, TimeoutError) as error:
            problem = shown(str(error) or "it took too long", PROBLEM_CHARS)
            self.answer = AuditAnswer(
                state="failed", started=started, ended=self._clock(), problem=problem
            )
            announce(f"failed: {problem}")
            return
        drifting = [row for row in rows if row.drift != Drift.NONE.value]
        self.answer = AuditAnswer(
            state="done",
            started=started,
            ended=self._clock(),
            services=len(rows),
            drifting=len(drifting),
            rows=drifting[:ROWS_SHOWN],
        )
        found = f"{len(drifting):,}" if drifting else "none"
        verb = "drifts" if len(drifting) <= 1 else "drift"
        announce(f"{some(len(rows), 'service')} counted, {found} {verb}")

    async def _counted(self) -> list[AuditRow]:
        """The output of the command, one row for each service."""
        config = self._config()
        place = () if config is None else ("--config", str(config))
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *ARGUMENTS,
            *place,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            preexec_fn=lambda: os.nice(10),
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(AUDIT_SECONDS):
                out, error = await process.communicate()
        finally:
            await _end(process)
        if process.returncode not in FOUND:
            text = error.decode(errors="replace").strip()
            reason = text.splitlines()[-1] if text else f"it ended with {process.returncode}"
            raise ValueError(reason)
        decode = msgspec.json.Decoder(AuditRow).decode
        lines = out[:ANSWER_BYTES].splitlines()
        return [decode(line) for line in lines if b'"drift"' in line]

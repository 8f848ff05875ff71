"""The journal from the router's side: a sealer process that is told how far it may go.

The router writes facts into the outbox with its turns and knows nothing of files. Once a second
the sealer is told the watermark; what it says it sealed leaves the outbox in a later turn. It
may die or lag: it is started again, the outbox grows meanwhile up to its bound, and nothing else
notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.store.segments import last_number, segments
from headgate.store.urls import URL_VARIABLE

log = logging.getLogger(__name__)

SEAL_SECONDS = 1.0
STOP_SECONDS = 10.0
"""How long a sealer may take to finish when the router stops."""
RESTART_SECONDS = (0.1, 0.5, 1.0, 5.0)
"""Pauses before a sealer that died is started again."""


@dataclass(frozen=True, slots=True)
class JournalSettings:
    directory: Path
    segment_bytes: int
    keep_seconds: float | None
    keep_bytes: int | None


class Journal:
    def __init__(
        self,
        database: Path | str,
        settings: JournalSettings,
        watermark: Callable[[], int],
        sealed: Callable[[int], None],
        expired: Callable[[int, int], None],
    ) -> None:
        self._database = database
        """A file of SQLite, or the URL of a PostgreSQL database."""
        self._settings = settings
        self._watermark = watermark
        self._sealed = sealed
        self._expired = expired
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self.directory = settings.directory
        self.last = last_number(settings.directory)
        """The largest number in a segment."""
        self.starts = 0
        """How often a sealer was started."""
        self.process: asyncio.subprocess.Process | None = None
        """The sealer, while one runs."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="journal")

    async def stop(self) -> None:
        """Have everything sealed that is committed, and end the sealer."""
        self._stopping.set()
        if self._task is not None:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._task
            except TimeoutError:
                log.error("the sealer did not end")

    @property
    def lag(self) -> int:
        """Numbers of facts that are committed and not sealed."""
        return max(0, self._watermark() - self.last)

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in segments(self.directory))

    async def _run(self) -> None:
        while not self._stopping.is_set():
            pause = RESTART_SECONDS[min(self.starts, len(RESTART_SECONDS) - 1)]
            self.starts += 1
            await self._serve_once()
            if not self._stopping.is_set():
                log.warning("the sealer ended; it is started again in %s s", pause)
                await self._rest(pause)

    async def _serve_once(self) -> None:
        """The life of one sealer process."""
        settings = self._settings
        environment = dict(os.environ)
        if isinstance(self._database, Path):
            arguments = [str(self._database)]
        else:  # everybody can read arguments, and a URL may have a password in it
            arguments = ["-"]
            environment[URL_VARIABLE] = self._database
        arguments.append(str(settings.directory))
        arguments += ["--segment-bytes", str(settings.segment_bytes)]
        if settings.keep_seconds is not None:
            arguments += ["--keep-seconds", str(settings.keep_seconds)]
        if settings.keep_bytes is not None:
            arguments += ["--keep-bytes", str(settings.keep_bytes)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headgate.store.sealer",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the router, which then ends the sealer
        )
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        reading = asyncio.create_task(self._read(process.stdout))
        try:
            while process.returncode is None and not reading.done():
                is_last = self._stopping.is_set()
                with contextlib.suppress(ConnectionError):
                    process.stdin.write(f"seal {self._watermark()}\n".encode())
                    await process.stdin.drain()
                if is_last:
                    process.stdin.close()
                    break
                await self._rest(SEAL_SECONDS)
            await reading
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self.process = None
            reading.cancel()

    async def _read(self, output: asyncio.StreamReader) -> None:
        async for line in output:
            match line.split():
                case [b"sealed", last]:
                    self.last = int(last)
                    self._sealed(self.last)
                case [b"expired", last, size]:
                    self._expired(int(last), int(size))

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

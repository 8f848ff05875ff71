"""The router's side of the journal: a sealer process that is given the watermark.

The router writes facts into the outbox with its turns and knows nothing of files. Once a second the
sealer gets the watermark; facts that it reports as sealed are removed from the outbox in a later
turn. It may die or lag: it is started again, the outbox grows meanwhile up to its limit, and
nothing else is affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import ConfigError
from headgate.journal.segments import last_number, segments
from headgate.store.backends import ROUTER_SCHEMA

log = logging.getLogger(__name__)

URL_VARIABLE = "HEADGATE_SEALER_URL"
"""The environment variable with the URL of the store for the sealer."""

SEAL_SECONDS = 1.0
STOP_SECONDS = 10.0
"""Seconds for a sealer to finish when the router stops. Nothing is lost if it does not."""
RESTART_SECONDS = (0.1, 0.5, 1.0, 5.0)
"""Seconds before a sealer that died is started again, longer each time."""


FAILURES = 2
"""Sealers in a row that died, which are reported as a problem."""
SILENCE_SECONDS = 60.0
"""Seconds of one round that are reported as a problem: the largest segment is written in less."""
OUTPUT_BYTES = 4096
OUTPUT_CHARS = 500
OUTPUT_SECONDS = 0.2
"""Seconds within which lines of output belong together."""
OUTPUT_LINES = 20


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The place of the journal, and how its segments are cut and kept."""

    directory: Path
    segment_bytes: int
    keep_seconds: float | None
    keep_bytes: int | None
    schema: str = ROUTER_SCHEMA
    """The schema of the outbox, if it is in a database."""


class Journal:
    """The sealer's process: started, sent a request every second, started again when it ends.

    The router owns it. Facts reported as sealed are passed to the shard, which frees the outbox.
    """

    def __init__(
        self,
        source: str,
        settings: JournalSettings,
        watermark: Callable[[], int],
        sealed: Callable[[int], None],
        expired: Callable[[int, int], None],
        clock: Callable[[], float],
        sure: Callable[[], float],
    ) -> None:
        self._source = source
        """The URL of the store."""
        self._settings = settings
        self._watermark = watermark
        self._sealed = sealed
        self._expired = expired
        self._clock = clock
        self._sure = sure
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self.directory = settings.directory
        try:
            self.last = last_number(settings.directory)
        except OSError as error:
            raise ConfigError(
                f"the journal {settings.directory} cannot be read: {error.strerror};"
                " name another folder in [journal] directory, or change its rights"
            ) from error
        """The largest number in a segment."""
        self.starts = 0
        """Number of times that a sealer was started."""
        self._failures = 0
        """Sealers in a row that ended before they had completed a round."""
        self._asked: float | None = None
        """When the present round was requested."""
        self._output = ""
        """The last line of error output of the last sealer that ended."""
        self.process: asyncio.subprocess.Process | None = None
        """The sealer, while one runs."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="journal")

    async def stop(self) -> None:
        """Have all committed facts sealed, and end the sealer."""
        self._stopping.set()
        if self._task is not None:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._task
            except TimeoutError:
                log.error("the sealer did not end; the next one seals what is left")

    def kill(self) -> None:
        """End the sealer at once. The next one seals what is left."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    @property
    def problem(self) -> str | None:
        """Why facts stay in the outbox, if they do. One dead sealer is not a reason: the next one
        does its work."""
        if self._failures >= FAILURES:
            why = self._output or "without a word"
            return f"the sealer ended {self._failures} times in a row: {why}"
        waited = 0.0 if self._asked is None else time.monotonic() - self._asked
        if waited >= SILENCE_SECONDS:
            return f"the sealer has not answered for {waited:.0f} s"
        return None

    @property
    def lag(self) -> int:
        """Numbers of facts that are committed and not sealed."""
        return max(0, self._watermark() - self.last)

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in segments(self.directory))

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self.starts += 1
            await self._serve_once()
            if not self._stopping.is_set():
                pause = RESTART_SECONDS[min(self._failures, len(RESTART_SECONDS) - 1)]
                self._failures += 1
                fields = {"again_in": pause, "times": self._failures}
                log.warning("the sealer ended", extra={"fields": fields})
                await self._rest(pause)

    async def _serve_once(self) -> None:
        """Run one sealer process until it ends."""
        settings = self._settings
        # All users can read arguments, and a URL may have a password in it.
        environment = {**os.environ, URL_VARIABLE: self._source}
        arguments = ["-", str(settings.directory)]
        arguments += ["--segment-bytes", str(settings.segment_bytes)]
        arguments += ["--keep-seconds", str(settings.keep_seconds or math.inf)]
        arguments += ["--keep-bytes", str(settings.keep_bytes or sys.maxsize)]
        arguments += ["--schema", settings.schema]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headgate.journal.sealer",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the router, which then ends the sealer
        )
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._asked = None
        reading = asyncio.create_task(self._read(process.stdout))
        hearing = asyncio.create_task(self._hear(process.stderr))
        try:
            while process.returncode is None and not reading.done():
                is_last = self._stopping.is_set()
                if self._asked is None or is_last:
                    self._asked = time.monotonic()
                    with contextlib.suppress(ConnectionError):
                        process.stdin.write(self._request().encode())
                        await process.stdin.drain()
                if is_last:
                    process.stdin.close()
                    break
                await self._rest(SEAL_SECONDS)
            await reading
            await process.wait()
            await hearing
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self.process = self._asked = None
            reading.cancel()
            hearing.cancel()

    def _request(self) -> str:
        """A request with the time and a time that has certainly passed: the sealer has no clock."""
        return f"seal {self._watermark()} {self._clock():.3f} {self._sure():.3f}\n"

    async def _read(self, output: asyncio.StreamReader) -> None:
        async for line in output:
            match line.split():
                case [b"sealed", last]:
                    self.last = int(last)
                    self._sealed(self.last)
                case [b"expired", last, size]:
                    self._expired(int(last), int(size))
                case [b"done"]:
                    self._asked, self._failures = None, 0

    async def _hear(self, errors: asyncio.StreamReader) -> None:
        """Log the error output of a sealer: lines that come together are one line, cut, and their
        number is limited for each process. The last one is kept as the reason of its end, until the
        next sealer has ended too."""
        last = ""
        for number in itertools.count():
            data = await errors.read(OUTPUT_BYTES)
            if not data:
                self._output = last
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OUTPUT_SECONDS):
                    while more := await errors.read(OUTPUT_BYTES):
                        data = (data + more)[:OUTPUT_BYTES]
            output = data.decode(errors="replace").strip()
            last = output.splitlines()[-1][:OUTPUT_CHARS] if output else last
            if number < OUTPUT_LINES:
                log.warning("the sealer says", extra={"fields": {"output": output}})

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

"""A router of two workers, each with the instrument inside. Cases are played at the worker that has
no shard; what holds either of them counts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.hold.router import CONFIG, Line, Router
from tests.support.repository import ROOT

WORKERS = 2
SERVE = "from headgate.cli import main; main()"


class Crew(Router):
    """The workers connect when they start, and say their process."""

    workers = WORKERS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server: asyncio.Server | None = None

    async def start(self, config: str = CONFIG) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.configure(f"{config}[workers]\ncount = {WORKERS}\n")
        place = self.folder / "questions"
        self._server = await asyncio.start_unix_server(self._join, place)
        self._process = self._spawned(place)
        await self._until_ready()
        assert len(self._lines) == WORKERS, self.log

    def _spawned(self, place: Path) -> subprocess.Popen[bytes]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
        environ["HOLD_QUESTIONS"] = str(place)
        environ["PYTHONPATH"] = os.pathsep.join(map(str, (Path(__file__).parent / "inside", ROOT)))
        program = [sys.executable, "-c", SERVE, "serve"]
        files: list[str | Path] = ["--config", self._config, "--ready-file", self._ready]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*program, *files], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ
            )

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.processes.append(int(await reader.readline()))
        self._lines.append(Line(reader, writer))

    async def stop(self) -> None:
        """In order: the workers end with their supervisor."""
        if self._process is not None and self.is_running:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait)
        await super().stop()
        if self._server is not None:
            self._server.close()

"""Two routers on one PostgreSQL database, each a process: one serves, the other waits."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headgate.server import identity

PATIENCE = 120.0
"""The machine may be busy; nothing else is decided by it."""

CONFIG = """\
directory = "state"
[store]
url = "{url}"
standby = true
owner_timeout = "{timeout}"
[admin]
port = 0
{sections}
"""
COMMAND = "from headgate.cli import main; main()"


class Member:
    """One of the two."""

    def __init__(self, folder: Path, url: str, sections: str, timeout: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.journal = folder / "state" / "journal"
        self.ready_file = folder / "ready.json"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._waited = 0
        """How often it had said that it waits."""
        self.command = COMMAND
        self.configure(url, sections, timeout)

    def configure(self, url: str, sections: str, timeout: str) -> None:
        text = CONFIG.format(url=url, timeout=timeout, sections=sections)
        (self.folder / "headgate.toml").write_text(text)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start comes first"
        return self._process

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    @property
    def addresses(self) -> dict[str, Any]:
        """Where it listens, of one that serves."""
        found: dict[str, Any] = json.loads(self.ready_file.read_text())
        return found

    @property
    def is_serving(self) -> bool:
        return self.ready_file.exists()

    # Its life.

    def start(self) -> None:
        self.ready_file.unlink(missing_ok=True)
        self._waited = len(self.events("standby"))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", self.command, "serve"),
                    *("--config", self.folder / "headgate.toml", "--ready-file", self.ready_file),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
        self.ready_file.unlink(missing_ok=True)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def pause(self) -> None:
        """Its process is stopped in whatever it does; its sockets stay open."""
        self._waited = len(self.events("standby"))
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    # What it has come to.

    async def serves(self) -> None:
        await self._until(lambda: self.is_serving, "it serves")

    async def waits(self) -> None:
        """It has said that it waits, since it was started or paused."""
        await self._until(lambda: len(self.events("standby")) > self._waited, "it waits")

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.poll() is None, self.log[-3000:]
            assert time.monotonic() < end, f"not before {what}: {self.log[-3000:]}"
            await asyncio.sleep(0.01)


class Pair:
    """Both, with the same identity, so that clients of SMP know either."""

    def __init__(self, folder: Path, url: str, sections: str, timeout: str) -> None:
        self.members = [Member(folder / name, url, sections, timeout) for name in "ab"]
        for member in self.members:
            (member.folder / "state").mkdir()
        a, b = (member.folder / "state" / "identity" for member in self.members)
        identity.make(a, "localhost", time.time())
        b.mkdir()
        for file in a.iterdir():
            (b / file.name).write_bytes(file.read_bytes())

    @property
    def owner(self) -> Member:
        [serving] = [member for member in self.members if member.is_serving]
        return serving

    @property
    def other(self) -> Member:
        [waiting] = [member for member in self.members if not member.is_serving]
        return waiting

    async def start(self) -> None:
        """The first serves, the second waits."""
        for member in self.members:
            member.start()
            await (member.serves() if member is self.members[0] else member.waits())

    def kill(self) -> None:
        for member in self.members:
            member.kill()

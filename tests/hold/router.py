"""A `headgate serve` at its default limits with the instrument inside, and what is asked of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headgate.core.model.limits import MiB
from tests.support.repository import ROOT

READY_SECONDS = 60.0
MEMORY_BYTES = 2048 * MiB
"""What the process may take; the attempt to take more fails there."""
CPU_SECONDS = 20.0
"""What one case may take, or it is ended."""
SETTLE_SECONDS = 0.05
SETTLE_CPU = 0.003
SETTLE_TIMES = 4
"""So many times in a row the loop did next to nothing for so long."""
PATIENCE_SECONDS = 240.0
TOKEN = "a-token-of-this-harness"
TICKS = os.sysconf("SC_CLK_TCK")

CONFIG = f"""\
directory = "state"
[admin]
port = 0
token = "{TOKEN}"
[log]
level = "info"
format = "json"
[listen.resp]
port = 0
[listen.smp]
port = 0
[listen.bmq]
port = 0
[domains.work]
mode = "priority"
[domains.fan]
mode = "fanout"
apps = ["one", "two", "three"]
[domains.news]
mode = "broadcast"
[domains.open]
mode = "fanout"
groups = "open"
streams = ["jobs*"]
[domains.kept]
mode = "fanout"
groups = "open"
keep_messages = 100000
streams = ["kept*"]
[domains.fixed]
mode = "fanout"
apps = ["fixed"]
streams = ["fixed*"]
[domains.body]
mode = "fanout"
apps = ["fixed"]
streams = ["body*"]
properties = {{ a = "a[0]", b = "b.c" }}
"""
FEEDS = 'feeds = [{ channels = ["feed.*"], properties = { a = "a[0]" } }]\n'
"""Of the last domain: with several workers there are none."""


class Ended(Exception):
    """The router is no more, or was ended as it took too long."""


class Line:
    """Questions to the instrument in one process, and its answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asking = asyncio.Lock()
        self._numbers = itertools.count(1)

    async def ask(self, question: str, patience: float) -> dict[str, Any]:
        number = next(self._numbers)
        try:
            async with asyncio.timeout(patience), self._asking:
                self._writer.write(f"{number} {question}\n".encode())
                while line := await self._reader.readline():
                    answer: dict[str, Any] = json.loads(line)
                    if answer["number"] == number:  # others are to questions that were given up
                        return answer
        except (TimeoutError, OSError) as error:
            raise Ended(f"no answer to {question}") from error
        raise Ended("the router is gone")

    def close(self) -> None:
        self._writer.close()


def worst(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answers of all processes as one: what the worst of them holds, and what all take."""
    first, *others = answers
    if not others:
        return first
    found: dict[str, Any] = dict(first)
    for each in others:
        for name, item in each.items():
            match name:
                case "done":
                    found[name] = found[name] and item
                case "cpu" | "all" | "passes":
                    found[name] += item
                case "passed" | "sliced":
                    found[name] = max(found[name], item, key=lambda hold: hold["cpu"])
                case "running" | "unit":
                    found[name] = max(found[name], item)
                case "where":
                    found[name] = found[name] | item
    return found


class Router:
    """Without `start` nothing runs. The store is SQLite in a folder of its own, with a journal, as
    it is by default."""

    workers = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ready = folder / "ready.json"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: list[Line] = []
        self.processes: list[int] = []
        """Those that are measured."""
        self.places: dict[str, dict[str, Any]] = {}

    async def start(self, config: str = CONFIG + FEEDS) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.configure(config)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = self._launched(theirs.fileno())
        self._lines = [Line(*await asyncio.open_unix_connection(sock=ours))]
        self.processes = [self._process.pid]
        await self._until_ready()

    async def _until_ready(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while not self._ready.exists():
            assert self.is_running, self.log
            assert time.monotonic() < end, self.log
            await asyncio.sleep(0.02)
        self.places = json.loads(self._ready.read_text())

    def _launched(self, descriptor: int) -> subprocess.Popen[bytes]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.hold.launch"),
                    *(str(descriptor), str(MEMORY_BYTES), "serve"),
                    *("--config", self._config, "--ready-file", self._ready),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[descriptor],
                env=environ,
            )

    @property
    def _config(self) -> Path:
        return self.folder / "headgate.toml"

    def configure(self, config: str) -> None:
        self._config.write_text(config)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def mistakes(self) -> int:
        """Exceptions that nobody expected, as the log tells them."""
        return self.log.count("Traceback (most recent call last)")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "start comes first"
        self._process.send_signal(number)

    def address(self, wire: str) -> tuple[str, int]:
        place = self.places[wire]
        return place["host"], place["port"]

    async def stop(self) -> None:
        """By force: what it has on disk is thrown away with its folder."""
        if self._process is None:
            return
        for line in self._lines:
            line.close()
        if self.is_running:
            self._process.kill()
        await asyncio.to_thread(self._process.wait)

    # Questions.

    async def ask(self, question: str, patience: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Until the loop has done it, if it is something that the loop does."""
        end = time.monotonic() + patience
        while True:
            left = end - time.monotonic()
            answer = worst(
                await asyncio.gather(*(each.ask(question, left) for each in self._lines))
            )
            if answer.get("done", True):
                return answer

    async def settle(self) -> None:
        """Wait until the loop has next to nothing to do."""
        before = (await self.ask("barrier"))["cpu"]
        quiet = 0
        while quiet < SETTLE_TIMES:
            await asyncio.sleep(SETTLE_SECONDS)
            now = (await self.ask("barrier"))["cpu"]
            quiet = quiet + 1 if now - before < SETTLE_CPU else 0
            before = now

    # What the system knows of it.

    def cpu(self) -> float:
        """Seconds of all its threads."""
        found = 0
        for process in self.processes:
            with suppress(OSError):
                text = Path(f"/proc/{process}/stat").read_text()
                user, system = text.rpartition(")")[2].split()[11:13]
                found += int(user) + int(system)
        return found / TICKS

    def memory(self) -> tuple[int, int]:
        """Resident bytes now, and at most since `forget_peak`."""
        found = {"VmRSS": 0, "VmHWM": 0}
        for process in self.processes:
            with suppress(OSError):
                for line in Path(f"/proc/{process}/status").read_text().splitlines():
                    name, _, text = line.partition(":")
                    if name in found:
                        found[name] += int(text.split()[0]) * 1024
        return found["VmRSS"], found["VmHWM"]

    def forget_peak(self) -> None:
        for process in self.processes:
            with suppress(OSError):
                Path(f"/proc/{process}/clear_refs").write_text("5")

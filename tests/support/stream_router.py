"""A router with streams as a process, which may be killed and started again in its folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import redis

START_SECONDS = 60.0
WORKERS = int(os.environ.get("TEST_WORKERS", "1"))
"""How many a router of these tests has, if its test does not say."""

DOMAINS = """
[domains.jobs]
mode = "fanout"
apps = ["g", "h"]
streams = ["s*", "jobs:*"]
consumer_grace = "1s"
fields = { zip = "string" }

[domains.log]
mode = "fanout"
groups = "open"
streams = ["k*"]
keep_messages = 100000

[domains.work]
mode = "priority"
streams = ["w*"]
group = "team"
"""


class StreamRouter:
    """Made in a folder; `start` and `kill` as often as need be, and `stop` at the end."""

    def __init__(
        self,
        folder: Path,
        *,
        store: str = "sqlite:queues.db",
        domains: str = DOMAINS,
        workers: int = WORKERS,
    ) -> None:
        self._folder = folder
        self.ready = folder / "ready.json"
        """Where a router says that it serves, and where."""
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[redis.Redis] = []
        (folder / "headgate.toml").write_text(
            f'directory = "state"\n[store]\nurl = "{store}"\n[admin]\nport = 0\n'
            f"[workers]\ncount = {workers}\n"
            f"[listen.resp]\nport = 0\n[listen.bmq]\nport = 0\n{domains}"
        )

    def start(self) -> None:
        ready = self.ready
        ready.unlink(missing_ok=True)
        program = [sys.executable, "-c", "from headgate.cli import main; main()", "serve"]
        arguments = [*program, "--config", str(self._folder / "headgate.toml")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*arguments, "--ready-file", str(ready)], stdout=log, stderr=log
            )
        end = time.monotonic() + START_SECONDS
        while not ready.exists():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.02)
        at = json.loads(ready.read_text())
        self.resp = (at["resp"]["host"], at["resp"]["port"])
        self.bmq = f"tcp://{at['bmq']['host']}:{at['bmq']['port']}"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def client(self, protocol: int = 2) -> redis.Redis:
        """A client of redis-py, with a pool of connections."""
        host, port = self.resp
        found = redis.Redis(host, port, protocol=protocol, decode_responses=True)
        self._clients.append(found)
        return found

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)

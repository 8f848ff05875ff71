"""A router of several workers as processes, and clients on each of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

READY_SECONDS = 60.0
WAIT_SECONDS = 30.0
STOP_SECONDS = 30.0


@dataclass
class Workers:
    """A running router of several workers."""

    folder: Path
    process: subprocess.Popen[bytes]
    count: int

    @property
    def ready(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads((self.folder / "ready.json").read_text())
        return found

    @property
    def port(self) -> int:
        return int(self.ready["resp"]["port"])

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of the log about one thing."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def client(self, **options: Any) -> redis.Redis:  # noqa: ANN401
        options = {"socket_timeout": WAIT_SECONDS, "protocol": 2, **options}
        return redis.Redis("127.0.0.1", self.port, single_connection_client=True, **options)

    def client_on(self, worker: int, **options: Any) -> redis.Redis:  # noqa: ANN401
        """A client of one worker: connections go to the one with the fewest."""
        spare: list[redis.Redis] = []
        for _ in range(50):
            client = self.client(**options)
            if worker_of(client, self.count) == worker:
                for each in spare:
                    each.close()
                return client
            spare.append(client)
        raise AssertionError(f"no client gets to worker {worker}")

    def process_of(self, worker: int) -> int:
        [found] = [each for each in self.status()["workers"] if each["number"] == worker]
        return int(found["process"])

    def start_of(self, worker: int) -> int:
        """How often a worker was started; 0 while it is not there."""
        with suppress(OSError, json.JSONDecodeError, KeyError):
            rows = self.status()["workers"]
            found = [int(each["start"]) for each in rows if each["number"] == worker]
            return found[0] if found and self.is_ready() else 0
        return 0

    def ask(self, path: str) -> tuple[int, bytes]:
        admin = self.ready["admin"]
        token = Path(admin["token_file"]).read_text().strip()
        request = urllib.request.Request(
            f"http://{admin['host']}:{admin['port']}{path}",
            headers={"Authorization": f"Bearer {token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    def api(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask(path)[1])
        return found

    def status(self) -> dict[str, Any]:
        return self.api("/status.json")

    def are_all_ready(self) -> bool:
        ready = [each["is_ready"] for each in self.status().get("workers", [])]
        return ready == [True] * self.count

    def is_ready(self) -> bool:
        with suppress(OSError, json.JSONDecodeError, KeyError):
            return self.ask("/readyz")[0] == 200
        return False

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


def worker_of(client: redis.Redis, workers: int) -> int:
    return int(client.client_id()) % workers


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that processes do in their own time."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.02)


@contextmanager
def started(
    folder: Path, count: int = 2, resp: str = "", more: str = "", admin: str = ""
) -> Iterator[Workers]:
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "headgate.toml"
    config.write_text(
        f"""\
directory = "state"
[admin]
port = 0
{admin}
[workers]
count = {count}
timeout = 5
[listen.resp]
port = 0
{resp}
{more}
"""
    )
    ready = folder / "ready.json"
    program = [sys.executable, "-c", "from headgate.cli import main; main()", "serve"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*program, "--config", str(config), "--ready-file", str(ready)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"NO_COLOR": "1"},
        )
    workers = Workers(folder, process, count)
    try:
        end = time.monotonic() + READY_SECONDS
        while not ready.exists():
            assert process.poll() is None, workers.log
            assert time.monotonic() < end, workers.log
            time.sleep(0.02)
        if count > 1:
            eventually(workers.are_all_ready, "worker 0 is told that all are ready")
        yield workers
    finally:
        if process.poll() is None:
            workers.stop()


def children_of(process: int) -> list[int]:
    """The processes that one started, as Linux knows them."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            found += [int(each) for each in (task / "children").read_text().split()]
    return found


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def resident_bytes(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024

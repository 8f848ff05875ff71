"""A router as a process with something in it, for commands to ask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.client.resp import RespClient

READY_SECONDS = 60.0
TOKEN, OPERATOR, PASSWORD = "look here", "act here", "sesame"
CONFIG = f"""\
directory = "state"
[admin]
port = 0
token = "{TOKEN}"
operator_token = "{OPERATOR}"
[listen.resp]
port = 0
password = "{PASSWORD}"
mailbox_soft = 65536
mailbox_hard = 262144
[listen.bmq]
port = 0
[listen.smp]
port = 0
[domains.work]
mode = "priority"
[domains.fan]
mode = "fanout"
apps = ["billing", "shipping"]
"""


@dataclass
class CliRouter:
    """A running router, and how commands find it."""

    folder: Path
    url: str
    resp: tuple[str, int]
    bmq: str

    @property
    def environ(self) -> dict[str, str | None]:
        """What a command has to know."""
        return {
            "HEADGATE_CONFIG": str(self.folder / "headgate.toml"),
            "HEADGATE_URL": self.url,
            "HEADGATE_RESP": f"{self.resp[0]}:{self.resp[1]}",
            "HEADGATE_BMQ": self.bmq,
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "HEADGATE_TOKEN": None,
            "NO_COLOR": "1",
        }

    def run(self, *arguments: str, answer: str | None = None, **environ: str | None) -> Result:
        """A command, in this process."""
        found = self.environ | environ
        return CliRunner().invoke(cli, arguments, input=answer, env=found, prog_name="headgate")

    def client(self) -> RespClient:
        return RespClient(*self.resp, PASSWORD)


@contextmanager
def cli_router(folder: Path) -> Iterator[CliRouter]:
    """A router with a subscriber that reads, a publisher, and a queue with messages."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headgate.toml").write_text(CONFIG)
    ready = folder / "ready.json"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", "from headgate.cli import main; main()", "serve"],
            cwd=folder,
            env=os.environ | {"HEADGATE_READY_FILE": str(ready)},
            stdout=log,
            stderr=log,
        )
    try:
        addresses = _addresses(process, ready)
        host, port = addresses["resp"]["host"], addresses["resp"]["port"]
        router = CliRouter(
            folder,
            f"http://127.0.0.1:{addresses['admin']['port']}",
            (host, port),
            f"127.0.0.1:{addresses['bmq']['port']}",
        )
        with _busy(router):
            yield router
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _addresses(process: subprocess.Popen[bytes], ready: Path) -> dict[str, dict[str, Any]]:
    deadline = time.monotonic() + READY_SECONDS
    while not ready.exists():
        assert process.poll() is None, "the router ended"
        assert time.monotonic() < deadline, "the router does not get ready"
        time.sleep(0.05)
    found: dict[str, dict[str, Any]] = json.loads(ready.read_text())
    return found


@contextmanager
def _busy(router: CliRouter) -> Iterator[None]:
    """Somebody subscribes and somebody publishes, all the time."""
    done, named = Event(), Event()

    def publish() -> None:
        with router.client() as client:
            client.ask("CLIENT", "SETNAME", "ticker")
            named.set()
            while not done.wait(0.1):
                client.publish(b"ticks.AAPL", b"500")

    with router.client() as listener:
        listener.ask("CLIENT", "SETNAME", "listener")
        listener.subscribe([b"ticks.AAPL"])
        listener.subscribe([b"ticks.*"], are_patterns=True)
        reader = Thread(target=lambda: _read(listener), daemon=True)
        reader.start()
        thread = Thread(target=publish, daemon=True)
        thread.start()
        assert named.wait(READY_SECONDS)  # so that sessions have the same numbers each time
        for kind in ("express", "bulk"):
            posted = router.run(
                "pub", "bmq://work/jobs", "a body", "--property", f"kind={kind}", "--property=n=1"
            )
            assert posted.exit_code == 0, posted.stderr
        deadline = time.monotonic() + READY_SECONDS
        while not router.run("channel", "ls", "--json").stdout:  # they are counted by the second
            assert time.monotonic() < deadline, "nothing is counted"
            time.sleep(0.05)
        try:
            yield
        finally:
            done.set()
            thread.join()


def _read(listener: RespClient) -> None:
    try:
        for _ in listener.messages():
            pass
    except Exception:  # it was closed, which ends the test
        return

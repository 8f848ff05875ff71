"""A router of SMP as a process that keeps its port, for commands and programs that use agents."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.support.bmq_router import READY_SECONDS, free_port

CONFIG = """\
directory = "state"
[admin]
port = 0
[listen.smp]
port = {port}
"""


class SmpProcess:
    """A `headgate serve` on loopback."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ready = folder / "ready.json"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "headgate.toml").write_text(CONFIG.format(port=free_port()))
        self.address = self._headgate("init", "--host", "127.0.0.1").strip()

    def _headgate(self, *arguments: str) -> str:
        command = [sys.executable, "-c", "from headgate.cli import main; main()", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True, timeout=60
        )
        return done.stdout

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def start(self) -> None:
        self._ready.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from headgate.cli import main; main()", "serve"),
                    *("--ready-file", str(self._ready)),
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + READY_SECONDS
        while not self._ready.exists():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.02)
        assert "smp" in json.loads(self._ready.read_text()), "nothing listens for clients"

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(READY_SECONDS) == 0, self.log
            self._process = None

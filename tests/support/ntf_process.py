"""`headgate ntf serve` as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.wire.ntf.address import NtfAddress
from tests.server.test_serve import Served

CONFIG = """\
[listen.ntf]
port = 0
[admin]
port = 0
"""


class ServedNtf(Served):
    """A running `headgate ntf serve` and its folder, which has the configuration."""

    def __init__(self, folder: Path, ready: str = "ready.json", **environ: str) -> None:
        self.ready = folder / ready
        self.log = folder / f"log-{time.monotonic_ns()}.jsonl"
        command = "from headgate.cli import main; main()"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", command, "ntf", "serve"),
                    *("--config", folder / "ntf.toml", "--ready-file", self.ready),
                ],
                stderr=log,
                stdout=log,
                env={**os.environ, **environ},
            )

    def started(self) -> ServedNtf:
        self.until(self.ready.exists)
        return self

    @property
    def shown(self) -> dict[str, Any]:
        """What the ready file says."""
        found: dict[str, Any] = json.loads(self.ready.read_text())
        return found

    @property
    def address(self) -> NtfAddress:
        """For an app on this machine."""
        return replace(NtfAddress.parse(self.shown["ntf"]["address"]), hosts=("127.0.0.1",))

    def metrics(self) -> dict[str, float]:
        """What a scrape shows, by name and labels."""
        lines = self.get("/metrics")[1].decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(number) for name, _, number in pairs}


ServeNtf = Callable[..., ServedNtf]

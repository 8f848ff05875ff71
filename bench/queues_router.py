"""The router that the benchmark of queues loads: a fresh process over a store that is filled.

It may be sampled: SIGVTALRM starts that, and another one ends it and writes what was seen. See
`bench.queues_sampled`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.queues_store import Place
from bench.servers import Server, _running, _wait, headgate_program

SAMPLED = Path(__file__).with_name("queues_sampled.py")
WRITTEN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Served:
    """A router, and how it is reached."""

    server: Server
    fingerprint: bytes
    admin: str
    token: str
    samples: Path

    @property
    def address(self) -> tuple[str, int, bytes]:
        return self.server.host, self.server.port, self.fingerprint

    def counts(self) -> tuple[int, int]:
        """Statements of the store and turns, so far."""
        request = urllib.request.Request(f"{self.admin}/metrics")
        request.add_header("authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request) as answer:
            lines = answer.read().decode().splitlines()
        numbers = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return (
            int(float(numbers["headgate_store_statements_total"])),
            int(float(numbers["headgate_turns_total"])),
        )

    def user_and_system(self) -> tuple[float, float]:
        """Seconds of CPU in the program and in the kernel, to a hundredth."""
        stat = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return int(stat[11]) / ticks, int(stat[12]) / ticks

    def sample(self) -> None:
        """Begin to look where the router's time goes."""
        os.kill(self.server.pid, signal.SIGVTALRM)

    def sampled(self) -> Mapping[str, Any]:
        """Stop looking; what was seen."""
        os.kill(self.server.pid, signal.SIGVTALRM)
        end = time.monotonic() + WRITTEN_SECONDS
        while not self.samples.exists():
            assert time.monotonic() < end, "the router wrote no samples"
            time.sleep(0.02)
        seen: Mapping[str, Any] = json.loads(self.samples.read_text())
        self.samples.unlink()
        return seen


@contextmanager
def serving(
    place: Place,
    *,
    journal: bool = False,
    is_sampled: bool = False,
    other: Path | None = None,
) -> Iterator[Served]:
    folder = place.folder
    config, ready, samples = (folder / n for n in ("headgate.toml", "ready.json", "samples.json"))
    # TOML writes texts and booleans as JSON does.
    config.write_text(
        f"directory = {json.dumps(str(folder))}\n"
        f"[store]\nurl = {json.dumps(place.url)}\n"
        f"[journal]\nenabled = {json.dumps(journal)}\n"
        "[admin]\nport = 0\n"
        '[log]\nlevel = "warning"\n'
        "[listen.smp]\nport = 0\n"
    )
    program = [str(other or headgate_program())]
    if is_sampled:
        # Not the folder of the script: it has modules named like those of others.
        program = [sys.executable, "-P", str(SAMPLED), str(samples)]
    line = [*program, "serve", "--config", str(config), "--ready-file", str(ready)]
    with _running(line, folder) as process:
        _wait(process, folder, ready.exists)
        found = json.loads(ready.read_text())
        smp, admin = found["smp"], found["admin"]
        server = Server("headgate", process.pid, smp["host"], smp["port"])
        fingerprint = urlsafe_b64decode(smp["fingerprint"] + "=")
        token = Path(admin["token_file"]).read_text().strip()
        url = f"http://{admin['host']}:{admin['port']}"
        yield Served(server, fingerprint, url, token, samples)

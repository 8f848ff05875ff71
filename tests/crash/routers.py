"""Routers as processes of their own, to be killed."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from headgate.core.model.ids import QueueId
from headgate.core.turn.store_requests import Load
from headgate.store.sqlite import SqliteStore

DEADLINE_SECONDS = 60
LASTING_PORTS = (20_000, 32_000)
"""Below those that Linux gives to clients."""
QUEUE = "bmq://orders/q"
CONFIG = """\
directory = "state"
[admin]
port = {port}
[journal]
enabled = false
[domains.orders]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def lasting_port() -> int:
    """A port that is free, and stays so while nobody listens: the kernel gives it to no client."""
    while True:
        port = random.randrange(*LASTING_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def configured(folder: Path) -> int:
    """Write a configuration; return the port of its admin."""
    port = lasting_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headgate.toml").write_text(CONFIG.format(port=port))
    return port


def start(folder: Path) -> subprocess.Popen[bytes]:
    """A router that serves."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from headgate.cli import main; main()", "serve"),
                *("--config", folder / "headgate.toml", "--ready-file", ready),
            ],
            stderr=log,
            stdout=log,
        )
    end = time.monotonic() + DEADLINE_SECONDS
    while not ready.exists():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < end, (folder / "log").read_text()
        time.sleep(0.02)
    return process


def bodies_in(folder: Path) -> Counter[bytes]:
    """The bodies in the queue of a router that does not run."""
    return asyncio.run(_bodies_in(folder))


async def _bodies_in(folder: Path) -> Counter[bytes]:
    store = SqliteStore(folder / "state" / "queues.db")
    await store.open()
    backlogs = (await store.load(Load(backlogs={QueueId(QUEUE.encode())}))).backlogs
    _, entries = backlogs[QueueId(QUEUE.encode())]
    loaded = await store.load(Load(bodies={entry.seq for entry in entries}))
    await store.close()
    return Counter(loaded.bodies.values())

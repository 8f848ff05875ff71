"""The two servers as processes: the router under test, and redis-server, which is always right."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from tests.support.resp_client import TIMEOUT_SECONDS, Client, Frame, Pairs, Verbatim

READY_SECONDS = 30.0
STOP_SECONDS = 10.0
PASSWORD = "open sesame"
Setting: TypeAlias = str | int | bool

WORKERS = int(os.environ.get("TEST_WORKERS", "1"))
"""How many a router of these tests has, if its test does not say. A node of a cluster has one."""

_folders = itertools.count(1)


@dataclass(frozen=True)
class Server:
    """A running server. ``name`` is that of the program."""

    name: str
    address: tuple[str, int]
    process: subprocess.Popen[bytes]
    log: Path
    workers: int = 1
    """Processes that have clients: what is said to be different of several, tests ask this."""

    @property
    def is_redis(self) -> bool:
        return self.name == "redis"

    @property
    def port(self) -> int:
        return self.address[1]

    def resident_bytes(self) -> int:
        """Memory of the process, as Linux counts it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024


class Dial:
    """Opens connections to any server, and closes them all at the end of a test."""

    def __init__(self) -> None:
        self._clients: list[Client] = []

    def __call__(
        self,
        server: Server,
        protocol: int = 2,
        *,
        timeout: float = TIMEOUT_SECONDS,
        receive_buffer: int | None = None,
    ) -> Client:
        client = Client(
            server.address,
            protocol=protocol,
            timeout=timeout,
            receive_buffer=receive_buffer,
            fence="PING" if server.workers == 1 else "UNSUBSCRIBE",
        )
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()


@dataclass(frozen=True)
class Connect:
    """Opens connections to the server of a test."""

    server: Server
    dial: Dial

    def __call__(
        self,
        protocol: int = 2,
        *,
        timeout: float = TIMEOUT_SECONDS,
        receive_buffer: int | None = None,
    ) -> Client:
        return self.dial(self.server, protocol, timeout=timeout, receive_buffer=receive_buffer)


@contextlib.contextmanager
def start_headgate(tmp_path: Path, **settings: Setting) -> Iterator[Server]:
    """The router, with these settings in ``[listen.resp]``."""
    workers = 1 if settings.get("cluster") else WORKERS
    with start_workers(tmp_path, workers, settings) as server:
        yield server


@contextlib.contextmanager
def start_workers(
    tmp_path: Path, workers: int, settings: Mapping[str, Setting] = MappingProxyType({})
) -> Iterator[Server]:
    """The same with so many workers."""
    folder = _folder(tmp_path)
    config = folder / "headgate.toml"
    listen = {"port": 0, **settings}
    lines = [
        'directory = "state"',
        '[store]\nurl = "memory:"',
        "[admin]\nport = 0",
        *([f"[workers]\ncount = {workers}"] if workers > 1 else []),
        "[listen.resp]",
        *(f"{key} = {json.dumps(value)}" for key, value in listen.items()),
    ]
    config.write_text("\n".join(lines) + "\n")
    ready = folder / "ready.json"
    program = [sys.executable, "-c", "from headgate.cli import main; main()", "serve"]
    arguments = [*program, "--config", str(config), "--ready-file", str(ready)]
    with _running(arguments, folder / "headgate.log") as (process, log):
        _wait(process, log, ready.exists)
        at = json.loads(ready.read_text())
        assert "resp" in at, f"nothing listens for Redis clients: {at}"
        address = (at["resp"]["host"], at["resp"]["port"])
        yield Server("headgate", address, process, log, workers)


@contextlib.contextmanager
def start_redis(tmp_path: Path, **settings: Setting) -> Iterator[Server]:
    """A redis-server without files, with these settings as options."""
    program = shutil.which("redis-server")
    assert program, "this test needs redis-server (Debian: apt-get install redis-server)"
    folder = _folder(tmp_path)
    address = ("127.0.0.1", free_port())
    options: Mapping[str, Setting] = {
        "bind": address[0],
        "port": address[1],
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        **{key.replace("_", "-"): value for key, value in settings.items()},
    }
    arguments = [program]
    for key, value in options.items():
        arguments += [f"--{key}", str(value)]
    with _running(arguments, folder / "redis.log") as (process, log):
        _wait(process, log, lambda: _accepts(address))
        yield Server("redis", address, process, log)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that a server does in its own time."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.01)


def text_of(frame: Frame) -> str:
    """A text reply, which is a bulk in RESP2 and verbatim in RESP3."""
    if isinstance(frame, Verbatim):
        assert frame.kind == "txt"
        return frame.text.decode()
    assert isinstance(frame, bytes), frame
    return frame.decode()


def info(client: Client, *sections: str) -> dict[str, str]:
    """The fields of INFO."""
    text = text_of(client.ask("INFO", *sections))
    lines = [line for line in text.split("\r\n") if line and not line.startswith("#")]
    return dict(line.split(":", 1) for line in lines)


def client_list(client: Client, *words: str | int) -> list[dict[str, str]]:
    """The lines of CLIENT LIST as dictionaries."""
    lines = text_of(client.ask("CLIENT", "LIST", *words)).splitlines()
    return [dict(pair.split("=", 1) for pair in line.split(" ")) for line in lines]


def items_of(frame: Frame) -> list[Frame]:
    assert isinstance(frame, list), frame
    assert not isinstance(frame, Pairs), frame
    return frame


def mapping(frame: Frame) -> dict[bytes, Frame]:
    """A map in either protocol, with bulks as keys."""
    if isinstance(frame, Pairs):
        pairs = [(key, value) for key, value in frame]
    else:
        flat = items_of(frame)
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
    found: dict[bytes, Frame] = {}
    for key, value in pairs:
        assert isinstance(key, bytes), key
        found[key] = value
    return found


def number_of(frame: Frame) -> int:
    assert isinstance(frame, int), frame
    return frame


@contextlib.contextmanager
def _running(arguments: list[str], log: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    with log.open("wb") as file:
        process = subprocess.Popen(arguments, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        yield process, log
        assert process.poll() is None, f"the server ended by itself: {log.read_text()}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + READY_SECONDS
    while not ready():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)


def _accepts(address: tuple[str, int]) -> bool:
    try:
        Client(address).close()
    except OSError:
        return False
    return True


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / f"server-{next(_folders)}"
    folder.mkdir()
    return folder

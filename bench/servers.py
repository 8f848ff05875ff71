"""The servers that a benchmark loads: redis-server and our router, each a fresh process.

A server runs on the first core that we have and the load on the second, so that neither takes
the other's time. With one core nothing is pinned, and `cores` says so.

CPU is asked of the kernel's clock of the other process, as `clock_getcpuclockid` names it: user
and system time of all its threads, those that ended included, in nanoseconds. /proc/PID/stat
counts in hundredths of a second, and /proc/PID/schedstat knows the first thread only.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from headgate import compiled

START_SECONDS = 20.0
STOP_SECONDS = 15.0

_ALLOWED = os.sched_getaffinity(0)
"""Asked before `pin_load` narrows it."""


@dataclass(frozen=True, slots=True)
class Server:
    """A process under load."""

    name: str
    pid: int
    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def cpu_ns(self) -> int:
        """Nanoseconds of CPU since its start."""
        # clock_getcpuclockid(3), which Python does not have: the pid inverted, then the clock
        # of the scheduler (2).
        return time.clock_gettime_ns((~self.pid << 3) | 2)

    def rss(self) -> int:
        """Bytes of memory that it holds now."""
        return self._memory("VmRSS")

    def peak_rss(self) -> int:
        """The most bytes that it held since `forget_peak`."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _memory(self, key: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == key:
                return int(rest.split()[0]) * 1024
        raise AssertionError(f"/proc/{self.pid}/status has no {key}")


Start: TypeAlias = Callable[[], AbstractContextManager[Server]]
"""Starts a fresh server, and ends it."""


def cores() -> tuple[int | None, int | None]:
    """The core for the servers and the one for the load, or none if there is only one."""
    ours = sorted(_ALLOWED)
    return (ours[0], ours[1]) if len(ours) > 1 else (None, None)


def pin_load() -> None:
    """Put this process on the core of the load."""
    _, load = cores()
    if load is not None:
        os.sched_setaffinity(0, {load})


def headgate_program() -> Path:
    """The `headgate` to load: of this environment, or of another checkout's (BENCH_HEADGATE)."""
    return Path(os.environ.get("BENCH_HEADGATE") or Path(sys.executable).with_name("headgate"))


@contextmanager
def redis_server(*options: str) -> Iterator[Server]:
    """A fresh redis-server that keeps nothing."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("this benchmark needs redis-server (Debian: apt-get install redis-server)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        line = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder]
        line += ["--save", "", "--appendonly", "no", "--daemonize", "no", *options]
        with _running(line, Path(folder)) as process:
            server = Server("redis", process.pid, "127.0.0.1", port)
            _wait(process, Path(folder), lambda: _answers(server.address))
            yield server


@contextmanager
def router(
    listen: Mapping[str, str | int | float] | None = None,
    program: Path | None = None,
    *,
    store: str = "memory:",
    domains: str = "",
) -> Iterator[Server]:
    """A fresh router with the Redis wire, in memory unless said otherwise, without a journal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, ready = folder / "headgate.toml", folder / "ready.json"
        # TOML writes texts and numbers as JSON does.
        keys = {"port": 0, **(listen or {})}
        written = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        config.write_text(
            f"directory = {json.dumps(name)}\n"
            f"[store]\nurl = {json.dumps(store)}\n"
            "[journal]\nenabled = false\n"
            "[admin]\nport = 0\n"
            '[log]\nlevel = "warning"\n'
            f"[listen.resp]\n{written}{domains}"
        )
        line = [
            str(program or headgate_program()),
            "serve",
            "--config",
            str(config),
            "--ready-file",
            str(ready),
        ]
        with _running(line, folder) as process:
            _wait(process, folder, ready.exists)
            address = json.loads(ready.read_text()).get("resp")
            if address is None:
                raise SystemExit("the router has no Redis listener")
            yield Server("headgate", process.pid, address["host"], address["port"])


@contextmanager
def _running(line: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child on the core of the servers, ended at the end."""
    # A variable of the environment is stronger than the file that the router is given.
    environ = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
    if pure := os.environ.get("HEADGATE_PURE"):  # it is no key of the file
        environ["HEADGATE_PURE"] = pure
    core, _ = cores()

    def pin() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})

    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ,
            cwd=folder, preexec_fn=pin,
        )  # fmt: skip
    try:
        yield process
    except Exception:
        if said := _said(folder):
            print(f"the last lines of {line[0]}:\n{said}", file=sys.stderr)
        raise
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], folder: Path, ready: Callable[[], bool]) -> None:
    """Until it is ready; what it said if it never is."""
    end = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"a server did not start:\n{_said(folder)}")
        time.sleep(0.02)


def _said(folder: Path) -> str:
    return (folder / "output").read_text(errors="replace")[-2000:]


def _answers(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, 1.0) as asked:
        asked.sendall(b"*1\r\n$4\r\nPING\r\n")
        return asked.recv(7) == b"+PONG\r\n"
    return False


def describe() -> str:
    """What was measured with what: numbers of two builds are not compared."""
    lines = [
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}",
        f"built with {sysconfig.get_config_var('CONFIG_ARGS')}",
    ]
    found = []
    for name in ("headgate", "hiredis", "uvloop"):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    program = shutil.which("redis-server")
    if program is not None:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        words = dict(word.split("=", 1) for word in said.stdout.split() if "=" in word)
        found.append(f"redis-server {words['v']} ({words['malloc']})")
    lines.append(", ".join(found))
    lines.append(f"the router is {compiled.described()}")
    server, load = cores()
    lines.append("one core: nothing is pinned" if server is None else
                 f"servers on core {server}, load on core {load}")  # fmt: skip
    return "\n".join(lines)

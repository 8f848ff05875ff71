"""What ``docs/tutorial.md`` shows works when it is pasted, in its order."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository import DOCS

TEXT = (DOCS / "tutorial.md").read_text()
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
CONSOLES: list[str] = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
PORTS = ("8222", "6379", "30114")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the configuration of the page, but for the ports, and its router."""
    [config] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    for port in PORTS:
        assert f"port = {port}\n" in config
        with socket.create_server(("127.0.0.1", 0)) as free:
            config = config.replace(port, str(free.getsockname()[1]))
    (tmp_path / "headgate.toml").write_text(config)
    command: list[str | Path] = [
        Path(sys.executable).with_name("headgate"),
        "serve",
        "--ready-file",
        "ready",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as router:
        try:
            end = time.monotonic() + 60
            while not (tmp_path / "ready").exists():
                assert router.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
            yield tmp_path
        finally:
            router.send_signal(signal.SIGTERM)
            router.wait(60)


@pytest.mark.serial
def test_the_commands_of_the_page_print_what_it_says(folder: Path) -> None:
    environ = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = [found for console in CONSOLES for found in COMMAND.findall(console)]
    assert len(shown) == 10
    for command, expected in shown:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        if expected.endswith("...\n"):
            assert done.stdout.startswith(expected.removesuffix("...\n"))
        else:
            assert done.stdout == expected

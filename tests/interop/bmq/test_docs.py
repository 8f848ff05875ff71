"""What ``docs/bmq.md`` shows works when it is pasted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.bmq.rig import Router

TEXT = (Path(__file__).parents[3] / "docs/bmq.md").read_text()
ADDRESS = "127.0.0.1:30114"
SECONDS_MAX = 60


def block(kind: str) -> str:
    [found] = re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where the router of the page listens."""
    listen, _, domains = block("toml").partition("\n\n")
    assert tomllib.loads(listen)["listen"]["bmq"]["port"] == 30114
    router = Router(tmp_path, domains)
    router.start()
    yield router.broker.removeprefix("tcp://")
    router.stop()


def test_the_program_reads_what_it_posted(address: str) -> None:
    program = block("python")
    assert ADDRESS in program
    done = subprocess.run(
        [sys.executable, "-c", program.replace(ADDRESS, address)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    assert "b'one book' {'amount': 20, 'kind': 'express'}\n" in done.stdout


def test_the_commands_subscribe_and_publish(address: str) -> None:
    subscribe, publish = block("sh").splitlines()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HEADGATE_BMQ": address,
    }
    with subprocess.Popen(
        ["bash", "-c", f"exec {subscribe} --count 1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as subscriber:
        assert subscriber.stderr is not None
        subscriber.stderr.readline()  # it is subscribed
        subprocess.run(["bash", "-c", publish], env=environment, check=True, timeout=SECONDS_MAX)
        printed, _ = subscriber.communicate(timeout=SECONDS_MAX)
    assert "one book" in printed

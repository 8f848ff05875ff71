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

from tests.support.bmq_router import Router
from tests.support.repository import DOCS

TEXT = (DOCS / "bmq.md").read_text()
ADDRESS = "127.0.0.1:30114"
SECONDS_MAX = 60


def block(kind: str, number: int = 0) -> str:
    found: list[str] = re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)
    expected = 3 if kind == "sh" else 2
    assert len(found) == expected, "one without tokens, one with, and commands for operators"
    return found[number]


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


# With tokens.


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Router]:
    """The second router of the page, with the files that it names."""
    for name in ("shop", "billing"):
        (tmp_path / f"{name}.token").write_text(f"the token of {name}\n")
    listen, _, clients = block("toml", 1).partition("\n\n")
    assert tomllib.loads(listen)["listen"]["bmq"]["port"] == 30114
    router = Router(tmp_path, clients)
    router.start()
    yield router
    router.stop()
    assert "the token of" not in router.log


def test_the_program_shows_its_token(guarded: Router, tmp_path: Path) -> None:
    program = block("python", 1)
    assert ADDRESS in program
    done = subprocess.run(
        [sys.executable, "-c", program.replace(f"tcp://{ADDRESS}", guarded.broker)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "True\n" in done.stdout


def test_the_commands_show_their_tokens(guarded: Router, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )

    publish, subscribe = block("sh", 1).splitlines()
    assert run(publish).returncode == 0
    assert "one book" in run(subscribe).stdout
    refused = run(publish.replace("shop", "billing", 1))
    assert refused.returncode != 0
    assert "client billing may not write to queues of the domain invoices" in refused.stderr
    unknown = run(publish.replace("--client shop ", ""))
    assert unknown.returncode != 0
    assert "token:NAME:TOKEN" in unknown.stderr

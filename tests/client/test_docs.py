"""What ``docs/client.md`` shows works when it is pasted."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.client import bmq
from headgate.client.bmq import Client
from headgate.client.bmq.session import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN
from headgate.errors import HeadgateError
from headgate.wire.bmq.codec.messages import AckStatus
from tests.support.bmq_client import DOMAINS, Rig
from tests.support.repository import DOCS

TEXT = (DOCS / "client.md").read_text()
ADDRESS = "127.0.0.1:30114"


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    await rig.start()
    yield rig
    await rig.stop()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


async def run(arguments: list[str], **environ: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = await asyncio.to_thread(
        subprocess.run,
        arguments,
        env=environment | environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_the_program_prints_what_its_comments_say(router: Rig) -> None:
    [program] = blocks("python")
    assert f"tcp://{ADDRESS}" in program
    expected = "".join(f"{line}\n" for line in re.findall(r"print\(.*\)  # (.*)", program))
    here = program.replace(ADDRESS, f"127.0.0.1:{router.port}")
    assert await run([sys.executable, "-c", here]) == expected


async def test_the_commands_print_what_the_page_says(router: Rig) -> None:
    [console] = blocks("console")
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE):
        environ = {"HEADGATE_BMQ": f"127.0.0.1:{router.port}"}
        printed = await run(["bash", "-c", command], **environ)
        if expected.endswith("...\n"):
            assert re.fullmatch(r"40[0-9a-f]{30}\n", printed)
        else:
            assert printed == expected


def test_the_configuration_has_the_port_and_the_domain_of_the_examples() -> None:
    [config] = blocks("toml")
    read = tomllib.loads(config)
    assert read["listen"]["bmq"]["port"] == int(ADDRESS.partition(":")[2])
    modes = {domain.name: domain.mode.value for domain in DOMAINS}
    assert read["domains"] == {"orders": {"mode": modes["orders"]}}


def test_the_page_names_every_error_every_option_and_its_default() -> None:
    errors = [name for name in bmq.__all__ if _is_error(getattr(bmq, name))]
    for name in errors:
        assert f"| `{name}` |" in TEXT, name
    assert AckStatus.LIMIT_MESSAGES.name in TEXT
    options = inspect.signature(Client.connect).parameters
    for name in options:
        assert name == "address" or f"`{name}" in TEXT, name
    for name in ("timeout", "patience"):
        assert f"`{name}` ({options[name].default:g} s)" in TEXT
    assert f"{PAUSE_SECONDS_MIN:g} to {PAUSE_SECONDS_MAX:g} seconds" in TEXT


def _is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, HeadgateError)

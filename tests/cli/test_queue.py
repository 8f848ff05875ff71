"""``headgate queue``, against a router whose configuration has no operator's token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.server.net.listener import bind
from tests.server.test_serve import Served

TOKEN = "queues' token"
CONFIG = f"""\
[admin]
port = 0
token = "{TOKEN}"
[listen.bmq]
port = 0
[domains.work]
mode = "priority"
"""


def run(*arguments: str, token: str = TOKEN, **environ: str) -> Result:
    given = {"HEADGATE_ADMIN__TOKEN": token, "http_proxy": "http://127.0.0.1:1", **environ}
    return CliRunner().invoke(cli, arguments, env=given)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A router with two queues, which hold three messages and one."""
    folder: Path = tmp_path_factory.mktemp("queues")
    (folder / "headgate.toml").write_text(CONFIG)
    served = Served(folder).started()
    try:
        port = json.loads(served.ready.read_text())["bmq"]["port"]
        for name in ("jobs", "jobs", "jobs", "old"):
            done = run("pub", f"bmq://work/{name}", "body", HEADGATE_BMQ=f"127.0.0.1:{port}")
            assert done.exit_code == 0, done.stderr
        yield f"127.0.0.1:{served.port}"
    finally:
        served.process.kill()
        served.process.wait()


def rows(address: str) -> list[dict[str, object]]:
    listed = run("queue", "ls", "work", "--json", "--address", address)
    assert listed.exit_code == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def test_queues_are_listed_with_what_they_hold(address: str) -> None:
    assert [(row["queue"], row["messages"]) for row in rows(address)] == [
        ("bmq://work/jobs", 3),
        ("bmq://work/old", 1),
    ]
    assert rows(address)[0]["producers"] == 0
    assert run("queue", "ls", "nowhere", "--address", address).exit_code == 1


@pytest.mark.parametrize("action", ["purge", "delete"])
def test_nothing_is_removed_without_an_operators_token(address: str, action: str) -> None:
    """Whoever may look, as Prometheus does, may not act."""
    refused = run("queue", action, "work/jobs", "--yes", "--address", address)
    assert refused.exit_code == 5
    assert "admin.operator_token" in refused.stderr
    assert rows(address)[0]["messages"] == 3


def test_who_is_not_answered_or_not_allowed_is_told_by_the_exit_code(address: str) -> None:
    assert run("queue", "ls", "work", "--address", address, token="wrong").exit_code == 5
    free = bind("free", "127.0.0.1", 0)
    port = free.getsockname()[1]
    free.close()
    assert run("queue", "ls", "work", "--address", f"127.0.0.1:{port}").exit_code == 4

"""``headgate request``"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_router import OPERATOR, CliRouter, cli_router


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


def test_a_path_of_the_api_is_asked_with_a_query(router: CliRouter) -> None:
    done = router.run("request", "sessions", "--field", "limit=1", "--field", "q=listen")
    assert done.exit_code == 0, done.output
    [row] = json.loads(done.stdout)["rows"]
    assert row["name"] == "listener"
    assert done.stdout.startswith('{\n  "rows"')


def test_what_is_sent_is_made_of_fields_or_of_a_file(router: CliRouter, tmp_path: Path) -> None:
    fields = ("--field", "expression=n > 1", "--field", 'properties={"n": 2}')
    done = router.run("request", "expression", "--method", "POST", *fields, "--json")
    assert json.loads(done.stdout)["result"] == "true"
    (tmp_path / "body").write_text('{"expression": "n > 1", "properties": {"n": 1}}')
    done = router.run("request", "expression", "--input", str(tmp_path / "body"), "--json")
    assert json.loads(done.stdout)["result"] == "false"
    done = router.run(
        "request", "expression", "--input", "-", answer='{"expression": "n > 1", "properties": {}}'
    )
    assert json.loads(done.stdout)["result"] == "NAME"


def test_any_path_of_the_admin_port_is_asked_with_a_slash(router: CliRouter) -> None:
    assert router.run("request", "/metrics").stdout.startswith("# HELP headgate_")
    found = json.loads(router.run("request", "/metrics", "--json").stdout)
    assert found["text"].startswith("# HELP headgate_")


def test_a_stream_is_not_read_unless_that_is_meant(router: CliRouter) -> None:
    done = router.run("request", "live")
    assert done.exit_code == 1
    assert "/api/v1/live is a stream; say --stream" in done.stderr


def test_the_events_of_a_stream_are_objects(router: CliRouter) -> None:
    environ = {name: text for name, text in router.environ.items() if text is not None}
    program = [sys.executable, "-c", "from headgate.cli import main; main()"]
    with subprocess.Popen(
        [*program, "request", "live", "--stream"],
        env={k: v for k, v in os.environ.items() if k != "HEADGATE_TOKEN"} | environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        event = json.loads(process.stdout.readline())
        process.terminate()
    assert event["event"] == "tick"
    assert "point" in event["data"]


def test_an_action_goes_with_the_token_of_the_operator(router: CliRouter) -> None:
    fields = [part for each in ("confirm=undrain", "reason=x") for part in ("--field", each)]
    done = router.run("request", "undrain", "--method", "POST", *fields)
    assert done.exit_code == 0, done.output  # of the configuration
    refused = router.run(
        "request", "undrain", "--method", "POST", *fields, HEADGATE_TOKEN="look here"
    )
    assert refused.exit_code == 5
    assert router.run("request", "me", HEADGATE_TOKEN=OPERATOR).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing"], 1, "has no path /api/v1/nothing; headgate docs admin names them"),
        (["sessions", "--field", "limit=none"], 1, "limit is not right; a number from 1 to 100"),
        (["sessions", "--field", "limit"], 2, "write NAME=VALUE"),
        (["sessions", "--method", "GET", "--input", "-"], 2, "with GET nothing is sent"),
        (["x", "--input", "-", "--field", "a=b"], 2, "leave out --field"),
        (["live", "--stream", "--method", "POST"], 2, "a stream is asked with GET"),
    ],
)
def test_what_is_wrong_is_said(
    router: CliRouter, arguments: list[str], code: int, said: str
) -> None:
    done = router.run("request", *arguments, answer="{}")
    assert done.exit_code == code, done.output
    assert said in done.stderr

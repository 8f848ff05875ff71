"""``headgate session``: one that does not read is found, looked at, relieved and closed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread

import pytest

from headgate.client.resp import RespClient
from headgate.errors import HeadgateError
from tests.support.cli_router import OPERATOR, CliRouter, cli_router

BODY = b"x" * 16_384
MANY = 120
"""More than a page."""


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


@contextmanager
def stuck(router: CliRouter, name: str) -> Iterator[None]:
    """A subscriber that does not read, and somebody who publishes to it until he has to wait."""
    with router.client() as subscriber, router.client() as publisher:
        for client, called in ((subscriber, name), (publisher, f"{name}-writer")):
            client.ask("CLIENT", "SETNAME", called)
        channel = name.encode()
        subscriber.subscribe([channel])
        thread = Thread(target=_publish, args=(publisher, channel), daemon=True)
        thread.start()
        yield
    thread.join(60)


def _publish(client: RespClient, channel: bytes) -> None:
    try:
        while client.publish(channel, BODY):
            pass
    except HeadgateError:
        return  # it was closed


def in_trouble(router: CliRouter, name: str) -> dict[str, object]:
    """The row of a session, as soon as somebody waits for it."""
    deadline = time.monotonic() + 60
    while True:
        done = router.run("session", "ls", "--slow", "--search", name, "--json")
        for row in map(json.loads, done.stdout.splitlines()):
            if row["name"] == name and row["held_up"]:
                assert done.exit_code == 3
                found: dict[str, object] = row
                return found
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_who_is_slow_is_named_and_so_is_who_waits(router: CliRouter) -> None:
    with stuck(router, "sleeper"):
        row = in_trouble(router, "sleeper")
        listed = router.run("session", "ls", "--slow")
        assert listed.exit_code == 3
        assert "holds up 1" in listed.stdout
        assert f"waits for {row['session']} sleeper" in listed.stdout
        shown = router.run("session", "show", str(row["session"]))
        assert "waited for by" in shown.stdout
        assert "sleeper-writer" in shown.stdout
    assert router.run("session", "ls", "--slow").exit_code in (0, 3)


def test_a_session_is_closed_by_who_types_its_name(router: CliRouter) -> None:
    with stuck(router, "closed"):
        number = str(in_trouble(router, "closed")["session"])
        doubted = router.run("session", "close", number, answer="other\n")
        assert doubted.exit_code == 1
        assert "headgate: nothing was done, as that is not closed\n" in doubted.stderr
        alone = router.run("session", "close", number)
        assert alone.exit_code == 1
        assert alone.stderr.endswith(
            "\nheadgate: nothing was done, as nobody said yes; --yes does not ask\n"
        )
        done = router.run("session", "close", number, "--reason", "asleep", answer="closed\n")
        assert done.exit_code == 0, done.output
        assert done.stdout == f"session {number}: closed, 0 unconfirmed messages\n"
        gone = router.run("session", "show", number)
        assert (gone.exit_code, "there is no such session" in gone.stderr) == (1, True)
        last = router.run("session", "ls", "--closed").stdout
        assert "closed by an operator: asleep" in last


def test_a_session_is_relieved_of_the_oldest(router: CliRouter) -> None:
    with stuck(router, "trimmed"):
        number = str(in_trouble(router, "trimmed")["session"])
        done = router.run("session", "trim", number, "--yes", "--json", HEADGATE_TOKEN=OPERATOR)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["count"] > 0
        done = router.run("session", "trim", number, "--yes", HEADGATE_TOKEN=OPERATOR)
        assert re.fullmatch(rf"session {number}: \d+ messages? dropped\n", done.stdout)


def test_watching_ends_quietly_with_ctrl_c(router: CliRouter) -> None:
    environ = {name: text for name, text in router.environ.items() if text is not None}
    program = [sys.executable, "-u", "-c", "from headgate.cli import main; main()"]
    process = subprocess.Popen(
        [*program, "session", "ls", "--watch", "0.2", "--columns", "name", "--no-header"],
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")


def test_a_question_ends_quietly_with_ctrl_c(router: CliRouter) -> None:
    environ = {name: text for name, text in router.environ.items() if text is not None}
    program = [sys.executable, "-u", "-c", "from headgate.cli import main; main()"]
    with router.client() as client:
        number = str(client.ask("CLIENT", "ID"))
        process = subprocess.Popen(
            [*program, "session", "close", number],
            env=os.environ | environ | {"HEADGATE_TOKEN": OPERATOR},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert process.stderr is not None
        asked = b""
        while not asked.endswith(b" to go on: ") and (more := process.stderr.read(1)):
            asked += more
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors.strip()) == (130, b""), asked
        assert client.ask("PING") == b"PONG"


def test_all_pages_are_listed_once(router: CliRouter) -> None:
    with ExitStack() as stack:
        for number in range(MANY):
            client = stack.enter_context(router.client())
            client.ask("CLIENT", "SETNAME", f"crowd-{number:03}")
        listed = router.run("session", "ls", "--search", "crowd-", "--json").stdout.splitlines()
        names = [json.loads(line)["name"] for line in listed]
        assert sorted(names) == [f"crowd-{number:03}" for number in range(MANY)]
        some = router.run("session", "ls", "--search", "crowd-", "--limit", "3", "--no-header")
        assert len(some.stdout.splitlines()) == 3
        last = router.run(
            *("session", "ls", "--search", "crowd-", "--sort=-name", "--limit", "1"),
            *("--no-header", "--columns", "name"),
        )
        assert last.stdout == f"crowd-{MANY - 1:03}\n"

"""``expr impact`` and ``compare``, and what nobody wants, on a router that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli_router import CliRouter, cli_router

QUEUE = "work/asked"


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router, reading(router):
        for number in range(4):
            posted = router.run("pub", f"bmq://{QUEUE}", "x", "--property", f"n={number}")
            assert posted.exit_code == 0, posted.output
        yield router


@contextmanager
def reading(router: CliRouter) -> Iterator[None]:
    """A consumer, in a process of its own, that wants what is at least 2."""
    environ = {name: text for name, text in router.environ.items() if text is not None}
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from headgate.cli import main; main()", "sub"),
            *(f"bmq://{QUEUE}", "--where", "n >= 2", "--priority", "5"),
        ],
        env=os.environ | environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        assert b"subscribed" in process.stderr.readline()
        yield
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        process.stderr.close()


def test_what_nobody_wants_is_shown_with_the_reason(router: CliRouter) -> None:
    deadline = time.monotonic() + 60
    while (done := router.run("domain", "aside", QUEUE)).exit_code != 3:
        assert time.monotonic() < deadline, done.output
        time.sleep(0.1)
    assert done.stdout.startswith(f"bmq://{QUEUE}: 2 messages match nobody\n")
    assert "n=0" in done.stdout
    assert "n >= 2: 2 false" in done.stdout
    explained = router.run("explain", QUEUE, "--aside", "")
    assert f"bmq://{QUEUE} (priority), a message with n=0\n" in explained.stdout, explained.output
    assert "n >= 2" in explained.stdout
    assert router.run("explain", QUEUE, "--aside", "", "--property", "n=1").exit_code == 2
    again = router.run("queue", "look-again", QUEUE)
    assert again.stdout == f"bmq://{QUEUE}: looked at again, 2 messages\n", again.output


def test_an_expression_says_what_it_would_take(router: CliRouter) -> None:
    done = router.run("expr", "impact", "n >= 1", "--queue", QUEUE, "--priority", "9")
    assert done.exit_code == 0, done.output
    assert "With priority 9 it takes 2 from n >= 2 (priority 5)." in done.stdout
    assert "that nobody gets now." in done.stdout
    wrong = router.run("expr", "impact", "n >>", "--queue", QUEUE)
    assert wrong.exit_code == 2
    assert "^" in wrong.stderr


def test_one_message_is_no_plural(router: CliRouter) -> None:
    assert router.run("pub", "bmq://fan/single", "x", "--property", "n=1").exit_code == 0
    asked = ("--queue", "fan/single", "--app", "billing")
    done = router.run("expr", "impact", "n == 1", *asked)
    assert done.stdout.startswith("The last message matches.\n"), done.output
    done = router.run("expr", "impact", "n == 2", *asked)
    assert done.stdout.startswith("The last message does not match.\n"), done.output
    assert router.run("pub", "bmq://fan/single", "x", "--property", "n=2").exit_code == 0
    done = router.run("expr", "impact", "n == 1", *asked)
    assert done.stdout.startswith("1 of the last 2 messages matches.\n"), done.output


def test_two_sets_are_compared(router: CliRouter, tmp_path: Path) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for path, expression in ((before, "n >= 2"), (after, "n >= 3")):
        path.write_text(json.dumps({"id": "a", "expression": expression}) + "\n")
    same = router.run("expr", "compare", str(before), str(before), "--domain", "work")
    assert same.exit_code == 0, same.output
    done = router.run("expr", "compare", str(before), str(after), "--domain", "work")
    assert done.exit_code == 3
    assert "1 would go to nobody" in done.stdout
    assert "from n >= 2 to nobody" in done.stdout

"""The programs of ``examples/``, each in a process of its own, with a router that restarts."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.agent_router import SmpProcess
from tests.support.repository import ROOT

HEADGATE = Path(sys.executable).with_name("headgate")


@pytest.fixture
def router(tmp_path: Path) -> Iterator[SmpProcess]:
    router = SmpProcess(tmp_path / "router")
    router.start()
    yield router
    router.stop()


class Program:
    """An example that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout

    def line(self) -> str:
        """The next one that it prints."""
        return self._lines.readline().rstrip("\n")

    def line_with(self, text: str) -> str:
        """The next one with this text; others are passed over."""
        return next(line for line in self._lines if text in line)


@contextmanager
def running(folder: Path, name: str, *arguments: str) -> Iterator[Program]:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Program(process)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(200) == 0, "it ends in order, and what it decided is stored"


def run(folder: Path, name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, timeout=200
    )
    return done.stdout


def headgate(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [HEADGATE, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=200,
    )
    return done.stdout


def publish(folder: Path, address: str, text: str) -> None:
    headgate(folder, "pub", address, text)


def test_the_bot_answers_also_after_its_router_was_away(router: SmpProcess, tmp_path: Path) -> None:
    """It comes back by itself."""
    with running(tmp_path, "echo_bot.py", router.address, "anna", "ben") as bot:
        anna, ben = (bot.line().split() for _ in range(2))
        assert (anna[0], ben[0]) == ("anna", "ben")
        asked = run(tmp_path, "ask_bot.py", router.address, anna[1], "hello")
        assert asked == "you said: hello\n"
        router.stop()
        assert bot.line_with("down")
        router.start()
        assert bot.line_with("up")
        asked = run(tmp_path, "ask_bot.py", router.address, anna[1], "still there?")
        assert asked == "you said: still there?\n"
        publish(tmp_path, ben[1], "no address")
        assert bot.line_with("cannot answer: ")
    with running(tmp_path, "echo_bot.py", router.address, "anna") as bot:
        assert bot.line().split() == anna
        assert bot.line_with("up")
        asked = run(tmp_path, "ask_bot.py", router.address, anna[1], "and now?")
        assert asked == "you said: and now?\n"


def test_the_bot_with_an_address_answers_whoever_is_connected(
    router: SmpProcess, tmp_path: Path
) -> None:
    with running(tmp_path, "connection_bot.py", router.address) as bot:
        link = bot.line()
        for name in ("anna", "ben"):
            folder = tmp_path / name
            folder.mkdir()
            headgate(folder, "agent", "init", "--router", router.address)
            joined = headgate(folder, "agent", "join", link, "--name", "bot", "--wait", "100")
            assert joined == "connected\n"
            assert bot.line() == "somebody is connected"
            assert headgate(folder, "agent", "send", "bot", f"I am {name}") == "sent\n"
            answer = headgate(folder, "agent", "listen", "--count", "1")
            assert answer == f"bot: you said: I am {name}\n"


def test_the_service_subscribes_all_queues_with_one_request(
    router: SmpProcess, tmp_path: Path
) -> None:
    """A restart of either loses nothing."""
    with running(tmp_path, "meter_service.py", router.address, "3") as service:
        made = [service.line() for _ in range(3)]
    addresses = [line.partition(": ")[2] for line in made]
    publish(tmp_path, addresses[1], "42")
    with running(tmp_path, "meter_service.py", router.address, "3") as service:
        assert [service.line() for _ in range(3)] == made
        shown = {service.line() for _ in range(2)}
        assert shown == {"up: the router has 3 of our queues", "meter 1 shows 42"}
        router.stop()
        assert service.line_with("down")
        router.start()
        assert service.line() == "up: the router has 3 of our queues"
        publish(tmp_path, addresses[2], "43")
        assert service.line() == "meter 2 shows 43"

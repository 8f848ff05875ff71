"""What systemd hears, on a socket that stands in for its own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.server import systemd


class NotifySocket:
    """The socket of a unit, as a process that it starts is told of it."""

    def __init__(self, path: Path) -> None:
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._channel.bind(str(path))
        self._channel.settimeout(0.0)
        self.environ = {"NOTIFY_SOCKET": str(path)}

    def heard(self) -> list[str]:
        found = []
        try:
            while True:
                found.append(self._channel.recv(1000).decode())
        except BlockingIOError:
            return found

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[NotifySocket]:
    unit = NotifySocket(tmp_path / "notify")
    yield unit
    unit.close()


def test_without_systemd_nothing_is_sent() -> None:
    systemd.notify(systemd.READY, {})
    systemd.notify(systemd.READY, {"NOTIFY_SOCKET": "/nowhere/at/all"})


def test_an_abstract_socket_is_found() -> None:
    name = f"headgate-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0{name}")
        systemd.notify(systemd.READY, {"NOTIFY_SOCKET": f"@{name}"})
        assert channel.recv(100) == b"READY=1"


def test_a_reload_begins_with_its_time_and_ends_ready(unit: NotifySocket) -> None:
    before = time.monotonic_ns() // 1000
    with systemd.reloading(unit.environ):
        [began] = unit.heard()
    state, at = began.split("\n")
    assert state == "RELOADING=1"
    assert before <= int(at.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
    assert unit.heard() == ["READY=1"]


def test_a_reload_that_fails_ends_ready_as_well(unit: NotifySocket) -> None:
    with pytest.raises(ValueError, match="no"), systemd.reloading(unit.environ):
        raise ValueError("no")
    assert unit.heard()[-1] == "READY=1"


def test_a_watchdog_hears_of_progress_only(unit: NotifySocket) -> None:
    watchdog = systemd.Watchdog({**unit.environ, "WATCHDOG_USEC": "20000000"})
    watchdog.feed(has_moved=True)
    assert unit.heard() == ["WATCHDOG=1"]
    watchdog.feed(has_moved=False)
    assert unit.heard() == []


@pytest.mark.parametrize("variables", [{}, {"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "1"}])
def test_without_a_watchdog_of_ours_nothing_is_sent(
    unit: NotifySocket, variables: dict[str, str]
) -> None:
    watchdog = systemd.Watchdog({**unit.environ, **variables})
    watchdog.feed(has_moved=True)
    assert unit.heard() == []

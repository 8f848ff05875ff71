"""``headgate top``: what it shows, on paper and in a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.cli.live.top_view import CHARTED, History, drawn, overview
from headgate.server.desk.answers import Point
from tests.support.cli_router import CliRouter, cli_router
from tests.support.tmux import NO_TMUX, Tmux

SESSION = {
    "session": 1,
    "name": "report-builder\x1b[2J",
    "wire": "resp",
    "mailbox_bytes": 1024 * 1024,
    "slow_since": time.time() - 66,
    "worker": 0,
    "held_up": 1,
    "waits_for": None,
    "pressure": "hard",
}
WAITS = SESSION | {
    "session": 15,
    "name": "etl-nightly",
    "mailbox_bytes": 0,
    "slow_since": None,
    "held_up": 0,
    "waits_for": {"session": 1, "name": "report-builder"},
    "pressure": "easy",
}
TICK: dict[str, Any] = {
    "point": dict.fromkeys(Point.__struct_fields__, 0.0)
    | {"published": 772.0, "sessions": 58.0, "memory": 75.4 * 1024**2, "cpu": 0.09},
    "attention": [
        {
            "level": "error",
            "title": "report-builder does not keep up",
            "text": "session 1 (resp) is over its hard limit",
            "command": "headgate session show 1",
            "ended": None,
        }
    ],
    "slow": [SESSION, WAITS],
    "apps": [
        {
            "queue": "bmq://orders/incoming",
            "app": "billing",
            "in_line": 600,
            "waiting": 59,
            "aside": 0,
            "unconfirmed": 10,
            "growth_per_s": 6.0,
        }
    ],
    "top": [],
    "uptime": 540.0,
    "version": "0.1.0",
    "store": "sqlite",
    "stage": "",
}


def lines(tick: dict[str, Any] = TICK, width: int | None = None) -> list[str]:
    history = History()
    history.fill({name: [0.0, 1.0, 2.0] for name in CHARTED})
    history.add(tick["point"])
    return [drawn(line, width) for line in overview(tick, "http://router:8222", history)]


def test_the_overview_begins_with_what_needs_attention() -> None:
    shown = lines()
    assert shown[0] == (
        "headgate 0.1.0  http://router:8222  up 9 min  sqlite  58 sessions  CPU 9 %  75.4 MiB"
    )
    text = "\n".join(shown)
    assert " ✕ report-builder does not keep up  session 1 (resp) is over its hard limit" in text
    assert "   headgate session show 1" in text
    assert "published             772/s" in text
    assert "orders/incoming · billing      659      0           10  +6.0/s" in text
    assert "15 etl-nightly" in text
    assert "waits for 1 report-builder" in text
    assert "holds up 1 (" in text


def test_the_worker_of_a_session_is_shown_where_there_are_several() -> None:
    titles = ["session", "wire", "mailbox", "state"]
    assert titles in [line.split() for line in lines()]
    spread = TICK | {"slow": [SESSION, WAITS | {"worker": 2}]}
    titles.insert(2, "worker")
    assert titles in [line.split() for line in lines(spread)]


def test_names_are_text_and_lines_fit() -> None:
    assert "\x1b" not in "\n".join(lines())
    assert max(map(len, lines(width=40))) <= 40


def test_what_was_is_no_alarm() -> None:
    [sentence] = TICK["attention"]
    over = sentence | {"title": "report-builder did not keep up", "ended": 5.0}
    shown = lines(TICK | {"attention": [over]})
    assert " ✓ nothing needs attention" in shown
    assert "   report-builder did not keep up  session 1 (resp) is over its hard limit" in shown


def test_calm_is_said() -> None:
    assert " ✓ nothing needs attention" in lines(TICK | {"attention": [], "slow": [], "apps": []})


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


def test_the_sessions_are_those_that_are_asked_for(router: CliRouter) -> None:
    done = router.run("top", "--once", "--sort", "newest", "--search", "listen")
    assert done.exit_code == 0, done.output
    assert " listener" in done.stdout
    assert " ticker" not in done.stdout


@NO_TMUX
def test_it_is_live_in_a_terminal(router: CliRouter, tmp_path: Path) -> None:
    """Numbers come, keys are obeyed, and the terminal is given back."""
    environ = {name: text for name, text in router.environ.items() if text is not None}
    command = f"{sys.executable} -c 'from headgate.cli import main; main()' top; echo GONE; cat"
    tmux = Tmux(tmp_path, os.environ | environ, command)
    try:
        shown = tmux.screen(lambda text: "ticks.AAPL" in text)
        assert shown.startswith("headgate 0.1.0  http://127.0.0.1:")
        assert "q quit   p pause   s sort   f filter   (sessions by trouble)" in shown
        tmux.run("send-keys", "s")
        tmux.screen(lambda text: "(sessions by mailbox)" in text)
        tmux.run("send-keys", "f", "l", "i", "s", "t", "Enter")
        tmux.screen(lambda text: "filter list)" in text and " listener" in text)
        tmux.run("send-keys", "p")
        tmux.screen(lambda text: "PAUSED" in text)
        tmux.run("send-keys", "q")
        assert "headgate 0.1.0" not in tmux.screen(lambda text: "GONE" in text)
    finally:
        tmux.run("kill-server")

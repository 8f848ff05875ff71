"""``headgate demo``: the scene on a real store, and a router that goes on serving."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from headgate.cli.demo import admin_port, at_free_port
from headgate.server.config import load_config
from headgate.server.config.sections import RouterAdmin

HEADGATE = Path(sys.executable).with_name("headgate")


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HEADGATE_DIRECTORY": str(folder / "var"),
        "HEADGATE_ADMIN__PORT": "0",
    }


def test_the_demo_plays_its_scene_and_ends_when_told_to(tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run(
            [HEADGATE, "demo", "--once"],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "tablet received  'see you at six': the phone had not confirmed it" in done.stdout
        assert "express received 'one kidney': kind == \"express\" is true" in done.stdout
        assert "nothing was lost, and nothing came twice" in done.stdout
    assert (tmp_path / "var" / "queues.db").exists()


def test_the_demo_plays_where_clients_of_queues_need_a_token(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(
        '[listen.bmq]\nport = 0\n[listen.bmq.clients]\nshop = "sesame"\n'
    )
    done = subprocess.run(
        [HEADGATE, "demo", "--once"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "express received 'one kidney'" in done.stdout


def test_the_demo_is_in_nobodys_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert at_free_port(RouterAdmin(port=port)).port == 0
    assert at_free_port(RouterAdmin(port=port)).port == port
    config = load_config(None, {"HEADGATE_ADMIN__PORT": "1"})
    assert admin_port(config).port == 1, "whoever says a port wants that one"


def test_the_demo_goes_on_serving_until_it_is_interrupted(tmp_path: Path) -> None:
    with subprocess.Popen(
        [HEADGATE, "demo", "--no-tables"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("The page of the router, for one browser, once: http://127.0.0.1:")
        login = first.split()[-1]
        line = next(line for line in process.stdout if " top --url http://" in line)
        watching, _, _ = line.partition("#")
        watched = subprocess.run(
            [HEADGATE, *shlex.split(watching)[1:], "--once"],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "nothing needs attention" in watched.stdout, watched.stderr
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        browser.addheaders = [("accept", "text/html")]
        with browser.open(login, timeout=20) as answer:
            assert b"<title>Headgate</title>" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_the_demo_ends_with_its_terminal(tmp_path: Path) -> None:
    with subprocess.Popen(
        [HEADGATE, "demo", "--no-tables"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "Ctrl-C stops it" in line)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=20) == 0


def test_the_demo_can_be_stopped_while_the_pipeline_is_at_work(tmp_path: Path) -> None:
    with subprocess.Popen(
        [HEADGATE, "demo"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "on Spark" in line)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


def test_the_demo_says_the_password_of_its_configuration(tmp_path: Path) -> None:
    done = subprocess.run(
        [HEADGATE, "demo", "--once"],
        cwd=tmp_path,
        env=environment(tmp_path) | {"HEADGATE_SMP__CREATE_PASSWORD": "sesame"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "and opened them: 'the plum tree is in flower'" in done.stdout

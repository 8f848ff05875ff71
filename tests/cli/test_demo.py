"""``headgate demo``: the scene on a real store, and a router that goes on serving."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

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
    assert (tmp_path / "var" / "queues.db").exists()


def test_the_demo_goes_on_serving_until_it_is_interrupted(tmp_path: Path) -> None:
    with subprocess.Popen(
        [HEADGATE, "demo", "--no-tables"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = next(line.split()[1] for line in process.stdout if "/status.json" in line)
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
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

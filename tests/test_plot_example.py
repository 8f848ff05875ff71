"""The page of plots, of what `pipeline sql --json` prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tests.support.repository import ROOT

PROGRAM = ROOT / "examples" / "plot_minutes.py"


def run(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM)], input=text, capture_output=True, text=True, timeout=60
    )


def test_every_minute_is_drawn() -> None:
    rows = [
        {"minute": f"2026-11-15 10:{n:02}:00", "accepted": 100 + n % 3, "confirmed": 99 + n % 4}
        | {"p50": 0.1, "p95": 0.2 + n / 1000, "p99": None if n == 3 else 0.5 + n / 1000}
        for n in range(30)
    ]
    done = run("".join(json.dumps(row) + "\n" for row in rows))
    assert done.returncode == 0, done.stderr
    lines = re.findall(r'<polyline points="([^"]*)"', done.stdout)
    assert [len(line.split()) for line in lines] == [30, 30, 30, 30, 29]


def test_without_minutes_it_says_what_to_do() -> None:
    done = run("")
    assert done.returncode == 1
    assert "run `headgate pipeline run --once` first" in done.stderr

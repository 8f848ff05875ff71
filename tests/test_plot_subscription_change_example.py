"""The page with bars, of what `pipeline sql --json` prints of two routings."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tests.support.repository import ROOT

PROGRAM = ROOT / "examples" / "plot_subscription_change.py"


def run(*rows: dict[str, object]) -> subprocess.CompletedProcess[str]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return subprocess.run(
        [sys.executable, str(PROGRAM)], input=text, capture_output=True, text=True, timeout=60
    )


def test_each_receiver_has_a_bar_as_long_as_what_it_loses_keeps_and_gains() -> None:
    done = run(
        {"app": "audit", "receiver": "auditor", "loses": 0, "keeps": 1, "gains": 3},
        {"app": "audit", "receiver": "auto-confirmed", "loses": 3, "keeps": 5, "gains": 0},
        {"app": "a<b", "receiver": "x & y", "loses": 0, "keeps": 4, "gains": 0},
    )
    assert done.returncode == 0, done.stderr
    bars = re.findall(r'width="([\d.]+)" height="18".*?<title>(\w+ \d+)</title>', done.stdout)
    lengths = {what: float(width) for width, what in bars}
    assert len(bars) == 5, "none for nothing"
    assert lengths["keeps 4"] == lengths["keeps 1"] + lengths["gains 3"] == 4 * lengths["keeps 1"]
    assert re.findall("<h2>(.*)</h2>", done.stdout) == ["audit", "a&lt;b"]
    assert ">x &amp; y</text>" in done.stdout
    assert ">loses 3, keeps 5</text>" in done.stdout


def test_without_rows_it_says_what_to_do() -> None:
    done = run()
    assert done.returncode == 1
    assert "run `headgate pipeline route` with --to first" in done.stderr

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headgate.server.admin.responses import Refusal
from headgate.server.desk.audits import Audits

CONFIG = Path("/etc/headgate/headgate.toml")
ROWS = """
import sys, json
assert sys.argv[1:] == ["pipeline", "audit", "--all", "--json", "--config", sys.argv[-1]]
print(json.dumps({"service": "aa", "counted": 7, "told": 7, "hash_equal": True, "drift": "none"}))
print(json.dumps({"service": "bb", "counted": 7, "told": 8, "hash_equal": False, "drift": "more"}))
print(json.dumps({"queue": "cc", "facts": "aa", "store": "bb"}))
sys.exit(3)
"""


def python(code: str) -> Sequence[str]:
    return (sys.executable, "-c", code)


async def finished(command: Sequence[str]) -> tuple[Audits, list[str]]:
    audits, told = Audits(lambda: 5.0, lambda: CONFIG, command), list[str]()
    audits.begin(told.append)
    assert audits._task is not None
    await audits._task
    return audits, told


async def test_what_the_command_counts_is_kept_and_announced() -> None:
    audits, told = await finished(python(ROWS))
    answer = audits.answer
    assert (answer.state, answer.services, answer.drifting) == ("done", 2, 1)
    assert [(row.service, row.counted, row.in_tally, row.drift) for row in answer.rows] == [
        ("bb", 7, 8, "more")
    ]
    assert told == ["2 services counted, 1 drifts"]


async def test_a_command_that_fails_says_why_in_its_last_line() -> None:
    code = "import sys; sys.exit('first\\nheadgate: Spark is not installed')"
    audits, told = await finished(python(code))
    assert (audits.answer.state, audits.answer.problem) == (
        "failed",
        "headgate: Spark is not installed",
    )
    assert told == ["failed: headgate: Spark is not installed"]


async def test_a_command_that_is_not_there_is_a_failure_too() -> None:
    audits, _ = await finished(("/nowhere/headgate",))
    assert audits.answer.state == "failed"
    assert "/nowhere/headgate" in audits.answer.problem


async def test_one_runs_at_a_time_and_is_ended_with_the_desk() -> None:
    audits = Audits(lambda: 5.0, lambda: None, python("import time; time.sleep(600)"))
    audits.begin(print)
    assert str(audits.answer.state) == "running"
    with pytest.raises(Refusal) as refused:
        audits.begin(print)
    assert (refused.value.status_code, refused.value.code) == (409, "running")
    await audits.end()
    assert audits._task is not None
    assert audits._task.cancelled()


CLEANING = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = pathlib.Path(sys.argv[-1]).parent / "snapshot"
try:
    folder.mkdir()
    time.sleep(600)
finally:
    folder.rmdir()
"""


async def test_an_audit_that_is_ended_removes_what_it_made(tmp_path: Path) -> None:
    audits = Audits(lambda: 5.0, lambda: tmp_path / "headgate.toml", python(CLEANING))
    audits.begin(print)
    async with asyncio.timeout(60):
        while not (tmp_path / "snapshot").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await audits.end()
    assert not (tmp_path / "snapshot").exists()


STARTING = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[-1]).write_text(str(child.pid))
time.sleep(600)
"""


async def test_what_an_audit_started_is_ended_with_it(tmp_path: Path) -> None:
    file = tmp_path / "child"
    audits = Audits(lambda: 5.0, lambda: file, python(STARTING))
    audits.begin(print)
    async with asyncio.timeout(60):
        while not file.exists() or not file.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    child = int(file.read_text())
    await audits.end()
    async with asyncio.timeout(60):
        while is_running(child):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def is_running(process: int) -> bool:
    """Neither gone nor only not asked after."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False

"""That `write` returns after the sync, read from a trace of the system calls."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.test_durability import events

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from headgate.agent.records import Records, users

async def main():
    records = await Records.open(Path(sys.argv[1]))
    await records.write(users.add)
    os.write(1, b"ready")
    await asyncio.gather(*(records.write(users.add) for _ in range(10)))
    os.write(1, b"receipt")
    await records.close()

asyncio.run(main())
"""


def test_the_log_is_written_and_synced_before_write_returns(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.fail("strace is missing; install it (Debian: apt-get install strace)")
    trace = tmp_path / "trace"
    calls = "trace=pwrite64,write,fdatasync,fsync"
    strace = ["strace", "-f", "-y", "-e", calls, "-o", str(trace)]
    done = subprocess.run(
        [*strace, sys.executable, "-c", PROGRAM, str(tmp_path / "agent.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "readyreceipt", done.stderr
    seen = events(trace.read_text())
    written = seen[seen.index("ready") + 1 : seen.index("receipt")]
    assert written[0] == "write wal"
    assert written[-1] == "sync wal"

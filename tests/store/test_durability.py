"""That a receipt comes after the sync, read from a trace of the system calls.

Killing a process proves nothing here: what it wrote stays in the page cache of a machine that
lives on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from headgate.core.model.message import Message, Stored
from headgate.core.turn.store_requests import Batch, QueueRecord
from headgate.store import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    await store.apply(Batch(create={b"q": QueueRecord(b"q", "d")}))
    os.write(1, b"ready")
    message = Message(b"id", b"body", 0.0)
    await store.apply(Batch(append={1: Stored(1, b"q", message, ("",))}))
    os.write(1, b"receipt")
    await store.close()

asyncio.run(main())
"""

BEGUN = re.compile(r"(?P<pid>\d+) +(?P<call>\w+)\(\d+<(?P<file>[^>]*)>(?P<rest>.*)")
WORD = re.compile(r', "(ready|receipt)",')
RESUMED = re.compile(r"(?P<pid>\d+) +<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)")


def events(trace: str) -> list[str]:
    """``write wal`` when it begins or ends, ``sync wal`` when it has succeeded, and the words
    written to standard output when they begin."""
    found = []
    waiting: dict[str, str] = {}
    for line in trace.splitlines():
        if match := BEGUN.match(line):
            file, call, rest = match["file"], match["call"], match["rest"]
            waiting[match["pid"]] = file
            if call == "write" and (word := WORD.match(rest)):
                found.append(word[1])
        elif match := RESUMED.match(line):
            file, call, rest = waiting[match["pid"]], match["call"], match["rest"]
        else:
            continue
        if file.endswith("-wal"):
            if "write" in call:
                found.append("write wal")
            elif rest.endswith("= 0"):
                found.append("sync wal")
    return found


def test_the_log_is_written_and_synced_before_the_receipt(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.fail("strace is missing; install it (Debian: apt-get install strace)")
    trace = tmp_path / "trace"
    calls = "trace=pwrite64,write,fdatasync,fsync"
    strace = ["strace", "-f", "-y", "-e", calls, "-o", str(trace)]
    done = subprocess.run(
        [*strace, sys.executable, "-c", PROGRAM, str(tmp_path / "router.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "readyreceipt", done.stderr
    seen = events(trace.read_text())
    turn = seen[seen.index("ready") + 1 : seen.index("receipt")]
    assert turn[0] == "write wal"
    assert turn[-1] == "sync wal"


def test_the_trace_is_read_also_where_threads_interleave() -> None:
    trace = """\
7 write(1</dev/pts/0>, "ready", 5) = 5
8 pwrite64(4</x/router.db-wal>, "..."..., 4096, 32 <unfinished ...>
7 write(5</x/other>, "ready?", 6) = 6
8 <... pwrite64 resumed>) = 4096
8 fdatasync(4</x/router.db-wal> <unfinished ...>
7 write(1</dev/pts/0>, "receipt", 7) = 7
8 <... fdatasync resumed>) = 0
8 fdatasync(4</x/router.db-wal>) = -1 EIO (Input/output error)
+++ exited with 0 +++
"""
    assert events(trace) == ["ready", "write wal", "write wal", "receipt", "sync wal"]

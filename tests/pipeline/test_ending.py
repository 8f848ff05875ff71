"""``headgate pipeline run`` as a process that is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.lease import WRITER, held
from tests.support.journals import facts_of_a_day, write_journal

DEADLINE_SECONDS = 240
FACTS_AT_ONCE = 300
EXPECTED = ("starting Spark on this machine", "Spark is there after", "the tables are in", "batch ")
"""How lines begin that a run prints; those of a trace do not."""


def wait_for(is_there: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not is_there():
        assert process.poll() is None, "it goes on until it is told to end"
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_sigterm_ends_a_run_after_the_batch_that_is_at_work(tmp_path: Path) -> None:
    """D14: it printed traces of Java, and the code said that it was interrupted. The signal comes
    to the whole group, as from a supervisor: Java is to live as long as the batch."""
    facts = list(facts_of_a_day(100))[: 3 * FACTS_AT_ONCE]
    write_journal(tmp_path / "journal", facts, per_segment=FACTS_AT_ONCE)
    tables = tmp_path / "tables"
    process = subprocess.Popen(
        [
            *(Path(sys.executable).with_name("headgate"), "pipeline", "run"),
            *("--journal", tmp_path / "journal", "--tables", tables),
            *("--max-facts", str(FACTS_AT_ONCE)),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HEADGATE_DIRECTORY": str(tmp_path / "var")},
        start_new_session=True,
    )
    with process:
        # Spark plans a batch, and then it begins; the first takes seconds.
        wait_for((tables / "_checkpoint" / "offsets" / "0").exists, process)
        os.killpg(process.pid, signal.SIGTERM)
        printed, told = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, printed) == (0, ""), told
    assert f"the tables are in {tables}\n" in told
    assert all(line.startswith(EXPECTED) for line in told.splitlines()), told
    archive = Archive(str(tables))
    state = archive.state()
    assert state.batch is not None, "the batch that was at work counts"
    rows = Counter(
        number
        for file in state.table("facts")
        for number in pq.read_table(archive.storage.uri(file.path))["number"].to_pylist()
    )
    assert rows == Counter(range(1, state.upto + 1))
    with held(archive.storage, WRITER):
        pass  # nobody is at work any more

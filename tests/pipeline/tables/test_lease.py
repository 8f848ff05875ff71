"""The second writer is told who the first is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.errors import PipelineError
from headgate.pipeline.tables import lease
from headgate.pipeline.tables.storage import Storage


def test_a_second_one_is_told_who_is_at_work_and_the_next_one_is_not(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    with lease.held(storage, lease.WRITER):
        with (
            pytest.raises(PipelineError, match=rf"^process {os.getpid()} on .* is at work on the"),
            lease.held(storage, lease.WRITER),
        ):
            raise AssertionError("two have the lease")
        with lease.held(storage, lease.TIDIER):
            pass  # upkeep goes on beside the batches
    with lease.held(storage, lease.WRITER):
        pass


def test_where_there_is_no_lock_the_log_decides() -> None:
    storage = Storage("s3://bucket/tables")
    with lease.held(storage, lease.WRITER), lease.held(storage, lease.WRITER):
        pass

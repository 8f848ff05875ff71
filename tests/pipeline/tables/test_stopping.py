"""A pipeline ends when it is asked to, wherever it is."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.pipeline.tables import stopping
from headgate.pipeline.tables.keeper import Keeper
from headgate.pipeline.tables.storage import Storage


def test_those_at_work_are_to_end_and_those_that_start_later_are_not(tmp_path: Path) -> None:
    storage, before = Storage(str(tmp_path)), time.time()
    assert not stopping.is_asked(storage, before)
    stopping.ask(storage)
    stopping.ask(storage)
    assert stopping.is_asked(storage, before)
    assert not stopping.is_asked(storage, time.time() + 1)
    (tmp_path / stopping.FILE).write_text("{")
    assert not stopping.is_asked(storage, before), "half of it was written"


def test_a_query_that_nobody_watches_does_no_more_batches(tmp_path: Path) -> None:
    """D11: a killed client of Spark Connect leaves one."""
    facts: Any = SimpleNamespace(sparkSession=None)
    stopping.ask(Storage(str(tmp_path)))
    with pytest.raises(stopping.Stopped, match="by `headgate pipeline stop`"):
        Keeper(str(tmp_path), "", time.time() - 60)(facts, 0)

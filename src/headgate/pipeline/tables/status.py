"""The status of the pipeline, without Spark: what the journal has, and what the tables have."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from headgate.pipeline.source.feed import feed_of
from headgate.pipeline.tables.archive import Archive

LATEST = 20
"""Batches that the times are told of."""


def status(source: Mapping[str, str], root: str) -> dict[str, Any]:
    """Lag in facts and in seconds, the times of the latest batches, and how large the tables are.
    The same numbers are the metrics of `pipeline run`."""
    feed = feed_of(source)
    segments = feed.segments()
    last = segments[-1].last if segments else 0
    state = Archive(root).state()
    latest = [batch for batch in state.recent if batch.facts][-LATEST:]
    done = latest[-1] if latest else None
    files = [file for table in state.files.values() for file in table.values()]
    behind = max(0, last - state.upto)
    at = done.at if behind and done is not None else None
    return {
        "tables": root,
        "facts_in_journal": last,
        "facts_in_tables": state.upto,
        "lag_facts": behind,
        "lag_seconds": 0.0 if at is None else round(max(0.0, time.time() - at), 1),
        "batch": done.number if done else None,
        "batch_seconds": median(batch.seconds for batch in latest) if latest else None,
        "batch_seconds_max": max((batch.seconds for batch in latest), default=None),
        "batch_facts": median(batch.facts for batch in latest) if latest else None,
        "segments_corrupt": len(feed.quarantined()),
        "files": len(files),
        "bytes": sum(file.bytes for file in files),
    }

"""How the pipeline is doing, without Spark: what the journal has, and what the tables have."""

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
    """Lag in facts and in seconds, and the times of the latest batches."""
    feed = feed_of(source)
    segments = feed.segments()
    last = segments[-1].last if segments else 0
    notes = [note for note in Archive(root).notes() if note["facts"]]
    latest = notes[-LATEST:]
    done = latest[-1] if latest else None
    behind = last - (done["last"] if done else 0)
    return {
        "tables": root,
        "facts_in_journal": last,
        "facts_in_tables": done["last"] if done else 0,
        "lag_facts": behind,
        "lag_seconds": round(max(0.0, time.time() - done["at"]), 1) if done and behind else 0.0,
        "batch": done["batch"] if done else None,
        "batch_seconds": median(note["seconds"] for note in latest) if latest else None,
        "batch_seconds_max": max((note["seconds"] for note in latest), default=None),
        "batch_facts": median(note["facts"] for note in latest) if latest else None,
        "segments_corrupt": len(feed.quarantined()),
    }

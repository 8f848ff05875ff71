"""Every fact says how it is journalled, logged and counted."""

from __future__ import annotations

from dataclasses import fields

import pytest

from headgate.core import facts as f
from headgate.core.model.fact_kind import FACT_KINDS
from headgate.core.shared.statistics import COUNTED as COUNTED_PER_QUEUE
from headgate.core.turn.outbox import ENCODERS
from headgate.server.admin.metrics import COUNTED, Metrics
from headgate.server.log import LEVELS

SPECIAL = {f.DISPLACEMENTS, f.REDELIVERIES, f.SERVICE_DRIFT, f.CONFIRM_SECONDS}
"""Counters that the metrics have code for: they are not fed by fields of the fact alone."""


def test_every_fact_says_so_and_nothing_else_does() -> None:
    assert set(FACT_KINDS) == set(f.KINDS)


@pytest.mark.parametrize("kind", f.KINDS, ids=lambda kind: kind.__name__)
def test_everybody_who_takes_facts_takes_it_as_it_says(kind: type[f.Fact]) -> None:
    known, names = FACT_KINDS[kind], {field.name for field in fields(kind)}
    assert ENCODERS[kind][0] is known.is_rare
    assert (kind in LEVELS) is (known.log is not None)
    name, has_app = COUNTED_PER_QUEUE.get(kind, (None, False))
    assert name == known.per_queue
    assert has_app == (name is not None and "app" in names)
    assert known.per_queue is None or "queue" in names
    assert known.counters
    assert kind in COUNTED or kind in Metrics().handlers
    for counter in known.counters:
        if counter not in SPECIAL:
            assert {*counter.labels, *([counter.adds] if counter.adds else [])} <= names


def test_counters_have_different_names() -> None:
    counters = {counter for known in FACT_KINDS.values() for counter in known.counters}
    assert len({counter.name for counter in counters}) == len(counters)

"""What a pipeline tells Prometheus is what `pipeline status` says."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.errors import PipelineError
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.manifests import Batch, File
from headgate.pipeline.tables.metrics import FAILURES, GAUGES, UP, Metrics, served
from headgate.pipeline.tables.status import status
from tests.support.journals import facts_of_a_day, write_journal
from tests.support.repository import DOCS


def scraped(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=30) as response:
        families = text_string_to_metric_families(response.read().decode())
        return {
            sample.name + "".join(sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }


def test_the_numbers_of_the_status_are_served_on_loopback(tmp_path: Path) -> None:
    source, root = {"path": str(tmp_path / "journal")}, str(tmp_path / "tables")
    metrics = Metrics(source, root)
    with served(metrics, "0") as url:
        assert url.startswith("http://127.0.0.1:")
        assert scraped(url)[UP] == 0, "there is no journal"
        facts = facts_of_a_day(2)[:30]
        write_journal(tmp_path / "journal", facts, per_segment=30)
        batch = Batch(0, "q", "", 0, 20, 20, 1.0, 1.0, 0.5)
        Archive(root).commit({"facts": [File("a", 7, 0, 20)]}, batch=batch)
        metrics.failed("upkeep")
        found = scraped(url)
    told = status(source, root)
    assert found[UP] == 1
    assert found[f"{FAILURES}_totalupkeep"] == 1
    for key, (name, _) in GAUGES.items():
        if key != "lag_seconds":  # it is later by now
            assert found[name] == told[key], name
    assert found["headgate_pipeline_lag_facts"] == 10


def test_a_place_that_is_none_is_told(tmp_path: Path) -> None:
    metrics = Metrics({}, str(tmp_path))
    with served(metrics, "0") as url:
        port = url.split(":")[2].split("/")[0]
        for place, why in (("here", "is a port or HOST:PORT"), (port, "cannot be served at")):
            with pytest.raises(PipelineError, match=why), served(metrics, place):
                pass


def test_every_metric_is_documented() -> None:
    text = (DOCS / "pipeline.md").read_text()
    for name in (UP, f"{FAILURES}_total", *(name for name, _ in GAUGES.values())):
        assert f"`{name}`" in text, name

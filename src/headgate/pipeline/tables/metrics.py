"""The numbers of a pipeline at work, for Prometheus: those of `status`, read when they are asked
for, and what has failed since it started."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.errors import HeadgateError, PipelineError
from headgate.pipeline.tables.status import status

GAUGES: Mapping[str, tuple[str, str]] = {
    "facts_in_journal": ("headgate_pipeline_journal_facts", "The last fact of the journal."),
    "facts_in_tables": ("headgate_pipeline_table_facts", "The last fact of the tables."),
    "lag_facts": ("headgate_pipeline_lag_facts", "Facts that are not in the tables yet."),
    "lag_seconds": ("headgate_pipeline_lag_seconds", "Age of what is in the tables, if they lag."),
    "batch": ("headgate_pipeline_batch", "The last batch with facts."),
    "batch_seconds": ("headgate_pipeline_batch_seconds", "Median of the latest batches."),
    "batch_seconds_max": ("headgate_pipeline_batch_seconds_max", "Longest of the latest batches."),
    "batch_facts": ("headgate_pipeline_batch_facts", "Median facts of the latest batches."),
    "segments_corrupt": ("headgate_pipeline_segments_corrupt", "Segments that were left out."),
    "files": ("headgate_pipeline_files", "Files that count, of all tables."),
    "bytes": ("headgate_pipeline_bytes", "Bytes of the files that count."),
}
"""By their names in `status`."""

UP = "headgate_pipeline_up"
FAILURES = "headgate_pipeline_failures"


class Metrics(Collector):
    """Metrics of a pipeline at work."""

    def __init__(self, source: Mapping[str, str], root: str) -> None:
        self._source = source
        self._root = root
        self._lock = threading.Lock()
        self._failures: Counter[str] = Counter({"upkeep": 0, "iceberg": 0})

    def failed(self, what: str) -> None:
        """Count a failure beside the batches. One of a batch ends the pipeline."""
        with self._lock:
            self._failures[what] += 1

    def collect(self) -> Iterator[Metric]:
        try:
            numbers = status(self._source, self._root)
        except (HeadgateError, OSError):
            numbers = {}
        yield GaugeMetricFamily(UP, "Whether journal and tables can be read.", bool(numbers))
        for key, (name, about) in GAUGES.items():
            if numbers.get(key) is not None:
                yield GaugeMetricFamily(name, about, numbers[key])
        failures = CounterMetricFamily(FAILURES, "What failed beside the batches.", labels=["what"])
        with self._lock:
            for what, count in self._failures.items():
                failures.add_metric([what], count)
        yield failures


@contextmanager
def served(metrics: Metrics, place: str) -> Iterator[str]:
    """Give the metrics to who asks at a port of this machine, or at HOST:PORT; yield the URL."""
    host, _, port = place.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise PipelineError(f"--metrics is a port or HOST:PORT, not {place}")
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(int(port), host or "127.0.0.1", registry)
    except OSError as error:
        raise PipelineError(f"metrics cannot be served at {place}: {error.strerror}") from None
    try:
        yield f"http://{host or '127.0.0.1'}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

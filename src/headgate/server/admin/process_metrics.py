"""Metrics of the process from the system, under the names that Prometheus has for them.

The collector of prometheus_client goes through all open files; with many sessions that takes longer
than everything else of a scrape. Newer kernels know the number.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc/self")
STARTED_FIELD = 19
"""Among what follows the name of the process in ``stat``: ticks from the machine's start to its
own."""


class ProcessMetrics(Collector):
    """Time, memory and files of this process. A figure that the system does not give is left
    out."""

    def __init__(self) -> None:
        self._started = _started()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "process_cpu_seconds", "CPU time that the process took.", time.process_time()
        )
        if self._started is not None:
            yield GaugeMetricFamily(
                "process_start_time_seconds",
                "When the process began, in seconds since 1970.",
                self._started,
            )
        yield GaugeMetricFamily(
            "process_max_fds",
            "Files that the process may have open.",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )
        opened = _open_files()
        if opened:
            yield GaugeMetricFamily("process_open_fds", "Files that it has open.", opened)
        memory = _memory()
        if memory is not None:
            total, resident = memory
            yield GaugeMetricFamily(
                "process_virtual_memory_bytes", "Addresses that the process has.", total
            )
            yield GaugeMetricFamily(
                "process_resident_memory_bytes", "Memory that the process has.", resident
            )


def _open_files() -> int:
    """The number of open files, if the kernel knows it without counting."""
    try:
        return (PROC / "fd").stat().st_size
    except OSError:
        return 0


def _memory() -> tuple[int, int] | None:
    """Bytes of addresses, and of memory behind them."""
    try:
        total, resident = (PROC / "statm").read_text().split()[:2]
    except (OSError, ValueError):
        return None
    return int(total) * PAGE_BYTES, int(resident) * PAGE_BYTES


def _started() -> float | None:
    try:
        after_name = (PROC / "stat").read_text().rpartition(")")[2].split()
        booted = next(
            float(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
        return booted + int(after_name[STARTED_FIELD]) / TICKS
    except (OSError, ValueError, IndexError, StopIteration):
        return None

"""The result of a measurement, as one line or one object, and in a report."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click

from headgate.cli.output import emit, json_option
from headgate.cli.units import size
from headgate.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def result_options(command: F) -> F:
    """Add ``--report`` and ``--json`` to a command, as `report` and `as_json`."""
    report = click.option(
        "--report",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Add the numbers to FILE, as one JSON object on a line.",
    )
    return json_option(report(command))


def count_option(default: int) -> Callable[[F], F]:
    """Add ``--count`` to a command."""
    return click.option(
        "--count",
        type=click.IntRange(1, 10_000_000),
        default=default,
        show_default=True,
        help="How many messages.",
    )


size_option = click.option(
    "--size",
    "body_bytes",
    type=click.IntRange(0, 1024 * 1024),
    default=100,
    show_default=True,
    help="Bytes of a body.",
)


def throughput(count: int, body_bytes: int, seconds: float) -> dict[str, object]:
    """Numbers of so many messages in so many seconds."""
    return {
        "count": count,
        "size": body_bytes,
        "seconds": round(seconds, 4),
        "per_second": round(count / seconds, 1),
    }


def percentiles(name: str, seconds: Sequence[float]) -> dict[str, object]:
    """Half, ninety-nine of a hundred, and the longest of some durations, in milliseconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        f"{name}_p50_ms": round(ordered[last // 2] * 1e3, 3),
        f"{name}_p99_ms": round(ordered[round(last * 0.99)] * 1e3, 3),
        f"{name}_max_ms": round(ordered[last] * 1e3, 3),
    }


def finish(row: dict[str, object], text: str, report: Path | None, as_json: bool) -> None:
    """Print what was measured, and add it to the report if there is one."""
    emit([row], lambda _: text, as_json)
    if report is None:
        return
    about = {
        "at": round(time.time(), 3),
        "headgate": version("headgate"),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    try:
        with report.open("a") as file:
            file.write(json.dumps({**about, **row}) + "\n")
    except OSError as error:
        raise ConfigError(f"{report} cannot be written: {error.strerror}") from None


def per_second(row: dict[str, Any], what: str) -> str:
    """A throughput in words."""
    return f"{what}  {row['per_second']:,.0f}/s  ({row['count']:,} of {size(row['size'])})"

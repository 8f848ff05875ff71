"""The query for unusual minutes, on Spark, and the page with plots of what it finds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.repository import ROOT

EXAMPLES = ROOT / "examples"
QUERY = (EXAMPLES / "anomalies.sql").read_text()
START = datetime(2026, 11, 10, tzinfo=UTC)
MORNING = 240
"""Minutes of each day that are played."""

Row = tuple[datetime, str, int, int, float | None]


def quiet(day: int, minute: int) -> int:
    """Messages of a minute: more with every half hour, the same on each day but for a few."""
    return 100 * (1 + minute // 30) + (7 * day + 3 * minute) % 5


def mornings(days: int) -> Iterator[Row]:
    """Two queues, one with a flood, a silence, and slow minutes; each on another day. The first
    minutes of the second day have no row at all, as a night has none."""
    for day in range(days):
        for minute in range(MORNING):
            at = START + timedelta(days=day, minutes=minute)
            usual = quiet(day, minute)
            yield at, "steady", usual, usual, 0.1
            accepted, p95 = usual, 0.2
            if (day, minute) == (1, 70):
                accepted = 900
            if day == 2 and 100 <= minute < 103:
                continue
            if (day, minute) == (3, 20):
                p95 = 4.0
            yield at, "moody", accepted, accepted, p95


def found(spark: SparkSession, rows: Iterator[Row]) -> list[dict[str, Any]]:
    schema = "minute timestamp, address string, accepted bigint, confirmed bigint, p95 double"
    spark.createDataFrame(list(rows), schema).createOrReplaceTempView("minutes")
    try:
        return [row.asDict() for row in spark.sql(QUERY).collect()]
    finally:
        spark.catalog.dropTempView("minutes")


def test_a_flood_a_silence_and_slowness_are_found_by_the_time_of_the_day(
    spark: SparkSession,
) -> None:
    rows = found(spark, mornings(5))
    strange = {(row["measure"], f"{row['minute']:%dT%H:%M}") for row in rows if row["is_strange"]}
    silence = [f"12T01:{minute}" for minute in (40, 41, 42)]
    assert strange == {
        ("accepted", "11T01:10"),
        ("confirmed", "11T01:10"),
        *(("accepted", minute) for minute in silence),
        *(("confirmed", minute) for minute in silence),
        ("p95", "13T00:20"),
    }
    assert {row["address"] for row in rows} == {"moody"}, "nothing of a queue that is as usual"


def test_a_young_queue_is_compared_with_all_of_its_minutes(spark: SparkSession) -> None:
    flat = (
        (START + timedelta(minutes=n), "q", 900 if n == 20 else 100, 100, 0.1) for n in range(60)
    )
    (strange,) = (row for row in found(spark, flat) if row["is_strange"])
    assert (strange["value"], strange["usual"]) == (900.0, 100.0)


@pytest.mark.parametrize("count", [0, 2])
def test_each_unusual_minute_has_a_circle(count: int) -> None:
    rows = [
        {"address": "bmq://d/<q>", "measure": measure, "minute": f"2026-11-10 00:{n:02}:00"}
        | {"value": 100.0 + n, "usual": 100.0, "far": 60.0, "is_strange": n < count}
        for measure in ("accepted", "confirmed")
        for n in range(30)
        if count
    ]
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "plot_anomalies.py")],
        input="".join(json.dumps(row) + "\n" for row in rows),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert f"<h1>{2 * count or 'no'} unusual minutes</h1>" in done.stdout
    assert done.stdout.count("<svg") == (2 if count else 0)
    titles = re.findall("<title>(2026.*?)</title></circle>", done.stdout)
    assert titles == 2 * [f"2026-11-10 00:0{n}:00: {100 + n}, usually 100" for n in range(count)]
    if count:
        assert "accepted of bmq://d/&lt;q&gt;, up to 160" in done.stdout

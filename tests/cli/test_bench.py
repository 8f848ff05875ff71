"""``headgate bench``: it runs, and its numbers are of what it did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_router import CliRouter, cli_router


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


def test_queues_are_measured_and_reported(router: CliRouter, tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    for name, more in (("queue", ()), ("route", ("--expressions", "5"))):
        given = ("bench", name, "--domain", "work", "--count", "50", *more)
        done = router.run(*given, "--json", "--report", str(report))
        assert done.exit_code == 0, (done.output, done.exception)
        row = json.loads(done.stdout)
        assert (row["bench"], row["count"]) == (name, 50)
        assert row["per_second"] > 0
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [row["bench"] for row in rows] == ["queue", "route"]
    assert {"at", "python", "headgate"} <= rows[0].keys()


def test_nothing_is_left_in_the_queues(router: CliRouter) -> None:
    assert router.run("bench", "queue", "--domain", "work", "--count", "5").exit_code == 0
    rows = map(json.loads, router.run("queue", "ls", "work", "--json").stdout.splitlines())
    assert {row["messages"] for row in rows if "bench" in row["queue"]} == {0}


def test_a_domain_that_is_not_there_is_an_error(router: CliRouter) -> None:
    done = router.run("bench", "queue", "--domain", "nowhere", "--count", "5")
    assert done.exit_code == 1
    assert "no domain nowhere" in done.stderr


def test_both_wires_are_measured_one_message_at_a_time(router: CliRouter) -> None:
    row = json.loads(
        router.run("bench", "rtt", "--count", "5", "--domain", "work", "--json").stdout
    )
    for wire in ("resp", "bmq"):
        assert 0 < row[f"{wire}_p50_ms"] <= row[f"{wire}_p99_ms"] <= row[f"{wire}_max_ms"]

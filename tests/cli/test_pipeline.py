"""``headgate pipeline`` before Spark starts: what can be wrong is said at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.cli.pipeline.place import Since
from headgate.errors import PipelineError
from headgate.pipeline.tables import lease
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.manifests import Batch
from tests.support.journals import facts_of_a_day, write_journal


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*where: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("headgate.cli.pipeline.place._session", start)


def run(folder: Path, *arguments: str) -> Result:
    environment = {"HEADGATE_DIRECTORY": str(folder / "var"), "HEADGATE_ROUTER": None}
    return CliRunner().invoke(cli, ["pipeline", *arguments], env=environment)


@pytest.mark.usefixtures("no_spark")
def test_a_wrong_expression_is_shown_with_a_caret_before_spark_starts(tmp_path: Path) -> None:
    for command in (
        ["dryrun", "x >> 1", "--domain", "d"],
        ["replay", "--domain", "d", "--where", "x >> 1", "--to", "bmq://d/q"],
    ):
        done = run(tmp_path, *command)
        assert done.exit_code == 1
        assert "x >> 1\n   ^" in done.stderr


def test_settings_of_spark_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def start(master: str | None, remote: str | None, settings: Mapping[str, str]) -> None:
        given.append(settings)
        raise PipelineError("enough")

    monkeypatch.setattr("headgate.cli.pipeline.place._session", start)
    (tmp_path / "var" / "journal").mkdir(parents=True)
    for wrong in ("spark.x", "memory=4g"):
        done = run(tmp_path, "run", "--conf", wrong)
        assert "--conf is spark.NAME=VALUE" in done.stderr
    run(tmp_path, "run", "--conf", "spark.driver.memory=4g", "--conf", "spark.a=b=c")
    assert given == [{"spark.driver.memory": "4g", "spark.a": "b=c"}]


@pytest.mark.usefixtures("no_spark")
def test_a_wrong_subscription_is_named_before_spark_starts(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.jsonl"
    path.write_text('{"id": "a", "expression": "x > 1"}\n{"id": "b", "expression": "x >"}\n')
    done = run(tmp_path, "route", "--from", str(tmp_path), "--subscriptions", str(path))
    assert done.exit_code == 1
    assert "line 2" in done.stderr
    assert "x >" in done.stderr


def test_a_store_in_memory_has_no_journal_to_read(tmp_path: Path) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text('[store]\nurl = "memory:"\n')
    done = run(tmp_path, "status", "--config", str(config))
    assert done.exit_code == 1
    assert "name one with --journal or --url" in done.stderr


def test_a_router_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, "status", "--router", "http://127.0.0.1:1")
    assert done.exit_code == 4
    assert done.stderr.startswith("headgate: the router at http://127.0.0.1:1")
    assert done.stderr.count("\n") == 1


def test_the_status_says_how_far_the_tables_are_behind(tmp_path: Path) -> None:
    journal = tmp_path / "var" / "journal"
    write_journal(journal, list(facts_of_a_day(5)), per_segment=10)
    last = int(max(path.name for path in journal.iterdir())[21:41])
    before = json.loads(run(tmp_path, "status", "--json").stdout)
    assert (before["facts_in_journal"], before["facts_in_tables"]) == (last, 0)
    archive = Archive(str(tmp_path / "var" / "pipeline"))
    archive.commit({}, batch=Batch(0, "q", "", 0, 20, 20, time.time() - 60, time.time(), 1.5))
    archive.commit({}, batch=Batch(1, "q", "", 20, 20, 0, None, time.time(), 1.0))
    after = json.loads(run(tmp_path, "status", "--json").stdout)
    assert (after["lag_facts"], after["batch"], after["batch_seconds"]) == (last - 20, 0, 1.5)
    assert 59 < after["lag_seconds"] < 70
    assert "\nbehind         " in run(tmp_path, "status").stdout


def test_the_status_needs_no_spark(tmp_path: Path) -> None:
    """Only the files of the journal and of the tables are looked at."""
    write_journal(tmp_path / "var" / "journal", list(facts_of_a_day(5)), per_segment=10)
    script = (
        "import sys\n"
        "sys.modules['pyspark'] = None  # as if it were not installed\n"
        "from headgate.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "pipeline", "status"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "batches        none yet: headgate pipeline run makes the tables\n" in done.stdout


def test_moments_are_so_long_ago_or_dates() -> None:
    since = Since()
    assert abs(since.convert("2h", None, None) - (time.time() - 7200)) < 5
    assert since.convert("2026-11-01", None, None) == 1793491200.0
    assert since.convert("2026-11-01T00:00:00+01:00", None, None) == 1793487600.0
    with pytest.raises(click.BadParameter, match="say 7d, 12h or 30m"):
        since.convert("yesterday", None, None)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "command",
    [
        ["run", "--once"],
        ["status"],
        ["dryrun", "x > 1", "--domain", "d"],
        ["replay", "--domain", "d", "--to", "d/q"],
    ],
)
def test_a_journal_that_is_not_there_is_said_before_spark_starts(
    tmp_path: Path, command: list[str]
) -> None:
    done = run(tmp_path, *command, "--journal", str(tmp_path / "nowhere"))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"headgate: there is no journal in {tmp_path / 'nowhere'}: ")
    assert "--journal" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "var").exists(), "nothing is made for a journal that is not there"


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "command",
    [
        ["sql", "select * from minutes"],
        ["files", "minutes"],
        ["check"],
        ["tidy"],
        ["rebuild"],
        ["stop"],
    ],
)
def test_tables_that_are_not_there_are_no_tables_in_which_nothing_is(
    tmp_path: Path, command: list[str]
) -> None:
    write_journal(tmp_path / "var" / "journal", list(facts_of_a_day(1)), per_segment=10)
    done = run(tmp_path, *command)
    assert done.exit_code == 1
    assert done.stderr == (
        f"headgate: there are no tables in {tmp_path / 'var' / 'pipeline'}: `headgate pipeline run`"
        " makes them; if they are elsewhere, name them with --tables\n"
    )


@pytest.mark.usefixtures("no_spark")
def test_a_table_that_is_not_there_is_not_routed(tmp_path: Path) -> None:
    wanted = tmp_path / "subscriptions.jsonl"
    wanted.write_text('{"id": "all"}\n')
    done = run(tmp_path, "route", "--from", "messages", "--subscriptions", str(wanted))
    assert done.exit_code == 1
    assert "there are no tables in" in done.stderr


@pytest.mark.usefixtures("no_spark")
def test_a_router_that_is_away_is_said_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.cli.pipeline.place.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("headgate.pipeline.source.feed.PATIENCE_SECONDS", 0.0)
    write_journal(tmp_path / "journal", list(facts_of_a_day(1)), per_segment=10)
    journal, away = ("--journal", str(tmp_path / "journal")), ("--url", "http://127.0.0.1:1")
    for command in (
        ["run", "--once", *away],
        ["replay", "--domain", "d", "--to", "bmq://d/q", *journal, *away],
    ):
        done = run(tmp_path, *command)
        assert done.exit_code == 4
        assert "the router at http://127.0.0.1:1 does not answer" in done.stderr
        assert done.stderr.count("\n") == 1
    wrong = run(tmp_path, "replay", "--domain", "d", "--to", "d", *journal, *away)
    assert wrong.exit_code == 2
    assert "write DOMAIN/QUEUE or bmq://DOMAIN/QUEUE" in wrong.stderr


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("identity", ["", "other"])
def test_tables_of_another_journal_are_said_before_spark_starts(
    tmp_path: Path, identity: str
) -> None:
    """D6: also where a journal is from before they had identities, and shorter than the tables."""
    journal = tmp_path / "var" / "journal"
    write_journal(journal, list(facts_of_a_day(1))[:10], per_segment=10, identity=identity)
    archive = Archive(str(tmp_path / "var" / "pipeline"))
    archive.commit({}, batch=Batch(0, "q", "one", 0, 20, 20, 1.0, 1.0, 1.0))
    done = run(tmp_path, "run", "--once")
    assert done.exit_code == 1
    said = "made of the journal one, and this is other" if identity else "ends with fact 10, and"
    assert said in done.stderr
    assert "or keep the tables of this one in a folder of their own" in done.stderr


@pytest.mark.usefixtures("no_spark")
def test_what_stands_in_the_way_of_a_run_is_said_before_spark_starts(tmp_path: Path) -> None:
    write_journal(tmp_path / "var" / "journal", list(facts_of_a_day(1)), per_segment=10)
    for place in ("x", "127.0.0.1:99999"):
        assert "--metrics is a port or HOST:PORT" in run(tmp_path, "run", "--metrics", place).stderr
    storage = Archive(str(tmp_path / "var" / "pipeline")).storage
    with lease.held(storage, lease.WRITER):
        second = run(tmp_path, "run", "--once")
    assert second.exit_code == 1
    assert f"process {os.getpid()} on " in second.stderr
    storage.put("_checkpoint/metadata", b"{}")
    storage.put("_checkpoint/offsets/0", b"{ga")
    garbled = run(tmp_path, "run", "--once")
    assert "is damaged" in garbled.stderr
    assert "remove that folder and run again" in garbled.stderr

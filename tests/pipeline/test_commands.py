"""The commands, from a router's history to what they print."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from headgate.cli import cli
from headgate.core.commands import Create, Delete
from headgate.core.facts import Accepted
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.limits import Limits
from headgate.core.model.tally import name_of
from headgate.journal.sealer_process import JournalSettings
from headgate.journal.segments import name_of as name_of_segment
from headgate.pipeline.source.format import register
from headgate.pipeline.tables import lease, stopping
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.keeper import Keeper
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.store.sqlite import SqliteStore
from tests.support.journals import facts_of_a_day, write_journal
from tests.support.spark_frames import frame


@pytest.fixture
def at_hand(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the session of the tests."""
    monkeypatch.setattr("headgate.cli.pipeline.place._session", lambda *where: register(spark))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the scene of the demo leaves behind."""
    folder = tmp_path_factory.mktemp("history")
    environment = {
        **os.environ,
        "HEADGATE_DIRECTORY": str(folder / "var"),
        "HEADGATE_ADMIN__PORT": "0",
    }
    headgate = Path(sys.executable).with_name("headgate")
    subprocess.run(
        [headgate, "demo", "--once"], env=environment, check=True, timeout=60, capture_output=True
    )
    return folder


def run(folder: Path, *arguments: str, code: int = 0) -> Result:
    environment = {"HEADGATE_DIRECTORY": str(folder / "var"), "HEADGATE_ROUTER": None}
    done = CliRunner().invoke(cli, ["pipeline", *arguments], env=environment)
    assert done.exit_code == code, (done.stderr, done.exception)
    return done


@pytest.fixture(scope="module")
def first_run(history: Path, spark: SparkSession) -> Result:
    """The run that makes the tables of `history`, whichever test needs them first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.cli.pipeline.place._session", lambda *where: register(spark))
        return run(history, "run", "--once", "--show", "select count(*) n from messages")


@pytest.mark.usefixtures("at_hand", "spark")
def test_tables_are_kept_shown_asked_and_told_of(history: Path, first_run: Result) -> None:
    assert "facts in" in first_run.stderr
    assert first_run.stdout == "\nn\n6\n"
    status = json.loads(run(history, "status", "--json").stdout)
    assert status["lag_facts"] == 0
    assert status["segments_corrupt"] == 0
    query = "select outcome, count(*) n from deliveries where domain is not null group by 1"
    rows = [json.loads(line) for line in run(history, "sql", query, "--json").stdout.splitlines()]
    assert {row["outcome"]: row["n"] for row in rows} == {"confirmed": 4, "auto-confirmed": 2}
    checked = run(history, "check", "--all", "--json")
    results = {
        row["check"]: row["is_right"] for row in map(json.loads, checked.stdout.splitlines())
    }
    assert set(results.values()) == {True}
    assert "what is accepted is stored until it ends" in results, "of the store, too"
    assert "checks, 0 of them found something" in checked.stderr
    target = history / "out"
    run(history, "sql", "select 1 one", "--to", str(target))
    assert run(history, "sql", f"select * from parquet.`{target}`").stdout == "one\n  1\n"


@pytest.mark.usefixtures("at_hand", "spark", "first_run")
def test_a_wrong_query_is_one_line(history: Path) -> None:
    done = run(history, "sql", "select nothing from nowhere", code=1)
    assert done.stderr.startswith("headgate: Spark failed: ")
    assert "nowhere" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("at_hand", "spark")
def test_a_dryrun_tells_what_would_have_matched(history: Path) -> None:
    done = run(history, "dryrun", "amount >= 90", "--domain", "scene.orders", "--samples", "1")
    first, sample = done.stdout.splitlines()
    assert first == "2 of 3 messages match (66.7%)"
    assert sample.endswith("bmq://scene.orders/incoming  kind='standard', amount=4000")
    nothing = run(history, "dryrun", "amount >= 90", "--domain", "elsewhere")
    assert "the journal has no messages of elsewhere" in nothing.stderr


@pytest.mark.usefixtures("at_hand", "spark")
def test_any_data_is_routed(history: Path, spark: SparkSession, tmp_path: Path) -> None:
    data, wanted = tmp_path / "data", tmp_path / "subscriptions.jsonl"
    rows = [(number, {"x": (number, None, None)}) for number in range(4)]
    schema = "number bigint, properties map<string, struct<i bigint, s string, b boolean>>"
    spark.createDataFrame(rows, schema).write.parquet(str(data))
    wanted.write_text('{"id": "a", "expression": "x >= 2"}\n')
    done = run(tmp_path, "route", "--from", str(data), "--subscriptions", str(wanted), "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted((row["number"], row["outcome"]) for row in told) == [
        (0, "put-aside"),
        (1, "put-aside"),
        (2, "routed"),
        (3, "routed"),
    ]


@pytest.mark.usefixtures("at_hand", "spark")
def test_a_run_takes_the_options_of_the_source(tmp_path: Path) -> None:
    """D14: the error told to set an option that the command did not have."""
    journal = tmp_path / "var" / "journal"
    write_journal(journal, facts_of_a_day(2)[:40], per_segment=20)
    run(tmp_path, "run", "--once", "--max-facts", "20", "--max-bytes", "1000000")
    assert json.loads(run(tmp_path, "status", "--json").stdout)["batch"] == 1
    write_journal(journal, facts_of_a_day(2)[:20], per_segment=20, first=100)
    for path in journal.glob("*.parquet"):
        if path.name < name_of_segment(100, 119):
            path.unlink()
    shorter = run(tmp_path, "run", "--once", code=1)
    assert "(`pipeline run --on-expired skip`)" in shorter.stderr
    run(tmp_path, "run", "--once", "--on-expired", "skip")
    again = run(tmp_path, "rebuild", "--table", "minutes", "--source", "facts")
    assert again.stdout.startswith("made the rows of facts 1 to 119 again")
    for wrong in (("--table", "nothing"), ("--source", "facts", "--table", "facts")):
        run(tmp_path, "rebuild", *wrong, code=1)


@pytest.mark.usefixtures("at_hand")
def test_a_table_is_routed_and_listed_without_the_files_that_were_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    """D12: rows were counted twice."""
    tables = tmp_path / "var" / "pipeline"
    facts = [fact for fact in facts_of_a_day(40) if isinstance(fact, Accepted)]
    for batch in range(4):
        part = facts[batch * 10 : (batch + 1) * 10]
        Keeper(str(tables))(frame(spark, part, first=batch * 10 + 1), batch)
    accepted = len(facts)
    before = run(tmp_path, "files", "messages").stdout.split()
    assert "into" in run(tmp_path, "tidy").stdout
    after = run(tmp_path, "files", "messages").stdout.split()
    assert len(after) < len(before)
    assert sum(pq.read_metadata(path).num_rows for path in after) == accepted
    assert all(Path(path).exists() for path in before), "for who planned with them"
    wanted = tmp_path / "subscriptions.jsonl"
    wanted.write_text('{"id": "all"}\n')
    routed = run(tmp_path, "route", "--from", "messages", "--subscriptions", str(wanted), "--json")
    assert len(routed.stdout.splitlines()) == accepted
    assert "there is no table nothing; there are facts" in str(
        run(tmp_path, "files", "nothing", code=1).stderr
    )


@pytest.mark.usefixtures("at_hand", "spark")
def test_a_store_that_is_ahead_of_the_tables_is_not_compared(tmp_path: Path) -> None:
    asyncio.run(live_in(tmp_path))
    write_journal(tmp_path / "other", facts_of_a_day(2)[:3], per_segment=3)
    run(tmp_path, "run", "--once", "--journal", str(tmp_path / "other"))
    assert "the store was not compared: it is at fact" in run(tmp_path, "check").stderr
    assert "compared" not in run(tmp_path, "check", "--journal", str(tmp_path / "other")).stderr


def test_whoever_keeps_the_tables_can_be_asked_to_stop(tmp_path: Path) -> None:
    assert "there are no tables in" in run(tmp_path, "stop", code=1).stderr
    archive = Archive(str(tmp_path / "var" / "pipeline"))
    archive.storage.make()
    archive.storage.put(lease.WRITER, b"")  # a run that has no batch yet
    before = time.time()
    assert run(tmp_path, "stop").stdout.startswith("asked whoever keeps the tables in")
    assert stopping.is_asked(archive.storage, before)


def test_tables_are_shown_as_iceberg_tables(tmp_path: Path) -> None:
    done = run(tmp_path, "iceberg")
    tables = tmp_path / "var" / "pipeline"
    catalog = f"sqlite:///{tables}/_iceberg/catalog.db"
    assert done.stdout == f"the tables in {tables} are mirrored to {catalog}, namespace headgate\n"
    other = run(tmp_path, "iceberg", "--namespace", "elsewhere", code=1)
    assert "are mirrored to a catalog beside them, namespace headgate: remove" in other.stderr


QUEUES = [QueueId(b"q%d" % number) for number in range(4)]
SERVICE = ServiceId(b"\xaa" * 4)


async def live_in(folder: Path) -> None:
    """A router's life in which a service gets four queues and loses one."""
    (folder / "var").mkdir()
    router = Router(
        store=SqliteStore(folder / "var" / "queues.db"),
        domains={"line": Domain("line", Mode.EXCLUSIVE)},
        limits=Limits(),
        journal=JournalSettings(folder / "var" / "journal", 1_000_000, None, None),
    )
    await router.start()
    session = InProcessSession(router, "service")
    for queue in QUEUES:
        await session.ask(Create, queue, "line", service=SERVICE)
    await session.ask(Delete, QUEUES[0])
    session.close()
    await router.stop()


@pytest.mark.usefixtures("at_hand", "spark")
def test_an_audit_finds_nothing_until_something_is_wrong(tmp_path: Path) -> None:
    asyncio.run(live_in(tmp_path))
    for options in ((), ("--from", "facts"), ("--incremental",)):
        done = run(tmp_path, "audit", "--all", *options)
        assert "3 queues counted, 3 in its tally, drift: none" in done.stdout
        assert "1 service, 0 of them drift" in done.stderr
    with sqlite3.connect(tmp_path / "var" / "queues.db") as db:
        db.execute("UPDATE queues SET service = NULL WHERE id = ?", (QUEUES[1],))
    db.close()
    done = run(tmp_path, "audit", code=3)
    lost = name_of(QUEUES[1]).hex()
    assert f"2 queues counted, 3 in its tally, drift: more; it may be queue {lost}" in done.stdout
    done = run(tmp_path, "audit", "--from", "facts", code=3)
    assert done.stdout == f"queue {lost} is aaaaaaaa's by the facts and nobody's by the store\n"

"""Rows made again: the tables are as if they had been made at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.ids import AppId, MessageId, QueueId, SessionId
from headgate.errors import PipelineError
from headgate.pipeline.tables import lease, upkeep
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.keeper import Keeper
from headgate.pipeline.tables.manifests import END, Batch, File, Manifest, State
from headgate.pipeline.tables.rebuild import Range, rebuild, widened
from headgate.pipeline.tables.tables import TABLES
from tests.pipeline.tables.test_keeper import catch_up, contents, numbers
from tests.support.journals import facts_of_a_day, write_journal, write_segment
from tests.support.spark_frames import frame

Q = QueueId(b"bmq://d/q")
FACTS = list(facts_of_a_day(40))


def test_a_range_is_widened_to_whole_files() -> None:
    state = State()
    batch = Batch(0, "q", "", 0, 100, 100, 1.0, 1.0, 1.0)
    added = {
        "facts": [File(f"f{n}", 1, 10 * n, 10 * n + 10) for n in range(10)],
        "minutes": [File("m0", 1, 0, 40), File("m1", 1, 40, 70), File("m2", 1, 70, 100)],
    }
    state.apply(Manifest(0, 1.0, 1, added, batch=batch))
    assert widened(state, ["facts"], Range(14, 25)) == Range(10, 30)
    assert widened(state, ["facts", "minutes"], Range(44, 45)) == Range(40, 70)
    assert widened(state, ["facts", "minutes"], Range(35, 45)) == Range(0, 70)
    assert widened(state, ["facts"], Range(0, END)) == Range(0, 100)
    assert widened(state, ["pressure"], Range(14, 25)) == Range(14, 25)


def damaged(spark: SparkSession, root: Path) -> Path:
    """Tables that lack the facts of a segment which could not be read; then it is repaired."""
    third = len(FACTS) // 3
    for place in range(3):
        part = FACTS[place * third : (place + 1) * third]
        path = write_segment(root / "journal", place * third + 1, part)
        good = path.read_bytes()
        if place == 1:
            path.write_bytes(good[: len(good) // 2])
        catch_up(spark, root)
        if place == 1:
            path.write_bytes(good)
    return root


def test_what_could_not_be_read_comes_back(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D8: the stream had gone past it for ever."""
    root, third = damaged(spark, tmp_path / "damaged"), len(FACTS) // 3
    whole = tmp_path / "whole"
    write_journal(whole / "journal", FACTS[: 3 * third], per_segment=1000)
    catch_up(spark, whole)
    assert len(numbers(spark, root)) == 2 * third
    done = rebuild(
        spark,
        {"path": str(root / "journal")},
        str(root / "tables"),
        TABLES.keys(),
        Range(third, 2 * third),
    )
    assert done.facts == Range(third, 2 * third)
    assert numbers(spark, root) == list(range(1, 3 * third + 1))
    found = contents(spark, root)
    wanted = contents(spark, whole)
    # Who wanted what in the third part was not known when it was written.
    assert {**found, "matches": []} == {**wanted, "matches": []}
    rebuild(spark, None, str(root / "tables"), ["matches"], Range(2 * third, 3 * third))
    assert contents(spark, root)["matches"] == wanted["matches"]
    write_segment(root / "journal", 3 * third + 1, FACTS[:5])
    catch_up(spark, root)
    assert len(numbers(spark, root)) == 3 * third + 5, "and batches go on"


def test_who_wanted_what_comes_back_for_the_batches_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """D8, too: a batch knows who wants what from the batch before it."""

    def message(x: int) -> Fact:
        return f.Accepted(3600.0, Q, MessageId(b"m%d" % x), 1, {"x": x})

    def wants(session: int, expression: str) -> Fact:
        return f.Interested(1.0, Q, AppId(""), SessionId(session), 0, 1, expression, 0)

    parts: list[list[Fact]] = [
        [f.RouterStarted(0.0, "1"), wants(1, "x > 1"), wants(2, "x > 2"), message(1)],
        [f.Unsubscribed(2.0, Q, AppId(""), SessionId(1)), wants(3, "x > 3")],
        [message(2)],
        [wants(4, "x > 4"), message(3)],
        [message(4)],
    ]
    root, whole = str(tmp_path / "tables"), str(tmp_path / "whole")
    lost, first = Range(4, 6), 1
    for batch, part in enumerate(parts):
        write_segment(tmp_path / "journal", first, part)
        Keeper(whole)(frame(spark, part, first=first), batch)
        if batch != 1:
            Keeper(root)(frame(spark, part, first=first), batch)
        if batch == 2:
            source = {"path": str(tmp_path / "journal")}
            rebuild(spark, source, root, TABLES.keys(), lost)
        first += len(part)
    for name, table in TABLES.items():
        rows = [
            sorted(str(row) for row in Archive(each).read(spark, table).collect())
            for each in (root, whole)
        ]
        assert rows[0] == rows[1], name


def test_tables_are_made_again_of_the_facts_when_the_journal_has_dropped_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = write_journal(tmp_path / "journal", FACTS, per_segment=len(FACTS) // 4)
    catch_up(spark, tmp_path)
    before = contents(spark, tmp_path)
    for path in paths[:2]:
        path.unlink()
    source, root = {"path": str(tmp_path / "journal")}, str(tmp_path / "tables")
    with pytest.raises(PipelineError, match=r"has \d+ facts from 1 to \d+, and the table facts"):
        rebuild(spark, source, root, ["minutes"], Range(0, END))
    tables = [name for name in TABLES if name != "facts"]
    done = rebuild(spark, None, root, tables, Range(0, END))
    assert done.replaced
    assert done.made
    assert contents(spark, tmp_path) == before
    upkeep.tidy(spark, Archive(root))
    assert contents(spark, tmp_path) == before


def test_nothing_is_made_of_a_journal_that_lacks_some(spark: SparkSession, tmp_path: Path) -> None:
    size, paths = len(FACTS) // 4, []
    for n in range(3):
        part = FACTS[n * size : (n + 1) * size]
        paths.append(write_segment(tmp_path / "journal", n * size + 1, part))
        catch_up(spark, tmp_path)
    source, root = {"path": str(tmp_path / "journal")}, str(tmp_path / "tables")
    paths[0].unlink()
    paths[1].unlink()
    with pytest.raises(PipelineError, match="or make the tables of the table facts, with --source"):
        rebuild(spark, source, root, ["minutes"], Range(2 * size - 1, 2 * size))
    with (
        lease.held(Archive(root).storage, lease.TIDIER),
        pytest.raises(PipelineError, match="is at work on the tables"),
    ):
        rebuild(spark, None, root, ["minutes"], Range(0, END))

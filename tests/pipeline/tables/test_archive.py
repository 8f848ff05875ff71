"""Tables on disk: what an attempt wrote counts from its manifest on."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.core import facts as f
from headgate.core.model.ids import MessageId, QueueId
from headgate.errors import PipelineError
from headgate.pipeline.tables import upkeep
from headgate.pipeline.tables.archive import (
    STATE_EVERY,
    Archive,
    attempt_of,
    entry_path,
    state_path,
)
from headgate.pipeline.tables.manifests import (
    SCHEMA_VERSION,
    Batch,
    File,
    Outdated,
    State,
    encode,
)
from headgate.pipeline.tables.tables import TABLES
from headgate.pipeline.tables.transforms import messages
from headgate.pipeline.tables.wanted import WANTED
from tests.support.spark_frames import frame, rows

MESSAGES = TABLES["messages"]
NOW = 1_763_208_000.0
"""2025-11-15 12:00 UTC."""


def batch(number: int, query: str = "q") -> Batch:
    return Batch(number, query, "", number, number + 1, 1, NOW, NOW, 0.5)


def paths(archive: Archive) -> list[str]:
    return [file.path for file in archive.state().table("messages")]


def commit(archive: Archive, number: int) -> None:
    archive.commit({"messages": [File(f"m{number}", 1, number, number + 1)]}, batch=batch(number))


def test_what_is_committed_is_there_at_any_age(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    for number in range(2 * STATE_EVERY + 3):
        commit(archive, number)
    known = [f"m{number}" for number in range(2 * STATE_EVERY + 3)]
    assert paths(archive) == known
    for number in range(2 * STATE_EVERY):
        archive.storage.delete(entry_path(number))
    assert paths(archive) == known, "the state says what they said"


def test_an_attempt_that_was_slower_counts_for_nothing(tmp_path: Path) -> None:
    one, other = Archive(str(tmp_path)), Archive(str(tmp_path))
    commit(one, 0)
    with pytest.raises(Outdated):
        other.commit({"messages": [File("again", 1, 0, 1)]}, batch=batch(0))
    assert paths(one) == ["m0"]


def test_who_meets_upkeep_takes_the_next_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(str(tmp_path))
    commit(archive, 0)
    look = archive.state

    def meet() -> object:
        state = look()
        if state.number == 0:
            Archive(str(tmp_path)).commit({"messages": [File("m", 1, 0, 1)]}, {"messages": ["m0"]})
        return state

    monkeypatch.setattr(archive, "state", meet)
    commit(archive, 1)
    assert sorted(paths(Archive(str(tmp_path)))) == ["m", "m1"]


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    for number in range(3):
        commit(archive, number)
    (tmp_path / entry_path(2)).write_text("{")
    with pytest.raises(PipelineError, match=r"2\.json, which says what is in the tables, cannot"):
        archive.state()
    (tmp_path / entry_path(1)).unlink()
    with pytest.raises(PipelineError, match=r"01\.json, .* \(it is not there\): put it back"):
        archive.state()
    (tmp_path / state_path(0)).write_text("{")
    with pytest.raises(PipelineError, match=r"00\.state\.json cannot be read .*: remove it"):
        archive.state()


def test_a_state_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    archive.storage.put(state_path(5), encode(State(number=5, schema=SCHEMA_VERSION + 1)))
    with pytest.raises(PipelineError, match="upgrade it"):
        archive.state()


def test_wishes_are_those_that_a_batch_names(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    assert archive.wishes(None).num_rows == 0
    wanted = pa.table([[b"q"], [""], [1], [["a"]]], schema=WANTED)
    path = archive.wish("3.x", wanted)
    assert archive.wishes(path) == wanted
    archive.storage.put("old.json", b'[["71", "", 1, ["a"]]]')
    assert archive.wishes("old.json") == wanted, "as version 1 had it"
    archive.storage.delete(path)
    with pytest.raises(PipelineError, match="is gone, which says who wanted what"):
        archive.wishes(path)


def accepted(spark: SparkSession, *numbers: int) -> DataFrame:
    facts = [f.Accepted(NOW, QueueId(b"bmq://d/q"), MessageId(b"%d" % n), n) for n in numbers]
    return messages(frame(spark, facts))


def test_rows_are_there_from_their_manifest_on(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    attempts = [attempt_of(0), attempt_of(0)]
    for attempt in attempts:
        archive.write(MESSAGES, attempt, accepted(spark, 1, 2))
    assert rows(archive.read(spark, MESSAGES), "size") == []
    archive.commit({"messages": archive.written(MESSAGES, attempts[1], 0, 2)}, batch=batch(0))
    assert rows(archive.read(spark, MESSAGES), "size") == [(1,), (2,)]
    assert {file.day for file in archive.state().table("messages")} == {"2025-11-15"}


def test_rows_are_there_where_spark_marks_no_folder_as_done(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive, mark = Archive(str(tmp_path)), "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    spark.conf.set(mark, "false")
    try:
        archive.write(MESSAGES, "0.x", accepted(spark, 1))
    finally:
        spark.conf.unset(mark)
    assert not list(tmp_path.rglob("_SUCCESS")), "the setting has an effect"
    archive.commit({"messages": archive.written(MESSAGES, "0.x", 0, 1)}, batch=batch(0))
    assert rows(archive.read(spark, MESSAGES), "size") == [(1,)]


def test_files_of_version_1_are_read_and_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """Their day was only in the name of their folder."""
    archive = Archive(str(tmp_path), clock=lambda: NOW)
    path = archive.storage.uri("_data/messages/batches=0.x")
    accepted(spark, 1, 2).write.partitionBy("day").parquet(path)
    archive.write(MESSAGES, "1.x", accepted(spark, 3))
    found = [archive.written(MESSAGES, each, 0, 3) for each in ("0.x", "1.x")]
    archive.commit({"messages": [*found[0], *found[1]]}, batch=batch(0))
    for is_old in (True, False):
        sizes = rows(archive.read(spark, MESSAGES), "size", "day")
        assert sizes == [(size, date(2025, 11, 15)) for size in (1, 2, 3)]
        files = archive.state().table("messages")
        assert any(file.is_old for file in files) == is_old
        for group in upkeep.plan(archive.state(), "2025-11-15"):
            upkeep.compact(spark, archive, group)


def test_a_table_without_rows_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    for table in TABLES.values():
        found = archive.read(spark, table)
        assert found.columns == list(table.columns)
        assert found.collect() == []

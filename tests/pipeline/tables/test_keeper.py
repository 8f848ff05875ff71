"""The tables are kept: from the journal, once each, whatever is repeated."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate.core.ntf_facts import (
    AnyFact,
    NoticesCounted,
    NotifierAdded,
    PushesCounted,
    TokenRegistered,
)
from headgate.errors import PipelineError
from headgate.pipeline.session import one_line
from headgate.pipeline.tables import keeper
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.keeper import Keeper
from headgate.pipeline.tables.status import status
from headgate.pipeline.tables.tables import TABLES
from tests.support.journals import facts_of_a_day, write_journal
from tests.support.spark_frames import frame

AT = 1_760_000_000.0
FACTS: list[AnyFact] = [
    *facts_of_a_day(60),
    TokenRegistered(AT, b"t" * 16, "web_push"),
    NotifierAdded(AT, b"n" * 16, b"t" * 16, "relay.example:5223"),
    NoticesCounted(AT, "pushed", 3),
    PushesCounted(AT, "web_push", "notices", "delivered", 1),
]
"""Of a router, and of a notification server."""


def catch_up(spark: SparkSession, root: Path, journal: str = "journal") -> None:
    source = {"path": str(root / journal)}
    with (
        one_line("failed"),
        keeper.keeping(spark, source, str(root / "tables"), once=True) as query,
    ):
        query.awaitTermination()


def contents(spark: SparkSession, root: Path) -> dict[str, list[str]]:
    archive = Archive(str(root / "tables"))
    return {
        name: sorted(str(row) for row in archive.read(spark, table).collect())
        for name, table in TABLES.items()
    }


def numbers(spark: SparkSession, root: Path) -> list[int]:
    rows = Archive(str(root / "tables")).read(spark, TABLES["facts"]).select("number").collect()
    return sorted(row.number for row in rows)


def test_tables_kept_in_steps_and_repeated_are_those_made_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps, whole = tmp_path / "steps", tmp_path / "whole"
    half = len(FACTS) // 2
    write_journal(steps / "journal", FACTS[:half], per_segment=200)
    catch_up(spark, steps)
    write_journal(steps / "journal", FACTS[half:], per_segment=200, first=half + 1)
    catch_up(spark, steps)
    last = max((steps / "tables" / "_checkpoint" / "commits").glob("[0-9]*"), key=_number)
    last.unlink()  # it died after the manifest and before it was noted as done
    last.with_name(f".{last.name}.crc").unlink()
    catch_up(spark, steps)
    write_journal(whole / "journal", FACTS, per_segment=len(FACTS))
    catch_up(spark, whole)
    found = contents(spark, steps)
    assert found == contents(spark, whole)
    assert numbers(spark, steps) == list(range(1, len(FACTS) + 1))
    assert all(found.values()), "every table has rows"
    told = status({"path": str(steps / "journal")}, str(steps / "tables"))
    assert (told["facts_in_tables"], told["lag_facts"]) == (len(FACTS), 0)


def test_a_batch_has_the_same_rows_in_files_of_the_same_form_whether_it_is_light_or_heavy(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a light batch are written here, those of a heavy one by Spark."""
    light, heavy = tmp_path / "light", tmp_path / "heavy"
    for root in (light, heavy):
        write_journal(root / "journal", FACTS, per_segment=len(FACTS))
    catch_up(spark, light)
    assert list(light.rglob("part-0.parquet")), "it was held"
    monkeypatch.setattr(keeper, "is_light", lambda *_: False)
    catch_up(spark, heavy)
    assert not list(heavy.rglob("part-0.parquet")), "it was not"
    assert contents(spark, light) == contents(spark, heavy)
    assert forms(light) == forms(heavy)


def forms(root: Path) -> dict[str, set[str]]:
    """The columns in the files of each table, with what Parquet says of their types; whether they
    may be null is different for `matches` already, by who has counted them."""
    archive = Archive(str(root / "tables"))
    return {
        name: {
            line.replace("required", "optional")
            for file in archive.state().table(name)
            for line in str(pq.ParquetFile(archive.storage.uri(file.path)).schema).splitlines()
            if line.startswith("  ")
        }
        for name in TABLES
    }


def _number(path: Path) -> int:
    return int(path.name)


def test_of_two_pipelines_at_one_batch_one_counts(spark: SparkSession, tmp_path: Path) -> None:
    """D1: two runs doubled rows. Both were started where a driver had died in batch 0."""
    facts, root = frame(spark, FACTS), str(tmp_path / "tables")
    with ThreadPoolExecutor(2) as pool:
        attempts = [pool.submit(Keeper(root), facts, 0) for _ in range(2)]
        errors = [attempt.exception() for attempt in attempts]
    assert numbers(spark, tmp_path) == list(range(1, len(FACTS) + 1))
    # Both may come through: one that begins when the other has ended has nothing to do.
    assert all(
        error is None or "was written by another pipeline meanwhile" in str(error)
        for error in errors
    )


def test_a_slow_attempt_counts_for_nothing_once_another_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver that was taken for dead, and goes on."""
    facts, root = frame(spark, FACTS), str(tmp_path / "tables")
    commit = Archive.commit

    def late(self: Archive, *args: object, **kwargs: object) -> object:
        monkeypatch.setattr(Archive, "commit", commit)
        Keeper(root)(facts, 0)
        return commit(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Archive, "commit", late)
    with pytest.raises(PipelineError, match="let one of the two run"):
        Keeper(root)(facts, 0)
    assert numbers(spark, tmp_path) == list(range(1, len(FACTS) + 1))


def test_a_second_pipeline_is_refused_while_the_first_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_journal(tmp_path / "journal", FACTS[:50], per_segment=50)
    source, root = {"path": str(tmp_path / "journal")}, str(tmp_path / "tables")
    with (
        keeper.keeping(spark, source, root, seconds=0.1),
        pytest.raises(PipelineError, match="is at work on the tables"),
    ):
        catch_up(spark, tmp_path)
    catch_up(spark, tmp_path)
    assert numbers(spark, tmp_path) == list(range(1, 51))


def test_tables_whose_checkpoint_is_gone_go_on_where_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_journal(tmp_path / "journal", FACTS[:50], per_segment=50)
    catch_up(spark, tmp_path)
    shutil.rmtree(tmp_path / "tables" / "_checkpoint")
    write_journal(tmp_path / "journal", FACTS[50:80], per_segment=30, first=51)
    catch_up(spark, tmp_path)
    assert numbers(spark, tmp_path) == list(range(1, 81))


def test_a_checkpoint_that_was_half_deleted_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """D7: facts were in the tables twice."""
    write_journal(tmp_path / "journal", FACTS[:50], per_segment=50)
    catch_up(spark, tmp_path)
    for kind in ("offsets", "commits"):
        shutil.rmtree(tmp_path / "tables" / "_checkpoint" / kind)
    with pytest.raises(PipelineError, match=r"_checkpoint is behind .* remove that folder and run"):
        catch_up(spark, tmp_path)
    assert numbers(spark, tmp_path) == list(range(1, 51))


def test_a_garbled_checkpoint_is_refused_and_can_be_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_journal(tmp_path / "journal", FACTS[:50], per_segment=50)
    catch_up(spark, tmp_path)
    marks = tmp_path / "tables" / "_checkpoint"
    (marks / "offsets" / "0").write_text("v1\n{}\n\x00\x00")
    with pytest.raises(PipelineError, match=r"is damaged \(offset 0 cannot be read\): remove that"):
        catch_up(spark, tmp_path)
    shutil.rmtree(marks)
    catch_up(spark, tmp_path)
    assert numbers(spark, tmp_path) == list(range(1, 51))


def test_another_journal_is_not_taken_for_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """D6: its first facts were skipped without a word."""
    write_journal(tmp_path / "journal", FACTS[:50], per_segment=50, identity="one")
    write_journal(tmp_path / "other", FACTS[:150], per_segment=50, identity="other")
    catch_up(spark, tmp_path)
    with pytest.raises(PipelineError, match="made of the journal one, and this is other: name the"):
        catch_up(spark, tmp_path, "other")
    assert numbers(spark, tmp_path) == list(range(1, 51))

"""The tables are kept: from the journal, once each, whatever is repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

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
from headgate.pipeline.tables import keeper
from headgate.pipeline.tables.archive import Archive
from headgate.pipeline.tables.status import status
from headgate.pipeline.tables.tables import TABLES
from tests.support.journals import facts_of_a_day, write_journal

AT = 1_760_000_000.0
FACTS: list[AnyFact] = [
    *facts_of_a_day(60),
    TokenRegistered(AT, b"t" * 16, "web_push"),
    NotifierAdded(AT, b"n" * 16, b"t" * 16, "relay.example:5223"),
    NoticesCounted(AT, "pushed", 3),
    PushesCounted(AT, "web_push", "notices", "delivered", 1),
]
"""Of a router, and of a notification server."""


def catch_up(spark: SparkSession, root: Path) -> None:
    query = keeper.start(spark, {"path": str(root / "journal")}, str(root / "tables"), once=True)
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
    last.unlink()  # it died after the last write and before it was noted as done
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


def _number(path: Path) -> int:
    return int(path.name)


def test_tables_whose_checkpoint_is_gone_are_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_journal(tmp_path / "journal", FACTS[:50], per_segment=50)
    catch_up(spark, tmp_path)
    shutil.rmtree(tmp_path / "tables" / "_checkpoint")
    with pytest.raises(PipelineError, match="restore the folder _checkpoint, or begin with an"):
        catch_up(spark, tmp_path)


def test_small_parts_are_merged_as_batches_go_by(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.pipeline.tables.archive.MERGED", 2)
    facts = FACTS[:60]
    for batch in range(3):
        part = facts[batch * 20 : (batch + 1) * 20]
        write_journal(tmp_path / "journal", part, per_segment=20, first=batch * 20 + 1)
        catch_up(spark, tmp_path)
    archive = Archive(str(tmp_path / "tables"))
    keeper.tidy(spark, archive, 2, None)
    assert [(p.first, p.last) for p in archive.parts("facts")] == [(0, 1), (2, 2)]
    assert numbers(spark, tmp_path) == list(range(1, 61))

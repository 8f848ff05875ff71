"""Parts of tables: written, replaced, merged, removed."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.core import facts as f
from headgate.core.model.ids import MessageId, QueueId
from headgate.pipeline.tables.archive import GRACE_SECONDS, MERGED, Archive
from headgate.pipeline.tables.tables import TABLES
from headgate.pipeline.tables.transforms import messages
from tests.support.spark_frames import frame, rows

MESSAGES = TABLES["messages"]
NOW = 1_763_208_000.0
"""2025-11-15 12:00 UTC."""


def part(root: Path, first: int, last: int, *, whole: bool = True, at: float = NOW) -> Path:
    folder = root / "messages" / f"batches={first}-{last}"
    (folder / "day=2025-11-15").mkdir(parents=True)
    if whole:
        mark = folder / "_SUCCESS"
        mark.touch()
        os.utime(mark, (at, at))
    return folder


def numbers(archive: Archive) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in archive.parts("messages")]


def test_parts_are_in_the_order_of_their_batches(tmp_path: Path) -> None:
    for number in (10, 9, 100):
        part(tmp_path, number, number)
    assert numbers(Archive(str(tmp_path))) == [(9, 9), (10, 10), (100, 100)]


def test_a_part_without_its_mark_does_not_exist(tmp_path: Path) -> None:
    part(tmp_path, 1, 1)
    part(tmp_path, 2, 2, whole=False)
    assert numbers(Archive(str(tmp_path))) == [(1, 1)]


def test_the_widest_part_counts(tmp_path: Path) -> None:
    for first, last in ((0, 0), (1, 1), (0, 1), (2, 2)):
        part(tmp_path, first, last)
    assert numbers(Archive(str(tmp_path))) == [(0, 1), (2, 2)]


def test_replaced_parts_go_after_their_grace_however_old_they_are(tmp_path: Path) -> None:
    replaced = [part(tmp_path, number, number, at=NOW - 10 * GRACE_SECONDS) for number in (0, 1)]
    whole = part(tmp_path, 0, 1, at=NOW)
    for later, stay in ((GRACE_SECONDS - 1, True), (GRACE_SECONDS + 1, False)):
        Archive(str(tmp_path), clock=partial(float, NOW + later)).clean("messages", None)
        assert [each.exists() for each in replaced] == [stay, stay]
    assert whole.exists()


@pytest.mark.parametrize(("days", "stays"), [(1, True), (0, True), (None, True), (-1, False)])
def test_days_are_kept_for_so_long(tmp_path: Path, days: int | None, stays: bool) -> None:
    folder = part(tmp_path, 0, 0)
    Archive(str(tmp_path), clock=lambda: NOW).clean("messages", days)
    assert (folder / "day=2025-11-15").exists() is stays


def test_notes_of_batches_come_back_in_order(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    assert archive.is_empty
    for batch in (1, 0, 11):
        archive.note(batch, {"facts": batch * 10})
    assert archive.notes() == [
        {"batch": 0, "facts": 0},
        {"batch": 1, "facts": 10},
        {"batch": 11, "facts": 110},
    ]
    assert not archive.is_empty


def test_wishes_are_those_of_the_batch_before(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    assert archive.wishes(before=5) == []
    archive.wish(3, [["00", "", 1, ["a"]]])
    archive.wish(5, [["00", "", 1, ["b"]]])
    assert archive.wishes(before=5) == [["00", "", 1, ["a"]]]
    assert archive.wishes(before=6) == [["00", "", 1, ["b"]]]


def accepted(spark: SparkSession, *numbers: int) -> DataFrame:
    facts = [f.Accepted(NOW, QueueId(b"bmq://d/q"), MessageId(b"%d" % n), n) for n in numbers]
    return messages(frame(spark, facts))


def test_a_batch_that_is_repeated_replaces_its_part(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    archive.write(MESSAGES, 0, accepted(spark, 1, 2))
    archive.write(MESSAGES, 1, accepted(spark, 3))
    archive.write(MESSAGES, 1, accepted(spark, 4))
    assert rows(archive.read(spark, MESSAGES), "size") == [(1,), (2,), (4,)]


def test_a_table_without_rows_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    for table in TABLES.values():
        found = archive.read(spark, table)
        assert found.columns == list(table.columns)
        assert found.collect() == []


def test_a_merge_keeps_every_row_and_the_parts_it_replaces_for_a_while(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.pipeline.tables.archive.MERGED", 3)
    archive = Archive(str(tmp_path))
    for batch in range(4):
        archive.write(MESSAGES, batch, accepted(spark, batch))
    assert not archive.merge(spark, MESSAGES, before=2), "the last batch may be repeated"
    assert archive.merge(spark, MESSAGES, before=3)
    assert numbers(archive) == [(0, 2), (3, 3)]
    assert not archive.merge(spark, MESSAGES, before=4)
    assert rows(archive.read(spark, MESSAGES), "size") == [(0,), (1,), (2,), (3,)]
    assert len(list((tmp_path / "messages").iterdir())) == 5
    assert MERGED == 64


def test_the_folder_of_the_tables_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old").chmod(0o755)
    for root in (str(tmp_path / "new"), f"file://{tmp_path}/url", str(tmp_path / "old")):
        Archive(root).make()
    Archive("s3://bucket/tables").make()
    found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert found == dict.fromkeys(("new", "url", "old"), 0o700)

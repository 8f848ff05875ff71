"""Upkeep beside the batches: what is merged, what is let go of, what is removed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.ids import AppId, QueueId, SessionId
from headgate.pipeline.tables import lease, upkeep
from headgate.pipeline.tables.archive import DATA, LOG, STATE_EVERY, Archive
from headgate.pipeline.tables.keeper import Keeper
from headgate.pipeline.tables.manifests import Batch, File, Manifest, State
from headgate.pipeline.tables.tables import TABLES
from headgate.pipeline.tables.upkeep import (
    GRACE_SECONDS,
    ORPHAN_SECONDS,
    TARGET_BYTES,
    TOGETHER,
    TOGETHER_LATE,
    Group,
)
from headgate.pipeline.tables.wanted import WANTED
from tests.support.journals import DAY, facts_of_a_day
from tests.support.spark_frames import frame, rows

FACTS = list(facts_of_a_day(30))
TODAY, YESTERDAY = "2026-11-15", "2026-11-14"
NOW = 1_794_700_800.0
"""2026-11-15 00:00 UTC."""


def files(sizes: list[int], day: str = TODAY) -> list[File]:
    return [
        File(f"{DATA}/messages/batches={n}.x/on={day}/{n}", size, n, n + 1)
        for n, size in enumerate(sizes)
    ]


def planned(*found: File) -> list[list[int]]:
    """The places of the files in each group."""
    state = State()
    state.apply(Manifest(0, 1.0, 1, {"messages": list(found)}))
    groups = upkeep.plan(state, TODAY)
    return [[file.after for file in group.files] for group in groups]


def test_files_of_one_size_are_merged_once_there_are_enough() -> None:
    assert planned(*files([1000] * (TOGETHER - 1))) == []
    assert planned(*files([1000] * TOGETHER)) == [list(range(TOGETHER))]
    uneven = files([1000, 2**20] * (TOGETHER - 1))
    assert planned(*uneven) == [], "large ones are not written again with each few small ones"


def test_files_that_fill_one_are_merged_by_bytes() -> None:
    third = TARGET_BYTES // 3
    assert planned(*files([third] * 2)) == []
    assert planned(*files([third] * 7)) == [[0, 1, 2], [3, 4, 5]]
    assert planned(*files([TARGET_BYTES // 2] * 40)) == [], "they are large enough"


def test_small_files_of_a_day_that_is_over_are_merged_whatever_their_size() -> None:
    sizes = [10 ** (1 + n) for n in range(TOGETHER_LATE)]
    assert planned(*files(sizes, YESTERDAY)) == [list(range(TOGETHER_LATE))]
    assert planned(*files(sizes[1:], YESTERDAY)) == []


def test_days_are_not_mixed() -> None:
    mixed = [file for n in range(TOGETHER - 1) for file in files([100], f"2026-11-{15 + n:02}")]
    assert planned(*mixed) == []


def test_a_row_is_written_again_only_a_few_times() -> None:
    """A file of 1,000 bytes a batch, 3,000 of them: each byte is merged as often as the
    logarithm says."""
    state, number, merged = State(), 0, 0
    for batch in range(3000):
        path = f"{DATA}/messages/batches={batch}.x/on={TODAY}/a"
        added = File(path, 1000, batch, batch + 1)
        state.apply(Manifest(number, 1.0, 1, {"messages": [added]}))
        number += 1
        for group in upkeep.plan(state, TODAY):
            size = sum(file.bytes for file in group.files)
            whole = File(f"{path}-{number}/on={TODAY}/b", size, group.files[0].after, batch + 1)
            gone = [file.path for file in group.files]
            state.apply(Manifest(number, 1.0, 1, {"messages": [whole]}, {"messages": gone}))
            number, merged = number + 1, merged + size
    assert len(state.table("messages")) <= 3 * TOGETHER
    assert merged <= 3 * 3000 * 1000


def keep(spark: SparkSession, root: Path, batches: int) -> Archive:
    size = len(FACTS) // batches + 1
    for batch in range(batches):
        part = FACTS[batch * size : (batch + 1) * size]
        Keeper(str(root))(frame(spark, part, first=batch * size + 1), batch)
    return Archive(str(root), clock=lambda: DAY + 3 * 86_400)


def everything(spark: SparkSession, archive: Archive) -> dict[str, list[str]]:
    return {
        name: sorted(str(row) for row in archive.read(spark, table).collect())
        for name, table in TABLES.items()
    }


def test_compaction_changes_no_row_and_batches_go_on(spark: SparkSession, tmp_path: Path) -> None:
    archive = keep(spark, tmp_path, 5)
    before, seen = everything(spark, archive), archive.state()
    planned = archive.read(spark, TABLES["facts"])
    done = upkeep.tidy(spark, archive)
    assert done.merged > done.made > 0
    state = archive.state()
    assert len(state.table("facts")) < len(seen.table("facts"))
    assert state.upto == seen.upto
    assert everything(spark, archive) == before
    assert planned.count() == len(FACTS), "who planned before still finds the files"
    Keeper(str(tmp_path))(frame(spark, FACTS[:3], first=len(FACTS) + 1), 5)
    assert archive.read(spark, TABLES["facts"]).count() == len(FACTS) + 3
    assert upkeep.tidy(spark, archive).made == 0, "nothing is left to do"


def test_who_merges_what_another_has_merged_gives_up(spark: SparkSession, tmp_path: Path) -> None:
    archive = keep(spark, tmp_path, 4)
    before = everything(spark, archive)
    group = next(g for g in upkeep.plan(archive.state(), "9999") if g.table.name == "facts")
    assert upkeep.compact(spark, archive, group)
    assert not upkeep.compact(spark, archive, group)
    assert everything(spark, archive) == before


def test_upkeep_goes_on_in_a_thread_and_tells_of_failures(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rounds, enough = [0], threading.Event()

    def tidy(*args: object) -> None:
        rounds[0] += 1
        if rounds[0] == 3:
            enough.set()
        if rounds[0] == 1:
            raise lease.Held("somebody is at work")
        raise OSError("no room")

    monkeypatch.setattr(upkeep, "tidy", tidy)
    with upkeep.beside(spark, Archive(str(tmp_path)), None, pause=0.0):
        assert enough.wait(60)
    errors = capsys.readouterr().err
    assert "headgate: upkeep failed: no room" in errors
    assert "at work" not in errors, "what another does need not be done"


QUEUE, APP = QueueId(b"bmq://d/q"), AppId("")


def wanting(at: float, session: int, expression: str) -> list[Fact]:
    who = SessionId(session)
    return [
        f.Subscribed(at, QUEUE, APP, who),
        f.Interested(at, QUEUE, APP, who, 0, 1, expression, 1),
    ]


def test_days_that_are_too_old_go_and_what_still_lasts_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    """D13: what lasts went with its first day."""
    archive = Archive(str(tmp_path), clock=lambda: NOW)
    old: list[Fact] = [
        f.RouterStarted(NOW - 10 * 86_400, ""),
        *wanting(NOW - 9 * 86_400, 1, "lasts"),
        *wanting(NOW - 9 * 86_400, 2, "ended"),
        *wanting(NOW - 9 * 86_400, 3, "changed"),
    ]
    new: list[Fact] = [
        f.Unsubscribed(NOW - 60, QUEUE, APP, SessionId(2)),
        f.Interested(NOW - 60, QUEUE, APP, SessionId(3), 0, 1, "new", 1),
    ]
    Keeper(str(tmp_path))(frame(spark, old), 0)
    Keeper(str(tmp_path))(frame(spark, new, first=len(old) + 1), 1)
    table = TABLES["subscriptions"]
    living = [("lasts",), ("new",)]
    for _ in range(2):
        expired = upkeep.expire(spark, archive, 3)
        assert rows(archive.read(spark, table).where("until is null"), "expression") == living
    assert expired == 0, "what lasts is not written again each time"
    assert archive.read(spark, table).count() == 2
    assert {file.day for file in archive.state().table("facts")} == {YESTERDAY}
    gone: list[Fact] = [f.RouterStarted(NOW - 30, "")]
    Keeper(str(tmp_path))(frame(spark, gone, first=len(old) + len(new) + 1), 2)
    upkeep.expire(spark, archive, 3)
    assert rows(archive.read(spark, table), "expression") == [("new",)]


def test_events_of_what_is_over_become_rows_that_need_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive, table = Archive(str(tmp_path), clock=lambda: NOW), TABLES["subscriptions"]
    parts: list[list[Fact]] = [
        [f.RouterStarted(NOW - 90, ""), *wanting(NOW - 80, 1, "ends"), *wanting(NOW - 70, 2, "on")],
        [f.Unsubscribed(NOW - 60, QUEUE, APP, SessionId(1)), *wanting(NOW - 50, 1, "again")],
        [f.RouterStarted(NOW - 40, ""), *wanting(NOW - 30, 2, "last")],
    ]
    first = 1
    for batch, part in enumerate(parts):
        Keeper(str(tmp_path))(frame(spark, part, first=first), batch)
        first += len(part)
        events = [each for each in archive.state().table("subscriptions") if not each.is_folded]
        before = rows(archive.read(spark, table), "since", "until", "expression")
        assert upkeep.compact(spark, archive, Group(table, events, True))
        assert rows(archive.read(spark, table), "since", "until", "expression") == before
    assert [row[2] for row in before] == ["ends", "on", "again", "last"]
    assert [row[1] is None for row in before] == [False, False, False, True]
    left = [each for each in archive.state().table("subscriptions") if not each.is_folded]
    assert archive.stored(spark, table, left).count() == 1, "of four that were, one lasts"


def test_events_are_folded_all_together_and_what_is_over_is_merged_like_any_other() -> None:
    def path(attempt: str, day: str) -> str:
        return f"{DATA}/subscriptions/batches={attempt}/on={day}/a"

    state = State()
    events = [File(path(f"{n}.x", TODAY), 1000, n, n + 1) for n in range(TOGETHER)]
    over = [File(path(f"over.x{n}", YESTERDAY), 1000, n, n + 1) for n in range(TOGETHER_LATE)]
    state.apply(Manifest(0, 1.0, 1, {"subscriptions": [*events[1:], *over]}))
    assert [group.is_folded for group in upkeep.plan(state, TODAY)] == [False]
    state.apply(Manifest(1, 1.0, 1, {"subscriptions": [events[0]]}))
    folded, merged = upkeep.plan(state, TODAY)
    assert (folded.is_folded, len(folded.files)) == (True, TOGETHER)
    assert (merged.is_folded, len(merged.files)) == (False, TOGETHER_LATE)


def age(path: Path, seconds: float) -> None:
    os.utime(path, (NOW - seconds, NOW - seconds))


def test_files_go_after_their_grace_and_those_that_nobody_names_after_a_day(tmp_path: Path) -> None:
    moment = [NOW]
    archive = Archive(str(tmp_path), clock=lambda: moment[0])
    paths = [f"{DATA}/messages/batches={n}.x/on={TODAY}/a.parquet" for n in range(4)]
    for path in paths:
        archive.storage.put(path, b"rows")
        age(tmp_path / path, 60)
    age(tmp_path / paths[3], ORPHAN_SECONDS + 60)
    archive.commit({"messages": [File(path, 4, 0, 1) for path in paths[:2]]})
    archive.commit({}, {"messages": [paths[0]]})

    def left() -> list[int]:
        return [n for n, path in enumerate(paths) if (tmp_path / path).exists()]

    assert upkeep.clean(archive) == 1
    assert left() == [0, 1, 2]
    moment[0] += GRACE_SECONDS + 1
    upkeep.clean(archive)
    assert left() == [1, 2]
    moment[0] += ORPHAN_SECONDS
    upkeep.clean(archive)
    assert left() == [1]


def test_what_a_stream_replaced_goes_after_its_grace_though_the_log_is_short(
    tmp_path: Path,
) -> None:
    """Batches come each second, so the manifests of minutes ago are not needed to know what counts;
    those that removed something are, until it is gone."""
    moment = [NOW]
    archive = Archive(str(tmp_path), clock=lambda: moment[0])
    path = f"{DATA}/messages/batches=0.x/on={TODAY}/a.parquet"
    archive.storage.put(path, b"rows")
    age(tmp_path / path, 60)
    archive.commit({"messages": [File(path, 4, 0, 1)]})
    archive.commit({}, {"messages": [path]})
    for number in range(3 * STATE_EVERY):
        archive.commit({"messages": [File(f"m{number}", 1, number, number + 1)]})
    upkeep.clean(archive)
    assert (tmp_path / path).exists(), "for who planned with it"
    assert archive.storage.names(LOG)[0] == f"{1:020}.json"
    moment[0] += GRACE_SECONDS + 1
    upkeep.clean(archive)
    assert not (tmp_path / path).exists()
    upkeep.clean(archive)
    assert archive.storage.names(LOG)[0] > f"{STATE_EVERY:020}.json"


def test_who_wanted_what_before_the_last_batch_goes_after_the_grace(tmp_path: Path) -> None:
    """With a hundred thousand subscribers each batch that changes one writes hundreds of KB."""
    archive = Archive(str(tmp_path), clock=lambda: NOW)
    kept = []
    for batch, seconds in enumerate((GRACE_SECONDS + 60, GRACE_SECONDS + 30, 0.0)):
        kept.append(archive.wish(f"{batch}.x", WANTED.empty_table()))
        age(tmp_path / kept[-1], seconds)
    slow = archive.wish("3.x", WANTED.empty_table())
    age(tmp_path / slow, GRACE_SECONDS + 10)
    archive.commit({}, batch=Batch(0, "q", "", 0, 1, 1, NOW, NOW, 1.0, wishes=kept[1]))
    assert upkeep.clean(archive) == 1
    assert [(tmp_path / path).exists() for path in kept] == [False, True, True]
    assert (tmp_path / slow).exists(), "its batch may be at work"


def test_the_log_from_before_the_last_but_one_state_goes(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    for number in range(3 * STATE_EVERY + 2):
        archive.commit({"messages": [File(f"m{number}", 1, number, number + 1)]})
    before = archive.state()
    upkeep.clean(archive)
    assert archive.state() == before
    assert len(archive.storage.names(LOG)) == STATE_EVERY + 2 + 2, "manifests, and two states"

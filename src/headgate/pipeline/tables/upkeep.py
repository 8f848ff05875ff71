"""Upkeep of the tables, beside the batches: compaction, retention, removing what counts no more.

It commits manifests like a batch does, so neither waits for the other: a batch takes the next
number, and upkeep whose files somebody else has replaced gives up.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core.model.limits import MiB
from headgate.core.model.value import value
from headgate.pipeline.session import reason
from headgate.pipeline.tables import lease, mirrors
from headgate.pipeline.tables.archive import (
    DATA,
    ENTRY,
    LOG,
    STATE,
    WISHES,
    Archive,
    attempt_of,
)
from headgate.pipeline.tables.background import in_background
from headgate.pipeline.tables.manifests import File, Outdated, State, decode_manifest
from headgate.pipeline.tables.tables import TABLES, Table

TARGET_BYTES = 128 * MiB
"""The size that files grow to."""
TOGETHER = 16
"""So many files of one size become one."""
TOGETHER_LATE = 4
"""So many small ones of a day that is over."""
FACTOR = 16
"""Files are of one size if none has so many times the bytes of another."""
GRACE_SECONDS = 600.0
"""How long files stay after the manifest that removed them, for queries planned with them."""
ORPHAN_SECONDS = 86_400.0
"""How long files stay that no manifest names: their batch may be at work, or has died."""
PAUSE_SECONDS = 60.0
"""Between two rounds beside a stream."""


@value
class Group:
    """Files of one table and one day, to be merged into one."""

    table: Table
    files: list[File]
    is_folded: bool = False
    """Whether they are all events that there are, of which the table's fold is made."""


@value
class Tidied:
    """The outcome of a round of upkeep, in numbers of files."""

    merged: int = 0
    """Files that were replaced by larger ones."""
    made: int = 0
    expired: int = 0
    """Files of days that are too old."""
    deleted: int = 0


def tidy(
    session: SparkSession,
    archive: Archive,
    keep_days: int | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Tidied:
    """One round: merge small files, let go of days that are too old, remove what counts no more."""
    with lease.held(archive.storage, lease.TIDIER):
        groups = plan(archive.state(), _day(archive, 0))

        def compacted(group: Group) -> bool:
            return not is_over() and compact(session, archive, group)

        with ThreadPoolExecutor(_tasks(session)) as pool:
            outcomes = zip(groups, pool.map(compacted, groups), strict=True)
            done = [group for group, is_done in outcomes if is_done]
        return Tidied(
            merged=sum(len(group.files) for group in done),
            made=len(done),
            expired=expire(session, archive, keep_days) if keep_days is not None else 0,
            deleted=clean(archive) if mirrors.bring_along(archive) else 0,
        )


@contextmanager
def beside(
    session: SparkSession,
    archive: Archive,
    keep_days: int | None,
    pause: float = PAUSE_SECONDS,
    failed: Callable[[str], object] = lambda what: None,
) -> Iterator[None]:
    """Rounds of upkeep in a thread, until it ends. A round that fails is told of, and the next
    one tries again: the batches do not depend on it."""

    def rounds(over: threading.Event) -> None:
        while not over.wait(pause):
            try:
                tidy(session, archive, keep_days, over.is_set)
            except lease.Held:
                pass  # somebody else does it
            except Exception as error:
                if not over.is_set():
                    failed("upkeep")
                    print(f"headgate: upkeep failed: {reason(error)}", file=sys.stderr)

    with in_background("upkeep", rounds):
        yield


# Compaction.


def plan(state: State, today: str) -> list[Group]:
    """The files that are worth merging now, decided without opening one."""
    groups = []
    for name, table in TABLES.items():
        files = state.table(name)
        for _, old in _by_day(file for file in files if file.is_old):
            groups += [Group(table, cut) for cut in _cut(old)]
        if table.fold is not None:
            events = [file for file in files if not file.is_old and not file.is_folded]
            groups += [Group(table, events, True)] if len(events) >= TOGETHER else []
            files = [file for file in files if file.is_folded]
        new = (file for file in files if not file.is_old)
        for day, files in _by_day(file for file in new if file.bytes < TARGET_BYTES // 2):
            if day < today and len(files) >= TOGETHER_LATE:
                chosen = [cut for cut in _cut(files) if len(cut) > 1]
            else:
                tiers = [tier for tier in _tiers(files) if _is_enough(tier, TARGET_BYTES)]
                cuts = [cut for tier in tiers for cut in _cut(tier)]
                chosen = [cut for cut in cuts if _is_enough(cut, TARGET_BYTES // 2)]
            groups += [Group(table, cut) for cut in chosen]
    return groups


def compact(session: SparkSession, archive: Archive, group: Group) -> bool:
    """Make one file of a group, in one task. Whether it counts; if not, somebody was faster."""
    table, rows = group.table, archive.stored(session, group.table, group.files)
    parts = {attempt_of("tidy"): rows}
    if group.is_folded:
        assert table.fold is not None, "it is planned for those that have one"
        assert table.lasting is not None, "what is not over lasts"
        parts = {attempt_of("over"): table.fold(rows), attempt_of("tidy"): table.lasting(rows)}
    made: list[File] = []
    for attempt, part in parts.items():
        made += _written(archive, table, attempt, part, group.files)
    try:
        archive.commit({table.name: made}, {table.name: [file.path for file in group.files]})
    except Outdated:
        return False
    return True


def _written(
    archive: Archive, table: Table, attempt: str, rows: DataFrame, of: list[File]
) -> list[File]:
    """Write what becomes of the rows of some files, in one task; it is made of the same facts."""
    archive.write(table, attempt, rows.coalesce(1))
    after, upto = min(file.after for file in of), max(file.upto for file in of)
    return archive.written(table, attempt, after, upto)


def _by_day(files: Iterable[File]) -> Iterator[tuple[str, list[File]]]:
    for day, found in groupby(sorted(files, key=lambda file: file.day), lambda file: file.day):
        yield day, list(found)


def _tiers(files: Iterable[File]) -> list[list[File]]:
    """The files by their size: each tier is so many times the one before it."""
    tiers: dict[int, list[File]] = {}
    for file in files:
        tier, size = 0, file.bytes
        while size >= FACTOR:
            tier, size = tier + 1, size // FACTOR
        tiers.setdefault(tier, []).append(file)
    return list(tiers.values())


def _is_enough(files: list[File], least: int) -> bool:
    return len(files) >= TOGETHER or sum(file.bytes for file in files) >= least


def _cut(files: Iterable[File]) -> Iterator[list[File]]:
    """Runs of files that fill one of the size that is wanted."""
    run: list[File] = []
    for file in files:
        if run and sum(each.bytes for each in run) + file.bytes > TARGET_BYTES:
            yield run
            run = []
        run.append(file)
    yield run


def _tasks(session: SparkSession) -> int:
    """How many groups are worked on at once: as many as Spark has cores."""
    try:
        return max(1, session.sparkContext.defaultParallelism)
    except PySparkException:  # a client of Spark Connect cannot know
        return os.cpu_count() or 1


# Retention.


def expire(session: SparkSession, archive: Archive, keep_days: int) -> int:
    """Let go of the files of days that are too old, but for rows that still last; say how many."""
    state, oldest = archive.state(), _day(archive, keep_days)
    added: dict[str, list[File]] = {}
    removed: dict[str, list[str]] = {}
    for name, table in TABLES.items():
        old = [file for file in state.table(name) if file.day < oldest]
        if old and table.lasting is not None:
            rows = archive.stored(session, table, state.table(name))
            lasting = table.lasting(rows).where(F.col("day") < F.lit(oldest).cast("date"))
            if lasting.count() == archive.stored(session, table, old).count():
                continue  # nothing of it is over
            added[name] = _written(archive, table, attempt_of("lasting"), lasting, old)
        removed[name] = [file.path for file in old]
    if not any(removed.values()):
        return 0
    try:
        archive.commit(added, removed)
    except Outdated:
        return 0  # another round finds what is there then
    return sum(map(len, removed.values()))


def _day(archive: Archive, ago: int) -> str:
    today = datetime.fromtimestamp(archive.clock(), UTC).date()
    return (today - timedelta(ago)).isoformat()


# Cleaning.


def clean(archive: Archive) -> int:
    """Remove files that count no more, after their grace, and the log from before the last but
    one state, except for what says since when files count no more; say how many files."""
    storage, state, now = archive.storage, archive.state(), archive.clock()
    names = storage.names(LOG)
    states = [int(match[1]) for name in names if (match := STATE.fullmatch(name))]
    oldest = states[-2] if len(states) > 1 else 0
    gone: dict[str, float] = {}
    done = [name for name in names if (match := STATE.fullmatch(name)) and int(match[1]) < oldest]
    for name in names:
        if match := ENTRY.fullmatch(name):
            data = storage.read(f"{LOG}/{name}")
            if data is None:
                continue
            manifest = decode_manifest(data)
            removed = [path for paths in manifest.removed.values() for path in paths]
            gone |= dict.fromkeys(removed, manifest.at)
            is_needed = removed and now - manifest.at <= GRACE_SECONDS
            if manifest.number < oldest and not is_needed:
                done.append(name)
    counts = {path for files in state.files.values() for path in files}
    wishes = state.batch.wishes if state.batch is not None else None
    found = storage.walk(DATA)
    since = next((each.written for each in found if each.path == wishes), 0.0)
    deleted = 0
    for each in found:
        if each.path in counts or each.path == wishes:
            continue
        if each.path.rpartition("/")[2].startswith("."):
            continue
        gone_at = gone.get(each.path, now)
        if each.path.startswith(WISHES) and each.written < since:
            gone_at = each.written  # a batch after the last one writes its own later
        if now - gone_at > GRACE_SECONDS or now - each.written > ORPHAN_SECONDS:
            storage.delete(each.path)
            deleted += 1
    for name in done:
        storage.delete(f"{LOG}/{name}")
    return deleted

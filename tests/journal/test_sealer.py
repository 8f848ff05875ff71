"""Outbox rows to segments: each fact once, wherever somebody dies."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.core.facts import KINDS, Accepted
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.ntf_facts import NTF_KINDS
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import Batch
from headgate.errors import StoreError
from headgate.journal import reader as reading
from headgate.journal.columns import COLUMNS, SCHEMA
from headgate.journal.sealer import Bounds, Sealer
from headgate.journal.sealer_process import URL_VARIABLE, Journal, JournalSettings
from headgate.journal.segments import (
    PART,
    Segment,
    all_files,
    current,
    last_number,
    name_of,
    segments,
)
from headgate.store import open_store
from headgate.store.base import Store
from headgate.store.postgres import PostgresStore
from tests.support.journals import write_journal


class Died(Exception):
    pass


class Bench:
    """A database with an outbox, and a folder for its journal."""

    def __init__(self, folder: Path, source: str) -> None:
        self.source = source
        self.directory = folder / "journal"
        self.now = 1_000_000.0

    def store(self) -> Store:
        return open_store(self.source, self.directory)

    def write(self, *batches: Batch) -> None:
        async def write() -> None:
            store = self.store()
            await store.open()
            for batch in batches:
                await store.apply(batch)
            await store.close()

        asyncio.run(write())

    def record(self, *rows: tuple[int, int], sealed: int | None = None) -> None:
        batches = []
        for first, last in rows:
            told = [("SessionOpened", 1.5, n, "w", f"n{n}") for n in range(first, last + 1)]
            batches.append(Batch(outbox=OutboxRow(first, told, 1)))
        if sealed is not None:
            batches.append(Batch(sealed=sealed))
        self.write(*batches)

    def sealer(self, bounds: Bounds | None = None, dies: str = "") -> Sealer:
        def at_step(step: str) -> None:
            if step == dies:
                raise Died

        sealer = Sealer(self.source, self.directory, bounds or Bounds(), at_step)
        sealer.now = sealer.sure = self.now
        return sealer

    def process(self) -> tuple[list[str], dict[str, str]]:
        """Arguments and environment of a sealer."""
        arguments = [sys.executable, "-m", "headgate.journal.sealer", "-", str(self.directory)]
        return arguments, {**os.environ, URL_VARIABLE: self.source}

    def numbers(self) -> list[int]:
        return [fact["number"] for fact in reading.facts(self.directory)]

    def age(self, seconds: float) -> None:
        for segment in self.directory.iterdir():
            os.utime(segment, (self.now - seconds, self.now - seconds))


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    if request.param == "sqlite":
        return Bench(tmp_path, f"sqlite:{tmp_path}/q.db")
    return Bench(tmp_path, request.getfixturevalue("url"))


def test_rows_become_a_segment_named_by_its_numbers(bench: Bench) -> None:
    bench.record((1, 3), (7, 8))
    sealer = bench.sealer()
    assert sealer.seal(100)
    assert not sealer.seal(100)
    sealer.close()
    [segment] = segments(bench.directory)
    assert segment.path.name == f"{1:020}-{8:020}.parquet"
    assert bench.numbers() == [1, 2, 3, 7, 8]
    fact = next(reading.facts(bench.directory))
    assert fact == {
        "number": 1,
        "kind": "SessionOpened",
        "at": 1.5,
        "session": 1,
        "wire": "w",
        "name": "n1",
    }


def test_nothing_beyond_the_watermark_is_sealed(bench: Bench) -> None:
    bench.record((1, 3), (4, 6), (7, 9))
    sealer = bench.sealer()
    sealer.seal(6)
    sealer.close()
    assert bench.numbers() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("step", ["written", "renamed"])
def test_a_sealer_that_dies_leaves_each_fact_once(bench: Bench, step: str) -> None:
    """After the write, after the rename, before the rows are deleted."""
    bench.record((1, 3))
    dying = bench.sealer(dies=step)
    with pytest.raises(Died):
        dying.seal(3)
    dying.close()
    assert bool(list(bench.directory.glob(f"*{PART}"))) == (step == "written")
    bench.record((4, 5))
    sealer = bench.sealer()
    sealer.seal(5)
    sealer.close()
    assert not list(bench.directory.glob(f"*{PART}"))
    assert bench.numbers() == [1, 2, 3, 4, 5]


def test_a_folder_has_one_sealer_at_a_time(bench: Bench) -> None:
    """A killed router leaves its sealer at work for a moment. With two in a folder, one removed
    the file that the other was writing, and their segments could overlap."""
    bench.record((1, 3))
    orphan = bench.sealer()
    with pytest.raises(StoreError, match="another sealer works in"):
        Sealer(bench.source, bench.directory, Bounds(), patience=0)
    orphan.close()
    bench.sealer().close()


def test_a_sealer_whose_router_is_gone_ends_without_a_word(bench: Bench) -> None:
    bench.record((1, 3))
    arguments, environment = bench.process()
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        arguments,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_sealer_seals_what_its_input_allows(bench: Bench) -> None:
    bench.record((1, 3), (4, 6))
    arguments, environment = bench.process()
    ended = subprocess.run(
        arguments,
        env=environment,
        input=b"seal 3 100.5 100.5\nseal 6 101.5 101.5\n",
        capture_output=True,
        timeout=120,
    )
    assert ended.stdout.split() == b"sealed 0 sealed 3 done sealed 6 done".split()
    assert bench.numbers() == [1, 2, 3, 4, 5, 6]


def test_a_sealer_without_its_database_says_why_in_one_line(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "postgresql://me:sesame@127.0.0.1:1/db")
    arguments, environment = bench.process()
    ended = subprocess.run(
        arguments, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    assert ended.returncode == 1
    [line] = ended.stderr.decode().splitlines()
    assert line.startswith("postgresql://me:***@127.0.0.1:1/db: the server cannot be reached")
    assert "sesame" not in line


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_sealer_that_cannot_write_says_why_in_one_line(tmp_path: Path, is_folder: bool) -> None:
    bench = Bench(tmp_path, f"sqlite:{tmp_path}/q.db")
    bench.record((1, 3))
    if is_folder:  # where the first segment is to be
        bench.directory.mkdir()
        (bench.directory / (name_of(1, 3) + PART)).mkdir()
    else:
        bench.directory.write_text("not a folder")
    arguments, environment = bench.process()
    ended = subprocess.run(
        arguments, env=environment, input=b"seal 3 1.5 1.5\n", capture_output=True, timeout=120
    )
    assert ended.returncode == 1
    [line] = ended.stderr.decode().splitlines()
    assert line.startswith(f"{bench.directory}: segments cannot be written; check")


async def test_the_journal_of_a_database_hides_its_url(tmp_path: Path, url: str) -> None:
    """Everybody on the machine can read the arguments of a process."""
    store = PostgresStore(url)
    await store.open()
    await store.apply(Batch(outbox=OutboxRow(1, [("RouterStarted", 1.0, "v")], 1)))
    sealed: asyncio.Queue[int] = asyncio.Queue()
    journal = Journal(
        url,
        JournalSettings(tmp_path / "journal", 1_000_000, None, None),
        watermark=lambda: 1,
        sealed=sealed.put_nowait,
        expired=lambda last, size: None,
        clock=lambda: 1000.0,
        sure=lambda: 1000.0,
    )
    journal.start()
    async with asyncio.timeout(60):
        while await sealed.get() < 1:
            pass
    assert journal.process is not None
    arguments = Path(f"/proc/{journal.process.pid}/cmdline").read_bytes()  # noqa: ASYNC240
    assert b"headgate.journal.sealer" in arguments
    assert b"postgresql" not in arguments
    await journal.stop()
    await store.close()
    assert [fact["kind"] for fact in reading.facts(tmp_path / "journal")] == ["RouterStarted"]


def test_rows_that_were_sealed_but_not_deleted_are_not_sealed_again(bench: Bench) -> None:
    bench.record((1, 3))
    sealer = bench.sealer()
    sealer.seal(3)
    sealer.close()
    again = bench.sealer()
    assert again.last == 3
    assert not again.seal(3)
    again.close()


def test_a_large_outbox_is_sealed_in_pieces(bench: Bench) -> None:
    bench.record(*((n, n) for n in range(1, 11)))
    sealer = bench.sealer(Bounds(segment_bytes=100))
    pieces = 0
    while sealer.seal(10):
        pieces += 1
    sealer.close()
    assert pieces > 1
    assert bench.numbers() == list(range(1, 11))


def test_small_segments_are_merged_and_the_replaced_stay_for_a_while(bench: Bench) -> None:
    bounds = Bounds(merge_files=3, grace_seconds=100)
    sealer = None
    for number in range(1, 5):
        bench.record((number, number))
        sealer = bench.sealer(bounds)
        sealer.seal(number)
        sealer.close()
    sealer = bench.sealer(bounds)
    assert sealer.merge()
    assert not sealer.merge()
    assert bench.numbers() == [1, 2, 3, 4]
    assert len(segments(bench.directory)) == 2
    bench.age(50)
    sealer.expire()
    assert len(all_files(bench.directory)) == 5
    bench.age(150)
    sealer.expire()
    assert len(all_files(bench.directory)) == 2
    assert bench.numbers() == [1, 2, 3, 4]
    sealer.close()


def test_a_merge_has_one_group_of_rows_in_memory_whatever_they_are_in_files(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal bodies take next to nothing in files."""
    monkeypatch.setattr("headgate.journal.sealer.BYTES_TOGETHER", 1 << 20)
    size = 1 << 18
    fact = Accepted(1.0, QueueId(b"bmq://d/q"), MessageId(b"m"), size, {}, bytes(size))
    paths = write_journal(bench.directory, [fact] * 60, per_segment=6)
    older = pq.read_table(paths[4]).drop_columns(["body", "priority"])
    pq.write_table(older, paths[4])
    bench.record((61, 61))
    held, before, write = [], pa.total_allocated_bytes(), pq.ParquetWriter.write_table

    def written(self: pq.ParquetWriter, table: pa.Table, rows: int) -> None:
        held.append(pa.total_allocated_bytes() - before)
        write(self, table, rows)

    sealer = bench.sealer(Bounds(merge_files=10))
    monkeypatch.setattr(pq.ParquetWriter, "write_table", written)
    assert sealer.merge()
    sealer.close()
    assert [(each.first, each.last) for each in segments(bench.directory)] == [(1, 60)]
    assert bench.numbers() == list(range(1, 61))
    assert len(held) >= 54 // 4
    assert max(held) < 6 << 20, "of 14 MiB of bodies"


def test_a_merge_that_dies_changes_nothing_that_is_read(bench: Bench) -> None:
    bounds = Bounds(merge_files=2)
    for number in (1, 2):
        bench.record((number, number))
        sealer = bench.sealer(bounds)
        sealer.seal(number)
        sealer.close()
    for step in ("written", "renamed"):
        dying = bench.sealer(bounds, dies=step)
        with pytest.raises(Died):
            dying.merge()
        dying.close()
        assert bench.numbers() == [1, 2]


def test_a_segment_that_cannot_be_read_is_left_out_of_merges(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = Bounds(merge_files=2)
    for number in range(1, 6):
        bench.record((number, number))
        sealer = bench.sealer(bounds)
        sealer.seal(number)
        sealer.close()
    broken = segments(bench.directory)[1]
    broken.path.write_bytes(b"PAR1")
    sealer = bench.sealer(bounds)
    while sealer.merge():
        pass
    sealer.close()
    assert [(s.first, s.last) for s in segments(bench.directory)] == [
        (1, 1),
        (2, 2),
        (3, 5),
    ]
    assert broken.path.name in capsys.readouterr().err


def test_what_is_too_old_or_too_much_goes_oldest_first(bench: Bench) -> None:
    for number in range(1, 5):
        bench.record((number, number))
        sealer = bench.sealer()
        sealer.seal(number)
        sealer.close()
    size = segments(bench.directory)[0].bytes
    bench.age(10)
    roomy = bench.sealer(Bounds(keep_seconds=100, keep_bytes=10 * size))
    assert roomy.expire() is None
    roomy.close()
    tight = bench.sealer(Bounds(keep_seconds=100, keep_bytes=2 * size + size // 2))
    expired = tight.expire()
    assert expired is not None
    assert expired[0] == 2
    assert bench.numbers() == [3, 4]
    tight.close()
    bench.age(200)
    old = bench.sealer(Bounds(keep_seconds=100))
    old.expire()
    old.close()
    assert bench.numbers() == [4], "the newest names the last number, and stays"
    assert last_number(bench.directory) == 4


def test_an_unknown_kind_and_fewer_fields_are_kept_as_far_as_they_go(bench: Bench) -> None:
    told: Sequence[tuple[object, ...]] = [("FromTheFuture", 1.0, "x"), ("SessionOpened", 2.0)]
    bench.write(Batch(outbox=OutboxRow(1, told, 1)))
    sealer = bench.sealer()
    sealer.seal(2)
    sealer.close()
    assert list(reading.facts(bench.directory)) == [
        {"number": 1, "kind": "FromTheFuture"},
        {"number": 2, "kind": "SessionOpened", "at": 2.0},
    ]


def test_properties_are_typed_and_bytes_are_left_out(bench: Bench) -> None:
    properties = {"b": True, "i": -5, "s": "é", "x": b"\xff"}
    told = [("Accepted", 1.0, b"q", b"m", 3, properties, b"body")]
    bench.write(Batch(outbox=OutboxRow(1, told, 1)))
    sealer = bench.sealer()
    sealer.seal(1)
    sealer.close()
    [fact] = reading.facts(bench.directory)
    found = {
        name: {k: v for k, v in kinds.items() if v is not None}
        for name, kinds in fact["properties"]
    }
    assert found == {"b": {"b": True}, "i": {"i": -5}, "s": {"s": "é"}}
    assert fact["body"] == b"body"


def test_every_fact_has_its_columns(bench: Bench) -> None:
    for kind in (*KINDS, *NTF_KINDS):
        assert set(kind.__dataclass_fields__) <= set(COLUMNS)
    bench.record((1, 1))
    sealer = bench.sealer()
    sealer.seal(1)
    sealer.close()
    [segment] = segments(bench.directory)
    assert pq.read_schema(segment.path).names == SCHEMA.names


def test_of_overlapping_segments_the_widest_counts() -> None:
    def segment(first: int, last: int) -> Segment:
        return Segment(first, last, Path(name_of(first, last)), 1)

    wide, small, next_one = segment(1, 9), segment(1, 3), segment(10, 12)
    assert current([wide, small, segment(4, 9), next_one]) == [wide, next_one]


def test_a_broken_segment_is_named_and_the_others_are_fine(bench: Bench) -> None:
    for number in (1, 2, 3):
        bench.record((number, number))
        sealer = bench.sealer()
        sealer.seal(number)
        sealer.close()
    broken = bench.directory / name_of(2, 2)
    broken.write_bytes(broken.read_bytes()[:-20])
    (bench.directory / name_of(1, 1)).rename(bench.directory / name_of(0, 1))
    problems = [finding.problem for finding in reading.verify(bench.directory)]
    assert problems[0] == "its facts are not those of its name"
    assert problems[1] is not None
    assert "cannot be read" in problems[1]
    assert problems[2] is None

"""A journal has one identity, wherever its segments are."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import Batch
from headgate.journal.identity import KEY, identified, identity_of
from headgate.journal.sealer import Bounds, Sealer
from headgate.journal.segments import IDENTITY, all_files, identity_file
from headgate.store.sqlite import SqliteStore
from tests.support.journals import facts_of_a_day, write_journal


def test_a_journal_keeps_the_identity_it_was_given(tmp_path: Path) -> None:
    known = identified(tmp_path)
    assert len(known) == 32
    assert identified(tmp_path) == known == identity_file(tmp_path)
    assert (tmp_path / IDENTITY).stat().st_mode & 0o777 == 0o600
    assert IDENTITY.startswith("_"), "Spark would take it for a segment"
    other = tmp_path / "other"
    other.mkdir()
    assert identified(other) != known


def test_one_whose_file_is_gone_is_known_by_its_segments(tmp_path: Path) -> None:
    write_journal(tmp_path, facts_of_a_day(2), per_segment=5, identity="one")
    assert identity_of(tmp_path, all_files(tmp_path)) == "one"
    assert identified(tmp_path) == "one"


def test_one_from_before_there_were_identities_has_none_until_it_is_sealed(tmp_path: Path) -> None:
    path, *_ = write_journal(tmp_path, facts_of_a_day(2), per_segment=100)
    assert identity_of(tmp_path, all_files(tmp_path)) == ""
    path.write_bytes(b"no segment")
    assert identity_of(tmp_path, all_files(tmp_path)) == ""


def test_the_sealer_says_in_every_segment_whose_it_is(tmp_path: Path) -> None:
    journal = tmp_path / "journal"

    async def tell() -> None:
        store = SqliteStore(tmp_path / "queues.db")
        await store.open()
        await store.apply(Batch(outbox=OutboxRow(1, [("RouterStarted", 1.0, "")], 64)))
        await store.close()

    asyncio.run(tell())
    sealer = Sealer(f"sqlite:{tmp_path}/queues.db", journal, Bounds())
    assert sealer.seal(1)
    sealer.close()
    (segment,) = all_files(journal)
    known = identity_file(journal)
    assert pq.read_metadata(segment.path).metadata[KEY].decode() == known
    shutil.copy(segment.path, tmp_path)
    assert identity_of(tmp_path, all_files(tmp_path)) == known

"""What is written is for its owner alone, whatever the rights of new files are by default."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headgate.core.model.limits import Limits
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import Batch
from headgate.journal import snapshot
from headgate.journal.sealer import Bounds, Sealer
from headgate.server.admin.staging import Place, Staging
from headgate.store.private import is_open_to_others, make_folder, narrow
from headgate.store.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def rights(folder: Path) -> dict[str, int]:
    """Of everything below a folder, and the folder itself."""
    found = [folder, *folder.rglob("*")]
    return {
        str(path.relative_to(folder.parent)): stat.S_IMODE(path.stat().st_mode) for path in found
    }


def assert_private(folder: Path) -> None:
    for name, mode in rights(folder).items():
        is_folder = (folder.parent / name).is_dir()
        assert (name, oct(mode)) == (name, "0o700" if is_folder else "0o600")


async def test_the_files_of_a_store_and_of_its_journal(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    store = SqliteStore(state / "queues.db")
    await store.open()
    await store.apply(Batch(outbox=OutboxRow(1, [("SessionOpened", 1.5, 1, "w", "n")], 1)))
    sealer = Sealer(f"sqlite:{state}/queues.db", state / "journal", Bounds())
    assert sealer.seal(1)
    sealer.close()
    assert {"state/queues.db-wal", "state/queues.db-shm"} <= {*rights(state)}
    await asyncio.to_thread(snapshot.take, state / "queues.db", state / "snapshots" / "one")
    await store.close()
    assert any(path.endswith(".parquet") for path in rights(state / "journal"))
    assert any(path.endswith(".parquet") for path in rights(state / "snapshots"))
    assert_private(tmp_path / "deep")


async def test_rows_that_a_sink_staged(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "state" / "sinks", Limits(), lambda: 1000.0)
    staging.open()

    async def body() -> AsyncIterator[bytes]:
        yield b"secret"

    await staging.write(Place("s", 0, 0, 0), body(), Limits().sink_bytes)
    assert len(rights(tmp_path / "state")) == 3
    assert_private(tmp_path / "state")


async def test_what_is_there_already_is_narrowed(tmp_path: Path) -> None:
    """A copy that was put back, or a folder that an older router made."""
    database = tmp_path / "state" / "queues.db"
    store = SqliteStore(database)
    await store.open()
    await store.close()
    database.chmod(0o644)
    journal, sinks = tmp_path / "state" / "journal", tmp_path / "state" / "sinks"
    for folder in (journal, sinks):
        folder.mkdir(mode=0o755)
    store = SqliteStore(database)
    await store.open()
    Sealer(f"sqlite:{database}", journal, Bounds()).close()
    Staging(sinks, Limits(), lambda: 1000.0).open()
    await store.close()
    assert_private(tmp_path / "state")


def test_who_may_use_it_is_not_changed_for_the_owner(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.touch(0o444)
    assert is_open_to_others(file)
    narrow(file, tmp_path / "none")
    make_folder(folder)
    assert (rights(tmp_path)[f"{tmp_path.name}/file"], is_open_to_others(file)) == (0o400, False)
    assert not is_open_to_others(tmp_path / "none")

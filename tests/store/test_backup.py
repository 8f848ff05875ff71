"""What docs/stores.md says of backups, done while a store is written to."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
from pathlib import Path

from headgate.core.model.ids import WHOLE, MessageId, QueueId, Seq
from headgate.core.model.message import Message, Stored
from headgate.core.model.parties import Parties, QueueRecord
from headgate.core.turn.store_requests import Batch, Load
from headgate.store.base import Store
from headgate.store.postgres import PostgresStore
from headgate.store.sqlite import SqliteStore
from headgate.testing.postgres import PostgresCluster, binaries

QUEUE = QueueId(b"q")
RECORD = QueueRecord(QUEUE, "smp", None, Parties((b"key",), b"secret", b"sender"))


async def write(store: Store, written: list[int], stop: asyncio.Event) -> None:
    """One message after another; `written` has those that are answered."""
    await store.apply(Batch(create={QUEUE: RECORD}))
    for number in range(1, 100_000):
        if stop.is_set():
            return
        message = Message(MessageId(b"%d" % number), bytes(3000), float(number))
        stored = Stored(Seq(number), QUEUE, message, (WHOLE,))
        await store.apply(Batch(append={stored.seq: stored}))
        written.append(number)
        await asyncio.sleep(0)


async def until(written: list[int], count: int) -> None:
    async with asyncio.timeout(30):
        while len(written) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def numbers(store: Store) -> list[int]:
    await store.open()
    loaded = await store.load(Load(heads={QUEUE: 100_000}))
    head = loaded.heads[QUEUE]
    await store.close()
    assert head.record == RECORD
    return [int(stored.message.id) for stored in head.first]


def run(arguments: list[str]) -> None:
    subprocess.run(arguments, check=True, timeout=60)


def check(found: list[int], before: list[int]) -> None:
    """It is what there was at one moment, and nothing that was answered before it is missing."""
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= len(before)


async def test_a_backup_of_sqlite_while_it_is_written_to(tmp_path: Path) -> None:
    def back_up() -> None:
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "queues.db")) as source,
            contextlib.closing(sqlite3.connect(tmp_path / "backup.db")) as target,
        ):
            source.backup(target)  # what the shell's .backup does

    store, written, stop = SqliteStore(tmp_path / "queues.db"), list[int](), asyncio.Event()
    await store.open()
    writing = asyncio.create_task(write(store, written, stop))
    await until(written, 50)
    before = list(written)
    await asyncio.to_thread(back_up)
    stop.set()
    await writing
    await store.close()
    check(await numbers(SqliteStore(tmp_path / "backup.db")), before)


async def test_a_dump_of_postgresql_while_it_is_written_to(
    cluster: PostgresCluster, url: str, tmp_path: Path
) -> None:
    folder = binaries()
    assert folder is not None
    store, written, stop = PostgresStore(url), list[int](), asyncio.Event()
    await store.open()
    writing = asyncio.create_task(write(store, written, stop))
    await until(written, 50)
    before = list(written)
    file = str(tmp_path / "headgate.dump")
    dump = [str(folder / "pg_dump"), "--schema", "headgate", "--format", "custom"]
    await asyncio.to_thread(run, [*dump, "--file", file, "--dbname", url])
    stop.set()
    await writing
    await store.close()
    restored = cluster.url(cluster.create_database())
    await asyncio.to_thread(run, [str(folder / "pg_restore"), "--dbname", restored, file])
    check(await numbers(PostgresStore(restored)), before)

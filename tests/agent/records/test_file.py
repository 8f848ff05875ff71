# ruff: noqa: ASYNC220, ASYNC240
# A test is alone on its loop and may block it.

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headgate.agent.records import Records, users
from headgate.agent.records.file import AGENT
from headgate.errors import StoreError
from headgate.store import SqliteStore
from headgate.store.sqlite import file
from headgate.store.sqlite.file import migrations
from tests.support.agent_records import ask

TABLES = {
    *("users", "routers", "services", "connections", "receive_queues", "send_queues", "commands"),
    *("ratchets", "skipped_keys", "received", "outgoing", "deliveries"),
    *("confirmations", "requests", "push_tokens"),
}

HOLD = """
import asyncio, sys
from pathlib import Path
from headgate.agent.records import Records

async def main():
    records = await Records.open(Path(sys.argv[1]))
    print("open", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


async def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        await Records.open(path, busy_seconds=0.1)
    assert str(path) in str(caught.value)
    return str(caught.value)


async def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "too"
    async with await Records.open(folder / "agent.db") as records:
        await records.write(users.add)
        names = {f.name: f.stat().st_mode & 0o777 for f in folder.iterdir()}
        assert names == dict.fromkeys(
            ("agent.db", "agent.db-shm", "agent.db-wal", "agent.db.lock"), 0o600
        )
        assert {f.stat().st_mode & 0o777 for f in (folder, folder.parent)} == {0o700}
    assert sorted(f.name for f in folder.iterdir()) == ["agent.db", "agent.db.lock"]


async def test_a_file_that_others_could_read_is_narrowed(path: Path) -> None:
    await (await Records.open(path)).close()
    path.chmod(0o644)
    await (await Records.open(path)).close()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_commits_are_synced(records: Records) -> None:
    assert await ask(records, "PRAGMA journal_mode") == [("wal",)]
    assert await ask(records, "PRAGMA synchronous") == [(2,)]  # FULL


async def test_a_second_agent_is_refused_and_the_first_does_not_notice(
    records: Records, path: Path
) -> None:
    text = await refusal(path)
    assert f"another agent uses it (process {os.getpid()}); stop that one" in text
    assert await records.write(users.add) == 1


async def test_the_lock_of_a_killed_agent_is_gone(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        assert f"(process {holder.pid})" in await refusal(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    async with await Records.open(path) as records:
        assert await records.write(users.add) == 1


async def test_closing_ends_the_thread(path: Path) -> None:
    records = await Records.open(path)
    ours = [t for t in threading.enumerate() if t.name.startswith("headgate-records")]
    await records.close()
    await records.close()
    for thread in ours:
        thread.join(10)
    assert ours
    assert not any(thread.is_alive() for thread in ours)


async def test_a_file_of_a_router_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()
    assert "a database of another program; name another file" in await refusal(path)


async def test_a_router_refuses_the_file_of_an_agent(path: Path) -> None:
    await (await Records.open(path)).close()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="a database of another program"):
        await store.open()
    await store.close()


async def test_something_else_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    assert "not an SQLite database; name another file" in await refusal(path)


async def test_an_older_file_is_brought_up_with_what_is_in_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations(AGENT)
    assert [version for version, _ in known] == list(range(1, len(known) + 1))
    with monkeypatch.context() as patch:
        patch.setattr(file, "migrations", lambda owner: known[:1])
        async with await Records.open(path) as records:
            user = await records.write(users.add, services=True)
            assert await ask(records, "PRAGMA user_version") == [(1,)]
    async with await Records.open(path) as records:
        assert await ask(records, "PRAGMA user_version") == [(known[-1][0],)]
        found = await records.read(users.get, user)
        assert found is not None
        assert found.services
        names = await ask(
            records,
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
        )
        assert {name for (name,) in names} == TABLES


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await Records.open(path)).close()
    known = migrations(AGENT)
    more = [*known, (len(known) + 1, "CREATE TABLE half (id); SELECT nothing FROM nowhere;")]
    with monkeypatch.context() as patch:
        patch.setattr(file, "migrations", lambda owner: more)
        await refusal(path)
    async with await Records.open(path) as records:
        assert await ask(records, "PRAGMA user_version") == [(known[-1][0],)]
        assert await ask(records, "SELECT 1 FROM sqlite_master WHERE name = 'half'") == []


async def test_a_newer_file_is_refused_with_advice_and_left_alone(path: Path) -> None:
    await (await Records.open(path)).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert "its schema has version 99" in (text := await refusal(path))
    assert "upgrade headgate" in text


async def test_a_file_that_was_moved_takes_nothing(records: Records, path: Path) -> None:
    path.rename(path.with_name("moved.db"))
    with pytest.raises(StoreError, match="the file is gone; put it back"):
        await records.write(users.add)
    path.with_name("moved.db").rename(path)
    assert await records.write(users.add) == 1


async def test_records_in_memory_have_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with await Records.memory() as one, await Records.memory() as other:
        assert await one.write(users.add) == 1
        assert await other.read(users.everyone) == []
        assert one.commits == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError, match="it is closed"):
        await one.read(users.everyone)

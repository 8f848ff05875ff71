"""Whether a store is sound, and ``headgate store check`` and ``vacuum``."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.core.model.ids import WHOLE, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Message, Stored
from headgate.core.model.parties import Notifier, Parties, QueueRecord
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import Batch
from headgate.store import SqliteStore
from headgate.store.inspection import inspect
from headgate.store.postgres import PostgresStore
from headgate.store.sql_store import SqlStore

SERVICE, NOTIFIERS = ServiceId(b"service"), ServiceId(b"notifiers")
QUEUES = [QueueId(b"queue %d" % n) for n in range(20)]
NOTIFIED = Parties((b"k",), b"s", b"sender", b"key", notifier=Notifier(b"n", b"k", b"s", NOTIFIERS))
BODY = b"b" * 5000
LOOSE = (
    "DELETE FROM queues WHERE id = {queue}",
    "INSERT INTO holds (seq, apps) VALUES (999, {apps})",
    "INSERT INTO outbox (first, last, facts) VALUES (1, 9, {apps}), (5, 6, {apps})",
)


def content(**tallies: Tally) -> Batch:
    records = {queue: QueueRecord(queue, "work", SERVICE) for queue in QUEUES}
    records[QUEUES[3]] = QueueRecord(QUEUES[3], "work", None, NOTIFIED)
    mine = Tally.of(queue for queue in QUEUES if queue != QUEUES[3])
    return Batch(
        create=records,
        append={
            Seq(n): Stored(Seq(n), QUEUES[1], Message(MessageId(b"%d" % n), BODY, 1.0), (WHOLE,))
            for n in range(1, 101)
        },
        tallies={
            SERVICE: tallies.get("service", mine),
            NOTIFIERS: tallies.get("notifiers", Tally.of([QueueId(b"n")])),
        },
    )


async def filled(store: SqlStore, batch: Batch) -> None:
    await store.open()
    await store.apply(batch)
    await store.close()


async def looked(store: SqlStore) -> dict[str, tuple[bool, str]]:
    await store.open()
    try:
        return {each.name: (each.ok, each.text) async for each in inspect(store)}
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SqlStore:
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "it.db")
    return PostgresStore(request.getfixturevalue("url"))


def change(store: SqlStore, *texts: str) -> None:
    """Do what no router would."""
    if isinstance(store, SqliteStore):
        with closing(sqlite3.connect(store.path)) as db, db:
            for text in texts:
                db.execute(text.format(queue="CAST('queue 1' AS BLOB)", apps="'a'"))
        return
    assert isinstance(store, PostgresStore)
    with psycopg.connect(store.url) as server:
        server.execute("SET search_path = headgate")
        for text in texts:
            server.execute(text.format(queue="'queue 1'::bytea", apps="'a'::bytea"))


async def test_what_a_router_left_is_sound(store: SqlStore) -> None:
    await filled(store, content())
    assert await looked(store) == {
        "integrity": (True, "the database finds nothing wrong"),
        "relations": (True, "what belongs together is there"),
        "contents": (True, "20 queues and 100 messages were read"),
        "tallies": (True, "as the queues of 2 services"),
    }


async def test_loose_ends_are_counted(store: SqlStore) -> None:
    await filled(store, content())
    change(store, *LOOSE)
    found = await looked(store)
    ok, text = found["relations"]
    assert not ok
    assert "100 messages of queues that are not there, 1 notes of apps about" in text
    assert "1 rows of the outbox that overlap" in text
    assert "headgate docs back-up-and-restore" in text


async def test_tallies_are_made_again_and_compared(store: SqlStore) -> None:
    await filled(store, content(notifiers=Tally(1, 7)))
    ok, text = (await looked(store))["tallies"]
    assert not ok
    assert text.startswith(f"not as the queues of 1 service ({NOTIFIERS.hex()[:16]});")


async def test_what_cannot_be_read_is_told(store: SqlStore) -> None:
    await filled(store, content())
    change(store, "UPDATE messages SET properties = {apps} WHERE seq = 50")
    ok, text = (await looked(store))["contents"]
    assert not ok
    assert text.endswith("put back a copy: headgate docs back-up-and-restore")


async def test_an_index_that_is_not_valid_is_told(url: str) -> None:
    store = PostgresStore(url)
    await filled(store, content())
    change(
        store,
        "CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA public",
        "UPDATE pg_index SET indisvalid = false"
        " WHERE indexrelid = 'headgate.messages_by_arrival'::regclass",
    )
    ok, text = (await looked(store))["integrity"]
    assert not ok
    assert text.startswith("the index messages_by_arrival is not valid; ")


async def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "it.db")
    await filled(store, content())
    with closing(sqlite3.connect(store.path)) as db, db:
        [(page,)] = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'messages_by_arrival'"
        )
    with store.path.open("r+b") as file:
        file.seek((page - 1) * 4096 + 3)
        file.write(b"\0\0")  # the number of its cells
    ok, text = (await looked(store))["integrity"]
    assert not ok
    assert "messages_by_arrival" in text


async def test_vacuum_gives_room_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "it.db")
    await filled(store, content())
    await store.open()
    await store.apply(Batch(delete=set(map(Seq, range(1, 101)))))
    before = await store.disk_bytes()
    await store.vacuum()
    assert await store.disk_bytes() < before // 2
    await store.close()
    assert (await looked(store))["contents"] == (True, "20 queues and 0 messages were read")


async def test_vacuum_of_a_database_lets_rows_be_used_again(url: str) -> None:
    store = PostgresStore(url)
    await filled(store, content())
    await store.open()
    await store.apply(Batch(delete=set(map(Seq, range(1, 101)))))
    await store.vacuum()
    assert await store.disk_bytes() > 0
    await store.close()
    with psycopg.connect(url) as server:
        text = "SELECT vacuum_count FROM pg_stat_all_tables WHERE relname = 'messages'"
        assert server.execute(text).fetchall() == [(1,)]
    assert all(ok for ok, _ in (await looked(store)).values())


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["store", *arguments])


def test_the_commands_say_what_they_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(tmp_path / "var" / "queues.db")
    asyncio.run(filled(store, content()))
    sound = run("check")
    assert sound.exit_code == 0
    assert "ok    contents   20 queues and 100 messages were read\n" in sound.stdout
    assert [json.loads(line)["ok"] for line in run("check", "--json").stdout.splitlines()] == (
        [True] * 4
    )
    tidied = run("vacuum")
    assert tidied.exit_code == 0
    assert tidied.stdout.startswith("sqlite:queues.db: ")
    change(store, *LOOSE)
    wrong = run("check", "sqlite:queues.db")
    assert wrong.exit_code == 3
    assert "\nFAIL  relations  100 messages of queues that are not there" in wrong.stdout


@pytest.mark.parametrize("verb", ["check", "vacuum"])
async def test_the_commands_leave_a_store_that_is_in_use_alone(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(tmp_path / "var" / "queues.db")
    await store.open()
    done = await asyncio.to_thread(run, verb)
    assert done.exit_code == 1
    assert "another router uses it" in done.stderr
    await store.close()


@pytest.mark.parametrize("verb", ["check", "vacuum"])
async def test_the_commands_leave_a_database_that_is_in_use_alone(verb: str, url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    done = await asyncio.to_thread(run, verb, url)
    assert done.exit_code == 1
    assert "uses it" in done.stderr
    await store.close()


@pytest.mark.parametrize(
    ("url", "said"), [("sqlite:typo.db", "there is no such file"), ("memory:", "nothing to look")]
)
def test_what_is_not_there_is_not_made(
    url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("check", url)
    assert done.exit_code == 1
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []

# ruff: noqa: ASYNC110, ASYNC240
# A test is alone on its loop and may block it.

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.model.ids import WHOLE, MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import NO_PROPERTIES, Arrival, Message, Stored
from headgate.core.model.parties import (
    Address,
    Link,
    Notifier,
    Parties,
    Party,
    Purpose,
    QueueRecord,
)
from headgate.core.model.tally import Tally
from headgate.core.turn.store_requests import (
    Aged,
    Batch,
    GroupRecord,
    Listing,
    Load,
    Loaded,
    Overdue,
    Page,
    ServiceRecord,
    SinkRecord,
)
from headgate.errors import ConfigError, StoreError
from headgate.expr.types import INT64_MAX, INT64_MIN
from headgate.store import MemoryStore, SqliteStore, open_store
from headgate.store.base import Store
from headgate.store.sqlite import file, sql
from headgate.store.sqlite.rows import runs
from tests.conformance.store import (
    FOREVER,
    ODD_IDS,
    Q1,
    Q2,
    Q3,
    S1,
    DurableStoreConformance,
    OpenStore,
    aged,
    amending,
    appending,
    creating,
    head,
    of_sender,
    owners,
    parties,
    record,
    seqs,
    shared,
    stored,
)

T = TypeVar("T")


class TestSqliteStore(DurableStoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        async def open_store() -> Store:
            store = SqliteStore(tmp_path / "router.db")
            await store.open()
            return store

        return open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "router.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, busy_seconds=0.1)
    await store.open()
    yield store
    await store.close()


async def pragma(store: SqliteStore, text: str) -> object:
    row = await inside(store, lambda db: db.execute(f"PRAGMA {text}").fetchone())
    return None if row is None else row[0]


async def refusal(path: Path) -> str:
    """What `open` says; whatever happens, nothing may stay open."""
    store = SqliteStore(path, busy_seconds=0.1)
    with pytest.raises(StoreError) as caught:
        await store.open()
    assert str(path) in str(caught.value)
    await store.close()
    return str(caught.value)


# Opening and closing


async def test_open_returns_the_largest_number_that_is_still_there(path: Path) -> None:
    store = SqliteStore(path)
    assert await store.open() == 0
    await store.apply(creating(record(Q1)))
    await store.apply(appending(stored(4, Q1), stored(9, Q1)))
    await store.close()
    assert await store.open() == 9
    await store.apply(Batch(delete={Seq(9)}))
    await store.close()
    assert await store.open() == 4
    await store.close()


async def test_folders_are_made(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a" / "b" / "router.db")
    await store.open()
    await store.close()
    assert (tmp_path / "a" / "b" / "router.db").exists()


async def test_only_the_owner_may_read_the_files(store: SqliteStore, path: Path) -> None:
    await store.apply(creating(record(Q1)))
    files = sorted(path.parent.iterdir())
    assert [f.name for f in files] == [
        "router.db",
        "router.db-shm",
        "router.db-wal",
        "router.db.lock",
    ]
    assert {f.stat().st_mode & 0o777 for f in files} == {0o600}


async def test_closing_leaves_one_file_and_its_lock(store: SqliteStore, path: Path) -> None:
    await store.apply(creating(record(Q1)))
    await store.close()
    assert sorted(f.name for f in path.parent.iterdir()) == ["router.db", "router.db.lock"]


async def test_closing_ends_the_thread(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    ours = [t for t in threading.enumerate() if t.name.startswith("headgate-store")]
    await store.close()
    for thread in ours:
        await asyncio.to_thread(thread.join, 10)
    assert ours
    assert not any(thread.is_alive() for thread in ours)


async def test_a_closed_store_says_so(store: SqliteStore, path: Path) -> None:
    await store.close()
    with pytest.raises(StoreError, match=r"router\.db: the store is not open"):
        await store.load(Load(heads={Q1: 1}))
    with pytest.raises(StoreError, match="not open"):
        await store.apply(creating(record(Q1)))


async def test_what_was_asked_before_closing_is_done(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    asked = asyncio.create_task(store.apply(creating(record(Q1))))
    await asyncio.sleep(0)
    await store.close()
    await asked
    await store.open()
    assert await seqs(store, Q1) == []
    await store.close()


async def test_the_file_is_synced_at_every_commit(store: SqliteStore) -> None:
    assert await pragma(store, "journal_mode") == "wal"
    assert await pragma(store, "synchronous") == 2  # FULL


async def test_the_current_directory_does_not_matter(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(path.parent)
    store = SqliteStore(Path("router.db"))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    await store.open()
    await store.close()
    assert path.exists()


# The number of statements


async def fill(store: SqliteStore, queues: list[QueueId]) -> None:
    """Every third queue stays empty."""
    await store.apply(creating(*(record(q, service=S1) for q in queues)))
    full = [q for n, q in enumerate(queues) if n % 3]
    await store.apply(appending(*(stored(n + 1, q) for n, q in enumerate(full))))


async def test_a_block_of_subscriptions_is_one_statement(store: SqliteStore) -> None:
    """S004-32: 1 queue or 135, with messages or without, known or not."""
    queues = [QueueId(b"%d" % n) for n in range(135)]
    await fill(store, queues)
    for wanted in (queues[:1], queues[1:2], [Q1], queues, [*queues, Q1]):
        before = store.statements
        await store.load(Load(heads=dict.fromkeys(wanted, 1)))
        assert store.statements - before == 1


@pytest.mark.parametrize("many", [1, 2, 3, 135, 4096])
async def test_each_question_is_one_statement(store: SqliteStore, many: int) -> None:
    queues = [QueueId(b"%d" % n) for n in range(many)]
    before = store.statements
    await store.load(
        Load(
            heads=dict.fromkeys(queues[::2], 2),
            addresses={Address(Party(n % 4), q): 1 for n, q in enumerate(queues[1::2])},
            backlogs=set(queues),
            bodies={Seq(n) for n in range(many)},
            entries={Seq(n) for n in range(many)},
            services={ServiceId(q) for q in queues},
            pages={Page(ServiceId(q), Q1, 2) for q in queues},
            usage={str(n) for n in range(many)},
            identities=set(queues),
            aged=Aged(Seq(0), 1.0, many),
            overdue=Overdue(tuple((str(n), 1.0) for n in range(many)), Seq(0), many),
            listings={Listing(str(n), Q1, 2) for n in range(many)},
            sinks=True,
        )
    )
    # What is remembered and groups come with backlogs.
    assert store.statements - before == 14


async def test_heads_and_addresses_are_one_statement(store: SqliteStore) -> None:
    """S004-30, S004-32: by whichever id they are named, and with however many messages."""
    names = [b"%d" % n for n in range(135)]
    queues = [QueueId(name) for name in names]
    await store.apply(creating(*(shared(q, parties(q, notifier=q, link=q)) for q in queues)))
    for party in Party:
        for most in (0, 1, 2, 50):
            before = store.statements
            loaded = await store.load(
                Load(
                    heads=dict.fromkeys(queues[:70], 1),
                    addresses={Address(party, name): most for name in names[60:]},
                )
            )
            assert store.statements - before == 1
            assert loaded.heads.keys() == set(queues)
            assert len(loaded.addresses) == 75


@pytest.mark.parametrize("many", [1, 135, 5000])
async def test_each_kind_of_change_is_a_constant_number_of_statements(
    store: SqliteStore, many: int
) -> None:
    queues = [QueueId(b"%d" % n) for n in range(many)]
    known = [QueueId(b"known %d" % n) for n in range(many)]
    await store.apply(creating(*(shared(q, parties(q, link=q)) for q in known)))
    before = store.statements
    await store.apply(
        Batch(
            create={q: shared(q, parties(q, notifier=q, link=q)) for q in queues},
            amend={q: record(q) for q in known},
            append={Seq(n): stored(n, q, apps=("a", "b")) for n, q in enumerate(queues)},
            hold={Seq(n): ("b",) for n in range(many)},
            delete={Seq(n) for n in range(0, many, 2)},
            forget=dict.fromkeys(queues, 1.0),
            remember={q: {MessageId(b"id"): Arrival(1.0, Seq(7))} for q in queues},
            groups={(q, "a"): GroupRecord() if n % 2 else None for n, q in enumerate(queues)},
            associate=dict.fromkeys(queues, S1),
            tallies={S1: Tally.of(queues)},
            remove={QueueId(b"gone %d" % n) for n in range(many)},
            identities={q: ServiceRecord(ServiceId(q), "r") for q in queues},
            sinks={str(n): SinkRecord(n, 1.0) if n % 2 else None for n in range(many)},
        )
    )
    # Begin and commit, two to amend, two to delete, five to remove, two for tallies, two for
    # sinks, two for groups, one for each other kind.
    assert store.statements - before == 2 + 2 + 2 + 5 + 2 + 2 + 2 + 7


@given(gone=st.sets(st.integers(1, 40), min_size=1))
def test_runs_hold_exactly_the_numbers_they_were_made_of(gone: set[int]) -> None:
    found = runs(map(Seq, gone))
    assert {seq for first, last in found for seq in range(first, last + 1)} == gone
    assert all(after > last + 1 for (_, last), (after, _) in pairwise(found)), "no run is cut"


async def test_removed_messages_leave_those_between_them(store: SqliteStore) -> None:
    messages = {Seq(n): stored(n, Q1, apps=("a",)) for n in range(1, 11)}
    await store.apply(creating(record(Q1)))
    await store.apply(Batch(append=messages))
    await store.apply(Batch(delete={Seq(n) for n in (1, 2, 3, 5, 7, 8)}))
    backlog = (await store.load(Load(backlogs={Q1}))).backlogs[Q1]
    assert [entry.seq for entry in backlog[1]] == [4, 6, 9, 10]


async def test_nothing_to_do_is_no_statement(store: SqliteStore) -> None:
    before = store.statements
    await store.apply(Batch())
    await store.load(Load())
    assert store.statements == before


async def test_lists_of_every_length_share_few_texts() -> None:
    lengths = {sql.padded(n) for n in range(1, sql.ROWS_MAX + 1)}
    assert lengths == {2**n for n in range(13)}
    assert 8 * len(lengths) < sql.STATEMENTS_CACHED


async def inside(store: SqliteStore, job: Callable[[sqlite3.Connection], T]) -> T:
    """Do something with the connection, in its thread."""
    return await store._run(lambda: job(store._file._connection))


def explain(db: sqlite3.Connection, text: str, values: list[int | None]) -> list[tuple[Any, ...]]:
    return db.execute(text, values).fetchall()


async def test_no_question_walks_through_a_table(store: SqliteStore) -> None:
    questions = [
        (sql.HEADS, 4, 1),
        (sql.HEADS_LONG, 4, 1),
        (sql.PAGES, 4, 1),
        (sql.BACKLOGS, 1, 0),
        (sql.KNOWN, 1, 0),
        (sql.GROUPS, 1, 0),
        (sql.ENTRIES, 1, 0),
        (sql.BODIES, 1, 0),
        (sql.SERVICES, 1, 0),
        (sql.USAGE, 1, 0),
        (sql.IDENTITIES, 1, 0),
        (sql.AGED, 0, 3),
        (sql.AGED_REST, 0, 3),
    ]
    for question, width, more in questions:
        text = "EXPLAIN QUERY PLAN " + sql.text(question, width, 4)
        values: list[int | None] = [*[None] * 4 * width, *[1] * more]
        plan = await inside(store, partial(explain, text=text, values=values))
        scanned = {row[3].split()[1] for row in plan if row[3].startswith("SCAN")}
        tables = {"queues", "messages", "m", "holds", "services", "identities", "remembered"}
        tables |= {"open_groups"}
        assert not scanned & tables, question
        if question in (sql.HEADS, sql.HEADS_LONG):
            used = " ".join(row[3] for row in plan)
            for index in ("autoindex_queues_1", "by_sender", "by_notifier", "by_link"):
                assert f"{index} (" in used


async def test_asking_for_old_messages_costs_what_is_answered(store: SqliteStore) -> None:
    """Not what is young, nor what is old and was seen or will be: of some queues old messages
    stay, and are gone through again and again."""
    many = [
        Stored(Seq(n), Q1, Message(MessageId(b""), b"", float(n)), (WHOLE,)) for n in range(9000)
    ]
    await store.apply(Batch(create={Q1: record(Q1)}, append={s.seq: s for s in many}))
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    await inside(store, lambda db: db.set_progress_handler(step, 10))
    assert await aged(store, -1, 0.0) == []
    assert steps < 10
    assert await aged(store, -1, 8000.0, 10) == list(range(10))
    assert await aged(store, 5000, 8000.0, 10) == list(range(5001, 5011))
    assert steps < 100
    statements = store.statements
    assert await aged(store, -1, 8000.0, 8000) == list(range(8000))
    assert await aged(store, -1, 8000.0, 9000) == list(range(8000))
    assert store.statements - statements == 3
    await inside(store, lambda db: db.set_progress_handler(None, 0))


async def test_old_messages_are_found_without_their_bodies(store: SqliteStore) -> None:
    await store.apply(creating(record(Q1)))
    await store.apply(appending(stored(1, Q1)))
    columns: set[str | None] = set()

    def look(action: int, table: str | None, column: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and table == "messages":
            columns.add(column)
        return sqlite3.SQLITE_OK

    await inside(store, lambda db: db.set_authorizer(look))
    loaded = await store.load(Load(aged=Aged(Seq(0), FOREVER, 100)))
    assert len(loaded.aged) == 1
    assert "properties" in columns
    assert "body" not in columns


# Cancelling


async def test_a_caller_that_is_cancelled_leaves_all_of_its_batch_or_nothing(
    store: SqliteStore,
) -> None:
    await store.apply(creating(record(Q1)))
    last = 0
    for yields in range(12):
        batch = appending(*(stored(last + n, Q1) for n in range(1, 201)))
        waiting = asyncio.create_task(store.apply(batch))
        for _ in range(yields):
            await asyncio.sleep(0.0005)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        found = await head(store, Q1, 0)
        assert found is not None
        assert found.messages in (last, last + 200)
        last = found.messages
    await store.apply(appending(stored(last + 1, Q1)))
    assert await inside(store, lambda db: db.in_transaction) is False


async def test_a_batch_that_waits_for_the_thread_is_taken_back(store: SqliteStore) -> None:
    await store.apply(creating(record(Q1)))
    go = threading.Event()
    busy = asyncio.create_task(store._run(lambda: go.wait(10)))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(store.apply(appending(stored(1, Q1))))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await busy
    assert await seqs(store, Q1) == []


async def test_a_cancelled_open_lets_go_of_the_file(path: Path) -> None:
    opening = asyncio.create_task(SqliteStore(path).open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    store = SqliteStore(path)
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(StoreError):
                await store.open()
                break
            await asyncio.sleep(0.01)
    await store.close()


async def test_a_cancelled_close_closes(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    go = threading.Event()
    busy = asyncio.create_task(store._run(lambda: go.wait(10)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    go.set()
    await busy
    async with asyncio.timeout(10):
        while path.with_name("router.db-wal").exists():
            await asyncio.sleep(0.01)


# Failures, and that they pass


async def test_a_full_disk_fails_the_batch_until_there_is_room(store: SqliteStore) -> None:
    await store.apply(creating(record(Q1)))
    pages = await pragma(store, "page_count")
    await pragma(store, f"max_page_count = {pages}")
    large = Batch(
        create={Q2: record(Q2)},
        append={Seq(1): stored(1, Q1), Seq(2): stored(2, Q1, bytes(1_000_000))},
    )
    with pytest.raises(StoreError, match=r"router\.db: the disk is full; make room"):
        await store.apply(large)
    assert await seqs(store, Q1) == []
    assert await head(store, Q2) is None
    await pragma(store, "max_page_count = 1000000")
    await store.apply(large)
    assert await seqs(store, Q1) == [1, 2]


async def test_a_file_that_cannot_be_written_fails_the_batch_until_it_can(
    store: SqliteStore,
) -> None:
    await pragma(store, "query_only = ON")
    with pytest.raises(StoreError, match=r"router\.db: it cannot be written; check the rights"):
        await store.apply(creating(record(Q1)))
    await pragma(store, "query_only = OFF")
    await store.apply(creating(record(Q1)))
    assert await seqs(store, Q1) == []


HOLD_A_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def program(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A second process that has printed a line and now waits for its input to end."""
    with subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process


async def test_a_lock_of_another_program_fails_the_batch_until_it_ends(
    store: SqliteStore, path: Path
) -> None:
    with program(HOLD_A_LOCK, str(path)):
        with pytest.raises(StoreError, match=r"router\.db: another program has locked it"):
            await store.apply(creating(record(Q1)))
        assert await head(store, Q1) is None  # reading goes on
    await store.apply(creating(record(Q1)))
    assert await seqs(store, Q1) == []


async def test_a_file_that_was_moved_away_takes_no_batch(
    store: SqliteStore, path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SQLite itself would go on, and the receipt would be for a file that nobody opens again."""
    away = tmp_path_factory.mktemp("away")
    path.rename(away / "router.db")
    with pytest.raises(StoreError, match=r"router\.db: the file is gone; put it back"):
        await store.apply(creating(record(Q1)))
    with pytest.raises(StoreError, match=r"router\.db: the file is gone; put it back"):
        await store.probe()
    path.touch()
    with pytest.raises(StoreError, match=r"router\.db: another file took its place"):
        await store.apply(creating(record(Q1)))
    (away / "router.db").replace(path)
    await store.apply(creating(record(Q1)))
    assert await seqs(store, Q1) == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(appending(stored(2**63, Q1)), id="a number beyond 64 bits"),
        pytest.param(appending(stored(1, Q1, properties={"p": 2**64})), id="such a property"),
        pytest.param(creating(record(Q2, "\udc80")), id="text that is not Unicode"),
    ],
)
async def test_a_value_that_does_not_fit_fails_the_batch(store: SqliteStore, wrong: Batch) -> None:
    await store.apply(creating(record(Q1)))
    with pytest.raises(StoreError, match=r"router\.db: a value cannot be stored"):
        await store.apply(Batch(create={Q3: record(Q3), **wrong.create}, append=wrong.append))
    assert await head(store, Q3) is None
    await store.apply(creating(record(Q3)))


async def test_damage_that_shows_while_reading_is_a_store_error(store: SqliteStore) -> None:
    await store.apply(creating(record(Q1)))
    await store.apply(appending(stored(1, Q1, properties={"p": 1})))
    await inside(store, lambda db: db.execute("UPDATE messages SET properties = x'c1'"))
    with pytest.raises(StoreError, match=r"router\.db: a value cannot be stored or read"):
        await store.load(Load(backlogs={Q1}))
    await store.apply(creating(record(Q3)))
    loaded = await store.load(Load(heads={Q1: 1, Q3: 1}))
    assert (loaded.unreadable, set(loaded.heads)) == ({Q1}, {Q3})
    await store.apply(creating(shared(Q2, parties(b"sender"))))
    for damaged in ("c1", "91c0", "989090c4c0c0c0c0c0"):
        text = f"UPDATE queues SET parties = x'{damaged}' WHERE sender IS NOT NULL"
        await inside(store, partial(explain, text=text, values=[]))
        loaded = await store.load(Load(addresses={of_sender(b"sender"): 1}))
        assert (loaded.unreadable, loaded.heads) == ({Q2}, {})
        assert loaded.addresses == {of_sender(b"sender"): Q2}


async def test_an_error_of_the_module_itself_is_a_store_error(store: SqliteStore) -> None:
    with pytest.raises(StoreError, match=r"router\.db: .*binding"):
        await inside(store, lambda db: db.execute("SELECT ?", ()))


# Files that are not ours


async def test_a_file_of_something_else_is_refused(path: Path) -> None:
    path.write_bytes(b"These are the voyages. " * 400)
    before = path.read_bytes()
    assert "it is not an SQLite database; name another file" in await refusal(path)
    assert path.read_bytes() == before


async def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE messages (text)")
    before = path.read_bytes()
    assert "a database of another program" in await refusal(path)
    assert path.read_bytes() == before


async def test_a_damaged_file_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.apply(creating(record(Q1)))
    await store.apply(appending(*(stored(n, Q1, bytes(3000)) for n in range(1, 100))))
    await store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    assert "it is damaged; put back a copy" in await refusal(path)


async def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "check the rights of the file and its folder" in await refusal(
        tmp_path / "file" / "router.db"
    )


async def test_a_folder_without_rights_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)  # rights do not bind root
    try:
        text = await refusal(folder / "router.db")
    finally:
        os.seteuid(was)
    assert "check the rights of the file and its folder" in text
    assert "Permission denied" in text


async def test_a_file_system_without_a_write_ahead_log_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file.File, "all", lambda *_: [("delete",)])
    monkeypatch.setattr(file.File, "_number", lambda *_: 0)
    assert "its file system has no shared memory" in await refusal(path)


# One router


async def test_a_second_router_is_refused(store: SqliteStore, path: Path) -> None:
    text = await refusal(path)
    assert f"another router uses it (process {os.getpid()})" in text
    await store.apply(creating(record(Q1)))  # and the first does not notice


RUN_A_ROUTER = """
import asyncio, sys
from pathlib import Path
from headgate.store import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    print("open", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


async def test_a_lock_file_that_was_deleted_lets_nobody_in(store: SqliteStore, path: Path) -> None:
    path.with_name(path.name + ".lock").unlink()
    second = SqliteStore(path)
    with pytest.raises(StoreError, match=r"another router uses it"):
        await second.open()
    await second.close()
    await store.apply(creating(record(Q1)))
    assert await seqs(store, Q1) == []


async def test_the_lock_of_a_killed_router_is_gone(path: Path) -> None:
    with program(RUN_A_ROUTER, str(path)) as router:
        assert f"(process {router.pid})" in await refusal(path)
        router.send_signal(signal.SIGKILL)
        router.wait()
    store = SqliteStore(path)
    await store.open()
    await store.close()


# Migrations


def schema(path: Path) -> tuple[int, set[str]]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        return version, {name for (name,) in tables}


TABLES = {
    "queues",
    "messages",
    "holds",
    "outbox",
    "services",
    "sinks",
    "identities",
    "open_groups",
    "remembered",
}


async def test_a_fresh_file_gets_the_newest_schema(store: SqliteStore, path: Path) -> None:
    await store.close()
    assert schema(path) == (file.migrations()[-1][0], TABLES)


@pytest.mark.parametrize("script", ["", "VACUUM"])
async def test_an_empty_file_of_version_0_is_brought_up_to_date(path: Path, script: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(script)
    path.touch()
    store = SqliteStore(path)
    await store.open()
    await store.close()
    assert schema(path) == (file.migrations()[-1][0], TABLES)


async def test_migrations_are_numbered_without_gaps() -> None:
    versions = [version for version, _ in file.migrations()]
    assert versions == list(range(1, len(versions) + 1))


async def test_only_the_missing_migrations_are_applied(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.apply(creating(record(Q1)))
    await store.close()
    known = file.migrations()
    more = [*known, (len(known) + 1, "CREATE TABLE later (x);")]
    monkeypatch.setattr(file, "migrations", lambda owner: more)
    await store.open()
    assert await seqs(store, Q1) == []
    await store.close()
    assert schema(path) == (len(more), TABLES | {"later"})


async def test_queues_of_an_older_version_have_no_parties(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = file.migrations()
    store = SqliteStore(path)
    with monkeypatch.context() as patch:
        patch.setattr(file, "migrations", lambda owner: known[:3])
        await store.open()
        await store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        for queue in (Q1, Q2):
            db.execute("INSERT INTO queues (id, domain, service) VALUES (?, 'd', ?)", (queue, S1))
        db.execute("INSERT INTO messages VALUES (1, 1, x'', 5.0, 0, x'', x'')")
        db.commit()
    await store.open()
    found = await head(store, Q1)
    assert found is not None
    assert (found.record, found.messages) == (record(Q1, service=S1), 1)
    assert await aged(store, 0, 5.5) == [1]
    await store.apply(amending(shared(Q2, parties(b"sender"))))
    assert await owners(store, of_sender(b"sender")) == {of_sender(b"sender"): Q2}
    await store.close()


async def test_ids_that_an_older_version_remembered_have_no_number(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = file.migrations()
    store = SqliteStore(path)
    with monkeypatch.context() as patch:
        patch.setattr(file, "migrations", lambda owner: known[:6])
        await store.open()
        await store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO queues (id, domain) VALUES (?, 'd')", (Q1,))
        row = (msgspec.msgpack.encode({b"id": 3.0}),)
        db.execute("INSERT INTO remembered (queue, at, known) VALUES (1, 3.0, ?)", row)
        db.commit()
    await store.open()
    loaded = await store.load(Load(backlogs={Q1}))
    assert loaded.remembered == {Q1: {MessageId(b"id"): Arrival(3.0, Seq(0))}}
    await store.close()


async def test_a_migration_that_fails_leaves_the_version_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = file.migrations()
    more = [*known, (len(known) + 1, "CREATE TABLE later (x); CREATE TABLE queues (x);")]
    with monkeypatch.context() as patch:
        patch.setattr(file, "migrations", lambda owner: more)
        assert "queues already exists" in await refusal(path)
    assert schema(path) == (len(known), TABLES)
    store = SqliteStore(path)
    await store.open()
    await store.close()


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    assert "its schema has version 99" in (text := await refusal(path))
    assert "upgrade headgate" in text
    assert path.read_bytes() == before


# URLs


def test_a_url_names_a_store(tmp_path: Path) -> None:
    assert isinstance(open_store("memory:", tmp_path), MemoryStore)
    below = open_store("sqlite:var/router.db", tmp_path)
    assert isinstance(below, SqliteStore)
    assert below.path == tmp_path / "var" / "router.db"
    anywhere = open_store("sqlite:/srv/router.db", tmp_path)
    assert isinstance(anywhere, SqliteStore)
    assert anywhere.path == Path("/srv/router.db")


@pytest.mark.parametrize("url", ["", "memory", "memory:x", "sqlite", "sqlite:", "mysql:x", "x.db"])
def test_a_url_of_an_unknown_form_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='not of a known form: "memory:", "sqlite:FILE"'):
        open_store(url, tmp_path)


# The model

queue_ids = st.sampled_from([QueueId(odd) for odd in ODD_IDS])
service_ids = st.sampled_from([ServiceId(odd) for odd in ODD_IDS[:3]])
domains = st.sampled_from(["", "d", "d\0", "größe"])
numbers = st.sampled_from([*map(Seq, range(12)), Seq(2**63 - 1)])
texts = st.text(max_size=4)
properties = st.dictionaries(
    texts,
    st.booleans() | st.sampled_from([0, 1, INT64_MIN, INT64_MAX]) | texts | st.binary(max_size=4),
    max_size=3,
)
apps = st.just((WHOLE,)) | st.lists(texts, max_size=3).map(tuple)
tallies = st.builds(Tally, st.integers(-1000, 1000), st.integers(0, 2**128 - 1))
sink_records = st.builds(
    SinkRecord, st.integers(0, 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
some_ids = st.sampled_from(ODD_IDS[:4])
all_parties = st.builds(
    Parties,
    keys=st.lists(st.binary(max_size=3), max_size=2).map(tuple),
    secret=st.binary(max_size=3),
    sender=some_ids,
    sender_key=st.none() | st.binary(max_size=3),
    purpose=st.none() | st.sampled_from(Purpose),
    link=st.none() | st.builds(Link, some_ids, st.binary(max_size=3), st.binary(max_size=3)),
    notifier=st.none()
    | st.builds(
        Notifier, some_ids, st.binary(max_size=3), st.binary(max_size=3), st.none() | service_ids
    ),
    is_off=st.booleans(),
)
times = st.sampled_from([-1.0, 0.0, 2.0, 2.5])
arrivals = st.builds(Arrival, times, numbers)
known = st.dictionaries(some_ids.map(MessageId), arrivals, min_size=1, max_size=3)
identities = st.dictionaries(some_ids, st.builds(ServiceRecord, service_ids, texts), max_size=2)
messages = st.builds(
    Message,
    id=st.binary(max_size=3).map(MessageId),
    body=st.binary(max_size=20),
    arrived=st.floats(allow_nan=False),
    properties=properties | st.just(NO_PROPERTIES),
)


@st.composite
def records(draw: st.DrawFn, max_size: int) -> dict[QueueId, QueueRecord]:
    return {
        q: QueueRecord(
            q,
            draw(domains),
            draw(service_ids | st.none()),
            draw(st.none() | all_parties),
            draw(st.booleans()),
        )
        for q in draw(st.sets(queue_ids, max_size=max_size))
    }


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Some fit what is stored and some do not; both stores have to see it the same way."""
    return Batch(
        create=draw(records(max_size=2)),
        amend=draw(records(max_size=3)),
        append={
            seq: Stored(seq, draw(queue_ids), draw(messages), draw(apps))
            for seq in draw(st.lists(numbers, max_size=3, unique=True))
        },
        hold=draw(st.dictionaries(numbers, apps, max_size=2)),
        delete=draw(st.sets(numbers, max_size=2)),
        forget=draw(st.dictionaries(queue_ids, times, max_size=2)),
        remember=draw(st.dictionaries(queue_ids, known, max_size=2)),
        associate=draw(st.dictionaries(queue_ids, service_ids | st.none(), max_size=1)),
        tallies=draw(st.dictionaries(service_ids, tallies, max_size=1)),
        remove=draw(st.sets(queue_ids, max_size=1)),
        identities=draw(st.just({}) | identities),
        sinks=draw(st.dictionaries(domains, st.none() | sink_records, max_size=2)),
    )


addresses = st.builds(Address, st.sampled_from(Party), some_ids | queue_ids)
loads = st.builds(
    Load,
    heads=st.dictionaries(queue_ids, st.integers(0, 5)),
    addresses=st.dictionaries(addresses, st.integers(0, 5))
    | st.dictionaries(addresses, st.just(1)),
    backlogs=st.sets(queue_ids),
    bodies=st.sets(numbers),
    services=st.sets(service_ids),
    pages=st.sets(st.builds(Page, service_ids, queue_ids, st.integers(0, 4))),
    usage=st.sets(domains),
    identities=st.sets(some_ids),
    aged=st.none() | st.builds(Aged, numbers, st.floats(allow_nan=False), st.integers(0, 4)),
    overdue=st.none()
    | st.builds(
        Overdue,
        st.dictionaries(domains, st.floats(allow_nan=False)).map(lambda each: (*each.items(),)),
        numbers,
        st.integers(0, 4),
    ),
    listings=st.sets(st.builds(Listing, domains, queue_ids, st.integers(0, 4))),
    sinks=st.booleans(),
)

ALL = Load(
    heads={QueueId(odd): 100 for odd in ODD_IDS},
    addresses={Address(party, odd): 1 for party in Party for odd in ODD_IDS},
    backlogs={QueueId(odd) for odd in ODD_IDS},
    services={ServiceId(odd) for odd in ODD_IDS},
    pages={Page(ServiceId(odd), QueueId(b""), 100) for odd in ODD_IDS},
    usage={"", "d", "d\0", "größe"},
    identities=set(ODD_IDS),
    aged=Aged(Seq(-1), math.inf, 100),
    overdue=Overdue((("d", math.inf), ("größe", math.inf)), Seq(-1), 100),
    listings={Listing("d", QueueId(b""), 100), Listing("d\0", QueueId(b""), 100)},
    sinks=True,
)


async def outcome(store: Store, batch: Batch) -> bool:
    try:
        await store.apply(batch)
    except StoreError:
        return False
    return True


def kinds(loaded: Loaded) -> object:
    """True equals 1, so equality alone does not tell whether a boolean stayed one."""
    return {
        entry.seq: {name: type(item) for name, item in entry.properties.items()}
        for _, entries in loaded.backlogs.values()
        for entry in entries
    }


FIRST = creating(*(record(QueueId(odd)) for odd in ODD_IDS[:4]))


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(batches() | loads, max_size=12))
def test_any_batches_leave_the_same_in_memory_and_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Batch | Load]
) -> None:
    """S004-45"""

    async def compare() -> None:
        model = MemoryStore()
        store = SqliteStore(tmp_path_factory.mktemp("model") / "router.db")
        await store.open()
        try:
            for step in (FIRST, *steps, ALL):
                if isinstance(step, Batch):
                    assert await outcome(model, step) == await outcome(store, step)
                    continue
                expected, found = await model.load(step), await store.load(step)
                assert found == expected
                assert kinds(found) == kinds(expected)
            last = await model.open()
            await store.close()
            assert await store.open() == last
        finally:
            await store.close()

    asyncio.run(compare())

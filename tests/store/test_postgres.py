# ruff: noqa: ASYNC110
# The server has no event to wait for.

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.model.ids import MessageId, QueueId, Seq, ServiceId
from headgate.core.model.message import Arrival
from headgate.core.model.parties import Address, Notifier, Parties, Party
from headgate.core.model.tally import Tally
from headgate.core.turn.outbox import OutboxRow
from headgate.core.turn.store_requests import (
    Aged,
    Batch,
    Listing,
    Load,
    Overdue,
    Page,
    ServiceRecord,
    SinkRecord,
)
from headgate.errors import ConfigError, StoreError
from headgate.store import MemoryStore, open_store
from headgate.store.base import Store
from headgate.store.postgres import PostgresStore, schema
from headgate.store.postgres import database as connecting
from headgate.testing.postgres import PostgresCluster
from tests.conformance.store import (
    Q1,
    Q2,
    Q3,
    S1,
    DurableStoreConformance,
    OpenStore,
    appending,
    creating,
    head,
    record,
    seqs,
    stored,
)
from tests.store.test_sqlite import ALL, FIRST, batches, kinds, loads, outcome
from tests.support.postgres_proxy import Odd, Proxy


class TestPostgresStore(DurableStoreConformance):
    @pytest.fixture
    def open_store(self, url: str) -> OpenStore:
        async def open_store() -> Store:
            store = PostgresStore(url)
            await store.open()
            return store

        return open_store


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for what will not come."""
    monkeypatch.setattr(connecting, "LOCK_SECONDS", 0.2)
    monkeypatch.setattr(connecting, "RECONNECT_PAUSES", (0.02, 0.05))


class Aside:
    """What somebody else does in the database."""

    def __init__(self, cluster: PostgresCluster, database: str) -> None:
        self.db = cluster.connect(database)

    def ask(self, text: str) -> list[tuple[object, ...]]:
        return self.db.execute(text).fetchall()

    def end_backends(self) -> None:
        self.ask(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    def at_insert(self, table: str, body: str, deferred: bool = False) -> None:
        """Have something done for each new row, or when its transaction is committed."""
        when = "CONSTRAINT TRIGGER odd AFTER" if deferred else "TRIGGER odd BEFORE"
        how = "DEFERRABLE INITIALLY DEFERRED" if deferred else ""
        self.db.execute(
            f"CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {body}; RETURN NEW; END $$;"
            f"CREATE {when} INSERT ON headgate.{table} {how} FOR EACH ROW EXECUTE FUNCTION odd()"
        )


@pytest.fixture
def aside(cluster: PostgresCluster, database: str) -> Iterator[Aside]:
    aside = Aside(cluster, database)
    yield aside
    aside.db.close()


# Opening and closing


async def test_open_returns_the_largest_number_that_is_still_there(url: str) -> None:
    store = PostgresStore(url)
    assert await store.open() == 0
    await store.apply(creating(record(Q1)))
    await store.apply(appending(stored(4, Q1), stored(9, Q1)))
    await store.close()
    assert await store.open() == 9
    await store.close()


async def test_closing_ends_the_thread_and_the_connection(url: str, aside: Aside) -> None:
    store = PostgresStore(url)
    await store.open()
    ours = [t for t in threading.enumerate() if t.name.startswith("headgate-store")]
    await store.close()
    for thread in ours:
        await asyncio.to_thread(thread.join, 10)
    assert ours
    assert not any(thread.is_alive() for thread in ours)
    with pytest.raises(StoreError, match="the store is not open"):
        await store.load(Load(heads={Q1: 1}))
    again = PostgresStore(url)
    await again.open()
    await again.close()


@pytest.mark.usefixtures("impatient")
async def test_a_second_router_is_refused_and_told_who_is_there(
    store: PostgresStore, url: str
) -> None:
    second = PostgresStore(url)
    with pytest.raises(StoreError, match=r"another router uses it \(headgate on .*, process \d+"):
        await second.open()
    await store.close()
    await second.open()
    await second.close()


async def test_shards_start_side_by_side_in_an_empty_database(url: str) -> None:
    shards = [PostgresStore(url, shard=n) for n in range(4)]
    await asyncio.gather(*(shard.open() for shard in shards))
    for n, shard in enumerate(shards):
        queue = QueueId(b"%d" % n)
        await shard.apply(creating(record(queue)))
        await shard.apply(appending(stored(n + 1, queue)))
    assert await seqs(shards[0], QueueId(b"3")) == [4]
    for shard in shards:
        await shard.close()


async def test_a_schema_of_another_program_is_left_alone(url: str, aside: Aside) -> None:
    aside.db.execute("CREATE SCHEMA headgate CREATE TABLE theirs (x integer)")
    with pytest.raises(StoreError, match="its schema headgate is of another program"):
        await PostgresStore(url).open()
    assert aside.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'headgate'") == [
        ("theirs",)
    ]


async def test_a_schema_of_a_newer_version_is_refused(url: str, aside: Aside) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.close()
    aside.db.execute("UPDATE headgate.version SET number = 99")
    with pytest.raises(StoreError, match=r"its schema has version 99.*upgrade headgate"):
        await store.open()


async def test_a_migration_that_fails_leaves_the_schema_as_it_was(
    url: str, aside: Aside, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.close()
    known = schema.migrations()
    assert [number for number, _ in known] == list(range(1, len(known) + 1))
    more = [(90, "CREATE TABLE new (x integer)"), (91, "CREATE TABLE queues (x integer)")]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda owner: known + more)
        with pytest.raises(StoreError, match="already exists"):
            await store.open()
    assert aside.ask("SELECT number FROM headgate.version") == [(len(known),)]
    assert aside.ask("SELECT to_regclass('headgate.new')") == [(None,)]
    await store.open()
    await store.close()


async def test_a_role_without_rights_is_told_what_it_lacks(
    cluster: PostgresCluster, database: str, aside: Aside
) -> None:
    aside.db.execute("CREATE ROLE nobody_much LOGIN")
    store = PostgresStore(cluster.url(database).replace("user=postgres", "user=nobody_much"))
    try:
        with pytest.raises(StoreError, match="the role lacks a right"):
            await store.open()
        aside.db.execute("CREATE SCHEMA headgate AUTHORIZATION nobody_much")
        await store.open()
        await store.close()
    finally:
        aside.db.execute("DROP OWNED BY nobody_much; DROP ROLE nobody_much")


async def test_a_database_that_is_not_there_is_named(cluster: PostgresCluster) -> None:
    with pytest.raises(StoreError, match=r'no-such.*"no-such" does not exist'):
        await PostgresStore(cluster.url("no-such")).open()


# URLs


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_url_names_the_store(tmp_path: Path, scheme: str) -> None:
    store = open_store(f"{scheme}://me@localhost/x", tmp_path)
    assert store.kind == "postgresql"


async def test_a_password_is_in_no_text(tmp_path: Path) -> None:
    store = open_store("postgresql://me:sesame@127.0.0.1:1/db?sslpassword=sesame", tmp_path)
    with pytest.raises(StoreError, match="the server cannot be reached") as caught:
        await store.open()
    assert "sesame" not in str(caught.value) + repr(store)
    with pytest.raises(ConfigError, match="is written as %XX") as wrong:
        open_store("postgresql://me:ses%ame@host/db", tmp_path)
    assert "ses" not in str(wrong.value).replace("postgres", "")


def test_without_psycopg_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "headgate.store.postgres", None)
    with pytest.raises(ConfigError, match=r"pip install 'headgate\[postgres\]'"):
        open_store("postgresql://localhost/x", tmp_path)


# Questions and batches


def many(count: int, first: int) -> tuple[Batch, Load]:
    """A batch and a load that name as many of everything."""
    queues = [QueueId(b"%d %d" % (first, n)) for n in range(count)]
    services = [ServiceId(b"s" + queue) for queue in queues]
    parties = [
        Parties((b"k",), b"s", b"s" + q, notifier=Notifier(b"n" + q, b"k", b"s", s))
        for q, s in zip(queues, services, strict=True)
    ]
    records = [
        replace(record(q, service=s), parties=p)
        for q, s, p in zip(queues, services, parties, strict=True)
    ]
    messages = [stored(first + n, q, apps=("a",)) for n, q in enumerate(queues)]
    batch = Batch(
        remove=set(queues),
        create={r.queue: r for r in records},
        amend={r.queue: replace(r, is_full=True) for r in records},
        append={m.seq: m for m in messages},
        hold={m.seq: ("b",) for m in messages},
        delete={Seq(first)},
        forget=dict.fromkeys(queues, 1.0),
        remember={q: {MessageId(b"id"): Arrival(1.0, Seq(7))} for q in queues},
        associate=dict(zip(queues, services, strict=True)),
        tallies={s: Tally.of([q]) for q, s in zip(queues, services, strict=True)},
        identities={b"f" + s: ServiceRecord(s, "M") for s in services},
        sinks={f"sink {n}": SinkRecord(n, 1.0) if n else None for n in range(count + 1)},
        outbox=OutboxRow(first, [("RouterStarted", 1.0, "v")], 1),
        sealed=first - 1,
    )
    load = Load(
        heads=dict.fromkeys(queues, 2),
        addresses={Address(Party.SENDER, b"s" + q): 1 for q in queues},
        backlogs=set(queues),
        bodies={m.seq for m in messages},
        services=set(services),
        pages={Page(s, QueueId(b""), 5) for s in services},
        usage={"d", *map(str, range(count))},
        identities={b"f" + s for s in services},
        aged=Aged(Seq(0), 1000.0, 100),
        overdue=Overdue((("d", 1000.0), *((str(n), 1000.0) for n in range(count))), Seq(0), 100),
        listings={Listing(str(n), QueueId(b""), 5) for n in range(count)},
        sinks=True,
    )
    return batch, load


async def test_the_number_of_statements_does_not_depend_on_how_many_are_named(
    store: PostgresStore,
) -> None:
    """S004-34"""
    executed = []
    for count, first in ((1, 1), (1000, 1001)):
        batch, load = many(count, first)
        before = store.statements
        await store.apply(batch)
        applied = store.statements
        loaded = await store.load(load)
        assert len(loaded.heads) == len(loaded.addresses) == len(loaded.identities) == count
        executed.append((applied - before, store.statements - applied))
    assert executed[0] == executed[1]
    assert executed[0] <= (19, 10)


async def counted(aside: Aside, text: str) -> list[tuple[object, ...]]:
    """What the server counted, once it has: it does when a connection has ended."""
    async with asyncio.timeout(10):
        while not (found := aside.ask(text)):
            await asyncio.sleep(0.01)
    return found


SCANNED = "SELECT relname FROM pg_stat_user_tables WHERE seq_scan > 0 ORDER BY relname"


async def test_no_question_reads_a_whole_table(url: str, aside: Aside) -> None:
    """Plans are made while tables are small and stay when they are large."""
    store = PostgresStore(url)
    await store.open()
    await store.close()
    assert ("queues",) in await counted(aside, SCANNED), "to make an index is one"
    aside.ask("SELECT pg_stat_reset()")
    await store.open()
    for count, first in ((1, 1), (500, 1001), (500, 2001)):
        batch, load = many(count, first)
        await store.apply(batch)
        await store.load(load)
    await store.close()
    assert await counted(aside, SCANNED) == [("sinks",), ("version",)], "of sinks, all are asked"


async def test_one_long_queue_does_not_make_the_others_slow(url: str, aside: Aside) -> None:
    """A server that saw nothing but messages of one queue would look for the first message of
    another by walking over all there are: 135 heads of 200,000 messages took 8 s."""
    store = PostgresStore(url)
    await store.open()
    queues = [QueueId(b"%d" % n) for n in range(200)]
    await store.apply(creating(*(record(q, service=S1) for q in queues)))
    await store.apply(appending(*(stored(n, queues[0], b"") for n in range(1, 3001))))
    aside.db.execute("ANALYZE headgate.queues, headgate.messages, headgate.holds")
    await store.apply(appending(*(stored(5000 + n, q) for n, q in enumerate(queues))))
    await store.close()
    await counted(aside, SCANNED)
    aside.ask("SELECT pg_stat_reset()")
    await store.open()
    loaded = await store.load(
        Load(
            heads=dict.fromkeys(queues[100:], 1),
            pages={Page(S1, queues[100], 50)},
            aged=Aged(Seq(0), 0.0, 10),
            overdue=Overdue((("d", 0.0),), Seq(0), 10),
        )
    )
    assert len(loaded.heads) == 100
    await store.close()
    read = "SELECT sum(idx_tup_read)::int8 FROM pg_stat_user_indexes HAVING sum(idx_tup_read) > 0"
    [(rows,)] = await counted(aside, read)
    assert isinstance(rows, int)
    assert rows < 2000


async def test_a_batch_of_more_than_8_mib_is_done(store: PostgresStore) -> None:
    queues = [QueueId(b"%d" % n) for n in range(16)]
    await store.apply(creating(*map(record, queues)))
    small = [stored(n, queues[n % 16], bytes([n % 256]) * 1100) for n in range(1, 8001)]
    large = stored(9000, queues[0], b"x" * 8 * 1024 * 1024)
    await store.apply(appending(*small, large))
    loaded = await store.load(Load(heads=dict.fromkeys(queues, 501)))
    assert sum(found.messages for found in loaded.heads.values()) == 8001
    assert loaded.heads[queues[0]].first[-1] == large
    assert loaded.heads[queues[5]].first == tuple(small[4::16])


async def test_shards_keep_rows_of_their_own_of_a_service(
    store: PostgresStore, url: str, aside: Aside
) -> None:
    """S001-35"""
    other = PostgresStore(url, shard=1)
    await other.open()
    await store.apply(Batch(tallies={S1: Tally.of([Q1, Q2])}))
    await other.apply(Batch(tallies={S1: Tally.of([Q3])}))
    await other.apply(Batch(tallies={S1: Tally().minus(Q1)}))
    for each in (store, other):
        assert (await each.load(Load(services={S1}))).services == {S1: Tally.of([Q2, Q3])}
    assert aside.ask("SELECT shard, count FROM headgate.tallies ORDER BY shard") == [(0, 2), (1, 0)]
    await other.close()


async def test_a_value_that_no_column_takes_is_an_error_and_the_store_goes_on(
    store: PostgresStore,
) -> None:
    await store.apply(creating(record(Q1)))
    for wrong in (
        appending(stored(2**63, Q1)),
        creating(record(Q2, "\ud800")),
        Batch(sinks={"s": SinkRecord(2**63, 1.0)}),
    ):
        with pytest.raises(StoreError, match="cannot be stored"):
            await store.apply(wrong)
    await store.apply(appending(stored(1, Q1)))
    assert await seqs(store, Q1) == [1]


async def test_a_commit_waits_for_the_disk_whatever_the_database_says(
    url: str, database: str, aside: Aside
) -> None:
    aside.db.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    store = PostgresStore(url)
    await store.open()
    await store.apply(creating(record(Q1)))
    asked = "SELECT current_setting('synchronous_commit')"
    assert await store._run(lambda: store._database.ask(asked)) == [("on",)]
    await store.close()


# Errors


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("53100", "the server's disk is full; make room"),
        ("40001", "another transaction was in the way"),
        ("58030", "the server's disk failed"),
        ("P0001", "postgresql://.*: odd"),
    ],
)
async def test_an_error_of_the_server_comes_with_advice_and_the_store_goes_on(
    store: PostgresStore, aside: Aside, code: str, advice: str
) -> None:
    await store.apply(creating(record(Q1)))
    raising = f"IF NEW.seq = 1 THEN RAISE EXCEPTION 'odd' USING ERRCODE = '{code}'; END IF"
    aside.at_insert("messages", raising)
    with pytest.raises(StoreError, match=advice):
        await store.apply(appending(stored(1, Q1)))
    await store.apply(appending(stored(2, Q1)))
    assert await seqs(store, Q1) == [2]


async def test_an_error_at_commit_is_a_failure(store: PostgresStore, aside: Aside) -> None:
    await store.apply(creating(record(Q1)))
    aside.at_insert("messages", "IF NEW.seq = 1 THEN RAISE 'odd'; END IF", deferred=True)
    with pytest.raises(StoreError, match="odd"):
        await store.apply(appending(stored(1, Q1)))
    await store.apply(appending(stored(2, Q1)))
    assert await seqs(store, Q1) == [2]


async def test_what_takes_too_long_is_given_up(url: str, aside: Aside) -> None:
    store = PostgresStore(url, statement_seconds=0.2)
    await store.open()
    await store.apply(creating(record(Q1)))
    with aside.db.transaction():
        aside.db.execute("LOCK TABLE headgate.messages IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreError, match="it took too long; look for what"):
            await store.apply(appending(stored(1, Q1)))
    await store.apply(appending(stored(2, Q1)))
    assert await seqs(store, Q1) == [2]
    await store.close()


async def test_the_loop_goes_on_while_the_server_works(store: PostgresStore, aside: Aside) -> None:
    await store.apply(creating(record(Q1)))
    aside.at_insert("messages", "PERFORM pg_sleep(0.2)")
    applying = asyncio.create_task(store.apply(appending(stored(1, Q1))))
    ticks = 0
    while not applying.done():
        await asyncio.sleep(0.01)
        ticks += 1
    await applying
    assert ticks > 5


# Lost connections


async def test_a_connection_that_was_lost_is_made_again(store: PostgresStore, aside: Aside) -> None:
    await store.apply(creating(record(Q1)))
    aside.end_backends()
    assert await head(store, Q1) is not None
    aside.end_backends()
    await store.apply(appending(stored(1, Q1)))
    assert await seqs(store, Q1) == [1]


@pytest.mark.usefixtures("impatient")
async def test_the_store_goes_on_when_the_server_is_back(
    store: PostgresStore, cluster: PostgresCluster, aside: Aside
) -> None:
    aside.db.execute("CHECKPOINT")
    await store.apply(creating(record(Q1)))
    await store.apply(appending(stored(1, Q1)))
    cluster.stop(signal.SIGQUIT)  # without a checkpoint: what is there comes from the log
    try:
        for _ in range(2):
            with pytest.raises(StoreError, match="the server cannot be reached"):
                await store.apply(appending(stored(2, Q1)))
    finally:
        cluster.start()
    assert await seqs(store, Q1) == [1]
    await store.apply(appending(stored(2, Q1)))
    assert await seqs(store, Q1) == [1, 2]


@pytest.mark.usefixtures("impatient")
async def test_a_router_that_lost_the_database_to_another_does_not_go_on(
    store: PostgresStore, url: str, aside: Aside
) -> None:
    await store.apply(creating(record(Q1)))
    aside.end_backends()
    other = PostgresStore(url)
    await other.open()
    with pytest.raises(StoreError, match="another router uses it"):
        await store.load(Load(heads={Q1: 1}))
    await other.apply(creating(record(Q2)))
    await other.close()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"another router wrote to it.*restart the router"):
            await store.load(Load(heads={Q1: 1}))
    await store.close()
    await store.open()
    assert await head(store, Q2) is not None


async def test_a_mark_that_somebody_changed_is_noticed_before_anything_is_written(
    store: PostgresStore, aside: Aside
) -> None:
    await store.apply(creating(record(Q1)))
    aside.db.execute("UPDATE headgate.marks SET number = number + 5")
    with pytest.raises(StoreError, match="another router wrote to it"):
        await store.apply(appending(stored(1, Q1)))
    assert aside.ask("SELECT count(*) FROM headgate.messages") == [(0,)]


# COMMIT


@pytest.fixture
async def proxy(cluster: PostgresCluster) -> AsyncIterator[Proxy]:
    async with Proxy(cluster.socket) as proxy:
        yield proxy


@pytest.fixture
async def distant(proxy: Proxy, database: str) -> AsyncIterator[PostgresStore]:
    """A store behind the proxy, with one queue."""
    store = PostgresStore(f"postgresql://postgres:sesame@127.0.0.1:{proxy.port}/{database}")
    await store.open()
    await store.apply(creating(record(Q1)))
    yield store
    await store.close()


BATCHES = [
    pytest.param(appending(stored(1, Q1)), id="without facts"),
    pytest.param(
        replace(appending(stored(1, Q1)), outbox=OutboxRow(1, [("RouterStarted", 1.0, "v")], 1)),
        id="with facts",
    ),
]


@pytest.mark.parametrize("odd", Odd)
@pytest.mark.parametrize("batch", BATCHES)
async def test_a_batch_is_done_once_wherever_the_connection_is_cut(
    distant: PostgresStore, proxy: Proxy, odd: Odd, batch: Batch
) -> None:
    """Done by the first COMMIT, or, if that is known not to have been done, by the second."""
    proxy.at_commit = odd
    await distant.apply(batch)
    assert proxy.at_commit is None
    if odd is Odd.KEPT:
        await proxy.deliver()
    assert await seqs(distant, Q1) == [1]
    await distant.apply(appending(stored(2, Q1)))
    assert await seqs(distant, Q1) == [1, 2]


async def test_a_commit_that_is_still_under_way_is_ended_before_anybody_looks(
    distant: PostgresStore, proxy: Proxy, aside: Aside
) -> None:
    """Otherwise a batch might be found missing, and be done a moment later."""
    # A sequence does not go back with a transaction: only the first COMMIT takes long.
    aside.db.execute("CREATE SEQUENCE times")
    slow = "IF nextval('public.times') = 1 THEN PERFORM pg_sleep(120); END IF"
    aside.at_insert("messages", slow, deferred=True)
    proxy.at_commit = Odd.DURING
    async with asyncio.timeout(60):
        await distant.apply(appending(stored(1, Q1)))
    assert await seqs(distant, Q1) == [1]
    assert aside.ask("SELECT last_value FROM times") == [(2,)]


@pytest.mark.parametrize("moment", ["before", "during"])
async def test_a_backend_that_is_ended_around_commit_does_the_batch_once(
    store: PostgresStore, aside: Aside, cluster: PostgresCluster, database: str, moment: str
) -> None:
    """Before: while the last statement is at work. During: while COMMIT is."""
    await store.apply(creating(record(Q1)))
    aside.at_insert("messages", "PERFORM pg_sleep(0.4)", deferred=moment == "during")
    applying = asyncio.create_task(store.apply(appending(stored(1, Q1))))
    await asyncio.sleep(0.2)
    other = Aside(cluster, database)
    await asyncio.to_thread(other.end_backends)
    other.db.close()
    await applying
    assert await seqs(store, Q1) == [1]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("odd", [Odd.BEFORE, Odd.AFTER])
async def test_an_outcome_that_cannot_be_found_out_is_reported_as_unknown(
    distant: PostgresStore, proxy: Proxy, odd: Odd
) -> None:
    proxy.at_commit, proxy.refuses_then = odd, True
    with pytest.raises(StoreError, match="it is not known whether it was done") as caught:
        await distant.apply(appending(stored(1, Q1)))
    assert "sesame" not in str(caught.value)
    with pytest.raises(StoreError, match="the server cannot be reached"):
        await distant.load(Load(heads={Q1: 1}))
    proxy.refuses = proxy.refuses_then = False
    if odd is Odd.BEFORE:
        assert await seqs(distant, Q1) == []
        await distant.apply(appending(stored(1, Q1)))
    else:
        # The router was told of a failure and remembers accordingly.
        for _ in range(2):
            with pytest.raises(StoreError, match="done after all; restart the router"):
                await distant.load(Load(heads={Q1: 1}))
        await distant.close()
        assert await distant.open() == 1
    assert await seqs(distant, Q1) == [1]


async def test_a_caller_that_is_cancelled_leaves_the_store_usable(
    store: PostgresStore, aside: Aside
) -> None:
    await store.apply(creating(record(Q1)))
    aside.at_insert("messages", "PERFORM pg_sleep(0.1)")
    begun = asyncio.create_task(store.apply(appending(stored(1, Q1))))
    queued = asyncio.create_task(store.apply(appending(stored(2, Q1))))
    await asyncio.sleep(0.05)
    for task in (begun, queued):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await store.apply(appending(stored(3, Q1)))
    assert await seqs(store, Q1) == [1, 3], "what has begun is finished, what has not is not"


# The model


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(batches() | loads, max_size=12))
def test_any_batches_leave_the_same_in_memory_and_in_the_database(
    cluster: PostgresCluster, shared_database: str, steps: list[Batch | Load]
) -> None:
    """S004-45"""

    async def compare() -> None:
        model = MemoryStore()
        store = PostgresStore(cluster.url(shared_database))
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

    cluster.clear_database(shared_database)
    asyncio.run(compare())

# ruff: noqa: ASYNC110
# The server has no event to wait for.

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from headgate.core.turn.store_requests import Batch, Load
from headgate.errors import ConfigError, StoreError
from headgate.store import ownership as deciding
from headgate.store.ownership import FREE, GONE, SILENT, Ownership
from headgate.store.postgres import PostgresStore
from headgate.store.postgres import database as connecting
from headgate.testing.postgres import PostgresCluster
from tests.conformance.store import Q1, Q2, creating, head, record
from tests.support.postgres_proxy import Odd, Proxy

PATIENCE = 30.0
SOON = 1.0
"""After so long a silence an owner of these tests may be ended."""
LATE = 3600.0


def known_as(timeout: float = LATE, **more: object) -> Ownership:
    return Ownership(timeout, time.monotonic, **more)  # type: ignore[arg-type]


def store_of(url: str, timeout: float = LATE) -> PostgresStore:
    return PostgresStore(url, ownership=known_as(timeout))


def known(store: PostgresStore) -> Ownership:
    assert store.ownership is not None
    return store.ownership


@asynccontextmanager
async def opened(store: PostgresStore) -> AsyncIterator[PostgresStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def waiting(store: PostgresStore) -> AsyncIterator[asyncio.Task[int]]:
    """A store that has seen that another has the database."""
    task = asyncio.create_task(store.open())
    try:
        async with asyncio.timeout(PATIENCE):
            while not known(store).rival:
                assert not task.done(), "it should wait"
                await asyncio.sleep(0.02)
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, StoreError, ConfigError):
            await task
        await store.close()


async def taken(task: asyncio.Task[int]) -> None:
    async with asyncio.timeout(PATIENCE):
        await asyncio.shield(task)


async def heard(store: PostgresStore, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await store.probe()
        await asyncio.sleep(0.02)


async def test_who_comes_first_owns_it(url: str) -> None:
    async with opened(store_of(url)) as store:
        found = known(store).taken
        assert found is not None
        assert (found.reason, found.previous, found.term, found.went_back) == (FREE, "", 1, False)
        assert known(store).silence < PATIENCE


async def test_the_second_waits_and_takes_over_what_the_first_left(url: str) -> None:
    first, second = store_of(url), store_of(url)
    await first.open()
    await first.apply(creating(record(Q1)))
    async with waiting(second) as task:
        assert "process" in known(second).rival
        assert known(second).mark == known(first).mark, "it looks how far the owner is"
        await first.close()
        await taken(task)
        found = known(second).taken
        assert found is not None
        assert found.reason == GONE
        assert found.previous.startswith("headgate on ")
        assert (found.term, found.mark) == (2, known(first).mark)
        assert known(second).mark == found.mark + 1, "it raises the mark first"
        assert known(second).rival == ""
        assert await head(second, Q1)


async def test_an_owner_that_is_silent_for_too_long_loses_it_and_writes_nothing(url: str) -> None:
    first, second = store_of(url, SOON), store_of(url)
    async with opened(first), waiting(second) as task:
        begun = time.monotonic()
        await taken(task)
        found = known(second).taken
        assert found is not None
        assert found.reason == SILENT
        assert time.monotonic() - begun > SOON / 2
        with pytest.raises(StoreError, match="another router has taken it over"):
            await first.apply(creating(record(Q1)))
        assert known(first).lost == "another router has taken it over"
        assert not (await second.load(Load(heads={Q1: 1}))).heads
        await second.apply(creating(record(Q2)))


async def test_an_owner_that_is_heard_keeps_it(url: str) -> None:
    first, second = store_of(url, SOON), store_of(url, 0.01)
    async with opened(first), waiting(second) as task:
        await heard(first, 3 * SOON)
        assert not task.done()
        assert known(first).lost is None


async def test_what_counts_is_the_time_that_the_owner_gave(url: str) -> None:
    """Who waits may have another in its configuration."""
    for first in (store_of(url, LATE), PostgresStore(url)):
        second = store_of(url, 0.01)
        async with opened(first), waiting(second) as task:
            await asyncio.sleep(SOON)
            assert not task.done()
            await first.probe()


async def test_an_owner_whose_statement_takes_long_is_not_silent(url: str) -> None:
    first, second = store_of(url, SOON), store_of(url)
    async with opened(first), waiting(second) as task:
        sleep = f"SELECT pg_sleep({3 * SOON})"
        await first._run(lambda: first._all(sleep))
        assert not task.done()
        await first.probe()


async def test_an_owner_that_stops_in_a_transaction_is_silent(
    url: str, cluster: PostgresCluster
) -> None:
    """What it had begun never happens."""
    first, second = store_of(url, SOON), store_of(url)
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang() -> None:
        first._write(creating(record(Q1)))
        loop.call_soon_threadsafe(entered.set)
        time.sleep(4 * SOON)

    async with opened(first), waiting(second) as task:
        writing = asyncio.create_task(
            first._run(lambda: first._database.transaction(hang)), name="writing"
        )
        await entered.wait()
        await taken(task)
        with pytest.raises(StoreError, match="taken it over"):
            await writing
        assert not (await second.load(Load(heads={Q1: 1}))).heads


async def test_of_two_that_wait_one_gets_it_and_the_other_waits_for_that_one(url: str) -> None:
    first = store_of(url)
    stores = [store_of(url), store_of(url)]
    await first.open()
    async with waiting(stores[0]) as one, waiting(stores[1]) as two:
        await first.close()
        await asyncio.wait([one, two], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.5)
        assert one.done() != two.done()
        winner, loser = stores if one.done() else stores[::-1]
        await winner.apply(creating(record(Q1)))
        found = known(winner).taken
        assert found is not None
        assert found.term == 2
        await winner.close()
        await taken(two if one.done() else one)
        assert await head(loser, Q1)


async def test_who_waits_can_be_stopped(url: str, cluster: PostgresCluster, database: str) -> None:
    async with opened(store_of(url)), waiting(store_of(url)) as task:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    with cluster.connect() as db:
        left = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        assert db.execute(left, (database,)).fetchall() == [(0,)]


async def test_what_is_wrong_from_the_beginning_is_told(
    url: str, cluster: PostgresCluster, database: str
) -> None:
    with cluster.connect(database) as db:
        db.execute("CREATE SCHEMA headgate; CREATE TABLE headgate.others (x int)")
    with pytest.raises(StoreError, match="of another program"):
        await store_of(url).open()


async def test_a_server_that_does_not_answer_is_waited_for(cluster: PostgresCluster) -> None:
    async with waiting(store_of(cluster.url("nowhere"))) as task:
        await asyncio.sleep(0.1)
        assert not task.done()


async def test_an_address_that_clients_would_refuse_is_told_before_the_wait(url: str) -> None:
    told: list[tuple[bytes | None, bool]] = []

    def mine(known: bytes | None, is_ours: bool) -> bytes:
        told.append((known, is_ours))
        return b"first"

    def refuses(known: bytes | None, is_ours: bool) -> bytes:
        raise ConfigError(f"{known!r}")

    first = PostgresStore(url, ownership=known_as(identify=mine))
    async with opened(first):
        assert told == [(None, True)]
        with pytest.raises(ConfigError, match="first"):
            await PostgresStore(url, ownership=known_as(identify=refuses)).open()
    with pytest.raises(ConfigError, match="first"):
        await PostgresStore(url, ownership=known_as(identify=refuses)).open()
    async with opened(PostgresStore(url, ownership=known_as(identify=mine))):
        assert told[-1] == (b"first", True)


async def test_the_number_of_the_last_fact_is_known_to_the_next_owner(url: str) -> None:
    async with opened(store_of(url)) as first:
        await first.apply(Batch(sealed=70))
        await first.apply(Batch(sealed=40))
    async with opened(store_of(url)) as second:
        found = known(second).taken
        assert found is not None
        assert found.sealed == 70


async def test_a_database_that_went_back_is_noticed(
    url: str, cluster: PostgresCluster, database: str
) -> None:
    async with opened(store_of(url, SOON)) as store:
        for _ in range(5):
            await store.apply(Batch(sealed=1))
        with cluster.connect(database) as db:
            db.execute("UPDATE headgate.marks SET number = 2")
        with pytest.raises(StoreError, match="put back to an earlier state"):
            await store.apply(Batch(sealed=1))
        assert known(store).lost is not None
        before = known(store).mark
    again = PostgresStore(url, ownership=known_as(known_mark=before))
    async with opened(again):
        found = known(again).taken
        assert found is not None
        assert found.went_back
        assert (found.expected, found.mark) == (before, 2)


async def test_who_waits_sees_that_the_database_goes_back(
    url: str, cluster: PostgresCluster, database: str
) -> None:
    first, second = store_of(url), store_of(url)
    await first.open()
    for _ in range(5):
        await first.apply(Batch(sealed=1))
    async with waiting(second) as task:
        with cluster.connect(database) as db:
            db.execute("UPDATE headgate.marks SET number = 2")
        await first.close()
        await taken(task)
        found = known(second).taken
        assert found is not None
        assert found.went_back


async def test_an_owner_of_an_older_version_is_waited_for(
    url: str, cluster: PostgresCluster, database: str
) -> None:
    """It has neither owners nor the number of the last fact; its successor makes them."""
    first, second = PostgresStore(url), store_of(url, 0.01)
    await first.open()
    with cluster.connect(database) as db:
        db.execute("DROP TABLE headgate.owners, headgate.open_groups")
        db.execute("ALTER TABLE headgate.marks DROP COLUMN sealed")
        db.execute("ALTER TABLE headgate.remembered DROP COLUMN numbers")
        db.execute("UPDATE headgate.version SET number = 2")
    async with waiting(second) as task:
        await asyncio.sleep(0.5)
        assert not task.done()
        await first.close()
        await taken(task)
        assert known(second).taken is not None


async def test_an_owner_comes_first_when_the_server_is_back() -> None:
    with PostgresCluster(fsync=False) as server:
        url = server.url(server.create_database())
        first, second = store_of(url), store_of(url)
        async with opened(first), waiting(second) as task:
            await asyncio.to_thread(server.stop)
            async with asyncio.timeout(PATIENCE):
                while "process" in known(second).rival:
                    await asyncio.sleep(0.05)
            beating = asyncio.create_task(_beat(first))
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(PATIENCE):
                while "process" not in known(second).rival and not task.done():
                    await asyncio.sleep(0.05)
            beating.cancel()
            if task.done():
                # The machine was so busy that the owner came late: then it knows that it did.
                with pytest.raises(StoreError):
                    await first.probe()
            else:
                await first.apply(creating(record(Q1)))


async def _beat(store: PostgresStore) -> None:
    while True:
        with suppress(StoreError):
            await store.probe()
        await asyncio.sleep(0.02)


async def test_the_term_is_told_on_a_connection_of_its_own(url: str) -> None:
    async with opened(store_of(url)) as first:
        holding = asyncio.create_task(first._run(lambda: first._all("SELECT pg_sleep(0.5)")))
        assert await first.current_term() == 1
        await holding
    nowhere = PostgresStore("postgresql://127.0.0.1:1/x?connect_timeout=1")
    assert await nowhere.current_term() is None


async def test_an_owner_whose_connection_was_cut_has_a_moment_to_come_back(
    url: str, cluster: PostgresCluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "GRACE_SECONDS", 10.0)
    first, second = store_of(url), store_of(url)
    async with opened(first), waiting(second) as task:
        with cluster.connect(database) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"
            )
        await asyncio.sleep(0.5)
        await first.apply(creating(record(Q1)))
        assert not task.done()
        assert known(first).lost is None


@pytest.mark.parametrize("odd", Odd)
async def test_a_batch_whose_owner_vanished_at_commit_is_there_whole_or_never(
    url: str, cluster: PostgresCluster, database: str, odd: Odd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of it is still under way, the next owner has it ended before it looks."""
    monkeypatch.setattr(connecting, "RECONNECT_PAUSES", (0.02,))
    async with Proxy(cluster.socket) as proxy:
        distant = f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}"
        first, second = store_of(distant, SOON), store_of(url)
        async with opened(first), waiting(second) as task:
            proxy.at_commit, proxy.refuses_then = odd, True
            with pytest.raises(StoreError, match="not known whether it was done"):
                await first.apply(creating(record(Q1)))
            await taken(task)
            if odd is Odd.KEPT:
                await proxy.deliver()
            found = bool((await second.load(Load(heads={Q1: 1}))).heads)
            assert found == (odd in (Odd.DURING, Odd.AFTER))
            proxy.refuses = False
            for _ in range(2):
                with pytest.raises(StoreError, match="another router has taken it over"):
                    await first.apply(creating(record(Q2)))
            assert known(first).lost is not None
            assert not (await second.load(Load(heads={Q2: 1}))).heads

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headgate.agent.records import Database, Records, users
from headgate.errors import StoreError
from headgate.store.writer import GROUP_MAX
from tests.support.agent_records import ask


class Wrong(Exception):
    pass


def add_and_fail(tables: Database) -> None:
    users.add(tables)
    raise Wrong


def add_fat(tables: Database, size: int) -> None:
    """Needs so many bytes on the disk."""
    users.add(tables)
    tables.change("INSERT INTO requests VALUES (NULL, ?, ?, ?, 0)", b"c", bytes(size), b"")


@asynccontextmanager
async def held(records: Records) -> AsyncIterator[None]:
    """The thread is busy; what is called meanwhile is one group."""
    begun, go = threading.Event(), threading.Event()

    def wait(tables: Database) -> None:
        begun.set()
        assert go.wait(60)

    waiting = records.read(wait)
    assert await asyncio.to_thread(begun.wait, 60)
    try:
        yield
    finally:
        go.set()
        await waiting


async def ids(records: Records) -> list[int]:
    return [user.id for user in await records.read(users.everyone)]


async def test_calls_of_many_are_one_commit(records: Records) -> None:
    before = records.commits
    async with held(records):
        calls = [records.write(users.add) for _ in range(100)]
    assert await asyncio.gather(*calls) == list(range(1, 101))
    assert records.commits - before == 1


async def test_a_group_is_bounded(records: Records) -> None:
    before = records.commits
    async with held(records):
        calls = [records.write(users.add) for _ in range(2 * GROUP_MAX + 1)]
    await asyncio.gather(*calls)
    assert records.commits - before == 3


async def test_calls_happen_in_their_order(records: Records) -> None:
    seen: list[int] = []

    def note(tables: Database, n: int) -> int:
        seen.append(n)
        return users.add(tables)

    numbers = await asyncio.gather(*(records.write(note, n) for n in range(500)))
    assert seen == list(range(500))
    assert numbers == list(range(1, 501))


async def test_a_call_has_its_place_before_anybody_awaits_it(records: Records) -> None:
    first, second = records.write(users.add), records.write(users.add)
    assert [await second, await first] == [2, 1]


async def test_reads_see_the_calls_before_them(records: Records) -> None:
    async with held(records):
        none = records.read(users.everyone)
        added = records.write(users.add)
        one = records.read(users.everyone)
        later = records.write(users.add)
    assert await none == []
    assert [user.id for user in await one] == [await added]
    assert await later == 2


async def test_one_that_fails_undoes_itself_and_nobody_else(records: Records) -> None:
    before = records.commits
    async with held(records):
        first = records.write(users.add)
        wrong = records.write(add_and_fail)
        last = records.write(users.add)
    with pytest.raises(Wrong):
        await wrong
    assert [await first, await last] == [1, 2]
    assert await ids(records) == [1, 2]
    assert records.commits - before == 1


async def test_one_that_fails_alone_leaves_nothing(records: Records) -> None:
    before = records.commits
    with pytest.raises(Wrong):
        await records.write(add_and_fail)
    assert await ids(records) == []
    assert records.commits == before
    assert await records.write(users.add) == 1


async def test_a_question_that_fails_fails_alone(records: Records) -> None:
    def ask_nonsense(tables: Database) -> None:
        tables.ask("SELECT * FROM nothing_of_this_name")

    async with held(records):
        wrong = records.read(ask_nonsense)
        added = records.write(users.add)
        wrong_as_well = records.read(ask_nonsense)
    for each in (wrong, wrong_as_well):
        with pytest.raises(StoreError, match=r"agent\.db: no such table"):
            await each
    assert await added == 1


async def test_what_only_asks_cannot_change(records: Records) -> None:
    with pytest.raises(AssertionError, match="goes through write"):
        await records.read(users.add)
    assert await ids(records) == []


async def test_a_number_that_is_too_large_is_an_error_of_the_store(records: Records) -> None:
    with pytest.raises(StoreError, match="a number is too large to be stored"):
        await records.write(users.switch_services, 2**64, on=True)


async def test_a_job_that_takes_too_much_is_an_error(records: Records) -> None:
    """A future takes no `StopIteration`: who waits for it would wait for ever."""

    def take(tables: Database) -> object:
        return next(iter(tables.ask("SELECT * FROM users")))

    with pytest.raises(RuntimeError, match="took more than there was"):
        await records.read(take)


async def test_a_caller_that_is_cancelled_leaves_a_whole_transaction(path: Path) -> None:
    """Cancelling before the thread begins, while it works, or later, the call happens as
    a whole, and `CancelledError` reaches who was cancelled."""
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with await Records.open(path) as records:

        async def add_two(n: int) -> None:
            def job(tables: Database) -> None:
                users.add(tables)
                users.add(tables)

            await records.write(job)

        async with held(records):
            tasks = [asyncio.create_task(add_two(n)) for n in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in results] == [True, False] * 10
        assert await ids(records) == list(range(1, 41))
    assert unhandled == []


async def test_what_was_called_is_on_the_disk_after_closing(path: Path) -> None:
    records = await Records.open(path)
    async with held(records):
        calls = [records.write(users.add) for _ in range(10)]
        cancelled = records.write(users.add)
        cancelled.cancel()
        closing = asyncio.create_task(records.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreError, match="it is closed; open it again"):
            await records.write(users.add)
    await closing
    assert [call.done() for call in calls] == [True] * 10
    async with await Records.open(path) as again:
        assert await ids(again) == list(range(1, 12))


async def test_closing_that_is_cancelled_closes(path: Path) -> None:
    records = await Records.open(path)
    async with held(records):
        added = records.write(users.add)
        closing = asyncio.create_task(records.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    await records.close()  # waits for the same
    assert await added == 1
    await (await Records.open(path)).close()


def test_a_loop_that_was_closed_does_not_keep_the_call_from_the_disk(path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    def wait(tables: Database) -> None:
        begun.set()
        assert go.wait(60)

    async def call() -> Records:
        records = await Records.open(path)
        records.write(wait)
        assert await asyncio.to_thread(begun.wait, 60)
        records.write(users.add)  # in the next group
        return records

    records = asyncio.run(call())
    go.set()
    asyncio.run(records.close())

    async def again() -> list[int]:
        async with await Records.open(path) as records:
            return await ids(records)

    assert asyncio.run(again()) == [1]


async def limit_pages(records: Records, spare: int) -> None:
    """The disk has room for so many pages more."""
    [(pages,)] = await ask(records, "PRAGMA page_count")
    await ask(records, f"PRAGMA max_page_count = {pages + spare}")


async def test_a_full_disk_is_an_error_and_work_goes_on_when_there_is_room(
    records: Records,
) -> None:
    await limit_pages(records, 0)
    with pytest.raises(StoreError, match=r"agent\.db: the disk is full; make room"):
        await records.write(add_fat, 100_000)
    assert await ids(records) == []
    await limit_pages(records, 1000)
    await records.write(add_fat, 100_000)
    assert await ids(records) == [1]


async def test_one_that_does_not_fit_on_the_disk_keeps_nobody_else_from_it(
    records: Records,
) -> None:
    await limit_pages(records, 3)
    async with held(records):
        first = records.write(users.add)
        fat = records.write(add_fat, 100_000)
        last = records.write(users.add)
        seen = records.read(users.everyone)
    with pytest.raises(StoreError, match="the disk is full"):
        await fat
    assert [await first, await last] == [1, 2]
    assert [user.id for user in await seen] == [1, 2]


async def test_if_a_group_is_lost_each_call_is_tried_by_itself(records: Records) -> None:
    """SQLite rolls everything back after some errors; a ROLLBACK stands in for them."""

    def lose(tables: Database) -> None:
        tables.ask("ROLLBACK")
        raise Wrong

    before = records.commits
    async with held(records):
        first = records.write(users.add)
        wrong = records.write(lose)
        last = records.write(users.add)
        seen = records.read(users.everyone)
    with pytest.raises(Wrong):
        await wrong
    assert [await first, await last] == [1, 2]
    assert [user.id for user in await seen] == [1, 2]
    assert records.commits - before == 2


async def test_a_store_that_is_locked_is_an_error_and_work_goes_on_when_it_is_not(
    records: Records, path: Path
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with held(records):
        calls = [records.write(users.add) for _ in range(3)]
    for call in calls:
        with pytest.raises(StoreError, match="another program has locked it"):
            await call
    other.execute("ROLLBACK")
    other.close()
    assert await ids(records) == []
    assert await records.write(users.add) == 1


async def test_statements_are_counted(records: Records) -> None:
    before = records.statements
    await records.write(users.add)
    assert records.statements - before == 3  # BEGIN, INSERT, COMMIT
    await records.read(users.get, 1)
    assert records.statements - before == 4
    async with held(records):
        calls = [records.write(users.add) for _ in range(10)]
    await asyncio.gather(*calls)
    # BEGIN, COMMIT, and three for each call: a savepoint, the row, the release.
    assert records.statements - before == 4 + 2 + 30


async def test_opening_that_is_cancelled_lets_go_of_the_file(path: Path) -> None:
    opening = asyncio.create_task(Records.open(path))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    for thread in threading.enumerate():
        if thread.name.startswith("headgate-records"):
            await asyncio.to_thread(thread.join, 60)
    await (await Records.open(path)).close()

"""Steps of the records, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headgate.agent.record_line import RecordLine
from headgate.agent.records import Database, Records, users
from headgate.errors import StoreError


class Line:
    """A line, and what failed in it."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.errors: list[Exception] = []
        self.line = RecordLine(records, 0.001, self.errors.append)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with await Records.memory() as records:
        found = Line(records)
        yield found
        await found.line.close()


class Failing:
    """A job that fails so many times."""

    def __init__(self, times: int, error: Exception) -> None:
        self.times = times
        self.error = error

    def __call__(self, tables: Database) -> int:
        if self.times:
            self.times -= 1
            raise self.error
        return users.add(tables)


def count(tables: Database) -> int:
    return len(users.everyone(tables))


async def test_a_write_that_fails_holds_up_what_reads_it(line: Line) -> None:
    line.line.write(Failing(3, StoreError("the disk is full")))
    assert await line.line.read(count) == 1
    assert [str(error) for error in line.errors] == ["the disk is full"] * 3


async def test_who_waits_gets_the_error_and_the_line_goes_on(line: Line) -> None:
    failing = line.line.change(Failing(1, StoreError("full")))
    reading = line.line.read(Failing(1, StoreError("locked")))
    with pytest.raises(StoreError, match="full"):
        await failing
    with pytest.raises(StoreError, match="locked"):
        await reading
    assert await line.line.read(count) == 0
    assert line.errors == []


async def test_a_read_that_is_needed_is_tried_until_it_works(line: Line) -> None:
    job = Failing(2, StoreError("locked"))
    line.line.write(users.add)
    assert await line.line.read_surely(lambda tables: (job.times and job(tables)) or count(tables))
    assert len(line.errors) == 2


async def test_a_fault_of_our_own_does_not_stop_the_line(line: Line) -> None:
    line.line.write(Failing(1, ZeroDivisionError()))
    line.line.write(users.add)
    assert await line.line.read(count) == 1
    assert [type(error) for error in line.errors] == [ZeroDivisionError]


async def test_who_is_cancelled_leaves_and_the_step_is_done(line: Line) -> None:
    """S004-26."""
    adding = asyncio.create_task(_wait(line.line.change(users.add)))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert await line.line.read(count) == 1


async def test_closing_tries_what_is_left_once_and_does_not_wait_for_the_disk() -> None:
    async with await Records.memory() as records:
        errors: list[Exception] = []
        line = RecordLine(records, 1e6, errors.append)
        line.write(Failing(10**6, StoreError("full")))
        line.write(users.add)
        while not errors:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await line.close()
        assert await records.read(count) == 1


async def _wait(waiting: asyncio.Future[int]) -> int:
    return await waiting

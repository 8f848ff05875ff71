"""The table of requests that an answer may still belong to."""

from __future__ import annotations

import asyncio

from headgate.client.smp.requests import ping
from headgate.client.smp.waiting import Batch, SentBlock, WaitingRow, WaitingTable
from headgate.errors import NotConnected
from headgate.wire.smp.codec.replies import Pong


def block_of(table: WaitingTable, batch: Batch, *correlations: bytes) -> SentBlock:
    block = SentBlock(correlations, False, 30.0)
    for place, correlation in enumerate(correlations):
        table.add(correlation, WaitingRow(ping(), batch, place, block))
    return block


async def make_batch(count: int) -> Batch:
    return Batch(count, asyncio.get_running_loop().create_future())


async def test_a_request_is_taken_once() -> None:
    """S000-64"""
    table = WaitingTable(600.0, 10)
    block_of(table, await make_batch(2), b"a", b"b")
    found = table.take(b"a", 0.0)
    assert found is not None
    assert found[1] is False
    assert table.take(b"a", 0.0) is None
    assert len(table) == 1


async def test_requests_whose_time_is_over_are_remembered_for_a_time() -> None:
    """S000-67"""
    table = WaitingTable(600.0, 10)
    block = block_of(table, await make_batch(3), b"a", b"b", b"c")
    assert table.take(b"c", 0.0) is not None
    assert [row.place for row in table.expire(block, 30.0)] == [0, 1]
    late = table.take(b"a", 629.9)
    assert late is not None
    assert late[1] is True
    assert table.take(b"b", 630.0) is None
    assert len(table) == table.late_count == 0


async def test_so_many_are_remembered_and_the_oldest_go_first() -> None:
    """S000-67"""
    table = WaitingTable(600.0, 10_000)
    batch = await make_batch(10_003)
    names = [b"%d" % n for n in range(10_003)]
    first, second = block_of(table, batch, *names[:5]), block_of(table, batch, *names[5:])
    table.expire(first, 1.0)
    table.expire(second, 2.0)
    assert table.late_count == 10_000
    assert [table.take(name, 3.0) is None for name in names[:5]] == [True] * 3 + [False] * 2


async def test_what_is_old_goes_when_something_younger_comes() -> None:
    table = WaitingTable(600.0, 10)
    batch = await make_batch(1)
    table.expire(block_of(table, batch, b"a"), 0.0)
    table.expire(block_of(table, batch, b"b"), 600.0)
    assert table.late_count == 1


async def test_a_batch_is_settled_once_and_not_after_its_caller_left() -> None:
    batch = await make_batch(2)
    batch.settle(0, Pong())
    batch.settle(0, NotConnected("too late"))
    assert not batch.over.done()
    batch.is_left = True
    batch.settle(1, Pong())
    assert batch.outcomes == [Pong(), None]
    assert batch.results() == [Pong()]

"""Waiting for what goes on without the waiting."""

from __future__ import annotations

import asyncio
import gc

import pytest

from headgate.agent.tasks import result_of
from headgate.errors import StoreError


async def test_a_failure_that_nobody_waits_for_is_no_complaint_of_the_loop() -> None:
    """S004-26: the caller has left, and what it began fails."""
    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    work: asyncio.Future[None] = loop.create_future()
    waiting = asyncio.create_task(result_of(work))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not work.done()
    work.set_exception(StoreError("the disk is full"))
    del work, waiting
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_who_waits_gets_the_result_or_the_failure() -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[int] = loop.create_future()
    done.set_result(42)
    assert await result_of(done) == 42
    failed: asyncio.Future[int] = loop.create_future()
    failed.set_exception(StoreError("the disk is full"))
    with pytest.raises(StoreError):
        await result_of(failed)

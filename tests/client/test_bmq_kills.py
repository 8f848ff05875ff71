"""A router that is killed while a client posts and reads: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.client.bmq import Change, Client, Lost, Queue, Subscription
from tests.support.bmq_peer import until
from tests.support.bmq_router import Router

DOMAINS = '[domains.orders]\nmode = "priority"\n'
URI = "bmq://orders/incoming"
KILLS = 3
SENDERS = 8
POSTS = 150
"""Between two kills, of all senders together at least."""


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    router = Router(tmp_path / "router", DOMAINS)
    router.start()
    yield router
    router.kill()
    assert "Traceback" not in router.log, router.log


class Senders:
    """They post one message after the other, and note which were acknowledged."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._is_stopping = False
        self.acknowledged: list[bytes] = []
        self._tasks = [asyncio.create_task(self._send(n)) for n in range(SENDERS)]

    async def _send(self, sender: int) -> None:
        number = 0
        while not self._is_stopping:
            body = b"%d:%d" % (sender, number)
            await self._queue.post(body, {"number": number})
            self.acknowledged.append(body)
            number += 1

    async def more(self) -> None:
        wanted = len(self.acknowledged) + POSTS
        await until(lambda: len(self.acknowledged) >= wanted, "acknowledgements")

    async def stop(self) -> None:
        self._is_stopping = True
        await asyncio.gather(*self._tasks)


async def kill_often(router: Router, senders: Senders) -> None:
    for _ in range(KILLS):
        await senders.more()
        await asyncio.to_thread(router.kill)
        await asyncio.to_thread(router.start)
    await senders.more()
    await senders.stop()


async def test_kills_in_the_middle_of_posting_lose_and_double_nothing(router: Router) -> None:
    """BMQ-59."""
    changes: list[Change] = []
    async with await Client.connect(router.broker, on_change=changes.append) as client:
        queue = await client.open(URI, write=True)
        senders = Senders(queue)
        await kill_often(router, senders)
    assert len([change for change in changes if isinstance(change, Lost)]) == KILLS
    found = []
    async with await Client.connect(router.broker) as client, asyncio.timeout(60):
        reader = await client.open(URI, read=True)
        for _ in senders.acknowledged:
            delivery = await anext(reader)
            found.append(delivery.body)
            await delivery.confirm()
    assert Counter(found) == Counter(senders.acknowledged)
    for sender in range(SENDERS):
        numbers = [int(body[2:]) for body in found if body.startswith(b"%d:" % sender)]
        assert numbers == list(range(len(numbers)))
    await router.empties(URI)


async def test_kills_in_the_middle_of_reading_lose_nothing(router: Router) -> None:
    """What was confirmed and not yet stored as such may come again, the rest does not."""
    found: set[bytes] = set()

    async def read(queue: Queue) -> None:
        async for delivery in queue:
            found.add(delivery.body)
            await delivery.confirm()

    async with (
        await Client.connect(router.broker) as sending,
        await Client.connect(router.broker) as receiving,
    ):
        window = Subscription("number >= 0", max_unconfirmed_messages=20)
        queue = await receiving.open(URI, read=True, subscriptions=[window])
        reading = asyncio.create_task(read(queue))
        senders = Senders(await sending.open(URI, write=True))
        await kill_often(router, senders)
        await until(lambda: found >= set(senders.acknowledged), "all messages")
        await router.empties(URI)
        await queue.close()
        await reading
    assert found == set(senders.acknowledged)

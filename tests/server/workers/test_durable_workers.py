"""SMP and BlazingMQ clients on all workers, as processes."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import redis

from headgate.client.bmq.client import Client
from headgate.errors import HeadgateError
from headgate.testing.smp_client import SmpClient
from tests.support.resp_workers import Workers, started
from tests.support.smp_asking import OK, receive

MORE = """\
[listen.smp]
port = 0
[listen.bmq]
port = 0
[smp]
queue_quota = 100000
[domains.orders]
mode = "priority"
"""
QUEUE = "bmq://orders/load"
SENDERS = 4
LOAD_SECONDS = 0.4


async def smp_client(workers: Workers) -> SmpClient:
    """A client. While a worker is being started again it may be sent away, and comes again."""
    ready = workers.ready["smp"]
    fingerprint = base64.urlsafe_b64decode(ready["fingerprint"] + "==")
    while True:
        with suppress(OSError, HeadgateError, EOFError):
            return await SmpClient.connect(ready["host"], ready["port"], fingerprint)
        await asyncio.sleep(0.05)


async def bmq_client(workers: Workers) -> Client:
    ready = workers.ready["bmq"]
    while True:
        with suppress(OSError, HeadgateError):
            return await Client.connect(f"tcp://{ready['host']}:{ready['port']}")
        await asyncio.sleep(0.05)


class Ledger:
    """What was accepted: nothing of it may be lost."""

    def __init__(self) -> None:
        self.smp: set[bytes] = set()
        self.bmq: set[bytes] = set()
        self.sent = 0

    def next(self) -> bytes:
        self.sent += 1
        return b"%d" % self.sent


@asynccontextmanager
async def load(workers: Workers, ledger: Ledger) -> AsyncIterator[None]:
    """Clients of both wires that send all the time, and come again when they are lost."""
    owner = await smp_client(workers)
    queues = [await owner.new_queue(subscribe=False) for _ in range(SENDERS)]

    async def send(place: int) -> None:
        while True:
            client = await smp_client(workers)
            with suppress(HeadgateError):
                while True:
                    body = ledger.next()
                    reply = await client.send(queues[place], body)
                    if reply == OK:
                        ledger.smp.add(body)
                    else:
                        await asyncio.sleep(0.01)
            client.close()

    async def post() -> None:
        async with await bmq_client(workers) as client:
            queue = await client.open(QUEUE, read=False, write=True)
            while True:
                body = ledger.next()
                await queue.post(body)
                ledger.bmq.add(body)

    sending = [asyncio.create_task(send(place)) for place in range(SENDERS)]
    sending += [asyncio.create_task(post()) for _ in range(SENDERS)]
    yield
    for task in sending:
        task.cancel()
    results = await asyncio.gather(*sending, return_exceptions=True)
    assert {type(each) for each in results} == {asyncio.CancelledError}
    owner.close()
    reader = await smp_client(workers)
    found: list[bytes] = []
    for queue in queues:
        await reader.subscribe(queue)
        found += await receive(reader, queue)
    reader.close()
    assert ledger.smp <= set(found)
    assert len(found) == len(set(found)), "each was stored once"
    await read_all(workers, ledger.bmq)


async def read_all(workers: Workers, accepted: set[bytes]) -> None:
    """Everything that was acknowledged can be read, and a message that was posted once is one."""
    async with await bmq_client(workers) as client, asyncio.timeout(60):
        queue = await client.open(QUEUE, read=True, write=True)
        await queue.post(b"the end")
        seen: list[bytes] = []
        async for delivery in queue:
            await delivery.confirm()
            if delivery.body == b"the end":
                break
            seen.append(delivery.body)
        await queue.close()
    assert accepted <= set(seen)
    assert len(seen) == len(set(seen)), "a post that was sent again is known"


async def killed(workers: Workers, number: int) -> None:
    """Kill a worker, and wait until it is there again."""
    before = workers.start_of(number)
    os.kill(workers.process_of(number), signal.SIGKILL)
    async with asyncio.timeout(60):
        while workers.start_of(number) <= before:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.timeout(180)
async def test_nothing_accepted_is_lost_when_workers_are_killed(tmp_path: Path) -> None:
    """Clients of three wires while a front is killed, and then worker 0: those of the worker that
    lives go on, and what was accepted is there, once."""
    with started(tmp_path, more=MORE) as workers:
        ledger = Ledger()
        channel: redis.Redis = workers.client_on(0)
        async with load(workers, ledger):
            await asyncio.sleep(LOAD_SECONDS)
            await killed(workers, 1)
            assert channel.ping(), "a client of the other worker notices nothing"
            channel.close()
            await asyncio.sleep(LOAD_SECONDS)
            channel = workers.client_on(1)
            await killed(workers, 0)
            assert channel.ping()
            channel.close()
            await asyncio.sleep(LOAD_SECONDS)
        assert ledger.smp
        assert ledger.bmq
        assert "Traceback" not in workers.log
        assert workers.stop() == 0


async def test_clients_of_durable_wires_are_on_all_workers(tmp_path: Path) -> None:
    """Also where nobody listens for Redis clients: most of them are not worker 0's, which has the
    shard."""
    with started(tmp_path, more=MORE) as workers:
        clients = [await smp_client(workers) for _ in range(6)]
        queue = await clients[0].new_queue()
        for number, client in enumerate(clients):
            assert await client.send(queue, b"%d" % number) == OK
        found = await receive(clients[0], queue)
        assert found == [b"%d" % number for number in range(6)]
        async with asyncio.timeout(20):
            while [each["clients"] for each in workers.status()["workers"]] != [2, 4]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for client in clients:
            client.close()

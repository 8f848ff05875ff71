"""taskiq-redis: tasks through a stream, with the lock around what is claimed."""

from __future__ import annotations

import asyncio
import sys

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

verb, host, port, word = sys.argv[1:]
broker = RedisStreamBroker(
    f"redis://{host}:{port}",
    queue_name="orders.taskiq",
    consumer_group_name="g",
    consumer_name=word,
    xread_block=100,
    idle_timeout=300,
    unacknowledged_lock_timeout=5,
)


@broker.task(task_name="order")
async def handle(number: int, kind: str) -> None:
    print(number, flush=True)
    if verb == "hang":
        await asyncio.sleep(600)


async def add() -> None:
    await broker.startup()
    for number in range(int(word)):
        await handle.kiq(number=number, kind="slow" if number % 2 else "express")
    await broker.shutdown()


async def work() -> None:
    broker.is_worker_process = True
    await run_receiver_task(broker, run_startup=True)


asyncio.run(add() if verb == "add" else work())

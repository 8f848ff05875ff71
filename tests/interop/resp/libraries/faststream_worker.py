"""FastStream: a subscriber of a stream with a group."""

from __future__ import annotations

import asyncio
import sys

from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub

verb, host, port, word = sys.argv[1:]
broker = RedisBroker(f"redis://{host}:{port}")


async def add() -> None:
    async with broker:
        for number in range(int(word)):
            kind = "slow" if number % 2 else "express"
            await broker.publish({"kind": kind, "number": number}, stream="orders.faststream")


if verb == "add":
    asyncio.run(add())
    sys.exit()


claims = 300 if verb == "claim" else None


@broker.subscriber(
    stream=StreamSub("orders.faststream", group="g", consumer=word, claim_min_idle_time=claims)
)
async def handle(order: dict[str, str | int]) -> None:
    print(order["number"], flush=True)
    if verb == "hang":
        await asyncio.sleep(600)


asyncio.run(FastStream(broker).run())

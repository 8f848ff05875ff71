"""Jobs that two workers share. One of them fails in the middle; its job comes to the other.

python work_queue.py tcp://127.0.0.1:30114
"""

from __future__ import annotations

import asyncio
import sys

from headgate.client.bmq import Client, Subscription

QUEUE = "bmq://jobs/resize"
ONE_AT_A_TIME = Subscription(max_unconfirmed_messages=1)


async def main(address: str) -> None:
    async with await Client.connect(address) as shop:
        jobs = await shop.open(QUEUE, write=True)
        for picture in ("cat", "dog"):
            await jobs.post(picture.encode())  # durable when this returns

    async with await Client.connect(address, name="steady") as steady:
        async with await Client.connect(address, name="careless") as careless:
            taken = await careless.open(QUEUE, read=True, subscriptions=[ONE_AT_A_TIME])
            job = await anext(taken)
            print(f"careless has {job.body.decode()} and fails")
        queue = await steady.open(QUEUE, read=True, subscriptions=[ONE_AT_A_TIME])
        for _ in range(2):
            job = await anext(queue)
            print(f"steady did {job.body.decode()}")
            await job.confirm()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""One order, several apps: each has its own copy, and `audit` has only the large ones.

The filter of `audit` is in the configuration (`subscriptions` of the domain), so a small order is
never stored for it.

python fan_out.py tcp://127.0.0.1:30114
"""

from __future__ import annotations

import asyncio
import sys

from headgate.client.bmq import Client, Queue

ORDERS = "bmq://orders/incoming"


async def drain(app: str, queue: Queue, count: int) -> None:
    for _ in range(count):
        order = await anext(queue)
        print(f"{app}: {order.body.decode()} for {order.properties['amount']!r}")
        await order.confirm()


async def main(address: str) -> None:
    async with await Client.connect(address) as client:
        orders = await client.open(ORDERS, write=True)
        await orders.post(b"a pencil", {"amount": 2})
        await orders.post(b"a piano", {"amount": 9000})
        await drain("shipping", await client.open(f"{ORDERS}?id=shipping", read=True), 2)
        await drain("audit", await client.open(f"{ORDERS}?id=audit", read=True), 1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

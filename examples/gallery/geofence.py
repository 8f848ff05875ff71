"""Who is near gets the call: each driver subscribes to a rectangle of the map.

A thousand rectangles cost a message no more than one: they are found by an index over their
bounds, not tried one after another.

python geofence.py tcp://127.0.0.1:30114
"""

from __future__ import annotations

import asyncio
import sys

from headgate.client.bmq import Client, Subscription

CALLS = "bmq://places/calls"
DRIVERS = {"ada": (0, 0, 100, 100), "bob": (100, 0, 200, 100), "cy": (0, 100, 200, 200)}


def inside(left: int, low: int, right: int, high: int) -> Subscription:
    return Subscription(f"x >= {left} && x < {right} && y >= {low} && y < {high}")


async def main(address: str) -> None:
    async with await Client.connect(address) as client:
        calls = await client.open(CALLS, write=True)
        for x, y in ((30, 40), (150, 20), (90, 170)):
            await calls.post(f"{x}, {y}".encode(), {"x": x, "y": y})
    for name, area in DRIVERS.items():
        async with await Client.connect(address, name=name) as driver:
            queue = await driver.open(CALLS, read=True, subscriptions=[inside(*area)])
            call = await anext(queue)
            print(f"{name} drives to {call.body.decode()}")
            await call.confirm()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

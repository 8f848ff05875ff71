"""A room in which everybody hears everybody: a channel, and any Redis client.

python chat.py redis://127.0.0.1:6379
"""

from __future__ import annotations

import asyncio
import sys

from redis.asyncio import Redis


async def listen(redis: Redis, name: str, room: str, count: int, ready: asyncio.Event) -> None:
    async with redis.pubsub(ignore_subscribe_messages=True) as ears:
        await ears.subscribe(room)
        ready.set()
        while count:
            if message := await ears.get_message(timeout=10):
                print(f"{name} hears: {message['data'].decode()}", flush=True)
                count -= 1


async def main(address: str) -> None:
    async with Redis.from_url(address) as redis:
        people = {name: asyncio.Event() for name in ("ada", "bob")}
        async with asyncio.TaskGroup() as group:
            for name, ready in people.items():
                group.create_task(listen(redis, name, "room", 2, ready))
            for ready in people.values():
                await ready.wait()
            heard = await redis.publish("room", "cy: hello")
            print(f"{heard} people heard it", flush=True)
            await redis.publish("room", "cy: goodbye")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""Who is online: a key that each client keeps alive, and an event when it expires.

python presence.py redis://127.0.0.1:6379
"""

from __future__ import annotations

import asyncio
import sys

from redis.asyncio import Redis


async def main(address: str) -> None:
    async with Redis.from_url(address) as redis:
        await redis.config_set("notify-keyspace-events", "Ex")
        async with redis.pubsub(ignore_subscribe_messages=True) as gone:
            await gone.subscribe("__keyevent@0__:expired")
            await gone.get_message(timeout=10)
            for name, milliseconds in (("ada", 60_000), ("bob", 100)):
                await redis.set(f"online:{name}", "yes", px=milliseconds)
            print("online:", *sorted(await online(redis)))
            while not (event := await gone.get_message(timeout=10)):
                pass
            print("gone:", event["data"].decode().removeprefix("online:"))
            print("online:", *await online(redis))


async def online(redis: Redis) -> list[str]:
    names = ("ada", "bob")
    there = await redis.mget([f"online:{name}" for name in names])
    return [name for name, value in zip(names, there, strict=True) if value]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

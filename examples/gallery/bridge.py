"""Move from Redis without a day on which everybody moves: what is published there is heard here.

Start it, move the subscribers one by one, then the publishers, then stop it. Whoever publishes on
both sides at once is heard twice by those who listen on both.

python bridge.py redis://OLD:6379 redis://127.0.0.1:6379 'news.*'
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from redis.asyncio import Redis


async def main(old_address: str, new_address: str, pattern: str) -> None:
    async with (
        Redis.from_url(old_address) as old,
        Redis.from_url(new_address) as new,
        old.pubsub() as there,
    ):
        await there.psubscribe(pattern)
        async for message in there.listen():
            match message["type"]:
                case "psubscribe":
                    print(f"passing on {pattern}", flush=True)
                case "pmessage":
                    heard = await new.publish(message["channel"], message["data"])
                    print(f"{message['channel'].decode()}: heard by {heard}", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))

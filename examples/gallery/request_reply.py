"""A question and its answer: the question names the channel on which the answer is awaited.

python request_reply.py redis://127.0.0.1:6379
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid

from redis.asyncio import Redis


async def serve(redis: Redis, ready: asyncio.Event) -> None:
    """Adds numbers, for whoever asks."""
    async with redis.pubsub(ignore_subscribe_messages=True) as questions:
        await questions.subscribe("add")
        ready.set()
        while True:
            if message := await questions.get_message(timeout=10):
                question = json.loads(message["data"])
                await redis.publish(question["reply_to"], sum(question["numbers"]))


async def ask(redis: Redis, *numbers: int) -> int:
    async with redis.pubsub(ignore_subscribe_messages=True) as answers:
        reply_to = f"reply:{uuid.uuid4()}"
        await answers.subscribe(reply_to)
        question = json.dumps({"numbers": numbers, "reply_to": reply_to})
        if not await redis.publish("add", question):
            raise RuntimeError("nobody serves")
        while not (answer := await answers.get_message(timeout=10)):
            pass
        return int(answer["data"])


async def main(address: str) -> None:
    async with Redis.from_url(address) as redis:
        ready = asyncio.Event()
        server = asyncio.create_task(serve(redis, ready))
        await ready.wait()
        print("1 + 2 + 3 =", await ask(redis, 1, 2, 3))
        server.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

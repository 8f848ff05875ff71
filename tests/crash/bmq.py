"""Kill -9 of a router of the BlazingMQ wire while clients of the official SDK post and consume."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.support.bmq_router import SUCCESS, Client, Router, SdkError, bodies

DOMAINS = """\
[domains.crash]
mode = "fanout"
apps = ["kept", "even", "read"]
subscriptions = { even = ["number % 2 == 0"] }
max_messages = "none"
max_bytes = "none"
"""
QUEUE = "bmq://crash/q"
POSTS = 1000
"""In each round."""
KILLS = 3
"""That a client sees. The SDK waits twice as long after each before it connects again."""
WINDOW = 1_000_000
SIZES = (0, 10, 100, 1000, 20_000)


@dataclass
class Result:
    posted: list[bytes] = field(default_factory=list)
    acked_at_kills: list[int] = field(default_factory=list)
    """How many posts of a round were acknowledged when its router was killed."""
    read: Counter[bytes] = field(default_factory=Counter)
    """What the reader was given, and how often."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        repeated = sum(count > 1 for count in self.read.values())
        return (
            f"{len(self.posted)} posted, kills after {self.acked_at_kills} acks,"
            f" {repeated} read more than once, {len(self.wrong)} wrong"
        )


class Restarted(Router):
    """A router that is killed and started again."""

    async def fail(self, draw: random.Random) -> None:
        await asyncio.to_thread(self.kill)
        await asyncio.to_thread(self.start)


class Failing(Protocol):
    """A router as clients see it: it fails, and something serves again at the same address."""

    @property
    def broker(self) -> str: ...
    @property
    def log(self) -> str: ...
    async def fail(self, draw: random.Random) -> None: ...
    async def until(self, uri: str, what: str, holds: Callable[[dict[str, Any]], bool]) -> None: ...
    async def empties(self, uri: str) -> None: ...


async def run(folder: Path, rounds: int, seed: int) -> Result:
    """So many kills of one router."""
    router = Restarted(folder, DOMAINS)
    try:
        router.start()
        result = await play(router, rounds, seed)
        router.stop()
    finally:
        router.kill()
    return result


async def play(router: Failing, rounds: int, seed: int) -> Result:
    """So many failures under a producer and a reader, who reconnect; then consume everything.

    The apps tell three things: what is kept for an app that nobody reads, what its filter leaves
    to another, and what a consumer is given who confirms all the time.
    """
    draw, result = random.Random(seed), Result()
    clients: list[Client] = []
    try:
        for first in range(0, rounds, KILLS):
            await _life(router, clients, min(KILLS, rounds - first), draw, result)
        result.wrong += _compare("read", result.read, result.posted)
        for app, wanted in {"kept": result.posted, "even": result.posted[0::2]}.items():
            consumer = await Client.start(router.broker)
            clients.append(consumer)
            await _drain(consumer, app, wanted, result)
        await router.empties(QUEUE)
    finally:
        for client in clients:
            await client.kill()
    if "Traceback" in router.log:
        result.wrong.append(router.log[router.log.index("Traceback") :][:2000])
    return result


async def _life(
    router: Failing, clients: list[Client], kills: int, draw: random.Random, result: Result
) -> None:
    """One producer and one reader, until both have seen so many kills and all is read."""
    producer, reader = [await Client.start(router.broker) for _ in range(2)]
    clients += [producer, reader]
    await producer.open(QUEUE, write=True)
    await reader.open(f"{QUEUE}?id=read", read=True, max_unconfirmed_messages=50)
    reading = asyncio.create_task(_read(reader, result.read))
    try:
        for kill in range(1, kills + 1):
            await _round(router, producer, draw, result)
            for client in (producer, reader):
                await client.event("StateRestored", kill)
            statuses = await producer.acks(kill * POSTS)
            if statuses != [SUCCESS] * len(statuses):
                result.wrong.append(f"posts were answered with {Counter(statuses)}")
        await router.until(QUEUE, "the reader's end", lambda queue: _is_read(queue["apps"]["read"]))
    finally:
        reading.cancel()
    for client in (producer, reader):
        await client.stop()


async def _round(router: Failing, producer: Client, draw: random.Random, result: Result) -> None:
    """Post, and have the router fail meanwhile."""
    before, at = producer.acked_count, draw.randrange(1, POSTS)
    await _post(producer, at, draw, result)
    await producer.acks(before + draw.randrange(at))
    await asyncio.sleep(draw.uniform(0, 0.05))
    result.acked_at_kills.append(producer.acked_count - before)
    failing = asyncio.create_task(router.fail(draw))
    await _post(producer, POSTS - at, draw, result)
    await failing


async def _post(producer: Client, count: int, draw: random.Random, result: Result) -> None:
    for _ in range(count):
        number = len(result.posted)
        body = b"%d " % number + draw.randbytes(draw.choice(SIZES))
        await producer.put(QUEUE, body, {"number": number})
        result.posted.append(body)


async def _read(reader: Client, read: Counter[bytes]) -> None:
    while True:
        if not reader.messages:
            await asyncio.sleep(0.005)
            continue
        message = await reader.message()
        read[message.body] += 1
        with suppress(SdkError):  # not connected just now: the message comes again
            await reader.confirm(message)


def _is_read(app: dict[str, int]) -> bool:
    return app["undelivered"] == app["unconfirmed"] == 0


async def _drain(consumer: Client, app: str, wanted: list[bytes], result: Result) -> None:
    """Each message comes once, in the order of the posts."""
    await consumer.open(f"{QUEUE}?id={app}", read=True, max_unconfirmed_messages=WINDOW)
    messages = await consumer.take(len(wanted))
    await consumer.settle()
    messages += consumer.messages
    found = Counter(bodies(messages))
    result.wrong += _compare(app, found, wanted)
    result.wrong += [f"{app}: {_name(b)} came {c} times" for b, c in found.items() if c > 1]
    if found == Counter(wanted) and bodies(messages) != wanted:
        result.wrong.append(f"{app}: the order is another")
    await consumer.confirm(*messages)
    await consumer.stop()


def _compare(app: str, found: Counter[bytes], wanted: Iterable[bytes]) -> list[str]:
    wanted = set(wanted)
    lost = [f"{app}: {_name(body)} is lost" for body in wanted - found.keys()]
    return lost + [f"{app}: {_name(body)} was not posted" for body in found.keys() - wanted]


def _name(body: bytes) -> str:
    return body.partition(b" ")[0].decode(errors="replace")

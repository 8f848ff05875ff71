"""A mixed load on all wires for a long time, by hand: `python -m tools.lasting --minutes 60`.

Clients come, do what clients do, and go, on every wire at once; the router's memory and descriptors
are read all along. It draws docs/memory.svg and writes the section "Memory" of docs/soak.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import linear_regression, median

from redis.asyncio import Redis

from headgate.client.bmq import Client, Subscription
from headgate.core.model.value import value
from headgate.testing.smp_client import SmpClient
from headgate.wire.smp.codec.commands import Del
from headgate.wire.smp.codec.replies import Msg
from tests.crash.routers import start
from tools.soak import write

CONFIG = """\
directory = "state"
[admin]
port = 0
[listen.resp]
port = 0
[listen.smp]
port = 0
[listen.bmq]
port = 0
[domains.orders]
mode = "priority"
message_ttl = "60s"
[domains.news]
mode = "fanout"
apps = ["all", "large"]
[domains.news.subscriptions]
large = ["amount > 50"]
"""

REPORT = """\
![memory and descriptors by minute](memory.svg)

| what | result |
|---|---|
| minutes | {minutes:.0f} |
| seed | {seed} |
| sessions that came and went: RESP, SMP, BMQP | {resp}, {smp}, {bmq} |
| messages heard on channels; sent and confirmed; posted and confirmed | {messages} |
| what went wrong | {wrong} |
| memory after a tenth of the time, at the end, when all have left | {memory} MB |
| growth in the second half, by a straight line | {growth:.2f} MB an hour |
| descriptors before and after | {before}, {after} |

`python -m tools.lasting` keeps Redis, SimpleX and BlazingMQ clients coming and going: each
subscribes, publishes or sends some messages of mixed sizes, takes what is for it, confirms it, and
leaves, one in ten without a word.
"""

SAMPLE_SECONDS = 5.0
ROUND_SECONDS = 0.5
"""One kind of client comes so often, on any machine: what the router remembers for a while grows
with the rate, and would look like a leak where others use the machine as well."""


@value
class Sample:
    seconds: float
    memory: float
    """Megabytes."""
    descriptors: int


class Lasting:
    def __init__(self, seed: int, ready: dict[str, dict[str, object]]) -> None:
        self.random = random.Random(seed)
        self.ready = ready
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.is_over = False

    async def play(self, seconds: float) -> None:
        works = [self.resp, self.resp, self.smp, self.smp, self.bmq, self.bmq]
        tasks = [asyncio.create_task(self._repeat(work)) for work in works]
        await asyncio.sleep(seconds)
        self.is_over = True
        await asyncio.gather(*tasks)

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self.is_over:
            next_round = time.monotonic() + ROUND_SECONDS
            try:
                async with asyncio.timeout(120):
                    await work()
            except Exception as error:
                self.wrong.append(f"{work.__name__}: {type(error).__name__}: {error}")
            await asyncio.sleep(next_round - time.monotonic())

    def body(self) -> bytes:
        """Mostly small, now and then large."""
        return bytes(int(min(self.random.lognormvariate(5, 1.5), 15_000)) + 1)

    async def resp(self) -> None:
        host, port = self.address("resp")
        channels = [f"room:{self.random.randrange(1000)}" for _ in range(5)]
        protocol = self.random.choice((2, 3))
        async with Redis(host=host, port=port, protocol=protocol) as client:
            pubsub = client.pubsub()
            await pubsub.subscribe(*channels)
            await pubsub.psubscribe(f"room:{self.random.randrange(10)}?")
            for _ in channels:
                await pubsub.get_message(timeout=20)
            await pubsub.get_message(timeout=20)
            own = f"own:{self.random.getrandbits(64)}"
            await pubsub.subscribe(own)
            async with client.pipeline(transaction=False) as pipe:
                for _ in range(10):
                    pipe.publish(self.random.choice(channels), self.body())
                    pipe.set(f"key:{self.random.randrange(5000)}", self.body(), ex=30)
                await pipe.execute()
            await client.publish(own, b"last")
            while (told := await pubsub.get_message(timeout=20)) is not None:
                self.counts["heard"] += told["type"] in ("message", "pmessage")
                if told.get("data") == b"last":
                    break
            if self.random.random() < 0.9:
                await pubsub.aclose()  # type: ignore[no-untyped-call]
        self.counts["resp"] += 2

    async def smp(self) -> None:
        host, port = self.address("smp")
        fingerprint = urlsafe_b64decode(f"{self.ready['smp']['fingerprint']}=")
        bob = await SmpClient.connect(host, port, fingerprint)
        amy = await SmpClient.connect(host, port, fingerprint)
        try:
            queues = [await bob.new_queue() for _ in range(3)]
            by_id = {queue.id: queue for queue in queues}
            for queue in queues:
                await amy.send(queue, self.body())
            for _ in queues:
                entity, told = await bob.event(timeout=20)
                assert isinstance(told, Msg), told
                await bob.ack(by_id[entity], told.message_id)
                self.counts["sent"] += 1
            for queue in queues:
                await bob.ask(queue.asks(Del()))
        finally:
            for client in (bob, amy):
                client.close()
                await client.closed()
        self.counts["smp"] += 2

    async def bmq(self) -> None:
        host, port = self.address("bmq")
        address = f"tcp://{host}:{port}"
        queue = f"bmq://orders/q{self.random.randrange(20)}"
        async with await Client.connect(address) as reader, await Client.connect(address) as writer:
            mine = self.random.getrandbits(31)
            wanted = Subscription(f"who == {mine}", max_unconfirmed_messages=50)
            reading = await reader.open(queue, read=True, subscriptions=[wanted])
            writing = await writer.open(queue, write=True)
            count = self.random.randrange(1, 30)
            posts = [writing.post(self.body(), {"who": mine, "amount": n}) for n in range(count)]
            await asyncio.gather(*posts)
            for _ in range(count):
                delivery = await anext(reading)
                await delivery.confirm()
                self.counts["posted"] += 1
            news = await reader.open("bmq://news/q?id=large", read=True)
            told = await writer.open("bmq://news/q", write=True)
            everything = await writer.open("bmq://news/q?id=all", read=True)
            await told.post(self.body(), {"amount": 100})
            for app in (news, everything):
                delivery = await anext(app)
                await delivery.confirm()
        self.counts["bmq"] += 2

    def address(self, wire: str) -> tuple[str, int]:
        place = self.ready[wire]
        return str(place["host"]), int(str(place["port"]))


def sample(pid: int, began: float) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text()
    [memory] = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    return Sample(time.monotonic() - began, int(memory) / 1024, descriptors)


def drawn(samples: list[Sample]) -> str:
    """The memory by time, as a picture."""
    width, height, left, low = 720, 260, 56, 40
    last = max(each.seconds for each in samples)
    most = max(each.memory for each in samples) * 1.15

    def x_of(seconds: float) -> float:
        return left + (width - left - 16) * seconds / last

    def y_of(memory: float) -> float:
        return height - low - (height - low - 16) * memory / most

    line = " ".join(f"{x_of(s.seconds):.1f},{y_of(s.memory):.1f}" for s in samples)
    step = next(s for s in (10, 20, 50, 100, 200, 500) if most / s <= 6)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12" role="img"'
        ' aria-label="resident memory of the router in megabytes by minute">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for memory in range(0, int(most) + 1, step):
        y = y_of(memory)
        parts.append(f'<path d="M{left} {y:.1f}H{width - 16}" stroke="#e3e6ea"/>')
        parts.append(
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#57606a">{memory}</text>'
        )
    minutes = last / 60
    tick = next(t for t in (0.5, 1, 2, 5, 10, 20, 60) if minutes / t <= 8)
    for number in range(int(minutes / tick) + 1):
        x = x_of(number * tick * 60)
        parts.append(
            f'<text x="{x:.1f}" y="{height - low + 18}" text-anchor="middle" fill="#57606a">'
            f"{number * tick:g}</text>"
        )
    parts += [
        f'<polyline points="{line}" fill="none" stroke="#0b62c4" stroke-width="2"/>',
        f'<text x="{left}" y="{height - 6}" fill="#57606a">minutes; resident memory in MB</text>',
        "</svg>\n",
    ]
    return "\n".join(parts)


async def run(minutes: float, seed: int) -> tuple[str, str, bool]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "headgate.toml").write_text(CONFIG)
        router = start(folder)
        try:
            ready = json.loads((folder / "ready.json").read_text())
            lasting = Lasting(seed, ready)
            began = time.monotonic()
            samples = [sample(router.pid, began)]
            playing = asyncio.create_task(lasting.play(minutes * 60))
            while not playing.done():
                await asyncio.wait([playing], timeout=SAMPLE_SECONDS)
                samples.append(sample(router.pid, began))
                if len(samples) % 12 == 0:
                    print(f"{samples[-1]} {dict(lasting.counts)}", file=sys.stderr, flush=True)
                    print("\n".join(lasting.wrong[-3:]), file=sys.stderr, flush=True)
            await playing
            await asyncio.sleep(5)
            left = sample(router.pid, began)
        finally:
            router.terminate()
            router.wait()
    half = [each for each in samples if each.seconds > samples[-1].seconds / 2]
    slope, _ = linear_regression([s.seconds for s in half], [s.memory for s in half])
    tenth = len(samples) // 10
    early = median(each.memory for each in samples[max(0, tenth - 5) : tenth + 6])
    late = median(each.memory for each in samples[-11:])
    told = REPORT.format(
        minutes=minutes,
        seed=seed,
        **{kind: lasting.counts[kind] for kind in ("resp", "smp", "bmq")},
        messages="; ".join(str(lasting.counts[kind]) for kind in ("heard", "sent", "posted")),
        wrong="; ".join(sorted(set(lasting.wrong))[:5]) or "nothing",
        memory=f"{early:.1f}, {late:.1f}, {left.memory:.1f}",
        growth=slope * 3600,
        before=samples[0].descriptors,
        after=left.descriptors,
    )
    return told, drawn([*samples, left]), not lasting.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--report", type=Path, default=Path("docs/soak.md"))
    options = parser.parse_args()
    told, picture, is_well = asyncio.run(run(options.minutes, options.seed))
    write(options.report, "Memory", told)
    options.report.with_name("memory.svg").write_text(picture)
    print(told)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())

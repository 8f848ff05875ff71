"""Libraries that work with streams, as they come, each worker a process of its own: what one adds
others are given, by an expression or without, over a restart of the router and the loss of a
worker. Checks 29 to 33, 42, 43, 58 of docs/design/streams.md."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.client.bmq import Client
from tests.support.resp_servers import eventually
from tests.support.stream_router import StreamRouter

LIBRARIES = Path(__file__).parent / "libraries"
PYTHON = {
    "redis": "redis_py.py",
    "faststream": "faststream_worker.py",
    "taskiq": "taskiq_worker.py",
    "walrus": "walrus_worker.py",
}
ORDERS = 6
EXPRESS = ["0", "2", "4"]
SLOW = ["1", "3", "5"]
WHERE = '?where=kind == "express"'

DOMAINS = """
[domains.plain]
mode = "fanout"
apps = ["g"]
streams = ["orders.redis", "orders.walrus", "orders.node"]
consumer_grace = "1 s"

[domains.faststream]
mode = "fanout"
apps = ["g"]
streams = ["orders.faststream"]
consumer_grace = "1 s"
envelope = "faststream"
properties = { kind = "kind" }

[domains.taskiq]
mode = "fanout"
apps = ["g"]
streams = ["orders.taskiq"]
consumer_grace = "1 s"
properties = { task = "task_name", kind = "kwargs.kind:string" }
"""


class Worker:
    """A process that prints which orders it was given."""

    def __init__(self, program: list[str], environment: dict[str, str], out: Path) -> None:
        self._out = out
        with out.open("wb") as file:
            self.process = subprocess.Popen(
                program, env=environment, stdout=file, stderr=subprocess.STDOUT
            )

    @property
    def given(self) -> list[str]:
        return [line for line in self._out.read_text().split("\n")[:-1] if line.isdigit()]

    def has(self, orders: list[str]) -> bool:
        """Whether it was given all of these."""
        assert self.process.poll() is None, self._out.read_text()
        return {*orders} <= {*self.given}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Library:
    """Starts workers of one library at a router."""

    def __init__(self, name: str, router: StreamRouter, folder: Path) -> None:
        self.key = f"orders.{name}"
        self.router = router
        self._folder = folder
        self._environment = {**os.environ}
        if name in PYTHON:
            self._program = [sys.executable, str(LIBRARIES / PYTHON[name])]
        else:
            self._program = ["node", str(install_node_redis(folder))]

    def _words(self, verb: str, word: str) -> list[str]:
        host, port = self.router.resp
        return [*self._program, verb, host, str(port), word]

    def add(self) -> None:
        done = subprocess.run(
            self._words("add", str(ORDERS)),
            env=self._environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    @contextmanager
    def worker(self, verb: str, consumer: str) -> Iterator[Worker]:
        out = self._folder / f"{consumer.partition('?')[0]}.out"
        worker = Worker(self._words(verb, consumer), self._environment, out)
        try:
            yield worker
        finally:
            worker.kill()


def install_node_redis(folder: Path) -> Path:
    """node-redis by npm, in a folder that is gone afterwards; its worker is copied beside it."""
    program = folder / "node_redis.mjs"
    program.write_text((LIBRARIES / "node_redis.mjs").read_text())
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "redis@6.3.1"],
        cwd=folder,
        check=True,
        timeout=120,
    )
    return program


@pytest.fixture
def router(tmp_path: Path) -> Iterator[StreamRouter]:
    router = StreamRouter(tmp_path, domains=DOMAINS)
    router.start()
    yield router
    router.stop()


@pytest.mark.parametrize("name", [*PYTHON, "node"])
def test_workers_of_a_library(name: str, router: StreamRouter, tmp_path: Path) -> None:
    library = Library(name, router, tmp_path)
    library.add()
    router.kill()
    router.start()
    with library.worker("hang", f"lost{WHERE}") as lost:
        eventually(lambda: lost.has([]) and lost.given != [], "the first order")
    with library.worker("work", f"express{WHERE}") as express:
        eventually(lambda: express.has(EXPRESS), "what the lost one had")
        with library.worker("work", "any") as other:
            eventually(lambda: other.has(SLOW), "the others")
            client = router.client()
            eventually(lambda: client.xlen(library.key) == 0, "all acknowledged")
            assert client.xpending(library.key, "g")["pending"] == 0
        assert {*express.given} == {*EXPRESS}
        assert {*lost.given} <= {*EXPRESS}


@pytest.mark.parametrize("where", ["", WHERE])
@pytest.mark.parametrize("name", [*PYTHON, "node"])
def test_a_worker_claims_what_a_lost_one_held(name: str, where: str, tmp_path: Path) -> None:
    """Nothing comes back by itself where a lost consumer keeps what it holds; and what was
    acknowledged is not given again after a restart."""
    router = StreamRouter(tmp_path, domains=DOMAINS.replace('"1 s"', '"never"'))
    router.start()
    try:
        library = Library(name, router, tmp_path)
        library.add()
        with library.worker("hang", f"lost{where}") as lost:
            eventually(lambda: lost.has([]) and lost.given != [], "the first order")
        client = router.client()
        held = client.xpending(library.key, "g")["consumers"]
        assert [each["name"] for each in held] == ["lost"]
        wanted = EXPRESS if where else EXPRESS + SLOW
        with library.worker("claim", f"other{where}") as other:
            library.add()  # taskiq claims only where something is new
            left = 2 * (ORDERS - len(wanted))
            eventually(lambda: client.xlen(library.key) == left, "what the lost one had, too")
            assert {*other.given} == {*wanted}
        router.kill()
        router.start()
        assert router.client().xlen(library.key) == left
        with library.worker("claim", "third") as third:
            eventually(lambda: third.has(SLOW if where else []), "what nobody had")
            eventually(lambda: router.client().xlen(library.key) == 0, "all acknowledged")
            assert {*third.given} == ({*SLOW} if where else set())
    finally:
        router.stop()


def test_what_was_published_survives_the_router(tmp_path: Path) -> None:
    """Check 68: on a channel that feeds, PUBLISH is a receipt. What BMQP's clients post is heard by
    subscribers, and what is published reaches them by an expression. Several workers refuse to
    start with such a domain."""
    domains = """
[domains.shop]
mode = "fanout"
apps = ["g"]
speaks = "told.{kind}"
[[domains.shop.feeds]]
channels = ["orders.*"]
queue = "incoming"
properties = { kind = "kind" }
"""
    router = StreamRouter(tmp_path, domains=domains, workers=1)
    router.start()
    try:
        client = router.client()
        with client.pubsub(  # type: ignore[no-untyped-call]
            ignore_subscribe_messages=True
        ) as hearing:
            hearing.subscribe("orders.new", "told.express")
            eventually(lambda: client.pubsub_numsub("told.express")[0][1] == 1, "a subscriber")
            order = '{"kind": "express"}'
            assert client.publish("orders.new", order) == 2
            listening = hearing.listen()
            heard = {next(listening)["channel"] for _ in range(2)}
            assert heard == {"orders.new", "told.express"}
        router.kill()
        router.start()
        again: Any = router.client()
        consumer = 'w?where=kind == "express"'
        found = again.xreadgroup("g", consumer, {"shop/incoming": ">"}, block=20_000)
        assert found[0][1][0][1] == {"channel": "orders.new", "body": order}
    finally:
        router.stop()


def test_a_broadcast_queue_is_a_channel(tmp_path: Path) -> None:
    """Check 73: a subscriber of redis-py hears what is posted over BMQP and added with XADD, by an
    expression."""
    domains = '[domains.prices]\nmode = "broadcast"\nstreams = ["ticks"]\n'
    router = StreamRouter(tmp_path, domains=domains, workers=1)
    router.start()

    async def post() -> None:
        async with await Client.connect(router.bmq) as bmq:
            queue = await bmq.open("bmq://prices/ticks", write=True)
            await queue.post(b"cheap", {"symbol": "X", "price": 3})
            await queue.post(b"posted", {"symbol": "X", "price": 12})

    try:
        client = router.client()
        name = 'bmq://prices/ticks?where=symbol == "X" && price > 10'
        with client.pubsub(  # type: ignore[no-untyped-call]
            ignore_subscribe_messages=True
        ) as hearing:
            hearing.subscribe("news", name)
            eventually(lambda: client.pubsub_numsub(name)[0][1] == 1, "a subscriber")
            asyncio.run(post())
            client.xadd("ticks", {"symbol": "Y", "price": "99", "data": "other"})
            client.xadd("ticks", {"symbol": "X", "price": "11", "data": "added"})
            client.publish("news", "end")
            listening = hearing.listen()
            heard = [next(listening) for _ in range(3)]
            assert [(each["channel"], each["data"]) for each in heard] == [
                (name, "posted"),
                (name, "added"),
                ("news", "end"),
            ]
    finally:
        router.stop()

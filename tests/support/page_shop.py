"""A shop that keeps a router busy, for people and tests to look at: orders with expressions, prices
on channels, and somebody who can be made not to read.

`PageRouter` is a `headgate serve` as a process. `Shop` runs its clients in a thread with an event
loop of its own, so that tests that drive a browser can be plain.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import redis
import redis.asyncio

from headgate.client.bmq import Client, Queue, Subscription
from headgate.core.model.message import Properties

READY_SECONDS = 60.0
DOMAIN = "orders"
QUEUE = "bmq://orders/incoming"
TOKEN = "a token to look"
OPERATOR_TOKEN = "a token to act"

CONFIG = f"""\
directory = "state"
[store]
url = "{{store}}"
[log]
level = "warning"
[admin]
port = {{port}}
token = "{TOKEN}"
operator_token = "{OPERATOR_TOKEN}"
[listen.resp]
port = 0
mailbox_soft = "256KiB"
mailbox_hard = "1MiB"
slow_timeout = "0s"
[listen.bmq]
port = 0
[domains.{DOMAIN}]
mode = "fanout"
apps = ["shipping", "billing", "audit"]
max_messages = 100000
[domains.{DOMAIN}.subscriptions]
audit = ["amount >= 1000"]
[domains.jobs]
mode = "priority"
"""

CONSUMERS: tuple[tuple[str, str, str | None, int], ...] = (
    ("express-eu", "shipping", 'kind == "express" && region == "eu"', 10),
    ("express-1", "shipping", 'kind == "express"', 8),
    ("express-2", "shipping", 'kind == "express"', 8),
    ("heavy", "shipping", "weight > 30", 5),
    ("bulk-1", "shipping", 'kind == "standard" && amount < 500', 1),
    ("bulk-2", "shipping", 'kind == "standard" && amount < 500', 1),
    ("legacy-import", "shipping", "kind == EXPRESS", 0),
    ("ledger", "billing", None, 0),
    ("auditor", "audit", None, 0),
)
"""Name, app, expression and priority. That of legacy-import is never true, as people write it."""

CLOSE_SECONDS = 20.0

LEDGER_SECONDS = 0.25
"""How long the ledger takes for an order: longer than it takes to make one."""

T = TypeVar("T")


class PageRouter:
    """A router as a process, with an admin port that stays the same when it is started again."""

    def __init__(self, folder: Path, store: str = "sqlite:queues.db") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = _free_port()
        self.addresses: dict[str, Any] = {}
        config = CONFIG.format(port=self.port, store=store)
        (folder / "headgate.toml").write_text(config)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        program = [sys.executable, "-c", "from headgate.cli import main; main()", "serve"]
        arguments = [*program, "--config", "headgate.toml", "--ready-file", "ready.json"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(arguments, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_SECONDS
        while not ready.exists():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
        self.addresses = json.loads(ready.read_text())

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def ask(self, path: str, body: object | None = None, token: str = TOKEN) -> Any:  # noqa: ANN401
        """What the API answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        try:
            method = "GET" if body is None else "POST"
            sent = None if body is None else json.dumps(body)
            connection.request(method, f"/api/v1/{path}", sent, headers)
            answer = connection.getresponse()
            found = json.loads(answer.read())
            assert answer.status == 200, found
            return found
        finally:
            connection.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.stop()


class Shop:
    """The clients of a router: some are there all the time, others for as long as a test wants."""

    def __init__(self, router: PageRouter, *, orders_per_second: float = 20.0) -> None:
        self._resp = router.addresses["resp"]
        bmq = router.addresses["bmq"]
        self._bmq = f"tcp://{bmq['host']}:{bmq['port']}"
        self._pause = 1 / orders_per_second
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="shop", daemon=True)
        self._clients = AsyncExitStack()
        self._work: list[asyncio.Task[None]] = []
        self._dice = random.Random(7)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @contextmanager
    def reader(self, name: str, app: str, expression: str | None = None) -> Iterator[None]:
        """A consumer of orders that reads nothing, for a while."""

        async def opened() -> AsyncExitStack:
            async with AsyncExitStack() as stack:
                client = await Client.connect(self._bmq, name=name)
                stack.push_async_callback(client.close)
                wanted = [] if expression is None else [Subscription(expression)]
                await client.open(f"{QUEUE}?id={app}", read=True, subscriptions=wanted)
                return stack.pop_all()

        stack = self._run(opened())
        try:
            yield
        finally:
            self._run(stack.aclose())

    # Those who are there all the time.

    async def _open(self) -> None:
        for name, app, expression, priority in CONSUMERS:
            window = 25 if name == "ledger" else 20
            queue = await self._consumer(name, app, expression, priority, window)
            self._go(self._read(queue, LEDGER_SECONDS if name == "ledger" else 0.02))
        for name, region in (("shop-eu", "eu"), ("shop-us", "us")):
            client = await self._client(name)
            self._go(self._sell(await client.open(QUEUE, write=True), region))
        for number in range(6):
            self._go(self._watch(f"dash-{number}", "ticks.*"))
        self._go(self._quote("feed-nasdaq", ("AAPL", "ADBE", "AMD", "MSFT")))
        self._go(self._quote("feed-xetra", ("BMW", "SAP")))

    async def _close(self) -> None:
        for task in self._work:
            task.cancel()
        _, left = await asyncio.wait(self._work, timeout=CLOSE_SECONDS)
        assert not left, [task.get_stack() for task in left]
        await asyncio.wait_for(self._clients.aclose(), CLOSE_SECONDS)

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        self._work.append(self._loop.create_task(work))

    async def _client(self, name: str) -> Client:
        return await self._clients.enter_async_context(await Client.connect(self._bmq, name=name))

    async def _consumer(
        self, name: str, app: str, expression: str | None, priority: int, window: int
    ) -> Queue:
        client = await self._client(name)
        wanted = Subscription(expression, priority, max_unconfirmed_messages=window)
        return await client.open(f"{QUEUE}?id={app}", read=True, subscriptions=[wanted])

    async def _read(self, queue: Queue, seconds: float) -> None:
        async for delivery in queue:
            await asyncio.sleep(seconds)
            await delivery.confirm()

    async def _sell(self, queue: Queue, region: str) -> None:
        while True:
            await queue.post(b"an order", self._order(region))
            await asyncio.sleep(self._pause * 2)

    def _order(self, region: str) -> Properties:
        dice = self._dice
        return {
            "kind": dice.choices(("standard", "express", "pickup"), (7, 2, 1))[0],
            "region": dice.choice((region, "apac")),
            "amount": int(dice.paretovariate(0.8) * 20),
            "weight": dice.randint(1, 45),
        }

    async def _watch(self, name: str, pattern: str) -> None:
        async with self._redis(name) as client, client.pubsub() as subscription:
            await subscription.psubscribe(pattern)
            async for _ in subscription.listen():
                pass

    async def _quote(self, name: str, symbols: tuple[str, ...]) -> None:
        async with self._redis(name) as client:
            for symbol in itertools.cycle(symbols):
                price = self._dice.randint(1000, 90000) / 100
                await client.publish(f"ticks.{symbol}", json.dumps({"s": symbol, "p": price}))
                await asyncio.sleep(0.01)

    def _redis(self, name: str) -> redis.asyncio.Redis:
        host, port = self._resp["host"], self._resp["port"]
        return redis.asyncio.Redis(host=host, port=port, client_name=name)

    # Those whom a test asks for.

    @contextmanager
    def stuck_subscriber(
        self, name: str, publisher: str, channel: str = "reports.daily"
    ) -> Iterator[None]:
        """Somebody subscribes and does not read, while somebody else publishes until it has to
        wait."""
        address = (self._resp["host"], self._resp["port"])
        with socket.create_connection(address) as stuck:
            stuck.sendall(f"CLIENT SETNAME {name}\r\nSUBSCRIBE {channel}\r\n".encode())
            body = b"x" * 65536
            with redis.Redis(*address, client_name=publisher, socket_timeout=None) as client:
                client.ping()
                ended = threading.Event()

                def publish() -> None:
                    with suppress(redis.RedisError, OSError, ValueError):
                        while not ended.is_set():
                            client.publish(channel, body)

                thread = threading.Thread(target=publish, name=publisher, daemon=True)
                thread.start()
                try:
                    yield
                finally:
                    ended.set()
                    stuck.close()  # then nobody waits for it any more
                    thread.join(30)

    def publish(self, channel: str) -> None:
        """Publish something once."""
        with redis.Redis(self._resp["host"], self._resp["port"]) as client:
            client.publish(channel, "something")

    def post(self, queue: str, properties: Properties) -> None:
        """Send one message to a queue."""
        self._run(self._post(queue, properties))

    async def _post(self, queue: str, properties: Properties) -> None:
        async with await Client.connect(self._bmq, name="stranger") as client:
            await (await client.open(queue, write=True)).post(b"something", properties)

    @contextmanager
    def named(self, name: bytes) -> Iterator[None]:
        """Somebody with a name of their own."""
        with socket.create_connection((self._resp["host"], self._resp["port"])) as client:
            client.sendall(
                b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$%d\r\n%s\r\n" % (len(name), name)
            )
            assert client.recv(100).startswith(b"+OK")
            yield


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port

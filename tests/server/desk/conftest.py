"""A router that runs, with something in it to look at."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.client.bmq import Client, Subscription
from tests.server.test_serve import Served
from tests.support.desk_api import Api

OPERATOR = "what operators know"
CONFIG = f"""\
directory = "state"
[admin]
port = 0
operator_token = "{OPERATOR}"
[desk]
bodies = true
tables = "tables"
[listen.resp]
port = 0
mailbox_soft = "64 KiB"
mailbox_hard = "128 KiB"
[listen.bmq]
port = 0
[listen.smp]
port = 0
[domains.orders]
mode = "fanout"
apps = ["shipping", "billing"]
streams = ["orders.*"]
"""


class Busy:
    """A router with a subscriber of channels, and a consumer of a queue."""

    def __init__(self, folder: Path) -> None:
        (folder / "headgate.toml").write_text(CONFIG)
        self.folder = folder
        self.served = Served(folder).started()
        self.look = Api(self.served.port, self.served.token)
        self.operator = Api(self.served.port, OPERATOR)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client: Client | None = None

    def port(self, wire: str) -> int:
        found: int = json.loads(self.served.ready.read_text())[wire]["port"]
        return found

    def redis(self, *commands: str) -> socket.socket:
        """A connection that has said something, and heard an answer to each."""
        connected = socket.create_connection(("127.0.0.1", self.port("resp")), timeout=30)
        for command in commands:
            connected.sendall(command.encode() + b"\r\n")
            assert connected.recv(4096)
        return connected

    def run(self, work: object) -> object:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)  # type: ignore[arg-type]

    async def open_orders(self) -> None:
        """A producer, and a consumer of one app who wants express orders only."""
        self.client = await Client.connect(f"tcp://127.0.0.1:{self.port('bmq')}", name="shop")
        express = Subscription('kind == "express"', priority=8, max_unconfirmed_messages=2)
        self.reader = await self.client.open(
            "bmq://orders/incoming?id=shipping", read=True, subscriptions=[express]
        )
        self.writer = await self.client.open("bmq://orders/incoming", write=True)
        for number in range(6):
            kind = "express" if number % 2 else "slow"
            await self.writer.post(b"order %d" % number, {"kind": kind, "amount": number})

    def close(self) -> None:
        if self.client is not None:
            self.run(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.served.process.kill()
        self.served.process.wait()


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    router = Busy(tmp_path_factory.mktemp("desk"))
    try:
        router.run(router.open_orders())
        yield router
    finally:
        router.close()

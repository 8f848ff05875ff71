"""Who leaves is gone from memory at once: nothing waits for Python's search for cycles.

What has lived for a while is searched once in a long time, since a search holds everybody up. Until
then sessions whose parts hold each other would pile up.
"""

from __future__ import annotations

import asyncio
import gc
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from headgate.client.bmq import Client
from headgate.core.delivery.mailbox import Mailbox
from headgate.core.delivery.sessions import Session
from headgate.server.net.connection import Connection
from headgate.server.net.endpoint import Guest
from headgate.server.net.session_shell import SessionShell
from headgate.server.net.tls import Handshake
from headgate.server.router import Router
from headgate.server.state_directory import open_store
from headgate.server.wires.all_wires import WIRES
from headgate.server.wires.wire import Listening, Wire
from headgate.testing.smp_client import SmpClient
from headgate.wire.bmq.session import BmqSession
from headgate.wire.resp.session import RespSession
from headgate.wire.smp.session import SmpSession
from tests.server.wires.test_all_wires import listening

KINDS = (
    Connection,
    Guest,
    Handshake,
    Mailbox,
    Session,
    SessionShell,
    BmqSession,
    RespSession,
    SmpSession,
)
QUEUE = "[domains.orders]\n"


async def visit_resp(opened: Listening) -> None:
    reader, writer = await asyncio.open_connection(*opened.address)
    writer.write(b"SUBSCRIBE news\r\nPING\r\nQUIT\r\n")
    await reader.read()
    writer.close()


async def visit_smp(opened: Listening) -> None:
    fingerprint = urlsafe_b64decode(f"{opened.details['fingerprint']}=")
    client = await SmpClient.connect(*opened.address, fingerprint)
    await client.new_queue()
    client.close()
    await client.closed()


async def visit_bmq(opened: Listening) -> None:
    host, port = opened.address
    async with await Client.connect(f"tcp://{host}:{port}") as client:
        queue = await client.open("bmq://orders/q", read=True, write=True)
        await queue.post(b"body", {"amount": 1})
        await (await anext(queue)).confirm()


VISITS: dict[str, Callable[[Listening], Awaitable[None]]] = {
    "resp": visit_resp,
    "smp": visit_smp,
    "bmq": visit_bmq,
}


@pytest.fixture
def no_search() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def here() -> dict[int, object]:
    return {id(each): each for each in gc.get_objects() if isinstance(each, KINDS)}


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_nothing_of_a_session_is_left_when_it_is_over(
    wire: Wire, tmp_path: Path, no_search: None
) -> None:
    config = listening(tmp_path, wire, more=QUEUE)
    router = Router(store=open_store(config), domains=config.all_domains(), limits=config.limits)
    await router.start()
    opened = wire.open(router, config)
    try:
        before = here().keys()
        for _ in range(3):
            await VISITS[wire.name](opened)
            _, writer = await asyncio.open_connection(*opened.address)
            writer.write(b"\0\1what is this\r\n" * 10)
            writer.close()
        async with asyncio.timeout(20):
            while here().keys() - before:  # noqa: ASYNC110  nothing tells it
                await asyncio.sleep(0.01)
    finally:
        opened.close()
        await router.stop()

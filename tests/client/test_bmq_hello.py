"""A client and a router say who they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from headgate.client.bmq import (
    Client,
    NotConnected,
    RequestRefused,
    TimedOut,
)
from headgate.errors import (
    ConfigError,
    HeadgateError,
)
from headgate.wire.bmq.codec.control import Category, ClientIdentity, Status
from headgate.wire.bmq.codec.control_encoding import encode_negotiation
from headgate.wire.bmq.codec.frames import HEARTBEAT_REQUEST, Encoding, EventType, event
from tests.client.conftest import Connect
from tests.support.bmq_peer import URI, Peer


async def test_a_client_says_who_it_is_in_ber(peer: Peer, client: Client) -> None:
    hello = peer.talk.hello
    queue = await client.open(URI, write=True)
    guid = await queue.post(b"x")
    assert hello.guid_info.client_id == guid[-6:].hex().upper()
    assert "PROTOCOL_ENCODING:BER,JSON" in hello.features
    assert hello.pid > 0


async def test_answers_may_be_in_json(peer: Peer, connect: Connect) -> None:
    peer.encoding = Encoding.JSON
    client = await connect()
    queue = await client.open(URI, write=True)
    assert len(await queue.post(b"x")) == 16


async def test_a_router_that_refuses_the_hello_is_heard(peer: Peer, connect: Connect) -> None:
    peer.answer = replace(peer.answer, result=Status(Category.REFUSED, -6, "not today"))
    with pytest.raises(RequestRefused, match="not today") as caught:
        await connect()
    assert caught.value.category is Category.REFUSED
    assert caught.value.code == -6


@pytest.mark.parametrize(
    "reply",
    [
        HEARTBEAT_REQUEST,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        event(EventType.CONTROL, encode_negotiation(ClientIdentity(), Encoding.BER)),
        b"",
    ],
    ids=["heartbeat", "http", "client", "nothing"],
)
async def test_what_is_no_router_is_no_connection(reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(HeadgateError):
            await Client.connect(f"tcp://127.0.0.1:{port}")


async def test_a_router_that_says_nothing_takes_too_long() -> None:
    left = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass
        writer.close()
        left.set()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TimedOut, match="connecting with tcp://"):
            await Client.connect(f"tcp://127.0.0.1:{port}", timeout=0.05)
        async with asyncio.timeout(10):
            await left.wait()


async def test_nobody_there_says_what_to_look_at() -> None:
    with pytest.raises(
        NotConnected, match=r"127\.0\.0\.1:1: Connection refused; .*\[listen\.bmq\]"
    ):
        await Client.connect("tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:30114", "http://x", "tcp://", "tcp://h:no", "tcp://h:99999", "tcp://h/path"],
)
async def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="write it as tcp://127"):
        await Client.connect(address)

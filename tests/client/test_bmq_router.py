"""The client and a router, in one loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.client.bmq import (
    Client,
    Delivery,
    NotAccepted,
    NotConnected,
    Queue,
    RequestRefused,
    Restored,
    Subscription,
)
from headgate.core.model.message import Declared
from headgate.core.model.property_type import PropertyType
from headgate.errors import ConfigError
from headgate.server.config.kinds import Secret
from headgate.server.config.sections import Tls
from headgate.wire.bmq.codec.control import Category
from headgate.wire.bmq.codec.messages import AckStatus
from tests.support.bmq_client import Rig
from tests.support.bmq_peer import until
from tests.support.certificates import make_certificate, make_client_certificate
from tests.support.tcp_proxy import Proxy

ACK_BYTES = 24
ORDERS = "bmq://orders/incoming"


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    await rig.start()
    yield rig
    await rig.stop()


@pytest.fixture
async def client(router: Rig) -> AsyncIterator[Client]:
    async with await Client.connect(router.address, timeout=20) as client:
        yield client


@asynccontextmanager
async def another(router: Rig) -> AsyncIterator[Client]:
    async with await Client.connect(router.address, timeout=20) as client:
        yield client


async def take(queue: Queue, count: int) -> list[Delivery]:
    """So many, not confirmed."""
    async with asyncio.timeout(20):
        return [await anext(queue) for _ in range(count)]


async def bodies(queue: Queue, count: int) -> list[bytes]:
    """Of so many, confirmed."""
    found = []
    for delivery in await take(queue, count):
        found.append(delivery.body)
        await delivery.confirm()
    return found


async def nothing_more(queue: Queue) -> None:
    """Nothing is on its way: a message that only now was posted is the next."""
    await queue.post(b"fence", {"x": 1_000_000})
    assert await bodies(queue, 1) == [b"fence"]


async def test_a_message_goes_there_and_back(client: Client) -> None:
    queue = await client.open(ORDERS, read=True, write=True)
    properties = Declared(
        {"kind": "express", "amount": 90, "paid": True, "raw": b"\xff"},
        bytes(
            [PropertyType.STRING, PropertyType.INT32, PropertyType.BOOL, PropertyType.BINARY],
        ),
    )
    guid = await queue.post(b"body", properties)
    [delivery] = await take(queue, 1)
    assert (delivery.guid, delivery.body) == (guid, b"body")
    assert dict(delivery.properties) == dict(properties)
    assert isinstance(delivery.properties, Declared)
    assert delivery.properties.types == properties.types
    assert (delivery.subscription, delivery.is_redelivered) == (Subscription(), False)
    await delivery.confirm()
    await nothing_more(queue)


async def test_the_router_calls_a_client_by_its_name(router: Rig) -> None:
    async with await Client.connect(router.address, name="shop"):
        [session] = router.router.broker.sessions
        assert " shop@" in session.name


async def test_compressed_messages_are_filtered_like_plain_ones(router: Rig) -> None:
    """BMQ-71."""
    async with await Client.connect(router.address, compression="zlib") as client:
        queue = await client.open(
            ORDERS, read=True, write=True, subscriptions=[Subscription("x > 1")]
        )
        for x in (1, 2):
            await queue.post(bytes([x]) * 100_000, {"x": x})
        assert await bodies(queue, 1) == [b"\2" * 100_000]


async def test_subscriptions_split_a_queue_and_tell_who_took_what(client: Client) -> None:
    """BMQ-28, BMQ-32."""
    large, any_x = Subscription("x >= 1000", priority=5), Subscription("x >= 0", priority=1)
    queue = await client.open(ORDERS, read=True, write=True, subscriptions=[large, any_x])
    for x in (5, 1000, 7):
        await queue.post(b"%d" % x, {"x": x})
    deliveries = await take(queue, 3)
    assert {each.body: each.subscription for each in deliveries} == {
        b"5": any_x,
        b"1000": large,
        b"7": any_x,
    }


async def test_a_configure_takes_what_was_left_and_a_pause_nothing(client: Client) -> None:
    """BMQ-2, BMQ-25."""
    queue = await client.open(ORDERS, read=True, write=True, subscriptions=[Subscription("x > 5")])
    for x in range(4):
        await queue.post(b"%d" % x, {"x": x})
    await queue.configure([Subscription("x > 1")])
    assert await bodies(queue, 2) == [b"2", b"3"]
    await queue.pause()
    await queue.post(b"later", {"x": 9})
    await queue.configure([])
    assert await bodies(queue, 3) == [b"0", b"1", b"later"]


async def test_a_window_is_full_until_something_is_confirmed(client: Client) -> None:
    """BMQ-43: one by one."""
    one = Subscription(max_unconfirmed_messages=1)
    queue = await client.open(ORDERS, read=True, write=True, subscriptions=[one])
    await asyncio.gather(*(queue.post(b"%d" % n) for n in range(50)))
    found = []
    for _ in range(50):
        [delivery] = await take(queue, 1)
        found.append(delivery.body)
        await delivery.confirm()
    assert found == [b"%d" % n for n in range(50)]


async def test_every_app_has_every_message(client: Client) -> None:
    """BMQ-72, BMQ-75."""
    uri = "bmq://fan/parcels"
    writer = await client.open(uri, write=True)
    audit = await client.open(f"{uri}?id=audit", read=True)
    shipping = await client.open(
        f"{uri}?id=shipping", read=True, subscriptions=[Subscription('kind == "express"')]
    )
    for kind in ("express", "slow"):
        await writer.post(kind.encode(), {"kind": kind})
    assert await bodies(audit, 2) == [b"express", b"slow"]
    assert await bodies(shipping, 1) == [b"express"]
    for wrong in (f"{ORDERS}?id=audit", "bmq://fan/other"):
        with pytest.raises(RequestRefused, match="app"):
            await client.open(wrong, read=True)


async def test_the_router_tells_why_it_refuses(client: Client) -> None:
    """An expression may be too long for it, whose limit we do not know."""
    text = "x == 1 || " * 15 + "x == 2"
    with pytest.raises(RequestRefused, match="128") as caught:
        await client.open(ORDERS, read=True, subscriptions=[Subscription(text)])
    assert caught.value.category is Category.INVALID_ARGUMENT
    queue = await client.open(ORDERS, read=True, write=True)
    with pytest.raises(RequestRefused, match="128"):
        await queue.configure([Subscription("x > 1"), Subscription(text)])
    await queue.post(b"still everything")
    assert await bodies(queue, 1) == [b"still everything"]
    with pytest.raises(RequestRefused, match="nowhere"):
        await client.open("bmq://nowhere/q", read=True)


async def test_a_full_queue_takes_nothing_until_something_is_confirmed(client: Client) -> None:
    """BMQ-82."""
    queue = await client.open("bmq://small/q", read=True, write=True)
    for text in (b"1", b"2"):
        await queue.post(text)
    with pytest.raises(NotAccepted, match="limit of messages") as caught:
        await queue.post(b"3")
    assert caught.value.status is AckStatus.LIMIT_MESSAGES
    assert await bodies(queue, 2) == [b"1", b"2"]
    await queue.post(b"3")
    assert await bodies(queue, 1) == [b"3"]


async def test_what_a_reader_leaves_is_delivered_again(client: Client, router: Rig) -> None:
    """BMQ-50, BMQ-54."""
    writer = await client.open(ORDERS, write=True)
    await asyncio.gather(*(writer.post(b"%d" % n) for n in range(4)))
    async with another(router) as other:
        reader = await other.open(ORDERS, read=True)
        first, *_ = await take(reader, 4)
        await first.confirm()
        await reader.close()
        again = await other.open(ORDERS, read=True)
        assert [each.body for each in await take(again, 3)] == [b"1", b"2", b"3"]
    async with another(router) as third:
        reader = await third.open(ORDERS, read=True)
        assert await bodies(reader, 3) == [b"1", b"2", b"3"]


async def test_a_queue_is_closed_and_opened_again_at_once(client: Client) -> None:
    for n in range(20):
        queue = await client.open(ORDERS, read=True, write=True)
        await queue.post(b"%d" % n)
        assert await bodies(queue, 1) == [b"%d" % n]
        await queue.close()


async def test_everybody_hears_a_broadcast(client: Client, router: Rig) -> None:
    uri = "bmq://news/today"
    async with another(router) as other:
        mine = await client.open(uri, read=True, write=True)
        theirs = await other.open(uri, read=True)
        await mine.post(b"rain")
        assert await bodies(mine, 1) == await bodies(theirs, 1) == [b"rain"]


async def test_without_acknowledgement_messages_arrive_all_the_same(client: Client) -> None:
    queue = await client.open(ORDERS, read=True, write=True)
    guids = [await queue.post(b"%d" % n, acknowledged=False) for n in range(500)]
    assert [each.guid for each in await take(queue, 500)] == guids


async def test_a_router_that_restarts_finds_everything_as_it_was(router: Rig) -> None:
    """The posts, the queues, and what was not confirmed."""
    changes: list[object] = []
    async with await Client.connect(router.address, timeout=20, on_change=changes.append) as client:
        queue = await client.open(ORDERS, read=True, write=True)
        await queue.post(b"before")
        [lost] = await take(queue, 1)
        await router.stop()
        await until(lambda: not client.is_connected, "the loss")
        posting = asyncio.create_task(queue.post(b"meanwhile"))
        await router.start()
        await posting
        await lost.confirm()
        assert await bodies(queue, 2) == [b"before", b"meanwhile"]
        await nothing_more(queue)
        assert isinstance(changes[-1], Restored)


async def test_a_message_whose_acknowledgement_is_lost_is_stored_once(router: Rig) -> None:
    """BMQ-59."""
    proxy = Proxy(router.port)
    await proxy.start()
    async with await Client.connect(proxy.address, timeout=20) as client:
        queue = await client.open(ORDERS, write=True)
        proxy.is_deaf = True
        posting = [asyncio.create_task(queue.post(b"%d" % n)) for n in range(3)]
        await until(lambda: proxy.kept >= 3 * ACK_BYTES, "the acknowledgements")
        proxy.is_deaf = False
        proxy.cut()
        guids = await asyncio.gather(*posting)
    await proxy.stop()
    async with another(router) as client:
        queue = await client.open(ORDERS, read=True, write=True)
        assert [each.guid for each in await take(queue, 3)] == guids
        await nothing_more(queue)


async def test_a_reader_that_is_lost_leaves_what_it_had(client: Client, router: Rig) -> None:
    """BMQ-51: to somebody else, who is told that it was somebody's."""
    queue = await client.open(ORDERS, write=True)
    await queue.post(b"x")
    proxy = Proxy(router.port)
    await proxy.start()
    async with await Client.connect(proxy.address, timeout=20) as lost:
        await take(await lost.open(ORDERS, read=True), 1)
        async with another(router) as other:
            reader = await other.open(ORDERS, read=True)
            await proxy.stop()
            [delivery] = await take(reader, 1)
            assert (delivery.body, delivery.is_redelivered) == (b"x", True)


async def test_a_connection_over_tls_needs_the_right_certificate(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    wrong, _ = make_certificate(tmp_path / "other")
    rig = Rig(tmp_path, tls=Tls(certificate=certificate.name, key=key.name))
    await rig.start()
    try:
        async with await Client.connect(rig.address, certificate=certificate, timeout=20) as client:
            queue = await client.open(ORDERS, read=True, write=True)
            await queue.post(b"x" * 300_000)
            assert await bodies(queue, 1) == [b"x" * 300_000]
        with pytest.raises(NotConnected, match="certificate"):
            await Client.connect(rig.address, certificate=wrong, timeout=20)
        with pytest.raises(NotConnected, match="certificate"):
            await Client.connect(rig.address, timeout=20)
        with pytest.raises(ConfigError, match="nowhere"):
            await Client.connect(rig.address, certificate=tmp_path / "nowhere")
        with pytest.raises(ConfigError, match="tcps"):
            await Client.connect("tcp://127.0.0.1", certificate=certificate)
    finally:
        await rig.stop()


# Who the client is.


@asynccontextmanager
async def running(rig: Rig) -> AsyncIterator[Rig]:
    await rig.start()
    try:
        yield rig
    finally:
        await rig.stop()


async def test_a_client_shows_its_token_again_after_a_loss(tmp_path: Path) -> None:
    rig = Rig(tmp_path, clients={"shop": Secret("sesame")})
    async with running(rig):
        options: dict[str, Any] = {"name": "shop", "token": "sesame", "timeout": 20}
        async with await Client.connect(rig.address, **options) as client:
            queue = await client.open("bmq://guarded/q", write=True)
            await rig.stop()
            await rig.start()
            await queue.post(b"after the loss")
            with pytest.raises(RequestRefused, match="client shop may not read") as caught:
                await client.open("bmq://guarded/another", read=True)
            assert caught.value.category is Category.REFUSED


async def test_a_client_that_is_not_known_is_told_how_to_be(tmp_path: Path) -> None:
    async with running(Rig(tmp_path, clients={"shop": Secret("sesame")})) as rig:
        tried: list[dict[str, Any]] = [{}, {"name": "shop", "token": "wrong"}]
        for options in tried:
            with pytest.raises(RequestRefused, match="token:NAME:TOKEN") as caught:
                await Client.connect(rig.address, timeout=20, **options)
            assert "wrong" not in str(caught.value)
    with pytest.raises(ConfigError, match="a token is that of a name"):
        await Client.connect(rig.address, token="sesame")


async def test_a_client_shows_its_certificate(tmp_path: Path) -> None:
    trusted, _ = make_certificate(tmp_path)
    own, key = make_client_certificate(tmp_path, "billing")
    async with running(Rig(tmp_path, tls=Tls(client_ca="clients.crt"))) as rig:
        shown: dict[str, Any] = {"client_certificate": own, "client_key": key}
        shown["certificate"] = trusted
        async with await Client.connect(rig.address, timeout=20, **shown) as client:
            await client.open("bmq://guarded/q", read=True, write=True)
        with pytest.raises((NotConnected, OSError)):
            await Client.connect(rig.address, timeout=20, certificate=trusted)
    with pytest.raises(ConfigError, match="and its key cannot be used"):
        await Client.connect(rig.address, **{**shown, "client_key": trusted})
    with pytest.raises(ConfigError, match="a certificate is for tcps"):
        await Client.connect("tcp://127.0.0.1", client_certificate=own)

"""The router ends and starts again under clients that reconnect by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Client, Router, bodies, numbered

DOMAINS = """\
[domains."test.priority"]
mode = "priority"
[domains."test.fanout"]
mode = "fanout"
apps = ["foo", "bar"]
subscriptions = { foo = ["x == 1"] }
[domains."test.broadcast"]
mode = "broadcast"
"""
POSTS = 2000

End: TypeAlias = Callable[[Router], None]
ends = pytest.mark.parametrize("end", [Router.stop, Router.kill], ids=["stopped", "killed"])


@pytest.fixture
def router(shared_router: Router) -> Router:
    """One for all tests, which restart it, and one that failed may have left it down."""
    if not shared_router.is_running:
        shared_router.start()
    return shared_router


@pytest.fixture
def uri(name: str) -> str:
    return f"bmq://test.priority/{name}"


async def again(router: Router, end: End, *clients: Client) -> None:
    """Let the router end and start, and wait until these clients are connected as before."""
    await asyncio.to_thread(end, router)
    await asyncio.to_thread(router.start)
    for client in clients:
        await client.event("StateRestored")


@ends
async def test_what_was_acknowledged_is_there_once_when_the_router_ends_amid_posts(
    router: Router, connect: Connect, uri: str, end: End
) -> None:
    """BMQ-59: the SDK posts again what was not acknowledged."""
    producer = await connect()
    await producer.open(uri, write=True)
    half = POSTS // 2
    for body in numbered(half):
        await producer.put(uri, body)
    await producer.acks(1)
    restarting = asyncio.create_task(again(router, end, producer))
    for body in numbered(half, first=half):
        await producer.put(uri, body)
    await restarting
    assert await producer.acks(POSTS) == [SUCCESS] * POSTS
    assert [name for name in producer.events if name != "Connected"] == [
        "ConnectionLost",
        "Reconnected",
        "QueueReopened",
        "StateRestored",
    ]
    queue = await router.queue(uri)
    assert queue["messages"] == POSTS
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_messages=POSTS)
    messages = await consumer.take(POSTS)
    assert bodies(messages) == numbered(POSTS)
    await consumer.confirm(*messages)
    await router.empties(uri)
    assert await consumer.given() == []


@ends
async def test_what_was_not_confirmed_comes_again_when_the_router_is_back(
    router: Router, connect: Connect, uri: str, end: End
) -> None:
    """BMQ-50, BMQ-54: to the same client, which opens its queue again by itself."""
    producer, consumer = await connect(), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    await producer.post_all(uri, numbered(6))
    messages = await consumer.take(6)
    await consumer.confirm(*messages[:2])
    await consumer.settle()
    await again(router, end, producer, consumer)
    rest = await consumer.take(4)
    assert rest == messages[2:]
    assert await producer.post(uri, b"6") == SUCCESS
    rest.append(await consumer.message())
    assert rest[-1].body == b"6"
    await consumer.confirm(*rest)
    await router.empties(uri)


@ends
async def test_a_message_confirmed_after_the_router_is_back_is_confirmed(
    router: Router, connect: Connect, uri: str, end: End
) -> None:
    """The confirm names a delivery of the router's former life."""
    client = await connect()
    await client.open(uri, read=True, write=True)
    assert await client.post(uri, b"x") == SUCCESS
    before = await client.message()
    await again(router, end, client)
    assert await client.message() == before
    await client.confirm(before)
    await router.empties(uri)


@ends
async def test_options_that_were_configured_hold_when_the_router_is_back(
    router: Router, connect: Connect, uri: str, end: End
) -> None:
    """BMQ-43: the SDK configures its queues again."""
    producer, consumer, low = [await connect() for _ in range(3)]
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    await consumer.configure(uri, priority=5, max_unconfirmed_messages=1)
    await low.open(uri, read=True, priority=1)
    await again(router, end, producer, consumer, low)
    await producer.post_all(uri, numbered(3))
    for body in numbered(3):
        assert await consumer.given() == [body]
        await consumer.confirm(await consumer.message())
    assert await low.given() == []


@ends
async def test_apps_keep_what_they_were_given_and_were_not(
    router: Router, connect: Connect, name: str, end: End
) -> None:
    """BMQ-64, BMQ-72, BMQ-73: expressions were evaluated when the messages came."""
    uri = f"bmq://test.fanout/{name}"
    producer, bar = await connect(), await connect()
    await producer.open(uri, write=True)
    await bar.open(f"{uri}?id=bar", read=True)
    for x in (1, 2, 3):
        assert await producer.post(uri, b"%d" % x, {"x": x}) == SUCCESS
    first, _, third = await bar.take(3)
    await bar.confirm(first, third)
    await bar.settle()
    await again(router, end, producer, bar)
    assert bodies(await bar.take(1)) == [b"2"]
    foo = await connect()
    await foo.open(f"{uri}?id=foo", read=True)
    assert await foo.given() == [b"1"]
    assert await producer.post(uri, b"4", {"x": 1}) == SUCCESS
    assert await foo.given() == [b"1", b"4"]
    assert await bar.given() == [b"4"]


@ends
async def test_a_broadcast_queue_goes_on(
    router: Router, connect: Connect, name: str, end: End
) -> None:
    """BMQ-78."""
    uri = f"bmq://test.broadcast/{name}"
    one, other = await connect(), await connect()
    await one.open(uri, read=True, write=True)
    await other.open(uri, read=True)
    assert await one.post(uri, b"before") == SUCCESS
    await other.message()
    await again(router, end, one, other)
    assert await one.post(uri, b"after") == SUCCESS
    assert (await other.message()).body == b"after"
    assert bodies(await one.take(2)) == [b"before", b"after"]
    assert await other.given() == []


async def test_a_client_that_starts_before_the_router_waits_for_it(
    router: Router, connect: Connect, uri: str
) -> None:
    await asyncio.to_thread(router.stop)
    starting = asyncio.create_task(connect())
    await asyncio.to_thread(router.start)
    client = await starting
    await client.open(uri, read=True, write=True)
    assert await client.post(uri, b"x") == SUCCESS
    assert (await client.message()).body == b"x"

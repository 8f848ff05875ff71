"""A fanout queue: every app gets every message once, and confirms for itself."""

from __future__ import annotations

import re

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Client, Router, SdkError, bodies, numbered

DOMAINS = """\
[domains."test.fanout"]
mode = "fanout"
apps = ["foo", "bar", "baz"]
[domains."test.priority"]
mode = "priority"
[domains."test.broadcast"]
mode = "broadcast"
"""
APPS = ("foo", "bar", "baz")


@pytest.fixture
def uri(name: str) -> str:
    return f"bmq://test.fanout/{name}"


@pytest.fixture
async def producer(connect: Connect, uri: str) -> Client:
    producer = await connect()
    await producer.open(uri, write=True)
    return producer


async def test_every_app_gets_every_message_and_confirms_for_itself(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-72, S003-7, S003-10: a message goes when the last app has confirmed it."""
    consumers = {app: await connect() for app in APPS}
    for app, consumer in consumers.items():
        await consumer.open(f"{uri}?id={app}", read=True)
    await producer.post_all(uri, numbered(5))
    for app, consumer in consumers.items():
        messages = await consumer.take(5)
        assert bodies(messages) == numbered(5)
        assert {message.queue for message in messages} == {f"{uri}?id={app}"}
        assert (await router.queue(uri))["messages"] == 5
        await consumer.confirm(*messages)
        assert await consumer.given() == []
    await router.empties(uri)


async def test_one_session_may_read_for_all_apps_and_write(
    router: Router, connect: Connect, uri: str
) -> None:
    """BMQ-72. Their streams share one number of the queue on the wire."""
    client = await connect()
    await client.open(f"{uri}?id=foo", read=True)
    await client.open(uri, write=True)
    await client.open(f"{uri}?id=bar", read=True)
    await client.open(f"{uri}?id=baz", read=True)
    await client.post_all(uri, numbered(3))
    messages = await client.take(9)
    for app in APPS:
        mine = [message for message in messages if message.queue == f"{uri}?id={app}"]
        assert bodies(mine) == numbered(3)
    await client.confirm(*messages[:4])
    await client.close(f"{uri}?id=bar")
    await client.post_all(uri, numbered(1, first=3))
    assert {message.queue for message in await client.take(2)} == {
        f"{uri}?id=foo",
        f"{uri}?id=baz",
    }
    for app in ("foo", "baz"):
        await client.close(f"{uri}?id={app}")
    assert await client.given() == []
    await client.open(f"{uri}?id=bar", read=True)
    confirmed = [message.body for message in messages[:4] if message.queue == f"{uri}?id=bar"]
    rest = [body for body in numbered(4) if body not in confirmed]
    assert bodies(await client.take(len(rest))) == rest
    assert await client.given() == []


async def test_an_app_without_consumers_accumulates(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-73, S003-10: neither do the others wait for it."""
    foo, bar = await connect(), await connect()
    await foo.open(f"{uri}?id=foo", read=True)
    await bar.open(f"{uri}?id=bar", read=True)
    await producer.post_all(uri, numbered(10))
    for consumer in (foo, bar):
        messages = await consumer.take(10)
        await consumer.confirm(*messages)
        await consumer.settle()
    queue = await router.queue(uri)
    assert queue["messages"] == 10
    assert queue["apps"]["foo"]["undelivered"] == queue["apps"]["bar"]["undelivered"] == 0
    baz = await connect()
    await baz.open(f"{uri}?id=baz", read=True)
    messages = await baz.take(10)
    assert bodies(messages) == numbered(10)
    await baz.confirm(*messages)
    await router.empties(uri)


async def test_a_slow_app_does_not_hold_up_the_others(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-72, BMQ-43."""
    slow, quick = await connect(), await connect()
    await slow.open(f"{uri}?id=foo", read=True, max_unconfirmed_messages=1)
    await quick.open(f"{uri}?id=bar", read=True)
    await producer.post_all(uri, numbered(10))
    assert bodies(await quick.take(10)) == numbered(10)
    for body in numbered(10):
        assert await slow.given() == [body]
        await slow.confirm(await slow.message())


async def test_consumers_of_one_app_share_and_priorities_are_per_app(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-74."""
    foos, high, low = [await connect(), await connect()], await connect(), await connect()
    for foo in foos:
        await foo.open(f"{uri}?id=foo", read=True, priority=1)
    await high.open(f"{uri}?id=bar", read=True, priority=3)
    await low.open(f"{uri}?id=bar", read=True, priority=2)
    await producer.post_all(uri, numbered(6))
    assert sorted([await foo.given() for foo in foos]) == [numbered(6)[0::2], numbered(6)[1::2]]
    assert await high.given() == numbered(6)
    assert await low.given() == []


async def test_a_killed_consumer_of_one_app_does_not_touch_the_others(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-51, BMQ-72."""
    foo, bar, other = [await connect() for _ in range(3)]
    await foo.open(f"{uri}?id=foo", read=True)
    await bar.open(f"{uri}?id=bar", read=True)
    await producer.post_all(uri, numbered(3))
    await foo.take(3)
    await other.open(f"{uri}?id=foo", read=True)
    await foo.kill()
    assert bodies(await other.take(3)) == numbered(3)
    assert await bar.given() == numbered(3)


async def test_a_reader_without_an_app_is_refused(connect: Connect, uri: str) -> None:
    """BMQ-75."""
    client = await connect()
    with pytest.raises(SdkError, match=f"^Failed to open {uri} queue: .*app"):
        await client.open(uri, read=True)
    with pytest.raises(SdkError, match=f"^Failed to open {uri} queue: .*app"):
        await client.open(uri, read=True, write=True)
    await client.open(uri, write=True)
    await client.open(f"{uri}?id=foo", read=True)
    assert await client.post(uri, b"x") == SUCCESS
    assert (await client.message()).body == b"x"


@pytest.mark.parametrize("mode", ["priority", "broadcast"])
async def test_an_app_of_a_queue_that_has_none_is_refused(
    connect: Connect, name: str, mode: str
) -> None:
    """BMQ-75."""
    uri = f"bmq://test.{mode}/{name}"
    client = await connect()
    failed = f"^Failed to open {re.escape(uri)}\\?id=foo queue: .*app"
    with pytest.raises(SdkError, match=failed):
        await client.open(f"{uri}?id=foo", read=True)
    await client.open(uri, read=True, write=True)
    assert await client.post(uri, b"x") == SUCCESS
    assert (await client.message()).body == b"x"


async def test_an_app_that_is_not_configured_opens_and_gets_and_holds_nothing(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-76."""
    stranger, reader = await connect(), await connect()
    await stranger.open(f"{uri}?id=stranger", read=True)
    for app in APPS:
        await reader.open(f"{uri}?id={app}", read=True)
    await producer.post_all(uri, numbered(2))
    await reader.confirm(*await reader.take(6))
    await router.empties(uri)
    assert await stranger.given() == []
    await stranger.close(f"{uri}?id=stranger")


async def test_two_queues_of_a_domain_are_apart(connect: Connect, name: str) -> None:
    client = await connect()
    uris = [f"bmq://test.fanout/{name}.{number}" for number in range(2)]
    for uri in uris:
        await client.open(uri, write=True)
        await client.open(f"{uri}?id=foo", read=True)
    for uri in uris:
        assert await client.post(uri, uri.encode()) == SUCCESS
    messages = await client.take(2)
    assert {message.queue: message.body for message in messages} == {
        f"{uri}?id=foo": uri.encode() for uri in uris
    }

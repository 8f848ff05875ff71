"""A broadcast queue: each message to every consumer of the moment, and nothing is kept."""

from __future__ import annotations

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Client, Router, bodies, numbered

DOMAINS = """\
[domains."test.broadcast"]
mode = "broadcast"
[domains."test.filtered"]
mode = "broadcast"
subscriptions = { "" = ["x == 1"] }
[domains."test.instant"]
mode = "broadcast"
message_ttl = 0
"""


@pytest.fixture
def uri(name: str) -> str:
    return f"bmq://test.broadcast/{name}"


@pytest.fixture
async def producer(connect: Connect, uri: str) -> Client:
    producer = await connect()
    await producer.open(uri, write=True)
    return producer


async def given(client: Client) -> list[bytes]:
    """What has come since the last time."""
    await client.settle()
    return bodies(await client.take(len(client.messages)))


async def test_everybody_who_is_there_gets_each_message(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-78: and nobody else."""
    one, two, late = [await connect() for _ in range(3)]
    assert await producer.post(uri, b"to nobody") == SUCCESS
    await one.open(uri, read=True)
    await two.open(uri, read=True)
    await producer.post_all(uri, numbered(3))
    assert await given(one) == await given(two) == numbered(3)
    await late.open(uri, read=True)
    assert await given(late) == []
    await two.close(uri)
    assert await producer.post(uri, b"between") == SUCCESS
    assert await given(one) == await given(late) == [b"between"]
    await two.open(uri, read=True)
    assert await producer.post(uri, b"again") == SUCCESS
    for consumer in (one, two, late):
        assert await given(consumer) == [b"again"]
    assert (await router.queue(uri))["messages"] == 0


async def test_nothing_is_given_again(connect: Connect, producer: Client, uri: str) -> None:
    """BMQ-78: not after a close, not after a kill, and confirms do no harm."""
    killed, closing, other = [await connect() for _ in range(3)]
    await killed.open(uri, read=True)
    await closing.open(uri, read=True)
    await producer.post_all(uri, numbered(3))
    await killed.take(3)
    await closing.confirm(*await closing.take(3))
    await killed.kill()
    await closing.close(uri)
    for consumer in (closing, other):
        await consumer.open(uri, read=True)
        assert await given(consumer) == []


async def test_the_highest_priority_gets_the_messages(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-79: all of it, and it changes hands with the priority."""
    one, other = await connect(), await connect()
    await one.open(uri, read=True, priority=2)
    await other.open(uri, read=True, priority=1)
    assert await producer.post(uri, b"first") == SUCCESS
    assert (await given(one), await given(other)) == ([b"first"], [])
    await other.configure(uri, priority=3)
    assert await producer.post(uri, b"second") == SUCCESS
    assert (await given(one), await given(other)) == ([], [b"second"])
    await one.configure(uri, priority=3)
    assert await producer.post(uri, b"third") == SUCCESS
    assert (await given(one), await given(other)) == ([b"third"], [b"third"])
    await other.close(uri)
    await one.configure(uri, priority=0)
    assert await producer.post(uri, b"fourth") == SUCCESS
    assert await given(one) == [b"fourth"]


async def test_windows_do_not_fill_but_a_window_of_nothing_pauses(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-46, in a mode in which nobody has to confirm."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_messages=2)
    await producer.post_all(uri, numbered(10))
    assert await given(consumer) == numbered(10)
    await consumer.configure(uri, max_unconfirmed_messages=0)
    assert await producer.post(uri, b"missed") == SUCCESS
    assert await given(consumer) == []
    await consumer.configure(uri, max_unconfirmed_messages=1)
    assert await producer.post(uri, b"heard") == SUCCESS
    assert await given(consumer) == [b"heard"]


async def test_an_application_subscription_filters_for_everybody(
    connect: Connect, producer: Client, name: str
) -> None:
    """S003-11."""
    uri = f"bmq://test.filtered/{name}"
    one, other = await connect(), await connect()
    await producer.open(uri, write=True)
    for consumer in (one, other):
        await consumer.open(uri, read=True)
    for x in (2, 1, 3):
        assert await producer.post(uri, b"%d" % x, {"x": x}) == SUCCESS
    assert await producer.post(uri, b"none") == SUCCESS
    for consumer in (one, other):
        assert await given(consumer) == [b"1"]


async def test_a_time_to_live_of_nothing_does_not_matter(
    connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-81."""
    uri = f"bmq://test.instant/{name}"
    consumer = await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    await producer.post_all(uri, numbered(50))
    assert bodies(await consumer.take(50)) == numbered(50)

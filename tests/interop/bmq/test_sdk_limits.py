"""Quotas, times to live, and how many may open a queue."""

from __future__ import annotations

import time

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Client, Router, SdkError, bodies, numbered

TTL_SECONDS = 2
DOMAINS = f"""\
[domains."test.ten"]
mode = "priority"
max_messages = 10
[domains."test.bytes"]
mode = "priority"
max_bytes = 10000
[domains."test.shared"]
mode = "priority"
domain_max_messages = 5
[domains."test.shared.bytes"]
mode = "priority"
domain_max_bytes = 10000
[domains."test.both"]
mode = "fanout"
apps = ["foo", "bar"]
max_messages = 1
subscriptions = {{ foo = ["x == 1"], bar = ["x == 1 || x == 2"] }}
[domains."test.short"]
mode = "fanout"
apps = ["foo", "bar"]
max_messages = 3
message_ttl = "{TTL_SECONDS}s"
[domains."test.single"]
mode = "priority"
max_consumers = 1
max_producers = 1
[domains."test.few"]
mode = "priority"
max_queues = 2
[domains."test.plain"]
mode = "priority"
[limits]
body_bytes = "1 MiB"
properties_bytes = "4 KiB"
"""


@pytest.fixture
async def producer(connect: Connect) -> Client:
    return await connect()


async def test_a_full_queue_takes_messages_again_after_confirms(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-82: a limit of ten takes ten."""
    uri = f"bmq://test.ten/{name}"
    consumer = await connect()
    await producer.open(uri, write=True)
    await producer.post_all(uri, numbered(10))
    for _ in range(2):
        assert await producer.post(uri, b"refused") == "LIMIT_MESSAGES"
    await consumer.open(uri, read=True)
    messages = await consumer.take(10)
    assert await producer.post(uri, b"refused") == "LIMIT_MESSAGES"
    await consumer.confirm(*messages[:2])
    await consumer.settle()
    await producer.post_all(uri, numbered(2, first=10))
    assert await producer.post(uri, b"refused") == "LIMIT_MESSAGES"
    messages = [*messages[2:], *await consumer.take(2)]
    assert bodies(messages) == numbered(10, first=2)
    await consumer.confirm(*messages)
    await consumer.settle()
    queue = await router.queue(uri)
    assert (queue["messages"], queue["counts"]["refused"]) == (0, 4)


async def test_a_refused_post_that_asked_for_no_acknowledgement_harms_nobody(
    connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-82. A refusal may be told to somebody who did not ask."""
    uri = f"bmq://test.ten/{name}"
    consumer = await connect()
    await producer.open(uri, write=True)
    for body in numbered(15):
        await producer.put(uri, body, ack=False)
    assert await producer.post(uri, b"refused") == "LIMIT_MESSAGES"
    await consumer.open(uri, read=True)
    assert await consumer.given() == numbered(10)


async def test_a_queue_that_is_full_of_bytes_refuses_more(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-84."""
    uri = f"bmq://test.bytes/{name}"
    consumer = await connect()
    await producer.open(uri, write=True)
    await producer.post_all(uri, [b"a" * 4000, b"b" * 4000])
    assert await producer.post(uri, b"c" * 4000) == "LIMIT_BYTES"
    assert await producer.post(uri, b"d" * 1000) == SUCCESS
    assert await producer.post(uri, b"e", {"text": "t" * 4000}) == "LIMIT_BYTES"
    await consumer.open(uri, read=True)
    first, _, third = await consumer.take(3)
    assert third.body == b"d" * 1000
    await consumer.confirm(first)
    await consumer.settle()
    assert await producer.post(uri, b"c" * 4000) == SUCCESS
    assert (await consumer.message()).body == b"c" * 4000


async def test_a_domain_that_is_full_refuses_for_all_of_its_queues(
    connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-83: confirming in one frees the other."""
    one, other = (f"bmq://test.shared/{name}.{side}" for side in ("one", "other"))
    consumer = await connect()
    for uri in (one, other):
        await producer.open(uri, write=True)
    await producer.post_all(one, numbered(3))
    await producer.post_all(other, numbered(2))
    for uri in (one, other):
        assert await producer.post(uri, b"refused") == "LIMIT_MESSAGES"
    await consumer.open(one, read=True)
    messages = await consumer.take(3)
    await consumer.confirm(messages[0])
    await consumer.settle()
    assert await producer.post(other, b"taken") == SUCCESS
    assert await producer.post(one, b"refused") == "LIMIT_MESSAGES"
    await consumer.open(other, read=True)
    rest = await consumer.take(3)
    assert bodies(rest) == [b"0", b"1", b"taken"]
    await consumer.confirm(*messages[1:], *rest)
    await consumer.settle()


async def test_a_domain_that_is_full_of_bytes_refuses_for_all_of_its_queues(
    connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-83, BMQ-84."""
    one, other = (f"bmq://test.shared.bytes/{name}.{side}" for side in ("one", "other"))
    consumer = await connect()
    for uri in (one, other):
        await producer.open(uri, write=True)
    assert await producer.post(one, b"a" * 6000) == SUCCESS
    assert await producer.post(other, b"b" * 6000) == "LIMIT_BYTES"
    await consumer.open(one, read=True)
    await consumer.confirm(await consumer.message())
    await consumer.settle()
    assert await producer.post(other, b"b" * 6000) == SUCCESS
    await consumer.open(other, read=True)
    await consumer.confirm(await consumer.message())
    await consumer.settle()


async def test_a_message_counts_once_for_all_apps_and_not_at_all_if_none_wants_it(
    connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-62, BMQ-72, BMQ-82: it counts until the last app has confirmed it."""
    uri = f"bmq://test.both/{name}"
    foo, bar = await connect(), await connect()
    await producer.open(uri, write=True)
    await foo.open(f"{uri}?id=foo", read=True)
    await bar.open(f"{uri}?id=bar", read=True)
    for _ in range(3):
        assert await producer.post(uri, b"unwanted", {"x": 3}) == SUCCESS
    assert await producer.post(uri, b"wanted", {"x": 1}) == SUCCESS
    assert await producer.post(uri, b"refused", {"x": 1}) == "LIMIT_MESSAGES"
    assert await producer.post(uri, b"unwanted", {"x": 3}) == SUCCESS
    await foo.confirm(await foo.message())
    await foo.settle()
    assert await producer.post(uri, b"refused", {"x": 2}) == "LIMIT_MESSAGES"
    await bar.confirm(await bar.message())
    await bar.settle()
    assert await producer.post(uri, b"again", {"x": 2}) == SUCCESS
    assert await bar.given() == [b"again"]
    assert await foo.given() == []


async def test_messages_are_removed_for_all_apps_after_their_time_and_not_before(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-87, BMQ-85: delivered or not, and the quota is free again."""
    uri = f"bmq://test.short/{name}"
    foo = await connect()
    await producer.open(uri, write=True)
    await foo.open(f"{uri}?id=foo", read=True)
    began = time.monotonic()
    await producer.post_all(uri, numbered(3))
    assert await producer.post(uri, b"refused") == "LIMIT_MESSAGES"
    delivered = await foo.take(3)
    await router.empties(uri)
    assert time.monotonic() - began >= TTL_SECONDS
    await router.until(uri, "three expired", lambda queue: queue["counts"].get("expired") == 3)
    await foo.confirm(*delivered)
    bar = await connect()
    await bar.open(f"{uri}?id=bar", read=True)
    assert await bar.given() == []
    assert await producer.post(uri, b"fresh") == SUCCESS
    assert (await foo.message()).body == (await bar.message()).body == b"fresh"


@pytest.mark.parametrize("side", ["read", "write"])
async def test_no_more_sessions_than_the_domain_allows_open_a_queue(
    connect: Connect, name: str, side: str
) -> None:
    uri = f"bmq://test.single/{name}"
    sides = {side: True}
    one, other = await connect(), await connect()
    await one.open(uri, **sides)
    with pytest.raises(SdkError, match=f"^Failed to open {uri} queue: "):
        await other.open(uri, **sides)
    await one.close(uri)
    await other.open(uri, **sides)
    with pytest.raises(SdkError, match=f"^Failed to open {uri} queue: "):
        await one.open(uri, **sides)
    await other.kill()
    await one.settle()


async def test_no_more_queues_than_the_domain_allows_are_made(
    connect: Connect, producer: Client, name: str
) -> None:
    uris = [f"bmq://test.few/{number}" for number in range(3)]
    for uri in uris[:2]:
        await producer.open(uri, read=True, write=True)
    with pytest.raises(SdkError, match=f"^Failed to open {uris[2]} queue: "):
        await producer.open(uris[2], read=True, write=True)
    assert await producer.post(uris[0], b"x") == SUCCESS
    await producer.confirm(await producer.message())


async def test_a_message_that_is_too_large_is_refused_and_the_session_goes_on(
    connect: Connect, producer: Client, name: str
) -> None:
    uri = f"bmq://test.plain/{name}"
    consumer = await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    assert await producer.post(uri, b"b" * 2_000_000) == "UNKNOWN"
    assert await producer.post(uri, b"properties", {"text": "t" * 5000}) == "UNKNOWN"
    await producer.put(uri, b"b" * 2_000_000, ack=False)
    assert await producer.post(uri, b"b" * 1_000_000, {"text": "t" * 2000}) == SUCCESS
    assert await consumer.given() == [b"b" * 1_000_000]
    assert producer.events == ["Connected"]

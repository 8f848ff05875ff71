"""What a client of the official SDK posts, another gets unchanged."""

from __future__ import annotations

import random

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Message, Router, SdkError, bodies, numbered
from tests.support.bmq_sdk import Value

DOMAINS = """\
[domains."test.priority"]
mode = "priority"
[domains."test.filtered"]
mode = "priority"
subscriptions = { "" = ["x == 1"] }
"""
SMALLEST_COMPRESSED = 1024
"""The SDK compresses nothing that is shorter."""


@pytest.fixture
def uri(name: str) -> str:
    return f"bmq://test.priority/{name}"


def shown(message: Message) -> dict[str, tuple[str, Value]]:
    """The properties of a message with their types."""
    return {name: (message.types[name], value) for name, value in message.properties.items()}


async def test_a_message_is_acknowledged_delivered_and_gone_when_it_is_confirmed(
    router: Router, connect: Connect, uri: str
) -> None:
    """S003-1, S003-25."""
    producer, consumer = await connect(), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    ack = await producer.acked(await producer.put(uri, b"hello"))
    assert ack.status == SUCCESS
    message = await consumer.message()
    assert message == Message(uri, ack.guid or "", b"hello", {}, {})
    assert (await router.queue(uri))["messages"] == 1
    await consumer.confirm(message)
    await router.empties(uri)


async def test_one_session_may_write_and_read_a_queue(connect: Connect, uri: str) -> None:
    client = await connect()
    await client.open(uri, read=True, write=True)
    assert await client.post(uri, b"to myself") == SUCCESS
    message = await client.message()
    assert message.body == b"to myself"
    await client.confirm(message)
    await client.close(uri)


async def test_a_thousand_messages_come_in_their_order(
    router: Router, connect: Connect, uri: str
) -> None:
    """S003-32."""
    producer, consumer = await connect(), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    await producer.post_all(uri, numbered(1000))
    messages = await consumer.take(1000)
    assert bodies(messages) == numbered(1000)
    await consumer.confirm(*messages)
    await router.empties(uri)


EXTREMES: dict[str, list[Value]] = {
    "BOOL": [False, True],
    "CHAR": [b"\0", b"A", b"\x7f", b"\x80", b"\xff"],
    "SHORT": [-(2**15), -1, 2**15 - 1],
    "INT32": [-(2**31), -1, 2**31 - 1],
    "INT64": [-(2**63), -1, 0, 2**63 - 1],
    "STRING": ["", "a", "Grüße, 世界 🚪", 'quo"te\\', "x" * 5000],
    "BINARY": [b"", b"\0", bytes(range(256)) * 8],
}


async def test_every_type_of_property_comes_back_as_it_was(connect: Connect, uri: str) -> None:
    """S003-4."""
    expected = {
        f"{type}_{number}": (type, value)
        for type, values in EXTREMES.items()
        for number, value in enumerate(values)
    }
    client = await connect()
    await client.open(uri, read=True, write=True)
    values = {name: value for name, (_, value) in expected.items()}
    types = {name: type for name, (type, _) in expected.items()}
    assert await client.post(uri, b"x", values, types) == SUCCESS
    message = await client.message()
    assert shown(message) == expected
    assert message.body == b"x"


async def test_the_sdk_chooses_the_types_when_it_is_told_none(connect: Connect, uri: str) -> None:
    client = await connect()
    await client.open(uri, read=True, write=True)
    assert await client.post(uri, b"x", {"b": True, "i": 7, "s": "text", "y": b"\1"}) == SUCCESS
    assert shown(await client.message()) == {
        "b": ("BOOL", True),
        "i": ("INT64", 7),
        "s": ("STRING", "text"),
        "y": ("BINARY", b"\1"),
    }


async def test_as_many_properties_as_a_message_can_have_come_back(
    connect: Connect, uri: str
) -> None:
    properties: dict[str, Value] = {f"property.{number}": number for number in range(255)}
    client = await connect()
    await client.open(uri, read=True, write=True)
    assert await client.post(uri, b"x", properties) == SUCCESS
    assert (await client.message()).properties == properties


@pytest.mark.parametrize("size", [1, 3, 4, 1024, 100_000, 1024 * 1024, 4 * 1024 * 1024])
async def test_a_body_of_any_length_comes_back(connect: Connect, uri: str, size: int) -> None:
    body = random.Random(size).randbytes(size)
    producer, consumer = await connect(), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    assert await producer.post(uri, body, {"size": size}) == SUCCESS
    message = await consumer.message()
    assert message.body == body
    assert message.properties == {"size": size}


async def test_many_megabytes_come_in_their_order(
    router: Router, connect: Connect, uri: str
) -> None:
    parts = [random.Random(number).randbytes(1024 * 1024) for number in range(20)]
    producer, consumer = await connect(), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    await producer.post_all(uri, parts)
    messages = await consumer.take(len(parts))
    assert bodies(messages) == parts
    await consumer.confirm(*messages)
    await router.empties(uri)


@pytest.mark.parametrize("compressible", [True, False], ids=["repeated", "random"])
@pytest.mark.parametrize("size", [100, 1023, 1024, 5000, 1024 * 1024])
async def test_a_compressed_message_comes_back(
    connect: Connect, uri: str, size: int, compressible: bool
) -> None:
    """With and without properties, for a reader that compresses nothing itself."""
    body = b"again " * size if compressible else random.Random(size).randbytes(size)
    body = body[:size]
    producer, consumer = await connect(compress=True), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    properties: dict[str, Value] = {"x": 1, "text": "t" * 30, "binary": b"\0\1", "flag": False}
    assert await producer.post(uri, body, properties) == SUCCESS
    assert await producer.post(uri, body) == SUCCESS
    with_properties, without = await consumer.take(2)
    assert with_properties.body == without.body == body
    assert with_properties.properties == properties
    assert with_properties.types == {
        "x": "INT64",
        "text": "STRING",
        "binary": "BINARY",
        "flag": "BOOL",
    }
    assert without.properties == {}


@pytest.mark.parametrize("size", [SMALLEST_COMPRESSED // 2, SMALLEST_COMPRESSED * 5])
async def test_compressed_messages_are_filtered_like_plain_ones(
    router: Router, connect: Connect, name: str, size: int
) -> None:
    """BMQ-71."""
    uri = f"bmq://test.filtered/{name}"
    compressing, plain = await connect(compress=True), await connect()
    consumer = await connect()
    await consumer.open(uri, read=True)
    for producer in (compressing, plain):
        await producer.open(uri, write=True)
        for x in (2, 1, 3):
            assert await producer.post(uri, b"%d" % x + b"." * size, {"x": x}) == SUCCESS
        assert await producer.post(uri, b"none" + b"." * size) == SUCCESS
    messages = await consumer.take(2)
    assert bodies(messages) == [b"1" + b"." * size] * 2
    await consumer.settle()
    assert consumer.messages == []
    await consumer.confirm(*messages)
    await router.empties(uri)


async def test_a_queue_opened_without_options_has_those_of_the_sdk(
    connect: Connect, uri: str
) -> None:
    client = await connect()
    await client.open(uri, read=True, write=True)
    assert await client.options(uri) == {
        "max_unconfirmed_messages": 1000,
        "max_unconfirmed_bytes": 33_554_432,
        "consumer_priority": 0,
    }
    await client.configure(uri)
    await client.configure(uri, priority=7)
    assert await client.options(uri) == {
        "max_unconfirmed_messages": 1000,
        "max_unconfirmed_bytes": 33_554_432,
        "consumer_priority": 7,
    }
    assert await client.post(uri, b"x") == SUCCESS
    assert (await client.message()).body == b"x"


async def test_a_post_without_an_acknowledgement_arrives_and_harms_nobody(
    router: Router, connect: Connect, uri: str
) -> None:
    """An acknowledgement that nobody asked for would abort the SDK."""
    producer, consumer = await connect(), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    for body in numbered(20):
        await producer.put(uri, body, ack=False)
    messages = await consumer.take(20)
    assert bodies(messages) == numbered(20)
    assert await producer.post(uri, b"with") == SUCCESS
    messages.append(await consumer.message())
    await consumer.confirm(*messages)
    await router.empties(uri)


async def test_a_session_has_many_queues_at_once(connect: Connect, name: str) -> None:
    client = await connect()
    uris = [f"bmq://test.priority/{name}.{number}" for number in range(30)]
    for uri in uris:
        await client.open(uri, read=True, write=True)
    for uri in uris:
        await client.put(uri, uri.encode())
    messages = await client.take(len(uris))
    assert {message.queue: message.body.decode() for message in messages} == {
        uri: uri for uri in uris
    }
    await client.acks(len(uris))


async def test_two_sessions_that_write_and_read_share_a_queue(
    router: Router, connect: Connect, uri: str
) -> None:
    one, other = await connect(), await connect()
    for client in (one, other):
        await client.open(uri, read=True, write=True)
    await one.post_all(uri, numbered(10))
    await other.post_all(uri, numbered(10, first=10))
    mine, others = await one.take(10), await other.take(10)
    assert sorted(bodies([*mine, *others])) == sorted(numbered(20))
    await one.confirm(*mine)
    await other.confirm(*others)
    await router.empties(uri)


async def test_a_closed_queue_takes_no_posts_and_can_be_opened_again(
    router: Router, connect: Connect, uri: str
) -> None:
    """BMQ-50: what was not confirmed comes again, in order."""
    client = await connect()
    await client.open(uri, read=True, write=True)
    await client.post_all(uri, numbered(3))
    first, *_ = await client.take(3)
    await client.confirm(first)
    await client.close(uri)
    with pytest.raises(SdkError):
        await client.put(uri, b"closed")
    await client.open(uri, read=True, write=True)
    rest = await client.take(2)
    assert bodies(rest) == [b"1", b"2"]
    assert await client.post(uri, b"3") == SUCCESS
    rest.append(await client.message())
    assert rest[-1].body == b"3"
    await client.confirm(*rest)
    await router.empties(uri)


async def test_a_closed_writer_leaves_the_readers_alone(connect: Connect, uri: str) -> None:
    producer, consumer = await connect(), await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    assert await producer.post(uri, b"before") == SUCCESS
    await producer.close(uri)
    await producer.open(uri, write=True)
    assert await producer.post(uri, b"after") == SUCCESS
    assert bodies(await consumer.take(2)) == [b"before", b"after"]


async def test_messages_wait_for_a_reader_that_comes_later(connect: Connect, uri: str) -> None:
    producer = await connect()
    await producer.open(uri, write=True)
    await producer.post_all(uri, numbered(5))
    await producer.stop()
    consumer = await connect()
    await consumer.open(uri, read=True)
    assert bodies(await consumer.take(5)) == numbered(5)


async def test_a_domain_that_is_not_configured_is_refused(connect: Connect, name: str) -> None:
    client = await connect()
    for uri in (f"bmq://test.nowhere/{name}", f"bmq://priority/{name}", f"bmq://smp/{name}"):
        with pytest.raises(SdkError, match=f"^Failed to open {uri} queue: ") as caught:
            await client.open(uri, write=True)
        assert uri.split("/")[2] in str(caught.value).partition("queue: ")[2]
    uri = f"bmq://test.priority/{name}"
    await client.open(uri, read=True, write=True)
    assert await client.post(uri, b"x") == SUCCESS
    assert (await client.message()).body == b"x"


async def test_a_client_that_stands_still_delays_nobody_and_gets_everything_later(
    router: Router, connect: Connect, name: str
) -> None:
    """More is under way than sockets hold."""
    slow, quick = (f"bmq://test.priority/{name}.{pace}" for pace in ("slow", "quick"))
    parts = [random.Random(number).randbytes(1024 * 1024) for number in range(30)]
    producer, still, other = [await connect() for _ in range(3)]
    for uri, consumer in ((slow, still), (quick, other)):
        await producer.open(uri, write=True)
        await consumer.open(uri, read=True)
    still.suspend()
    await producer.post_all(slow, parts)
    await producer.post_all(quick, numbered(100))
    assert await other.given() == numbered(100)
    still.resume()
    messages = await still.take(len(parts))
    assert bodies(messages) == parts
    await still.confirm(*messages)
    await router.empties(slow)

"""Application subscriptions: what an app does not want is confirmed for it when it arrives."""

from __future__ import annotations

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Client, Router
from tests.support.bmq_sdk import Value

DOMAINS = """\
[domains."test.apps"]
mode = "fanout"
apps = ["foo", "bar", "baz"]
subscriptions = { foo = ["x == 1"], bar = ["x == 2"] }
[domains."test.all"]
mode = "fanout"
apps = ["foo", "bar"]
subscriptions = { foo = ["x == 1"], bar = ["x >= 0 && x < 2"] }
[domains."test.one"]
mode = "priority"
subscriptions = { "" = ["x == 1"] }
[domains."test.either"]
mode = "fanout"
apps = ["foo", "bar"]
subscriptions = { foo = ["x == 1", "name == \\"second\\""], bar = ["exists(x)"] }
[domains."test.types"]
mode = "priority"
subscriptions = { "" = ["flag == true", "letter == 65", "small < -1", "text > \\"m\\""] }
"""


@pytest.fixture
async def producer(connect: Connect) -> Client:
    return await connect()


async def test_each_app_gets_what_its_expression_is_true_for(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-60, BMQ-68, S003-6..S003-10, S003-28: two confirms delete the message."""
    uri = f"bmq://test.apps/{name}"
    foo, bar, baz = [await connect() for _ in range(3)]
    await producer.open(uri, write=True)
    for app, consumer in {"foo": foo, "bar": bar, "baz": baz}.items():
        await consumer.open(f"{uri}?id={app}", read=True)
    assert await producer.post(uri, b"two", {"x": 2}) == SUCCESS
    assert await bar.given() == await baz.given() == [b"two"]
    assert await foo.given() == []
    await bar.confirm(await bar.message())
    await bar.settle()
    assert (await router.queue(uri))["messages"] == 1
    await baz.confirm(await baz.message())
    await router.empties(uri)
    assert await producer.post(uri, b"one", {"x": 1}) == SUCCESS
    assert await foo.given() == await baz.given() == [b"one"]
    assert await bar.given() == []


async def test_apps_without_consumers_are_filtered_too(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-60, BMQ-68."""
    uri = f"bmq://test.apps/{name}"
    await producer.open(uri, write=True)
    for x in (1, 2, 3):
        assert await producer.post(uri, b"%d" % x, {"x": x}) == SUCCESS
    expected = {"foo": [b"1"], "bar": [b"2"], "baz": [b"1", b"2", b"3"]}
    for app, wanted in expected.items():
        consumer = await connect()
        await consumer.open(f"{uri}?id={app}", read=True)
        assert await consumer.given() == wanted
        await consumer.confirm(*await consumer.take(len(wanted)))
    await router.empties(uri)


async def test_what_a_priority_queue_does_not_want_is_acknowledged_and_not_kept(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-61, BMQ-67, S003-11."""
    uri = f"bmq://test.one/{name}"
    consumer = await connect()
    await producer.open(uri, write=True)
    assert await producer.post(uri, b"two", {"x": 2}) == SUCCESS
    assert await producer.post(uri, b"other", {"y": 1}) == SUCCESS
    assert await producer.post(uri, b"none") == SUCCESS
    assert await producer.post(uri, b"text", {"x": "1"}) == SUCCESS
    assert (await router.queue(uri))["messages"] == 0
    await consumer.open(uri, read=True)
    assert await consumer.given() == []
    assert await producer.post(uri, b"one", {"x": 1, "y": 2}) == SUCCESS
    assert await consumer.given() == [b"one"]
    assert (await router.queue(uri))["messages"] == 1


async def test_what_no_app_wants_is_not_kept(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-62, BMQ-67: later messages flow."""
    uri = f"bmq://test.all/{name}"
    foo, bar = await connect(), await connect()
    await producer.open(uri, write=True)
    await foo.open(f"{uri}?id=foo", read=True)
    await bar.open(f"{uri}?id=bar", read=True)
    unwanted: list[dict[str, Value]] = [{"x": 2}, {"x": -1}, {}, {"y": 1}, {"x": "1"}, {"x": b"1"}]
    for properties in unwanted:
        assert await producer.post(uri, b"unwanted", properties) == SUCCESS
    queue = await router.queue(uri)
    assert queue["messages"] == queue["bytes"] == 0
    assert await producer.post(uri, b"zero", {"x": 0}) == SUCCESS
    assert await producer.post(uri, b"one", {"x": 1}) == SUCCESS
    assert await foo.given() == [b"one"]
    assert await bar.given() == [b"zero", b"one"]


async def test_several_expressions_of_an_app_act_as_or(
    connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-69, S003-26; BMQ-14, BMQ-15: a binary property does not exist."""
    uri = f"bmq://test.either/{name}"
    foo, bar = await connect(), await connect()
    await producer.open(uri, write=True)
    await foo.open(f"{uri}?id=foo", read=True)
    await bar.open(f"{uri}?id=bar", read=True)
    posts: dict[bytes, dict[str, Value]] = {
        b"first": {"x": 1},
        b"second": {"name": "second"},
        b"both": {"x": 1, "name": "second"},
        b"neither": {"x": 2, "name": "third"},
        b"binary": {"x": b"1"},
    }
    for body, properties in posts.items():
        assert await producer.post(uri, body, properties) == SUCCESS
    assert await foo.given() == [b"first", b"second", b"both"]
    assert await bar.given() == [b"first", b"both", b"neither"]


async def test_expressions_read_every_type_of_property(
    connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-14, S003-4, S003-44."""
    uri = f"bmq://test.types/{name}"
    consumer = await connect()
    await producer.open(uri, write=True)
    await consumer.open(uri, read=True)
    posts: list[tuple[str, Value, str]] = [
        ("flag", True, "BOOL"),
        ("flag", False, "BOOL"),
        ("letter", b"A", "CHAR"),
        ("letter", b"B", "CHAR"),
        ("letter", 65, "INT64"),
        ("small", -2, "SHORT"),
        ("small", -1, "SHORT"),
        ("small", -(2**31), "INT32"),
        ("small", 0, "INT32"),
        ("small", -(2**63), "INT64"),
        ("text", "n", "STRING"),
        ("text", "a", "STRING"),
        ("text", b"n", "BINARY"),
    ]
    for number, (property, value, type) in enumerate(posts):
        posted = await producer.post(uri, b"%d" % number, {property: value}, {property: type})
        assert posted == SUCCESS
    assert await consumer.given() == [b"0", b"2", b"4", b"5", b"7", b"9", b"10"]

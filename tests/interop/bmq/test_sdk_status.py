"""What the router says of its queues is what its clients did."""

from __future__ import annotations

from typing import Any

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Router, bodies, numbered

DOMAINS = """\
[domains."test.fanout"]
mode = "fanout"
apps = ["foo", "bar", "baz"]
subscriptions = { baz = ["x > 5"] }
max_messages = 12
[domains."test.priority"]
mode = "priority"
"""


def counted(told: dict[str, Any], *names: str) -> list[int]:
    return [told["counts"].get(name, 0) for name in names]


async def test_counts_of_queue_and_apps_agree_with_what_was_done(
    router: Router, connect: Connect, name: str
) -> None:
    """BMQ-91, S003-17."""
    uri = f"bmq://test.fanout/{name}"
    producer, foo, bar = [await connect() for _ in range(3)]
    await producer.open(uri, write=True)
    await foo.open(f"{uri}?id=foo", read=True)
    await bar.open(f"{uri}?id=bar", read=True, max_unconfirmed_messages=4)
    for x, body in enumerate(numbered(12)):
        assert await producer.post(uri, body, {"x": x}) == SUCCESS
    for _ in range(3):
        assert await producer.post(uri, b"refused") == "LIMIT_MESSAGES"
    messages = await foo.take(12)
    assert bodies(messages) == numbered(12)
    await foo.confirm(*messages[:7])
    assert await foo.given() == []
    held = await bar.take(4)
    await bar.confirm(held[0])
    assert await bar.given() == [b"4"]

    queue = await router.queue(uri)
    assert queue["domain"] == "test.fanout"
    assert queue["messages"] == 11
    assert counted(queue, "accepted", "refused", "auto_confirmed") == [12, 3, 6]
    assert counted(queue, "delivered", "confirmed") == [12 + 5, 7 + 1]
    apps = queue["apps"]
    assert {app: told["consumers"] for app, told in apps.items()} == {"foo": 1, "bar": 1, "baz": 0}
    names = ("delivered", "confirmed", "auto_confirmed")
    assert counted(apps["foo"], *names) == [12, 7, 0]
    assert counted(apps["bar"], *names) == [5, 1, 0]
    assert counted(apps["baz"], *names) == [0, 0, 6]
    assert [apps[app]["unconfirmed"] for app in ("foo", "bar", "baz")] == [5, 4, 0]
    assert [apps[app]["undelivered"] for app in ("foo", "bar", "baz")] == [0, 7, 6]

    await foo.close(f"{uri}?id=foo")
    queue = await router.queue(uri)
    assert counted(queue["apps"]["foo"], "returned") == [5]
    assert queue["apps"]["foo"]["consumers"] == queue["apps"]["foo"]["unconfirmed"] == 0


async def test_bytes_and_messages_go_to_nothing_when_all_is_confirmed(
    router: Router, connect: Connect, name: str
) -> None:
    """BMQ-91."""
    uri = f"bmq://test.priority/{name}"
    client = await connect()
    await client.open(uri, read=True, write=True)
    for body in numbered(5):
        assert await client.post(uri, body * 100, {"text": "t" * 50}) == SUCCESS
    queue = await router.queue(uri)
    assert queue["messages"] == 5
    assert queue["bytes"] >= 5 * (100 + 50)
    await client.confirm(*await client.take(5))
    await client.settle()
    queue = await router.queue(uri)
    assert queue["messages"] == queue["bytes"] == 0
    assert counted(queue, "accepted", "delivered", "confirmed") == [5, 5, 5]


async def test_sessions_are_listed_while_they_last(router: Router, connect: Connect) -> None:
    """BMQ-91."""
    one, _ = await connect(), await connect()
    await router.sessions(2)
    await one.stop()
    await router.sessions(1)

"""Messages of consumers that leave, in peace or not, go to others."""

from __future__ import annotations

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Client, Router, bodies, numbered

DOMAINS = """\
[domains."test.priority"]
mode = "priority"
[domains."test.once"]
mode = "priority"
max_delivery_attempts = 1
[domains."test.twice"]
mode = "priority"
max_delivery_attempts = 2
suspicious_delay_high = 0
[domains."test.apps"]
mode = "fanout"
apps = ["foo", "bar"]
max_delivery_attempts = 1
"""


@pytest.fixture
def uri(name: str) -> str:
    return f"bmq://test.priority/{name}"


@pytest.fixture
async def producer(connect: Connect) -> Client:
    return await connect()


async def test_a_closed_queue_gives_its_unconfirmed_messages_to_the_next_in_order(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-50, S003-34."""
    one, other = await connect(), await connect()
    await producer.open(uri, write=True)
    await one.open(uri, read=True)
    await producer.post_all(uri, numbered(5))
    assert bodies(await one.take(5)) == numbered(5)
    await other.open(uri, read=True)
    assert await other.given() == []
    await one.close(uri)
    assert bodies(await other.take(5)) == numbered(5)
    assert await one.given() == []


async def test_a_stopped_session_gives_its_unconfirmed_messages_to_the_next_in_order(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-50. The session did not close its queue first."""
    one, other = await connect(), await connect()
    await producer.open(uri, write=True)
    await one.open(uri, read=True)
    await producer.post_all(uri, numbered(5))
    await one.confirm(*(await one.take(5))[:2])
    await one.stop()
    await other.open(uri, read=True)
    messages = await other.take(3)
    assert bodies(messages) == numbered(5)[2:]
    await other.confirm(*messages)
    await router.empties(uri)


async def test_a_killed_consumer_gives_its_unconfirmed_messages_to_another_in_order(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-51, S003-34."""
    one, other = await connect(), await connect()
    await producer.open(uri, write=True)
    await one.open(uri, read=True)
    await producer.post_all(uri, numbered(5))
    assert bodies(await one.take(5)) == numbered(5)
    await other.open(uri, read=True)
    await one.kill()
    messages = await other.take(5)
    assert bodies(messages) == numbered(5)
    await producer.post_all(uri, numbered(5, first=5))
    messages += await other.take(5)
    await other.confirm(*messages)
    await router.empties(uri)


async def test_what_was_confirmed_before_the_end_does_not_return(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-54."""
    one, other = await connect(), await connect()
    await producer.open(uri, write=True)
    await one.open(uri, read=True)
    await producer.post_all(uri, numbered(6))
    messages = await one.take(6)
    await one.confirm(messages[0], messages[2], messages[5])
    await one.settle()
    await one.kill()
    await other.open(uri, read=True)
    rest = await other.take(3)
    assert bodies(rest) == [b"1", b"3", b"4"]
    assert await other.given() == []
    await other.confirm(*rest)
    await router.empties(uri)


async def test_messages_of_a_killed_consumer_wait_for_a_new_one(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-51, BMQ-52: nobody is there when they come back."""
    await producer.open(uri, write=True)
    one = await connect()
    await one.open(uri, read=True)
    await producer.post_all(uri, numbered(3))
    await one.take(3)
    await one.kill()
    await router.until(uri, "the loss", lambda queue: queue["apps"][""]["unconfirmed"] == 0)
    await producer.post_all(uri, numbered(3, first=3))
    other = await connect()
    await other.open(uri, read=True)
    assert bodies(await other.take(6)) == numbered(6)


async def test_messages_of_a_killed_consumer_are_shared_by_those_who_remain(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-51, BMQ-58: a consumer at its limit takes none of them."""
    lost, full, fresh = [await connect() for _ in range(3)]
    await producer.open(uri, write=True)
    await full.open(uri, read=True, max_unconfirmed_messages=1)
    assert await producer.post(uri, b"held") == SUCCESS
    assert (await full.message()).body == b"held"
    await lost.open(uri, read=True)
    await producer.post_all(uri, numbered(4))
    assert bodies(await lost.take(4)) == numbered(4)
    await lost.kill()
    await fresh.open(uri, read=True)
    assert bodies(await fresh.take(4)) == numbered(4)
    assert await full.given() == []


async def test_any_number_of_kills_is_survived_without_a_limit(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-57."""
    await producer.open(uri, write=True)
    assert await producer.post(uri, b"again") == SUCCESS
    for _ in range(4):
        consumer = await connect()
        await consumer.open(uri, read=True)
        assert (await consumer.message()).body == b"again"
        await consumer.kill()


async def test_with_one_attempt_the_first_kill_removes_a_message(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-55, BMQ-56: closing and stopping in peace do not count."""
    uri = f"bmq://test.once/{name}"
    await producer.open(uri, write=True)
    assert await producer.post(uri, b"poison") == SUCCESS
    one = await connect()
    for _ in range(2):
        await one.open(uri, read=True)
        assert (await one.message()).body == b"poison"
        await one.close(uri)
    await one.open(uri, read=True)
    assert (await one.message()).body == b"poison"
    await one.stop()
    two = await connect()
    await two.open(uri, read=True)
    assert (await two.message()).body == b"poison"
    await two.kill()
    await router.empties(uri)
    three = await connect()
    await three.open(uri, read=True)
    assert (await router.queue(uri))["counts"]["poisoned"] == 1
    assert await producer.post(uri, b"food") == SUCCESS
    assert await three.given() == [b"food"]


async def test_with_two_attempts_the_second_kill_removes_a_message(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-56. One that was confirmed, and one that was never given, are not touched."""
    uri = f"bmq://test.twice/{name}"
    await producer.open(uri, write=True)
    await producer.post_all(uri, [b"fine", b"poison", b"later"])
    one = await connect()
    await one.open(uri, read=True, max_unconfirmed_messages=2)
    fine, poison = await one.take(2)
    assert bodies([fine, poison]) == [b"fine", b"poison"]
    await one.kill()
    two = await connect()
    await two.open(uri, read=True, max_unconfirmed_messages=2)
    fine, poison = await two.take(2)
    assert bodies([fine, poison]) == [b"fine", b"poison"]
    await two.configure(uri, max_unconfirmed_messages=1)
    await two.confirm(fine)
    assert await two.given() == []
    await two.kill()
    await router.until(uri, "one message", lambda queue: queue["messages"] == 1)
    three = await connect()
    await three.open(uri, read=True)
    assert await three.given() == [b"later"]
    assert (await router.queue(uri))["counts"]["poisoned"] == 1


async def test_a_message_that_is_removed_for_one_app_stays_for_the_others(
    router: Router, connect: Connect, producer: Client, name: str
) -> None:
    """BMQ-56."""
    uri = f"bmq://test.apps/{name}"
    await producer.open(uri, write=True)
    foo, bar = await connect(), await connect()
    await foo.open(f"{uri}?id=foo", read=True)
    await bar.open(f"{uri}?id=bar", read=True)
    assert await producer.post(uri, b"poison") == SUCCESS
    assert (await foo.message()).body == b"poison"
    message = await bar.message()
    await foo.kill()
    await router.until(
        uri, "the loss", lambda queue: queue["apps"]["foo"]["counts"].get("poisoned") == 1
    )
    assert (await router.queue(uri))["messages"] == 1
    await bar.close(f"{uri}?id=bar")
    await bar.open(f"{uri}?id=bar", read=True)
    again = await bar.message()
    assert again == message
    await bar.confirm(again)
    await router.empties(uri)
    new = await connect()
    await new.open(f"{uri}?id=foo", read=True)
    assert await new.given() == []

"""Who of several consumers is given a message: priorities, turns and windows."""

from __future__ import annotations

import asyncio

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Client, Router, bodies, numbered

DOMAINS = """\
[domains."test.priority"]
mode = "priority"
"""


@pytest.fixture
def uri(name: str) -> str:
    return f"bmq://test.priority/{name}"


@pytest.fixture
async def producer(connect: Connect, uri: str) -> Client:
    producer = await connect()
    await producer.open(uri, write=True)
    return producer


async def settled(*clients: Client) -> list[list[bytes]]:
    """What each has been given and not taken, when nothing is under way any more."""
    return await asyncio.gather(*(client.given() for client in clients))


async def confirmed(*clients: Client) -> list[list[bytes]]:
    """What each has been given; all of it is taken and confirmed."""
    found = await settled(*clients)
    for client in clients:
        await client.confirm(*await client.take(len(client.messages)))
        await client.settle()
    return found


async def test_three_equal_consumers_take_strict_turns(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-36, S003-36, S003-41."""
    consumers = [await connect() for _ in range(3)]
    for consumer in consumers:
        await consumer.open(uri, read=True)
    await producer.post_all(uri, numbered(30))
    given = await settled(*consumers)
    assert sorted(given) == sorted(numbered(30)[turn::3] for turn in range(3))


async def test_only_the_highest_priority_is_given_messages(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-27, S003-35: when it drops below the other, the other is given all."""
    high, low = await connect(), await connect()
    await high.open(uri, read=True, priority=10)
    await low.open(uri, read=True, priority=5)
    await producer.post_all(uri, numbered(6))
    assert await confirmed(high, low) == [numbered(6), []]
    await high.configure(uri, priority=1)
    await producer.post_all(uri, numbered(6, first=6))
    assert await confirmed(high, low) == [[], numbered(6, first=6)]


async def test_the_order_of_opening_does_not_matter_to_priorities(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-27, also with the extremes of what a priority may be."""
    lowest, highest = await connect(), await connect()
    await lowest.open(uri, read=True, priority=-(2**30))
    assert await producer.post(uri, b"alone") == SUCCESS
    assert await confirmed(lowest) == [[b"alone"]]
    await highest.open(uri, read=True, priority=2**30 - 1)
    await producer.post_all(uri, numbered(4))
    assert await confirmed(lowest, highest) == [[], numbered(4)]


async def test_equal_priorities_of_the_highest_share_and_lower_ones_wait(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-27, BMQ-36, S003-36."""
    one, other, low = [await connect() for _ in range(3)]
    await one.open(uri, read=True, priority=3)
    await other.open(uri, read=True, priority=3)
    await low.open(uri, read=True, priority=2)
    await producer.post_all(uri, numbered(8))
    *shares, nothing = await confirmed(one, other, low)
    assert sorted(shares) == [numbered(8)[0::2], numbered(8)[1::2]]
    assert nothing == []


async def test_the_next_priority_takes_over_when_the_highest_leaves(
    connect: Connect, producer: Client, uri: str
) -> None:
    """S003-38, BMQ-53."""
    high, low = await connect(), await connect()
    await high.open(uri, read=True, priority=2)
    await low.open(uri, read=True, priority=1)
    await producer.post_all(uri, numbered(3))
    assert await settled(high, low) == [numbered(3), []]
    await high.close(uri)
    assert bodies(await low.take(3)) == numbered(3)
    await producer.post_all(uri, numbered(3, first=3))
    assert bodies(await low.take(3)) == numbered(3, first=3)


async def test_consumers_that_join_and_leave_take_part_as_long_as_they_are_there(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-38."""
    one, two, three = [await connect() for _ in range(3)]
    await one.open(uri, read=True)
    await producer.post_all(uri, numbered(3))
    assert await confirmed(one) == [numbered(3)]
    await two.open(uri, read=True)
    await producer.post_all(uri, numbered(4))
    assert sorted(await confirmed(one, two)) == [numbered(4)[0::2], numbered(4)[1::2]]
    await three.open(uri, read=True)
    await producer.post_all(uri, numbered(6))
    assert sorted(await confirmed(one, two, three)) == [numbered(6)[turn::3] for turn in range(3)]
    await one.close(uri)
    await producer.post_all(uri, numbered(4))
    nothing, *shares = await confirmed(one, two, three)
    assert nothing == []
    assert sorted(shares) == [numbered(4)[0::2], numbered(4)[1::2]]


async def test_a_window_of_one_gives_messages_one_by_one(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-43."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_messages=1)
    await producer.post_all(uri, numbered(4))
    for body in numbered(4):
        assert await settled(consumer) == [[body]]
        await consumer.confirm(await consumer.message())
    assert await settled(consumer) == [[]]


async def test_a_full_window_opens_again_at_four_fifths(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-44: a window of 10 that was full waits for 8."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_messages=10)
    await producer.post_all(uri, numbered(15))
    assert await settled(consumer) == [numbered(10)]
    first, second, third, *_ = await consumer.take(10)
    await consumer.confirm(first)
    assert await settled(consumer) == [[]]
    await consumer.confirm(second)
    assert await settled(consumer) == [numbered(2, first=10)]
    await consumer.confirm(third)
    assert await settled(consumer) == [numbered(2, first=10)]


async def test_a_window_counts_bytes(connect: Connect, producer: Client, uri: str) -> None:
    """BMQ-45: full at 1000, open again at 800."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_bytes=1000)
    await producer.post_all(uri, [body * 500 for body in (b"a", b"b", b"c", b"d")])
    assert await settled(consumer) == [[b"a" * 500, b"b" * 500]]
    first, second = await consumer.take(2)
    await consumer.confirm(first)
    assert await settled(consumer) == [[b"c" * 500]]
    await consumer.confirm(second)
    assert await settled(consumer) == [[b"c" * 500, b"d" * 500]]


async def test_a_message_beyond_the_window_is_given_to_a_consumer_that_has_nothing(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-45."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_bytes=100)
    await producer.post_all(uri, [b"large" * 100, b"small"])
    assert await settled(consumer) == [[b"large" * 100]]
    await consumer.confirm(await consumer.message())
    assert await settled(consumer) == [[b"small"]]


async def test_properties_count_as_bytes_of_the_window(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-45."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_bytes=100)
    for body in (b"one", b"two"):
        assert await producer.post(uri, body, {"text": "t" * 200}) == SUCCESS
    assert await settled(consumer) == [[b"one"]]


@pytest.mark.parametrize("limit", ["max_unconfirmed_messages", "max_unconfirmed_bytes"])
async def test_a_window_of_nothing_pauses_until_it_is_raised(
    connect: Connect, producer: Client, uri: str, limit: str
) -> None:
    """BMQ-46, S003-22."""
    consumer = await connect()
    await consumer.open(uri, read=True)
    await consumer.configure(uri, **{limit: 0})
    await producer.post_all(uri, numbered(3))
    assert await settled(consumer) == [[]]
    await consumer.configure(uri, **{limit: 100})
    assert bodies(await consumer.take(3)) == numbered(3)
    await consumer.configure(uri, **{limit: 0})
    assert await producer.post(uri, b"later") == SUCCESS
    assert await settled(consumer) == [[]]
    await consumer.configure(uri, **{limit: 100})
    assert (await consumer.message()).body == b"later"


async def test_a_paused_consumer_leaves_the_messages_to_the_others(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-39, BMQ-46."""
    paused, awake = await connect(), await connect()
    await paused.open(uri, read=True, max_unconfirmed_messages=0)
    await awake.open(uri, read=True)
    await producer.post_all(uri, numbered(4))
    assert await settled(paused, awake) == [[], numbered(4)]


async def test_a_full_window_that_is_raised_opens_without_a_confirm(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-47, S003-23."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_messages=2)
    await producer.post_all(uri, numbered(6))
    assert await settled(consumer) == [numbered(2)]
    await consumer.configure(uri, max_unconfirmed_messages=5)
    assert await settled(consumer) == [numbered(5)]


async def test_a_window_that_is_lowered_counts_what_is_unconfirmed(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-47, the other way round."""
    consumer = await connect()
    await consumer.open(uri, read=True, max_unconfirmed_messages=10)
    await producer.post_all(uri, numbered(5))
    messages = await consumer.take(5)
    await consumer.configure(uri, max_unconfirmed_messages=2)
    assert await producer.post(uri, b"5") == SUCCESS
    await consumer.confirm(*messages[:2])
    assert await settled(consumer) == [[]]
    await consumer.confirm(*messages[2:4])
    assert await settled(consumer) == [[b"5"]]


async def test_a_full_consumer_is_passed_over(connect: Connect, producer: Client, uri: str) -> None:
    """BMQ-39."""
    full, roomy = await connect(), await connect()
    await full.open(uri, read=True, max_unconfirmed_messages=1)
    await roomy.open(uri, read=True)
    await producer.post_all(uri, numbered(7))
    mine, others = await settled(full, roomy)
    assert len(mine) == 1
    assert sorted(mine + others) == numbered(7)
    assert others == sorted(others)


async def test_when_all_are_full_a_confirm_brings_the_oldest_that_waits(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-40."""
    one, other = await connect(), await connect()
    for consumer in (one, other):
        await consumer.open(uri, read=True, max_unconfirmed_messages=1)
    await producer.post_all(uri, numbered(5))
    assert sorted(await settled(one, other)) == [[b"0"], [b"1"]]
    await one.confirm(await one.message())
    assert (await settled(one))[0] == [b"2"]
    assert len(other.messages) == 1
    await one.confirm(await one.message())
    assert (await settled(one))[0] == [b"3"]
    await other.confirm(await other.message())
    assert (await settled(other))[0] == [b"4"]


async def test_nothing_spills_over_to_a_lower_priority(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-41, S003-37."""
    high, low = await connect(), await connect()
    await high.open(uri, read=True, priority=2, max_unconfirmed_messages=1)
    await low.open(uri, read=True, priority=1)
    await producer.post_all(uri, numbered(4))
    for body in numbered(4):
        assert await settled(high, low) == [[body], []]
        await high.confirm(await high.message())


async def test_a_consumer_that_is_raised_above_the_others_takes_what_waits(
    connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-42, S003-22, S003-23."""
    full, other = await connect(), await connect()
    await full.open(uri, read=True, priority=2, max_unconfirmed_messages=1)
    await other.open(uri, read=True, priority=1)
    await producer.post_all(uri, numbered(4))
    assert await settled(full, other) == [[b"0"], []]
    await other.configure(uri, priority=3)
    assert bodies(await other.take(3)) == [b"1", b"2", b"3"]
    await producer.post_all(uri, numbered(2, first=4))
    assert bodies(await other.take(2)) == [b"4", b"5"]
    assert await settled(full) == [[b"0"]]


async def test_uneven_consumers_lose_and_repeat_nothing(
    router: Router, connect: Connect, producer: Client, uri: str
) -> None:
    """BMQ-49."""
    windows = [1, 1, 2, 2, 3, 3, 5, 8, 13, 50]
    consumers = [await connect() for _ in windows]
    for consumer, window in zip(consumers, windows, strict=True):
        await consumer.open(uri, read=True, max_unconfirmed_messages=window)
    seen: list[bytes] = []

    async def consume(consumer: Client) -> None:
        while len(seen) < 300:
            message = await consumer.message()
            seen.append(message.body)
            await consumer.confirm(message)

    tasks = [asyncio.create_task(consume(consumer)) for consumer in consumers]
    await producer.post_all(uri, numbered(300))
    await router.empties(uri)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(seen) == sorted(numbered(300))
    assert await settled(*consumers) == [[]] * len(consumers)

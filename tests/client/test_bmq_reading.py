"""Messages from the router, and its sign of life."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from headgate.client.bmq import (
    Client,
    Subscription,
    Unreadable,
)
from headgate.wire.bmq.codec.frames import HEARTBEAT_REQUEST, EventType
from headgate.wire.bmq.codec.messages import (
    HAS_PROPERTIES,
    OUT_OF_ORDER,
    Confirmation,
    Push,
)
from headgate.wire.bmq.codec.payload import close_data
from tests.client.conftest import Connect
from tests.support.bmq_peer import URI, A, B, C, Peer, pushed, settled, taken, until

# Reading.


async def test_a_delivery_tells_what_it_is_and_is_confirmed_once_taken(
    peer: Peer, client: Client
) -> None:
    wanted = [Subscription("x > 1"), Subscription("x > 2", priority=5)]
    queue = await client.open(f"{URI}?id=a", read=True, subscriptions=wanted)
    data = close_data({"x": 3}, b"body")
    peer.talk.push(Push(0, A, HAS_PROPERTIES, data, (2,)), Push(0, B, OUT_OF_ORDER, b"plain", (1,)))
    first, second = await anext(queue), await anext(queue)
    assert (first.guid, first.body, dict(first.properties)) == (A, b"body", {"x": 3})
    assert (first.subscription, first.is_redelivered) == (wanted[1], False)
    assert (second.body, dict(second.properties)) == (b"plain", {})
    assert (second.subscription, second.is_redelivered) == (wanted[0], True)
    await first.confirm()
    await queue.confirm(second)
    await until(lambda: len(peer.talk.confirmed) == 2, "confirmations")
    assert peer.talk.confirmed == [Confirmation(0, A, 1), Confirmation(0, B, 1)]
    assert peer.talk.events.count(EventType.CONFIRM) == 1


async def test_one_push_for_two_apps_is_two_deliveries(peer: Peer, client: Client) -> None:
    a = await client.open(f"{URI}?id=a", read=True)
    b = await client.open(f"{URI}?id=b", read=True)
    peer.talk.push(Push(0, A, 0, b"body", (1, 2)))
    assert await taken(a, 1) == [A]
    assert await taken(b, 1) == [A]


async def test_a_message_on_its_way_when_subscriptions_change_is_still_delivered(
    peer: Peer, client: Client
) -> None:
    queue = await client.open(URI, read=True, subscriptions=[Subscription("x > 1")])
    await queue.configure([Subscription("x > 2")])
    peer.talk.push(Push(0, A, 0, b"old", (1,)), Push(0, B, 0, b"new", (2,)))
    old, new = await anext(queue), await anext(queue)
    assert (old.subscription.expression, new.subscription.expression) == ("x > 1", "x > 2")


async def test_a_push_that_names_no_subscription_is_for_the_only_reader(
    peer: Peer, client: Client
) -> None:
    queue = await client.open(URI, read=True)
    peer.talk.push(Push(0, A, 0, b"body", (0,)))
    assert await taken(queue, 1) == [A]


async def test_a_push_for_nobody_is_dropped(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, read=True)
    peer.talk.push(Push(7, A, 0, b"body", (1,)), Push(0, B, 0, b"body", (99,)))
    peer.talk.push(Push(0, C, 0, b"body", (1,)))
    assert await taken(queue, 1) == [C]
    assert len(peer.talks) == 1


async def test_data_that_is_wrong_is_raised_once_and_can_be_confirmed(
    peer: Peer, client: Client
) -> None:
    queue = await client.open(URI, read=True)
    peer.talk.push(Push(0, A, HAS_PROPERTIES, b"junk", (1,)), Push(0, B, 0, b"body", (1,)))
    with pytest.raises(Unreadable, match=A.hex()) as caught:
        await anext(queue)
    await caught.value.delivery.confirm()
    assert await taken(queue, 1) == [B]
    await until(lambda: peer.talk.confirmed, "the confirmation")
    assert [each.guid for each in peer.talk.confirmed] == [A]


async def test_reading_ends_with_the_queue(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, read=True)

    async def read() -> list[bytes]:
        return [delivery.guid async for delivery in queue]

    reading = asyncio.create_task(read())
    peer.talk.push(*pushed(peer.talk, A, B))
    await settled(client)
    await queue.close()
    assert await reading == [A, B]


async def test_two_readers_of_one_queue_share_it(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, read=True)
    reading = [asyncio.create_task(taken(queue, 1)) for _ in range(2)]
    await settled(client)
    peer.talk.push(*pushed(peer.talk, A, B))
    assert sorted(guid for [guid] in await asyncio.gather(*reading)) == [A, B]


# The pulse.


async def test_heartbeats_are_answered(peer: Peer, client: Client) -> None:
    peer.talk.send(HEARTBEAT_REQUEST)
    await until(lambda: EventType.HEARTBEAT_RSP in peer.talk.events, "an answer")


async def test_a_silent_router_is_left_and_a_living_one_is_not(
    peer: Peer, connect: Connect
) -> None:
    peer.answer = replace(peer.answer, heartbeat_interval_ms=20, max_missed_heartbeats=2)
    await connect()
    await until(lambda: peer.talk.events.count(EventType.HEARTBEAT_REQ) > 5, "heartbeats")
    assert len(peer.talks) == 1
    peer.is_alive = False
    await peer.talked(2)

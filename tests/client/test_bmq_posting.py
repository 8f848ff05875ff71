"""Messages to the router: what they carry, how they go together, and how many."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from headgate.client.bmq import (
    Client,
    NotAccepted,
    TimedOut,
)
from headgate.client.bmq.guids import Guids
from headgate.core.model.message import Declared, PropertyValue
from headgate.core.model.property_type import PropertyType
from headgate.errors import (
    BadMessage,
    LimitReached,
)
from headgate.wire.bmq.codec.frames import EventType
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    HAS_PROPERTIES,
    AckStatus,
)
from headgate.wire.bmq.codec.payload import checksum, open_data
from tests.client.conftest import Connect
from tests.support.bmq_peer import URI, A, B, C, Peer, pushed, puts, settled, until


async def test_a_post_carries_its_properties_and_a_checksum(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, write=True)
    properties: dict[str, PropertyValue] = {
        "kind": "express",
        "amount": 90,
        "paid": True,
        "raw": b"\xff",
    }
    guid = await queue.post(b"body", properties)
    [put] = peer.talk.puts
    assert (put.queue, put.guid, put.compression) == (0, guid, 0)
    assert put.flags == ACK_REQUESTED | HAS_PROPERTIES
    assert put.crc == checksum(put.data)
    assert opened(put.data) == (properties, b"body")


def opened(data: bytes, compression: int = 0) -> tuple[dict[str, object], bytes]:
    properties, body = open_data(
        data, has_properties=True, compression=compression, schema=0, bytes_max=10**6
    )
    return dict(properties), body


async def test_long_bodies_are_compressed_and_short_ones_are_not(
    peer: Peer, connect: Connect
) -> None:
    client = await connect(compression="zlib")
    queue = await client.open(URI, write=True)
    for length in (1024, 1025):
        await queue.post(b"x" * length, {"n": length})
    short, long = peer.talk.puts
    assert (short.compression, long.compression) == (0, 1)
    assert len(long.data) < 200
    assert long.crc == checksum(long.data)
    assert opened(long.data, 1) == ({"n": 1025}, b"x" * 1025)


async def test_declared_types_are_kept_and_values_that_do_not_fit_are_refused(
    peer: Peer, client: Client
) -> None:
    queue = await client.open(URI, write=True)
    short = bytes([PropertyType.SHORT])
    await queue.post(b"x", Declared({"n": 5}, short))
    assert struct.pack(">h", 5) in peer.talk.puts[0].data
    wrong: list[Any] = [Declared({"n": 99_999}, short), {"n": 2**63}, {"n": 1.5}, {"": 1}]
    for properties in wrong:
        with pytest.raises(BadMessage):
            await queue.post(b"x", properties)
    with pytest.raises(LimitReached):
        await queue.post(b"x", {str(n): n for n in range(256)})
    with pytest.raises(BadMessage, match="has a body"):
        await queue.post(b"")
    assert len(peer.talk.puts) == 1


async def test_what_the_router_does_not_take_is_raised(peer: Peer, client: Client) -> None:
    """A quota that is reached, and whatever else the wire has a number for, or not."""
    peer.acknowledges = False
    queue = await client.open(URI, write=True)
    for number, status in [(1, AckStatus.LIMIT_MESSAGES), (9, AckStatus.UNKNOWN)]:
        posting = asyncio.create_task(queue.post(b"x"))
        await until(lambda: peer.talk.puts, "the message")
        peer.talk.ack(peer.talk.puts.pop().guid, status=number)
        with pytest.raises(NotAccepted) as caught:
            await posting
        assert caught.value.status is status


async def test_posts_of_one_pass_are_one_event_in_their_order(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, write=True)
    guids = await asyncio.gather(*(queue.post(b"%d" % n) for n in range(100)))
    assert peer.talk.guids == guids
    assert [put.data for put in peer.talk.puts] == [b"%d" % n for n in range(100)]
    assert peer.talk.events.count(EventType.PUT) == 1


async def test_posts_and_confirmations_are_told_in_the_order_of_the_calls(
    peer: Peer, client: Client
) -> None:
    queue = await client.open(URI, read=True, write=True)
    peer.talk.push(*pushed(peer.talk, A, B, C))
    first, second, third = [await anext(queue) for _ in range(3)]
    await first.confirm()
    await second.confirm()
    await queue.post(b"x", acknowledged=False)
    await queue.post(b"y", acknowledged=False)
    await third.confirm()
    await settled(client)
    events = [each for each in peer.talk.events if each != EventType.CONTROL]
    assert events == [EventType.CONFIRM, EventType.PUT, EventType.CONFIRM]


async def test_a_large_event_is_split(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, write=True)
    await asyncio.gather(*(queue.post(b"x" * 400_000) for _ in range(5)))
    assert peer.talk.events.count(EventType.PUT) == 3


async def test_a_post_waits_for_room(peer: Peer, connect: Connect) -> None:
    peer.acknowledges = False
    client = await connect(unacknowledged_messages=2)
    queue = await client.open(URI, write=True)
    posting = [asyncio.create_task(queue.post(b"%d" % n)) for n in range(4)]
    await puts(peer.talk, 2)
    await settled(client)
    assert len(peer.talk.puts) == 2
    peer.talk.ack(peer.talk.puts[0].guid)
    await puts(peer.talk, 3)
    await settled(client)
    assert [put.data for put in peer.talk.puts] == [b"0", b"1", b"2"]
    peer.talk.ack(*peer.talk.guids)
    await puts(peer.talk, 4)
    peer.talk.ack(*peer.talk.guids)
    assert await asyncio.gather(*posting) == peer.talk.guids


async def test_a_post_waits_for_room_in_bytes_and_a_larger_one_goes_alone(
    peer: Peer, connect: Connect
) -> None:
    peer.acknowledges = False
    client = await connect(unacknowledged_bytes=100)
    queue = await client.open(URI, write=True)
    sizes = (60, 40, 1, 200, 1)
    posting = [asyncio.create_task(queue.post(b"x" * size)) for size in sizes]
    for count in (2, 3, 4, 5):
        await puts(peer.talk, count)
        await settled(client)
        assert len(peer.talk.puts) == count
        peer.talk.ack(*peer.talk.guids)
    assert await asyncio.gather(*posting) == peer.talk.guids
    assert [len(put.data) for put in peer.talk.puts] == list(sizes)


async def test_a_post_that_is_given_up_makes_room(peer: Peer, connect: Connect) -> None:
    peer.acknowledges = False
    client = await connect(unacknowledged_messages=1)
    queue = await client.open(URI, write=True)
    texts = (b"first", b"second", b"third")
    first, second, third = (asyncio.create_task(queue.post(text)) for text in texts)
    await puts(peer.talk, 1)
    second.cancel()
    first.cancel()
    await puts(peer.talk, 2)
    assert [put.data for put in peer.talk.puts] == [b"first", b"third"]
    peer.talk.ack(*peer.talk.guids)
    assert await third == peer.talk.guids[1]


async def test_a_post_that_is_not_acknowledged_takes_too_long(peer: Peer, connect: Connect) -> None:
    peer.acknowledges = False
    client = await connect(timeout=1.5)
    queue = await client.open(URI, write=True)
    with pytest.raises(TimedOut, match=f"posting to {URI}"):
        await queue.post(b"x")
    [guid] = peer.talk.guids
    peer.talk.ack(guid)
    peer.acknowledges = True
    await queue.post(b"y")


async def test_without_acknowledgement_nothing_is_asked_for_and_nothing_waited(
    peer: Peer, client: Client
) -> None:
    peer.acknowledges = False
    queue = await client.open(URI, write=True)
    guids = [await queue.post(b"x" * 100_000, acknowledged=False) for _ in range(40)]
    assert await puts(peer.talk, 40) == guids
    assert not any(put.flags & ACK_REQUESTED for put in peer.talk.puts)
    peer.talk.ack(guids[0], status=AckStatus.LIMIT_BYTES)
    await settled(client)


async def test_no_two_messages_have_one_id() -> None:
    one, other = Guids(), Guids()
    made = [guids.make() for _ in range(5000) for guids in (one, other)]
    assert len(set(made)) == len(made)
    assert {guid[0] >> 6 for guid in made} == {1}
    assert [int.from_bytes(guid[:3], "big") & 0x3FFFFF for guid in made[::2]] == list(range(5000))

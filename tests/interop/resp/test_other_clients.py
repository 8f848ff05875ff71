"""valkey-glide and coredis as they come: one connection carries commands and messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from coredis import Redis
from coredis.patterns.pubsub import PubSub
from coredis.response.types import PubSubMessage
from glide import (
    GlideClient,
    GlideClientConfiguration,
    GlideClusterClient,
    GlideClusterClientConfiguration,
    NodeAddress,
    ProtocolVersion,
    PubSubMsg,
)

from tests.support.resp_client import TIMEOUT_SECONDS
from tests.support.resp_cluster import Cluster
from tests.support.resp_servers import Dial, Server, client_list

Modes = GlideClientConfiguration.PubSubChannelModes
ClusterModes = GlideClusterClientConfiguration.PubSubChannelModes
MILLISECONDS = int(TIMEOUT_SECONDS * 1000)


# valkey-glide


@pytest.fixture
async def glide(server: Server, name: str) -> AsyncIterator[GlideClient]:
    """A client of RESP3 that is subscribed to a channel and a pattern from its start."""
    subscriptions = GlideClientConfiguration.PubSubSubscriptions(
        {Modes.Exact: {name}, Modes.Pattern: {name + ".*"}}, callback=None, context=None
    )
    configuration = GlideClientConfiguration(
        [NodeAddress(*server.address)],
        client_name=name,
        request_timeout=MILLISECONDS,
        protocol=ProtocolVersion.RESP3,
        pubsub_subscriptions=subscriptions,
    )
    client = await GlideClient.create(configuration)
    yield client
    await client.close()


async def received(client: GlideClient | GlideClusterClient) -> PubSubMsg:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await client.get_pubsub_message()


async def test_glide_gets_messages_on_the_connection_of_its_commands(
    glide: GlideClient, server: Server, dial: Dial, name: str
) -> None:
    """RESP-34, RESP-82."""
    publisher = dial(server)
    lines = [line for line in client_list(publisher) if line["name"] == name]
    assert [(line["sub"], line["psub"], line["resp"]) for line in lines] == [("1", "1", "3")]
    for number in range(100):
        assert publisher.ask("PUBLISH", name, str(number)) == 1
        assert publisher.ask("PUBLISH", f"{name}.x", str(number)) == 1
        await glide.set(name, str(number))
        assert await glide.get(name) == b"%d" % number
    exact: list[PubSubMsg] = []
    patterned: list[PubSubMsg] = []
    for _ in range(200):
        message = await received(glide)
        (exact if message.pattern is None else patterned).append(message)
    assert [message.message for message in exact] == [b"%d" % n for n in range(100)]
    assert [message.message for message in patterned] == [b"%d" % n for n in range(100)]
    assert {message.channel for message in exact} == {name.encode()}
    assert {(message.pattern, message.channel) for message in patterned} == {
        (f"{name}.*".encode(), f"{name}.x".encode())
    }


async def test_glide_publishes_to_itself(glide: GlideClient, name: str) -> None:
    """RESP-44, RESP-82."""
    assert await glide.publish("hello", name) == 1
    assert (await received(glide)).message == b"hello"
    assert await glide.pubsub_numsub([name]) == {name.encode(): 1}
    assert name.encode() in await glide.pubsub_channels()


async def test_glide_joins_and_leaves(glide: GlideClient, name: str) -> None:
    """RESP-82."""
    other = name + "other"
    await glide.subscribe({other}, timeout_ms=MILLISECONDS)
    assert await glide.publish("x", other) == 1
    assert (await received(glide)).channel == other.encode()
    await glide.unsubscribe({other}, timeout_ms=MILLISECONDS)
    assert await glide.publish("x", other) == 0


async def test_glide_in_a_cluster(cluster: Cluster) -> None:
    """RESP-74, RESP-82."""
    channels = {"kostas", "foo"}
    configuration = GlideClusterClientConfiguration(
        [NodeAddress(*cluster.nodes[0].address)],
        request_timeout=MILLISECONDS,
        pubsub_subscriptions=GlideClusterClientConfiguration.PubSubSubscriptions(
            {ClusterModes.Sharded: channels}, callback=None, context=None
        ),
    )
    client = await GlideClusterClient.create(configuration)
    try:
        for channel in sorted(channels):
            assert await client.publish("hello", channel, sharded=True) == 1
            message = await received(client)
            assert (message.channel, message.message) == (channel.encode(), b"hello")
        await client.set("bar", "v")
        assert await client.get("bar") == b"v"
        await client.sunsubscribe(channels, timeout_ms=MILLISECONDS)
        assert await client.publish("hello", "foo", sharded=True) == 0
    finally:
        await client.close()


# coredis


async def next_of(pubsub: PubSub[bytes]) -> PubSubMessage:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            message = await pubsub.get_message(timeout=1)
            if message is not None:
                return message


async def test_coredis_round_trip(server: Server, dial: Dial, name: str) -> None:
    """RESP-82."""
    publisher, n = dial(server), name.encode()
    async with Redis(*server.address) as client, client.pubsub() as pubsub:
        await pubsub.subscribe(name)
        await pubsub.psubscribe(name + "*")
        kinds = [(await next_of(pubsub))["type"] for _ in range(2)]
        assert kinds == ["subscribe", "psubscribe"]
        assert await client.publish(name, "hello") == 2
        exact, patterned = [await next_of(pubsub) for _ in range(2)]
        assert (exact["type"], exact["channel"], exact["data"]) == ("message", n, b"hello")
        assert (patterned["type"], patterned["pattern"]) == ("pmessage", n + b"*")
        words = [b"%d" % number for number in range(200)]
        publisher.pipeline([("PUBLISH", name + "x", word) for word in words])
        assert [(await next_of(pubsub))["data"] for _ in words] == words
        await pubsub.unsubscribe(name)
        assert (await next_of(pubsub))["type"] == "unsubscribe"
        assert await client.pubsub_numsub(name) == {n: 0}


async def test_coredis_subscribes_at_its_start(server: Server, name: str) -> None:
    """RESP-82."""
    async with (
        Redis(*server.address) as client,
        client.pubsub(
            channels=[name], patterns=[name + "*"], ignore_subscribe_messages=True
        ) as pubsub,
    ):
        assert await client.publish(name, "hello") == 2
        assert {(await next_of(pubsub))["type"] for _ in range(2)} == {"message", "pmessage"}
        assert await client.set(name, "v")
        assert await client.get(name) == b"v"
        assert (await client.info())["role"] == "master"


async def test_coredis_pipelines(server: Server, name: str) -> None:
    """RESP-82."""
    async with Redis(*server.address) as client:
        async with client.pipeline(transaction=True) as pipeline:
            replies = [pipeline.publish(name, "x"), pipeline.set(name, "v"), pipeline.get(name)]
        assert [await reply for reply in replies] == [0, True, b"v"]

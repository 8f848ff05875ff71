"""redis-py as it comes: blocking and asyncio, both protocols and parsers, and clusters."""

# Its annotations are partial, and what is looked at here is what it returns.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeAlias

import pytest
from redis._parsers import (
    _AsyncHiredisParser,
    _AsyncRESP2Parser,
    _AsyncRESP3Parser,
    _HiredisParser,
    _RESP2Parser,
    _RESP3Parser,
)
from redis.asyncio.client import Redis as AsyncRedis
from redis.asyncio.connection import ConnectionPool as AsyncConnectionPool
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.client import Redis
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import ConnectionPool
from redis.exceptions import AuthenticationError, ResponseError
from redis.retry import Retry

from tests.support.resp_client import TIMEOUT_SECONDS
from tests.support.resp_cluster import Cluster
from tests.support.resp_servers import PASSWORD, Server, eventually

Client: TypeAlias = Any
PubSub: TypeAlias = Any
Message: TypeAlias = Any


@pytest.fixture(params=["python", "hiredis"])
def parser(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def options(server: Server, protocol: int) -> dict[str, Any]:
    host, port = server.address
    timeout = {"socket_timeout": TIMEOUT_SECONDS}
    return {"host": host, "port": port, "protocol": protocol, **timeout}


@pytest.fixture
def client(server: Server, protocol: int, parser: str) -> Iterator[Client]:
    pure = _RESP3Parser if protocol == 3 else _RESP2Parser
    pool = ConnectionPool(
        **options(server, protocol),
        parser_class=_HiredisParser if parser == "hiredis" else pure,
        retry=Retry(NoBackoff(), 3),
    )
    with Redis(connection_pool=pool) as client:
        yield client
    pool.disconnect()


@pytest.fixture
async def aio(server: Server, protocol: int, parser: str) -> AsyncIterator[Client]:
    pure = _AsyncRESP3Parser if protocol == 3 else _AsyncRESP2Parser
    pool = AsyncConnectionPool(
        **options(server, protocol),
        parser_class=_AsyncHiredisParser if parser == "hiredis" else pure,
        retry=AsyncRetry(NoBackoff(), 3),
    )
    client = AsyncRedis(connection_pool=pool)
    yield client
    await client.aclose()
    await pool.disconnect()


def next_message(pubsub: PubSub) -> Message:
    """The next frame that the client makes anything of."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while (message := pubsub.get_message(timeout=1.0)) is None:
        assert time.monotonic() < end, "no message came"
    return message


def frame(kind: str, channel: str, data: object, pattern: str | None = None) -> dict[str, object]:
    """A message as redis-py shows it."""
    return {
        "type": kind,
        "pattern": None if pattern is None else pattern.encode(),
        "channel": channel.encode(),
        "data": data.encode() if isinstance(data, str) else data,
    }


def test_a_round_trip(client: Client, name: str) -> None:
    """RESP-81."""
    with client.pubsub() as pubsub:
        pubsub.subscribe(name)
        pubsub.psubscribe(name + "*")
        assert next_message(pubsub) == frame("subscribe", name, 1)
        assert next_message(pubsub) == frame("psubscribe", name + "*", 2)
        assert client.publish(name, "hello") == 2
        assert next_message(pubsub) == frame("message", name, "hello")
        assert next_message(pubsub) == frame("pmessage", name, "hello", name + "*")
        pubsub.unsubscribe()
        assert next_message(pubsub) == frame("unsubscribe", name, 1)
        pubsub.punsubscribe()
        assert next_message(pubsub) == frame("punsubscribe", name + "*", 0)
    assert client.pubsub_numsub(name) == [(name.encode(), 0)]


def test_a_sharded_round_trip(client: Client, name: str) -> None:
    """RESP-81."""
    with client.pubsub() as pubsub:
        pubsub.ssubscribe(name)
        assert next_message(pubsub) == frame("ssubscribe", name, 1)
        assert client.spublish(name, "hello") == 1
        assert next_message(pubsub) == frame("smessage", name, "hello")
        pubsub.sunsubscribe(name)
        assert next_message(pubsub) == frame("sunsubscribe", name, 0)


def test_listening(client: Client, name: str) -> None:
    """RESP-81."""
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(name)
        assert pubsub.get_message(timeout=TIMEOUT_SECONDS) is None, "the confirmation"
        words = [f"{number}" for number in range(100)]
        for word in words:
            assert client.publish(name, word) == 1
        messages = pubsub.listen()
        assert [next(messages)["data"] for _ in words] == [word.encode() for word in words]


def test_handlers_in_a_thread(client: Client, name: str) -> None:
    """RESP-81."""
    exact: list[Message] = []
    patterned: list[Message] = []
    pubsub = client.pubsub()
    pubsub.subscribe(**{name: exact.append})
    pubsub.psubscribe(**{name + "*": patterned.append})
    thread = pubsub.run_in_thread(sleep_time=0.01)
    try:
        eventually(lambda: client.publish(name, "ready?") == 2, "both subscriptions")
        eventually(lambda: bool(exact and patterned), "both handlers were called")
    finally:
        thread.stop()
        thread.join()
    assert exact[0] == frame("message", name, "ready?")
    assert patterned[0] == frame("pmessage", name, "ready?", name + "*")


def test_a_health_check_on_a_subscribed_connection(
    server: Server, protocol: int, name: str
) -> None:
    """RESP-33, RESP-81."""
    with Redis(**options(server, protocol), health_check_interval=1) as client:
        pubsub: PubSub = client.pubsub()
        pubsub.subscribe(name)
        assert next_message(pubsub) == frame("subscribe", name, 1)
        connection = pubsub.connection
        connection.next_health_check = 0  # its time has come
        assert pubsub.get_message(timeout=1.0) is None, "the answer is for the client itself"
        connection.next_health_check = 0
        assert client.publish(name, "x") == 1
        assert next_message(pubsub) == frame("message", name, "x")
        pubsub.close()


def test_a_killed_connection_subscribes_again(client: Client, name: str) -> None:
    """RESP-20, RESP-81."""
    with client.pubsub() as pubsub:
        pubsub.subscribe(name)
        pubsub.psubscribe(name + "*")
        next_message(pubsub)
        next_message(pubsub)
        assert client.execute_command("CLIENT", "KILL", "TYPE", "pubsub") >= 1
        eventually(lambda: client.pubsub_numsub(name)[0][1] == 0, "it is gone")
        again = {next_message(pubsub)["type"], next_message(pubsub)["type"]}
        assert again == {"subscribe", "psubscribe"}
        assert client.publish(name, "x") == 2
        assert next_message(pubsub) == frame("message", name, "x")


def test_a_pipeline_is_a_transaction(client: Client, name: str) -> None:
    """RESP-81."""
    with client.pubsub() as pubsub, client.pipeline() as pipeline:
        pubsub.subscribe(name)
        next_message(pubsub)
        pipeline.set(name, "v").publish(name, "1").get(name).publish(name, "2").expire(name, 100)
        assert pipeline.execute() == [True, 1, b"v", 1, True]
        assert [next_message(pubsub)["data"] for _ in range(2)] == [b"1", b"2"]
    with client.pipeline(transaction=False) as plain:
        plain.publish(name, "3").ping().ttl(name)
        assert plain.execute() == [0, True, 100]
    with client.pipeline() as wrong:
        wrong.set(name, "w").execute_command("NOSUCH")
        with pytest.raises(ResponseError, match="unknown command"):
            wrong.execute()
    assert client.get(name) == b"v"


def test_the_introspection_that_it_offers(client: Client, name: str) -> None:
    """RESP-51, RESP-81."""
    with client.pubsub() as pubsub:
        pubsub.subscribe(name)
        next_message(pubsub)
        assert client.pubsub_channels(name) == [name.encode()]
        assert client.pubsub_numsub(name, "no") == [(name.encode(), 1), (b"no", 0)]
        assert client.pubsub_numpat() == 0
        listed = client.client_list(_type="pubsub")
        assert [line["sub"] for line in listed if line["cmd"] == "subscribe"] == ["1"]
        info = client.info()
        assert info["role"] == "master"
        assert info["pubsub_channels"] >= 1
        assert client.config_get("save") == {"save": ""}
        assert client.command_count() > 50
        assert client.client_setname("me")
        assert client.client_getname() in ("me", b"me")
        assert client.ping()
        assert client.echo("x") == b"x"


def test_many_threads_share_a_client(client: Client, name: str) -> None:
    """RESP-43, RESP-81."""
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(name)
        pubsub.get_message(timeout=TIMEOUT_SECONDS)

        def publish(which: int) -> None:
            for number in range(100):
                client.publish(name, f"{which} {number}")

        threads = [threading.Thread(target=publish, args=(which,)) for which in range(5)]
        for thread in threads:
            thread.start()
        seen = [next_message(pubsub)["data"].decode() for _ in range(500)]
        for thread in threads:
            thread.join()
    for which in range(5):
        mine = [word for word in seen if word.startswith(f"{which} ")]
        assert mine == [f"{which} {number}" for number in range(100)]


def test_a_password(guarded: Server, protocol: int, name: str) -> None:
    """RESP-15, RESP-16, RESP-81."""
    at = options(guarded, protocol)
    with Redis(**at, password=PASSWORD, client_name=name) as client:
        assert client.client_getname() in (name, name.encode())
        assert client.acl_whoami() in ("default", b"default")
    with (
        Redis(**at, password="wrong", retry=Retry(NoBackoff(), 0)) as stranger,
        pytest.raises(AuthenticationError),
    ):
        stranger.ping()


# asyncio


async def test_asyncio_round_trip(aio: Client, name: str) -> None:
    """RESP-81."""
    async with aio.pubsub() as pubsub:
        await pubsub.subscribe(name)
        await pubsub.psubscribe(name + "*")
        assert await next_of(pubsub) == frame("subscribe", name, 1)
        assert await next_of(pubsub) == frame("psubscribe", name + "*", 2)
        assert await aio.publish(name, "hello") == 2
        assert await next_of(pubsub) == frame("message", name, "hello")
        assert await next_of(pubsub) == frame("pmessage", name, "hello", name + "*")
        await pubsub.unsubscribe()
        assert await next_of(pubsub) == frame("unsubscribe", name, 1)


async def next_of(pubsub: PubSub) -> Message:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            message = await pubsub.get_message(timeout=1.0)
            if message is not None:
                return message


async def test_asyncio_listening(aio: Client, name: str) -> None:
    """RESP-81."""
    async with aio.pubsub(ignore_subscribe_messages=True) as pubsub:
        await pubsub.subscribe(name)
        await pubsub.get_message(timeout=TIMEOUT_SECONDS)
        async with aio.pipeline() as pipeline:
            for number in range(50):
                pipeline.publish(name, number)
            assert await pipeline.execute() == [1] * 50
        seen = []
        async for message in pubsub.listen():
            seen.append(int(message["data"]))
            if len(seen) == 50:
                break
    assert seen == list(range(50))


async def test_asyncio_handlers(aio: Client, name: str) -> None:
    """RESP-81."""
    seen: asyncio.Queue[Message] = asyncio.Queue()
    pubsub = aio.pubsub()
    await pubsub.subscribe(**{name: seen.put_nowait})
    task = asyncio.create_task(pubsub.run(poll_timeout=0.1))
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while seen.empty():
                await aio.publish(name, "x")
            assert await seen.get() == frame("message", name, "x")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pubsub.aclose()


async def test_asyncio_subscribes_again_after_a_kill(aio: Client, name: str) -> None:
    """RESP-20, RESP-81."""
    async with aio.pubsub() as pubsub:
        await pubsub.subscribe(name)
        await next_of(pubsub)
        await aio.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        assert await next_of(pubsub) == frame("subscribe", name, 1)
        assert await aio.publish(name, "x") == 1
        assert await next_of(pubsub) == frame("message", name, "x")


# The cluster client


def cluster_client(cluster: Cluster, protocol: int) -> Client:
    """It is told of one node, and finds the other."""
    node = ClusterNode(*cluster.nodes[0].address)
    return RedisCluster(startup_nodes=[node], protocol=protocol, socket_timeout=TIMEOUT_SECONDS)


def test_a_cluster_of_two(cluster: Cluster, protocol: int) -> None:
    """RESP-74."""
    with cluster_client(cluster, protocol) as client:
        assert {node.port for node in client.get_primaries()} == {n.port for n in cluster.nodes}
        pubsub = client.pubsub()
        for channel in ("kostas", "foo"):
            pubsub.ssubscribe(channel)
            assert sharded(pubsub, channel) == frame("ssubscribe", channel, 1)
        for channel in ("kostas", "foo"):
            assert client.spublish(channel, "hello") == 1
            assert sharded(pubsub, channel) == frame("smessage", channel, "hello")
        assert client.set("bar", "v")
        assert client.get("bar") == b"v"
        assert client.delete("bar") == 1
        for channel in ("kostas", "foo"):
            pubsub.sunsubscribe(channel)
            assert sharded(pubsub, channel)["type"] == "sunsubscribe"
        pubsub.close()


def test_a_cluster_client_is_told_that_its_slot_moved(cluster: Cluster, protocol: int) -> None:
    """RESP-75."""
    with cluster_client(cluster, protocol) as client:
        pubsub = client.pubsub()
        pubsub.ssubscribe("kostas")
        assert sharded(pubsub, "kostas") == frame("ssubscribe", "kostas", 1)
        cluster.assign([2833], 1)
        assert sharded(pubsub, "kostas") == frame("sunsubscribe", "kostas", 0)
        # It follows MOVED, and may by now have subscribed again at the new node.
        assert client.spublish("kostas", "hello") in (0, 1)
        pubsub.close()


def sharded(pubsub: PubSub, channel: str) -> Message:
    """The next frame from the node of a channel."""
    node = pubsub.cluster.get_node_from_key(channel)
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end:
        message = pubsub.get_sharded_message(timeout=0.1, target_node=node)
        if message is not None:
            return message
    raise AssertionError(f"nothing came for {channel}")

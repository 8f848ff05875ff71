"""The Redis wire in the router's own process: policies, limits, facts, and the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from headgate.client.resp import Published, RespClient
from headgate.core.facts import Fact
from headgate.core.limits import Limits
from headgate.errors import HeadgateError
from headgate.server.config.kinds import Secret
from headgate.server.config.sections import ListenResp, Tls
from headgate.server.resp import RespServer, node_id
from headgate.server.router import Router
from headgate.store.memory import MemoryStore
from headgate.wire.resp.replies import bulk
from tests.server.certificates import make_certificate

Start = Callable[..., Awaitable["Scene"]]
KIB = 1024
SMALL = {"mailbox_soft": 64 * KIB, "mailbox_hard": 128 * KIB, "publish_buffer_limit": 512 * KIB}


class Scene:
    """A router, its wire, and who is connected to it."""

    def __init__(self, router: Router, server: RespServer) -> None:
        self.router = router
        self.server = server
        self.facts: list[Fact] = []
        self._told = asyncio.Event()
        self._sockets: list[socket.socket] = []
        router.watch(self._tell)

    def _tell(self, facts: Sequence[Fact]) -> None:
        self.facts += facts
        self._told.set()

    async def fact(self, kind: str) -> Fact:
        """The first fact of a kind, as soon as there is one."""
        async with asyncio.timeout(20):
            while True:
                for fact in self.facts:
                    if type(fact).__name__ == kind:
                        return fact
                self._told.clear()
                await self._told.wait()

    async def dial(self) -> Peer:
        connected = socket.socket()
        # A small window, so that who does not read is noticed soon.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, self.server.address)
        self._sockets.append(connected)
        return Peer(connected)

    async def close(self) -> None:
        for each in self._sockets:
            each.close()
        self.server.close()
        await self.router.stop()


class Peer:
    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    async def send(self, *words: str | bytes) -> None:
        parts = [w.encode() if isinstance(w, str) else w for w in words]
        data = b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts))
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def read(self) -> bytes:
        async with asyncio.timeout(10):
            return await asyncio.get_running_loop().sock_recv(self.socket, 1 << 20)

    async def ask(self, *words: str | bytes) -> bytes:
        await self.send(*words)
        return await self.read()

    async def read_all(self) -> bytes:
        """Everything up to the end."""
        data = b""
        while True:
            try:
                part = await self.read()
            except ConnectionError:
                return data
            if not part:
                return data
            data += part


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    made: list[Scene] = []

    async def begin(limits: Limits | None = None, **settings: object) -> Scene:
        router = Router(store=MemoryStore(), domains={}, limits=limits or Limits())
        await router.start()
        server = RespServer(router, ListenResp(port=0, **settings), tmp_path)  # type: ignore[arg-type]
        made.append(Scene(router, server))
        return made[-1]

    yield begin
    for scene in made:
        await scene.close()


async def stall(scene: Scene) -> tuple[Peer, Peer]:
    """A subscriber that never reads, and a publisher."""
    slow, publisher = await scene.dial(), await scene.dial()
    await slow.ask("CLIENT", "SETNAME", "snail")
    await slow.ask("SUBSCRIBE", "c")
    return slow, publisher


async def test_a_slow_session_is_told_by_name_and_holds_up_who_publishes_to_it(
    start: Start,
) -> None:
    """S002-58, S002-60, S002-61, S002-62; the status says who is slow and who waits for whom."""
    scene = await start(**SMALL)
    slow, publisher = await stall(scene)
    body = b"x" * 32 * KIB
    sent = 0
    for _ in range(400):
        await publisher.send("PUBLISH", "c", body)
        try:
            async with asyncio.timeout(0.3):
                await asyncio.get_running_loop().sock_recv(publisher.socket, 100)
        except TimeoutError:
            break
        sent += 1
    assert sent < 400
    slowed = await scene.fact("SessionSlowed")
    assert "snail" in slowed.name  # type: ignore[union-attr]
    waited = await scene.fact("PublisherWaited")
    rows = {row["session"]: row for row in scene.router.status()["sessions"]}  # type: ignore[attr-defined]
    assert rows[waited.session]["waits_for"] == slowed.session  # type: ignore[union-attr]
    assert rows[slowed.session]["pressure"] == "hard"  # type: ignore[union-attr]
    assert scene.router.gauges()["publishers_waiting"] == 1
    other = await scene.dial()
    assert await other.ask("PUBLISH", "elsewhere", "x") == b":0\r\n"
    reading = asyncio.create_task(slow.read_all())
    assert await publisher.read() == b":1\r\n"
    await scene.fact("SessionEased")
    slow.socket.shutdown(socket.SHUT_WR)
    await reading


async def test_a_session_over_its_limit_is_closed_if_that_is_the_policy(start: Start) -> None:
    """R-64: counted, told and in the list of the closed, with its reason."""
    scene = await start(slow_session="close", **SMALL)
    _, publisher = await stall(scene)
    for _ in range(400):
        if await publisher.ask("PUBLISH", "c", b"x" * 32 * KIB) == b":0\r\n":
            break
    evicted = await scene.fact("SessionEvicted")
    assert "snail" in evicted.name  # type: ignore[union-attr]
    await scene.fact("MessagesDiscarded")
    closed = scene.router.status()["closed"]
    assert closed[0]["reason"] == "evicted: over its limit"  # type: ignore[index]
    assert await publisher.ask("PUBSUB", "NUMSUB", "c") == b"*2\r\n$1\r\nc\r\n:0\r\n"


async def test_a_session_that_is_slow_for_too_long_is_closed(start: Start) -> None:
    scene = await start(slow_timeout=0.2, **SMALL)
    _, publisher = await stall(scene)
    for _ in range(400):
        if await publisher.ask("PUBLISH", "c", b"x" * 32 * KIB) == b":0\r\n":
            break
    evicted = await scene.fact("SessionEvicted")
    assert evicted.reason == "slow for too long"  # type: ignore[union-attr]
    assert scene.router.broker.budget.bytes == 0


async def test_the_oldest_messages_are_dropped_if_that_is_the_policy(start: Start) -> None:
    scene = await start(slow_session="drop-oldest", **SMALL)
    slow, publisher = await stall(scene)
    for number in range(1000):
        body = b"%d:" % number + b"x" * 16 * KIB
        assert await publisher.ask("PUBLISH", "c", body) == b":1\r\n"
    await scene.fact("MessagesDiscarded")
    assert scene.router.broker.budget.bytes < 512 * KIB
    reading = asyncio.create_task(slow.read_all())
    await scene.fact("SessionEased")
    await publisher.send("CLIENT", "KILL", "TYPE", "pubsub")
    received = await reading
    assert b"\n999:" in received
    assert b"\n700:" not in received


async def test_a_monitor_that_does_not_read_is_closed_whatever_the_policy(start: Start) -> None:
    """Nobody can be made to wait for it."""
    scene = await start(**SMALL)
    monitor, other = await scene.dial(), await scene.dial()
    await monitor.ask("MONITOR")
    for _ in range(400):
        await other.ask("ECHO", b"x" * 16 * KIB)
        if any(type(fact).__name__ == "SessionEvicted" for fact in scene.facts):
            break
    await scene.fact("SessionEvicted")
    assert scene.router.broker.budget.bytes == 0


async def test_there_is_a_last_client(start: Start) -> None:
    """The limit sessions, at and one above."""
    scene = await start(limits=Limits(sessions=2))
    first, second = await scene.dial(), await scene.dial()
    assert await first.ask("PING") == await second.ask("PING") == b"+PONG\r\n"
    third = await scene.dial()
    assert await third.read_all() == b"-ERR max number of clients reached\r\n"
    await scene.fact("LimitReached")
    second.socket.close()
    await scene.fact("SessionClosed")
    fourth = await scene.dial()
    assert await fourth.ask("PING") == b"+PONG\r\n"


async def test_handshakes_under_way_are_bounded(start: Start, tmp_path: Path) -> None:
    """The limit handshakes, at and one above."""
    make_certificate(tmp_path)
    scene = await start(limits=Limits(handshakes=1), tls=Tls())
    waiting = await scene.dial()
    refused = await scene.dial()
    assert await refused.read_all() == b""
    waiting.socket.close()


async def test_a_client_with_tls_publishes_and_subscribes(start: Start, tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path)
    scene = await start(tls=Tls(), password=Secret("secret"))
    host, port = scene.server.address
    body = b"x" * 200_000

    def talk() -> tuple[int, Published]:
        with (
            RespClient(host, port, "secret", certificate=certificate) as listening,
            RespClient(host, port, "secret", certificate=certificate) as publisher,
        ):
            listening.subscribe([b"c"])
            return publisher.publish(b"c", body), next(listening.messages())

    assert await asyncio.to_thread(talk) == (1, Published(b"c", body))
    (tmp_path / "other").mkdir()
    other, _ = make_certificate(tmp_path / "other")
    with pytest.raises(HeadgateError, match="no router answers"):
        await asyncio.to_thread(RespClient, host, port, certificate=other)


async def test_what_is_subscribed_is_a_fact_and_so_is_the_end(start: Start) -> None:
    scene = await start()
    peer = await scene.dial()
    await peer.ask("SUBSCRIBE", "a", "b")
    await peer.ask("UNSUBSCRIBE", "a")
    await peer.ask("QUIT")
    await scene.fact("SessionClosed")
    told = [type(fact).__name__ for fact in scene.facts]
    assert told.count("ChannelSubscribed") == 2
    assert told.count("ChannelUnsubscribed") == 1
    closed = scene.router.status()["closed"]
    assert closed[0]["reason"] == "quit"  # type: ignore[index]


async def test_keys_die_without_being_asked_for(start: Start) -> None:
    """R-66, S002-78, S002-79, S002-80, S002-81."""
    scene = await start(notify_keyspace_events="Ex")
    peer, asker = await scene.dial(), await scene.dial()
    await peer.ask("PSUBSCRIBE", "__keyevent@*")
    await asker.ask("SET", "k", "v", "PX", "50")
    assert await peer.read() == (
        b"*4\r\n$8\r\npmessage\r\n$12\r\n__keyevent@*\r\n$22\r\n__keyevent@0__:expired\r\n$1\r\nk\r\n"
    )


def test_a_node_keeps_its_name(tmp_path: Path) -> None:
    first = node_id(tmp_path)
    assert len(first) == 40
    assert node_id(tmp_path) == first

"""The Redis wire in the router's own process: policies, limits, facts, and the end."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

import hiredis
import pytest

from headgate.client.resp import Published, RespClient
from headgate.core.facts import (
    AuthenticationFailed,
    Fact,
    MessagesDiscarded,
    SessionClosed,
    SessionEased,
    SessionEvicted,
    SessionSlowed,
)
from headgate.core.login import failed_logins
from headgate.core.model.limits import Limits
from headgate.errors import HeadgateError
from headgate.server.config.kinds import Secret
from headgate.server.config.sections import ListenBmq, ListenResp, Tls
from headgate.server.net.connection import SocketPipe
from headgate.server.net.endpoint import Guest
from headgate.server.router import Router
from headgate.server.wires.bmq import BmqServer
from headgate.server.wires.resp import RespServer, node_id
from headgate.store.memory import MemoryStore
from headgate.wire.resp.codec.replies import bulk
from tests.support.bmq_raw import RawClient
from tests.support.certificates import make_certificate, make_client_certificate
from tests.support.socket_buffers import narrow_door, narrow_receiver, narrow_sender

F = TypeVar("F")
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
        self._is_closed = False
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

    def facts_of(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    async def so_many(self, kind: type[Fact], count: int) -> None:
        """Wait until there are so many facts of a kind."""
        async with asyncio.timeout(20):
            while len(self.facts_of(kind)) < count:
                self._told.clear()
                await self._told.wait()

    async def dial(self, source: str = "127.0.0.1") -> Peer:
        connected = socket.socket()
        connected.bind((source, 0))
        narrow_receiver(connected)  # who does not read is noticed soon, and on every machine
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, self.server.address)
        self._sockets.append(connected)
        return Peer(connected)

    def pair(self) -> Peer:
        """A client without a network: nothing of what is under way moves before it reads."""
        theirs, ours = socket.socketpair()
        narrow_sender(theirs)
        theirs.setblocking(False)
        ours.setblocking(False)
        guest = Guest(self.server._endpoint, "peer:1", "here:1")
        self.server._open(SocketPipe(theirs), guest)
        self._sockets.append(ours)
        return Peer(ours)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await self.hang_up()
        await self.router.stop()

    async def hang_up(self) -> None:
        """The wire ends, and the router goes on."""
        for each in self._sockets:
            each.close()
        self.server.close()


class Peer:
    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._reader = hiredis.Reader()

    async def send(self, *words: str | bytes) -> None:
        parts = [w.encode() if isinstance(w, str) else w for w in words]
        data = b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts))
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def read(self) -> bytes:
        """What came up to the end of a frame at least; nothing at the end of all."""
        data = b""
        while part := await self._receive():
            data += part
            self._reader.feed(part)
            frames = 0
            while self._reader.gets() is not False:
                frames += 1
            if frames:
                break
        return data

    async def ask(self, *words: str | bytes) -> bytes:
        await self.send(*words)
        return await self.read()

    async def read_all(self) -> bytes:
        """Everything up to the end."""
        data = b""
        with suppress(ConnectionError):
            while part := await self._receive():
                data += part
        return data

    async def _receive(self) -> bytes:
        async with asyncio.timeout(20):
            return await asyncio.get_running_loop().sock_recv(self.socket, 1 << 20)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    made: list[Scene] = []

    async def begin(limits: Limits | None = None, **settings: object) -> Scene:
        clock = cast("Callable[[], float]", settings.pop("clock", time.time))
        router = Router(store=MemoryStore(), domains={}, limits=limits or Limits(), clock=clock)
        await router.start()
        server = RespServer(router, ListenResp(port=0, **settings), tmp_path)  # type: ignore[arg-type]
        narrow_door(server)
        made.append(Scene(router, server))
        return made[-1]

    yield begin
    for scene in made:
        await scene.close()


async def stall(scene: Scene) -> tuple[Peer, Peer]:
    """A subscriber that never reads, and a publisher."""
    slow, publisher = scene.pair(), await scene.dial()
    await slow.ask("CLIENT", "SETNAME", "snail")
    await slow.ask("SUBSCRIBE", "c")
    return slow, publisher


async def publish_until_waiting(scene: Scene, publisher: Peer) -> None:
    """Publish to who does not read, until the last message waits for it."""
    for _ in range(400):
        await publisher.send("PUBLISH", "c", b"x" * 32 * KIB)
        answered = asyncio.create_task(publisher.read())
        waited = asyncio.create_task(scene.fact("PublisherWaited"))
        done, pending = await asyncio.wait((answered, waited), return_when="FIRST_COMPLETED")
        for task in pending:
            task.cancel()
        if answered not in done:
            return
    raise AssertionError("nobody waits for who does not read")


async def test_a_slow_session_is_told_by_name_and_holds_up_who_publishes_to_it(
    start: Start,
) -> None:
    """S002-58, S002-60, S002-61, S002-62; the status says who is slow and who waits for whom."""
    scene = await start(**SMALL)
    slow, publisher = await stall(scene)
    await publish_until_waiting(scene, publisher)
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
    """RESP-64: counted, told and in the list of the closed, with its reason."""
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


async def test_a_session_that_reads_nothing_for_a_minute_is_closed(start: Start) -> None:
    """Unless told otherwise, with the policy `wait`; those who wait for it go on."""
    now = 1000.0
    scene = await start(clock=lambda: now, **SMALL)
    _, publisher = await stall(scene)
    await publish_until_waiting(scene, publisher)
    now += 59.9
    scene.server._connections.look_at_slow()
    assert scene.facts_of(SessionEvicted) == []
    now += 0.2
    scene.server._connections.look_at_slow()
    [evicted] = scene.facts_of(SessionEvicted)
    assert evicted.reason == "slow for too long"
    assert await publisher.read() == b":0\r\n"
    assert scene.router.broker.budget.bytes == 0


async def test_a_session_may_read_nothing_for_ever_if_that_is_configured(start: Start) -> None:
    now = 1000.0
    scene = await start(clock=lambda: now, slow_timeout=0.0, **SMALL)
    _, publisher = await stall(scene)
    await publish_until_waiting(scene, publisher)
    now += 10**6
    scene.server._connections.look_at_slow()
    assert scene.facts_of(SessionEvicted) == []
    assert len(scene.router.broker.waiting) == 1


async def test_the_oldest_messages_are_dropped_if_that_is_the_policy(start: Start) -> None:
    """Each message is received or told to be discarded. The session is told to be slow, and to have
    caught up when it has: the two take turns, whatever was dropped between."""
    scene = await start(slow_session="drop-oldest", **SMALL)
    slow, publisher = await stall(scene)
    for number in range(1000):
        body = b"%d:" % number + b"x" * 16 * KIB
        assert await publisher.ask("PUBLISH", "c", body) == b":1\r\n"
    assert scene.router.broker.budget.bytes < 512 * KIB
    received = b""
    while b"\n999:" not in received:
        received += await slow.read()
    await scene.fact("SessionEased")
    numbers = [int(word) for word in re.findall(rb"\n(\d+):", received)]
    assert numbers == sorted(numbers)
    discarded = sum(fact.count for fact in scene.facts_of(MessagesDiscarded))
    assert discarded == 1000 - len(numbers) > 0
    told = [type(fact) for fact in scene.facts if isinstance(fact, SessionSlowed | SessionEased)]
    assert told == [SessionSlowed, SessionEased] * (len(told) // 2)
    assert scene.router.gauges()["sessions_slow"] == 0


async def test_a_monitor_that_does_not_read_is_closed_whatever_the_policy(start: Start) -> None:
    """Nobody can be made to wait for it."""
    scene = await start(**SMALL)
    monitor, other = scene.pair(), await scene.dial()
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
    with pytest.raises(HeadgateError, match="no TLS with"):
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
    """RESP-66, S002-78, S002-79, S002-80, S002-81."""
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


# Who has to say who it is.


async def test_who_does_not_authenticate_in_time_is_closed_whatever_it_sent(start: Start) -> None:
    """Nothing, half a request, or the wrong password; and who did is not."""
    scene = await start(password=Secret("sesame"), auth_timeout=0.5)
    good, silent, half, wrong = [await scene.dial() for _ in range(4)]
    assert await good.ask("AUTH", "sesame") == b"+OK\r\n"
    await asyncio.get_running_loop().sock_sendall(half.socket, b"*2\r\n$4\r\nAUTH\r\n$100\r\nse")
    assert (await wrong.ask("AUTH", "guess")).startswith(b"-WRONGPASS")
    for peer in (silent, half, wrong):
        assert await peer.read_all() == b""
    assert await good.ask("PING") == b"+PONG\r\n"
    reasons = [fact.reason for fact in scene.facts if isinstance(fact, SessionClosed)]
    assert reasons == ["not authenticated in time"] * 3


async def test_who_need_not_authenticate_has_no_deadline(start: Start) -> None:
    scene = await start(auth_timeout=0.2)
    peer = await scene.dial()
    await asyncio.sleep(0.6)
    assert await peer.ask("PING") == b"+PONG\r\n"


async def test_a_session_with_too_many_wrong_passwords_is_closed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast it sends them; others are served meanwhile. The limit auth_failures."""
    monkeypatch.setattr(failed_logins, "FIRST_SECONDS", 0.001)
    scene = await start(Limits(auth_failures=4), password=Secret("sesame"))
    peer, other = await scene.dial(), await scene.dial()
    for _ in range(100):
        await peer.send("AUTH", "guess")
    assert await other.ask("AUTH", "sesame") == b"+OK\r\n"
    assert (await peer.read_all()).count(b"-WRONGPASS") == 4
    failed = [fact for fact in scene.facts if isinstance(fact, AuthenticationFailed)]
    assert len(failed) == 4
    assert {fact.user for fact in failed} == {"default"}
    assert {fact.name.partition(":")[0] for fact in failed} == {"127.0.0.1"}


async def test_a_wrong_password_is_answered_late_and_hanging_up_early_does_not_save_time(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place of who hung up stays taken, and an address has so many places."""
    monkeypatch.setattr(failed_logins, "FREE", 0)
    monkeypatch.setattr(failed_logins, "FIRST_SECONDS", 60.0)
    monkeypatch.setattr(failed_logins, "LONGEST_SECONDS", 60.0)
    scene = await start(Limits(handshakes_per_address=3), password=Secret("sesame"))
    for count in range(1, 4):
        peer = await scene.dial()
        await peer.send("AUTH", "guess")
        await scene.so_many(AuthenticationFailed, count)
        peer.socket.close()
    refused = await scene.dial()
    assert (await refused.read_all()).startswith(b"-ERR max number of clients reached")
    other = await scene.dial("127.0.0.2")
    assert await other.ask("AUTH", "sesame") == b"+OK\r\n"


async def test_silent_clients_of_one_address_do_not_keep_others_out(start: Start) -> None:
    scene = await start(Limits(handshakes=3), password=Secret("sesame"))
    silent = [await scene.dial() for _ in range(3)]
    other = await scene.dial("127.0.0.2")
    assert await other.ask("AUTH", "sesame") == b"+OK\r\n"
    assert await silent[0].read_all() == b""
    assert await silent[1].ask("AUTH", "sesame") == b"+OK\r\n"


async def test_silent_clients_do_not_take_all_sessions(start: Start) -> None:
    """Few sessions are possible where a process may have few file descriptors."""
    scene = await start(Limits(sessions=20), password=Secret("sesame"))
    silent = [await scene.dial() for _ in range(20)]
    other = await scene.dial("127.0.0.2")
    assert await other.ask("AUTH", "sesame") == b"+OK\r\n"
    assert await silent[0].read_all() == b""
    assert (await silent[-1].read_all()).startswith(b"-ERR max number of clients reached")


async def test_silent_handshakes_of_one_address_do_not_keep_others_out(
    start: Start, tmp_path: Path
) -> None:
    certificate, _ = make_certificate(tmp_path)
    scene = await start(Limits(handshakes=3), tls=Tls())
    silent = [await scene.dial() for _ in range(3)]
    context = ssl.create_default_context(cafile=certificate)
    reader, writer = await asyncio.open_connection(
        *scene.server.address, ssl=context, local_addr=("127.0.0.2", 0), server_hostname="localhost"
    )
    writer.write(b"PING\r\n")
    async with asyncio.timeout(20):
        assert await reader.readline() == b"+PONG\r\n"
    writer.close()
    assert await silent[0].read_all() == b""


async def test_the_clients_of_one_wire_leave_room_for_those_of_the_others(
    start: Start, tmp_path: Path
) -> None:
    """A tenth of all sessions is kept for each wire that listens."""
    scene = await start(Limits(sessions=20))
    bmq = BmqServer(scene.router, ListenBmq(port=0), tmp_path)
    peers = [await scene.dial() for _ in range(20)]
    answers = [await peer.ask("PING") for peer in peers]
    assert answers[:18] == [b"+PONG\r\n"] * 18
    assert all(answer.startswith(b"-ERR max number of clients") for answer in answers[18:])
    for _ in range(2):
        client = await RawClient.connect(bmq.address)
        assert client.welcome is not None
    bmq.close()


async def test_a_client_needs_a_certificate_where_those_who_sign_them_are_known(
    start: Start, tmp_path: Path
) -> None:
    trusted, _ = make_certificate(tmp_path)
    own = make_client_certificate(tmp_path, "shop")
    scene = await start(tls=Tls(client_ca="clients.crt"))
    context = ssl.create_default_context(cafile=trusted)
    stranger = asyncio.open_connection(*scene.server.address, ssl=context)
    with suppress(OSError):  # with TLS 1.3 the client learns it a moment later
        reader, _ = await stranger
        async with asyncio.timeout(20):
            assert await reader.read() == b""
    await scene.fact("HandshakeFailed")
    context.load_cert_chain(*own)
    reader, writer = await asyncio.open_connection(*scene.server.address, ssl=context)
    writer.write(b"PING\r\n")
    async with asyncio.timeout(20):
        assert await reader.readline() == b"+PONG\r\n"
    writer.close()


async def test_limits_that_a_client_sets_are_those_of_redis_clients_alone(start: Start) -> None:
    """A session of another wire gets its messages as before, whatever CONFIG SET says."""
    scene = await start(limits=Limits(mailbox_bytes_soft=1000, mailbox_bytes_hard=2000))
    client = await scene.dial()
    broker = scene.router.broker
    other = broker.open_session("bmq", "another", 0.0)[0].mailbox
    other.offer(b"", 500, 0.0)
    for setting in ("mailbox-soft", "mailbox-hard", "publish-buffer-limit"):
        assert await client.ask("CONFIG", "SET", setting, "1") == b"+OK\r\n"
    limit = "pubsub 2 1 60"
    assert await client.ask("CONFIG", "SET", "client-output-buffer-limit", limit) == b"+OK\r\n"
    own = broker.open_session("resp", "own", 0.0)[0].mailbox
    assert not own.has_room(10)
    assert other.has_room(100)
    assert not other.has_room(600)
    assert (broker.budget.limit, broker.budget.mailbox_soft) == (Limits().budget_bytes, 1000)
    assert broker.budget.bytes == scene.server.hub.budget.bytes == 500

"""Clients that are hostile, broken or unlucky: each is told what is wrong or is closed with a
reason, costs a bounded amount of memory, and holds up nobody else."""

from __future__ import annotations

import asyncio
import secrets
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.facts import QueueCreated, Refused, SessionClosed
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.core.shared import subscriptions
from headgate.expr.parser import ExpressionLimits
from headgate.expr.predicate import Predicate, compile_expression
from headgate.server.net import endpoint, listener
from headgate.wire.bmq.codec.control import (
    AdminCommand,
    BrokerResponse,
    Category,
    CloseQueue,
    CloseQueueResponse,
    ConfigureStreamResponse,
    Content,
    DisconnectResponse,
    OpenQueue,
    OpenQueueResponse,
    Status,
    SubIdInfo,
)
from headgate.wire.bmq.codec.control_encoding import encode_negotiation
from headgate.wire.bmq.codec.frames import HEARTBEAT_REQUEST, Encoding, EventType, event, pad
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    HAS_PROPERTIES,
    AckStatus,
    Confirmation,
    Put,
    encode_confirms,
    encode_puts,
)
from headgate.wire.bmq.codec.payload import checksum
from headgate.wire.bmq.incoming import UNANSWERED_BYTES, UNANSWERED_MAX
from headgate.wire.bmq.requests import READ, WRITE
from headgate.wire.bmq.session import HELLO_BYTES
from tests.support.bmq_raw import RawClient, Wants, bodies, numbers, open_queue
from tests.support.bmq_raw_router import DOMAINS, Rig, StartRig
from tests.support.bmq_raw_router import rig as rig
from tests.support.bmq_raw_router import start_rig as start_rig

QUEUE = "bmq://work/q"
OTHER = "bmq://work/other"
SMALL = 4096


class Bystander:
    """Another client, which posts, receives and confirms all the time."""

    def __init__(self, rig: Rig, client: RawClient) -> None:
        self._rig = rig
        self._client = client
        self._task = asyncio.create_task(self._run())
        self.rounds = 0

    @classmethod
    async def begin(cls, rig: Rig) -> Bystander:
        client = await rig.connect()
        await opened(client, OTHER, 5)
        await configured(client, Wants(), queue=5)
        return cls(rig, client)

    async def _run(self) -> None:
        while True:
            await self._client.post_all(b"round", queue=5)
            [message] = await self._client.take(1)
            self._client.confirm(message)
            self.rounds += 1
            await asyncio.sleep(0.001)

    async def more(self, rounds: int = 3) -> None:
        """Wait for some rounds more."""
        wanted = self.rounds + rounds
        await self._rig.until("another round", lambda: self._has(wanted))

    def _has(self, wanted: int) -> bool | None:
        if self._task.done():
            self._task.result()
        return True if self.rounds >= wanted else None

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def check(self) -> None:
        """It has had no trouble at all."""
        assert set(self._client.acks.values()) == {AckStatus.SUCCESS}
        await self._client.fence()
        assert not self._client.is_closed


@asynccontextmanager
async def bystander(rig: Rig) -> AsyncIterator[Bystander]:
    """Whatever happens meanwhile, somebody else's traffic goes on, and after it too."""
    other = await Bystander.begin(rig)
    try:
        await other.more()
        yield other
        await other.more()
    finally:
        await other.end()
    await other.check()


async def opened(client: RawClient, uri: str, queue: int = 0, flags: int = READ | WRITE) -> None:
    response = await client.open(uri, queue, flags)
    assert isinstance(response, OpenQueueResponse), response


async def configured(client: RawClient, *wanted: Wants, queue: int = 0) -> None:
    response = await client.configure(*wanted, queue=queue)
    assert isinstance(response, ConfigureStreamResponse), response


async def writer(rig: Rig, **options: object) -> RawClient:
    client = await rig.connect(**options)
    await opened(client, QUEUE, flags=WRITE)
    return client


async def reader(rig: Rig, *wanted: Wants, **options: object) -> RawClient:
    client = await rig.connect(**options)
    await opened(client, QUEUE, flags=READ)
    await configured(client, *(wanted or (Wants(),)))
    return client


def refusal(content: Content) -> Category:
    assert isinstance(content, Status), content
    return content.category


@pytest.fixture
def small_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets of the router that take little, so that mailboxes have to."""

    def bind(section: str, host: str, port: int) -> socket.socket:
        listening = listener.bind(section, host, port)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        return listening

    monkeypatch.setattr(endpoint, "bind", bind)


@pytest.fixture
def memory() -> Iterator[Callable[[], int]]:
    """The most bytes that were in use at once since the test began, above those of then."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    yield lambda: tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()


# Before the hello.


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
        bytes(8),
        b"\xff" * 64,
        b"\x00\x00\x00\x07\x41\x02\x00\x00",
        b"\x00\x00\x00\x08\x41\x03\x00\x00",
        b"\x00\x00\x00\x0c\x41\x00\x00\x00" + bytes(4),
        b"\x00\x00\x00\x0c\x81\x02\x00\x00" + bytes(4),
        b"\x00\x00\x00\x0c\x41\x02\xff\x00" + bytes(4),
        event(EventType.CONTROL, b""),
        event(EventType.CONTROL, b"\x30\x80\x00\x00\x04\x04\x04\x04"),
        event(EventType.CONTROL, b"\x30\x80" * 100 + pad(b"")),
        event(EventType.CONTROL, pad(b"[" * 60_000), Encoding.JSON),
        event(EventType.CONTROL, pad(b'{"rId":' + b"9" * 5000 + b"}"), Encoding.JSON),
        event(EventType.CONTROL, pad(b'{"clientIdentity":{},"brokerResponse":{}}'), Encoding.JSON),
        event(EventType.CONTROL, bytes(HELLO_BYTES)),
        event(EventType.PUT, encode_puts([Put(0, bytes(16), 1, b"", 0)])),
        HEARTBEAT_REQUEST,
        event(
            EventType.CONTROL,
            encode_negotiation(BrokerResponse(Status(Category.SUCCESS)), Encoding.BER),
        ),
    ],
    ids=[
        "http", "tls", "zeros", "ones", "too short", "header too long", "no header",
        "another version", "another encoding", "empty", "no identity", "deep ber", "deep json",
        "huge number", "two choices", "too long", "put", "heartbeat", "a broker's answer",
    ],
)  # fmt: skip
async def test_what_is_no_hello_is_closed_at_once(rig: Rig, garbage: bytes) -> None:
    """With a reason, without an answer."""
    async with bystander(rig):
        client = await rig.connect(greets=False)
        client.send(garbage)
        await client.closed()
        assert client.events == []
        await rig.until("the closing", lambda: rig.closed() or None)
        [reason] = rig.closed()
        assert reason.startswith("malformed: ")
        assert [fact.reason for fact in rig.facts_of(SessionClosed)] == [reason]


async def test_a_hundred_who_say_nonsense_leave_nothing_behind(rig: Rig) -> None:
    async with bystander(rig):
        for _ in range(100):
            client = await rig.connect(greets=False)
            client.send(secrets.token_bytes(300))
            client.vanish()
        await rig.until("the ends", lambda: True if len(rig.sessions()) == 1 else None)
        assert rig.mailbox_bytes == 0


async def test_those_who_connect_and_say_nothing_cost_nobody_a_thing(rig: Rig) -> None:
    async with bystander(rig) as other:
        silent = [await rig.connect(greets=False) for _ in range(100)]
        await other.more()
        assert len(rig.sessions()) == 101
        for client in silent:
            client.vanish()
        await rig.until("the ends", lambda: True if len(rig.sessions()) == 1 else None)


# Events.


@pytest.mark.parametrize(
    "wrong",
    [
        event(EventType.PUSH, bytes(40)),
        event(EventType.ACK, b"\x16\x00\x00\x00" + bytes(24)),
        *(event(kind, bytes(8)) for kind in (0, 6, 13, 14, 15, 63)),
        event(EventType.PUT, b""),
        event(EventType.PUT, bytes(35)),
        event(EventType.PUT, bytes(36)),
        event(EventType.PUT, b"\x00\x00\x00\x09\x00\x00\x00\x09" + bytes(28)),
        event(EventType.PUT, b"\x00\x00\x00\x0b\x00\x00\x00\x09" + bytes(32)),
        event(EventType.PUT, b"\x00\x00\x00\x0a\x00\x00\x00\x08" + bytes(28) + b"\4\4\4\4"),
        event(EventType.PUT, b"\x00\x00\x00\x0a\x00\xff\x00\x09" + bytes(28) + b"\4\4\4\4"),
        event(EventType.PUT, b"\x00\x00\x00\x0a\x00\x00\x00\x09" + bytes(28) + b"\4\4\4\5"),
        event(EventType.CONFIRM, b""),
        event(EventType.CONFIRM, b"\x16\x00\x00\x00"),
        event(EventType.CONFIRM, b"\x16\x00\x00\x00" + bytes(23)),
        event(EventType.CONFIRM, b"\x15\x00\x00\x00" + bytes(20)),
        event(EventType.CONFIRM, b"\x06\x00\x00\x00" + bytes(24)),
        event(EventType.CONTROL, b""),
        event(EventType.CONTROL, b"\x30\x80\x80\x01\x01"),
        event(EventType.CONTROL, b"\x30\x84\xff\xff\xff\xff" + pad(b"")),
        event(EventType.CONTROL, pad(b"\x30\x80\x80\x09" + bytes(9) + bytes(4))),
        event(EventType.CONTROL, pad(b'{"rId":1,"disconnect":{},"openQueue":{}}'), Encoding.JSON),
        event(EventType.CONTROL, pad(b'{"rId":1e400,"disconnect":{}}'), Encoding.JSON),
        event(EventType.CONTROL, pad(b'{"rId":1,"openQueue":[]}'), Encoding.JSON),
        event(EventType.CONTROL, pad(b"\xff\xfe"), Encoding.JSON),
        b"\x80\x00\x00\x10\x42\x02\x00\x00" + bytes(8),
    ],
    ids=lambda data: data[:20].hex(),
)  # fmt: skip
async def test_what_a_client_never_says_closes_it_and_nobody_else(rig: Rig, wrong: bytes) -> None:
    """What comes after it is not done."""
    async with bystander(rig):
        client = await writer(rig)
        client.send(wrong + event(EventType.PUT, encode_puts([client.put(b"late")])))
        await client.closed()
        assert (await rig.reason(client)).startswith("malformed: ")
        assert await (await reader(rig)).given() == []


@pytest.mark.parametrize(
    "wrong", [event(9, bytes(8)), b"\xff" * 8], ids=["no such event", "no event at all"]
)
async def test_what_came_before_a_mistake_is_done(rig: Rig, wrong: bytes) -> None:
    """In whatever pieces it came."""
    client, sender = await rig.connect(), await writer(rig)
    await opened(client, QUEUE)
    await configured(client, Wants(messages=1))
    await sender.post_all(b"first")
    [first] = await client.take(1)
    confirm = event(EventType.CONFIRM, encode_confirms([Confirmation(0, first.guid, 0)]))
    client.send(confirm + event(EventType.PUT, encode_puts([client.put(b"second")])) + wrong)
    await client.closed()
    await rig.reason(client)
    assert bodies(await (await reader(rig)).given()) == [b"second"]


async def test_an_event_over_the_limit_is_refused_by_its_first_bytes(start_rig: StartRig) -> None:
    """The limit event_bytes, at and one above."""
    rig = await start_rig(limits=Limits(event_bytes=64 * KiB))
    async with bystander(rig):
        client = await writer(rig)
        put = client.put(bytes(64 * KiB - 8 - 36 - 4))
        whole = event(EventType.PUT, encode_puts([put]))
        assert len(whole) == 64 * KiB
        client.send(whole)
        assert await client.acked([put]) == [AckStatus.SUCCESS]
        client.send((64 * KiB + 1).to_bytes(4, "big") + b"\x42\x02\x00\x00")
        await client.closed()
        assert "over the limit of 65536" in await rig.reason(client)


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 43, 100, -1])
async def test_who_leaves_in_the_middle_of_an_event_has_not_said_it(rig: Rig, cut: int) -> None:
    async with bystander(rig):
        client = await writer(rig)
        whole = event(EventType.PUT, encode_puts([client.put(b"x" * 200)]))
        client.send(whole[:cut])
        client.leave()
        assert await rig.reason(client) == "closed by the client"
        assert rig.queue(QUEUE)["messages"] == 0


async def test_an_event_may_come_byte_by_byte(rig: Rig) -> None:
    client = await writer(rig)
    puts = [client.put(b"slow"), client.put(b"slower")]
    for byte in event(EventType.PUT, encode_puts(puts)):
        client.send(bytes((byte,)))
        await asyncio.sleep(0)
    assert await client.acked(puts) == [AckStatus.SUCCESS] * 2


async def test_who_only_hangs_up_its_side_is_answered_first(rig: Rig) -> None:
    """What was sent before it is done and acknowledged, however much it is."""
    client = await writer(rig)
    puts = [client.put() for _ in range(2 * UNANSWERED_MAX + 10)]
    client.send_puts(puts)
    client.hang_up()
    await client.closed()
    assert client.ack_count == len(puts)
    assert rig.queue(QUEUE)["messages"] == len(puts)


# Requests.


async def test_what_the_router_cannot_do_is_said(rig: Rig) -> None:
    client = await rig.connect()
    assert refusal(await client.ask(AdminCommand("DANGER SHUTDOWN"))) is Category.NOT_SUPPORTED
    unknown = b'{"rId":77,"clusterMessage":{"choice":{"what":[1,2,{"ever":null}]}}}'
    client.send(event(EventType.CONTROL, pad(unknown), Encoding.JSON))
    assert refusal(await client.reply(77)) is Category.NOT_SUPPORTED
    await opened(client, QUEUE)


async def test_an_answer_is_no_request(rig: Rig) -> None:
    async with bystander(rig):
        client = await rig.connect()
        client.start(DisconnectResponse())
        await client.closed()
        assert "DisconnectResponse" in await rig.reason(client)


async def test_a_request_without_a_number_is_answered_without_one(rig: Rig) -> None:
    client = await rig.connect()
    client.send(event(EventType.CONTROL, pad(b'{"adminCommand":{"command":""}}'), Encoding.JSON))
    found = await client.until("the answer", lambda: client.unasked or None)
    assert refusal(found[0].content) is Category.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("uri", "category"),
    [
        ("", Category.REFUSED),
        ("bmq://", Category.REFUSED),
        ("bmq://work/", Category.REFUSED),
        ("bmq://work/q\n", Category.REFUSED),
        ("bmq://work/q/../p", Category.REFUSED),
        ("bmq://work/" + "q" * 65, Category.REFUSED),
        ("bmq://" + "w" * 1_000_000 + "/q", Category.REFUSED),
        ("bmq://smp/q", Category.REFUSED),
        ("bmq://work/q?id=foo", Category.REFUSED),
        ("bmq://fan/q", Category.REFUSED),
        ("bmq://work/q?x=1", Category.REFUSED),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_what_names_no_queue_is_refused_and_leaves_the_number_free(
    rig: Rig, uri: str, category: Category
) -> None:
    """BMQ-75."""
    client = await rig.connect()
    assert refusal(await client.open(uri)) is category
    assert rig.facts_of(QueueCreated) == []
    await opened(client, QUEUE)


@pytest.mark.parametrize(
    "app", ["", "a b", "foo\n", "é", "x" * 100_000], ids=["empty", "space", "line", "é", "long"]
)
async def test_the_name_of_an_app_is_looked_at_wherever_it_stands(rig: Rig, app: str) -> None:
    """It becomes a name in facts, in the log and in the status."""
    client = await rig.connect()
    request = open_queue("bmq://fan/q?id=foo", 0, READ, 1)
    renamed = replace(request.handle, sub_id_info=SubIdInfo(1, app))
    assert refusal(await client.ask(OpenQueue(renamed))) in (
        Category.REFUSED,
        Category.INVALID_ARGUMENT,
    )


async def test_requests_in_one_piece_are_as_if_they_came_one_by_one(rig: Rig) -> None:
    """Open, close, open, close twice, and what makes no sense in between."""
    client = await rig.connect()
    queue = open_queue(QUEUE)
    close = CloseQueue(queue.handle, True)
    answers = await client.ask_all(
        queue, close, queue, queue, close, close, queue, client.configuring(Wants("x > 0"))
    )
    assert [type(answer) for answer in answers] == [
        OpenQueueResponse, CloseQueueResponse, OpenQueueResponse, Status, CloseQueueResponse,
        Status, OpenQueueResponse, ConfigureStreamResponse,
    ]  # fmt: skip
    assert not client.is_closed


async def test_a_refused_open_takes_what_was_sent_for_it_along(rig: Rig) -> None:
    """In one piece with it: the configure and the messages are refused, too."""
    client = await rig.connect()
    queue = open_queue("bmq://nowhere/q")
    put = client.put(b"lost")
    numbers_ = client.start(queue, client.configuring(Wants()), CloseQueue(queue.handle, True))
    client.send_puts([put])
    client.send_confirms([Confirmation(0, bytes(16), 0)])
    assert [refusal(await client.reply(number)) for number in numbers_] == [
        Category.REFUSED,
        Category.INVALID_ARGUMENT,
        Category.INVALID_ARGUMENT,
    ]
    assert await client.acked([put]) == [AckStatus.UNKNOWN]
    await opened(client, QUEUE)
    await client.post_all(b"found")


# Messages.


async def test_a_wrong_checksum_is_a_negative_acknowledgement(rig: Rig) -> None:
    """Told to whoever asked for none, too; its neighbours in the event are taken."""
    async with bystander(rig):
        client = await writer(rig)
        puts = [client.put(b"%d" % number) for number in range(4)]
        puts[1] = replace(puts[1], crc=puts[1].crc ^ 1)
        puts[2] = replace(puts[2], crc=0, flags=0)
        client.send_puts(puts)
        assert await client.acked(puts) == [
            AckStatus.SUCCESS,
            AckStatus.UNKNOWN,
            AckStatus.UNKNOWN,
            AckStatus.SUCCESS,
        ]
        assert len(rig.facts_of(Refused)) == 2
        assert bodies(await (await reader(rig)).given()) == [b"0", b"3"]


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (b"", 0),
        (b"\x1b\x00\x00", 0),
        (b"\x1b\x00\x00\x08\x00\x02", 0),
        (b"\x1b\x00\x00\x00\x00\x00", 0),
        (b"\x1b\x00\x00\x02\x00\x00\x02\x02", 0),
        (b"\x00\x00\x00\x04\x00\x01" + bytes(8) + b"\2\2", 0),
        (b"\x1b\xff\xff\xff\x00\x01\x18\x00\x00\x02\x00\x01sab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x18\x00\x00\x03\x00\x01sab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x1b\xff\xff\xff\x00\x01sab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x18\x00\x00\x02\x0f\xffsab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x18\x00\x00\x03\x00\x00sab\1", 0),
        (b"\x1b\x00\x00\x04\x00\xff\x18\x00\x00\x02\x00\x01sab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x10\x00\x00\x02\x00\x01sab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x7c\x00\x00\x02\x00\x01sab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x18\x00\x00\x02\x00\x01s\xff\xfe\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x18\x00\x00\x02\x00\x01\xffab\1", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x18\x00\x00\x02\x00\x01sab\5", 0),
        (b"\x1b\x00\x00\x06\x00\x02\x18\x00\x00\x00\x00\x01\x18\x00\x00\x00\x00\x01ss\4\4\4\4", 0),
        (b"\x1b\x00\x00\x04\x00\x01\x18\x00\x00\x01\x00\x01sab\1", 1),
        (b"\x1b\x00\x00\x06\x00\x02\x18\x00\x00\x00\x00\x01\x18\x00\x00\xff\x00\x01st\4\4\4\4", 3),
    ],
    ids=lambda value: value.hex()[:44] if isinstance(value, bytes) else str(value),
)
async def test_properties_that_lie_are_a_negative_acknowledgement(
    rig: Rig, data: bytes, schema: int
) -> None:
    async with bystander(rig):
        client = await writer(rig)
        flags = ACK_REQUESTED | HAS_PROPERTIES
        liar = Put(0, client.guid(), flags, data, checksum(data), 0, schema)
        honest = client.put(b"honest", {"s": "ab"})
        client.send_puts([liar, honest])
        assert await client.acked([liar, honest]) == [AckStatus.UNKNOWN, AckStatus.SUCCESS]
        [message] = await (await reader(rig)).given()
        assert (message.body, dict(message.properties)) == (b"honest", {"s": "ab"})


async def test_a_message_is_within_its_limits_or_refused(start_rig: StartRig) -> None:
    """The limits body_bytes, properties_bytes and message_properties, at and one above."""
    limits = Limits(body_bytes=1000, properties_bytes=100, message_properties=3)
    rig = await start_rig(limits=limits)
    client = await writer(rig)
    good = [
        client.put(bytes(1000)),
        client.put(b"", {"s": "x" * 99}),
        client.put(b"", {"a": 1, "b": 2, "c": 3}),
        client.put(bytes(1000), compression=1),
    ]
    bad = [
        client.put(bytes(1001)),
        client.put(b"", {"s": "x" * 100}),
        client.put(b"", {"a": 1, "b": 2, "c": 3, "d": 4}),
        client.put(bytes(1001), compression=1),
    ]
    client.send_puts([*good, *bad])
    assert await client.acked(good) == [AckStatus.SUCCESS] * 4
    assert AckStatus.SUCCESS not in await client.acked(bad)
    assert sorted(rig.limits_reached()) == [
        "body_bytes", "body_bytes", "message_properties", "properties_bytes",
    ]  # fmt: skip


async def test_a_compressed_message_that_is_none_is_a_negative_acknowledgement(rig: Rig) -> None:
    client = await writer(rig)
    good = zlib.compress(b"x" * 2000)
    wrong = [b"", b"no zlib", good[:-1], good + b"x", good[:20] + b"\xff" + good[21:]]
    puts = [Put(0, client.guid(), 1, data, checksum(data), 1) for data in wrong]
    puts += [Put(0, client.guid(), 1, good, checksum(good), kind) for kind in (2, 7)]
    client.send_puts(puts)
    assert await client.acked(puts) == [AckStatus.UNKNOWN] * len(puts)
    await client.post_all(b"still here")


def bomb(client: RawClient, mebibytes: int) -> Put:
    """A message that is small on the wire, and here as well."""
    deflater, mebibyte = zlib.compressobj(9), bytes(MiB)
    data = b"".join(deflater.compress(mebibyte) for _ in range(mebibytes)) + deflater.flush()
    return Put(0, client.guid(), ACK_REQUESTED, data, checksum(data), 1)


async def test_what_inflates_beyond_the_limit_is_not_inflated(
    start_rig: StartRig, memory: Callable[[], int]
) -> None:
    rig = await start_rig(limits=Limits(body_bytes=1 * MiB))
    async with bystander(rig):
        client = await writer(rig)
        data = bomb(client, 512)
        puts = [replace(data, guid=client.guid()) for _ in range(20)]
        client.send_puts(puts)
        assert AckStatus.SUCCESS not in await client.acked(puts)
        assert memory() < 64 * MiB
        assert rig.limits_reached() == ["body_bytes"] * 20


async def test_what_inflates_up_to_the_limit_is_taken_up_as_far_as_there_is_room(
    start_rig: StartRig, memory: Callable[[], int]
) -> None:
    """Half a megabyte on the wire, and half a gigabyte if it were inflated at once."""
    domain = Domain("work", Mode.PRIORITY, max_bytes=4 * MiB)
    rig = await start_rig(domains=[domain], limits=Limits(body_bytes=1 * MiB))
    async with bystander(rig):
        client = await writer(rig)
        one = bomb(client, 1)
        puts = [replace(one, guid=client.guid()) for _ in range(512)]
        client.send_puts(puts)
        statuses = await client.acked(puts)
        assert statuses.count(AckStatus.SUCCESS) == 4
        assert statuses.count(AckStatus.LIMIT_BYTES) == 508
        assert memory() < 3 * UNANSWERED_BYTES


async def test_a_queue_that_is_not_open_for_writing_takes_nothing(rig: Rig) -> None:
    client = await reader(rig)
    assert await client.post(b"no") is AckStatus.UNKNOWN
    assert await client.post(b"no", queue=3) is AckStatus.UNKNOWN
    assert [fact.reason for fact in rig.facts_of(Refused)] == ["Prohibited", "BadRequest"]
    assert await client.given() == []


async def test_an_id_twice_in_one_event_is_one_message_and_two_acknowledgements(rig: Rig) -> None:
    """BMQ-59."""
    client = await writer(rig)
    put = client.put(b"once")
    client.send_puts([put, put])
    await client.until("two acks", lambda: True if client.ack_count == 2 else None)
    assert client.acks == {put.guid: AckStatus.SUCCESS}
    assert rig.queue(QUEUE)["messages"] == 1


# Confirms.


async def test_nobody_confirms_what_another_holds(rig: Rig) -> None:
    """Nor what it was never given, nor through a queue or an app that it has not open."""
    async with bystander(rig):
        owner, other = await reader(rig, Wants("x == 1")), await reader(rig, Wants("x == 2"))
        sender = await writer(rig)
        await sender.post_numbers([1, 2, 3])
        [one], [two] = await owner.given(), await other.given()
        guids = [one.guid, two.guid, secrets.token_bytes(16)]
        wrong = [Confirmation(0, one.guid, 0)]
        wrong += [
            Confirmation(queue, guid, sub) for guid in guids for queue, sub in ((9, 0), (0, 9))
        ]
        other.send_confirms(wrong)
        await other.fence()
        assert rig.queue(QUEUE)["apps"][""]["unconfirmed"] == 2
        assert rig.queue(QUEUE)["messages"] == 3
        other.send_confirms([Confirmation(0, two.guid, 0)] * 3)
        await other.fence()
        assert rig.queue(QUEUE)["messages"] == 2


async def test_a_flood_of_confirms_holds_up_nobody(rig: Rig, memory: Callable[[], int]) -> None:
    async with bystander(rig) as other:
        client = await reader(rig)
        size = 200_000
        flood = event(
            EventType.CONFIRM, encode_confirms([Confirmation(0, bytes(16), 0)]) + bytes(24) * size
        )
        client.send(flood)
        done = asyncio.create_task(client.fence())
        before = other.rounds
        await done
        assert other.rounds > before + 3
        assert memory() < 16 * len(flood)


# Those who do not read.


async def test_who_never_confirms_has_its_window_and_no_more(rig: Rig) -> None:
    """What it holds up is the rest of its own queue, until it goes."""
    async with bystander(rig):
        greedy, sender = await reader(rig, Wants(messages=3)), await writer(rig)
        await sender.post_all(*(b"%d" % number for number in range(100)))
        assert bodies(await greedy.given()) == [b"0", b"1", b"2"]
        assert rig.queue(QUEUE)["apps"][""]["undelivered"] == 97
        greedy.leave()
        other = await reader(rig)
        assert numbers(await other.take(100)) == list(range(100))


async def test_a_window_beyond_all_measure_is_no_more_than_the_mailbox(
    start_rig: StartRig, small_sockets: None
) -> None:
    """Who asks for everything and reads nothing costs a mailbox, and gets it all when it reads."""
    limits = Limits(mailbox_bytes_soft=256 * KiB, mailbox_bytes_hard=1 * MiB)
    rig = await start_rig(limits=limits)
    async with bystander(rig) as other:
        everything = Wants(messages=2**63 - 1, bytes=2**63 - 1)
        slow = await reader(rig, everything, receive_bytes=SMALL)
        sender = await writer(rig)
        slow.hold()
        for start in range(0, 600, 50):
            await sender.post_all(*(b"%d" % n + bytes(8 * KiB) for n in range(start, start + 50)))
        await other.more()
        assert rig.mailbox_bytes <= 256 * KiB + 2 * 8 * KiB
        assert rig.queue(QUEUE)["apps"][""]["undelivered"] > 400
        slow.go_on()
        given = await slow.take(600)
        assert [int(body.rstrip(b"\0")) for body in bodies(given)] == list(range(600))


async def test_messages_without_a_body_fill_a_mailbox_too(
    start_rig: StartRig, small_sockets: None
) -> None:
    """What counts is what waits for the socket, and each message has a header."""
    limits = Limits(mailbox_bytes_soft=64 * KiB, mailbox_bytes_hard=256 * KiB)
    rig = await start_rig(limits=limits)
    async with bystander(rig) as other:
        sender = await writer(rig)
        for _ in range(4):
            await sender.post_all(*(b"x" for _ in range(4000)))
        slow = await rig.connect(receive_bytes=SMALL)
        await opened(slow, QUEUE, flags=READ)
        slow.hold()
        slow.start(slow.configuring(Wants(messages=2**31)))
        await rig.until("the deliveries", lambda: rig.mailbox_bytes or None)
        await other.more()
        assert rig.mailbox_bytes <= 2 * 64 * KiB
        slow.go_on()
        assert len(await slow.take(16_000)) == 16_000


async def test_many_who_do_not_read_share_one_budget(
    start_rig: StartRig, small_sockets: None
) -> None:
    limits = Limits(
        mailbox_bytes_soft=256 * KiB, mailbox_bytes_hard=1 * MiB, budget_bytes=512 * KiB
    )
    rig = await start_rig(limits=limits)
    async with bystander(rig) as other:
        slow = []
        for _ in range(20):
            client = await rig.connect(receive_bytes=SMALL)
            await opened(client, "bmq://news/q", flags=READ)
            await configured(client, Wants())
            client.hold()
            slow.append(client)
        sender = await rig.connect()
        await opened(sender, "bmq://news/q", flags=WRITE)
        for _ in range(60):
            await sender.post_all(bytes(16 * KiB))
        await other.more()
        assert rig.mailbox_bytes <= 512 * KiB + 20 * 2 * 16 * KiB
        for client in slow:
            client.vanish()
        await rig.until("the end", lambda: True if rig.mailbox_bytes == 0 else None)


@pytest.mark.parametrize("kind", ["events", "one event"])
async def test_who_posts_and_does_not_read_its_acks_is_not_listened_to(
    start_rig: StartRig, small_sockets: None, kind: str
) -> None:
    """The limit answer_bytes: above it nothing more is taken up, of an event that has come
    already neither. Everything is acknowledged when it reads."""
    rig = await start_rig(limits=Limits(answer_bytes=64 * KiB))
    async with bystander(rig) as other:
        client = await writer(rig, receive_bytes=SMALL)
        puts = [client.put() for _ in range(40_000)]
        client.hold()
        if kind == "one event":
            client.send_puts(puts)
        else:
            for start in range(0, len(puts), 100):
                client.send_puts(puts[start : start + 100])
        peak = 0
        for _ in range(40):
            await other.more(2)
            peak = max(peak, rig.mailbox_bytes)
        # What was under way when the limit was reached is acknowledged as well.
        assert peak <= 64 * KiB + 2 * UNANSWERED_MAX * 24
        client.go_on()
        assert await client.acked(puts) == [AckStatus.SUCCESS] * len(puts)


async def test_who_asks_and_does_not_read_is_not_listened_to(
    start_rig: StartRig, small_sockets: None
) -> None:
    """Heartbeats, refusals and negative acknowledgements are answers as well."""
    rig = await start_rig(limits=Limits(answer_bytes=64 * KiB))
    async with bystander(rig) as other:
        client = await rig.connect(receive_bytes=SMALL)
        client.hold()
        wrong = encode_puts([Put(9, bytes(16), 1, b"", 0)])
        client.send(HEARTBEAT_REQUEST * 50_000)
        client.send(event(EventType.PUT, wrong) * 50_000)
        client.send(event(EventType.PUT, wrong * 50_000))
        peak = 0
        for _ in range(30):
            await other.more(2)
            peak = max(peak, rig.mailbox_bytes)
        assert peak <= 256 * KiB
        client.go_on()
        await client.until("all", lambda: True if client.ack_count == 100_000 else None)
        assert client.events.count(EventType.HEARTBEAT_RSP) == 50_000


# Much of everything.


async def test_a_hundred_thousand_messages_in_one_event_leave_others_their_turn(
    start_rig: StartRig,
) -> None:
    """Each is acknowledged."""
    domain = Domain("work", Mode.PRIORITY, max_messages=5000)
    rig = await start_rig(domains=[domain])
    async with bystander(rig) as other:
        client = await writer(rig)
        for count in range(25_000, 100_001, 25_000):
            rounds = other.rounds
            client.send_puts([client.put() for _ in range(25_000)])
            await client.until("all", lambda: True if client.ack_count >= count else None)  # noqa: B023
            assert other.rounds >= rounds + 2
        found = list(client.acks.values())
        assert found.count(AckStatus.SUCCESS) == 5000
        assert found.count(AckStatus.LIMIT_MESSAGES) == 95_000


@pytest.mark.parametrize("limit", [{"inbox_commands": 100}, {"inbox_bytes": 100 * KiB}], ids=str)
async def test_a_small_inbox_slows_a_client_and_does_not_stop_it(
    start_rig: StartRig, limit: dict[str, int]
) -> None:
    """The limits inbox_commands and inbox_bytes: what is more waits for its turn."""
    rig = await start_rig(limits=Limits(**limit))
    async with bystander(rig):
        client = await writer(rig)
        puts = [client.put(bytes(KiB)) for _ in range(1000)]
        client.send_puts(puts)
        assert await client.acked(puts) == [AckStatus.SUCCESS] * 1000


async def test_an_event_that_waits_takes_a_small_multiple_of_its_size(
    rig: Rig, memory: Callable[[], int]
) -> None:
    """Of the messages in it, those are made that are taken up."""
    client = await writer(rig)
    sent = event(EventType.PUT, encode_puts([client.put() for _ in range(30_000)]))
    gate = rig.stall()
    before = memory()
    client.send(sent)
    shells = rig.server._clients.values()
    await rig.until("the pause", lambda: True if any(s.is_paused for s in shells) else None)
    await asyncio.sleep(0.3)
    used = memory() - before
    gate.set()
    client.vanish()
    assert used < 4 * len(sent)


async def test_what_waits_to_be_taken_up_is_counted_as_input(start_rig: StartRig) -> None:
    """The limit input_bytes: an event that is whole and waits for room takes memory like one that
    is not whole."""
    rig = await start_rig(limits=Limits(input_bytes=1 * MiB))
    clients = [await writer(rig) for _ in range(6)]
    gate = rig.stall()
    for client in clients:
        puts = [client.put(bytes(40)) for _ in range(UNANSWERED_MAX + 4000)]
        client.send_puts(puts)
        await rig.until("it", lambda: True if not client.unsent else None)  # noqa: B023
        await asyncio.sleep(0.1)
    gate.set()
    assert "input_bytes" in rig.limits_reached()


async def test_closing_a_queue_does_not_cost_more_with_others_open(rig: Rig) -> None:
    """A client that closes a thousand looks at each a few times, not at all of them for each."""
    client = await rig.connect()
    queues = [open_queue(f"bmq://work/q{number}", number) for number in range(1000)]
    assert {type(answer) for answer in await client.ask_all(*queues)} == {OpenQueueResponse}
    [(_, session_state)] = rig.router.broker.shard.session_states.items()
    session_state.opened = seen = Counting(session_state.opened)
    closes = [CloseQueue(queue.handle, True) for queue in queues]
    assert {type(answer) for answer in await client.ask_all(*closes)} == {CloseQueueResponse}
    assert seen == {}
    assert seen.looks < 20 * len(queues)


class Counting(dict[Any, None]):
    """Counts how often one of its keys is looked at in passing."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            self.looks += 1
            yield key


async def test_who_changes_its_mind_over_and_over_holds_up_nobody(rig: Rig) -> None:
    """Each change has everything looked at again that was put aside; others have their turn in
    between."""
    sender = await writer(rig)
    client = await reader(rig, Wants("y == 0"))
    for _ in range(3):
        await sender.post_numbers(range(2000))
    async with bystander(rig) as other:
        changes = [client.configuring(Wants(f"y == {number}")) for number in range(15)]
        requests = client.start(*changes)
        await client.reply(requests[0])
        rounds = other.rounds
        await client.reply(requests[-1])
        assert other.rounds > rounds


# Limits.


async def test_a_session_has_so_many_queues_open(start_rig: StartRig) -> None:
    """The limit opens_per_session, at and above: thousands of opens, each answered, and a close
    makes room for another."""
    rig = await start_rig(limits=Limits(opens_per_session=50))
    async with bystander(rig):
        client = await rig.connect()
        queues = [open_queue(f"bmq://work/q{number}", number) for number in range(3000)]
        answers = await client.ask_all(*queues)
        assert [type(answer) for answer in answers[:50]] == [OpenQueueResponse] * 50
        assert {refusal(answer) for answer in answers[50:]} == {Category.REFUSED}
        assert rig.limits_reached() == ["opens_per_session"] * 2950
        assert len(rig.facts_of(QueueCreated)) == 50 + 1
        assert await client.ask(CloseQueue(queues[0].handle, True)) == CloseQueueResponse()
        await opened(client, "bmq://work/q3000", 3000)


@pytest.mark.parametrize("limit", ["max_queues", "max_consumers", "max_producers"])
async def test_a_domain_has_so_many_queues_consumers_and_producers(
    start_rig: StartRig, limit: str
) -> None:
    """At and one above; who leaves makes room for another reader or writer."""
    small = Domain("small", Mode.PRIORITY, **{limit: 2})  # type: ignore[arg-type]
    rig = await start_rig(domains=[*DOMAINS, small])
    async with bystander(rig):
        clients = [await rig.connect() for _ in range(3)]
        flags = WRITE if limit == "max_producers" else READ
        for number, client in enumerate(clients):
            name = f"q{number}" if limit == "max_queues" else "q"
            answer = await client.open(f"bmq://small/{name}", 0, flags)
            if number < 2:
                assert isinstance(answer, OpenQueueResponse)
            else:
                assert refusal(answer) is Category.REFUSED
                assert isinstance(answer, Status)
                assert limit in answer.message
        assert rig.limits_reached() == [limit]
        if limit != "max_queues":
            other = WRITE if flags == READ else READ
            assert isinstance(await clients[2].open("bmq://small/q", 0, other), OpenQueueResponse)
            clients[0].leave()
            await rig.reason(clients[0])
            late = await rig.connect()
            assert isinstance(await late.open("bmq://small/q", 0, flags), OpenQueueResponse)


async def test_an_app_has_so_many_subscriptions(start_rig: StartRig) -> None:
    """The limit subscriptions_per_app, of all sessions, at and one above."""
    rig = await start_rig(limits=Limits(subscriptions_per_app=10))
    async with bystander(rig):
        one = await reader(rig, *(Wants("x == 1") for _ in range(6)))
        other = await reader(rig, *(Wants("x == 2") for _ in range(4)))
        sender = await writer(rig)
        refused = await other.configure(*(Wants("x == 3") for _ in range(5)))
        assert refusal(refused) is Category.REFUSED
        assert rig.limits_reached() == ["subscriptions_per_app"]
        await sender.post_numbers([2, 3])
        assert numbers(await other.given()) == [2]
        await configured(one, *(Wants("x == 1") for _ in range(5)))
        await configured(other, *(Wants("x == 3") for _ in range(5)))
        assert numbers(await other.given()) == [3]


async def test_an_app_has_so_many_expressions(start_rig: StartRig) -> None:
    """The limit expressions_per_app, at and one above; what others have already is not one
    more."""
    rig = await start_rig(limits=Limits(expressions_per_app=3))
    async with bystander(rig):
        await reader(rig, Wants("x == 1"), Wants("x == 2"))
        other = await reader(rig, Wants("x == 2"), Wants("x == 3"))
        refused = await other.configure(Wants("x == 3"), Wants("x == 4"))
        assert refusal(refused) is Category.REFUSED
        assert rig.limits_reached() == ["expressions_per_app"]
        await configured(other, Wants("x == 4"), Wants("x == 1"), Wants("x == 1"))


async def test_too_many_subscriptions_are_refused_before_they_are_compiled(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may hold a hundred thousand; to compile them takes many seconds."""
    compiled = 0

    def count(text: str, limits: ExpressionLimits) -> Predicate:
        nonlocal compiled
        compiled += 1
        return compile_expression(text, limits)

    monkeypatch.setattr(subscriptions, "compile_expression", count)
    rig = await start_rig(limits=Limits(subscriptions_per_app=10))
    client = await reader(rig)
    refused = await client.configure(*(Wants(f"x == {number}") for number in range(2000)))
    assert refusal(refused) is Category.REFUSED
    assert compiled <= 10


LONGEST = 'x == "' + "a" * 121 + '"'
UNARY = "!" * 64 + "x"


@pytest.mark.parametrize(
    ("at", "above", "limit"),
    [
        (LONGEST, LONGEST + " ", "expression_bytes"),
        ('x == "' + "é" * 60 + 'a"', 'x == "' + "é" * 60 + 'ab"', "expression_bytes"),
        (UNARY, "!" + UNARY, "expression_operators"),
        ("x" + "+1" * 64, "x" + "+1" * 65, "expression_operators"),
        ("(" * 63 + "x" + ")" * 63, "(" * 64 + "x" + ")" * 64, "expression_bytes"),
    ],
    ids=["bytes", "utf-8", "unary", "binary", "parentheses"],
)
async def test_an_expression_is_within_its_limits_or_refused(
    start_rig: StartRig, at: str, above: str, limit: str
) -> None:
    """BMQ-16, BMQ-17: at each limit and one above it, which changes nothing."""
    limits = Limits()
    if limit == "expression_operators":
        limits = Limits(expression_bytes=1000)
    rig = await start_rig(limits=limits)
    async with bystander(rig):
        client = await reader(rig, Wants("y == 1"))
        assert refusal(await client.configure(Wants("z == 1"), Wants(above))) is (
            Category.INVALID_ARGUMENT
        )
        assert rig.limits_reached() == [limit]
        sender = await writer(rig)
        await sender.post_numbers([1], "y")
        assert numbers(await client.given()) == [1]
        await configured(client, Wants(at))


async def test_what_an_expression_may_cost_is_bounded_by_its_length(rig: Rig) -> None:
    """Numbers do not grow, whatever is multiplied: beyond 64 bits there is no match."""
    async with bystander(rig):
        client = await reader(rig, Wants("x" + "*x" * 60 + " != 0"))
        sender = await writer(rig)
        await sender.post_numbers([2**62, 1, -(2**62)])
        assert numbers(await client.given()) == [1]


# What ends.


async def test_a_thousand_come_and_go_and_nothing_is_left(rig: Rig) -> None:
    async with bystander(rig):
        for number in range(200):
            client = await rig.connect()
            client.start(
                open_queue(f"bmq://work/q{number % 7}"), client.configuring(Wants("x > 0"))
            )
            client.send_puts([client.put(b"", {"x": 1}) for _ in range(10)])
            (client.vanish, client.leave)[number % 2]()
        await rig.until("the ends", lambda: True if len(rig.sessions()) == 1 else None)
        shard = rig.router.broker.shard
        await rig.until("the clean-up", lambda: True if len(shard.session_states) == 1 else None)
        assert rig.mailbox_bytes == 0
        for queue in shard.shared.queues.values():
            for app in queue.apps.values():
                assert len(app.consumers) == (queue.id == OTHER.encode())
                assert app.outstanding == {} or queue.id == OTHER.encode()


async def test_who_vanishes_while_the_store_is_slow_leaves_nothing_behind(rig: Rig) -> None:
    client = await writer(rig)
    gate = rig.stall()
    client.send_puts([client.put() for _ in range(3 * UNANSWERED_MAX)])
    await asyncio.sleep(0.1)
    client.vanish()
    await asyncio.sleep(0.1)
    gate.set()
    await rig.reason(client)
    async with bystander(rig):
        shard = rig.router.broker.shard
        await rig.until("the clean-up", lambda: True if len(shard.session_states) == 1 else None)
        assert rig.queue(QUEUE)["messages"] <= 3 * UNANSWERED_MAX

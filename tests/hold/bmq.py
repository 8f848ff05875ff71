"""What a BlazingMQ client may send: events, and the requests in control events."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

from headgate.core.model.limits import Limits, MiB
from headgate.core.model.message import Properties
from headgate.wire.bmq.codec import control as c
from headgate.wire.bmq.codec.control_encoding import CONTENT, encode_control, encode_negotiation
from headgate.wire.bmq.codec.frames import (
    HEARTBEAT_REQUEST,
    HEARTBEAT_RESPONSE,
    Encoding,
    EventType,
    event,
)
from headgate.wire.bmq.codec.messages import CONFIRM, ENTRIES, Confirmation, Put, encode_puts
from headgate.wire.bmq.codec.payload import checksum
from headgate.wire.bmq.requests import READ, WRITE
from tests.hold.case import Case, Play, Stage, climb
from tests.support.bmq_raw import Closed, RawClient, Wants, open_queue

LIMITS = Limits()
QUEUE = "bmq://work/q"
EVENTS = frozenset(kind.name for kind in EventType)
REQUESTS = frozenset(cls.__name__ for cls in CONTENT.numbers) | {"ClientIdentity", "Unknown"}
TOO_LONG = LIMITS.body_bytes + LIMITS.properties_bytes + 1
UNCONFIRMED = 60_000
EACH = 4000
HUGE = 2**31 - 1
CONTROL_BYTES = c.CONTROL_BYTES_MAX - 64


async def opened(stage: Stage, uri: str = QUEUE, flags: int = READ | WRITE) -> RawClient:
    client = await stage.bmq()
    await client.open(uri, 0, flags)
    return client


async def told(client: RawClient, count: int) -> str:
    """So many acknowledgements more, or what came instead."""
    try:
        await client.until("acks", lambda: True if client.ack_count >= count else None)
    except Closed:
        return "closed"
    statuses = sorted(set(client.acks.values()))
    return f"{count:,} acknowledged, status {', '.join(map(str, statuses))}"


def said(reply: c.Content) -> str:
    if isinstance(reply, c.Status):
        return f"refused: {reply.message}"
    return type(reply).__name__


async def fill(stage: Stage, count: int, properties: Properties | None = None) -> RawClient:
    """So many messages in the queue; who posted them."""
    client = await opened(stage, flags=WRITE)
    for first in range(0, count, EACH):
        number = min(EACH, count - first)
        client.send_puts([client.put(b"m", properties or {}) for _ in range(number)])
        await told(client, first + number)
    return client


# Messages.


def bombs(count: int, size: int) -> Play:
    """Messages that become so large when they are inflated."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await opened(stage)
        data = zlib.compress(bytes(size), 9)
        crc = checksum(data)
        puts = [Put(0, client.guid(), 1, data, crc, 1) for _ in range(count)]
        yield
        client.send_puts(puts)
        stage.outcome = await told(client, count)

    return play


def puts(count: int, make: Callable[[RawClient], Put], *, open: bool = True) -> Play:
    """So many messages in one event."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await (opened(stage, flags=WRITE) if open else stage.bmq())
        data = event(EventType.PUT, encode_puts([make(client) for _ in range(count)]))
        yield
        client.send(data)
        stage.outcome = await told(client, count)

    return play


def _small(client: RawClient) -> Put:
    return client.put(b"m")


def _wrong(client: RawClient) -> Put:
    put = client.put(b"m" * 100_000)
    return Put(put.queue, put.guid, put.flags, put.data, put.crc ^ 1)


def _described(client: RawClient) -> Put:
    properties: Properties = {f"property{n}": "v" * 230 for n in range(255)}
    return client.put(b"m", properties)


def _large(client: RawClient) -> Put:
    return client.put(b"m" * (LIMITS.body_bytes - 1000))


def repeated(count: int) -> Play:
    """The same message over and over."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await opened(stage, flags=WRITE)
        put = client.put(b"m")
        yield
        client.send_puts([put] * count)
        stage.outcome = await told(client, count)

    return play


def broadcast(consumers: int, messages: int) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        uri = "bmq://news/n"
        for _ in range(consumers):
            client = await opened(stage, uri, READ)
            await client.configure(Wants(messages=HUGE, bytes=HUGE))
        poster = await opened(stage, uri, WRITE)
        yield
        poster.send_puts([poster.put(b"m") for _ in range(messages)])
        stage.outcome = await told(poster, messages)

    return play


def unknown_confirms(count: int) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await opened(stage)
        data = event(EventType.CONFIRM, ENTRIES + CONFIRM.pack(0, b"g" * 16, 0) * count)
        yield
        client.send(data)
        await client.fence()
        stage.outcome = "ignored"

    return play


def consumed(count: int, *, confirms: bool) -> Play:
    """A consumer has so many messages, and confirms them in one event, or vanishes."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await fill(stage, count)
        client = await opened(stage, flags=READ)
        await client.configure(Wants(messages=HUGE, bytes=HUGE))
        messages = await client.take(count)
        yield
        if confirms:
            client.send_confirms([Confirmation(m.queue, m.guid, 0) for m in messages])
            await client.fence()
        else:
            client.vanish()
        stage.outcome = "confirmed" if confirms else "vanished"

    return play


def delivered(count: int) -> Play:
    """A consumer comes that wants all of so many messages."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await fill(stage, count)
        client = await opened(stage, flags=READ)
        yield
        await client.configure(Wants(messages=HUGE, bytes=HUGE))
        await client.take(count)
        stage.outcome = f"{count:,} delivered"

    return play


# Expressions.


def simple(number: int) -> str:
    return f"x == {number}"


def arithmetic(number: int) -> str:
    """As many operators as fit."""
    text = f" == {number}"
    return "+".join(["x"] * ((LIMITS.expression_bytes - len(text)) // 2)) + text


def without_key(number: int) -> str:
    return f"x * x + {number} == 1"


def nested(number: int) -> str:
    return f"({number} == x || (y != {number} && z > {number}))"


def configure(count: int, text: Callable[[int], str]) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await opened(stage)
        yield

        async def attempt(number: int) -> str:
            wanted = [Wants(text(n), messages=1) for n in range(number)]
            return said(await client.configure(*wanted))

        stage.outcome = await climb(count, attempt)

    return play


async def _as_many(client: RawClient, count: int, text: Callable[[int], str]) -> int:
    """Have as many of so many expressions as the router lets somebody have."""
    while count:
        wanted = [Wants(text(n), messages=HUGE, bytes=HUGE) for n in range(count)]
        if not isinstance(await client.configure(*wanted), c.Status):
            break
        count //= 2
    return count


def posts_among(count: int, text: Callable[[int], str], messages: int) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        had = await _as_many(await opened(stage, flags=READ), count, text)
        client = await opened(stage, flags=WRITE)
        yield
        client.send_puts([client.put(b"m", {"x": -n, "y": n, "z": n}) for n in range(messages)])
        stage.outcome = f"among {had:,} expressions: {await told(client, messages)}"

    return play


def changing(count: int) -> Play:
    """A subscription changes while so many messages are there that nobody wanted."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        await fill(stage, count, {"x": 1})
        client = await opened(stage, flags=READ)
        await client.configure(Wants("x == 2", messages=HUGE, bytes=HUGE))
        await stage.router.settle()
        yield
        stage.outcome = said(await client.configure(Wants("x == 3", messages=HUGE, bytes=HUGE)))

    return play


# Requests.


def all_at_once(count: int, make: Callable[[int], c.Content], *, is_open: bool = False) -> Play:
    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await (opened(stage) if is_open else stage.bmq())
        contents = [make(n) for n in range(count)]
        yield
        try:
            replies = await client.ask_all(*contents)
            stage.outcome = said(replies[-1])
        except Closed:
            stage.outcome = "closed"

    return play


def _open(number: int) -> c.OpenQueue:
    return open_queue(f"bmq://work/q{number}", number)


def with_queues(count: int, ending: str) -> Play:
    """A session with so many open queues closes them, says goodbye or vanishes."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client = await stage.bmq()
        for first in range(0, count, 1000):
            numbers = range(first, min(first + 1000, count))
            await client.ask_all(*(_open(n) for n in numbers))
        yield
        if ending == "closes":
            closing = [c.CloseQueue(_open(n).handle, True) for n in range(count)]
            stage.outcome = said((await client.ask_all(*closing))[-1])
        elif ending == "leaves":
            stage.outcome = said(await client.disconnect())
        else:
            client.vanish()
            stage.outcome = "vanished"

    return play


def _stream(number: int) -> c.ConfigureQueueStream:
    return c.ConfigureQueueStream(0, c.QueueStreamParameters(None, 1, 1, number, 1))


def raw(make: Callable[[], bytes], *, greets: bool = True, closes: bool = False) -> Play:
    """Bytes as they are; then a sign of life, or the end."""

    async def play(stage: Stage) -> AsyncIterator[None]:
        client, data = await stage.bmq(greets=greets), make()
        yield
        client.send(data)
        try:
            await (client.closed() if closes else client.heartbeat())
            stage.outcome = "closed" if closes else "answered"
        except Closed:
            stage.outcome = "closed"

    return play


def control(body: Callable[[], bytes], encoding: Encoding = Encoding.BER) -> Callable[[], bytes]:
    return lambda: event(EventType.CONTROL, _padded(body()), encoding)


def _padded(data: bytes) -> bytes:
    count = 4 - len(data) % 4
    return data + bytes((count,)) * count


def spoken(content: c.Content) -> Callable[[], bytes]:
    return lambda: event(
        EventType.CONTROL, encode_control(c.ControlMessage(1, content), Encoding.BER)
    )


def _json(text: bytes) -> Callable[[], bytes]:
    return control(lambda: text, Encoding.JSON)


NOT_FOR_CLIENTS: Sequence[c.Content] = (
    c.Status(c.Category.SUCCESS, 0, "m" * 1_000_000),
    c.DisconnectResponse(),
    c.AdminCommandResponse("t" * 1_000_000),
    c.OpenQueueResponse(open_queue(QUEUE), c.RoutingConfiguration(1)),
    c.CloseQueueResponse(),
    c.ConfigureQueueStreamResponse(_stream(1)),
    c.ConfigureStreamResponse(c.ConfigureStream(0, c.StreamParameters())),
)


def general() -> Iterator[Case]:
    """What a client should never say."""
    for content in NOT_FOR_CLIENTS:
        name = type(content).__name__
        yield Case(
            "bmq",
            f"says {name}",
            "once",
            raw(spoken(content), closes=True),
            frozenset((name,)),
            is_general=True,
            shares=True,
        )
    for kind in (EventType.PUSH, EventType.ACK):
        yield Case(
            "bmq",
            f"sends {kind.name}",
            "64 MiB",
            raw(partial(event, kind, bytes(LIMITS.event_bytes - 64)), closes=True),
            frozenset((kind.name,)),
            is_general=True,
            shares=True,
        )


def case(
    name: str,
    sent: str,
    play: Play,
    *covers: str,
    quick: bool = False,
    shares: bool = False,
    crowd: bool = False,
) -> Case:
    return Case("bmq", name, sent, play, frozenset(covers), crowd, is_quick=quick, shares=shares)


CASES = [
    case(
        "PUT of bombs",
        "200 messages of 17 KB that become more than 16 MiB",
        bombs(200, TOO_LONG),
        "PUT",
        shares=True,
    ),
    case(
        "PUT of a few bombs",
        "50 messages of 17 KB that become more than 16 MiB",
        bombs(50, TOO_LONG),
        "PUT",
        quick=True,
        shares=True,
    ),
    case(
        "PUT of good bombs",
        "60 messages that become 15 MiB",
        bombs(60, 15 * MiB),
        "PUT",
    ),
    case("PUT of many", "200,000 messages in one event", puts(200_000, _small), "PUT"),
    case(
        "PUT of many, queue not open",
        "200,000 messages in one event",
        puts(200_000, _small, open=False),
        "PUT",
        shares=True,
    ),
    case(
        "PUT with wrong checksums", "600 messages of 100 KB", puts(600, _wrong), "PUT", shares=True
    ),
    case(
        "PUT with many properties",
        "900 messages with 255 properties, 64 KB",
        puts(900, _described),
        "PUT",
    ),
    case("PUT of large ones", "3 messages of 16 MiB", puts(3, _large), "PUT"),
    case("PUT of the same", "100,000 times one message", repeated(100_000), "PUT"),
    case(
        "PUT to a crowd",
        "1,000 messages to 100 consumers of a broadcast",
        broadcast(100, 1000),
        "PUT",
    ),
    case(
        "CONFIRM of nothing",
        "1,000,000 messages that nobody has",
        unknown_confirms(1_000_000),
        "CONFIRM",
        shares=True,
    ),
    case(
        "CONFIRM of many",
        f"{UNCONFIRMED:,} messages in one event",
        consumed(UNCONFIRMED, confirms=True),
        "CONFIRM",
    ),
    case(
        "a consumer vanishes",
        f"{UNCONFIRMED:,} messages unconfirmed",
        consumed(UNCONFIRMED, confirms=False),
        "PUSH",
        quick=True,
    ),
    case("a consumer comes", f"{UNCONFIRMED:,} messages wait", delivered(UNCONFIRMED), "PUSH"),
    case(
        "ConfigureStream, simple",
        "10,000 of x == N",
        configure(10_000, simple),
        "ConfigureStream",
        shares=True,
    ),
    case(
        "ConfigureStream, as many as fit",
        "30,000 of x == N",
        configure(30_000, simple),
        "ConfigureStream",
        shares=True,
    ),
    case(
        "ConfigureStream, arithmetic",
        "2,000 of x+x+... == N",
        configure(2000, arithmetic),
        "ConfigureStream",
        quick=True,
        shares=True,
    ),
    case(
        "ConfigureStream, without keys",
        "5,000 of x * x + N == 1",
        configure(5000, without_key),
        "ConfigureStream",
        shares=True,
    ),
    case(
        "ConfigureStream, nested",
        "5,000 of (N == x || (y != N && z > N))",
        configure(5000, nested),
        "ConfigureStream",
        shares=True,
    ),
    case(
        "ConfigureStream, the same",
        "10,000 times x == 1",
        configure(10_000, lambda n: "x == 1"),
        "ConfigureStream",
        shares=True,
    ),
    case(
        "ConfigureStream, wrong",
        "10,000 times x ==",
        configure(10_000, lambda n: "x =="),
        "ConfigureStream",
        shares=True,
    ),
    case(
        "posts among expressions without keys",
        "100 messages, 5,000 of x * x + N == 1",
        posts_among(5000, without_key, 100),
        "PUT",
        quick=True,
        shares=True,
    ),
    case(
        "posts among nested expressions",
        "1,000 messages, 5,000 expressions",
        posts_among(5000, nested, 1000),
        "PUT",
        shares=True,
    ),
    case(
        "posts among simple expressions",
        "4,000 messages, 10,000 of x == N",
        posts_among(10_000, simple, 4000),
        "PUT",
    ),
    case(
        "changing a subscription",
        f"{UNCONFIRMED:,} messages that nobody wanted",
        changing(UNCONFIRMED),
        "ConfigureStream",
    ),
    case(
        "OpenQueue",
        f"{LIMITS.opens_per_session:,} at once",
        all_at_once(LIMITS.opens_per_session, _open),
        "OpenQueue",
    ),
    case(
        "OpenQueue, refused",
        "20,000 of a domain that is not there",
        all_at_once(20_000, lambda n: open_queue(f"bmq://nope/q{n}", n)),
        "OpenQueue",
        shares=True,
    ),
    case(
        "OpenQueue, a long address",
        "4 MiB",
        all_at_once(1, lambda n: open_queue("bmq://work/" + "q" * (CONTROL_BYTES - 200), n)),
        "OpenQueue",
        shares=True,
    ),
    case(
        "CloseQueue",
        f"{LIMITS.opens_per_session:,} at once",
        with_queues(LIMITS.opens_per_session, "closes"),
        "CloseQueue",
    ),
    case(
        "Disconnect",
        f"with {LIMITS.opens_per_session:,} open queues",
        with_queues(LIMITS.opens_per_session, "leaves"),
        "DisconnectRequest",
    ),
    case(
        "a session vanishes",
        f"with {LIMITS.opens_per_session:,} open queues",
        with_queues(LIMITS.opens_per_session, "vanishes"),
        quick=True,
    ),
    case(
        "ConfigureQueueStream",
        "10,000 at once",
        all_at_once(10_000, _stream, is_open=True),
        "ConfigureQueueStream",
        shares=True,
    ),
    case(
        "AdminCommand",
        "4 MiB",
        all_at_once(1, lambda n: c.AdminCommand("a" * (CONTROL_BYTES - 50))),
        "AdminCommand",
        shares=True,
    ),
    case(
        "AdminCommand, many",
        "50,000 at once",
        all_at_once(50_000, lambda n: c.AdminCommand("a")),
        "AdminCommand",
        shares=True,
    ),
    case(
        "a message of brokers",
        "4 MiB of BER",
        raw(
            control(
                lambda: (
                    b"\x30\x84"
                    + (CONTROL_BYTES - 40).to_bytes(4, "big")
                    + b"\xa9\x80" * ((CONTROL_BYTES - 40) // 2)
                )
            )
        ),
        "Unknown",
        "CONTROL",
        shares=True,
    ),
    case(
        "wide BER",
        "2,000,000 elements that nobody knows",
        raw(
            control(
                lambda: (
                    b"\x30\x80\xa1\x80\xa7\x80"
                    + b"\x9e\x00" * ((CONTROL_BYTES - 40) // 2)
                    + bytes(6)
                )
            )
        ),
        "CONTROL",
        shares=True,
    ),
    case(
        "deep BER",
        "2,000,000 levels",
        raw(control(lambda: b"\x30\x80" * 2_000_000), closes=True),
        "CONTROL",
        shares=True,
    ),
    case(
        "deep JSON",
        "4,000,000 levels",
        raw(_json(b"[" * 4_000_000), closes=True),
        "CONTROL",
        shares=True,
    ),
    case(
        "wide JSON",
        "4 MiB of numbers",
        raw(_json(b'{"rId":1,"openQueue":[' + b"1," * 2_000_000 + b"1]}"), closes=True),
        "CONTROL",
        shares=True,
    ),
    case(
        "many members of JSON",
        "300,000 that nobody knows",
        raw(
            _json(
                b'{"rId":1,"openQueue":{' + b",".join(b'"%d":1' % n for n in range(300_000)) + b"}}"
            ),
            closes=True,
        ),
        "CONTROL",
        shares=True,
    ),
    case(
        "a hello that is no hello",
        "64 KB",
        raw(lambda: bytes(65_000), greets=False, closes=True),
        "ClientIdentity",
        shares=True,
    ),
    case(
        "a deep hello",
        "64 KB of JSON",
        raw(_json(b"[" * 65_000), greets=False, closes=True),
        "ClientIdentity",
        shares=True,
    ),
    case(
        "a hello with a long name",
        "60 KB",
        raw(
            lambda: event(
                EventType.CONTROL,
                encode_negotiation(c.ClientIdentity(process_name="n" * 60_000), Encoding.BER),
            ),
            greets=False,
        ),
        "ClientIdentity",
        shares=True,
    ),
    case(
        "HEARTBEAT_REQ",
        "1,000,000 in one write",
        raw(lambda: HEARTBEAT_REQUEST * 1_000_000),
        "HEARTBEAT_REQ",
        shares=True,
    ),
    case(
        "HEARTBEAT_RSP",
        "1,000,000 in one write",
        raw(lambda: HEARTBEAT_RESPONSE * 1_000_000),
        "HEARTBEAT_RSP",
        shares=True,
    ),
    case(
        "an event that is too long",
        f"{LIMITS.event_bytes + 1:,} bytes",
        raw(lambda: (LIMITS.event_bytes + 8).to_bytes(4, "big") + b"\x42\2\0\0", closes=True),
        "PUT",
        shares=True,
    ),
    case(
        "an event of a kind that nobody knows",
        "64 MiB",
        raw(lambda: event(63, bytes(LIMITS.event_bytes - 64)), closes=True),
        shares=True,
    ),
]

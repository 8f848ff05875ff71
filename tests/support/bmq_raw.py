"""A client that says whatever a test wants, byte for byte, and what the official one cannot.

It reads everything at once and keeps it, unless it is told to `hold`.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headgate.core.model.message import NO_PROPERTIES, Properties
from headgate.wire.bmq.codec.control import (
    BrokerResponse,
    ClientIdentity,
    CloseQueue,
    ConfigureStream,
    ConsumerInfo,
    ConsumerSubscription,
    Content,
    ControlMessage,
    DisconnectRequest,
    Expression,
    HandleParameters,
    OpenQueue,
    StreamParameters,
    SubIdInfo,
)
from headgate.wire.bmq.codec.control_encoding import (
    decode_control,
    decode_negotiation,
    encode_control,
    encode_negotiation,
)
from headgate.wire.bmq.codec.frames import (
    HEARTBEAT_REQUEST,
    HEARTBEAT_RESPONSE,
    Encoding,
    Event,
    EventFrames,
    EventType,
    event,
)
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    HAS_PROPERTIES,
    OUT_OF_ORDER,
    AckStatus,
    Confirmation,
    Put,
    encode_confirms,
    encode_puts,
    parse_acks,
    parse_pushes,
)
from headgate.wire.bmq.codec.payload import checksum, close_data, open_data
from headgate.wire.bmq.requests import READ, WRITE

BOTH = READ | WRITE
DEADLINE_SECONDS = 60.0
EVENT_BYTES = 1 << 30
FEATURES = "PROTOCOL_ENCODING:BER,JSON"
FENCE = "bmq://fence/f"
FENCE_NUMBER = 2**31 - 1

T = TypeVar("T")

_clients = itertools.count(1)


@dataclass(frozen=True)
class Pushed:
    """A message that came."""

    queue: int
    guid: bytes
    subscription: int
    body: bytes
    properties: Properties
    is_again: bool


@dataclass(frozen=True)
class Wants:
    """A subscription as it is asked for."""

    text: str | None = None
    priority: int = 0
    messages: int = 1000
    bytes: int = 32 << 20
    id: int | None = None
    """By itself a number that no other has."""


class Closed(Exception):
    """The router closed the connection while something was waited for."""


class RawClient(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.name = next(_clients)
        self.encoding = Encoding.BER
        """Of what it says."""
        self.welcome: BrokerResponse | None = None
        self.replies: dict[int, Content] = {}
        self.unasked: list[ControlMessage] = []
        """What came without the number of a request."""
        self.acks: dict[bytes, int] = {}
        """The status of every message that was acknowledged."""
        self.ack_count = 0
        self.pushed: list[Pushed] = []
        self.said: list[Event] = []
        """Every event that came, without those of messages."""
        self.events: list[int] = []
        """The types of all events that came, in order."""
        self.is_closed = False
        self._is_lost = False
        self.is_alive = True
        """Whether it answers heartbeats."""
        self._frames = EventFrames(EVENT_BYTES)
        self._changed = asyncio.Event()
        self._requests = itertools.count(1)
        self._guids = itertools.count(1)
        self._subscriptions = itertools.count(100)
        self._has_fence = False

    @classmethod
    async def connect(
        cls,
        address: tuple[str, int],
        *,
        greets: bool = True,
        context: ssl.SSLContext | None = None,
        receive_bytes: int | None = None,
        source: str = "",
    ) -> RawClient:
        """With a small buffer for what it receives, one that does not read is noticed soon."""
        connected = socket.socket()
        connected.setblocking(False)
        if receive_bytes is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if source:
            connected.bind((source, 0))
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connected, address)
        host = "localhost" if context is not None else None
        _, client = await loop.create_connection(
            cls, sock=connected, ssl=context, server_hostname=host
        )
        if greets:
            await client.hello()
        return client

    # What the loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for each in self._frames.feed(data):
            self._received(each)
        self._changed.set()

    def eof_received(self) -> bool:
        self._ended()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._ended()

    def _ended(self) -> None:
        self.is_closed = True
        self._changed.set()

    def _received(self, each: Event) -> None:
        self.events.append(each.type)
        match each.type:
            case EventType.ACK:
                acks = parse_acks(each.body)
                self.ack_count += len(acks)
                self.acks.update({ack.guid: ack.status for ack in acks})
                return
            case EventType.PUSH:
                for push in parse_pushes(each.body):
                    properties, body = open_data(
                        push.data,
                        has_properties=bool(push.flags & HAS_PROPERTIES),
                        compression=push.compression,
                        schema=push.schema,
                        bytes_max=EVENT_BYTES,
                    )
                    [subscription] = push.subscriptions
                    again = bool(push.flags & OUT_OF_ORDER)
                    self.pushed.append(
                        Pushed(push.queue, push.guid, subscription, body, properties, again)
                    )
                return
            case EventType.CONTROL if self.welcome is None:
                response = decode_negotiation(each.body, each.encoding)
                assert isinstance(response, BrokerResponse)
                self.welcome = response
            case EventType.CONTROL:
                reply = decode_control(each.body, each.encoding)
                if reply.request_id is None:
                    self.unasked.append(reply)
                else:
                    self.replies[reply.request_id] = reply.content
            case EventType.HEARTBEAT_REQ if self.is_alive:
                self.send(HEARTBEAT_RESPONSE)
        self.said.append(each)

    # Waiting.

    async def until(self, what: str, found: Callable[[], T | None]) -> T:
        """What a function finds, as soon as it finds something."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while (value := found()) is None:
                    if self.is_closed:
                        raise Closed(what)
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not come in time") from None
        return value

    async def closed(self) -> None:
        """Wait until the router has closed the connection."""
        await self.until("the end", lambda: True if self.is_closed else None)

    def hold(self) -> None:
        """Read nothing more."""
        self._transport.pause_reading()

    def go_on(self) -> None:
        self._transport.resume_reading()

    # Saying.

    def send(self, data: bytes) -> None:
        """These bytes, whatever they are."""
        self._transport.write(data)

    @property
    def unsent(self) -> int:
        """Bytes that the router has not taken yet."""
        return self._transport.get_write_buffer_size()

    async def hello(
        self, identity: ClientIdentity | None = None, encoding: Encoding = Encoding.BER
    ) -> BrokerResponse:
        me = identity or ClientIdentity(
            process_name=f"raw{self.name}", pid=self.name, features=FEATURES
        )
        self.send(event(EventType.CONTROL, encode_negotiation(me, encoding), encoding))
        return await self.until("the welcome", lambda: self.welcome)

    async def heartbeat(self) -> None:
        """Ask for a sign of life, and wait for it."""
        before = self.events.count(EventType.HEARTBEAT_RSP)
        self.send(HEARTBEAT_REQUEST)
        await self.until(
            "the heartbeat",
            lambda: True if self.events.count(EventType.HEARTBEAT_RSP) > before else None,
        )

    def start(self, *contents: Content) -> list[int]:
        """Ask without waiting, all in one piece; the numbers of the requests."""
        numbers = [next(self._requests) for _ in contents]
        bodies = [
            encode_control(ControlMessage(*pair), self.encoding)
            for pair in zip(numbers, contents, strict=True)
        ]
        self.send(b"".join(event(EventType.CONTROL, body, self.encoding) for body in bodies))
        return numbers

    async def reply(self, number: int) -> Content:
        return await self.until(f"the reply to {number}", lambda: self.replies.get(number))

    async def ask(self, content: Content) -> Content:
        [number] = self.start(content)
        return await self.reply(number)

    async def ask_all(self, *contents: Content) -> list[Content]:
        """All in one piece."""
        return [await self.reply(number) for number in self.start(*contents)]

    # Requests.

    async def open(self, uri: str, queue: int = 0, flags: int = BOTH, sub: int = 0) -> Content:
        return await self.ask(open_queue(uri, queue, flags, sub))

    async def close_queue(self, uri: str, queue: int = 0, sub: int = 0) -> Content:
        return await self.ask(CloseQueue(open_queue(uri, queue, BOTH, sub).handle, True))

    async def configure(self, *wanted: Wants, queue: int = 0, app: str = "__default") -> Content:
        """Have these subscriptions and no others."""
        return await self.ask(self.configuring(*wanted, queue=queue, app=app))

    def configuring(
        self, *wanted: Wants, queue: int = 0, app: str = "__default"
    ) -> ConfigureStream:
        return ConfigureStream(
            queue, StreamParameters(app, tuple(self._subscription(each) for each in wanted))
        )

    def _subscription(self, wanted: Wants) -> ConsumerSubscription:
        text = Expression() if wanted.text is None else Expression(1, wanted.text)
        consumer = ConsumerInfo(wanted.messages, wanted.bytes, wanted.priority, 1)
        number = next(self._subscriptions) if wanted.id is None else wanted.id
        return ConsumerSubscription(number, text, (consumer,))

    async def fence(self) -> None:
        """Wait until what was asked before is done, and what it brought has come."""
        if not self._has_fence:
            await self.open(FENCE, FENCE_NUMBER, READ)
            self._has_fence = True
        await self.configure(queue=FENCE_NUMBER)

    async def disconnect(self) -> Content:
        return await self.ask(DisconnectRequest())

    # Messages.

    def put(
        self,
        body: bytes = b"",
        properties: Properties = NO_PROPERTIES,
        *,
        queue: int = 0,
        guid: bytes | None = None,
        flags: int = ACK_REQUESTED,
        compression: int = 0,
    ) -> Put:
        """A message, not sent yet."""
        data = close_data(properties, body, compression)
        flags |= HAS_PROPERTIES if properties else 0
        return Put(queue, guid or self.guid(), flags, data, checksum(data), compression)

    def guid(self) -> bytes:
        """An id that nobody else has."""
        return b"@" + self.name.to_bytes(7, "big") + next(self._guids).to_bytes(8, "big")

    def send_puts(self, puts: Sequence[Put]) -> None:
        """In one event."""
        self.send(event(EventType.PUT, encode_puts(puts)))

    async def acked(self, puts: Iterable[Put]) -> list[AckStatus]:
        """What became of messages, as soon as it is known of all."""
        guids = [put.guid for put in puts]
        await self.until("the acks", lambda: True if self.acks.keys() >= set(guids) else None)
        return [AckStatus(self.acks[guid]) for guid in guids]

    async def post(
        self, body: bytes = b"", properties: Properties = NO_PROPERTIES, *, queue: int = 0
    ) -> AckStatus:
        put = self.put(body, properties, queue=queue)
        self.send_puts([put])
        [status] = await self.acked([put])
        return status

    async def post_all(self, *bodies: bytes, queue: int = 0) -> None:
        """All are to be taken."""
        puts = [self.put(body, queue=queue) for body in bodies]
        self.send_puts(puts)
        assert await self.acked(puts) == [AckStatus.SUCCESS] * len(puts)

    async def post_numbers(
        self, numbers: Iterable[int], name: str = "x", *, queue: int = 0
    ) -> None:
        """Messages whose property and body say their number; all are to be taken."""
        puts = [self.put(b"%d" % number, {name: number}, queue=queue) for number in numbers]
        self.send_puts(puts)
        assert await self.acked(puts) == [AckStatus.SUCCESS] * len(puts)

    async def take(self, count: int) -> list[Pushed]:
        """The next so many messages; more may have come."""
        await self.until(f"{count} messages", lambda: True if len(self.pushed) >= count else None)
        taken, self.pushed = self.pushed[:count], self.pushed[count:]
        return taken

    async def given(self) -> list[Pushed]:
        """The messages that came and were not taken, nothing being under way."""
        await self.fence()
        taken, self.pushed = self.pushed, []
        return taken

    def confirm(self, *messages: Pushed, sub: int = 0) -> None:
        """There is no reply: what follows on this session comes after it."""
        self.send_confirms([Confirmation(each.queue, each.guid, sub) for each in messages])

    def send_confirms(self, confirmations: Sequence[Confirmation]) -> None:
        self.send(event(EventType.CONFIRM, encode_confirms(confirmations)))

    # Its end.

    def leave(self) -> None:
        """Without a word."""
        self._transport.close()

    def vanish(self) -> None:
        """With a reset, and what was not sent yet is lost."""
        if not self._is_lost:
            self._transport.abort()

    def hang_up(self) -> None:
        """Say nothing more, and go on reading."""
        self._transport.write_eof()


def open_queue(uri: str, queue: int = 0, flags: int = BOTH, sub: int = 0) -> OpenQueue:
    app = uri.partition("?id=")[2]
    info = SubIdInfo(sub, app) if app else None
    reads, writes = int(bool(flags & READ)), int(bool(flags & WRITE))
    return OpenQueue(HandleParameters(uri, queue, info, flags, reads, writes, 0))


def bodies(messages: Iterable[Pushed]) -> list[bytes]:
    return [message.body for message in messages]


def numbers(messages: Iterable[Pushed]) -> list[int]:
    """Of messages of `post_numbers`."""
    return [int(message.body) for message in messages]

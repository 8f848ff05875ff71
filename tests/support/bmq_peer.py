"""A router that does what a test tells it, and remembers what it was told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from headgate.client.bmq import Client, Queue
from headgate.wire.bmq.codec.control import (
    BrokerResponse,
    Category,
    ClientIdentity,
    ClientType,
    CloseQueue,
    CloseQueueResponse,
    ConfigureQueueStream,
    ConfigureQueueStreamResponse,
    ConfigureStream,
    ConfigureStreamResponse,
    Content,
    ControlMessage,
    DisconnectRequest,
    DisconnectResponse,
    OpenQueue,
    OpenQueueResponse,
    RoutingConfiguration,
    Status,
)
from headgate.wire.bmq.codec.control_encoding import (
    decode_control,
    decode_negotiation,
    encode_control,
    encode_negotiation,
)
from headgate.wire.bmq.codec.frames import (
    HEARTBEAT_RESPONSE,
    Encoding,
    Event,
    EventFrames,
    EventType,
    event,
)
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    Ack,
    AckStatus,
    Confirmation,
    Push,
    Put,
    encode_acks,
    encode_pushes,
    parse_confirms,
    parse_puts,
)
from headgate.wire.bmq.negotiation import FEATURES

DEADLINE_SECONDS = 20.0

URI = "bmq://orders/incoming"
A, B, C = (bytes([letter]) * 16 for letter in b"ABC")

T = TypeVar("T")
K = TypeVar("K", bound=Content)


async def until(found: Callable[[], T | None], what: str) -> T:
    """Wait for something that comes in its own time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not (value := found()):
        assert time.monotonic() < end, f"still not: {what}"
        await asyncio.sleep(0.005)
    return value


class Talk:
    """One connection with a client."""

    def __init__(self, peer: Peer, writer: asyncio.StreamWriter) -> None:
        self.hello = ClientIdentity()
        self.events: list[int] = []
        """The types of all events after the hello."""
        self.asked: list[ControlMessage] = []
        self.puts: list[Put] = []
        self.confirmed: list[Confirmation] = []
        self.is_over = False
        self._peer = peer
        self._writer = writer

    def requests(self, kind: type[K]) -> list[K]:
        """Those of one kind, in their order."""
        return [each.content for each in self.asked if isinstance(each.content, kind)]

    @property
    def guids(self) -> list[bytes]:
        return [put.guid for put in self.puts]

    def push(self, *pushes: Push) -> None:
        self.send(event(EventType.PUSH, encode_pushes(pushes)))

    def ack(self, *guids: bytes, status: int = AckStatus.SUCCESS) -> None:
        self.send(event(EventType.ACK, encode_acks([Ack(status, guid, 0) for guid in guids])))

    def say(self, number: int | None, content: Content) -> None:
        body = encode_control(ControlMessage(number, content), self._peer.encoding)
        self.send(event(EventType.CONTROL, body, self._peer.encoding))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def drop(self) -> None:
        """As if the cable were cut."""
        self._writer.transport.abort()

    def greet(self, first: Event) -> None:
        hello = decode_negotiation(first.body, first.encoding)
        assert isinstance(hello, ClientIdentity)
        assert first.encoding is Encoding.BER
        self.hello = hello
        body = encode_negotiation(self._peer.answer, self._peer.encoding)
        self.send(event(EventType.CONTROL, body, self._peer.encoding))

    def take(self, each: Event) -> None:
        self.events.append(each.type)
        match each.type:
            case EventType.CONTROL:
                assert each.encoding is Encoding.BER
                message = decode_control(each.body, each.encoding)
                self.asked.append(message)
                content = self._peer.decide(message.content)
                if content is not None:
                    self.say(message.request_id, content)
            case EventType.PUT:
                puts = parse_puts(each.body)
                self.puts += puts
                wanted = [put.guid for put in puts if put.flags & ACK_REQUESTED]
                if wanted and self._peer.acknowledges:
                    self.ack(*wanted)
            case EventType.CONFIRM:
                self.confirmed += parse_confirms(each.body)
            case EventType.HEARTBEAT_REQ if self._peer.is_alive:
                self.send(HEARTBEAT_RESPONSE)


class Peer:
    def __init__(self) -> None:
        self.answer = BrokerResponse(
            Status(Category.SUCCESS),
            broker_identity=ClientIdentity(client_type=ClientType.TCPBROKER, features=FEATURES),
        )
        self.encoding = Encoding.BER
        self.acknowledges = True
        self.is_alive = True
        """Whether heartbeats are answered."""
        self.talks: list[Talk] = []
        self.refusals: dict[type[Content], Content | None] = {}
        """What is answered to requests of a kind instead; None is nothing at all."""
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    @property
    def talk(self) -> Talk:
        """The last connection."""
        return self.talks[-1]

    async def start(self) -> None:
        """On the same port as before."""
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nobody is there any more."""
        if self._server is not None:
            self._server.close()
            for talk in self.talks:
                talk.drop()
            await until(lambda: all(talk.is_over for talk in self.talks), "the end of all talks")
            self._server = None

    async def talked(self, count: int) -> Talk:
        """The so-manieth connection, when there is one."""
        await until(lambda: len(self.talks) >= count, f"connection {count}")
        return self.talks[count - 1]

    def decide(self, content: Content) -> Content | None:
        if type(content) in self.refusals:
            return self.refusals[type(content)]
        match content:
            case OpenQueue():
                return OpenQueueResponse(content, RoutingConfiguration(2))
            case ConfigureStream():
                return ConfigureStreamResponse(content)
            case ConfigureQueueStream():
                return ConfigureQueueStreamResponse(content)
            case CloseQueue():
                return CloseQueueResponse()
            case DisconnectRequest():
                return DisconnectResponse()
        raise AssertionError(f"a client said {content}")

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(self, writer)
        frames = EventFrames(2**30)
        has_greeted = False
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                for each in frames.feed(data):
                    if has_greeted:
                        talk.take(each)
                    else:
                        talk.greet(each)
                        self.talks.append(talk)
                        has_greeted = True
        talk.is_over = True
        writer.close()


def pushed(talk: Talk, *guids: bytes) -> list[Push]:
    """Messages for the first subscription that was configured."""
    number = talk.requests(ConfigureStream)[0].stream.subscriptions[0].s_id
    return [Push(0, guid, 0, b"body", (number,)) for guid in guids]


async def puts(talk: Talk, count: int) -> list[bytes]:
    """The ids of the first messages of a connection, when there are so many."""
    await until(lambda: len(talk.puts) >= count, f"{count} messages")
    return talk.guids


async def taken(queue: Queue, count: int) -> list[bytes]:
    async with asyncio.timeout(10):
        return [(await anext(queue)).guid for _ in range(count)]


async def settled(client: Client) -> None:
    """All that was to be said was said: an answer came to something that was asked later."""
    await (await client.open("bmq://fence/fence", read=True)).close()

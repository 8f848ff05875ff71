"""The load of the benchmark of routing: what both peers have in common, and the BMQP wire.

One connection posts and others consume, all in this process, which is not that of the server.
As many messages are under way as the window allows, so that a server is never without work and
never ahead of its consumers without a bound. Consumers confirm what came with a read at once.
All bytes that are posted are made before the clock runs.
"""

from __future__ import annotations

import selectors
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from os import urandom
from random import Random
from typing import NamedTuple, TypeAlias

import headgate.wire.bmq.codec.control as c
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
    HAS_PROPERTIES,
    AckStatus,
    Confirmation,
    Push,
    Put,
    encode_confirms,
    encode_puts,
    parse_acks,
    parse_pushes,
)
from headgate.wire.bmq.codec.payload import checksum, close_data, open_data

BODY_BYTES = 100
REGIONS = 16
BATCH = 100
"""Messages that are written to the socket together."""
WINDOW = 2_000
"""Messages under way: posted, and not yet consumed."""
PATIENCE = 60.0
"""Seconds without a byte after which a server is given up."""
READ_BYTES = 1 << 18

Address: TypeAlias = tuple[str, int]


# What is routed, by either peer.


@dataclass(frozen=True, slots=True)
class Shape:
    """Customers 0 to N - 1, each with a subscription; consumers take turns at them."""

    subscriptions: int
    consumers: int

    def of(self, consumer: int) -> range:
        """The customers whose messages a consumer wants."""
        return range(consumer, self.subscriptions, self.consumers)

    def drawn(self, messages: int, random: Random) -> list[int]:
        """The customer of each message."""
        return [random.randrange(self.subscriptions) for _ in range(messages)]


def properties_of(customer: int) -> Mapping[str, str]:
    return {"customer": f"c{customer}", "region": f"r{customer % REGIONS}"}


def body_of(customer: int) -> bytes:
    return b"%d." % customer + bytes(BODY_BYTES - len(b"%d." % customer))


Content: TypeAlias = Callable[[int], tuple[Mapping[str, str | int | bool], bytes]]
"""The properties and the body of a message, by its number."""


def plain(customer: int) -> tuple[Mapping[str, str], bytes]:
    """The message to a customer."""
    return properties_of(customer), body_of(customer)


def customer_of(body: bytes) -> int:
    return int(body.partition(b".")[0])


# Connections.


class Seen(NamedTuple):
    """What a read brought."""

    arrived: int
    acked: int


class Batch(NamedTuple):
    data: bytes
    messages: int


class Link(ABC):
    """A connection. Blocks until `free`, then never."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unsent = bytearray()
        self.noted: list[tuple[int, bytes]] | None = None
        """Where messages arrived and their bodies, if somebody wants to know."""

    @abstractmethod
    def take(self, data: bytes) -> Seen:
        """Look at what was received, and confirm it."""

    def free(self) -> None:
        self.socket.setblocking(False)

    def close(self) -> None:
        self.socket.close()

    @property
    def is_behind(self) -> bool:
        """Whether it waits until it may write more."""
        return bool(self._unsent)

    def read(self) -> Seen:
        data = self.socket.recv(READ_BYTES)
        assert data, "the server hung up"
        return self.take(data)

    def catch_up(self) -> None:
        """Read what waits, which is no message."""
        with suppress(BlockingIOError):
            while True:
                assert self.read() == Seen(0, 0), "all messages were seen"

    def write(self, data: bytes) -> None:
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        try:
            sent = self.socket.send(self._unsent)
        except BlockingIOError:
            return
        del self._unsent[:sent]


def carry(
    poster: Link | None,
    batches: Sequence[Batch],
    readers: Sequence[Link],
    messages: int,
    *,
    is_acked: bool,
    window: int = WINDOW,
    copies: int = 1,
) -> float:
    """Post the batches, if any; seconds until so many copies of the messages were consumed, if
    there are readers, and acked, if that was asked for."""
    waiting = iter(batches)
    batch = next(waiting, None)
    posted = 0
    wanted = messages * copies
    arrived = 0 if readers else wanted
    acked = 0 if is_acked else messages
    with selectors.DefaultSelector() as selector:
        for link in (*readers, *([poster] if poster else [])):
            selector.register(link.socket, selectors.EVENT_READ, link)
        began = time.perf_counter()
        while arrived < wanted or acked < messages:
            room = min(arrived // copies, acked) + window - posted
            while batch and poster and batch.messages <= room:
                poster.write(batch.data)
                _watch(selector, poster)
                posted += batch.messages
                room -= batch.messages
                batch = next(waiting, None)
            ready = selector.select(PATIENCE)
            assert ready, f"silence after {arrived} arrived, {acked} acked, of {messages}"
            for key, events in ready:
                link = key.data
                if events & selectors.EVENT_READ:
                    seen = link.read()
                    arrived += seen.arrived
                    acked += seen.acked
                if events & selectors.EVENT_WRITE:
                    link.flush()
                _watch(selector, link)
        took = time.perf_counter() - began
    assert arrived == wanted, f"{arrived} arrived, of {wanted}"
    assert acked == messages, f"{acked} acked, of {messages}"
    return took


def _watch(selector: selectors.BaseSelector, link: Link) -> None:
    events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.is_behind else 0)
    if selector.get_key(link.socket).events != events:
        selector.modify(link.socket, events, link)


# What a peer is asked to do.


class Work(NamedTuple):
    messages: int
    seconds: float
    load_s: float
    """CPU of this process."""


class Route(ABC):
    """A queue, or what the peer has instead, with subscriptions to all customers."""

    copies = 1
    """How many consumers get each message."""

    def __init__(self, shape: Shape, poster: Link, readers: Sequence[Link], *, is_acked: bool):
        self.shape = shape
        self._poster = poster
        self._readers = readers
        self._is_acked = is_acked
        self._random = Random(shape.subscriptions)
        self._batches: list[Batch] = []

    @abstractmethod
    def encode(self, customers: Sequence[int]) -> bytes:
        """The bytes that post a message to each."""

    def prepare(self, messages: int) -> None:
        """Make the bytes of the next round, and answer what was asked in the meantime."""
        self._draw(messages)
        for link in (self._poster, *self._readers):
            link.catch_up()

    def _draw(self, messages: int) -> list[int]:
        drawn = self.shape.drawn(messages, self._random)
        self._batches = [Batch(self.encode(some), len(some)) for some in batched(drawn, BATCH)]
        return drawn

    def run(self) -> Work:
        """Carry what was prepared."""
        messages = sum(batch.messages for batch in self._batches)
        cpu = time.process_time()
        took = carry(
            self._poster,
            self._batches,
            self._readers,
            messages,
            is_acked=self._is_acked,
            copies=self.copies,
        )
        return Work(messages, took, time.process_time() - cpu)

    def check(self, messages: int) -> None:
        """Look at where each message of a round arrives."""
        drawn = self._draw(messages)
        for reader in self._readers:
            reader.noted = []
        self.run()
        arrived = []
        for reader in self._readers:
            assert reader.noted is not None, "it was asked to"
            for consumer, body in reader.noted:
                customer = customer_of(body)
                assert body == body_of(customer), "a body as it was posted"
                assert consumer == customer % self.shape.consumers, "where it is wanted"
                arrived.append(customer)
            reader.noted = None
        assert sorted(arrived) == sorted(drawn), "each message once"

    def close(self) -> None:
        for link in (self._poster, *self._readers):
            link.close()


def batched(items: Sequence[int], size: int) -> list[Sequence[int]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


class Backlog(ABC):
    """A durable queue that is filled, then emptied."""

    @abstractmethod
    def encode(self, customers: Sequence[int]) -> bytes: ...

    @abstractmethod
    def poster(self) -> Link: ...

    @abstractmethod
    def reader(self) -> Link:
        """A consumer whose first messages may be on their way."""

    def post(self, messages: int, window: int) -> Work:
        """Until each is acked; nobody consumes."""
        batches = [
            Batch(self.encode(some), len(some))
            for some in batched(range(messages), min(BATCH, window))
        ]
        link = self.poster()
        try:
            cpu = time.process_time()
            took = carry(link, batches, (), messages, is_acked=True, window=window)
            return Work(messages, took, time.process_time() - cpu)
        finally:
            link.close()

    def consume(self, messages: int) -> Work:
        """Until the last has come, which needs confirms of all but the last few."""
        cpu, began = time.process_time(), time.perf_counter()
        link = self.reader()
        try:
            carry(None, (), (link,), messages, is_acked=False)
            took = time.perf_counter() - began
            return Work(messages, took, time.process_time() - cpu)
        finally:
            link.close()


# BMQP.

DOMAIN = "bench"
READ, WRITE = 2, 4
"""Flags of an open queue."""
QUEUE, APP = 0, 1
"""The numbers of the only queue of a connection, and of its app if that has a name."""
UNLIMITED = 1_000_000
UNLIMITED_BYTES = 1 << 40
UNCONFIRMED_MAX = 1_000
"""Messages that a consumer of a backlog holds unconfirmed."""


class BmqLink(Link):
    """A connection that has one queue open, for one app of it if that has a name."""

    def __init__(
        self, address: Address, queue: str, flags: int, consumer: int = 0, app: str = ""
    ) -> None:
        super().__init__(address)
        self._consumer = consumer
        self._app = app
        self._frames = EventFrames(1 << 26)
        self._requests = count(1)
        self._numbers: Mapping[int, int] = {}
        hello = c.ClientIdentity(process_name="bench", features="PROTOCOL_ENCODING:BER,JSON")
        self.socket.sendall(event(EventType.CONTROL, encode_negotiation(hello, Encoding.BER)))
        answer = self._next()
        welcome = decode_negotiation(answer.body, answer.encoding)
        assert isinstance(welcome, c.BrokerResponse), welcome
        assert welcome.result.category == c.Category.SUCCESS, welcome
        uri = f"bmq://{DOMAIN}/{queue}" + (f"?id={app}" if app else "")
        own = c.SubIdInfo(APP, app) if app else None
        handle = c.HandleParameters(uri, QUEUE, own, flags, int(flags == READ), int(flags == WRITE))
        self._ask(c.OpenQueue(handle))

    def subscribe(self, customers: Sequence[int]) -> None:
        """Want the messages of these."""
        limits = c.ConsumerInfo(UNLIMITED, UNLIMITED_BYTES, 0, 1)
        self._numbers = dict(enumerate(customers, 1))
        subscriptions = tuple(
            c.ConsumerSubscription(number, c.Expression(1, f'customer == "c{customer}"'), (limits,))
            for number, customer in self._numbers.items()
        )
        self._ask(c.ConfigureStream(QUEUE, c.StreamParameters("__default", subscriptions)))

    def want_all(self) -> None:
        """Want whatever is there; does not wait for the answer, since messages may come first."""
        limits = c.ConsumerInfo(UNCONFIRMED_MAX, UNLIMITED_BYTES, 0, 1)
        everything = c.ConsumerSubscription(1, c.Expression(0, ""), (limits,))
        self._tell(c.ConfigureStream(QUEUE, c.StreamParameters("__default", (everything,))))

    def _ask(self, content: c.Content) -> None:
        request = self._tell(content)
        answer = self._next()
        reply = decode_control(answer.body, answer.encoding)
        assert reply.request_id == request, reply
        assert not isinstance(reply.content, c.Status), reply.content

    def _tell(self, content: c.Content) -> int:
        request = next(self._requests)
        body = encode_control(c.ControlMessage(request, content), Encoding.BER)
        self.socket.sendall(event(EventType.CONTROL, body))
        return request

    def _next(self) -> Event:
        """The next control event; nothing else comes before messages are wanted."""
        while True:
            data = self.socket.recv(READ_BYTES)
            assert data, "the router hung up"
            for found in self._frames.feed(data):
                if found.type == EventType.CONTROL:
                    return found
                assert found.type == EventType.HEARTBEAT_REQ, found
                self.socket.sendall(HEARTBEAT_RESPONSE)

    def take(self, data: bytes) -> Seen:
        arrived = acked = 0
        confirmed: list[Confirmation] = []
        for found in self._frames.feed(data):
            if found.type == EventType.PUSH:
                pushes = parse_pushes(found.body)
                arrived += len(pushes)
                number = APP if self._app else 0
                confirmed += [Confirmation(QUEUE, push.guid, number) for push in pushes]
                if self.noted is not None:
                    self._note(pushes)
            elif found.type == EventType.ACK:
                acks = parse_acks(found.body)
                acked += len(acks)
                assert all(ack.status == AckStatus.SUCCESS for ack in acks), "a refusal"
            elif found.type == EventType.CONTROL:
                reply = decode_control(found.body, found.encoding).content
                assert isinstance(reply, c.ConfigureStreamResponse), reply
            else:
                assert found.type == EventType.HEARTBEAT_REQ, found
                self.write(HEARTBEAT_RESPONSE)
        if confirmed:
            self.write(event(EventType.CONFIRM, encode_confirms(confirmed)))
        return Seen(arrived, acked)

    def _note(self, pushes: Sequence[Push]) -> None:
        assert self.noted is not None, "somebody wants to know"
        for push in pushes:
            properties, body = open_data(
                push.data, has_properties=True, compression=0, schema=0, bytes_max=1 << 20
            )
            customer = customer_of(body)
            assert properties == properties_of(customer), "properties as they were posted"
            (number,) = push.subscriptions
            assert self._numbers[number] == customer, "the subscription that wants it"
            self.noted.append((self._consumer, body))


class Puts:
    """Makes events that post, each message with an id of its own."""

    def __init__(
        self, *, is_acked: bool, together: int = BATCH, content: Content | None = None
    ) -> None:
        self._content = content or plain
        self._flags = HAS_PROPERTIES | (ACK_REQUESTED if is_acked else 0)
        self._together = together
        """Messages in an event."""
        # The first two bits are the version of an id.
        self._prefix = b"\x40" + urandom(7)
        self._ids = count()
        self._data: dict[int, tuple[bytes, int]] = {}

    def encode(self, customers: Sequence[int]) -> bytes:
        events = []
        for some in batched(customers, self._together):
            puts = [self._put(customer) for customer in some]
            events.append(event(EventType.PUT, encode_puts(puts)))
        return b"".join(events)

    def _put(self, customer: int) -> Put:
        known = self._data.get(customer)
        if known is None:
            data = close_data(*self._content(customer))
            known = self._data[customer] = data, checksum(data)
        guid = self._prefix + next(self._ids).to_bytes(8, "big")
        return Put(QUEUE, guid, self._flags, *known)


class BmqRoute(Route):
    def __init__(
        self, address: Address, shape: Shape, *, is_acked: bool, together: int = BATCH
    ) -> None:
        readers = []
        for consumer in range(shape.consumers):
            readers.append(reader := BmqLink(address, "route", READ, consumer))
            reader.subscribe(shape.of(consumer))
            reader.free()
        poster = BmqLink(address, "route", WRITE)
        poster.free()
        super().__init__(shape, poster, readers, is_acked=is_acked)
        self._puts = Puts(is_acked=is_acked, together=together)

    def encode(self, customers: Sequence[int]) -> bytes:
        return self._puts.encode(customers)


class BmqBacklog(Backlog):
    def __init__(self, address: Address) -> None:
        self._address = address
        self._puts = Puts(is_acked=True)

    def encode(self, customers: Sequence[int]) -> bytes:
        return self._puts.encode(customers)

    def poster(self) -> Link:
        link = BmqLink(self._address, "backlog", WRITE)
        link.free()
        return link

    def reader(self) -> Link:
        link = BmqLink(self._address, "backlog", READ)
        link.want_all()
        link.free()
        return link

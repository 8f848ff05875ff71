"""One connection with a router: the hello, requests and their answers, and messages both ways.

Data of one pass of the event loop is sent together: consecutive messages in one event, and likewise
confirmations.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from headgate.client.bmq.address import Address
from headgate.client.bmq.errors import LinkBroken, RequestRefused
from headgate.core.model.limits import KiB, MiB
from headgate.errors import HeadgateError, NotConnected, ProtocolError
from headgate.wire.bmq.codec.control import (
    BrokerResponse,
    Category,
    ClientIdentity,
    Content,
    ControlMessage,
    DisconnectRequest,
    DisconnectResponse,
    Status,
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
    Ack,
    Confirmation,
    Push,
    Put,
    encode_confirms,
    encode_puts,
    parse_acks,
    parse_pushes,
)
from headgate.wire.bmq.negotiation import CONFIGURE_STREAM, offers

T = TypeVar("T")

READ_BYTES = 256 * KiB

EVENT_BYTES_MAX = 128 * MiB
"""The longest event that is read: twice the largest message of BlazingMQ."""

BATCH_BYTES = 1 * MiB
"""Size of an event of messages; a larger message is an event of its own."""

BATCH_CONFIRMATIONS = 10_000

PENDING_BYTES = 1 * MiB
"""Unwritten bytes above which callers wait, even without waiting for acknowledgements."""

GOODBYE_SECONDS = 5.0
"""Seconds for the other side to close its half."""


class Receiver(Protocol):
    """Receives pushed messages and acknowledgements."""

    def acknowledged(self, acks: Sequence[Ack]) -> None: ...

    def pushed(self, link: Link, pushes: Sequence[Push]) -> None: ...

    def lost(self, link: Link) -> None: ...


class Link:
    """One connection with a router, from its hello to its end.

    The session owns it, makes another when it is lost, and receives its messages.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        numbers: Iterator[int],
        receiver: Receiver,
    ) -> None:
        self.is_open = True
        self.reason = ""
        """The reason why it is not open any more."""
        self.has_expressions = False
        """Whether the router accepts subscriptions, or only one priority and one window."""
        self._reader = reader
        self._writer = writer
        self._numbers = numbers
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._frames = EventFrames(EVENT_BYTES_MAX)
        self._answers: dict[int, asyncio.Future[Content]] = {}
        self._puts: list[Put] = []
        self._confirmations: list[Confirmation] = []
        self._batches: list[bytes] = []
        """Events to write, before those that are being filled."""
        self._pending_bytes = 0
        """Bytes of messages that were not given to the transport."""
        self._is_flushing = False
        self._has_heard = True
        self._missed = 0
        self._missed_max = 0
        self._pulse_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        address: Address,
        identity: ClientIdentity,
        numbers: Iterator[int],
        receiver: Receiver,
    ) -> Link:
        """Connect. Raises `NotConnected`, `RequestRefused` or `ProtocolError`. Requests are
        numbered over all links of a client."""
        try:
            reader, writer = await asyncio.open_connection(
                address.host,
                address.port,
                ssl=address.context,
                server_hostname=address.server_name,
                limit=READ_BYTES,
            )
        except OSError as error:
            raise NotConnected(
                f"no router answers on {address}: {_why(error)};"
                " is [listen.bmq] in its configuration?"
            ) from error
        link = cls(reader, writer, numbers, receiver)
        try:
            await link._greet(identity)
        except BaseException as error:
            link._end(str(error))
            raise
        return link

    # Requests and messages.

    async def ask(self, content: Content, answer: type[T]) -> T:
        """The answer to a request. Raises `RequestRefused` with the router's text, and
        `LinkBroken`."""
        response = await self._send_request(content)
        if isinstance(response, answer):
            return response
        if isinstance(response, Status):
            raise RequestRefused(response)
        raise ProtocolError(f"{type(response).__name__} is no answer to {type(content).__name__}")

    def send(self, content: Content) -> None:
        """Send a request whose answer does not matter."""
        with suppress(LinkBroken):
            self._send_request(content).cancel()

    def put(self, put: Put) -> None:
        if self.is_open:
            if self._confirmations:
                self._close_batch()
            self._puts.append(put)
            self._pending_bytes += len(put.data)
            self._flush_soon()

    def confirm(self, confirmation: Confirmation) -> None:
        """Send a confirmation. If the link is closed it has no meaning, and nothing is sent."""
        if self.is_open:
            if self._puts:
                self._close_batch()
            self._confirmations.append(confirmation)
            self._flush_soon()

    async def eased(self) -> None:
        """Wait while many bytes are not written."""
        if self._pending_bytes + self._writer.transport.get_write_buffer_size() > PENDING_BYTES:
            self._flush()
            with suppress(OSError):  # nothing more will be written
                await self._writer.drain()

    # The end.

    async def over(self) -> None:
        """Wait until no more data comes."""
        assert self._reading is not None, "it has greeted"
        await asyncio.wait([self._reading])
        if not self._reading.cancelled():
            self._reading.result()

    async def leave(self) -> None:
        """Say goodbye, so that the router does not treat the client as crashed."""
        try:
            await self.ask(DisconnectRequest(), DisconnectResponse)
            self._writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._writer.wait_closed()
        except LinkBroken:
            pass  # the connection is gone already
        finally:
            self.abort("the client left")

    def abort(self, reason: str) -> None:
        self._end(reason)
        if self._reading is not None:
            self._reading.cancel()

    # Inside.

    async def _greet(self, identity: ClientIdentity) -> None:
        self._write(EventType.CONTROL, encode_negotiation(identity, Encoding.BER))
        events: list[Event] = []
        try:
            while not events:
                data = await self._reader.read(READ_BYTES)
                if not data:
                    raise NotConnected("the router closed the connection before its hello")
                events = self._frames.feed(data)
        except OSError as error:
            raise NotConnected(f"the connection broke: {error.strerror or error}") from error
        first, *others = events
        if first.type != EventType.CONTROL:
            raise ProtocolError("the router does not say hello")
        hello = decode_negotiation(first.body, first.encoding)
        if not isinstance(hello, BrokerResponse):
            raise ProtocolError("the router speaks like a client")
        if hello.result.category is not Category.SUCCESS:
            raise RequestRefused(hello.result)
        self.has_expressions = offers(hello.broker_identity.features, CONFIGURE_STREAM)
        self._pulse_seconds = hello.heartbeat_interval_ms / 1000
        self._missed_max = hello.max_missed_heartbeats
        if self._pulse_seconds > 0 and self._missed_max > 0:
            self._timer = self._loop.call_later(self._pulse_seconds, self._beat)
        self._take(others)
        self._reading = asyncio.create_task(self._read(), name="bmq link")

    async def _read(self) -> None:
        reason = "a mistake in the client"
        try:
            while data := await self._reader.read(READ_BYTES):
                self._has_heard = True
                self._take(self._frames.feed(data))
            reason = "the router closed the connection"
        except OSError as error:
            reason = str(error.strerror or error)
        except HeadgateError as error:
            reason = f"the router broke the protocol: {error}"
        finally:
            self._end(reason)

    def _take(self, events: Sequence[Event]) -> None:
        for each in events:
            match each.type:
                case EventType.PUSH:
                    self._receiver.pushed(self, parse_pushes(each.body))
                case EventType.ACK:
                    self._receiver.acknowledged(parse_acks(each.body))
                case EventType.CONTROL:
                    self._answered(decode_control(each.body, each.encoding))
                case EventType.HEARTBEAT_REQ:
                    self._writer.write(HEARTBEAT_RESPONSE)
                case EventType.HEARTBEAT_RSP:
                    pass  # that it came is enough
                case other:
                    raise ProtocolError(f"an event of type {other}")

    def _answered(self, message: ControlMessage) -> None:
        """Ignore a response whose request timed out."""
        if message.request_id is not None:
            future = self._answers.pop(message.request_id, None)
            if future is not None and not future.done():
                future.set_result(message.content)

    def _send_request(self, content: Content) -> asyncio.Future[Content]:
        """Send a request after all earlier data."""
        if not self.is_open:
            raise LinkBroken(self.reason)
        number = next(self._numbers)
        future = self._answers[number] = self._loop.create_future()
        future.add_done_callback(lambda _: self._answers.pop(number, None))
        self._flush()
        body = encode_control(ControlMessage(number, content), Encoding.BER)
        self._write(EventType.CONTROL, body)
        return future

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self.is_open:
            self._close_batch()
            batches, self._batches, self._pending_bytes = self._batches, [], 0
            self._writer.write(b"".join(batches))

    def _close_batch(self) -> None:
        """End the present event: the next one is of the other kind, and the order has to stay."""
        puts, self._puts = self._puts, []
        for some in _batches(puts):
            self._batches.append(event(EventType.PUT, encode_puts(some)))
        done, self._confirmations = self._confirmations, []
        for start in range(0, len(done), BATCH_CONFIRMATIONS):
            confirms = encode_confirms(done[start : start + BATCH_CONFIRMATIONS])
            self._batches.append(event(EventType.CONFIRM, confirms))

    def _write(self, type: EventType, body: bytes) -> None:
        self._writer.write(event(type, body, Encoding.BER))

    def _beat(self) -> None:
        """Send a heartbeat if no data came."""
        if self._has_heard:
            self._missed = 0
        elif self._missed >= self._missed_max:
            self._end("the router is silent")
            return
        else:
            self._missed += 1
            self._writer.write(HEARTBEAT_REQUEST)
        self._has_heard = False
        self._timer = self._loop.call_later(self._pulse_seconds, self._beat)

    def _end(self, reason: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.reason = reason
        if self._timer is not None:
            self._timer.cancel()
        self._writer.transport.abort()
        for future in list(self._answers.values()):
            if not future.done():
                future.set_exception(LinkBroken(reason))
        self._receiver.lost(self)


def _batches(puts: Sequence[Put]) -> Iterator[Sequence[Put]]:
    start = size = 0
    for place, put in enumerate(puts):
        if place > start and size + len(put.data) > BATCH_BYTES:
            yield puts[start:place]
            start, size = place, 0
        size += len(put.data)
    if start < len(puts):
        yield puts[start:]


def _why(error: OSError) -> str:
    """The system's words; asyncio's own name the address once more."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return error.strerror or str(error)

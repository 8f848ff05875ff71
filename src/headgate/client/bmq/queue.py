"""An open queue, for posting and reading."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from headgate.client.bmq.errors import Closed, LinkBroken, Unreadable, within
from headgate.client.bmq.link import Link
from headgate.client.bmq.session import Session
from headgate.client.bmq.subscription import Subscription, checked
from headgate.core.model.ids import MessageId
from headgate.core.model.limits import Limits, MiB
from headgate.core.model.message import NO_PROPERTIES, Message, Properties, check
from headgate.core.model.queue_uri import QueueUri
from headgate.errors import BadMessage, HeadgateError, Prohibited, Refused, TimedOut
from headgate.wire.bmq.codec import control
from headgate.wire.bmq.codec.control import (
    DEFAULT_APP,
    NO_PRIORITY,
    CloseQueue,
    CloseQueueResponse,
    ConfigureQueueStream,
    ConfigureQueueStreamResponse,
    ConfigureStream,
    ConfigureStreamResponse,
    ConsumerInfo,
    Expression,
    HandleParameters,
    OpenQueue,
    OpenQueueResponse,
    QueueStreamParameters,
    StreamParameters,
    SubIdInfo,
)
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    HAS_PROPERTIES,
    OUT_OF_ORDER,
    Confirmation,
    Push,
    Put,
)
from headgate.wire.bmq.codec.payload import BadData, Compression, checksum, close_data, open_data
from headgate.wire.bmq.requests import LANGUAGE, NO_EXPRESSION, READ, WRITE

BODY_BYTES_MAX = 64 * MiB
"""BlazingMQ's largest message, and the largest that is inflated."""

COMPRESSED_BYTES = 1024
"""Smaller bodies are not compressed."""

LIMITS = Limits(body_bytes=BODY_BYTES_MAX, properties_bytes=BODY_BYTES_MAX)
"""The wire's limits. A router may have others, and reports them."""

EVERYTHING = (Subscription(),)


@dataclass(slots=True, eq=False)
class Delivery:
    """A message, held until it is confirmed or the connection is lost."""

    guid: bytes
    body: bytes
    properties: Properties
    subscription: Subscription
    """The subscription that matched it."""
    is_redelivered: bool
    """Whether another consumer was lost with it, as far as the router knows."""
    _queue: Queue = field(repr=False)
    _link: Link = field(repr=False)

    async def confirm(self) -> None:
        """See `Queue.confirm`."""
        await self._queue.confirm(self)


class Queue:
    """An open queue, made by `Client.open`. Read it with ``async for``, which ends when it is
    closed."""

    def __init__(
        self,
        session: Session,
        uri: QueueUri,
        flags: int,
        subscriptions: tuple[Subscription, ...],
        compression: Compression,
    ) -> None:
        self.name = uri
        self.uri = f"{uri.canonical}?id={uri.app}" if uri.app else uri.canonical
        self.subscriptions = subscriptions
        """The present subscriptions; none if the queue is paused, or only written."""
        self.number, self._app_number = session.numbers(uri)
        self.is_open = False
        """Whether the router has ever opened it."""
        self._session = session
        self._flags = flags
        self._compression = compression
        self._numbered: dict[int, Subscription] = {}
        """By the numbers of the last configure."""
        self._arriving: dict[int, Subscription] = {}
        """The subscriptions of the configure before it, whose messages may still be on their
        way."""
        self._inbox: deque[tuple[Link, Push, Subscription]] = deque()
        self._news = asyncio.Event()
        self._over: HeadgateError | None = None
        self._configuring = asyncio.Lock()

    # Posting.

    async def post(
        self, body: bytes, properties: Properties = NO_PROPERTIES, *, acknowledged: bool = True
    ) -> bytes:
        """Post a message and return its id, when the router has accepted it.

        Raises `NotAccepted` if the router refuses it. After `TimedOut` the outcome is unknown.
        Without `acknowledged` it returns at once, and the outcome stays unknown.
        """
        put = self._put(body, properties, ACK_REQUESTED if acknowledged else 0)
        seconds = self._session.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                await (self._acknowledged(put) if acknowledged else self._sent(put))
        except TimeoutError:
            raise TimedOut(f"posting to {self.uri}", seconds) from None
        return put.guid

    def _put(self, body: bytes, properties: Properties, flags: int) -> Put:
        self._check()
        if not self._flags & WRITE:
            raise Prohibited(f"{self.uri} was not opened to write")
        if not body:
            raise BadMessage("a message has a body")
        guid = self._session.guids.make()
        check(Message(MessageId(guid), body, 0.0, properties), LIMITS)
        is_long = len(body) > COMPRESSED_BYTES
        compression = self._compression if is_long else Compression.NONE
        try:
            data = close_data(properties, body, compression)
        except (struct.error, TypeError, AttributeError, BadData) as error:
            raise BadMessage(f"a property does not fit its type: {error}") from error
        if properties:
            flags |= HAS_PROPERTIES
        return Put(self.number, guid, flags, data, checksum(data), compression)

    async def _acknowledged(self, put: Put) -> None:
        post = self._session.posts.add(put)
        try:
            await post.done
        finally:
            self._session.posts.discard(post)

    async def _sent(self, put: Put) -> None:
        link = await self._session.connected()
        link.put(put)
        await link.eased()

    # Reading.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        """The next message. Raises `Unreadable` for one whose data is wrong; iteration can go on
        after it."""
        while not self._inbox:
            if isinstance(self._over, Closed):
                raise StopAsyncIteration
            self._check()
            self._check_reads()
            self._news.clear()
            await self._news.wait()
        link, push, subscription = self._inbox.popleft()
        delivery = Delivery(
            push.guid,
            push.data,
            NO_PROPERTIES,
            subscription,
            bool(push.flags & OUT_OF_ORDER),
            self,
            link,
        )
        try:
            delivery.properties, delivery.body = open_data(
                push.data,
                has_properties=bool(push.flags & HAS_PROPERTIES),
                compression=push.compression,
                schema=push.schema,
                bytes_max=BODY_BYTES_MAX,
            )
        except HeadgateError as error:
            raise Unreadable(delivery, error) from error
        return delivery

    async def confirm(self, delivery: Delivery) -> None:
        """Confirm a message, so that it does not come again.

        If its connection was lost meanwhile this does nothing: the router has given the message to
        another consumer, or it comes again here. Confirmations of one pass of the event loop are
        sent together.
        """
        if self._over is None:
            confirmation = Confirmation(self.number, delivery.guid, self._app_number)
            delivery._link.confirm(confirmation)

    async def configure(self, subscriptions: Iterable[Subscription]) -> None:
        """Replace the subscriptions; without any, all messages are read.

        Delivered messages stay delivered. If one subscription is refused nothing changes.
        """
        await self._configure(checked(subscriptions) or EVERYTHING)

    async def pause(self) -> None:
        """Stop deliveries until `configure`."""
        await self._configure(())

    async def _configure(self, subscriptions: tuple[Subscription, ...]) -> None:
        self._check()
        self._check_reads()
        timeout = self._session.settings.timeout
        async with within(timeout, f"configuring {self.uri}"), self._configuring:
            await self._session.asking(lambda link: self._ask(link, subscriptions))
            self.subscriptions = subscriptions

    async def close(self) -> None:
        """Wait for posts on their way, and close. Other consumers get the unconfirmed messages."""
        if self._over is not None:
            return
        async with within(self._session.settings.timeout, f"closing {self.uri}"):
            await self._session.posts.settled(self.number)
            if self._over is not None:
                return
            self.end(Closed(f"{self.uri} was closed"))
            self.is_open = False
            try:
                await self._leave(self._session.link)
            finally:
                self._session.remove(self)

    async def _leave(self, link: Link | None) -> None:
        """Close at the router. Without a link the queue is closed there already."""
        if link is None:
            return
        try:
            if self.subscriptions:
                await self._ask(link, ())
            await link.ask(self._goodbye(), CloseQueueResponse)
        except LinkBroken:
            pass
        except BaseException:
            self.abandon(link)
            raise

    # Calls of the session and the client.

    async def open(self, link: Link) -> None:
        """Open the queue on a link, for reading and writing."""
        self._numbered = {}
        self._arriving = {}
        await link.ask(OpenQueue(self._handle()), OpenQueueResponse)
        if self.subscriptions:
            try:
                await self._ask(link, self.subscriptions)
            except Refused:
                await link.ask(self._goodbye(), CloseQueueResponse)
                raise
        self.is_open = True

    def abandon(self, link: Link) -> None:
        link.send(self._goodbye())

    def take(self, link: Link, push: Push, subscription: int) -> bool:
        found = self._arriving.get(subscription)
        if found is None:
            if subscription or not self._numbered:
                return False
            found = next(iter(self._numbered.values()))  # without a name, there is only one
        if self._over is None:
            self._inbox.append((link, push, found))
            self._news.set()
        return True

    def lost(self, link: Link) -> None:
        """Note that a link was lost: its messages come again."""
        self._inbox = deque(each for each in self._inbox if each[0] is not link)

    def end(self, error: HeadgateError) -> None:
        if self._over is None:
            self._over = error
            self._inbox.clear()
            self._news.set()
            if self._flags & WRITE:
                self._session.posts.fail(error, self.number)

    # Inside.

    def _check(self) -> None:
        if self._over is not None:
            raise self._over

    def _check_reads(self) -> None:
        if not self._flags & READ:
            raise Prohibited(f"{self.uri} was not opened to read")

    def _sub_id(self) -> SubIdInfo | None:
        return SubIdInfo(self._app_number, self.name.app) if self.name.app else None

    def _handle(self) -> HandleParameters:
        reads, writes = bool(self._flags & READ), bool(self._flags & WRITE)
        return HandleParameters(
            self.uri, self.number, self._sub_id(), self._flags, int(reads), int(writes)
        )

    def _goodbye(self) -> CloseQueue:
        return CloseQueue(self._handle(), self._session.is_last(self))

    async def _ask(self, link: Link, subscriptions: tuple[Subscription, ...]) -> None:
        """Configure these subscriptions on a link. Messages before the answer are accepted if the
        old or the new ones match."""
        if link.has_expressions:
            numbers = self._session.subscription_numbers
            numbered = {next(numbers): subscription for subscription in subscriptions}
            self._arriving.update(numbered)
            await link.ask(self._stream(numbered), ConfigureStreamResponse)
        else:
            request = self._plain_stream(subscriptions)
            numbered = dict(zip([self._app_number], subscriptions, strict=False))
            self._arriving.update(numbered)
            await link.ask(request, ConfigureQueueStreamResponse)
        self._arriving = {**self._numbered, **numbered}
        self._numbered = numbered

    def _stream(self, numbered: Mapping[int, Subscription]) -> ConfigureStream:
        return ConfigureStream(
            self.number,
            StreamParameters(
                self.name.app or DEFAULT_APP,
                tuple(_on_the_wire(number, each) for number, each in numbered.items()),
            ),
        )

    def _plain_stream(self, subscriptions: Sequence[Subscription]) -> ConfigureQueueStream:
        """The settings for a broker without subscriptions: all messages, or none."""
        if len(subscriptions) > 1 or any(each.expression is not None for each in subscriptions):
            raise Prohibited(
                "this broker knows no subscriptions: one without an expression is all it takes"
            )
        if not subscriptions:
            return ConfigureQueueStream(
                self.number, QueueStreamParameters(self._sub_id(), 0, 0, NO_PRIORITY, 0)
            )
        [wanted] = subscriptions
        return ConfigureQueueStream(
            self.number,
            QueueStreamParameters(
                self._sub_id(),
                wanted.max_unconfirmed_messages,
                wanted.max_unconfirmed_bytes,
                wanted.priority,
                1,
            ),
        )


def _on_the_wire(number: int, subscription: Subscription) -> control.ConsumerSubscription:
    text = subscription.expression
    expression = Expression(NO_EXPRESSION, "") if text is None else Expression(LANGUAGE, text)
    consumer = ConsumerInfo(
        subscription.max_unconfirmed_messages,
        subscription.max_unconfirmed_bytes,
        subscription.priority,
        1,
    )
    return control.ConsumerSubscription(number, expression, (consumer,))

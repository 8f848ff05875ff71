"""A client's requests as commands, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from headgate.core import commands as core
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, AppId, QueueId, SessionId
from headgate.core.model.queue_uri import parse_uri
from headgate.core.model.value import value
from headgate.core.model.window import Window
from headgate.wire.bmq.codec.control import (
    DEFAULT_APP,
    CloseQueue,
    CloseQueueResponse,
    ConfigureQueueStream,
    ConfigureQueueStreamResponse,
    ConfigureStream,
    ConfigureStreamResponse,
    ConsumerSubscription,
    Content,
    OpenQueue,
    OpenQueueResponse,
    RoutingConfiguration,
)
from headgate.wire.bmq.codec.steps import STEP_ITEMS, Steps
from headgate.wire.bmq.errors import BadRequest
from headgate.wire.bmq.open_queues import Stream, Streams

READ, WRITE = 2, 4
"""Flags of an open queue."""

AT_MOST_ONCE, BY_PRIORITY, TO_ALL, HAS_APPS = 1, 2, 4, 8
ROUTING = {
    Mode.PRIORITY: BY_PRIORITY,
    Mode.FANOUT: BY_PRIORITY | HAS_APPS,
    Mode.BROADCAST: AT_MOST_ONCE | BY_PRIORITY | TO_ALL,
}

NO_EXPRESSION, LANGUAGE = 0, 1
"""Versions of an expression."""

PRIORITIES = range(-(2**31), 2**31)

Command: TypeAlias = core.Open | core.Configure | core.Close
Configures: TypeAlias = ConfigureQueueStream | ConfigureStream
Request: TypeAlias = OpenQueue | Configures | CloseQueue


@value
class PendingRequest:
    """A request under way: how its answer is recognised, and what it is about."""

    number: int | None
    request: Request
    stream: Stream
    subscriptions: tuple[int, ...] = ()
    """The client's numbers of a configure's subscriptions."""
    answer: bytes = b""
    """The answer, written beforehand if that takes long."""


class ControlRequests:
    """Turns control requests of a client into commands, and their effects into answers.

    Owned by the session. Every request gets one answer, under its number.
    """

    def __init__(
        self, session: SessionId, streams: Streams, domain: Callable[[str], Domain | None]
    ) -> None:
        self._session = session
        self._streams = streams
        self._domain = domain
        self.client = ""
        """The name that the client proved, if it had to."""

    def read(self, number: int | None, request: Request) -> Steps[Command]:
        """The command of a request; raise if there is none."""
        match request:
            case OpenQueue():
                return self._open(number, request)
            case CloseQueue():
                return self._close(number, request)
            case _:
                return (yield from self._configure(number, request))

    def answer(self, asked: PendingRequest) -> Content:
        """The answer to a request that was carried out."""
        request, stream = asked.request, asked.stream
        match request:
            case OpenQueue():
                domain = self._domain(parse_uri(request.handle.uri).domain)
                assert domain is not None, "a domain never goes while the router runs"
                return OpenQueueResponse(
                    request,
                    RoutingConfiguration(ROUTING[domain.mode]),
                    round(domain.deduplication_time * 1000),
                )
            case CloseQueue():
                self._streams.remove(stream)
                return CloseQueueResponse()
            case ConfigureQueueStream():
                stream.subscriptions = asked.subscriptions
                return ConfigureQueueStreamResponse(request)
            case ConfigureStream():
                stream.subscriptions = asked.subscriptions
                return ConfigureStreamResponse(request)

    def failed(self, asked: PendingRequest) -> None:
        """The answer to a request that was refused."""
        if isinstance(asked.request, OpenQueue):
            self._streams.remove(asked.stream)

    def _open(self, number: int | None, request: OpenQueue) -> core.Open:
        """Open a stream. It exists from here on: messages for it come after the answer."""
        handle = request.handle
        uri = parse_uri(handle.uri)
        queue = QueueId(uri.canonical.encode())
        info = handle.sub_id_info
        if info is not None and _app(info.app_id) != uri.app:
            raise BadRequest("the address names another app")
        if not handle.flags & (READ | WRITE):
            raise BadRequest("a queue is opened for reading, writing or both")
        stream = Stream(handle.queue_id, info.sub_id if info is not None else 0, queue, uri.app)
        self._streams.add(stream)
        return core.Open(
            self._session,
            PendingRequest(number, request, stream),
            queue,
            uri.domain,
            stream.app,
            read=bool(handle.flags & READ),
            write=bool(handle.flags & WRITE),
            client=self.client,
        )

    def _close(self, number: int | None, request: CloseQueue) -> core.Close:
        handle = request.handle
        info = handle.sub_id_info
        stream = self._streams.find(handle.queue_id, info.sub_id if info is not None else 0)
        if stream is None:
            raise BadRequest("the queue is not open")
        return core.Close(
            self._session, PendingRequest(number, request, stream), stream.queue, stream.app
        )

    def _configure(self, number: int | None, request: Configures) -> Steps[core.Configure]:
        if isinstance(request, ConfigureStream):
            queue = self._streams.queue(request.queue_id)
            app = _app(request.stream.app_id)
            stream = self._streams.of_app(queue, app) if queue is not None else None
        else:
            info = request.stream.sub_id_info
            stream = self._streams.find(request.queue_id, info.sub_id if info is not None else 0)
        if stream is None:
            raise BadRequest("the queue is not open")
        if isinstance(request, ConfigureStream):
            pairs = yield from _interests(request.stream.subscriptions)
        else:
            pairs = _interest(request, stream.number)
        return core.Configure(
            self._session,
            PendingRequest(number, request, stream, tuple(number for number, _ in pairs)),
            stream.queue,
            tuple(interest for _, interest in pairs),
            stream.app,
        )


Pairs: TypeAlias = Sequence[tuple[int, core.Interest]]
"""Subscriptions with the client's number of each."""


def _interests(subscriptions: Sequence[ConsumerSubscription]) -> Steps[Pairs]:
    """The interests of subscriptions. A client that stands for several consumers has a place in the
    rotation for each of them."""
    pairs: list[tuple[int, core.Interest]] = []
    for subscription in subscriptions:
        expression = subscription.expression
        if expression.version not in (NO_EXPRESSION, LANGUAGE):
            raise BadRequest(f"no version {expression.version} of expressions")
        text = expression.text if expression.version == LANGUAGE else None
        if text is None and expression.text:
            raise BadRequest("an expression without a version")
        for consumer in subscription.consumers:
            window = _window(consumer.max_unconfirmed_messages, consumer.max_unconfirmed_bytes)
            priority = _priority(consumer.consumer_priority)
            pairs.append((subscription.s_id, core.Interest(text, priority, window)))
            if not len(pairs) % STEP_ITEMS:
                yield
    return pairs


def _interest(request: ConfigureQueueStream, number: int) -> Pairs:
    """Interest in all messages, or in none: that is how a consumer announces that it will close the
    queue."""
    stream = request.stream
    if not stream.consumer_priority_count:
        return ()
    window = _window(stream.max_unconfirmed_messages, stream.max_unconfirmed_bytes)
    priority = _priority(stream.consumer_priority)
    return ((number, core.Interest(None, priority, window)),)


def _window(messages: int, bytes: int) -> Window:
    if messages < 0 or bytes < 0:
        raise BadRequest("a window is not negative")
    return Window(messages, bytes)


def _priority(priority: int) -> int:
    if priority not in PRIORITIES:
        raise BadRequest("a priority has 32 bits")
    return priority


def _app(name: str) -> AppId:
    return WHOLE if name == DEFAULT_APP else name

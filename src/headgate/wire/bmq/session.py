"""One client's session: its hello, then events in and events out.

Events are taken up in order while the router has room: a client whose requests wait for turns is
not read meanwhile, so that it holds a bounded number of bytes here, however much it sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from headgate.core import commands as core
from headgate.core import effects as e
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import KiB, Limits
from headgate.core.model.value import value
from headgate.errors import HeadgateError, ProtocolError
from headgate.wire.bmq.codec.control import (
    AdminCommand,
    Category,
    ClientIdentity,
    CloseQueue,
    ConfigureQueueStream,
    ConfigureStream,
    ConfigureStreamResponse,
    Content,
    ControlMessage,
    DisconnectRequest,
    DisconnectResponse,
    OpenQueue,
    Status,
    Unknown,
)
from headgate.wire.bmq.codec.control_encoding import (
    decode_negotiation,
    decoding_control,
    encode_control,
    encode_negotiation,
    encoding_control,
)
from headgate.wire.bmq.codec.frames import (
    HEARTBEAT_RESPONSE,
    Encoding,
    Event,
    EventFrames,
    EventType,
    Malformed,
    event,
)
from headgate.wire.bmq.codec.messages import (
    HAS_PROPERTIES,
    OUT_OF_ORDER,
    Ack,
    AckStatus,
    Confirmation,
    Put,
    confirms_in,
    encode_push,
    puts_in,
)
from headgate.wire.bmq.codec.payload import close_data
from headgate.wire.bmq.codec.steps import Steps
from headgate.wire.bmq.errors import ack_status_of, status_of
from headgate.wire.bmq.incoming import NO_QUEUE, REFUSED_WORK, Incoming, Posted
from headgate.wire.bmq.negotiation import Pulse, encoding_for, name_of, token_of, welcome
from headgate.wire.bmq.open_queues import Streams
from headgate.wire.bmq.outgoing import Outgoing
from headgate.wire.bmq.port import BmqPort
from headgate.wire.bmq.requests import Command, ControlRequests, PendingRequest

HELLO_BYTES = 64 * KiB
"""Longest first event of a client, which is still unknown."""

HEARTBEAT_WORK = 4
REQUEST_WORK = 8
STEP_WORK = 128
"""Work of answering a heartbeat, and of reading a request or one further step of it."""

NOT_SUPPORTED = Status(
    Category.NOT_SUPPORTED, Category.NOT_SUPPORTED, "this router has no such request"
)


@value
class Asking:
    """A request that is being read in steps."""

    steps: Iterator[None]


Work: TypeAlias = Event | Asking | Iterator[Put] | Iterator[Confirmation]
"""An event, or the rest of one."""


class BmqSession:
    """One BlazingMQ client: events in, commands to the core, acks and pushes out.

    The server owns it with a connection. Answers are in order with the messages around them; it
    takes up no more than its bounds while the core is behind.
    """

    __slots__ = (
        "_encoding",
        "_frames",
        "_goodbye",
        "_host",
        "_incoming",
        "_is_paused",
        "_is_refused",
        "_limits",
        "_pulse",
        "_requests",
        "_router",
        "_streams",
        "_work",
        "_work_bytes",
        "has_left",
        "id",
    )

    def __init__(
        self, host: BmqPort, id: SessionId, router: ClientIdentity, pulse: Pulse, limits: Limits
    ) -> None:
        self.id = id
        self._host = host
        self._router = router
        self._pulse = pulse
        self._limits = limits
        self._frames = EventFrames(HELLO_BYTES)
        self._encoding: Encoding | None = None
        """Encoding of answers to the client; None before its hello."""
        self._streams = Streams()
        self._incoming = Incoming(host, id, self._streams, limits)
        self._requests = ControlRequests(id, self._streams, host.domain)
        self._work: deque[tuple[Work, int]] = deque()
        """Events to take up, each with the bytes that it holds."""
        self._work_bytes = 0
        self._is_paused = False
        self._is_refused = False
        """Whether its hello was refused: nothing else is taken up."""
        self._goodbye: ControlMessage | None = None
        """The last message, written when everything else is answered."""
        self.has_left = False
        """Whether the client has closed the session itself."""

    # Calls of the connection.

    def receive(self, data: bytes) -> None:
        try:
            for each in self._frames.cut(data):
                self._add(each, len(each.body))
                if not self.has_greeted:
                    self.go_on()  # which sets the limit for the next event
        except Malformed as error:
            self.go_on()
            self._host.close(f"malformed: {error}")
            return
        self.go_on()

    @property
    def held(self) -> int:
        """Bytes received and not taken up."""
        return self._frames.held + self._work_bytes

    @property
    def is_unanswered(self) -> bool:
        """Whether a request of the client is under way."""
        return bool(self._incoming.unanswered or self._work or self._incoming.commands)

    @property
    def has_greeted(self) -> bool:
        return self._encoding is not None

    def go_on(self) -> None:
        """Take up received events while there is room, some at a time."""
        incoming = self._incoming
        incoming.submit()
        incoming.taken = incoming.inflated = 0
        wrong: ProtocolError | None = None
        try:
            while self._is_behind and incoming.has_room and incoming.has_time:
                if incoming.unopened is not None:
                    incoming.inflate(*incoming.unopened)
                    continue
                work, size = self._work.popleft()
                self._work_bytes -= size
                self._take(work, size)
        except ProtocolError as error:
            wrong = error
            incoming.unopened = None
            self._work.clear()
            self._work_bytes = 0
        if not incoming.is_held:
            incoming.submit()
        if incoming.refused:
            incoming.write_refused()
        if wrong is not None:
            self._host.close(f"malformed: {wrong}")
        if self._is_behind and incoming.has_room:
            self._host.soon()
        is_behind = bool(self._is_behind or incoming.commands)
        if is_behind is not self._is_paused:
            self._is_paused = is_behind
            (self._host.pause if is_behind else self._host.resume)()

    def _add(self, work: Work, size: int) -> None:
        self._work.append((work, size))
        self._work_bytes += size

    def _put_back(self, work: Work, size: int) -> None:
        """Put the rest of an event back as the next one to take up."""
        self._work.appendleft((work, size))
        self._work_bytes += size

    @property
    def _is_behind(self) -> bool:
        """Whether received events are not taken up yet."""
        return bool(self._work) or self._incoming.unopened is not None

    # Calls of the core.

    def write_effects(self, effects: Sequence[e.Effect]) -> None:
        """Write the effects. Answers are in order with the messages around them."""
        out, incoming = Outgoing(), self._incoming
        for effect in effects:
            if type(effect) is e.Deliver:
                self._push(effect, out)
                continue
            ref = e.ref_of(effect)
            if isinstance(ref, Posted):
                incoming.unanswered -= 1
                incoming.unanswered_bytes -= ref.size
                if isinstance(effect, e.Failed):
                    out.acks.append(Ack(ack_status_of(effect.error), ref.guid, ref.queue))
                elif ref.wants_ack:
                    out.acks.append(Ack(AckStatus.SUCCESS, ref.guid, ref.queue))
            elif isinstance(ref, PendingRequest):
                incoming.unanswered -= 1
                content = self._outcome(ref, effect)
                is_written = ref.answer and not isinstance(content, Status)
                out.reply(ref.answer if is_written else self._reply(ref.number, content))
            elif isinstance(effect, e.Revoked):
                self._host.close(f"rights in the domain {effect.domain} changed")
            elif isinstance(effect, e.Removed):
                self._host.close("a queue that it had open was removed")
        if self._goodbye is not None and not incoming.unanswered:
            out.reply(self._last_words())
        if out.has_any:
            self._host.write(out.taken(), out.messages)
        if self._is_paused:
            self.go_on()

    def _outcome(self, asked: PendingRequest, effect: e.Effect) -> Content:
        if not isinstance(asked.request, OpenQueue):
            self._incoming.is_changing = False
        if isinstance(effect, e.Failed):
            self._requests.failed(asked)
            return status_of(effect.error)
        return self._requests.answer(asked)

    def _push(self, delivery: e.Deliver, out: Outgoing) -> None:
        stream = self._streams.of_app(delivery.queue, delivery.app)
        assert stream is not None, "what is delivered is for an open queue"
        message = delivery.message
        flags = HAS_PROPERTIES if message.properties else 0
        if delivery.attempts:
            flags |= OUT_OF_ORDER
        [place] = delivery.interests
        out.push(
            encode_push(
                stream.queue_number,
                stream.guid(message.id),
                flags,
                close_data(message.properties, message.body),
                stream.subscriptions[place],
            )
        )

    # Events.

    def _take(self, work: Work, size: int) -> None:
        if isinstance(work, Asking):
            self._go_on_asking(work, size)
            return
        if not isinstance(work, Event):
            if not self._incoming.take(work):
                self._put_back(work, size)
            return
        if self._encoding is None:
            self._greeted(work)
            return
        if self.has_left or self._is_refused:
            return
        match work.type:
            case EventType.PUT:
                puts = puts_in(work.body)
                if not self._incoming.take(puts):
                    self._put_back(puts, size)
            case EventType.CONFIRM:
                confirms = confirms_in(work.body)
                if not self._incoming.take(confirms):
                    self._put_back(confirms, size)
            case EventType.CONTROL:
                self._incoming.end_confirming()
                self._incoming.taken += REQUEST_WORK
                self._go_on_asking(Asking(self._asked(work)), size)
            case EventType.HEARTBEAT_REQ:
                self._incoming.taken += HEARTBEAT_WORK
                self._host.write(HEARTBEAT_RESPONSE, 0)
            case EventType.HEARTBEAT_RSP:
                pass  # that it came is enough
            case other:
                raise Malformed(f"event of type {other}")

    def _greeted(self, first: Event) -> None:
        if first.type != EventType.CONTROL:
            raise Malformed("no hello")
        hello = decode_negotiation(first.body, first.encoding)
        if not isinstance(hello, ClientIdentity):
            raise Malformed("a hello is a client's identity")
        self._encoding = encoding_for(hello)
        self._frames.bytes_max = self._limits.event_bytes
        token = token_of(hello)
        client = self._host.identify(token)
        self._host.named(name_of(hello, client or ""))
        response = welcome(hello, self._router, self._pulse, is_known=client is not None)
        body = encode_negotiation(response, self._encoding)
        answer = event(EventType.CONTROL, body, self._encoding)
        self._is_refused = response.result.category is not Category.SUCCESS
        if client is None:
            self._host.turn_away(token, answer)
            return
        self._requests.client = client
        self._host.write(answer, 0)
        if self._is_refused:
            self._host.close(f"hello refused: {response.result.message}")

    # Requests.

    def _go_on_asking(self, asking: Asking, size: int) -> None:
        """Read on in a request while there is time; the rest of it stays the next work."""
        for _ in asking.steps:
            self._incoming.taken += STEP_WORK
            if not self._incoming.has_time:
                self._put_back(asking, size)
                return

    def _asked(self, control: Event) -> Steps[None]:
        """Read a request and submit its command, a part at a time."""
        message = yield from decoding_control(control.body, control.encoding)
        number, content = message.request_id, message.content
        match content:
            case OpenQueue() | ConfigureQueueStream() | ConfigureStream() | CloseQueue():
                try:
                    command = yield from self._requests.read(number, content)
                except HeadgateError as error:
                    self._incoming.taken += REFUSED_WORK
                    self._host.refused(NO_QUEUE, error)
                    self._respond(number, status_of(error))
                    return
                if isinstance(content, ConfigureStream):
                    command = yield from self._with_answer(command, content)
                self._incoming.unanswered += 1
                self._incoming.is_changing = not isinstance(content, OpenQueue)
                self._incoming.add(command)
            case DisconnectRequest():
                self.has_left = True
                self._goodbye = ControlMessage(number, DisconnectResponse())
                self._incoming.add(core.Disconnect(self.id, lost=False))
                if not self._incoming.unanswered:
                    self._host.write(self._last_words(), 0)
            case AdminCommand() | Unknown():
                self._incoming.taken += REFUSED_WORK
                self._respond(number, NOT_SUPPORTED)
            case _:
                raise Malformed(f"a client does not say {type(content).__name__}")

    def _with_answer(self, command: Command, request: ConfigureStream) -> Steps[Command]:
        """The command with its answer, which repeats the request and may be long."""
        asked = command.ref
        assert isinstance(asked, PendingRequest), (
            "a command of ours knows the request that it is for"
        )
        assert self._encoding is not None, "the client has said hello"
        message = ControlMessage(asked.number, ConfigureStreamResponse(request))
        body = yield from encoding_control(message, self._encoding)
        answer = event(EventType.CONTROL, body, self._encoding)
        return replace(command, ref=replace(asked, answer=answer))

    def _respond(self, number: int | None, content: Content) -> None:
        self._host.write(self._reply(number, content), 0)

    def _reply(self, number: int | None, content: Content) -> bytes:
        assert self._encoding is not None, "the client has said hello"
        body = encode_control(ControlMessage(number, content), self._encoding)
        return event(EventType.CONTROL, body, self._encoding)

    def _last_words(self) -> bytes:
        goodbye, self._goodbye = self._goodbye, None
        assert goodbye is not None, "said once"
        return self._reply(goodbye.request_id, goodbye.content)

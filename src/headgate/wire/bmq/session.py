"""One client's session: its hello, then events in and events out.

Events are taken up in their order, as far as the router has room: a client whose requests wait for
their turn is not read meanwhile, so that it holds a bounded number of bytes here, however much
it sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from headgate.core import commands as core
from headgate.core import effects as e
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.core.model.message import Message
from headgate.core.model.value import value
from headgate.errors import HeadgateError, Overloaded, ProtocolError
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
    ACK_REQUESTED,
    HAS_PROPERTIES,
    OUT_OF_ORDER,
    Ack,
    AckStatus,
    Confirmation,
    Put,
    confirms_in,
    encode_acks,
    encode_push,
    puts_in,
)
from headgate.wire.bmq.codec.payload import PayloadDecoder, checksum, close_data, open_data
from headgate.wire.bmq.codec.steps import Steps
from headgate.wire.bmq.errors import BadRequest, ack_status_of, status_of
from headgate.wire.bmq.negotiation import Pulse, encoding_for, name_of, token_of, welcome
from headgate.wire.bmq.open_queues import Stream, Streams
from headgate.wire.bmq.outgoing import Outgoing
from headgate.wire.bmq.port import BmqPort
from headgate.wire.bmq.requests import Command, ControlRequests, PendingRequest

HELLO_BYTES = 64 * KiB
"""The first event of a client, whom nobody knows yet."""

UNANSWERED_MAX = 4096
"""Messages and requests of one session that wait for their turn; more are not taken up."""

UNANSWERED_BYTES = 16 * MiB
"""And bytes of those messages; a larger one is alone."""

TAKEN_MAX = 4096
"""Work that is done in a row; then other sessions have their turn. A small message or confirmation
is one, which is two or three microseconds."""
REFUSED_WORK = 4
HEARTBEAT_WORK = 4
REQUEST_WORK = 8
STEP_WORK = 128
"""What it takes, besides, to refuse a message; to answer a heartbeat; to read a request, and to do
one step more of a long one."""
WORK_BYTES = 4096
"""So many bytes of a message take as long as a small message; they are copied and summed up."""
PROPERTIES_WORK_BYTES = 64
"""The same of its properties, which are many objects."""

INFLATED_BYTES = 4 * MiB
"""What is inflated in a row, of messages that are refused too; then other sessions have their turn.
Nothing but zeros is the slowest, at about 250 MB a second."""


@value
class Posted:
    """A message under way to its queue."""

    queue: int
    guid: bytes
    wants_ack: bool
    size: int
    """Bytes of its body and properties, about."""


@value
class Asking:
    """A request that is being read."""

    steps: Iterator[None]


Work: TypeAlias = Event | Asking | Iterator[Put] | Iterator[Confirmation]
"""An event, or what is left of one."""


class BmqSession:
    """One BlazingMQ client: events in, commands to the core, acks and pushes out.

    The server owns it with a connection. Requests are answered in their order with the messages
    before and after them; it takes up no more than its bounds while the core is behind.
    """

    __slots__ = (
        "_commands",
        "_confirmed",
        "_encoding",
        "_frames",
        "_goodbye",
        "_host",
        "_inflated",
        "_is_changing",
        "_is_held",
        "_is_paused",
        "_is_refused",
        "_limits",
        "_pulse",
        "_refused",
        "_requests",
        "_router",
        "_streams",
        "_taken",
        "_unanswered",
        "_unanswered_bytes",
        "_unopened",
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
        """That of what is said to the client; none before its hello."""
        self._streams = Streams()
        self._requests = ControlRequests(id, self._streams, host.domain)
        self._work: deque[tuple[Work, int]] = deque()
        """Each with the bytes that it holds."""
        self._work_bytes = 0
        self._refused: list[Ack] = []
        """Messages that the core never saw."""
        self._commands: list[core.Command] = []
        """What is submitted next."""
        self._confirmed: dict[Stream, list[MessageId]] = {}
        """What is confirmed after that: neighbours are one command for each app."""
        self._is_held = False
        """Whether the router had no room for them."""
        self._is_changing = False
        """Whether a queue is being configured or closed. That may take a while, in which others
        have their turn; and until it is closed its numbers are taken."""
        self._taken = 0
        """What was done since others had their turn."""
        self._inflated = 0
        """Bytes that were inflated since then, or were to be."""
        self._unopened: tuple[Put, QueueId, PayloadDecoder] | None = None
        """A message that is not inflated to its end. Nothing else is taken up before it."""
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._is_paused = False
        self._is_refused = False
        """Whether its hello was not what it has to be: nothing else is taken up."""
        self._goodbye: ControlMessage | None = None
        """What is said last, when everything else is answered."""
        self.has_left = False
        """Whether the client said goodbye, rather than being lost."""

    # What the connection says.

    def receive(self, data: bytes) -> None:
        try:
            for each in self._frames.cut(data):
                self._add(each, len(each.body))
                if not self.has_greeted:
                    self.go_on()  # which says how long the next one may be
        except Malformed as error:
            self.go_on()
            self._host.close(f"malformed: {error}")
            return
        self.go_on()

    @property
    def held(self) -> int:
        """Bytes that were received and not taken up."""
        return self._frames.held + self._work_bytes

    @property
    def is_unanswered(self) -> bool:
        """Whether something that the client asked for is under way."""
        return bool(self._unanswered or self._work or self._commands)

    @property
    def has_greeted(self) -> bool:
        return self._encoding is not None

    def go_on(self) -> None:
        """Take up what was received, as far as there is room, and some at a time."""
        self._submit()
        self._taken = self._inflated = 0
        wrong: ProtocolError | None = None
        try:
            while self._is_behind and self._has_room and self._has_time:
                if self._unopened is not None:
                    self._go_on_opening(*self._unopened)
                    continue
                work, size = self._work.popleft()
                self._work_bytes -= size
                self._take(work, size)
        except ProtocolError as error:
            wrong = error
            self._unopened = None
            self._work.clear()
            self._work_bytes = 0
        if not self._is_held:
            self._submit()
        if self._refused:
            self._host.write(event(EventType.ACK, encode_acks(self._refused)), 0)
            self._refused = []
        if wrong is not None:
            self._host.close(f"malformed: {wrong}")
        if self._is_behind and self._has_room:
            self._host.soon()
        is_behind = bool(self._is_behind or self._commands)
        if is_behind is not self._is_paused:
            self._is_paused = is_behind
            (self._host.pause if is_behind else self._host.resume)()

    def _add(self, work: Work, size: int) -> None:
        self._work.append((work, size))
        self._work_bytes += size

    @property
    def _has_room(self) -> bool:
        return (
            not self._is_held
            and not self._is_changing
            and self._unanswered < UNANSWERED_MAX
            and self._unanswered_bytes < UNANSWERED_BYTES
            and self._host.takes_answers()
        )

    @property
    def _is_behind(self) -> bool:
        """Whether something was received and not taken up."""
        return bool(self._work) or self._unopened is not None

    @property
    def _has_time(self) -> bool:
        """Whether more may be taken up before others have their turn."""
        return self._taken < TAKEN_MAX and self._inflated < INFLATED_BYTES

    # What the core says.

    def write_effects(self, effects: Sequence[e.Effect]) -> None:
        """Answers to requests are in order with the messages before and after them."""
        out = Outgoing()
        for effect in effects:
            if isinstance(effect, e.Deliver):
                self._push(effect, out)
                continue
            ref = getattr(effect, "ref", None)
            if isinstance(ref, Posted):
                self._unanswered -= 1
                self._unanswered_bytes -= ref.size
                if isinstance(effect, e.Failed):
                    out.acks.append(Ack(ack_status_of(effect.error), ref.guid, ref.queue))
                elif ref.wants_ack:
                    out.acks.append(Ack(AckStatus.SUCCESS, ref.guid, ref.queue))
            elif isinstance(ref, PendingRequest):
                self._unanswered -= 1
                content = self._outcome(ref, effect)
                is_written = ref.answer and not isinstance(content, Status)
                out.reply(ref.answer if is_written else self._reply(ref.number, content))
            elif isinstance(effect, e.Revoked):
                self._host.close(f"rights in the domain {effect.domain} changed")
            elif isinstance(effect, e.Removed):
                self._host.close("a queue that it had open was removed")
        if self._goodbye is not None and not self._unanswered:
            out.reply(self._last_words())
        if out.has_any:
            self._host.write(out.taken(), out.messages)
        if self._is_paused:
            self.go_on()

    def _outcome(self, asked: PendingRequest, effect: e.Effect) -> Content:
        if not isinstance(asked.request, OpenQueue):
            self._is_changing = False
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
            self._take_messages(work, size)
            return
        if self._encoding is None:
            self._greeted(work)
            return
        if self.has_left or self._is_refused:
            return
        match work.type:
            case EventType.PUT:
                self._take_messages(puts_in(work.body), size)
            case EventType.CONFIRM:
                self._take_messages(confirms_in(work.body), size)
            case EventType.CONTROL:
                self._end_confirming()
                self._taken += REQUEST_WORK
                self._go_on_asking(Asking(self._asked(work)), size)
            case EventType.HEARTBEAT_REQ:
                self._taken += HEARTBEAT_WORK
                self._host.write(HEARTBEAT_RESPONSE, 0)
            case EventType.HEARTBEAT_RSP:
                pass  # that it came is what counts
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

    # Messages.

    def _take_messages(self, rest: Iterator[Put] | Iterator[Confirmation], size: int) -> None:
        """As many of an event's messages as there is room for; the others stay the next work."""
        now = self._host.now()
        for message in rest:
            self._taken += 1
            if isinstance(message, Put):
                self._post(message, now)
            else:
                self._confirm(message)
            if (
                self._taken >= TAKEN_MAX
                or self._inflated >= INFLATED_BYTES
                or self._unopened is not None
                or not self._has_room
            ):
                self._work.appendleft((rest, size))
                self._work_bytes += size
                return

    def _post(self, put: Put, now: float) -> None:
        self._end_confirming()
        size = len(put.data)
        self._taken += size // WORK_BYTES
        if put.flags & HAS_PROPERTIES:
            self._taken += min(size, self._limits.properties_bytes) // PROPERTIES_WORK_BYTES
        try:
            self._send(put, now)
        except HeadgateError as error:
            self._refuse(put, error)

    def _refuse(self, put: Put, error: HeadgateError) -> None:
        self._taken += REFUSED_WORK
        self._host.refused(self._streams.queue(put.queue) or NO_QUEUE, error)
        self._refused.append(Ack(ack_status_of(error), put.guid, put.queue))

    def _send(self, put: Put, now: float) -> None:
        queue = self._streams.queue(put.queue)
        if queue is None:
            raise BadRequest("the queue is not open")
        if checksum(put.data) != put.crc:
            raise BadRequest("the checksum is wrong")
        has_properties = bool(put.flags & HAS_PROPERTIES)
        bytes_max = self._limits.body_bytes + self._limits.properties_bytes
        # BMQ-71: inflated first, so it is filtered like any other.
        if put.compression:
            opening = PayloadDecoder(
                put.data,
                has_properties=has_properties,
                compression=put.compression,
                schema=put.schema,
                bytes_max=bytes_max,
            )
            self._go_on_opening(put, queue, opening)
            return
        properties, body = open_data(
            put.data,
            has_properties=has_properties,
            compression=put.compression,
            schema=put.schema,
            bytes_max=bytes_max,
        )
        self._accept(put, queue, Message(MessageId(put.guid), body, now, properties), len(put.data))

    def _go_on_opening(self, put: Put, queue: QueueId, opening: PayloadDecoder) -> None:
        """Inflate as much as may be inflated before others have their turn. Who sends what cannot
        be inflated, or becomes too long, has used up all of it."""
        self._unopened = None
        left = max(1, INFLATED_BYTES - self._inflated)
        self._inflated += left
        try:
            inflated = opening.inflate(left)
            if not opening.is_done:
                self._unopened = put, queue, opening
                return
            properties, body = opening.content()
        except HeadgateError as error:
            self._refuse(put, error)
            return
        self._inflated -= left - inflated
        message = Message(MessageId(put.guid), body, self._host.now(), properties)
        self._accept(put, queue, message, message.size)

    def _accept(self, put: Put, queue: QueueId, message: Message, size: int) -> None:
        posted = Posted(put.queue, put.guid, bool(put.flags & ACK_REQUESTED), size)
        self._unanswered += 1
        self._unanswered_bytes += size
        self._commands.append(core.Send(self.id, posted, queue, message))

    def _confirm(self, each: Confirmation) -> None:
        """What is unknown is not in anybody's hands any more."""
        stream = self._streams.find(each.queue, each.sub_id)
        if stream is not None:
            self._confirmed.setdefault(stream, []).append(stream.confirmed(each.guid))

    def _end_confirming(self) -> None:
        """Something else comes, which is to find the messages confirmed."""
        if not self._confirmed:
            return
        for stream, messages in self._confirmed.items():
            self._commands.append(
                core.Confirm(self.id, None, stream.queue, tuple(messages), stream.app)
            )
        self._confirmed = {}

    # Requests.

    def _go_on_asking(self, asking: Asking, size: int) -> None:
        """Read a request as far as there is time; the rest of it stays the next work."""
        for _ in asking.steps:
            self._taken += STEP_WORK
            if not self._has_time:
                self._work.appendleft((asking, size))
                self._work_bytes += size
                return

    def _asked(self, control: Event) -> Steps[None]:
        """Read a request and ask for it, a part at a time."""
        message = yield from decoding_control(control.body, control.encoding)
        number, content = message.request_id, message.content
        match content:
            case OpenQueue() | ConfigureQueueStream() | ConfigureStream() | CloseQueue():
                try:
                    command = yield from self._requests.read(number, content)
                except HeadgateError as error:
                    self._taken += REFUSED_WORK
                    self._host.refused(NO_QUEUE, error)
                    self._respond(number, status_of(error))
                    return
                if isinstance(content, ConfigureStream):
                    command = yield from self._with_answer(command, content)
                self._unanswered += 1
                self._is_changing = not isinstance(content, OpenQueue)
                self._commands.append(command)
            case DisconnectRequest():
                self.has_left = True
                self._goodbye = ControlMessage(number, DisconnectResponse())
                self._commands.append(core.Disconnect(self.id, lost=False))
                if not self._unanswered:
                    self._host.write(self._last_words(), 0)
            case AdminCommand() | Unknown():
                self._taken += REFUSED_WORK
                self._respond(number, NOT_SUPPORTED)
            case _:
                raise Malformed(f"a client does not say {type(content).__name__}")

    def _with_answer(self, command: Command, request: ConfigureStream) -> Steps[Command]:
        """The command with what is answered to it, which repeats a request that may be long."""
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

    # To the core.

    def _submit(self) -> None:
        """Everything since the last time. If the router has no room, it is held, and nothing more
        is taken up."""
        self._end_confirming()
        if not self._commands:
            return
        try:
            self._host.submit(self._commands)
        except Overloaded:
            self._is_held = True
            self._host.again()
        else:
            self._is_held = False
            self._commands = []


NO_QUEUE = QueueId(b"")
"""Stands for the queue of a request that names none."""

NOT_SUPPORTED = Status(
    Category.NOT_SUPPORTED, Category.NOT_SUPPORTED, "this router has no such request"
)

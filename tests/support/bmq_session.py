"""The other end of a session, and its shell: what a client sends, what the core is asked."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core import commands as core
from headgate.core import effects as e
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import NO_PROPERTIES, Properties
from headgate.errors import HeadgateError, LimitReached
from headgate.wire.bmq.codec.control import (
    BrokerResponse,
    ClientIdentity,
    ClientType,
    Content,
    ControlMessage,
    HandleParameters,
    OpenQueue,
    SubIdInfo,
)
from headgate.wire.bmq.codec.control_encoding import (
    decode_control,
    decode_negotiation,
    encode_control,
    encode_negotiation,
)
from headgate.wire.bmq.codec.frames import Encoding, Event, EventFrames, EventType, event
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    HAS_PROPERTIES,
    Ack,
    Confirmation,
    Push,
    Put,
    encode_confirms,
    encode_puts,
    parse_acks,
    parse_pushes,
)
from headgate.wire.bmq.codec.payload import checksum, close_data
from headgate.wire.bmq.negotiation import FEATURES, Pulse, Token
from headgate.wire.bmq.session import BmqSession

ME = SessionId(7)
NOW = 1000.0
DOMAINS = {
    "work": Domain("work", Mode.PRIORITY),
    "fan": Domain("fan", Mode.FANOUT, apps=("foo", "bar")),
    "news": Domain("news", Mode.BROADCAST, deduplication_time=1.5),
}
WORK, FAN = QueueId(b"bmq://work/q"), QueueId(b"bmq://fan/q")
SDK = "PROTOCOL_ENCODING:BER,JSON;MPS:MESSAGE_PROPERTIES_EX"
ROUTER = ClientIdentity(client_type=ClientType.TCPBROKER, features=FEATURES)


SECRET = "open sesame"
"""The token of every client that has one."""


def guid(number: int) -> bytes:
    return b"@" + number.to_bytes(15, "big")


class Peer:
    """A client and the shell of its session in one."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.session = BmqSession(self, ME, ROUTER, Pulse(3.0, 10), limits or Limits())
        self.submitted: list[core.Command] = []
        self.refusals: list[tuple[QueueId, HeadgateError]] = []
        self.closed: str | None = None
        self.name = ""
        self.is_paused = False
        self.is_overloaded = False
        self.reads = True
        self.asked_again = 0
        self._frames = EventFrames(1 << 30)
        self._said: list[Event] = []

    # The client.

    def hello(
        self,
        features: str = SDK,
        client_type: ClientType = ClientType.TCPCLIENT,
        process_name: str = "prog",
    ) -> Peer:
        hello = ClientIdentity(
            client_type=client_type, process_name=process_name, pid=42, features=features
        )
        body = encode_negotiation(hello, Encoding.BER)
        self.session.receive(event(EventType.CONTROL, body))
        return self

    def welcomed(self) -> tuple[BrokerResponse, Encoding]:
        [said] = self.said()
        response = decode_negotiation(said.body, said.encoding)
        assert isinstance(response, BrokerResponse)
        return response, said.encoding

    def ready(self) -> Peer:
        self.hello().welcomed()
        return self

    def ask(self, number: int | None, content: Content) -> None:
        body = encode_control(ControlMessage(number, content), Encoding.BER)
        self.session.receive(event(EventType.CONTROL, body))

    def open(
        self, uri: str = "bmq://work/q", queue: int = 0, sub: int = 0, flags: int = 6
    ) -> OpenQueue:
        """Ask for a queue, and have it."""
        request = open_queue(uri, queue, sub, flags)
        self.ask(1, request)
        self.done()
        self.replies()
        return request

    def put(self, *puts: Put) -> None:
        self.session.receive(event(EventType.PUT, encode_puts(puts)))

    def confirm(self, *confirmations: Confirmation) -> None:
        self.session.receive(event(EventType.CONFIRM, encode_confirms(confirmations)))

    # What the client is told.

    def said(self) -> list[Event]:
        said, self._said = self._said, []
        return said

    def replies(self) -> list[ControlMessage]:
        said = self.said()
        assert {each.type for each in said} <= {EventType.CONTROL}
        return [decode_control(each.body, each.encoding) for each in said]

    def reply(self) -> ControlMessage:
        [reply] = self.replies()
        return reply

    def acks(self) -> list[Ack]:
        [said] = self.said()
        assert said.type == EventType.ACK
        return list(parse_acks(said.body))

    def pushes(self) -> list[Push]:
        [said] = self.said()
        assert said.type == EventType.PUSH
        return list(parse_pushes(said.body))

    # The core.

    def take(self) -> list[core.Command]:
        taken, self.submitted = self.submitted, []
        return taken

    def done(self) -> None:
        """Everything that was asked is carried out."""
        effects: list[e.Effect] = []
        for command in self.take():
            if isinstance(command, core.Send):
                receipt = e.Receipt(ME, command.ref, command.queue, command.message.id)
                effects.append(receipt)
            elif not isinstance(command, core.Confirm | core.Disconnect):
                assert isinstance(command, core.Request)
                effects.append(e.Done(ME, command.ref))
        self.session.write_effects(effects)

    def fail(self, error: HeadgateError) -> None:
        """Everything that was asked is refused."""
        self.session.write_effects(
            [e.Failed(ME, c.ref, error) for c in self.take() if isinstance(c, core.Request)]
        )

    # The shell.

    def now(self) -> float:
        return NOW

    def domain(self, name: str) -> Domain | None:
        return DOMAINS.get(name)

    def write(self, events: bytes, messages: int) -> None:
        self._said += self._frames.feed(events)

    def takes_answers(self) -> bool:
        return self.reads

    def submit(self, commands: Sequence[core.Command]) -> None:
        if self.is_overloaded:
            raise LimitReached("inbox_commands", 1)
        self.submitted += commands

    def refused(self, queue: QueueId, error: HeadgateError) -> None:
        self.refusals.append((queue, error))

    def identify(self, token: Token | None) -> str | None:
        return "" if token is None else token.name if token.secret == SECRET else None

    def turn_away(self, token: Token | None, events: bytes) -> None:
        self.write(events, 0)
        self.close("not authenticated")

    def named(self, name: str) -> None:
        self.name = name

    def again(self) -> None:
        self.asked_again += 1

    def soon(self) -> None:
        self.asked_again += 1

    def pause(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def close(self, reason: str) -> None:
        self.closed = reason


def open_queue(uri: str, queue: int = 0, sub: int = 0, flags: int = 6) -> OpenQueue:
    app = uri.partition("?id=")[2]
    info = SubIdInfo(sub, app) if app else None
    return OpenQueue(HandleParameters(uri, queue, info, flags, flags >> 1 & 1, flags >> 2 & 1, 0))


def put(
    number: int,
    body: bytes = b"hi",
    properties: Properties = NO_PROPERTIES,
    queue: int = 0,
    flags: int = ACK_REQUESTED,
) -> Put:
    data = close_data(properties, body)
    flags |= HAS_PROPERTIES if properties else 0
    return Put(queue, guid(number), flags, data, checksum(data))

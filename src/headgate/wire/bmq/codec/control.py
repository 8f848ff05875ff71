"""Control messages: who speaks, which queues are open, and what their readers want.

The order of the fields of a class is the protocol's, as `shapes` says. A request has a number that
its response repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

from headgate.core.model.limits import MiB
from headgate.core.model.value import value
from headgate.wire.bmq.codec import ber, json
from headgate.wire.bmq.codec.fields import INT32, Field, Omitted, Words
from headgate.wire.bmq.codec.frames import Buffer, Encoding, Malformed, pad, unpad
from headgate.wire.bmq.codec.steps import Steps, finished

T = TypeVar("T")

CONTROL_BYTES_MAX: Final = 4 * MiB
"""Of one message: room for ten thousand subscriptions. Each becomes several objects, and so a
message takes some twenty times its size in memory."""

DEFAULT_APP: Final = "__default"
"""What a queue without apps says where others say the app."""

CLUSTER_MESSAGE: Final = 9
"""The number of what brokers tell one another."""

NO_PRIORITY: Final = -(2**31)
"""Of a reader that wants nothing more."""

Id: TypeAlias = Annotated[int, INT32]
"""Chosen by the client."""


class Category(IntEnum):
    """Why a request failed, or that it did not."""

    SUCCESS = 0
    UNKNOWN = -1
    TIMEOUT = -2
    NOT_CONNECTED = -3
    CANCELED = -4
    NOT_SUPPORTED = -5
    REFUSED = -6
    INVALID_ARGUMENT = -7
    NOT_READY = -8


class ClientType(IntEnum):
    """What kind of program says hello."""

    UNKNOWN = 0
    TCPCLIENT = 1
    TCPBROKER = 2
    TCPADMIN = 3


class Language(IntEnum):
    """The version of the language of an expression."""

    UNKNOWN = 0
    CPP = 1
    JAVA = 2


@value
class GuidInfo:
    """What the ids of a client's messages are made from."""

    client_id: str = ""
    nanoseconds: Annotated[int, "nanoSecondsFromEpoch"] = 0


@value
class ClientIdentity:
    """The hello of either side."""

    protocol_version: int = 1
    sdk_version: int = 999_999
    client_type: ClientType = ClientType.TCPCLIENT
    process_name: str = ""
    pid: int = 0
    session_id: int = 1
    host_name: str = ""
    features: str = ""
    cluster_name: str = ""
    cluster_node_id: int = -1
    sdk_language: Language = Language.CPP
    guid_info: GuidInfo = GuidInfo()
    user_agent: Annotated[str, Omitted()] = ""
    """Newer clients have it."""


@value
class Status:
    """How a request ended."""

    category: Category
    code: int = 0
    message: str = ""


@value
class BrokerResponse:
    """The answer to a client's hello."""

    result: Status
    protocol_version: int = 1
    broker_version: int = 999_999
    is_deprecated_sdk: bool = False
    broker_identity: ClientIdentity = ClientIdentity(client_type=ClientType.TCPBROKER)
    heartbeat_interval_ms: int = 3000
    max_missed_heartbeats: int = 10


@value
class SubIdInfo:
    """The app that a queue is opened for, and the number that stands for it."""

    sub_id: Id = 0
    app_id: str = DEFAULT_APP


@value
class HandleParameters:
    """A queue as it is opened or closed: address, number, flags, app."""

    uri: str
    queue_id: Annotated[Id, "qId"]
    sub_id_info: SubIdInfo | None
    flags: int
    read_count: int = 0
    write_count: int = 0
    admin_count: int = 0


@value
class RoutingConfiguration:
    """How a broker routes to a client; ours sends it as a client expects it."""

    flags: int


@value
class OpenQueue:
    """Open a queue for reading, writing, or both."""

    handle: Annotated[HandleParameters, "handleParameters"]


@value
class OpenQueueResponse:
    """The queue is open."""

    original: Annotated[OpenQueue, "originalRequest"]
    routing: Annotated[RoutingConfiguration, "routingConfiguration"]
    deduplication_time_ms: int = 300_000


@value
class CloseQueue:
    """Close a queue, or one of its apps."""

    handle: Annotated[HandleParameters, "handleParameters"]
    is_final: bool = False


@value
class CloseQueueResponse:
    """The queue is closed."""


@value
class QueueStreamParameters:
    """The settings of a consumer in the older form, with one priority and one window."""

    sub_id_info: SubIdInfo | None
    max_unconfirmed_messages: int = 0
    max_unconfirmed_bytes: int = 0
    consumer_priority: int = NO_PRIORITY
    consumer_priority_count: int = 0


@value
class ConfigureQueueStream:
    """How a reader without subscriptions wants its messages."""

    queue_id: Annotated[Id, "qId"]
    stream: Annotated[QueueStreamParameters, "streamParameters"]


@value
class ConfigureQueueStreamResponse:
    """The settings hold from now on."""

    request: ConfigureQueueStream


@value
class Expression:
    """The text of an expression, with its language."""

    version: Annotated[int, Words({0: "E_UNDEFINED", 1: "E_VERSION_1"})] = 0
    text: str = ""


@value
class ConsumerInfo:
    """How a consumer takes part: priority, and what it may have unconfirmed."""

    max_unconfirmed_messages: int = 0
    max_unconfirmed_bytes: int = 0
    consumer_priority: int = NO_PRIORITY
    consumer_priority_count: int = 0


@value
class ConsumerSubscription:
    """What a consumer wants: an expression, and how it takes part."""

    s_id: Id
    expression: Expression
    consumers: tuple[ConsumerInfo, ...]


@value
class StreamParameters:
    """The subscriptions of one app of an open queue."""

    app_id: str = DEFAULT_APP
    subscriptions: tuple[ConsumerSubscription, ...] = ()


@value
class ConfigureStream:
    """The subscriptions of a reader, all of them."""

    queue_id: Annotated[Id, "qId"]
    stream: Annotated[StreamParameters, "streamParameters"]


@value
class ConfigureStreamResponse:
    """The subscriptions hold from now on."""

    request: ConfigureStream


@value
class DisconnectRequest:
    """The client is about to leave."""


@value
class DisconnectResponse:
    """The session may end."""


@value
class AdminCommand:
    """A command of an administrator, as text."""

    command: str


@value
class AdminCommandResponse:
    """What a command of an administrator printed."""

    text: str


@value
class Unknown:
    """A message that this wire has no use for. What is in it was skipped."""

    name: str


Content: TypeAlias = (
    Status
    | DisconnectRequest
    | DisconnectResponse
    | AdminCommand
    | AdminCommandResponse
    | OpenQueue
    | OpenQueueResponse
    | CloseQueue
    | CloseQueueResponse
    | ConfigureQueueStream
    | ConfigureQueueStreamResponse
    | ConfigureStream
    | ConfigureStreamResponse
    | Unknown
)

Negotiation: TypeAlias = ClientIdentity | BrokerResponse


@value
class ControlMessage:
    """A request or a response, with its number."""

    request_id: int | None
    """Repeated by the response."""
    content: Content


Chosen: TypeAlias = tuple[int | None, T | Unknown]
"""The number of a request, if it has one, and what the message is."""


class Choice(Generic[T]):
    """What a message may be: by numbers in BER, by the names of the classes in JSON."""

    def __init__(self, place: int, classes: Mapping[int, type[T]]) -> None:
        self.place = place
        """The field of the message that holds it. The number of a request comes before it."""
        self.classes = classes
        self.numbers = {cls: number for number, cls in classes.items()}
        self.labels = {cls: _label(cls) for cls in self.numbers}
        self.by_label = {label: cls for cls, label in self.labels.items()}


def _label(cls: type) -> str:
    name = "Disconnect" if cls is DisconnectRequest else cls.__name__
    return name[0].lower() + name[1:]


CONTENT: Final[Choice[Content]] = Choice(
    1,
    {
        0: Status,
        1: DisconnectRequest,
        2: DisconnectResponse,
        7: AdminCommand,
        8: AdminCommandResponse,
        10: OpenQueue,
        11: OpenQueueResponse,
        12: CloseQueue,
        13: CloseQueueResponse,
        14: ConfigureQueueStream,
        15: ConfigureQueueStreamResponse,
        16: ConfigureStream,
        17: ConfigureStreamResponse,
    },
)
NEGOTIATION: Final[Choice[Negotiation]] = Choice(0, {0: ClientIdentity, 1: BrokerResponse})

REQUEST_ID: Final = Field("request_id", "rId", int, None, numbers=INT32)


def decode_control(body: Buffer, encoding: Encoding) -> ControlMessage:
    return finished(decoding_control(body, encoding))


def decoding_control(body: Buffer, encoding: Encoding) -> Steps[ControlMessage]:
    """The same, a part at a time."""
    number, content = yield from _decode(body, encoding, CONTENT)
    return ControlMessage(number, content)


def encode_control(message: ControlMessage, encoding: Encoding) -> bytes:
    """The body of an event."""
    return finished(encoding_control(message, encoding))


def encoding_control(message: ControlMessage, encoding: Encoding) -> Steps[bytes]:
    """The same, a part at a time."""
    return _encode(message.request_id, message.content, encoding, CONTENT)


def decode_negotiation(body: Buffer, encoding: Encoding) -> Negotiation:
    steps = _decode(body, encoding, NEGOTIATION)
    _, found = finished(steps)
    if isinstance(found, Unknown):
        raise Malformed("neither a client nor a broker presents itself")
    return found


def encode_negotiation(message: Negotiation, encoding: Encoding) -> bytes:
    """The body of an event."""
    return finished(_encode(None, message, encoding, NEGOTIATION))


def _decode(body: Buffer, encoding: Encoding, choice: Choice[T]) -> Steps[Chosen[T]]:
    if len(body) > CONTROL_BYTES_MAX:
        raise Malformed(f"a control message of more than {CONTROL_BYTES_MAX} bytes")
    data = unpad(body)
    if encoding == Encoding.JSON:
        return (yield from _from_json(json.parse(data), choice))
    return (yield from _from_ber(ber.BerReader(data), choice))


def _from_json(members: dict[str, object], choice: Choice[T]) -> Steps[Chosen[T]]:
    """The choice has no name of its own: what is selected is a member beside the request's."""
    number = members.pop(REQUEST_ID.label, None) if choice.place else None
    request_id = None if number is None else json.number(number, REQUEST_ID)
    if len(members) != 1:
        raise Malformed(f"a choice with {len(members)} selections")
    ((label, part),) = members.items()
    cls = choice.by_label.get(label)
    return request_id, Unknown(label) if cls is None else (yield from json.read(part, cls))


def _from_ber(reader: ber.BerReader, choice: Choice[T]) -> Steps[Chosen[T]]:
    request_id: int | None = None
    found: T | Unknown | None = None
    reader.enter(reader.expect())
    while (tag := reader.next()) is not None:
        number = ber.number_of(tag)
        if number == choice.place and found is None:
            found = yield from _selected(reader, tag, choice)
        elif number == 0 and choice.place and request_id is None:
            request_id = REQUEST_ID.number(ber.number(reader.value(tag)))
        elif number is not None and number <= choice.place:
            raise Malformed("a field comes twice")
        else:
            yield from reader.skip(tag)
        if reader.takes_rest():
            yield
    reader.finish()
    if found is None:
        raise Malformed("a message without content")
    return request_id, found


def _selected(reader: ber.BerReader, tag: int, choice: Choice[T]) -> Steps[T | Unknown]:
    reader.enter(tag)
    inner = reader.expect()
    number = ber.number_of(inner)
    cls = None if number is None else choice.classes.get(number)
    found: T | Unknown
    if cls is None:
        yield from reader.skip(inner)
        found = Unknown("clusterMessage" if number == CLUSTER_MESSAGE else f"selection {number}")
    else:
        found = yield from ber.read(reader, inner, cls)
    reader.finish()
    return found


def _encode(
    request_id: int | None, part: T | Unknown, encoding: Encoding, choice: Choice[T]
) -> Steps[bytes]:
    assert not isinstance(part, Unknown), "what we do not know we do not send"
    cls = type(part)
    if encoding == Encoding.JSON:
        request = "" if request_id is None else f'"{REQUEST_ID.label}":{request_id},'
        text = yield from json.write(part)
        return pad(f'{{{request}"{choice.labels[cls]}":{text}}}'.encode())
    number = b"" if request_id is None else ber.write_number(ber.CONTEXT, request_id)
    selected = yield from ber.write(ber.CONTEXT | choice.numbers[cls], part)
    return pad(ber.wrap(ber.SEQUENCE, number, ber.wrap(ber.CONTEXT | choice.place, selected)))

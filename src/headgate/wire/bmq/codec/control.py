"""Control messages: who the client is, which queues are open, and what their readers want.

The order of the fields of a class is the protocol's, as `fields` says. A request has a number that
its response repeats. `control_encoding` turns them into bytes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final, TypeAlias

from headgate.core.model.limits import MiB
from headgate.core.model.value import value
from headgate.wire.bmq.codec.fields import INT32, Omitted, Words

CONTROL_BYTES_MAX: Final = 4 * MiB
"""Longest control message: room for ten thousand subscriptions. Each becomes several objects, so a
message takes some twenty times its size in memory."""

DEFAULT_APP: Final = "__default"
"""The app id of a queue without apps."""

NO_PRIORITY: Final = -(2**31)
"""The priority of a reader that wants no more messages."""

Id: TypeAlias = Annotated[int, INT32]
"""Chosen by the client."""


class Category(IntEnum):
    """The reason why a request failed, or success."""

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
    """The kind of a program that connects."""

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
    """The seed of a client's message ids."""

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
    """Only newer clients send it."""


@value
class Status:
    """The outcome of a request."""

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
    """How a broker routes to a client; this router sends what a client expects."""

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
    """The share of a consumer: its priority, and how much may be unconfirmed."""

    max_unconfirmed_messages: int = 0
    max_unconfirmed_bytes: int = 0
    consumer_priority: int = NO_PRIORITY
    consumer_priority_count: int = 0


@value
class ConsumerSubscription:
    """A subscription of a consumer: an expression, and its share."""

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
    """The output of a command of an administrator."""

    text: str


@value
class Unknown:
    """A message that this wire does not use. Its content was skipped."""

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

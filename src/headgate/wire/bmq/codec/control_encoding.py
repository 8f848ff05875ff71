"""Control messages as bytes: in BER or in JSON, whole or in parts.

A message is a choice of kinds, by numbers in one encoding and by names in the other. A long one is
read and written in steps, so that others get a turn in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from headgate.wire.bmq.codec import ber, json
from headgate.wire.bmq.codec.control import (
    CONTROL_BYTES_MAX,
    AdminCommand,
    AdminCommandResponse,
    BrokerResponse,
    ClientIdentity,
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
    Negotiation,
    OpenQueue,
    OpenQueueResponse,
    Status,
    Unknown,
)
from headgate.wire.bmq.codec.fields import INT32, Field
from headgate.wire.bmq.codec.frames import Buffer, Encoding, Malformed, pad, unpad
from headgate.wire.bmq.codec.steps import Steps, finished

T = TypeVar("T")

CLUSTER_MESSAGE: Final = 9
"""The number of messages that brokers send one another."""

Chosen: TypeAlias = tuple[int | None, T | Unknown]
"""The number of a request, if it has one, and its message."""


class Choice(Generic[T]):
    """A choice of messages: by numbers in BER, by the names of the classes in JSON."""

    def __init__(self, place: int, classes: Mapping[int, type[T]]) -> None:
        self.place = place
        """The field of the message that holds it, after the number of the request."""
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
    """As `decode_control`, a part at a time."""
    number, content = yield from _decode(body, encoding, CONTENT)
    return ControlMessage(number, content)


def encode_control(message: ControlMessage, encoding: Encoding) -> bytes:
    """The body of an event."""
    return finished(encoding_control(message, encoding))


def encoding_control(message: ControlMessage, encoding: Encoding) -> Steps[bytes]:
    """As `encode_control`, a part at a time."""
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
    """The message of a JSON object. The choice has no name of its own: the chosen kind is a member
    beside the number of the request."""
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

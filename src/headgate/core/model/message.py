"""A message: an immutable body with an id and typed properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from headgate.core.model.ids import AppId, MessageId, QueueId, Seq
from headgate.core.model.limits import Limits
from headgate.core.model.value import EMPTY, value
from headgate.errors import BadMessage, LimitReached
from headgate.expr.types import INT64_MAX, INT64_MIN, Value

# S003-4: properties have types, and expressions read them.
PropertyValue: TypeAlias = Value
"""A boolean, a signed 64-bit integer, text, or bytes (which no expression can use)."""

Properties: TypeAlias = Mapping[str, PropertyValue]

NO_PROPERTIES: Properties = EMPTY


class Declared(dict[str, PropertyValue]):
    """Properties with the type that their sender declared for each. The core uses plain numbers; a
    receiver gets the width that was sent."""

    __slots__ = ("types", "written")

    def __init__(self, properties: Properties, types: bytes) -> None:
        assert len(properties) == len(types), "each property has a type"
        super().__init__(properties)
        self.types = types
        """One byte for each, in their order, as the wire has it that declared them."""
        self.written: bytes | None = None
        """The bytes that a wire read them from, if it would write the same again."""


class Fields(Declared):
    """Properties of a message whose body has a name, as a field of a stream entry."""

    __slots__ = ("body", "own")

    def __init__(
        self, properties: Properties, types: bytes, body: str, own: int | None = None
    ) -> None:
        super().__init__(properties, types)
        self.body = body
        """The name of the body as a field."""
        self.own = len(types) if own is None else own
        """Number of fields, at the beginning; the others were read from the body."""


NOTIFY = "notify"
"""The property of a message that asks for a notice to the notifier. Only the router sets it."""
MARKER = "quota"
"""The property of a message that stands for those refused after it. Only the router sets it: queues
whose senders set properties have no markers."""
NAME_BYTES_MAX = 4095
"""Longest name of a property, as in BlazingMQ: a message that came another way can be read there
too."""


@value
class Message:
    """A message: its id, its body, the time of its arrival, and its properties."""

    id: MessageId
    body: bytes
    arrived: float
    """Seconds since the epoch, by the router's clock."""
    properties: Properties = NO_PROPERTIES

    @property
    def is_marker(self) -> bool:
        """Whether it is no sender's message, but shows the recipient that the queue was full."""
        return bool(self.properties) and self.properties.get(MARKER) is True

    @property
    def size(self) -> int:
        """Bytes of application data: the body and the properties."""
        size = len(self.body)
        return size + properties_size(self.properties) if self.properties else size


@value
class Stored:
    """A message and its number in a queue."""

    seq: Seq
    queue: QueueId
    message: Message
    apps: tuple[AppId, ...]
    """The apps that have not confirmed it."""


class Arrival(NamedTuple):
    """When a message was accepted, and its number: readers know it by these two."""

    at: float
    seq: Seq


Known: TypeAlias = dict[MessageId, Arrival]
"""Ids of messages, and the arrival of each."""


@value
class Notice:
    """A notice for a notifier: a message is there."""

    notifier: bytes
    secret: bytes
    message: MessageId
    arrived: float


@value
class MessageEntry:
    """A stored message without its body, as the core keeps it."""

    seq: Seq
    id: MessageId
    arrived: float
    size: int
    properties: Properties
    apps: tuple[AppId, ...]


def properties_size(properties: Properties) -> int:
    """Bytes of names and values: text as UTF-8, numbers as eight."""
    return sum(_property_size(name, item) for name, item in properties.items())


def _property_size(name: str, item: PropertyValue) -> int:
    size = len(name) if name.isascii() else len(name.encode())
    if isinstance(item, str):
        return size + (len(item) if item.isascii() else len(item.encode()))
    return size + (len(item) if isinstance(item, bytes) else 8)


def check(message: Message, limits: Limits) -> int:
    """The size of a message. Raise if no queue could accept it."""
    size = len(message.body)
    if size > limits.body_bytes:
        raise LimitReached("body_bytes", limits.body_bytes)
    if not message.properties:
        return size
    if len(message.properties) > limits.message_properties:
        raise LimitReached("message_properties", limits.message_properties)
    more = 0
    for name, item in message.properties.items():
        is_plain = type(item) is str and item.isascii() and name.isascii()
        if is_plain and 0 < len(name) <= NAME_BYTES_MAX:
            more += len(name) + len(item)  # type: ignore[arg-type]  # what is plain is text
        else:
            _check_property(name, item)
            more += _property_size(name, item)
    if more > limits.properties_bytes:
        raise LimitReached("properties_bytes", limits.properties_bytes)
    return size + more


def _check_property(name: str, item: PropertyValue) -> None:
    try:
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise BadMessage(f"the name of a property has 1 to {NAME_BYTES_MAX} bytes")
        if isinstance(item, str):
            item.encode()
    except UnicodeEncodeError:
        raise BadMessage(f"property {name!a} is not valid UTF-8") from None
    if isinstance(item, int) and not INT64_MIN <= item <= INT64_MAX:
        raise BadMessage(f"property {name!r} is outside the signed 64-bit range")

"""The messages of data events: PUT, PUSH, ACK and CONFIRM.

Here they are split and joined as bytes; `payload` reads their data. Millions go through these
functions, so each knows the whole layout of its header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import starmap
from struct import Struct
from typing import Final, TypeVar

from headgate.core.model.value import value
from headgate.wire.bmq.codec.frames import PADDING, WORD, Buffer, Malformed, unpadded

T = TypeVar("T")

ACK_REQUESTED: Final = 1
"""Flag of a PUT whose sender wants an acknowledgement. Others must get none."""
HAS_PROPERTIES: Final = 2
OUT_OF_ORDER: Final = 4
"""Flag of a PUSH whose message was pushed before."""

PUT: Final = Struct(">IIi16sIHxx")
"""Flags and words in all; words of the options, compression and words of the header; the queue, the
id of the message, the checksum of its data, and the schema of its properties."""
PUSH: Final = Struct(">IIi16sHxx")
"""The same without a checksum."""
PUSH_TO_ONE: Final = Struct(">IIi16sHxxIi")
"""The same followed by an option with one subscription."""
ACK: Final = Struct(">I16si")
CONFIRM: Final = Struct(">i16si")

PUT_WORDS: Final = PUT.size // WORD
PUSH_WORDS: Final = PUSH.size // WORD
ENTRY_WORDS: Final = 6
"""Words of an acknowledgement and of a confirmation."""
ENTRIES: Final = bytes((1 << 4 | ENTRY_WORDS, 0, 0, 0))
"""The header before such entries: its own length in words, and theirs."""

SUBSCRIPTIONS_OLD: Final = 1
"""An option of ids, as BlazingMQ sends it to its clients."""
SUBSCRIPTIONS: Final = 3
"""An option of ids with the number of deliveries left for each."""
ONE_SUBSCRIPTION: Final = SUBSCRIPTIONS_OLD << 26 | 2
PACKED: Final = 1 << 25
"""An option that is only a header."""
OPTION: Final = Struct(">I")
DEFAULT: Final = (0,)
"""The subscriptions of a PUSH without the option."""


class AckStatus(IntEnum):
    """The status of a posted message, for its sender; all other numbers mean unknown."""

    SUCCESS = 0
    LIMIT_MESSAGES = 1
    LIMIT_BYTES = 2
    UNKNOWN = 5
    STORAGE_FAILURE = 6
    NOT_READY = 7


@value
class Put:
    """A message that a client posts."""

    queue: int
    guid: bytes
    flags: int
    data: bytes
    """Properties and payload, as `payload.open_data` reads them."""
    crc: int
    compression: int = 0
    schema: int = 0


@value
class Push:
    """A message for a client."""

    queue: int
    guid: bytes
    flags: int
    data: bytes
    subscriptions: tuple[int, ...] = DEFAULT
    compression: int = 0
    schema: int = 0


@value
class Ack:
    """An acknowledgement: the outcome of a message that a client posted."""

    status: int
    guid: bytes
    queue: int


@value
class Confirmation:
    """A confirmation of one message by a client."""

    queue: int
    guid: bytes
    sub_id: int
    """Of the opening of the queue, not of a subscription."""


def puts_in(body: Buffer) -> Iterator[Put]:
    """The messages one by one: an event has room for more than should be in memory together.
    Messages before an error are complete."""
    at = 0
    size = len(body)
    if not size:
        raise Malformed("an event without messages")
    while at < size:
        if size - at < PUT.size:
            raise Malformed("a PUT is cut off")
        length, layout, queue, guid, crc, schema = PUT.unpack_from(body, at)
        start, end = _extent(at, size, length, layout, PUT_WORDS)
        data = bytes(body[start : unpadded(body, end)])
        yield Put(queue, guid, length >> 28, data, crc, layout >> 5 & 7, schema)
        at = end


def parse_puts(body: Buffer) -> list[Put]:
    return list(puts_in(body))


def encode_puts(puts: Sequence[Put]) -> bytes:
    """The body of an event."""
    parts: list[bytes] = []
    for put in puts:
        size = len(put.data)
        words = PUT_WORDS + (size >> 2) + 1
        length = put.flags << 28 | words
        layout = put.compression << 5 | PUT_WORDS
        parts += (
            PUT.pack(length, layout, put.queue, put.guid, put.crc, put.schema),
            put.data,
            PADDING[size & 3],
        )
    return b"".join(parts)


def encode_push(
    queue: int,
    guid: bytes,
    flags: int,
    data: bytes,
    subscription: int,
    compression: int = 0,
    schema: int = 0,
) -> bytes:
    """One message of an event, for one subscription."""
    size = len(data)
    header = PUSH_TO_ONE.pack(
        flags << 28 | (PUSH_WORDS + 3) + (size >> 2),
        2 << 8 | compression << 5 | PUSH_WORDS,
        queue,
        guid,
        schema,
        ONE_SUBSCRIPTION,
        subscription,
    )
    return b"".join((header, data, PADDING[size & 3]))


def encode_pushes(pushes: Sequence[Push]) -> bytes:
    """The body of an event."""
    parts: list[bytes] = []
    for push in pushes:
        ids = push.subscriptions
        assert ids, "a message is pushed to a subscription"
        size = len(push.data)
        options = len(ids) + 1
        words = PUSH_WORDS + options + (size >> 2) + 1
        length = push.flags << 28 | words
        layout = options << 8 | push.compression << 5 | PUSH_WORDS
        parts += (
            PUSH.pack(length, layout, push.queue, push.guid, push.schema),
            OPTION.pack(SUBSCRIPTIONS_OLD << 26 | options),
            Struct(f">{len(ids)}i").pack(*ids),
            push.data,
            PADDING[size & 3],
        )
    return b"".join(parts)


def parse_pushes(body: Buffer) -> list[Push]:
    pushes = []
    at = 0
    size = len(body)
    if not size:
        raise Malformed("an event without messages")
    while at < size:
        if size - at < PUSH.size:
            raise Malformed("a PUSH is cut off")
        length, layout, queue, guid, schema = PUSH.unpack_from(body, at)
        start, end = _extent(at, size, length, layout, PUSH_WORDS)
        ids = _subscriptions(body, start - (layout >> 8) * WORD, start)
        data = bytes(body[start : unpadded(body, end)])
        pushes.append(Push(queue, guid, length >> 28, data, ids, layout >> 5 & 7, schema))
        at = end
    return pushes


def encode_acks(acks: Sequence[Ack]) -> bytes:
    """The body of an event. Senders find their message by its id: the number that could refer to it
    stays 0."""
    return ENTRIES + b"".join([ACK.pack(ack.status << 24, ack.guid, ack.queue) for ack in acks])


def parse_acks(body: Buffer) -> list[Ack]:
    return list(_entries(body, ACK, _ack))


def encode_confirms(confirms: Sequence[Confirmation]) -> bytes:
    """The body of an event."""
    pack = CONFIRM.pack
    return ENTRIES + b"".join([pack(one.queue, one.guid, one.sub_id) for one in confirms])


def confirms_in(body: Buffer) -> Iterator[Confirmation]:
    """The confirmations one by one, as `puts_in`; an error is raised before the first."""
    return _entries(body, CONFIRM, Confirmation)


def parse_confirms(body: Buffer) -> list[Confirmation]:
    return list(confirms_in(body))


def _extent(at: int, size: int, length: int, layout: int, words: int) -> tuple[int, int]:
    """Where the data of a message begins, and where the message ends."""
    end = at + (length & 0x0FFF_FFFF) * WORD
    header = layout & 31
    start = at + (header + (layout >> 8)) * WORD
    if end > size:
        raise Malformed("a message is cut off")
    if header < words or start >= end:
        # The data has at least a word, which may be padding only.
        raise Malformed("a message that does not hold its header, options and data")
    return start, end


def _subscriptions(body: Buffer, at: int, end: int) -> tuple[int, ...]:
    """The subscriptions in the options of a PUSH. An option with attempts takes precedence."""
    found: dict[int, tuple[int, ...]] = {}
    while at < end:
        (header,) = OPTION.unpack_from(body, at)
        kind = header >> 26
        words = 1 if header & PACKED else header & 0x1F_FFFF
        after = at + words * WORD
        if not words or after > end:
            raise Malformed("an option of a wrong length")
        if kind in (SUBSCRIPTIONS_OLD, SUBSCRIPTIONS):
            if kind in found:
                raise Malformed("an option comes twice")
            each = 1 if kind == SUBSCRIPTIONS_OLD else header >> 21 & 15
            found[kind] = DEFAULT if header & PACKED else _option(body, at + WORD, words - 1, each)
        at = after
    return found.get(SUBSCRIPTIONS) or found.get(SUBSCRIPTIONS_OLD) or DEFAULT


def _option(body: Buffer, at: int, words: int, each: int) -> tuple[int, ...]:
    """The ids in an option, one every so many words."""
    if not each or not words or words % each:
        raise Malformed("an option that does not hold its subscriptions")
    return Struct(f">{words}i").unpack_from(body, at)[::each]


def _entries(body: Buffer, layout: Struct, make: Callable[..., T]) -> Iterator[T]:
    """The entries of acknowledgements or confirmations: a header, and entries of the size that it
    gives. Only the known fields of an entry are read."""
    if len(body) < WORD:
        raise Malformed("an event without its header")
    start = (body[0] >> 4) * WORD
    size = (body[0] & 15) * WORD
    if not start or size < layout.size or (len(body) - start) % size or len(body) <= start:
        raise Malformed("an event that does not hold its entries")
    if size > layout.size:
        layout = Struct(f"{layout.format}{size - layout.size}x")
    return starmap(make, layout.iter_unpack(body[start:]))


def _ack(status: int, guid: bytes, queue: int) -> Ack:
    return Ack(status >> 24 & 15, guid, queue)

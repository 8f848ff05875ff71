"""Messages of events are read and written as BlazingMQ does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.wire.bmq.codec.frames import EventType, Malformed, event
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    HAS_PROPERTIES,
    OUT_OF_ORDER,
    Ack,
    AckStatus,
    Confirmation,
    Push,
    Put,
    encode_acks,
    encode_confirms,
    encode_push,
    encode_pushes,
    encode_puts,
    parse_acks,
    parse_confirms,
    parse_pushes,
    parse_puts,
)
from tests.support.bmq_examples import (
    ACK_BYTES,
    AREA_OLD,
    CONFIRM_BYTES,
    GUID,
    PUSH_BYTES,
    PUT_BYTES,
)

PUT = Put(0, GUID, ACK_REQUESTED | HAS_PROPERTIES, AREA_OLD + b"hi", 0xD78BC27A)
PUSH = Push(0, GUID, HAS_PROPERTIES, AREA_OLD + b"hi", (1,))
ACK = Ack(AckStatus.SUCCESS, GUID, 0)
CONFIRM = Confirmation(0, GUID, 1)


def test_a_put_has_its_bytes() -> None:
    assert parse_puts(PUT_BYTES[8:]) == [PUT]
    assert event(EventType.PUT, encode_puts([PUT])) == PUT_BYTES


def test_a_push_has_its_bytes() -> None:
    assert parse_pushes(PUSH_BYTES[8:]) == [PUSH]
    assert event(EventType.PUSH, encode_pushes([PUSH])) == PUSH_BYTES
    body = encode_push(0, GUID, HAS_PROPERTIES, AREA_OLD + b"hi", 1)
    assert event(EventType.PUSH, body) == PUSH_BYTES


def test_an_acknowledgement_has_its_bytes() -> None:
    assert parse_acks(ACK_BYTES[8:]) == [ACK]
    assert event(EventType.ACK, encode_acks([ACK])) == ACK_BYTES


def test_a_confirmation_has_its_bytes() -> None:
    assert parse_confirms(CONFIRM_BYTES[8:]) == [CONFIRM]
    assert event(EventType.CONFIRM, encode_confirms([CONFIRM])) == CONFIRM_BYTES


@pytest.mark.parametrize("status", AckStatus, ids=lambda status: status.name)
def test_the_status_is_half_a_byte_beside_the_reference_of_the_sender(status: AckStatus) -> None:
    body = encode_acks([Ack(status, GUID, 7)])
    assert body[4:8] == bytes((status, 0, 0, 0))
    referring = body[:4] + bytes((0xF0 | status, 1, 2, 3)) + body[8:]
    assert parse_acks(referring) == [Ack(status, GUID, 7)]


ids = st.integers(-(2**31), 2**31 - 1)
guids = st.binary(min_size=16, max_size=16)
flags = st.integers(0, 15)
data = st.binary(max_size=40)
compressions = st.integers(0, 7)
schemas = st.integers(0, 2**16 - 1)
puts = st.builds(Put, ids, guids, flags, data, st.integers(0, 2**32 - 1), compressions, schemas)
subscriptions = st.lists(ids, min_size=1, max_size=4).map(tuple)
pushes = st.builds(Push, ids, guids, flags, data, subscriptions, compressions, schemas)
acks = st.builds(Ack, st.integers(0, 15), guids, ids)
confirms = st.builds(Confirmation, ids, guids, ids)


@given(st.lists(puts, min_size=1, max_size=4))
def test_puts_come_back(items: list[Put]) -> None:
    assert parse_puts(encode_puts(items)) == items
    assert parse_puts(memoryview(encode_puts(items))) == items


@given(st.lists(pushes, min_size=1, max_size=4))
def test_pushes_come_back(items: list[Push]) -> None:
    assert parse_pushes(encode_pushes(items)) == items


@given(pushes)
def test_a_push_for_one_subscription_is_written_alike_in_both_ways(push: Push) -> None:
    one = Push(
        push.queue,
        push.guid,
        push.flags,
        push.data,
        push.subscriptions[:1],
        push.compression,
        push.schema,
    )
    assert encode_pushes([one]) == encode_push(
        one.queue,
        one.guid,
        one.flags,
        one.data,
        one.subscriptions[0],
        one.compression,
        one.schema,
    )


@given(st.lists(acks, min_size=1, max_size=4))
def test_acknowledgements_come_back(items: list[Ack]) -> None:
    assert parse_acks(encode_acks(items)) == items


@given(st.lists(confirms, min_size=1, max_size=4))
def test_confirmations_come_back(items: list[Confirmation]) -> None:
    assert parse_confirms(encode_confirms(items)) == items


PARSERS: dict[str, tuple[Callable[[bytes], Sequence[object]], bytes]] = {
    "puts": (parse_puts, encode_puts([PUT, PUT])),
    "pushes": (parse_pushes, encode_pushes([PUSH, PUSH])),
    "acks": (parse_acks, encode_acks([ACK, ACK])),
    "confirms": (parse_confirms, encode_confirms([CONFIRM, CONFIRM])),
}


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_cut_anywhere_is_malformed(name: str) -> None:
    parse, body = PARSERS[name]
    header = 4 if name in ("acks", "confirms") else 0
    middle = header + (len(body) - header) // 2
    for end in range(len(body)):
        if end == middle:
            assert len(parse(body[:end])) == 1
        else:
            with pytest.raises(Malformed):
                parse(body[:end])


def message(words: int, layout: int, rest: str = "", *, is_put: bool = True) -> bytes:
    """A header, what follows it, and no more."""
    header = words.to_bytes(4, "big") + layout.to_bytes(4, "big") + bytes(4) + GUID
    return header + bytes(8 if is_put else 4) + bytes.fromhex(rest)


def test_a_longer_header_of_a_put_is_skipped() -> None:
    (put,) = parse_puts(message(11, 10, "aabbccdd 61626301"))
    assert put.data == b"abc"


def test_the_options_of_a_put_are_skipped() -> None:
    (put,) = parse_puts(message(12, 2 << 8 | 9, "08000002 61616101 61626301"))
    assert put.data == b"abc"


WRONG_PUTS = {
    "of no words": message(0, 9, "61626301"),
    "shorter than its header": message(9, 9),
    "a short header": message(9, 8, "61626301"),
    "no header": message(10, 0, "61626301"),
    "longer than the event": message(11, 9, "61626301"),
    "much longer": message(0x0FFFFFFF, 9, "61626301"),
    "options up to the end": message(10, 1 << 8 | 9, "61626301"),
    "options beyond the end": message(10, 0xFFFFFF << 8 | 9, "61626301"),
    "no padding": message(10, 9, "61626300"),
    "too much padding": message(10, 9, "61626305"),
    "bytes behind it": message(10, 9, "61626301 04040404"),
    "a byte behind it": message(10, 9, "61626301 04"),
}


@pytest.mark.parametrize("name", WRONG_PUTS)
def test_a_wrong_put_is_malformed(name: str) -> None:
    with pytest.raises(Malformed):
        parse_puts(WRONG_PUTS[name])


OPTIONS = {
    "none": ("", (0,)),
    "one id": ("04000002 00000001", (1,)),
    "two ids": ("04000003 00000001 00000002", (1, 2)),
    "an id with its attempts": ("0c400003 00000001 05000000", (1,)),
    "two of them": ("0c400005 00000001 05000000 00000002 80000000", (1, 2)),
    "longer entries": ("0c600004 00000001 05000000 00000009", (1,)),
    "packed attempts of the default": ("0e000005", (0,)),
    "a group, which is skipped": ("08000002 61616101 04000002 00000001", (1,)),
    "an unknown one": ("fc000002 00000009", (0,)),
    "a packed unknown one": ("fe000000 04000002 00000001", (1,)),
    "both kinds": ("04000002 00000001 0c400003 00000002 05000000", (2,)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_of_a_push_tell_its_subscriptions(name: str) -> None:
    option, expected = OPTIONS[name]
    words = len(bytes.fromhex(option)) // 4
    body = message(9 + words, words << 8 | 8, option + "61626301", is_put=False)
    assert parse_pushes(body) == [Push(0, GUID, 0, b"abc", expected)]


WRONG_OPTIONS = {
    "of no words": "04000000 00000001",
    "an unknown one of no words": "fc000000",
    "without ids": "04000001",
    "longer than the options": "04000003 00000001",
    "entries of no words": "0c000003 00000001 05000000",
    "half an entry": "0c400002 00000001",
    "one and a half": "0c400004 00000001 05000000 00000002",
    "twice": "04000002 00000001 04000002 00000001",
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_a_wrong_option_is_malformed(name: str) -> None:
    option = WRONG_OPTIONS[name]
    words = len(bytes.fromhex(option)) // 4
    body = message(9 + words, words << 8 | 8, option + "61626301", is_put=False)
    with pytest.raises(Malformed):
        parse_pushes(body)


def test_a_push_out_of_order_says_so() -> None:
    body = encode_push(3, GUID, OUT_OF_ORDER, b"abc", 0)
    assert body[0] == 0x40
    assert parse_pushes(body) == [Push(3, GUID, OUT_OF_ORDER, b"abc")]


def test_longer_headers_and_entries_are_skipped() -> None:
    longer = b"\x27" + bytes(7) + ACK_BYTES[12:] + bytes(4)
    assert parse_acks(longer) == [ACK]
    longer = b"\x27" + bytes(7) + CONFIRM_BYTES[12:] + bytes(4)
    assert parse_confirms(longer) == [CONFIRM]


@pytest.mark.parametrize("first", [0x06, 0x15, 0x10, 0x00, 0xF6, 0x17])
def test_a_wrong_header_of_entries_is_malformed(first: int) -> None:
    with pytest.raises(Malformed):
        parse_acks(bytes((first,)) + ACK_BYTES[9:])
    with pytest.raises(Malformed):
        parse_confirms(bytes((first,)) + CONFIRM_BYTES[9:])


@pytest.mark.parametrize("name", PARSERS)
def test_an_event_without_messages_is_malformed(name: str) -> None:
    parse, body = PARSERS[name]
    with pytest.raises(Malformed):
        parse(b"")
    with pytest.raises(Malformed):
        parse(body[:4])


def test_many_messages_are_read_in_one_walk() -> None:
    """A message of the least size is 40 bytes long: so many fit, and none is looked at twice."""
    smallest = message(10, 9, "04040404")
    assert len(parse_puts(smallest * 20_000)) == 20_000

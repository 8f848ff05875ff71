"""BER is written as BlazingMQ writes it, and read with every length that it may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.wire.bmq.codec.ber import (
    CONTEXT,
    DEPTH_MAX,
    SEQUENCE,
    BerReader,
    number,
    number_of,
    read,
    text,
    truth,
    wrap,
    write,
    write_number,
)
from headgate.wire.bmq.codec.control import (
    AdminCommand,
    Category,
    CloseQueueResponse,
    Expression,
    GuidInfo,
    HandleParameters,
    Status,
    StreamParameters,
    SubIdInfo,
)
from headgate.wire.bmq.codec.frames import Malformed
from headgate.wire.bmq.codec.steps import STEP_ITEMS, finished


def decoded(data: bytes, cls: type) -> object:
    reader = BerReader(data)
    found: object = finished(read(reader, reader.expect(), cls))
    reader.finish()
    return found


NUMBERS = {
    0: "00",
    1: "01",
    -1: "ff",
    127: "7f",
    128: "0080",
    -128: "80",
    -129: "ff7f",
    9999: "270f",
    999_999: "0f423f",
    -(2**31): "80000000",
    2**31: "0080000000",
    2**63 - 1: "7fffffffffffffff",
    -(2**63): "8000000000000000",
}


@pytest.mark.parametrize("item", NUMBERS)
def test_a_number_takes_as_few_bytes_as_it_can(item: int) -> None:
    content = bytes.fromhex(NUMBERS[item])
    assert write_number(CONTEXT, item) == bytes((0x80, len(content))) + content
    assert number(content) == item


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_come_back(item: int) -> None:
    encoded = write_number(CONTEXT | 3, item)
    assert number(encoded[2:]) == item
    assert len(encoded) == 3 or encoded[2:4] not in (b"\0\0", b"\xff\xff")


@pytest.mark.parametrize("content", ["", "00" * 9, "01" * 9, "ff" * 100])
def test_a_number_of_no_bytes_or_of_more_than_eight_is_malformed(content: str) -> None:
    with pytest.raises(Malformed):
        number(bytes.fromhex(content))


def test_anything_but_zero_is_true() -> None:
    assert [truth(b"\0"), truth(b"\1"), truth(b"\xff")] == [False, True, True]
    for content in (b"", b"\0\1"):
        with pytest.raises(Malformed):
            truth(content)


def test_a_text_is_utf_8() -> None:
    assert text("é".encode()) == "é"
    with pytest.raises(Malformed):
        text(b"\xff")


@pytest.mark.parametrize("size", [0, 127, 128, 255, 256, 65_535, 65_536])
def test_long_texts_say_how_long_their_length_is(size: int) -> None:
    encoded = finished(write(SEQUENCE, AdminCommand("x" * size)))
    assert decoded(encoded, AdminCommand) == AdminCommand("x" * size)
    length = encoded[3 : len(encoded) - size - 2]
    if size < 128:
        assert length == bytes((size,))
    else:
        assert length == bytes((0x80 | len(length) - 1,)) + size.to_bytes(len(length) - 1, "big")
        assert length[1]


def test_parts_have_indefinite_lengths() -> None:
    assert finished(write(SEQUENCE, CloseQueueResponse())) == bytes.fromhex("30800000")
    assert finished(write(SEQUENCE, SubIdInfo(1, "foo"))) == bytes.fromhex(
        "3080 800101 8103666f6f 0000"
    )


def test_parts_of_definite_length_are_read() -> None:
    assert decoded(bytes.fromhex("3008 800101 8103666f6f"), SubIdInfo) == SubIdInfo(1, "foo")
    assert decoded(bytes.fromhex("30820008 800101 8103666f6f"), SubIdInfo) == SubIdInfo(1, "foo")
    handle = HandleParameters("bb", 7, SubIdInfo(1, "foo"), 2)
    data = bytes.fromhex("3014 80026262 810107 a208 800101 8103666f6f 830102")
    assert decoded(data, HandleParameters) == handle


def test_an_absent_part_is_not_written() -> None:
    handle = HandleParameters("bb", 7, None, 2)
    encoded = finished(write(SEQUENCE, handle))
    assert encoded == bytes.fromhex("3080 80026262 810107 830102 840100 850100 860100 0000")
    assert decoded(encoded, HandleParameters) == handle


def test_an_empty_array_is_written() -> None:
    encoded = finished(write(SEQUENCE, StreamParameters("a", ())))
    assert encoded == bytes.fromhex("3080 800161 a1800000 0000")
    assert decoded(encoded, StreamParameters) == StreamParameters("a", ())
    assert decoded(bytes.fromhex("3080 800161 0000"), StreamParameters) == StreamParameters("a", ())


def test_fields_with_a_default_may_be_absent() -> None:
    assert decoded(bytes.fromhex("30800000"), GuidInfo) == GuidInfo("", 0)
    assert decoded(bytes.fromhex("3000"), Expression) == Expression(0, "")
    assert decoded(bytes.fromhex("3003 8001fa"), Status) == Status(Category.REFUSED, 0, "")


def test_fields_may_come_in_any_order() -> None:
    assert decoded(bytes.fromhex("3008 8103666f6f 800101"), SubIdInfo) == SubIdInfo(1, "foo")


UNKNOWN = {
    "a value": "850100",
    "an empty value": "8500",
    "a part": "a5 80 8001 01 a1 80 0000 0000",
    "a part of definite length": "a5 07 800101 a1 02 8000",
    "one of another class": "0401 78",
    "a long tag": "9f8f0f 0178",
    "a long tag of a part": "bf8f0f 80 0000",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_fields_are_skipped(name: str) -> None:
    data = bytes.fromhex("3080 800101" + UNKNOWN[name] + "8103666f6f 0000")
    assert decoded(data, SubIdInfo) == SubIdInfo(1, "foo")


WRONG = {
    "nothing": "",
    "half a tag": "30",
    "no elements": "1000",
    "a length over the end": "3009 800101 8103666f6f",
    "a long length over the end": "3084ffffffff 800101",
    "a length of five bytes": "308500000008 800101 8103666f6f",
    "a reserved length": "30ff 800101",
    "a cut length": "3082 00",
    "a value over its part": "3008 800101 8104666f6f",
    "a part over its part": "300a a280 800101 0000 a108 0000",
    "an unknown part over its part": "3006 a506 800101 0000",
    "a value of indefinite length": "3080 8080 0000 0000",
    "a number made of elements": "3080 a080 800101 0000 0000",
    "a text made of elements": "3080 a180 800161 0000 0000",
    "no end": "3080 800101",
    "half an end": "3080 800101 00",
    "an end of one byte": "3080 800101 0001",
    "an end where none should be": "3005 800101 0000",
    "a number twice": "3080 800101 800101 0000",
    "a number outside of its range": "3080 80050080000000 0000",
    "a text that is not UTF-8": "3080 8101ff 0000",
    "bytes behind it": "3000 00",
    "an end behind it": "3000 0000",
    "an element behind it": "3000 3000",
    "an endless tag": "3080 9f" + "ff" * 20,
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_elements_are_malformed(name: str) -> None:
    with pytest.raises(Malformed):
        decoded(bytes.fromhex(WRONG[name]), SubIdInfo)


def test_an_array_holds_parts_only() -> None:
    with pytest.raises(Malformed, match="array"):
        decoded(bytes.fromhex("3080 a180 800100 0000 0000"), StreamParameters)
    with pytest.raises(Malformed):
        decoded(bytes.fromhex("3080 8103666f6f 0000"), StreamParameters)


def test_a_part_without_a_field_that_it_must_have_is_malformed() -> None:
    with pytest.raises(Malformed, match="Status without category"):
        decoded(bytes.fromhex("30800000"), Status)


def test_a_number_that_no_enumeration_has_is_malformed() -> None:
    with pytest.raises(Malformed, match="category"):
        decoded(bytes.fromhex("3003 800101"), Status)


def nested(depth: int) -> bytes:
    """An unknown field of this depth."""
    return wrap(SEQUENCE, b"\xa5\x80" * depth + b"\0\0" * depth)


def test_unknown_elements_are_nested_up_to_a_depth() -> None:
    assert decoded(nested(DEPTH_MAX - 1), GuidInfo) == GuidInfo()
    for depth in (DEPTH_MAX, 100_000):
        with pytest.raises(Malformed, match="too deeply"):
            decoded(nested(depth), GuidInfo)
    with pytest.raises(Malformed, match="too deeply"):
        decoded(b"\x30\x80" + b"\xa5\x80" * 1_000_000, GuidInfo)


def test_many_unknown_elements_are_passed_over_in_one_walk() -> None:
    data = wrap(SEQUENCE, b"\x85\x00" * 100_000)
    assert decoded(data, GuidInfo) == GuidInfo()


@pytest.mark.parametrize(
    "inside",
    [b"\x85\x00" * 100_000, wrap(0xA5, b"\x85\x00" * 100_000), wrap(0xA5, b"\xa1\x00" * 100_000)],
    ids=["fields", "a part", "parts of a part"],
)
def test_others_have_their_turn_in_the_midst_of_a_long_walk(inside: bytes) -> None:
    reader = BerReader(wrap(SEQUENCE, inside))
    steps = sum(1 for _ in read(reader, reader.expect(), GuidInfo))
    assert steps >= 100_000 // (2 * STEP_ITEMS)


def test_tags_of_fields_are_short_and_of_one_class() -> None:
    assert [number_of(tag) for tag in (0x80, 0xA1, 0x9E, 0xBF, 0x9F, 0x30, 0x04, 0xC1)] == [
        0,
        1,
        30,
        None,
        None,
        None,
        None,
        None,
    ]

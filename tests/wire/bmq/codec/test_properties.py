"""Properties are read in both styles, and written in the old one with their types."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.message import Declared, Properties
from headgate.core.model.property_type import PropertyType
from headgate.wire.bmq.codec.frames import pad
from headgate.wire.bmq.codec.properties import BadData, encode_area, parse_area, types
from tests.support.bmq_examples import AREA_NEW, AREA_OLD, PROPERTIES

VALUES: dict[PropertyType, st.SearchStrategy[Any]] = {
    PropertyType.BOOL: st.booleans(),
    PropertyType.CHAR: st.integers(-(2**7), 2**7 - 1),
    PropertyType.SHORT: st.integers(-(2**15), 2**15 - 1),
    PropertyType.INT32: st.integers(-(2**31), 2**31 - 1),
    PropertyType.INT64: st.integers(-(2**63), 2**63 - 1),
    PropertyType.STRING: st.text(max_size=10),
    PropertyType.BINARY: st.binary(max_size=10),
}

SIZES = {"BOOL": 1, "CHAR": 1, "SHORT": 2, "INT32": 4, "INT64": 8}


def named(kind: PropertyType) -> st.SearchStrategy[tuple[PropertyType, Any]]:
    return VALUES[kind].map(lambda item: (kind, item))


typed = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.sampled_from(PropertyType).flatmap(named),
    min_size=1,
    max_size=6,
)


def declared(items: dict[str, tuple[PropertyType, Any]]) -> Declared:
    return Declared(
        {name: item for name, (_, item) in items.items()},
        bytes(kind for kind, _ in items.values()),
    )


def in_new_style(area: bytes) -> bytes:
    """The same properties, with places of names for lengths of values."""
    header = Struct(">IH")
    count = area[5]
    headers = b""
    place = 0
    for at in range(6, 6 + 6 * count, 6):
        word, name = header.unpack_from(area, at)
        headers += header.pack(word >> 26 << 26 | place, name)
        place += name + (word & 0x3FFFFFF)
    return area[:6] + headers + area[6 + 6 * count :]


@pytest.mark.parametrize("is_new", [False, True], ids=["old", "new"])
def test_an_area_has_its_bytes(is_new: bool) -> None:
    """S003-4."""
    area = AREA_NEW if is_new else AREA_OLD
    assert in_new_style(AREA_OLD) == AREA_NEW
    for data in (area, area + b"hi", memoryview(area + b"hi")):
        found, size = parse_area(data, is_new)
        assert found == PROPERTIES
        assert list(found) == ["s", "x"]
        assert isinstance(found, Declared)
        assert found.types == bytes((PropertyType.STRING, PropertyType.INT64))
        assert size == len(area)
    assert encode_area(PROPERTIES) == AREA_OLD
    assert encode_area(found) == AREA_OLD


EXAMPLES = {
    PropertyType.BOOL: (True, "01"),
    PropertyType.CHAR: (-1, "ff"),
    PropertyType.SHORT: (-2, "fffe"),
    PropertyType.INT32: (70_000, "00011170"),
    PropertyType.INT64: (-(2**63), "8000000000000000"),
    PropertyType.STRING: ("é", "c3a9"),
    PropertyType.BINARY: (b"\xff\x00", "ff00"),
}


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.name)
def test_every_type_has_its_bytes(kind: PropertyType) -> None:
    """BMQ-14."""
    item, encoded = EXAMPLES[kind]
    content = bytes.fromhex(encoded)
    headers = (kind << 26 | len(content)).to_bytes(4, "big") + b"\0\1"
    size = 6 + 6 + 1 + len(content)
    area = pad(bytes((0x1B, 0, 0, size // 4 + 1, 0, 1)) + headers + b"p" + content)
    found, _ = parse_area(area, False)
    assert found == {"p": item}
    assert type(found["p"]) is type(item)
    assert encode_area(Declared({"p": item}, bytes((kind,)))) == area
    assert parse_area(area.replace(headers, bytes((kind << 2, 0, 0, 0, 0, 1))), True)[0] == found


def test_undeclared_values_have_the_widest_type() -> None:
    properties: Properties = {"a": False, "b": 1, "c": "", "d": b""}
    assert list(types(properties)) == [1, 5, 6, 7]
    found, _ = parse_area(encode_area(properties), False)
    assert found == properties
    assert [type(item) for item in found.values()] == [bool, int, str, bytes]


def test_no_properties_have_no_area() -> None:
    assert encode_area({}) == b""
    assert encode_area(Declared({}, b"")) == b""


@given(typed, st.binary(max_size=5))
def test_properties_come_back_in_both_styles(
    items: dict[str, tuple[PropertyType, Any]], rest: bytes
) -> None:
    properties = declared(items)
    area = encode_area(properties)
    assert len(area) % 4 == 0
    for data, is_new in ((area, False), (in_new_style(area), True)):
        found, size = parse_area(data + rest, is_new)
        assert list(found.items()) == list(properties.items())
        assert isinstance(found, Declared)
        assert found.types == properties.types
        assert size == len(area)
        assert encode_area(found) == area


@pytest.mark.parametrize(
    "area",
    [
        AREA_OLD,
        AREA_NEW,
        bytes.fromhex("24000005 0001 0000 1800000200010000 736162 01"),  # longer headers
        bytes.fromhex("1b000004 0001 04000001 0001 6202 0202"),  # a boolean of two
        bytes.fromhex("1b000005 0001 18000003 0001 73616263 07070704"),  # other padding
    ],
    ids=["old", "new", "long", "boolean", "padding"],
)
def test_what_is_written_again_is_as_if_nobody_had_read_it(area: bytes) -> None:
    """Bytes are kept only if the same would be written."""
    found, _ = parse_area(area, area == AREA_NEW)
    assert encode_area(found) == encode_area(Declared(found, found.types))


def test_what_is_kept_of_an_area_is_the_area() -> None:
    assert parse_area(AREA_OLD + b"rest", False)[0].written == AREA_OLD
    assert parse_area(AREA_NEW, True)[0].written is None


def test_longer_headers_are_skipped() -> None:
    area = bytes.fromhex("24000005 0001 0000 1800000200010000 736162 01")
    assert parse_area(area, False) == ({"s": "ab"}, 20)


@pytest.mark.parametrize("is_new", [False, True], ids=["old", "new"])
def test_an_area_that_is_cut_anywhere_is_bad(is_new: bool) -> None:
    area = AREA_NEW if is_new else AREA_OLD
    for end in range(len(area)):
        with pytest.raises(BadData):
            parse_area(area[:end], is_new)


def one(
    word: str = "18000005", name: str = "0001", content: str = "7361626162", area: str = "1b000005"
) -> bytes:
    """An area of one property, of which something is wrong."""
    return bytes.fromhex(area + "0001" + word + name + content).ljust(20, b"\3")


BAD = {
    "a length over the end": (one("1bffffff"), "lengths"),
    "a length short of the end": (one("18000003"), "lengths"),
    "a name over the end": (one("18000005", "0fff"), "lengths"),
    "type 0": (one("00000004"), "type 0"),
    "type 8": (one("20000004"), "type 8"),
    "type 31": (one("7c000004"), "type 31"),
    "a name of no bytes": (one("18000005", "0000"), "without a name"),
    "a name that is not UTF-8": (one("18000004", content="ff61626162"), "UTF-8"),
    "a text that is not UTF-8": (one("18000004", content="73616261ff"), "UTF-8"),
    "no properties": (bytes.fromhex("1b000002 0000 0202"), "header"),
    "a short header": (one(area="1a000005"), "header"),
    "a header of none": (one(area="18000005"), "header"),
    "short headers of properties": (one(area="13000005"), "header"),
    "headers of none": (one(area="03000005"), "header"),
    "headers over the end": (bytes.fromhex("1b000005 00ff") + one()[6:], "hold their headers"),
    "headers in the padding": (bytes.fromhex("1b000003 0001 180000000001"), "hold their headers"),
    "an area over the end": (one(area="1bffffff"), "cut off"),
    "an area of none": (one(area="1b000000"), "hold their headers"),
    "padding of none": (one()[:-1] + b"\0", "padding"),
    "padding of five": (one()[:-1] + b"\5", "padding"),
    "two of one name": (
        bytes.fromhex("1b0000070002 180000020001 180000020001 736162 736162 04040404"),
        "two properties",
    ),
}


def test_what_is_made_wrong_was_right() -> None:
    assert parse_area(one("18000004"), False) == ({"s": "abab"}, 20)


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_area_is_bad(name: str) -> None:
    area, reason = BAD[name]
    with pytest.raises(BadData, match=reason):
        parse_area(area, False)


@pytest.mark.parametrize("kind", SIZES)
def test_a_value_has_the_size_of_its_type(kind: str) -> None:
    number = PropertyType[kind] << 26
    for size in range(10):
        total = 6 + 6 + 1 + size
        area = pad(
            bytes((0x1B, 0, 0, total // 4 + 1, 0, 1))
            + (number | size).to_bytes(4, "big")
            + b"\0\1p"
            + bytes(size)
        )
        if size == SIZES[kind]:
            assert parse_area(area, False)[0] == {"p": 0}
        else:
            with pytest.raises(BadData, match=kind):
                parse_area(area, False)


PLACES = {
    "the first is not at the beginning": (1, 3),
    "the second in the name of the first": (0, 0),
    "the second over the end": (0, 13),
    "far over the end": (0, 0x3FFFFFF),
    "the value of the second has another size": (0, 4),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_property_out_of_its_place_is_bad(name: str) -> None:
    first, second = PLACES[name]
    headers = b"".join(
        (kind << 26 | place).to_bytes(4, "big") + b"\0\1"
        for kind, place in ((PropertyType.STRING, first), (PropertyType.INT64, second))
    )
    with pytest.raises(BadData):
        parse_area(AREA_NEW[:6] + headers + AREA_NEW[18:], True)


def test_the_most_properties_fit() -> None:
    most: Properties = {f"p{n}": n for n in range(255)}
    assert parse_area(encode_area(most), False)[0] == most


UNWRITABLE: dict[str, Properties] = {
    "too many": {f"p{n}": n for n in range(256)},
    "without a name": {"": 1},
    "of a long name": {"é" * 2048: 1},
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_properties_that_no_area_can_hold_are_bad(name: str) -> None:
    """They may come from another wire, which has names of any length."""
    with pytest.raises(BadData):
        encode_area(UNWRITABLE[name])


def test_the_longest_name_fits() -> None:
    longest: Properties = {"n" * 4095: "x"}
    assert parse_area(encode_area(longest), False)[0] == longest

"""The data of a message is opened whatever its style and compression, and no bomb goes off."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.message import NO_PROPERTIES, Properties
from headgate.errors import LimitReached
from headgate.wire.bmq.codec.payload import BadData, Compression, checksum, close_data, open_data
from tests.support.bmq_examples import AREA_NEW, AREA_OLD, PROPERTIES

MAX = 1000


def opened(
    data: bytes | memoryview,
    compression: int = 0,
    schema: int = 0,
    *,
    has_properties: bool = True,
    bytes_max: int = MAX,
) -> tuple[Properties, bytes]:
    return open_data(
        data,
        has_properties=has_properties,
        compression=compression,
        schema=schema,
        bytes_max=bytes_max,
    )


def test_the_checksum_is_that_of_the_example() -> None:
    assert checksum(AREA_OLD + b"hi") == 0xD78BC27A
    assert checksum(memoryview(AREA_OLD + b"hi")) == 0xD78BC27A


def test_the_checksum_is_castagnoli() -> None:
    assert checksum(b"123456789") == 0xE3069283


STYLES = {
    "old": (AREA_OLD + b"hi", 0, 0),
    "old, compressed": (zlib.compress(AREA_OLD + b"hi"), 1, 0),
    "new": (AREA_NEW + b"hi", 0, 1),
    "new, compressed": (AREA_NEW + zlib.compress(b"hi"), 1, 1),
    "new of a known schema": (AREA_NEW + b"hi", 0, 2),
    "new of a recycled schema": (AREA_NEW + b"hi", 0, 0xFFFF),
}


@pytest.mark.parametrize("name", STYLES)
def test_every_style_is_opened(name: str) -> None:
    """BMQ-71."""
    data, compression, schema = STYLES[name]
    assert opened(data, compression, schema) == (PROPERTIES, b"hi")
    assert opened(memoryview(data), compression, schema) == (PROPERTIES, b"hi")


@pytest.mark.parametrize("schema", [0, 1])
def test_without_properties_all_is_payload(schema: int) -> None:
    properties, body = opened(AREA_OLD, 0, schema, has_properties=False)
    assert properties is NO_PROPERTIES
    assert body == AREA_OLD
    data = zlib.compress(AREA_OLD)
    assert opened(data, 1, schema, has_properties=False) == ({}, AREA_OLD)


def test_an_empty_payload_is_one() -> None:
    assert opened(b"", has_properties=False) == ({}, b"")
    assert opened(AREA_OLD) == (PROPERTIES, b"")


def test_data_is_closed_in_the_old_style() -> None:
    assert close_data(PROPERTIES, b"hi") == AREA_OLD + b"hi"
    assert close_data({}, b"hi") == b"hi"
    compressed = close_data(PROPERTIES, b"hi", Compression.ZLIB)
    assert zlib.decompress(compressed) == AREA_OLD + b"hi"


properties = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.binary(max_size=5),
    max_size=4,
)


@given(properties, st.binary(max_size=50), st.sampled_from(Compression))
def test_what_is_closed_opens(found: Properties, body: bytes, compression: Compression) -> None:
    data = close_data(found, body, compression)
    assert opened(data, compression, has_properties=bool(found)) == (found, body)


@pytest.mark.parametrize("name", STYLES)
def test_data_that_is_cut_anywhere_is_bad_or_a_shorter_payload(name: str) -> None:
    data, compression, schema = STYLES[name]
    for end in range(len(data)):
        if not compression and end >= len(AREA_OLD):
            assert opened(data[:end], compression, schema) == (PROPERTIES, b"hi"[: end - 32])
        else:
            with pytest.raises(BadData):
                opened(data[:end], compression, schema)


BAD = {
    "no zlib": (b"hi there", 1, 0),
    "bytes behind it": (zlib.compress(AREA_OLD) + b"x", 1, 0),
    "a wrong checksum": (zlib.compress(AREA_OLD)[:-1] + b"x", 1, 0),
    "a dictionary": (bytes.fromhex("78bb00000000"), 1, 0),
    "a compressed area of the new style": (zlib.compress(AREA_NEW + b"hi"), 1, 1),
    "a plain area of the old style": (AREA_OLD + zlib.compress(b"hi"), 1, 0),
    "compression 2": (AREA_OLD, 2, 0),
    "compression 7": (AREA_OLD, 7, 0),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_data_is_bad(name: str) -> None:
    data, compression, schema = BAD[name]
    with pytest.raises(BadData):
        opened(data, compression, schema)


def test_the_limit_is_what_may_come_out() -> None:
    assert opened(zlib.compress(bytes(MAX)), 1, has_properties=False) == ({}, bytes(MAX))
    with pytest.raises(LimitReached) as reached:
        opened(zlib.compress(bytes(MAX + 1)), 1, has_properties=False)
    assert (reached.value.name, reached.value.limit) == ("body_bytes", MAX)


def test_a_bomb_is_inflated_up_to_the_limit_only() -> None:
    """64 MiB in 65 kB, and a bomb in a bomb, which nobody looks into."""
    bomb = zlib.compress(bytes(2**26), 9)
    assert len(bomb) < 70_000
    for data, schema in ((bomb, 0), (AREA_NEW + bomb, 1)):
        with pytest.raises(LimitReached):
            opened(data, 1, schema)
    assert opened(zlib.compress(bomb), 1, has_properties=False, bytes_max=2**17)[1] == bomb


def test_a_limit_of_nothing_is_none_that_is_unlimited() -> None:
    with pytest.raises(LimitReached):
        opened(zlib.compress(b"x"), 1, has_properties=False, bytes_max=0)
    assert opened(zlib.compress(b""), 1, has_properties=False, bytes_max=0) == ({}, b"")

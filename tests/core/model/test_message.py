"""Messages that no queue could take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.ids import MessageId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message, Properties, check
from headgate.errors import BadMessage, HeadgateError
from headgate.expr.types import INT64_MAX, INT64_MIN


def message(properties: Properties) -> Message:
    return Message(MessageId(b"m"), b"body", 0.0, properties)


@pytest.mark.parametrize("number", [INT64_MIN - 1, INT64_MAX + 1, 10**100, -(10**100)])
def test_an_integer_outside_64_bits_is_refused(number: int) -> None:
    with pytest.raises(BadMessage, match="'x' is outside the signed 64-bit range"):
        check(message({"x": number}), Limits())


@pytest.mark.parametrize("properties", [{"x": "\udc80"}, {"\ud800": 1}])
def test_text_that_is_not_utf8_is_refused_by_a_name_that_can_be_printed(
    properties: Properties,
) -> None:
    with pytest.raises(BadMessage, match="is not valid UTF-8") as caught:
        check(message(properties), Limits())
    str(caught.value).encode()


@pytest.mark.parametrize("item", [INT64_MIN, INT64_MAX, True, "", "\0", "größe", b"", b"\xff\0", 0])
def test_every_other_value_is_taken(item: bool | int | str | bytes) -> None:
    check(message({"x": item}), Limits())


@pytest.mark.parametrize("name", ["", "n" * 4096, "é" * 2048])
def test_a_name_that_no_wire_can_carry_is_refused(name: str) -> None:
    with pytest.raises(BadMessage, match="1 to 4095 bytes"):
        check(message({name: 1}), Limits())
    check(message({"n" * 4095: 1}), Limits())


def test_size_counts_body_names_and_values_in_bytes() -> None:
    assert message({}).size == 4
    assert message({"é": "é", "n": 1, "b": b"123", "t": True}).size == 4 + 2 + 2 + 9 + 4 + 9


values = st.booleans() | st.integers() | st.text(st.characters()) | st.binary()


@given(st.dictionaries(st.text(st.characters()), values))
def test_any_properties_are_taken_or_refused_and_nothing_else(properties: Properties) -> None:
    try:
        check(message(properties), Limits())
    except HeadgateError:
        return
    assert message(properties).size >= 4

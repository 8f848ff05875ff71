"""Bytes that an application hands over."""

from __future__ import annotations

import pytest

from headgate.agent.given_bytes import own_bytes


@pytest.mark.parametrize("given", [b"hello", bytearray(b"hello"), memoryview(b"hello")])
def test_bytes_of_any_kind_are_taken(given: object) -> None:
    assert type(own_bytes(given, "a message")) is bytes
    assert own_bytes(given, "a message") == b"hello"


def test_what_is_taken_does_not_change_with_what_was_given() -> None:
    given = bytearray(b"hello")
    taken = own_bytes(given, "a message")
    given[:] = b"other"
    assert taken == b"hello"


@pytest.mark.parametrize("given", ["hello", None, 5, [104]])
def test_anything_else_is_refused_with_advice(given: object) -> None:
    with pytest.raises(TypeError, match="has to be encoded"):
        own_bytes(given, "a message")

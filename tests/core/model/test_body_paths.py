"""Properties out of bodies. Check 6 of docs/design/streams.md."""

from __future__ import annotations

import json
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.body_paths import (
    FASTSTREAM,
    HEADERS_MAX,
    READ_BYTES,
    BodyProperties,
    open_envelope,
    read_body,
    read_path,
)

MOST = 1 << 18


def read(body: bytes, envelope: str = "", **paths: str) -> BodyProperties:
    found = {name: read_path(path) for name, path in paths.items()}
    return read_body(body, found, envelope, MOST)


def envelope(payload: bytes, **headers: str) -> bytes:
    """A message as FastStream writes it."""
    texts = [text.encode() for pair in headers.items() for text in pair]
    inside = b"".join(pack(">H", len(text)) + text for text in texts)
    return (
        b"\x89BIN\r\n\x1a\n"
        + pack(">HII", 1, 18, 20 + len(inside))
        + pack(">H", len(headers))
        + inside
        + payload
    )


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("task_name", ("task_name",)),
        ("kwargs.amount:int64", ("kwargs", "amount")),
        ("args[0]", ("args", 0)),
        ("[1].x", (1, "x")),
        ("a[1][2].b c:string", ("a", 1, 2, "b c")),
    ],
)
def test_paths(text: str, steps: tuple[str | int, ...]) -> None:
    assert read_path(text).steps == steps


@pytest.mark.parametrize(
    "text", ["", ".a", "a.", "a..b", "a.[0]", "a]", "a[0]b", "a[x]", "a:float", "a:binary", ":bool"]
)
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match=r"path|type"):
        read_path(text)


def test_values_of_json() -> None:
    body = json.dumps(
        {"i": 5, "t": "x", "b": True, "f": 1.5, "n": None, "l": [7], "o": {"a": 1}, "big": 2**64}
    ).encode()
    found = read(
        body, i="i", t="t", b="b", f="f", n="n", none="none", l0="l[0]", l1="l[1]", oa="o.a",
        big="big", deep="t.x.y",
    )  # fmt: skip
    assert found.values == {
        "i": 5, "t": "x", "b": True, "f": "1.5", "l0": 7, "oa": 1, "big": str(2**64)
    }  # fmt: skip
    assert (found.is_unread, found.misfits) == (False, 0)


def test_a_number_stays_as_it_was_written() -> None:
    assert read(b'{"a": 1.50, "b": 1e3}', a="a", b="b").values == {"a": "1.50", "b": "1e3"}


def test_lists_and_objects_are_no_values() -> None:
    found = read(b'{"a": [], "b": {}}', a="a", b="b:string")
    assert (found.values, found.misfits) == ({}, 2)


def test_declared_types() -> None:
    body = b'{"i": 300, "t": "300", "b": false}'
    found = read(body, i="i:short", s="i:string", bs="b:string", b="b:bool", t="t:string")
    assert found.values == {"i": 300, "s": "300", "bs": "false", "b": False, "t": "300"}
    found = read(body, a="i:char", b="t:int64", c="b:int32", d="i:bool", e="t:bool")
    assert (found.values, found.misfits) == ({}, 5)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no",
        b"{",
        b"\xff",
        b'{"a": NaN}',
        b"[" * 100_000,
        b'"' + b"x" * MOST + b'"',
        b"1" * 5000,
    ],
)
def test_a_body_that_cannot_be_read(body: bytes) -> None:
    found = read(body, a="a")
    assert (found.is_unread, found.values) == (True, {})


def test_what_would_be_too_much_is_left_out() -> None:
    body = json.dumps({"a": "x" * READ_BYTES, "b": "y"}).encode()
    found = read(body, a="a", b="b")
    assert (found.values, found.misfits) == ({"b": "y"}, 1)


def test_half_a_character_is_left_out() -> None:
    found = read(rb'{"a": "\ud800"}', a="a")
    assert (found.values, found.misfits) == ({}, 1)


def test_an_envelope_of_faststream() -> None:
    body = envelope(b'{"kind": "express"}', correlation_id="c", **{"content-type": "json"})
    found = read(body, FASTSTREAM, kind="kind")
    assert found.values == {"correlation_id": "c", "content-type": "json", "kind": "express"}
    assert not found.is_unread
    assert read(body, FASTSTREAM).values == {"correlation_id": "c", "content-type": "json"}


def test_an_envelope_that_is_cut_anywhere() -> None:
    whole = envelope(b'{"kind": "express"}', correlation_id="c")
    for length in range(len(whole)):
        found = read(whole[:length], FASTSTREAM, kind="kind")
        assert found.is_unread
        assert "kind" not in found.values


def test_an_envelope_without_json_still_has_headers() -> None:
    found = read(envelope(b"text", a="b"), FASTSTREAM, kind="kind")
    assert (found.is_unread, found.values) == (True, {"a": "b"})


def test_an_envelope_has_headers_up_to_a_number() -> None:
    headers = {f"h{n}": "x" for n in range(HEADERS_MAX + 1)}
    opened = open_envelope(envelope(b"", **headers))
    assert opened is not None
    assert len(opened[0]) == HEADERS_MAX


@given(st.binary(max_size=60))
def test_no_body_is_an_exception(body: bytes) -> None:
    """Check 77."""
    read(body, FASTSTREAM, a="a.b[0]")
    read(b"\x89BIN\r\n\x1a\n\0\1" + body, FASTSTREAM, a="a.b[0]")
    read(body, a="a.b[0]")

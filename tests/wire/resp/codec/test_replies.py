"""Values to bytes, in both versions of the protocol."""

from __future__ import annotations

import pytest

from headgate.wire.resp.codec.replies import (
    NOTHING,
    OK,
    CommandError,
    Flags,
    NoArray,
    PushReply,
    Reply,
    Several,
    Verbatim,
    encode,
    error,
    integers,
    text_of,
)


@pytest.mark.parametrize(
    ("reply", "old", "new"),
    [
        (OK, b"+OK\r\n", None),
        (7, b":7\r\n", None),
        (-1, b":-1\r\n", None),
        (5000, b":5000\r\n", None),
        (b"a\r\n\0", b"$4\r\na\r\n\0\r\n", None),
        ("text", b"$4\r\ntext\r\n", None),
        (None, b"$-1\r\n", b"_\r\n"),
        (NoArray(), b"*-1\r\n", b"_\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (False, b":0\r\n", b"#f\r\n"),
        (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        ([1, b"a"], b"*2\r\n:1\r\n$1\r\na\r\n", None),
        ((), b"*0\r\n", None),
        ({"k": 1}, b"*2\r\n$1\r\nk\r\n:1\r\n", b"%1\r\n$1\r\nk\r\n:1\r\n"),
        (Flags(("fast",)), b"*1\r\n+fast\r\n", b"~1\r\n+fast\r\n"),
        (PushReply((b"x", 1)), b"*2\r\n$1\r\nx\r\n:1\r\n", b">2\r\n$1\r\nx\r\n:1\r\n"),
        (Verbatim("a\nb"), b"$3\r\na\nb\r\n", b"=7\r\ntxt:a\nb\r\n"),
        (Several((1, 2)), b":1\r\n:2\r\n", None),
        (NOTHING, b"", None),
        (CommandError("ERR no"), b"-ERR no\r\n", None),
        ([CommandError("ERR no"), None], b"*2\r\n-ERR no\r\n$-1\r\n", b"*2\r\n-ERR no\r\n_\r\n"),
    ],
)
def test_a_value_has_its_bytes_in_both_versions(
    reply: Reply, old: bytes, new: bytes | None
) -> None:
    """RESP-31, S002-53."""
    assert encode(reply, 2) == old
    assert encode(reply, 3) == (old if new is None else new)


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    """RESP-12."""
    assert error("ERR a\r\nb\nc") == b"-ERR a  b c\r\n"
    assert error(f"ERR {text_of(bytes(range(128, 256)))}") == b"-ERR %b\r\n" % bytes(
        range(128, 256)
    )


def test_many_integers_are_as_many_replies() -> None:
    assert integers([0, 5, 1023]) == b":0\r\n:5\r\n:1023\r\n"
    assert integers([1, 5000]) == b":1\r\n:5000\r\n"
